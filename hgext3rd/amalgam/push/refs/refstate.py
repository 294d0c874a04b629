"""What the refs of a repository are at one moment, also within a transaction.

A push goes into a repository that may be a share, and so has to be looked at through
that one: the object of its source sees no open transaction. What git users see is
decided by the source, whose store and bookmarks they are. Changes nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...gitstore.git.refs import HEADS, NamedNodes
from ...gitstore.state import selection
from ...gitstore.state.source import has_own_bookmarks
from ...records import Record
from .refcommands import ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT

    from ...gitstore.store import GitStore


def view_of(repo: RepoT, store: GitStore) -> RepoT:
    """Return ``repo`` as git users see it; ``store`` is its git store."""
    shown = selection.view_of(store.repo, store.config.export)
    return repo.filtered(shown.filtername)


class RefState(Record):
    """What the refs of a repository are at one moment."""

    view: RepoT
    """The repository as git users see it."""
    named: NamedNodes
    refs: dict[bytes, bytes]
    """All refs that git users see: name to node."""
    head: bytes
    """The ref that a clone checks out; there may be none of that name."""
    branches: dict[bytes, tuple[str, bytes]]
    """Kind and name of what each branch is, by its name in git."""

    @classmethod
    def of(cls, repo: RepoT, store: GitStore, *, tags: bool = False) -> RefState:
        """Look at ``repo``, whose git store is ``store``, as it is now.

        ``tags``: look at them, too, and not at what Mercurial has in memory of them.
        """
        if repo.shared() and not repo.currenttransaction():
            # its files do not tell what was done to the source's bookmarks
            selection.read_again(repo)
        view = view_of(repo, store)
        if tags:
            view.invalidatecaches()
        bookmarks = None
        if has_own_bookmarks(repo):
            selection.read_again(store.repo)
            bookmarks = store.repo._bookmarks
        named = NamedNodes.of(view, store.config.refs, bookmarks=bookmarks)
        branches = {shown: key for key, shown in named.branches().items()}
        return cls(view, named, *named.refs(), branches)

    def stands_for(self, ref: bytes) -> tuple[str, bytes] | None:
        """Return kind and name of what a ref below ``refs/heads/`` is; or ``None``."""
        return self.branches.get(ref.removeprefix(HEADS))

    def oids(self, store: GitStore, refs: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return what each of ``refs`` is in git, oid in hex.

        ``ZERO`` for one that does not exist. Empty for one that is not exported yet, so
        that no client can know it.
        """
        refs = [*refs]
        there = [ref for ref in refs if ref in self.refs]
        with contextlib.closing(store.open_map()) as oidmap:
            found = oidmap.oids([self.refs[ref] for ref in there])
        oids = dict.fromkeys(refs, ZERO)
        for ref, oid in zip(there, found, strict=True):
            oids[ref] = oid.hex().encode() if oid else b""
        return oids
