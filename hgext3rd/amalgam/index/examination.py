"""Whether what is kept of an index agrees with it: compared in full, byte by byte.

Quick enough for a look at a repository, since it costs what reading the index costs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ..native.errors import Moved
from .docket import State
from .mapped import Opened, open_indexes
from .snapshot import IndexFile, Snapshots

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT


class Examined(NamedTuple):
    """What an index and its snapshot look like."""

    opened: Opened
    differs_at: int | None
    """Offset of the first byte in which a snapshot that counts as a beginning of the
    index is none; ``None`` if there is no such byte, and no snapshot."""


def examine(repo: RepoT) -> list[Examined]:
    """Look at the indexes of ``repo``, as ``open_indexes`` does, and compare."""
    return [Examined(opened, _difference(opened)) for opened in open_indexes(repo)]


def _difference(opened: Opened) -> int | None:
    snapshot = opened.snapshot
    if snapshot is None:
        return None
    snapshots = Snapshots(snapshot.directory)
    try:
        fd = os.open(opened.decision.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            file = IndexFile(fd, path=b"", name=snapshot.name, entry_bytes=1)
            at = snapshots.difference(file, snapshot)
            docket = snapshots.docket(snapshot.name)
            if docket is None or docket.state != State.of(os.fstat(fd)):
                return None  # it does not count for that file: somebody wrote to it
            return at
        finally:
            os.close(fd)
    except (Moved, OSError):
        return None  # gone, and so not in the way
