"""The selection: changesets that may leave, of those that a server shows.

Secret and hidden changesets are never selected. The selection is made from the
changelog as this process sees it. The core checks that it reads the same one.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import itertools
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from mercurial import bookmarks, error, pycompat
from mercurial.i18n import _
from mercurial.node import nullid
from mercurial.revlogutils import constants
from mercurial.utils import repoviewutil

from ..damage import is_repository_error
from ..records import Record
from . import censorship
from .checkpoint import Checkpoint, begins_with, changelog_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set as AbstractSet

    from mercurial.interfaces.types import RepoT


FilesState: TypeAlias = "tuple[tuple[int, ...] | None, ...]"

# value of amalgam.git.export -> Mercurial's name for that view of a repository
_FILTERS = {b"served": b"served", b"public": b"immutable"}
# the view of clients that know no topics, which are drafts: of the topic extension
_NO_TOPICS = b"served-no-topic"


class Selection(Record):
    """Some changesets of a repository, closed under ancestors."""

    len: int
    """How many changesets the changelog has, selected or not."""
    tip: bytes
    """Node of the last of them; the null node for none."""
    excluded: dict[int, bytes]
    """Those that are not selected: revision to node, ascending."""

    def changesets(self, below: int | None = None) -> int:
        """Return how many changesets are selected, of all or ``below`` a revision."""
        if below is None:
            return self.len - len(self.excluded)
        return below - self._excluded_below(below)

    def nodes_above(self, repo: RepoT, rev: int) -> list[bytes]:
        """Return the nodes of selected changesets from ``rev`` on."""
        index = repo.unfiltered().changelog.index
        return [
            index[above][constants.ENTRY_NODE_ID]
            for above in range(rev, self.len)
            if above not in self.excluded
        ]

    def seen(self, repo: RepoT, below: int | None = None) -> Checkpoint | None:
        """Return the selection in short, of the changelog up to revision ``below``.

        ``None`` if that is empty. Cost as of ``changelog_digest``.
        """
        count = self.len if below is None else min(below, self.len)
        if not count:
            return None
        nodes = changelog_digest(repo.unfiltered().changelog, count)
        return Checkpoint(count, nodes, self._excluded_digest(count))

    def known_below(self, repo: RepoT, seen: Iterable[Checkpoint]) -> int:
        """Return up to which revision nothing changed since ``seen`` were taken."""
        return max(
            (
                place.len
                for place in seen
                if place.len <= self.len
                and self._excluded_digest(place.len) == place.excluded
                and begins_with(repo.unfiltered().changelog, place)
            ),
            default=0,
        )

    def _excluded_digest(self, count: int) -> str:
        nodes = itertools.islice(self.excluded.values(), self._excluded_below(count))
        return hashlib.sha1(b"".join(nodes)).hexdigest()

    def has_above(self, rev: int) -> bool:
        """Return whether ``rev`` or any changeset after it is selected."""
        above = len(self.excluded) - self._excluded_below(rev)
        return above < self.len - rev

    def _excluded_below(self, rev: int) -> int:
        return bisect.bisect_left([*self.excluded], rev)

    def without(self, more: Mapping[int, bytes]) -> Selection:
        """Return the selection without ``more``, revision to node, ascending."""
        excluded = {**self.excluded, **more}
        if self.excluded and more:
            excluded = dict(sorted(excluded.items()))
        return Selection(self.len, self.tip, excluded)

    def has(self, repo: RepoT, node: bytes) -> bool:
        """Return whether a changeset exists and is selected."""
        rev = repo.unfiltered().changelog.index.get_rev(node)
        return rev is not None and rev < self.len and rev not in self.excluded


def select(
    repo: RepoT, export: bytes, nodes: Iterable[bytes] | None = None
) -> Selection:
    """Select changesets of ``amalgam.git.export``; of these, ancestors of ``nodes``.

    Unknown ``nodes``, and those that are not allowed, select nothing. Cost is in
    proportion to the changesets not selected. ``StorageError`` if the changelog is no
    history.
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
    """Return the members of ``selected`` that are not public: revision to node,
    ascending."""
    index = repo.unfiltered().changelog.index
    revs = _filtered(repo, b"immutable").difference(selected.excluded)
    # changelog.node takes twice the time
    return {rev: index[rev][constants.ENTRY_NODE_ID] for rev in sorted(revs)}


def check_texts(repo: RepoT, nodes: Iterable[bytes]) -> None:
    """Read changesets whole; ``StorageError`` for the first that is damaged.

    Damage to a node looks as if one changeset had gone, and another had come.
    """
    changelog = repo.unfiltered().changelog
    for node in nodes:
        try:
            changelog.revision(node)
        except Exception as exc:
            if not is_repository_error(exc):
                raise
            raise error.StorageError(
                _(b"changelog: revision %d: %s")
                % (changelog.rev(node), pycompat.bytestr(exc)),
                hint=_(b"see 'hg verify'"),
            ) from exc


def heads(repo: RepoT, export: bytes) -> list[bytes]:
    """Return the heads of all that is allowed. Takes some 10 ns a changeset."""
    changelog = view_of(repo, export).changelog
    return [changelog.node(rev) for rev in changelog.headrevs() if rev >= 0]


def _filter_name(repo: RepoT, export: bytes) -> bytes:
    """Return Mercurial's name for the view; git has no topics.

    ``server.view`` may show less to clients of hg, and then git gets no more. If it
    shows more, the rest is secret or hidden, and never leaves.
    """
    name = _FILTERS[export]
    if name == b"served" and getattr(repo.unfiltered(), "hastopicext", False):
        name = _NO_TOPICS
    shown: bytes = repo.ui.config(b"server", b"view")
    if shown in _within(name):
        return shown
    if name in (shown, *_within(shown)):
        return name
    raise error.ConfigError(
        _(
            b"invalid value '%s' for server.view "
            b"(expected visible, served, immutable or base)"
        )
        % shown
    )


def _within(name: bytes) -> list[bytes]:
    """Return the views that show less than ``name``, the largest first."""
    names = []
    while (smaller := repoviewutil.subsettable.get(name)) is not None:
        names.append(name := smaller)
    return names


def appended(repo: RepoT, seen: Iterable[Checkpoint]) -> int:
    """Return where the changelog was longer than when ``seen`` were taken.

    0 if something else than appending happened to it.
    """
    changelog = repo.unfiltered().changelog
    return max(
        (place.len for place in seen if begins_with(changelog, place)),
        default=0,
    )


def topics(repo: RepoT) -> int:
    """Return how many changesets are served by hg and left out since they have topics.

    That is, these and their descendants.
    """
    if _filter_name(repo, b"served") != _NO_TOPICS:
        return 0
    return len(_filtered(repo, _NO_TOPICS) - _filtered(repo, b"served"))


def _filtered(repo: RepoT, name: bytes) -> frozenset[int]:
    try:
        return frozenset(repo.filtered(name).changelog.filteredrevs)
    except ValueError as exc:
        raise _blame(repo.unfiltered().changelog, exc) from None
    except IndexError:
        # phases or bookmarks were read before a strip, and the changelog after it
        raise error.StorageError(
            _(b"the changelog was cut while it was read"), hint=_(b"try again")
        ) from None


def _blame(changelog: Any, exc: ValueError) -> error.StorageError:
    """Return the error for the first changeset whose parents do not precede it.

    Mercurial's C code does not name it.
    """
    index = changelog.index
    found = str(exc).encode()
    for rev in range(len(index)):
        if not all(-1 <= parent < rev for parent in index[rev][5:7]):
            found = _(b"revision %d: its parents do not precede it") % rev
            break
    return error.StorageError(_(b"changelog: %s") % found, hint=_(b"see 'hg verify'"))


def state_of(repo: RepoT) -> FilesState:
    """Return the file stats of all files that make a view.

    Equal stats: the view, names and censorings are the same. Taken before the view
    is read, they tell afterwards whether it is still valid.
    """
    return tuple(map(_stamp, _files_of(repo)))


def read_again(repo: RepoT) -> None:
    """Forget cached data of the repository, even if its files look the same.

    Mercurial compares times in whole seconds, and keeps data that seems unchanged. With
    the bookmarks, it reads the changelog again; later, the changelog would not be the
    one that the selection was made from. It needs them to tell what is hidden. Without
    obsolete changesets, that takes them for nothing.
    """
    repo.invalidate(clearfilecache=True)
    repo.invalidatedirstate()
    if repo.svfs.exists(b"obsstore"):
        repo._bookmarks  # noqa: B018


def _files_of(repo: RepoT) -> list[bytes]:
    in_store = (b"00changelog.i", b"phaseroots", b"obsstore")
    files = [repo.svfs.join(name) for name in in_store]
    files.append(bookmarks.bookmarksvfs(repo).join(b"bookmarks"))
    files.append(os.path.join(repo.sharedpath, censorship.NAME))
    # a local tag stands before one of the same name that others see
    files.append(repo.vfs.join(b"localtags"))
    fetched = os.path.join(repo.sharedpath, b"amalgam", b"fetched")
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(fetched))
        known = (it for it in names if it.endswith((b".refs", b".head")))
        files += [os.path.join(fetched, it) for it in known]
    if repo.svfs.exists(b"obsstore"):
        # like local tags, they keep obsolete changesets from being hidden
        pinning = (b"dirstate", b"merge/state", b"merge/state2")
        files += map(repo.vfs.join, pinning)
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
