"""Which changesets may leave: those that a server shows to clients, or fewer.

Secret and hidden changesets are never selected. The selection is taken from the
changelog as this process sees it; the core checks that it reads the same one.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from mercurial import bookmarks, error
from mercurial.i18n import _
from mercurial.node import nullid
from mercurial.revlogutils import constants

from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set as AbstractSet

    from mercurial.interfaces.types import RepoT

FilesState: TypeAlias = "tuple[tuple[int, ...] | None, ...]"

# value of amalgam.git.export -> Mercurial's name for that view of a repository
_FILTERS = {b"served": b"served", b"public": b"immutable"}
# the view of clients that know no topics, which are drafts: of the topic extension
_NO_TOPICS = b"served-no-topic"


class Seen(Record):
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


class Selection(Record):
    """Some changesets of a repository, closed under ancestors."""

    len: int
    """How many changesets the changelog has, selected or not."""
    tip: bytes
    """Node of the last of them; the null node if there is none."""
    excluded: dict[int, bytes]
    """Those that are not selected: revision to node, ascending."""

    def changesets(self) -> int:
        """Return how many changesets are selected."""
        return self.len - len(self.excluded)

    def seen(self, repo: RepoT, below: int | None = None) -> Seen | None:
        """Return the selection in short, of the changelog up to revision ``below``.

        ``None`` if that is empty.
        """
        count = self.len if below is None else min(below, self.len)
        if not count:
            return None
        nodes = itertools.islice(self.excluded.values(), self._excluded_below(count))
        digest = hashlib.sha1(b"".join(nodes)).hexdigest()
        tip = self.tip
        if count < self.len:
            tip = repo.unfiltered().changelog.node(count - 1)
        return Seen(count, tip, digest)

    def known_below(self, repo: RepoT, seen: Iterable[Seen]) -> int:
        """Return up to which revision nothing changed since ``seen`` were taken."""
        return max(
            (
                place.len
                for place in seen
                if place.len <= self.len and self.seen(repo, place.len) == place
            ),
            default=0,
        )

    def has_above(self, rev: int) -> bool:
        """Tell whether ``rev`` or any changeset after it is selected."""
        above = len(self.excluded) - self._excluded_below(rev)
        return above < self.len - rev

    def _excluded_below(self, rev: int) -> int:
        return bisect.bisect_left([*self.excluded], rev)

    def without(self, more: Mapping[int, bytes]) -> Selection:
        """Return the selection but for ``more``, revision to node, ascending."""
        excluded = {**self.excluded, **more}
        if self.excluded and more:
            excluded = dict(sorted(excluded.items()))
        return Selection(self.len, self.tip, excluded)

    def has(self, repo: RepoT, node: bytes) -> bool:
        """Tell whether a changeset is there, and selected."""
        rev = repo.unfiltered().changelog.index.get_rev(node)
        return rev is not None and rev < self.len and rev not in self.excluded


def select(
    repo: RepoT, export: bytes, nodes: Iterable[bytes] | None = None
) -> Selection:
    """Select what ``amalgam.git.export`` allows; of that, the ancestors of ``nodes``.

    ``nodes`` that are not allowed, or not there, select nothing. Cost follows what is
    not selected. ``StorageError`` if the changelog is no history.
    """
    changelog = repo.unfiltered().changelog
    count = len(changelog)
    excluded: AbstractSet[int] = _filtered(repo, _filter_name(repo, export))
    if nodes is not None:
        revs = map(changelog.index.get_rev, nodes)
        allowed = [rev for rev in revs if rev is not None and rev not in excluded]
        excluded = set(range(count)) - set(changelog.ancestors(allowed, inclusive=True))
    hidden = {rev: changelog.node(rev) for rev in sorted(excluded)}
    return Selection(count, changelog.node(count - 1) if count else nullid, hidden)


def drafts(repo: RepoT, selected: Selection) -> dict[int, bytes]:
    """Return those of ``selected`` that are not public: revision to node, ascending."""
    index = repo.unfiltered().changelog.index
    revs = _filtered(repo, b"immutable").difference(selected.excluded)
    # changelog.node takes twice the time
    return {rev: index[rev][constants.ENTRY_NODE_ID] for rev in sorted(revs)}


def heads(repo: RepoT, export: bytes) -> list[bytes]:
    """Return the heads of all that is allowed. Takes some 10 ns a changeset."""
    changelog = view_of(repo, export).changelog
    return [changelog.node(rev) for rev in changelog.headrevs() if rev >= 0]


def _filter_name(repo: RepoT, export: bytes) -> bytes:
    """Return Mercurial's name for the view; git knows no topics, so has none."""
    if export == b"served" and getattr(repo.unfiltered(), "hastopicext", False):
        return _NO_TOPICS
    return _FILTERS[export]


def _filtered(repo: RepoT, name: bytes) -> frozenset[int]:
    try:
        return frozenset(repo.filtered(name).changelog.filteredrevs)
    except ValueError as exc:
        raise _blame(repo.unfiltered().changelog, exc) from None


def _blame(changelog: Any, exc: ValueError) -> error.StorageError:
    """Return the error for the first changeset whose parents do not precede it.

    Mercurial's C code says no more than that there is one.
    """
    index = changelog.index
    found = str(exc).encode()
    for rev in range(len(index)):
        if not all(-1 <= parent < rev for parent in index[rev][5:7]):
            found = _(b"revision %d: its parents do not precede it") % rev
            break
    return error.StorageError(_(b"changelog: %s") % found, hint=_(b"see 'hg verify'"))


def state_of(repo: RepoT) -> FilesState:
    """Return what the file system says of the files that make a view.

    Two that are equal: the view is the same, and so is what bookmarks name. Taken
    before the view is read, it tells afterwards whether what was read is still so.
    """
    return tuple(map(_stamp, _files_of(repo)))


def read_again(repo: RepoT) -> None:
    """Forget what was read of the repository, even if its files look the same.

    Mercurial itself compares times in whole seconds, and keeps what seems unchanged.
    """
    repo.invalidate(clearfilecache=True)
    repo.invalidatedirstate()


def _files_of(repo: RepoT) -> list[bytes]:
    in_store = (b"00changelog.i", b"phaseroots", b"obsstore")
    files = [repo.svfs.join(name) for name in in_store]
    files.append(bookmarks.bookmarksvfs(repo).join(b"bookmarks"))
    if repo.svfs.exists(b"obsstore"):
        # these keep obsolete changesets from being hidden
        files += [repo.vfs.join(name) for name in (b"dirstate", b"localtags")]
    return files


def _stamp(path: bytes) -> tuple[int, ...] | None:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def view_of(repo: RepoT, export: bytes) -> RepoT:
    """Return the repository as its readers may see it."""
    return repo.filtered(_filter_name(repo, export))
