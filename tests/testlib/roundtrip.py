"""The way of git commits through Mercurial, and who comes back.

git pushes them to a server. Stock hg clones that, and has nothing but changesets.
Another server exports the clone, and git fetches from there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mercurial import error, pathutil, scmutil, subrepoutil, ui as uimod

from .environment import HG, captured, git
from .pushing import pushable
from .webserver import ON, serving

_FULLY = "refs/heads/*:refs/heads/*"
#: How long requests wait for an export; on a busy machine one takes its time.
_PATIENT = "--config=amalgam.serve.queue-timeout=600"
_ANSWER = re.compile(r"^!\t[^\t]*:(\S+)\t\[[^\]]*\] \((.*)\)$")
#: Stock hg says this of well-formed subrepositories, too: of those of hg that nobody
#: cloned, and of those of git, which it does not allow. It ends with 0.
_OF_SUBREPOSITORIES = re.compile(
    rb"^\d+: repository [^\0]*? not found\n"
    rb"|^\.hgsubstate is corrupt in revision [0-9a-f]{12}\n",
    re.MULTILINE,
)


@dataclass
class Returned:
    """What became of commits."""

    refused: dict[str, str] = field(default_factory=dict)
    """Sentence of the server by oid."""
    problems: list[str] = field(default_factory=list)
    """What came back otherwise, and what Mercurial finds wrong."""
    accepted: int = 0


def travel(
    place: Path,
    source: Path,
    oids: Sequence[str],
    *options: str,
    client: Path = HG,
) -> Returned:
    """Push commits of ``source``, a ref each, and fetch them from another server.

    ``options`` are those of both servers. ``client`` is the stock hg between them.
    """
    found = Returned()
    if not oids:
        return found
    names = {f"refs/heads/c{at}": oid for at, oid in enumerate(oids)}
    options = (*options, _PATIENT)
    with pushable(place, *options) as server:
        # else the branch default would have to be the main line
        server.hg("bookmark", "-r", "tip", "@")
        refs = [f"+{oid}:{name}" for name, oid in names.items()]
        command = ["git", "push", "--porcelain", server.web.url, *refs]
        pushed = captured(command, source)
        said = pushed.stdout.decode(errors="replace")
        for line in said.splitlines():
            if match := _ANSWER.match(line):
                found.refused[names[match[1]]] = match[2]
        errors = pushed.stderr.decode(errors="replace")
        if (pushed.returncode and not found.refused) or "unpacker error" in said:
            found.problems.append(errors)
            return found
        stay = {name: oid for name, oid in names.items() if oid not in found.refused}
        found.accepted = len(stay)
        _fetched(place / "first.git", server.web.url, stay, found)
        copy = place / "copy"
        clone = [client, "clone", "-qU", server.web.url, copy]
        done = captured([str(it) for it in clone], place)
        if done.returncode:
            found.problems.append(f"hg clone: {done.stderr.decode(errors='replace')}")
            return found
    verified = captured([str(client), "verify", "-q"], copy)
    said = _OF_SUBREPOSITORIES.sub(b"", verified.stdout + verified.stderr)
    if verified.returncode or said:
        text = said.decode(errors="replace")
        found.problems.append(f"hg verify: {text}")
    with serving(copy, *ON, *options) as web:
        _fetched(place / "second.git", web.url, stay, found)
    return found


def _fetched(target: Path, url: str, refs: Mapping[str, str], found: Returned) -> None:
    """Fetch from a server, and note what it has otherwise.

    git hashes what it receives, and follows it to the last file.
    """
    git(target.parent, "init", "-q", "--bare", str(target))
    done = captured(["git", "fetch", "-q", url, f"+{_FULLY}"], target)
    if done.returncode:
        text = done.stderr.decode(errors="replace")
        found.problems.append(f"{target.name}: git fetch: {text}")
        return
    lines = git(target, "for-each-ref", "--format=%(refname) %(objectname)")
    there = dict(line.split() for line in lines.decode().splitlines())
    for name, oid in refs.items():
        if there.get(name) != oid:
            found.problems.append(f"{target.name}: {oid} is {there.get(name)}")


@functools.cache
def _auditor() -> pathutil.pathauditor:
    return pathutil.pathauditor(b"/", realfs=False)


@functools.cache
def is_no_path_of_hg(path: bytes) -> bool:
    """Tell whether Mercurial refuses a path in working copies, or shows another one."""
    if not {b"", b"."}.isdisjoint(path.split(b"/")):
        return True
    try:
        _auditor()(path)
        scmutil.checkfilename(path)
    except error.Abort:
        return True
    return False


@dataclass
class _Files:
    """Files of a changeset, and its repository, as ``subrepoutil.state`` asks."""

    contents: Mapping[bytes, bytes]
    path: bytes = b""
    ui = uimod.ui()

    def __contains__(self, path: bytes) -> bool:
        return path in self.contents

    def __getitem__(self, path: bytes) -> _Files:
        return _Files(self.contents, path)

    def data(self) -> bytes:
        return self.contents[self.path]

    def repo(self) -> _Files:
        return self

    def pathto(self, path: bytes) -> bytes:
        return path

    def shared(self) -> None:
        return None


_PLAIN_SOURCES = re.compile(rb"(?:\s*|[#;].*|[^\s=\[%][^=]*=.*)", re.DOTALL)
_KINDS = (b"hg", b"git", b"svn")


def has_unreadable_subrepositories(contents: Mapping[bytes, bytes]) -> bool:
    """Tell whether Mercurial fails to read ``.hgsub`` or ``.hgsubstate``, or may.

    It may if ``.hgsub`` has more than plain lines.
    """
    lines = contents.get(b".hgsub", b"").splitlines()
    if not all(map(_PLAIN_SOURCES.fullmatch, lines)):
        return True
    try:
        state = subrepoutil.state(_Files(contents), _Files.ui)
    except (error.Error, error.Abort):
        return True
    return any(
        kind not in _KINDS
        or is_no_path_of_hg(path)
        or path.startswith(b"~")  # subrepo._auditsubrepopath
        or b"$" in path
        or b"\0" in path + source
        for path, (source, _revision, kind) in state.items()
    )
