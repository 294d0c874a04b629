"""How an index that is to be mapped gets into memory: by its snapshot.

Finds the snapshot, or makes one fit if this process may, and tells why not otherwise.
A file that changes meanwhile is looked at again. Knows nothing of revlogs, nor of
Mercurial's configuration.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mercurial import encoding

from .. import placement
from ..loading import load
from ..native.errors import Moved
from ..records import Record
from . import buffer
from .decision import Reason
from .snapshot import Busy, IndexFile, Snapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..configitems import IndexConfig
    from ..placement import Placement
    from .docket import State

_ATTEMPTS = 4


class Unavailable(Exception):  # noqa: N818
    """No snapshot can be used now: the index is to be read."""

    def __init__(self, reason: Reason, detail: bytes = b"") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class Site(Record):
    """Where the snapshots of a repository are, and how they are used there."""

    snapshots: Snapshots
    store_path: bytes
    """Full path of ``.hg/store``."""
    owner_path: bytes
    """Full path of ``.hg``."""
    prefault: int
    """One of ``buffer.PREFAULTS``."""
    follow: Callable[[Placement, Snapshot, memoryview, bool], None]
    """Renews what leans on a snapshot, with its placement and the whole index; afresh
    if the last argument says so."""

    @classmethod
    def of(
        cls,
        store_path: bytes,
        owner_path: bytes,
        config: IndexConfig,
        follow: Callable[[Placement, Snapshot, memoryview, bool], None],
    ) -> Site:
        """Return where the snapshots of the store at ``store_path`` are."""
        return cls(
            snapshots=Snapshots(os.path.join(owner_path, b"amalgam", b"index")),
            store_path=store_path,
            owner_path=owner_path,
            prefault=buffer.PREFAULTS[config.prefault],
            follow=follow,
        )

    def placement(self) -> Placement:
        """Return how files are written there."""
        load(placement)
        return placement.Placement.at(self.store_path, self.owner_path)

    def renew(
        self,
        file: IndexFile,
        placement: Placement,
        *,
        grown_from: State | None = None,
        afresh: bool = False,
    ) -> None:
        """Renew the snapshot of an index and what leans on it, as ``Snapshots.renew``.

        Within ``Snapshots.writing``.
        """
        snapshot = self.snapshots.renew(
            file, placement, grown_from=grown_from, afresh=afresh
        )
        if snapshot is not None:
            nothing = buffer.PREFAULTS[b"none"]
            mapped = self._mapped(snapshot, file, file.state(), nothing)
            self.follow(placement, snapshot, mapped.data, afresh)

    def open(
        self, file: IndexFile, in_transaction: Callable[[], bool]
    ) -> tuple[buffer.Mapped, Snapshot]:
        """Return an index and its snapshot; ``Unavailable`` if it cannot be mapped."""
        damaged = False
        try:
            for _attempt in range(_ATTEMPTS):
                state = file.state()
                snapshot = self.snapshots.find(file, state)
                if snapshot is None or damaged:
                    self._renew_on_demand(file, in_transaction, afresh=damaged)
                    damaged = False
                    continue
                try:
                    mapped = self._mapped(snapshot, file, state, self.prefault)
                except Moved:
                    # a snapshot that fits no longer, though nobody touched the index
                    damaged = file.state() == state
                    continue
                if file.state() == state:
                    return mapped, snapshot
        except Moved:
            pass
        except OSError as exc:
            detail = encoding.strtolocal(os.strerror(exc.errno or 0))
            raise Unavailable(Reason.NO_SNAPSHOT, detail) from exc
        raise Unavailable(Reason.CHANGING)

    def _mapped(
        self,
        snapshot: Snapshot,
        file: IndexFile,
        state: State,
        prefault: int,
    ) -> buffer.Mapped:
        covered, length_bytes = snapshot.length_bytes, file.length_bytes(state)
        return buffer.mapped(snapshot.path, covered, file.fd, length_bytes, prefault)

    def _renew_on_demand(
        self, file: IndexFile, in_transaction: Callable[[], bool], *, afresh: bool
    ) -> None:
        if in_transaction():
            # it may change at any time, and back when the transaction is rolled back
            raise Unavailable(Reason.TRANSACTION)
        placement = self.placement()
        try:
            with self.snapshots.writing(placement):
                self.renew(file, placement, afresh=afresh)
        except Busy:
            raise Unavailable(Reason.BUSY) from None
