"""An extension beside hg-git: each changeset is exported as by a run of its own.

hg-git begins a run at the first parent of its first changeset. Later ones begin at the
changeset before them, and get its ``.gitmodules``. Here every changeset begins at its
first parent, as if ``hg gexport`` had been run after each of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from hggit import hg2git  # type: ignore[attr-defined]
from mercurial.node import nullrev

_EXPORTER = hg2git.IncrementalChangesetExporter


class _Apart:
    """Stands for the exporter of a run."""

    def __init__(self, repo: Any, start: Any, store: Any, commit: Any) -> None:
        self._repo, self._store = repo, store
        self._after = {start.rev(): _EXPORTER(repo, start, store, commit)}
        self._last = self._after[start.rev()]

    @property
    def root_tree_sha(self) -> bytes:
        return bytes(self._last.root_tree_sha)

    def update_changeset(self, ctx: Any) -> Iterator[Any]:
        exporter = _EXPORTER(self._repo, ctx.p1(), self._store, None)
        if ctx.p1().rev() != nullrev:
            trees = self._exported(ctx.p1())._dirs
            exporter._dirs = {path: tree.copy() for path, tree in trees.items()}
        self._after[ctx.rev()] = self._last = exporter
        yield from exporter.update_changeset(ctx)

    def _exported(self, ctx: Any) -> Any:
        """Return the exporter after a changeset; it may be of an earlier run."""
        if ctx.rev() not in self._after:
            oid = self._repo.githandler.map_git_get(ctx.hex())
            if oid:
                commit = self._store[oid]
                exporter = _EXPORTER(self._repo, ctx, self._store, commit)
                self._after[ctx.rev()] = exporter
            else:
                for _object in self.update_changeset(ctx):
                    pass
        return self._after[ctx.rev()]


def uisetup(_ui: Any) -> None:
    """Replace the exporter; nothing here has to survive a crash."""
    hg2git.IncrementalChangesetExporter = _Apart
    os.fsync = lambda fd: None
