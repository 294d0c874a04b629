"""A CGI program in place of git-http-backend: hgweb with amalgam.

A test of git makes bare repositories, and looks into them. So the first request for one
pushes its branches into a new Mercurial repository, through amalgam. If the test has
changed the bare repository meanwhile, there is another new one. After a push to hgweb,
the bare repository gets the refs and objects that hgweb shows.

Plain tags are set by hand, in a changeset without parents: if they were pushed, there
would be a commit on top of a branch of the test. A ref that amalgam refuses is missing
in hgweb.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_ROUTE = re.compile(r"(?:/info/refs|/git-(?:upload|receive)-pack|/HEAD|/objects/.*)$")
_KINDS = ("refs/heads", "refs/tags")
_TAGGED = "tagged-by-a-test/"
#: How many refs one push may have.
_AT_ONCE = 1000
#: The git and the hg that are tested; ``__main__`` sets both, and HGRCPATH.
GIT, HG = os.environ["BRIDGE_GIT"], os.environ["BRIDGE_HG"]


def main() -> int:
    """Answer the request in the environment."""
    name = _ROUTE.sub("", os.environ["PATH_INFO"])
    root = Path(os.environ["DOCUMENT_ROOT"])
    bare = root / name.strip("/")
    if not bare.is_dir():
        print("Status: 404 Not Found\r\n\r", flush=True)
        return 0
    # the web server's way of asking for version 0, which git-http-backend understands
    if "GIT_PROTOCOL" in os.environ:
        os.environ.pop("HTTP_GIT_PROTOCOL", None)
    home = root.parent / "hg" / name.strip("/")
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        served = Served(bare, home)
        served.bring_up_to_date()
        if not os.environ["PATH_INFO"].endswith("/git-receive-pack"):
            fcntl.flock(lock, fcntl.LOCK_UN)
            answer(served.repository, name)
            return 0
        before = refs_of(served.store)
        answer(served.repository, name)
        served.take_back(before)
    return 0


def answer(repository: Path, name: str) -> None:
    """Let hgweb answer the request."""
    from mercurial.hgweb import hgweb, wsgicgi

    os.environ["SCRIPT_NAME"] += name
    os.environ["PATH_INFO"] = os.environ["PATH_INFO"].removeprefix(name)
    application = hgweb(os.fsencode(repository))

    def run(environ: dict[str, object], start: object) -> Iterator[bytes]:
        # Apache decodes chunked requests, and ends the input after them
        environ["wsgi.input_terminated"] = True
        found: Iterator[bytes] = application(environ, start)
        return found

    wsgicgi.launch(run)


class Served:
    """A bare repository, and the Mercurial repository that is served in its place."""

    def __init__(self, bare: Path, home: Path) -> None:
        """``home``: a directory for Mercurial repositories and a note."""
        self._bare, self._home = bare, home
        self._note = home / "served.json"
        number, self._known = 0, None
        if self._note.exists():
            number, self._known = json.loads(self._note.read_text())
        self._go_to(number)

    def _go_to(self, number: int) -> None:
        self._number = number
        self.repository = self._home / str(number)
        self.store = self.repository / ".hg/amalgam/git/cinnabar.git"

    def _write_note(self) -> None:
        self._known = refs_of(self._bare)
        self._note.write_text(json.dumps([self._number, self._known]))

    def bring_up_to_date(self) -> None:
        """Make another Mercurial repository if the bare one has changed."""
        refs = refs_of(self._bare)
        if refs == self._known:
            return
        self._go_to(len([*self._home.iterdir()]))
        hg("init", str(self.repository))
        form = "--format=%(objecttype) %(refname:lstrip=2) %(objectname)"
        lines = git(self._bare, "for-each-ref", form, "refs/tags").splitlines()
        tags = dict(line.split()[1:] for line in lines if line.startswith("commit "))
        specs = [f"{ref}:{ref}" for ref in refs if ref.startswith("refs/heads/")]
        # commits that may be on no branch
        specs += [f"{oid}:refs/heads/{_TAGGED}{oid}" for oid in set(tags.values())]
        for start in range(0, len(specs), _AT_ONCE):
            self._push(specs[start : start + _AT_ONCE])
        if tags:
            self._set_tags(tags)
        self._hg("git::export", "-q")
        self._write_note()

    def _push(self, specs: Sequence[str]) -> None:
        """Push into Mercurial, as over ssh."""
        asked = f"git-receive-pack '{self.repository}'"
        command = [GIT, "-C", str(self._bare), "push", "-q"]
        command += [f"--receive-pack='{sys.executable}' -m hgext3rd.amalgam.serve.ssh"]
        subprocess.run(
            [*command, str(self.repository), *specs],
            env={**sealed(), "SSH_ORIGINAL_COMMAND": asked},
            stdout=sys.stderr,
            check=False,
        )

    def _set_tags(self, tags: Mapping[str, str]) -> None:
        found = self._hg("log", "-T", "{gitnode} {node}\n").splitlines()
        nodes = dict(line.split() for line in found)
        lines = [f"{nodes[oid]} {name}\n" for name, oid in tags.items() if oid in nodes]
        (self.repository / ".hgtags").write_text("".join(lines))
        self._hg("commit", "-q", "-A", "-m", "tags", "-u", "test")
        marks = self._hg("bookmarks", "-T", "{bookmark}\n").splitlines()
        marks = [mark for mark in marks if mark.startswith(_TAGGED)]
        if marks:
            self._hg("bookmark", "-q", "--delete", *marks)

    def _hg(self, *arguments: str) -> str:
        return hg("-R", str(self.repository), *arguments)

    def take_back(self, before: dict[str, str]) -> None:
        """Give the bare repository the changes since refs were ``before``."""
        now = refs_of(self.store)
        changes = [
            f"update {ref} {oid}" for ref, oid in now.items() if before.get(ref) != oid
        ]
        oids = {line.split()[2] for line in changes}
        if oids:
            options = ("--no-tags", "--no-write-fetch-head")
            git(self._bare, "fetch", "-q", *options, str(self.store), *oids)
        changes += [f"delete {ref}" for ref in before if ref not in now]
        git(self._bare, "update-ref", "--stdin", given="\n".join(changes) + "\n")
        self._write_note()


def refs_of(repository: Path) -> dict[str, str]:
    """Return branches and tags of a git repository, which may be missing."""
    if not repository.exists():
        return {}
    form = "--format=%(refname) %(objectname)"
    lines = git(repository, "for-each-ref", form, *_KINDS).splitlines()
    return dict(line.split(" ") for line in lines)


def git(repository: Path, *arguments: str, given: str = "") -> str:
    """Return the output of git."""
    return _run([GIT, "-C", str(repository), *arguments], given)


def hg(*arguments: str) -> str:
    """Return the output of Mercurial."""
    return _run([HG, *arguments], "")


def _run(command: Sequence[str], given: str) -> str:
    done = subprocess.run(
        command,
        env=sealed(),
        input=given,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def sealed() -> dict[str, str]:
    """Return the environment without the variables of git and of the request."""
    names = ("HGRCPATH", "HGENCODING", "LANG", "PATH")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    return {**environment, "GIT_CONFIG_NOSYSTEM": "1", "HOME": os.devnull}


if __name__ == "__main__":
    sys.exit(main())
