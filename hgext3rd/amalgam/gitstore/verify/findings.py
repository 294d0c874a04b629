"""Findings of a verification: differences, each with its remedy, and notes.

A difference is a fact about one thing, as a line of output. A note is worth knowing,
but nothing is wrong. Does not look at stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial.i18n import _

from ...records import Choice, Record

if TYPE_CHECKING:
    from collections.abc import Iterable


class Remedy(Choice):
    """Repair of a difference; a later one includes all earlier ones."""

    EXPORT = 1
    """An export, which also names refs."""
    WITHDRAW = 2
    """An export, before which nothing may be answered: hidden objects are in the
    store."""
    REMOVE = 3
    """Removing a file that is not ours, then an export."""
    REBUILD = 4
    """An export from nothing."""


class Difference(Record):
    """Something that is not as it should be."""

    what: bytes
    """The kind of thing: ``ref``, ``changeset``, ``pack``..."""
    id: bytes
    """Which one of them."""
    found: bytes
    expected: bytes
    remedy: Remedy

    def line(self) -> bytes:
        """Return the difference as the text of a line."""
        return _(b"%s %s: found %s, expected %s") % (
            self.what,
            self.id,
            self.found,
            self.expected,
        )


class Note(Record):
    """Something to know."""

    what: bytes
    """The kind of thing."""
    id: bytes
    """Which one of them; empty if it is only one."""
    text: bytes

    def line(self) -> bytes:
        """Return the note as the text of a line."""
        subject = b" ".join(filter(None, [self.what, self.id]))
        return _(b"note: %s: %s") % (subject, self.text)


class Findings:
    """All that a verification found, and how much it looked at."""

    changesets: int = 0
    """Changesets whose commits were looked up."""
    objects: int = 0
    """Objects that were looked up in git."""
    refs: int = 0
    packs: int = 0
    unreachable: int = 0
    """Changesets whose commits no ref leads to."""

    def __init__(self, *, full: bool = False) -> None:
        self.differences: list[Difference] = []
        self.notes: list[Note] = []
        self.full = full
        """Whether every id was computed again."""
        self._known: set[tuple[bytes, bytes]] = set()

    def add(self, differences: Iterable[Difference]) -> bool:
        """Add differences, one of each thing; return whether any was found."""
        found = False
        for difference in differences:
            found = True
            key = (difference.what, difference.id)
            if key not in self._known:
                self._known.add(key)
                self.differences.append(difference)
        return found

    @property
    def remedy(self) -> Remedy | None:
        """Repair of all differences."""
        remedies = [difference.remedy for difference in self.differences]
        return max(remedies, key=lambda remedy: remedy.value, default=None)
