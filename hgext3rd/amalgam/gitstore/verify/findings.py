"""Findings of a verification: differences, each with its remedy, and notes.

A difference is a fact about one thing, as a line of output. A note is worth knowing,
but nothing is wrong. Does not look at stores.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from mercurial.i18n import _

if TYPE_CHECKING:
    from collections.abc import Iterable


class Remedy(enum.Enum):
    """What mends a difference; a later one mends all that an earlier one does."""

    EXPORT = 1
    """An export, which also names refs."""
    WITHDRAW = 2
    """An export, before which nothing may be answered: what is there may not be read.
    """
    REMOVE = 3
    """Removing a file that is not ours, then an export."""
    REBUILD = 4
    """An export from nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
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


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
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


@dataclasses.dataclass(slots=True)
class Findings:
    """All that a verification found, and how much it looked at."""

    differences: list[Difference] = dataclasses.field(default_factory=list)
    notes: list[Note] = dataclasses.field(default_factory=list)
    changesets: int = 0
    """Changesets whose commits were looked up."""
    objects: int = 0
    """Objects that were looked up in git."""
    refs: int = 0
    packs: int = 0
    unreachable: int = 0
    """Changesets whose commits no ref leads to."""
    full: bool = False
    """Whether every id was computed again."""
    _known: set[tuple[bytes, bytes]] = dataclasses.field(default_factory=set)

    def add(self, differences: Iterable[Difference]) -> bool:
        """Add differences, only one of each thing; tell whether there was one."""
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
        """What mends all differences."""
        remedies = [difference.remedy for difference in self.differences]
        return max(remedies, key=lambda remedy: remedy.value, default=None)
