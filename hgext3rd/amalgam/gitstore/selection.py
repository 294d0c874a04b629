"""Which changesets may leave: those that a server shows to clients, or fewer.

Secret and hidden changesets are never selected. The selection is taken from the
changelog as this process sees it; the core checks that it reads the same one.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

from mercurial.node import nullid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT

# value of amalgam.git.export -> Mercurial's name for that view of a repository
_FILTERS = {b"served": b"served", b"public": b"immutable"}


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """A changelog and what of it was selected, in short. Equal: nothing changed."""

    len: int
    """How many changesets there were, selected or not."""
    tip: bytes
    """Node of the last of them."""
    excluded: str
    """Digest of the nodes that were not selected."""

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads."""
        return {"len": self.len, "tip": self.tip.hex(), "excluded": self.excluded}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Seen:
        """Read what ``to_json`` wrote; ``KeyError`` or ``ValueError`` if it did not."""
        tip = bytes.fromhex(data["tip"])
        return cls(int(data["len"]), tip, str(data["excluded"]))


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """Some changesets of a repository, closed under ancestors."""

    len: int
    """How many changesets the changelog has, selected or not."""
    tip: bytes
    """Node of the last of them; the null node if there is none."""
    excluded: dict[int, bytes]
    """Those that are not selected: revision to node, ascending."""

    def seen(self, below: int | None = None) -> Seen | None:
        """Return the selection in short, of the changelog up to revision ``below``.

        ``None`` if it is empty.
        """
        if not self.len:
            return None
        digest = hashlib.sha1()
        for rev, node in self.excluded.items():
            if below is None or rev < below:
                digest.update(node)
        return Seen(self.len, self.tip, digest.hexdigest())

    def known_below(self, repo: RepoT, seen: Seen | None) -> int:
        """Return up to which revision nothing changed since ``seen`` was taken."""
        if seen is None or seen.len > self.len:
            return 0
        node = repo.unfiltered().changelog.node
        now = self.seen(below=seen.len)
        same = now is not None and now.excluded == seen.excluded
        return seen.len if same and node(seen.len - 1) == seen.tip else 0


def select(repo: RepoT, export: bytes, revs: Iterable[int] | None = None) -> Selection:
    """Select what ``amalgam.git.export`` allows, and of that the ancestors of ``revs``.

    ``revs`` that are not allowed select nothing. Cost follows what is not selected.
    """
    view = view_of(repo, export)
    changelog = repo.unfiltered().changelog
    count = len(changelog)
    excluded = set(view.changelog.filteredrevs)
    if revs is not None:
        allowed = [rev for rev in revs if rev not in excluded]
        excluded = set(range(count)) - set(changelog.ancestors(allowed, inclusive=True))
    nodes = {rev: changelog.node(rev) for rev in sorted(excluded)}
    return Selection(count, changelog.node(count - 1) if count else nullid, nodes)


def view_of(repo: RepoT, export: bytes) -> RepoT:
    """Return the repository as its readers may see it."""
    return repo.filtered(_FILTERS[export])
