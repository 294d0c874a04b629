"""What git-cinnabar 0.7.5 cannot convert, and what amalgam makes of it.

git-cinnabar ends without a clone on each of these. docs/formats/cinnabar.rst has the
same list for readers. What Mercurial itself cannot read is not in it.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testlib.oddstore import Edit, Step, write

from .sides import NONE, Ours, SideError, Theirs


@dataclass(frozen=True)
class Crash:
    """One kind of input, a changeset with it on step 0, and our answer."""

    name: str
    answer: bytes
    """A line of the commit, or the name of a ref."""
    step: Step
    bookmark: bytes = b""


def write_all(path: Path, crashes: Sequence[Crash]) -> dict[str, str]:
    """Create a repository with ``crashes`` at ``path``; return their changesets."""
    steps = [Step(0, edits=(Edit("write", b"a", b"1\n"),))]
    bookmarks = []
    for key, crash in enumerate(crashes, 1):
        steps.append(dataclasses.replace(crash.step, key=key))
        if crash.bookmark:
            bookmarks.append((crash.bookmark, key))
    nodes = write(path, steps, bookmarks)[1:]
    return {crash.name: node.hex() for crash, node in zip(crashes, nodes, strict=True)}


def _header(user: bytes = b"A <a@b.c>", date: bytes = b"100 60") -> Step:
    return Step(1, 0, user=user, date=date, edits=(Edit("write", b"a", b"2\n"),))


def _committer(value: bytes) -> Step:
    return Step(1, 0, date=b"100 60", extra=b"committer:" + value)


CRASHES = (
    Crash("negative date", b"author A <a@b.c> 0 -0001", _header(date=b"-1 60")),
    Crash("date with a fraction", b"author A <a@b.c> 7 -0001", _header(date=b"7.9 60")),
    Crash(
        "date of more than 64 bits",
        b"author A <a@b.c> 9223372036854775807 -0001",
        _header(date=b"18446744073709551616 60"),
    ),
    Crash(
        "offset that is no number",
        b"author A <a@b.c> 100 +0000",
        _header(date=b"100 EST"),
    ),
    Crash(
        "offset of more than 31 bits",
        b"author A <a@b.c> 100 +0000",
        _header(date=b"100 -2147483648"),
    ),
    Crash("empty user", b"author  <> 100 -0001", _header(user=b"")),
    Crash(
        "empty extra item",
        b"author A <a@b.c> 100 +0000",
        Step(1, 0, extra=b"a:b\0"),
    ),
    Crash("empty committer", b"committer  <> 100 -0001", _committer(b"")),
    Crash(
        "committer without date",
        b"committer me too <> 100 -0001",
        _committer(b"me too"),
    ),
    Crash(
        "committer with an unreadable date",
        b"committer C <c@d> 100 -0001",
        _committer(b"C <c@d> -5 0"),
    ),
    Crash(
        "committer with an unreadable offset",
        b"committer C <c@d> 100 -0001",
        _committer(b"C <c@d> 5 EST"),
    ),
    Crash("bookmark with a space", b"refs/heads/a%20b", _header(), b"a b"),
)


def our_answers(scratch: Path) -> dict[str, str]:
    """Return what is wrong with each answer; nothing if it is the documented one.

    All of it is in one repository: none keeps amalgam from converting the others.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        repository = Path(place) / "repository"
        nodes = write_all(repository, CRASHES)
        ours = Ours(repository)
        try:
            answers = [ours.in_two(50), ours.at_once()]
        except SideError as err:
            return dict.fromkeys(nodes, str(err))
        complaint = ours.fsck()
        refs = ours.refs().split(b"\n")
        wrong = {}
        for crash in CRASHES:
            oids = {answer.ids.get(nodes[crash.name], NONE) for answer in answers}
            if len(oids) > 1 or NONE in oids:
                wrong[crash.name] = f"the ids are {sorted(oids)}"
            elif crash.answer not in [*ours.object(oids.pop()).split(b"\n"), *refs]:
                wrong[crash.name] = f"{crash.answer!r} is not there"
            else:
                wrong[crash.name] = complaint
        return wrong


def still_crashes(crash: Crash, scratch: Path, theirs: Theirs) -> bool:
    """Whether git-cinnabar really has no answer."""
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        repository = Path(place) / "repository"
        nodes = list(write_all(repository, [crash]).values())
        try:
            answer = theirs.clone(repository, nodes)
        except SideError:
            return True
        return not answer.ids
