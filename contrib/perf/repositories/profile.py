"""What every profile has: sizes, a seed, and plain ways to make changesets.

The plain ways serve the profiles that are about something else than contents: forty
people, a changeset a minute, files of twenty lines.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from .histories import NULL, Changeset, FileChange, Header, History
from .texts import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable

_EPOCH = 1_000_000_000
_PEOPLE = tuple(b"Dev %02d <dev%02d@example.com>" % (i, i) for i in range(40))


@dataclass(frozen=True)
class Profile:
    """A kind of repository; the fields are its sizes.

    ``repeats`` says that a file revision may appear twice, see ``Revlog``.
    """

    repeats: ClassVar[bool] = False

    changesets: int = 10_000
    seed: int = 1

    def build(self, history: History) -> None:
        """Write the changesets of this profile into an empty history.

        Raises ``ValueError`` if the sizes contradict each other.
        """
        raise NotImplementedError

    def writer(self) -> Writer:
        """A writer at the start of the random numbers of this seed."""
        return Writer(random.Random(self.seed))


def plain_names(count: int, directories: int = 40) -> list[bytes]:
    """Names of ``count`` files, spread over so many directories."""
    return [b"dir%02d/file%05d.txt" % (i % directories, i) for i in range(count)]


def plain_header(writer: Writer, rev: int, minute: int | None = None) -> Header:
    """The header of revision ``rev``: by anybody, a minute after the last one.

    Or at another ``minute``.
    """
    description = b"%s (change %d)" % (writer.clause(), rev)
    seconds = 60 * (rev if minute is None else minute)
    return Header(writer.pick(_PEOPLE), _EPOCH + seconds, 0, description)


def add_files(
    history: History, writer: Writer, names: Iterable[bytes], lines: int = 20
) -> Changeset:
    """Write the first changeset, with so many lines in each of the files."""
    changes = {
        name: FileChange(b"".join(_line(writer, 0, i) for i in range(lines)))
        for name in names
    }
    return history.commit(NULL, changes, plain_header(writer, 0))


def edit_files(
    history: History,
    writer: Writer,
    parent: Changeset,
    names: Iterable[bytes],
    minute: int | None = None,
) -> Changeset:
    """Write a child of ``parent`` that changes one line of each of the files."""
    rev = len(history)
    changes = {}
    for name in names:
        lines = parent.files[name].content.splitlines(keepends=True)
        place = writer.below(len(lines))
        lines[place] = _line(writer, rev, place)
        changes[name] = FileChange(b"".join(lines))
    return history.commit(parent, changes, plain_header(writer, rev, minute))


def _line(writer: Writer, rev: int, place: int) -> bytes:
    # the revision makes each line, and so each text, the first of its kind
    return b"line %d since %d: %s\n" % (place, rev, writer.clause())
