"""Full comparison of snapshots and node maps with their indexes.

Takes about a second for a million changesets.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..core.errors import Moved
from ..files import Unusable
from ..records import Record
from . import nodemapfile
from .opening import Opened, open_indexes
from .snapshot import FileStat, IndexFile, Snapshots

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT


class Examined(Record):
    """State of an index and its snapshot."""

    opened: Opened
    differs_at: int | None
    """Offset of the first byte that differs between an index and its valid snapshot;
    ``None`` if none differs, or without a snapshot."""
    mapped_nodes: int
    """Revisions that are in its node map."""
    node_map_bytes: int
    """Size on disk."""
    node_map_problems: list[bytes]
    """Damage of the node map."""


def examine(repo: RepoT) -> list[Examined]:
    """Look at the indexes of ``repo``, as ``open_indexes`` does, and compare."""
    return [_examined(opened) for opened in open_indexes(repo)]


def _examined(opened: Opened) -> Examined:
    difference = _difference(opened)
    snapshot = opened.snapshot
    if snapshot is None or difference is not None:
        return Examined(opened, difference, 0, 0, [])
    nodes, size_bytes = nodemapfile.status(snapshot)
    problems = nodemapfile.verify(snapshot, opened.data)
    return Examined(opened, None, nodes, size_bytes, problems)


def _difference(opened: Opened) -> int | None:
    snapshot = opened.snapshot
    if snapshot is None:
        return None
    snapshots = Snapshots(snapshot.directory, snapshot.trust)
    try:
        fd = os.open(opened.decision.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            file = IndexFile(fd, path=b"", name=snapshot.name, entry_bytes=1)
            at = snapshots.difference(file, snapshot)
            docket = snapshots.docket(snapshot.name)
            if docket is None or docket.state != FileStat.of(os.fstat(fd)):
                return None  # it does not count for that file: somebody wrote to it
            return at
        finally:
            os.close(fd)
    except (Moved, OSError, Unusable):
        return None  # gone, and so not in the way
