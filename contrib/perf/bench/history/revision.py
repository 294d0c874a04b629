"""Which commit of the tree was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..benchmark import Command

if TYPE_CHECKING:
    from pathlib import Path

SHORT = 10


@dataclass(frozen=True, order=True)
class Revision:
    """A commit, in the order of commit dates."""

    date: str
    """Of the commit, ISO 8601 in UTC, so that strings are in order."""
    modified: bool
    """Whether files differed from the commit; after the commit itself."""
    oid: str
    summary: str

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
        changed = [*git, "status", "--porcelain", "--untracked-files=no"]
        return cls(date, bool(Command(changed).output().strip()), oid, summary)
