"""The opening of an index to be mapped, by its snapshot.

Finds the snapshot, updates it if this process may, or returns the reason for none.
Starts again if the file changes meanwhile. Knows neither revlogs nor Mercurial's
configuration.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mercurial import encoding, error, util
from mercurial.utils import stringutil

from ..core.errors import Moved
from ..files import Directory, Placement
from ..records import Record
from ..trust import Trust
from . import buffer
from .decision import Reason
from .snapshot import Busy, IndexFile, Snapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import UiT

    from .snapshot import FileStat

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
    """Renews data that depends on a snapshot, with mode and owner and the whole index;
    from nothing if the last argument says so."""

    @classmethod
    def of(
        cls,
        store_path: bytes,
        owner_path: bytes,
        prefault: bytes,
        follow: Callable[[Placement, Snapshot, memoryview, bool], None],
        ui: UiT,
    ) -> Site:
        """Return the snapshots of the store at ``store_path``.

        ``ui`` is that of the repository, with the user's trusted owners.
        """
        directory = Directory(owner_path, (b"amalgam", b"index"))
        trust = Trust.of(ui, store_path, owner_path)
        return cls(
            snapshots=Snapshots(directory, trust),
            store_path=store_path,
            owner_path=owner_path,
            prefault=buffer.PREFAULTS[prefault],
            follow=follow,
        )

    @property
    def trust(self) -> Trust:
        """Rights of this process over these files."""
        return self.snapshots.trust

    def placement(self) -> Placement:
        """Return how files are written there."""
        return Placement.at(self.store_path, self.owner_path)

    def renew(
        self,
        file: IndexFile,
        placement: Placement,
        *,
        grown_from: FileStat | None = None,
        afresh: bool = False,
    ) -> None:
        """Renew the snapshot of an index and its dependents, like ``Snapshots.renew``.

        Within ``Snapshots.writing``.
        """
        snapshot = self.snapshots.renew(
            file, placement, grown_from=grown_from, afresh=afresh
        )
        if snapshot is not None:
            nothing = buffer.PREFAULTS[b"none"]
            mapped = self._mapped(snapshot, file, file.state(), nothing)
            if mapped is not None:
                self.follow(placement, snapshot, mapped.data, afresh)

    def open(
        self, file: IndexFile, in_transaction: Callable[[], bool]
    ) -> tuple[buffer.Mapped, Snapshot]:
        """Return an index and its snapshot; ``Unavailable`` if it cannot be mapped."""
        if not self.trust.usable:
            owner = self.trust.owner
            raise Unavailable(Reason.UNTRUSTED, util.username(owner) or b"%d" % owner)
        try:
            found = self._open(file, in_transaction)
        except Moved:
            found = None
        except OSError as exc:
            detail = encoding.strtolocal(os.strerror(exc.errno or 0))
            raise Unavailable(Reason.NO_SNAPSHOT, detail) from exc
        except error.StorageError as exc:
            detail = stringutil.forcebytestr(exc)
            raise Unavailable(Reason.NO_SNAPSHOT, detail) from exc
        if found is None:
            raise Unavailable(Reason.CHANGING)
        return found

    def _open(
        self, file: IndexFile, in_transaction: Callable[[], bool]
    ) -> tuple[buffer.Mapped, Snapshot] | None:
        """Return an index and its snapshot; ``None`` or ``Moved`` if it changes."""
        damaged = False
        for _attempt in range(_ATTEMPTS):
            state = file.state()
            snapshot = None if damaged else self.snapshots.find(file, state)
            mapped = None
            if snapshot is not None:
                try:
                    mapped = self._mapped(snapshot, file, state, self.prefault)
                except Moved:
                    # they differ, though nobody touched them
                    damaged = file.state() == state
                    continue
            if snapshot is None or mapped is None:
                self._renew_on_demand(file, in_transaction, afresh=damaged)
                damaged = False
            elif file.state() == state:
                return mapped, snapshot
        return None

    def _mapped(
        self,
        snapshot: Snapshot,
        file: IndexFile,
        state: FileStat,
        prefault: int,
    ) -> buffer.Mapped | None:
        """Map an index; ``None`` if its snapshot does not count any more."""
        with snapshot.opened() as fd:
            if fd is None:
                return None
            return buffer.mapped(
                fd,
                snapshot.path,
                snapshot.length_bytes,
                file.fd,
                file.length_bytes(state),
                prefault,
            )

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
