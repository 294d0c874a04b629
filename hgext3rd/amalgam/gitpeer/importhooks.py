"""Hooks of imports, which run as hg-git runs them, with ``git=True``.

``gitimport`` before an import, ``pretxncommit`` and ``incoming`` for each changeset,
``changegroup`` at the end. Those of the changegroup by which Mercurial adds changesets
do not run then, but for ``pretxnchangegroup``, which may refuse them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from mercurial import hook as hookmod
from mercurial.node import bin as bin_node

from . import bookmarks as marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mercurial.interfaces.types import RepoT

    from .source import GitSource

_REPLACED = (b"prechangegroup", b"incoming", b"changegroup")


def begin(repo: RepoT, source: GitSource, names: Sequence[bytes]) -> None:
    """Run ``gitimport``, once for each command. ``names`` are those of the remote."""
    is_wanted = marks.is_of_hggit(repo.ui) and hookmod.hashook(repo.ui, b"gitimport")
    if is_wanted and source.begins():
        refs = {it: oid for it, oid in source.advertised.oids.items() if oid}
        heads = source.looked_up or None
        given: dict[str, Any] = {"names": names, "refs": refs, "heads": heads}
        repo.hook(b"gitimport", source=b"pull", git=True, **given)


class ImportHooks:
    """The hooks of one import; none but in the dialect of hg-git."""

    def __init__(self, repo: RepoT) -> None:
        self._repo = repo
        self._found: dict[bytes, list[tuple[bytes, Any]]] = {}
        is_wanted = marks.is_of_hggit(repo.ui) and repo.ui.callhooks
        for name, action in hookmod._allhooks(repo.ui) if is_wanted else ():
            kind = name.partition(b".")[0]
            if kind in (*_REPLACED, b"pretxncommit") and action:
                self._found.setdefault(kind, []).append((name, action))
        self._added: list[bytes] = []

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Keep Mercurial from running those that are replaced, until it unlocks."""
        names = [name for kind in _REPLACED for name, _it in self._found.get(kind, ())]
        backups = [self._repo.ui.backupconfig(b"hooks", name) for name in names]
        for name in names:
            self._repo.ui.setconfig(b"hooks", name, b"", b"amalgam")

        def restore(_is_done: bool) -> None:
            for it in backups:
                self._repo.ui.restoreconfig(it)

        try:
            yield
        finally:
            if backups:
                # after those that transactions have put off
                self._repo._afterlock(restore)

    def added(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Run the hooks of new changesets: ``pairs`` of oid and node, in hex.

        In their transaction, which an error ends.
        """
        if not self._found:
            return
        for oid, node in pairs:
            self._added.append(node)
            if b"pretxncommit" in self._found:
                ctx = self._repo.unfiltered()[bin_node(node)]
                second = ctx.p2().hex() if ctx.p2() else b""
                parents = {"parent1": ctx.p1().hex(), "parent2": second}
                self._repo.hook(b"pretxncommit", throw=True, node=node, **parents)
            given = {"source": b"pull", "node": node, "git_node": oid}
            self._run(b"incoming", git=True, **given)

    def end(self) -> None:
        """Run ``changegroup``, if changesets were added."""
        if self._added:
            first, last = self._added[0], self._added[-1]
            self._added.clear()
            nodes = {"node": first, "node_last": last}
            self._run(b"changegroup", source=b"push", git=True, **nodes)

    def _run(self, kind: bytes, **given: Any) -> None:
        ui, actions = self._repo.ui, self._found.get(kind, [])
        hookmod.runhooks(ui, self._repo, kind, actions, **given)
