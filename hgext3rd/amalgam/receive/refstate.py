"""The refs of a repository at one moment, also within a transaction.

A push goes into a repository that may be a share, which sees the open transaction; the
source, which owns store and bookmarks, decides which refs git users see. Bookmarks are
in the encoding of the process, as in a bundle.

A push asks for a few of many refs. So a state keeps the bookmarks as Mercurial has read
them, and computes the names that it is asked for (``BranchNames``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ..gitstore import selection
from ..gitstore.fetchedrefs import FetchedRefs
from ..gitstore.git import branchnames
from ..gitstore.git.branchnames import BranchNames
from ..gitstore.git.refs import HEADS, MAIN_LINES, NamedNodes
from ..gitstore.source import has_own_bookmarks
from ..records import Record
from .commands import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from mercurial.interfaces.types import RepoT

    from ..gitstore.git.branchnames import Key
    from ..gitstore.store import GitStore

    Moves: TypeAlias = dict[bytes, tuple[bytes | None, bytes | None]]

BOOKMARK, TIP, TAG = "bookmark", "tip", "tag"


def view_of(repo: RepoT, store: GitStore) -> RepoT:
    """Return ``repo`` as git users see it; ``store`` is its git store."""
    shown = selection.view_of(store.repo, store.config.export)
    return repo.filtered(shown.filtername)


class _Visible(Record):
    """The changesets that git users see."""

    rev_of: Callable[[bytes], int | None]
    hidden: frozenset[int]

    @classmethod
    def of(cls, view: RepoT) -> _Visible:
        """Take those of ``view``."""
        index = view.unfiltered().changelog.index
        return cls(index.get_rev, view.changelog.filteredrevs)

    def has(self, node: bytes) -> bool:
        """Return whether ``node`` is one of them."""
        rev = self.rev_of(node)
        # a strip may leave a bookmark on the null revision, which has no commit
        return rev is not None and rev >= 0 and rev not in self.hidden


class RefState(Record):
    """The refs of a repository at one moment.

    It can be asked until a transaction changes the repository, and then one made by
    ``former``.
    """

    view: RepoT
    """The repository as git users see it."""
    kinds: frozenset[bytes]
    """The value of ``amalgam.git.refs``."""
    marks: Mapping[bytes, bytes]
    """Bookmarks, of which git users may not see some."""
    are_own: bool
    """Whether transactions of the repository change these."""
    visible: _Visible
    named: NamedNodes
    """Names other than bookmarks and tags."""
    branches: BranchNames
    """Names in git of bookmarks and tips, without prefix."""
    read_tags: dict[bytes, bytes] | None
    """Tags, if they were read."""

    @classmethod
    def of(cls, repo: RepoT, store: GitStore, *, tags: bool = False) -> RefState:
        """Take the refs of ``repo``, whose git store is ``store``.

        ``tags``: read tags, too, and not from Mercurial's memory.
        """
        if repo.shared() and not repo.currenttransaction():
            # files of the share do not show changes of the source's bookmarks
            selection.read_again(repo)
        view = view_of(repo, store)
        kinds = frozenset(store.config.refs)
        if tags:
            view.invalidatecaches()
        marks: Mapping[bytes, bytes] = {}
        are_own = b"bookmarks" in kinds and not has_own_bookmarks(repo)
        if are_own:
            marks = view._bookmarks
        elif b"bookmarks" in kinds:
            selection.read_again(store.repo)
            marks = store.repo._bookmarks
        visible = _Visible.of(view)
        main_line = FetchedRefs(store).main_line()
        named = NamedNodes.of(view, kinds - {b"bookmarks", b"tags"}, main_line)
        branches = BranchNames(marks, named.tips, visible.has)
        state = cls(view, kinds, marks, are_own, visible, named, branches, None)
        return state._replace(read_tags=state.tags) if tags else state

    @property
    def tips(self) -> Mapping[bytes, bytes]:
        """Node of the tip of each open branch, by its name in Mercurial."""
        return self.named.tips

    @property
    def tags(self) -> dict[bytes, bytes]:
        """Node of each tag, by its name in Mercurial."""
        if self.read_tags is not None:
            return self.read_tags
        return NamedNodes.of(self.view, self.kinds & {b"tags"}).tags

    @property
    def _others(self) -> dict[bytes, bytes]:
        """The refs that are no branches, name to node."""
        refs, _head = self.named._replace(tips={}, tags=self.tags).refs()
        return refs

    @property
    def head(self) -> bytes:
        """The ref that a clone checks out; there may be none of that name."""
        return self.named.head(lambda *key: self.branches.shown(key))

    @property
    def is_empty(self) -> bool:
        """Whether git users see no ref at all."""
        has_branch = any(map(self.branches.shown, self.branches.served()))
        return not has_branch and not self._others

    @property
    def with_main_line(self) -> set[bytes]:
        """The named branches on which a bookmark is the main line."""
        nodes = (self.branches.node((BOOKMARK, name)) for name in MAIN_LINES)
        repo = self.view.unfiltered()  # a transaction may have hidden them
        return {repo[node].branch() for node in nodes if node is not None}

    def nodes(self, refs: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """Return the changeset that each ref leads to; ``None`` for a missing ref."""
        refs = [*refs]
        has_others = not all(ref.startswith(HEADS) for ref in refs)
        others = self._others if has_others else {}
        found: dict[bytes, bytes | None] = {}
        for ref in refs:
            key = self.stands_for(ref)
            found[ref] = self.branches.node(key) if key else others.get(ref)
        return found

    def node(self, ref: bytes) -> bytes | None:
        """Return the changeset that a ref leads to; ``None`` for a missing ref."""
        return self.nodes([ref])[ref]

    def stands_for(self, ref: bytes) -> Key | None:
        """Return kind and name of a ref below ``refs/heads/``, or None."""
        if not ref.startswith(HEADS):
            return None
        return self.branches.key(ref.removeprefix(HEADS))

    def ref_of_tip(self, branch: bytes) -> bytes:
        """Return the ref of the tip of a named branch; empty if it has none."""
        shown = self.branches.shown((TIP, branch))
        return HEADS + shown if shown else b""

    def oids(self, store: GitStore, refs: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the oid of each of ``refs`` in git, in hex.

        ``ZERO`` for a missing one. Empty for one that is not exported yet, so that no
        client can know it.
        """
        nodes = self.nodes(refs)
        there = {ref: node for ref, node in nodes.items() if node is not None}
        with contextlib.closing(store.open_map()) as oidmap:
            found = oidmap.oids([*there.values()])
        oids = dict.fromkeys(nodes, ZERO)
        for ref, oid in zip(there, found, strict=True):
            oids[ref] = oid.hex().encode() if oid else b""
        return oids

    def leads_to(
        self,
        node: bytes,
        without: Collection[bytes] = (),
        led: set[int] | None = None,
    ) -> bool:
        """Return whether a branch leads to a changeset, or above it.

        ``without``: refs that do not count. ``led``: revisions that branches are known
        to lead to, for many calls with the same ``without``.
        """
        branches = {tip: branch for branch, tip in self.tips.items()}
        marks: Any = self.marks  # Mercurial's
        for rev in self.view.revs(b"%n::", node):
            if led and rev in led:
                return True
            above = self.view.changelog.node(rev)
            keys = [(BOOKMARK, name) for name in (marks.names(above) if marks else ())]
            if above in branches:
                keys.append((TIP, branches[above]))
            for key in keys:
                shown = self.branches.shown(key)
                if shown and HEADS + shown not in without:
                    if led is not None:
                        led.update(self.view.revs(b"%n::%d", node, rev))
                    return True
        return False

    def former(self, after: RefState, transaction: Any) -> RefState:
        """Return this state, to be asked in the ``transaction`` that followed it.

        ``after`` is the state now.
        """
        marks = self.marks
        if self.are_own:
            changed = transaction.changes.get(b"bookmarks", {})
            old = {name: nodes[0] for name, nodes in changed.items()}
            marks = _FormerBookmarks(after.marks, old)
        branches = BranchNames(marks, self.tips, self.visible.has)
        return self._replace(marks=marks, branches=branches)

    def moves(self, after: RefState, transaction: Any) -> Moves:
        """Return the refs that differ, each with its nodes in both states.

        This state is one of ``former``. Tags are compared if they were read.
        """
        now: Any = after.marks  # Mercurial's
        if self.are_own:
            names = {*transaction.changes.get(b"bookmarks", {})}
        else:
            both = self.marks.keys() | now.keys()
            names = {it for it in both if self.marks.get(it) != now.get(it)}
        changed = self.visible.hidden ^ after.visible.hidden
        if changed and now:
            node_of = self.view.unfiltered().changelog.node
            names.update(it for rev in changed for it in now.names(node_of(rev)))
        tips = self.tips.keys() | after.tips.keys()
        keys = {(TIP, it) for it in tips if self.tips.get(it) != after.tips.get(it)}
        keys |= {(BOOKMARK, it) for it in names}
        found = branchnames.changes(self.branches, after.branches, keys)
        moves = {HEADS + name: nodes for name, nodes in found.items()}
        if b"heads" in self.kinds or self.read_tags is not None:
            old, new = self._others, after._others
            for ref in old.keys() | new.keys():
                if old.get(ref) != new.get(ref):
                    moves[ref] = old.get(ref), new.get(ref)
        return moves


class _FormerBookmarks(Mapping[bytes, bytes]):
    """Bookmarks before some have changed."""

    def __init__(
        self, now: Mapping[bytes, bytes], changed: Mapping[bytes, bytes | None]
    ) -> None:
        self._now = now
        self._changed = changed

    def __getitem__(self, name: bytes) -> bytes:
        node = self._changed[name] if name in self._changed else self._now[name]
        if node is None:
            raise KeyError(name)
        return node

    def __iter__(self) -> Iterator[bytes]:
        yield from (name for name in self._now if name not in self._changed)
        yield from (name for name, node in self._changed.items() if node is not None)

    def __len__(self) -> int:
        return sum(1 for _name in self)
