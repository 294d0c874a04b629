"""Which commit of the tree was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..benchmark import Command

if TYPE_CHECKING:
    from pathlib import Path

SHORT = 10


@dataclass(frozen=True)
class Revision:
    """A commit of the tree, perhaps with changes."""

    date: str
    """Of the commit, ISO 8601 in UTC, so that strings are in order."""
    modified: bool
    """Whether files differed from the commit."""
    oid: str
    summary: str
    ancestors: int = field(default=0, compare=False)
    """How many commits it has, with itself; 0 where an earlier version kept it."""

    @property
    def order(self) -> tuple[str, int, bool, str]:
        """By what revisions are sorted: several commits may be of one second."""
        return self.date, self.ancestors, self.modified, self.oid

    @property
    def name(self) -> str:
        """What it is called on pages."""
        return self.oid[:SHORT] + "+" * self.modified

    @classmethod
    def of(cls, tree: Path) -> Revision:
        """Ask git. ``CommandError`` if ``tree`` is none of git's."""
        git = ["git", "-C", str(tree)]
        local = {"TZ": "UTC0"}
        form = ["--date=iso-strict-local", "--format=%cd%n%H%n%s"]
        log = Command([*git, "log", "-1", *form], local).output()
        date, oid, summary = log.splitlines()[:3]
        changed = bool(
            Command([*git, "status", "--porcelain", "--untracked-files=no"])
            .output()
            .strip()
        )
        ancestors = int(Command([*git, "rev-list", "--count", oid]).output())
        return cls(date, changed, oid, summary, ancestors)
