"""A history whose changesets git-cinnabar has to note something about, one thing each.

What a commit does not tell of a changeset is in its note: the user, the extra and the
file list where they are not the plain ones, and a patch for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from . import oddities
from .oddstore import Edit, Step

_LISTINGS = ("sorted", "reversed", "mixed", "twice", "more")
_FILES = (b"a", b"dir0", b"dir/f", b"dir-y", b"A", b"\xff")


def steps() -> list[Step]:
    """The history: a root, and all others on top of it."""
    root = Step(0, edits=tuple(Edit("write", name, b"0\n") for name in _FILES))
    others = enumerate(_others(), 1)
    return [root, *(replace(step, key=key, p1=0) for key, step in others)]


def _others() -> Iterator[Step]:
    plain = Step(1, description=b"")
    for user in oddities.USERS:
        yield replace(plain, user=user)
        yield replace(plain, user=user, date=b"7 30", description=b"text\n")
    for offset in oddities.OFFSETS:
        yield replace(plain, date=b"1000000000 " + offset)
    for seconds in oddities.SECONDS:
        yield replace(plain, date=seconds + b" -3599")
    yield from (replace(plain, extra=extra) for extra in _extras())
    yield from _lists()
    yield from _collisions()


def _extras() -> Iterator[bytes]:
    yield b""
    for extra in oddities.EXTRAS:
        yield extra
        yield b"\0".join((extra, b"mm:3"))
        yield b"\0".join((b"mm:3", extra, b"branch:stable"))
    yield b"aa:1\0aa:2"
    # the author once more: left out of the note, and missed when it is made again
    yield b"committer:A <a@b.c> 100 0"
    yield b"zz:1\0committer:A <a@b.c> 100 0"
    for committer in oddities.COMMITTERS:
        yield b"committer:" + committer
        yield b"zz:1\0committer:" + committer + b"\0aa:1"


def _lists() -> Iterator[Step]:
    few = tuple(Edit("write", name, b"1\n") for name in _FILES)
    many = tuple(
        Edit("write", b"%d/%d" % (at * 31 % 97, at), b"%d\n" % at) for at in range(900)
    )
    for number, listing in enumerate(_LISTINGS):
        date = b"%d 0" % number
        yield Step(1, edits=few[:1], listing=listing, date=date)
        yield Step(1, edits=few, listing=listing, date=date, extra=b"z:1\0a:1")
        yield Step(1, edits=many, listing=listing, date=date, user=b"Foo (f@x)")


def _collisions() -> Iterator[Step]:
    edits = tuple(Edit("write", name, b"2\n") for name in _FILES)
    for description in (b"same", b"", b"same\n", b"same\n\n", b"two\n\nparts"):
        for listing in _LISTINGS:
            for extra in (None, b"branch:b1", b"x:1\0a:1"):
                yield Step(
                    1,
                    description=description,
                    edits=edits,
                    listing=listing,
                    extra=extra,
                )
