"""Random histories with all that hg-git converts in a way of its own, either way.

Of Mercurial, those of ``odd``, and: subrepositories of git and their state, merges of
many parents as hg-git imports them, and the extras that its imports leave. Of git, all
of its grammar, merges that take files of all parents, and submodules. What ends a
conversion of hg-git is left out.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import odd
from .gitgrammar import Drawn, Entry, Grown, draw_commits
from .oddstore import NULL, Edit, Step
from .randomcommits import GITLINK, write_object, write_tree
from .randomhistories import MARK, Files, History, consistent

_STATE, _SUBS, _MODULES = b".hgsubstate", b".hgsub", b".gitmodules"
_KEPT_APART = {_STATE, _SUBS, _MODULES}
#: Slashes that the dialects take in ways of their own.
_SLASHES = re.compile(rb"///|//.*//")
#: Committers that hg-git writes and cannot read.
_UNREADABLE = (b"a <b@c> d 5 0", b"5 0 7 60")
_SOURCES = (
    *(b"[git]https://example.org/s.git", b"[git]../s", b"[git]https://x/q#1"),
    *(b"[git]a\\b", b"../mercurial", b"[hg]https://example.org/h", b"[svn]file:///s"),
)
_PLACES = (b"sub", b"vendor/s", b"a.sub", b"S p", b"sub2", b"d/e/f")
_MODULE_FILES = (
    *(b"", b"# note\n", b'[submodule "other name"]\n\tpath = sub\n\turl = u\n'),
    b'[submodule "vendor/s"]\n\tpath = vendor/s\n\turl = x\n\tbranch = main\n',
)
#: Those that hg-git loses: one history of eight has them.
_LOST = (
    *(b"encoding:ISO-8859-1", b"encoding:UTF-8", b"gpgsig:-----BEGIN\n\niQ\n-----END"),
)
_LOSING = 8
_USER, _DESCRIPTION = b"A <a@b.c>", b"change"


def _delta(base_bytes: int, target: bytes) -> bytes:
    return bytes([base_bytes, len(target), len(target)]) + target


def _escaped(text: bytes) -> bytes:
    for what, how in (
        (b"\\", b"\\\\"),
        (b"\0", b"\\0"),
        (b"\n", b"\\n"),
        (b"\r", b"\\r"),
    ):
        text = text.replace(what, how)
    return text


#: Extras that hg-git reads. The deltas fit the user and description of plain steps.
_EXTRAS = (
    b"author:" + _delta(len(_USER), b"J\xe9 <j@x>"),
    b"author:" + _delta(len(_USER) + 1, b"J\xe9 <j@x>"),
    b"author:",
    b"message:" + _delta(len(_DESCRIPTION) + 1, b"m\xe9  \r\n"),
    b"message:" + _delta(len(_DESCRIPTION) + 1, b""),
    b"message:\x01",
    b"hg-git-rename-source:git",
    b"hg-git-rename-source:hg",
    b"hg-git:other",
    b"committer:C D <c@d> 1000000005 -3600",
    b"committer:C D <c@d> 1000000005 -530",
    b"committer:C D <c@d> -5 +0600",
    b"committer:  <c@d> 7 0",
    b"committer:J\xe9 <c@d> 7 -20700",
    b"k%20 :v%25\xff ~/",
    b"close:1",
)


def steps(seed: int) -> list[Step]:
    """The history of a seed."""
    draw = random.Random(seed)
    spellings = _Spellings()
    found = [_readable(step, spellings) for step in odd.steps(seed)]
    has_subs = draw.random() < 0.4
    for at, step in enumerate(found):
        if draw.random() < 0.3:
            extras = _EXTRAS + (() if seed % _LOSING else _LOST)
            found[at] = _with_extras(step, draw, extras)
        if has_subs and draw.random() < 0.4:
            edits = (*found[at].edits, *_subrepositories(draw))
            found[at] = dataclasses.replace(found[at], edits=edits)
    for _time in range(draw.choice([0, 0, 1, 2])):
        _add_octopus(found, draw)
    return found


class _Spellings:
    """Spellings of paths, with ``//`` and without, that hg-git takes for one.

    It writes such files in the order of a set, which is another one in each process.
    And of a file and a directory, the one that changed last counts.
    """

    def __init__(self) -> None:
        self._files: dict[bytes, bytes] = {}
        self._folders: dict[bytes, set[bytes]] = {}

    def takes(self, path: bytes) -> bool:
        """Take a path, if no other spelling of it was taken before."""
        name = path.replace(b"//", b"/")
        above = [path[: it.start()] for it in re.finditer(rb"(?<!/)/", path)]
        folders = {it.replace(b"//", b"/"): it for it in above}
        if (
            self._files.get(name, path) != path
            or self._folders.get(name, {path}) != {path}
            or any(self._files.get(it, folders[it]) != folders[it] for it in folders)
        ):
            return False
        self._files[name] = path
        for folder, spelling in folders.items():
            self._folders.setdefault(folder, set()).add(spelling)
        return True


def _readable(step: Step, spellings: _Spellings) -> Step:
    """Leave out what hg-git fails on: junk in files and extras that it parses.

    And paths that no changeset decides, by ``spellings``.
    """
    edits = (
        it
        for it in step.edits
        if not _KEPT_APART.intersection((it.path, it.source))
        and not _SLASHES.search(it.path)
        and all(map(spellings.takes, filter(None, (it.path, it.source))))
    )
    extra = step.extra
    if extra is not None and any(it in extra for it in _UNREADABLE):
        extra = None
    return dataclasses.replace(step, edits=tuple(edits), extra=extra)


def _with_extras(step: Step, draw: random.Random, extras: Sequence[bytes]) -> Step:
    chosen = draw.sample(extras, draw.choice([1, 1, 2]))
    items = {it.partition(b":")[0]: _escaped(it) for it in chosen}
    extra = b"\0".join(items[key] for key in sorted(items))
    if draw.random() < 0.5:
        step = dataclasses.replace(step, user=_USER, description=_DESCRIPTION)
    return dataclasses.replace(step, extra=extra)


def _subrepositories(draw: random.Random) -> Iterator[Edit]:
    """Write both files as one another, or remove them."""
    kind = draw.random()
    if kind < 0.15:
        yield Edit("remove", _SUBS)
        yield Edit("remove", _STATE)
        return
    if kind < 0.25:
        yield Edit("write", _MODULES, draw.choice(_MODULE_FILES))
        return
    places = draw.sample(_PLACES, draw.choice([1, 1, 2, 3]))
    named = {place: draw.choice(_SOURCES) for place in places}
    lines = (b"%s = %s\n" % it for it in named.items())
    yield Edit("write", _SUBS, b"".join(lines))
    state = (
        b"%s %s\n" % (b"%040x" % draw.randrange(1, 9), place) for place in sorted(named)
    )
    yield Edit("write", _STATE, b"".join(state))


def _add_octopus(found: list[Step], draw: random.Random) -> None:
    """Add a merge of three or four, and something above it or between."""

    def add(p1: int, p2: int = NULL, extra: bytes | None = None) -> int:
        content = b"%d\n" % draw.randrange(99)
        key = found[-1].key + 1
        found.append(
            Step(key, p1, p2, edits=(Edit("write", b"o", content),), extra=extra)
        )
        return key

    parents = [draw.choice(found[-12:]).key for _ in range(draw.choice([3, 4]))]
    # Mercurial wants them to be different
    parents = [add(parent) for parent in parents]
    between = add(parents[-2], parents[-1], b"hg-git:octopus")
    for parent in parents[-3:0:-1]:
        between = add(parent, between, b"hg-git:octopus")
    add(add(parents[0], between, b"hg-git:octopus-done"))
    if draw.random() < 0.3:
        add(between)


# commits of git, for imports

_SUBMODULES = (b"s1", b"vendor/s2", b"d/s3")


class GitHistory(History):
    """Random commits that hg-git imports: headers of git's grammar, merges, submodules.

    ``History`` has the files; here are up to five parents, and submodules.
    """

    def __init__(self, path: Path, seed: int, count: int) -> None:
        super().__init__(path, random.Random(seed), has_marks=False)
        self._drawn = [it for it in draw_commits(seed, count) if not stops_import(it)]
        self._has_submodules = self.draw.random() < 0.4

    def grow_all(self) -> None:
        """Add all commits that were drawn."""
        for drawn in self._drawn:
            parents = self._parents()
            if len(parents) == 2 and self.draw.random() < 0.3:
                more = self.draw.randint(1, 3)
                parents += self.draw.choices(self.made[-9:], k=more)
            files = self._files(parents)
            if self._has_submodules:
                self._change_submodules(files)
            text = b"tree %s\n" % write_tree(self.repo, consistent(files)).encode()
            text += b"".join(b"parent %s\n" % it.encode() for it in parents)
            text += drawn.after_parents
            oid = write_object(self.repo.path, "commit", text)
            if oid in self.files:
                continue
            self.made.append(oid)
            self.parents |= {*parents}
            self.files[oid] = consistent(files)
            self.repo.branch(f"b{len(self.made)}", oid)

    def _change_submodules(self, files: Files) -> None:
        draw = self.draw
        if draw.random() < 0.5:
            place = draw.choice(_SUBMODULES)
            if draw.random() < 0.3:
                files.pop(place, None)
            elif draw.random() < 0.1:
                files[place] = b"100644", b"a file now\n"
            else:
                files[place] = GITLINK, b"%040x" % draw.randrange(1, 2**40)
        if draw.random() < 0.7:
            return
        links = [path for path, (mode, _oid) in files.items() if mode == GITLINK]
        if draw.random() < 0.15 or (not links and draw.random() < 0.7):
            files.pop(_MODULES, None)
            return
        text = b"# note\n" if draw.random() < 0.1 else b""
        text += b"not readable\n" if draw.random() < 0.05 else b""
        for path in links:
            name = draw.choice([path, b"Name " + path, path.upper()])
            lines = [
                b"\tpath = %s\n" % path,
                b"\turl = https://example.org/%s\n" % path,
            ]
            lines += [b"\tbranch = main ; note\n"] * (draw.random() < 0.2)
            draw.shuffle(lines)
            if draw.random() < 0.85:
                text += b'[submodule "%s"]\n' % name + b"".join(lines)
        files[_MODULES] = b"100644", text
        if draw.random() < 0.08:
            files[_SUBS] = b"100644", b"other = ../other\n# note\n"
        if draw.random() < 0.08:
            files[_STATE] = b"100644", b"%040x other\n" % draw.randrange(1, 99)


#: Settings of renames that random histories are imported with.
RENAMES: tuple[dict[str, str], ...] = (
    {"similarity": "50"},
    {"similarity": "80", "findcopiesharder": "yes"},
    {"similarity": "1", "renamelimit": "4"},
    {"similarity": "100", "findcopiesharder": "yes"},
)
_WORDS = (b"one", b"two\r", b"three " * 30, b"", b"\xe9", b"same", b"same")
_FOLDERS = (b"", b"a/", b"a.b/", b"a-b/", b"d/e/", b"x/.hg/")
_TYPES = (*[b"100644"] * 6, b"100755", b"100664", b"120000")


class RenamedHistory(GitHistory):
    """Random commits that move, copy and edit files, in all types and combinations."""

    def _files(self, parents: list[str]) -> Files:
        draw = self.draw
        files = dict(self.files[parents[0]]) if parents else {}
        for other in parents[1:]:
            for path, file in self.files[other].items():
                if draw.random() < 0.3:
                    files[path] = file
        for _time in range(draw.choice([0, 1, 2, 4, 9]) if parents else 12):
            self._change(files)
        return files

    def _change(self, files: Files) -> None:
        draw = self.draw
        new = draw.choice(_FOLDERS) + b"%c%d" % (draw.choice(b"Aaz"), draw.randrange(9))
        kind = draw.choice(
            ["new", "move", "move", "move", "copy", "edit", "edit", "go"]
        )
        if kind == "new" or not files:
            lines = draw.choices(_WORDS, k=draw.choice([0, 0, 1, 12, 12]))
            end = draw.choice([b"\n", b"\n", b""])
            files[new] = draw.choice(_TYPES), b"\n".join(lines) + end
            return
        old = draw.choice(sorted(files))
        mode, content = files[old]
        if kind in ("move", "go"):
            del files[old]
        if kind == "edit":
            new = old
        if kind == "go":
            return
        if mode != GITLINK:
            mode = draw.choice(_TYPES) if draw.random() < 0.2 else mode
            lines = content.splitlines(keepends=True)
            for _time in range(draw.choice([0, 0, 1, 3])):
                at = draw.randrange(len(lines) + 1)
                lines[at : at + draw.randrange(2)] = [draw.choice(_WORDS) + b"\n"]
            content = b"".join(lines)
        files[new] = mode, content


def grown_for_import(path: Path, seed: int, count: int) -> Grown:
    """Make a history whose trees are drawn, too; it has no submodules."""
    made = Grown(path)
    for drawn in draw_commits(seed, count):
        if not stops_import(drawn):
            edits = tuple(it for it in drawn.edits if not _stops_tree(it.entry))
            made.add(dataclasses.replace(drawn, edits=edits))
    made.name_all()
    return made


def _stops_tree(entry: Entry | int | bytes) -> bool:
    """Tell whether hg-git may parse an entry, or Mercurial 7.1 fails on its content."""
    if not isinstance(entry, Entry):
        return False
    if entry.name in _KEPT_APART or not entry.name or b"/" in entry.name:
        return True
    if isinstance(entry.child, tuple):
        return any(map(_stops_tree, entry.child))
    return isinstance(entry.child, str) or entry.child.startswith(MARK)


_HEADER = re.compile(rb"[^ ]+ ")
_PERSON = re.compile(rb".*> *\s*[+-]?[0-9]+ [+-][0-9]+\Z", re.DOTALL)
_UNKNOWN = (b"tree ", b"parent ", b"author ", b"committer ")


def stops_import(drawn: Drawn) -> bool:
    """Tell whether hg-git 1.2.0 ends without an import on these headers."""
    for header in drawn.headers:
        if not _HEADER.match(header) or header.startswith(_UNKNOWN):
            return True
        value = header.partition(b" ")[2]
        if header.startswith((b"HG:extra ", b"HG:rename ")) and b":" not in value:
            return True
        if header.startswith(b"mergetag ") and not _is_tag(value):
            return True
        if header.startswith(b"encoding ") and not _is_codec(value):
            return True
    if not all(map(_PERSON.match, (drawn.author, drawn.committer))):
        return True
    if _is_odd_section((drawn.body or b"").partition(b"\n--HG--\n")[2]):
        return True
    who = drawn.author.rpartition(b"> ")[0]
    return b"none@none" in who and not who.partition(b"<")[0].strip()


def _is_odd_section(section: bytes) -> bool:
    """Tell whether a line of metadata lacks a part, or its branch is reserved."""
    branch = b""
    for line in filter(None, section.split(b"\n")):
        command, is_line, data = line.partition(b" : ")
        if not is_line:
            break
        part = {b"rename": b" => ", b"extra": b" : "}.get(command, b"")
        if part not in data:
            return True
        branch = data if command == b"branch" else branch
    return branch in (b"tip", b"null", b".")


def _is_tag(value: bytes) -> bool:
    """Whether each header line of a merged tag has a space."""
    lines = value.replace(b"\n ", b"\n").partition(b"\n\n")[0].split(b"\n")
    return all(b" " in line for line in lines)


def _is_codec(name: bytes) -> bool:
    try:
        b"x".decode(name.decode())
    except (LookupError, ValueError):
        return False
    return True
