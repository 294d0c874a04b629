"""Status of replication, for operators: lag, failures, refused refs. Asks no remote."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..config import replicas
from ..gitstore import failures
from ..gitstore.export.lastexport import LastExport
from ..gitstore.failures import Failure
from ..records import Record
from ..terminal import counted
from . import targets
from .ledger import Ledger, read_only
from .replicate import FAILURE
from .source import look_of
from .transport import FailureKind, kind_of

if TYPE_CHECKING:
    from ..gitstore.store import GitStore

_SHOWN_REFS = 3


class ReplicaStatus(Record):
    """A remote at a glance."""

    name: bytes
    url: bytes = b""
    on_change: bool = False
    lag_seconds: int = 0
    """Since when the remote lacks a change that it did not refuse; 0 if it has all."""
    succeeded: int = 0
    """When it had all but refused refs for the last time; 0 for never."""
    refused: tuple[bytes, ...] = ()
    failures: int = 0
    """Failures in a row."""
    reason: bytes = b""
    """Reason of the last failure, or of the first refused ref."""
    pushes: int = 0
    written: int = 0
    """Refs that were written, in all pushes."""
    needs_person: bool = False

    def problem(self) -> tuple[bytes, bytes] | None:
        """Return a problem that needs a person, with the next thing to type."""
        hint = _(b"run 'hg git::push %s'") % self.name
        if self.needs_person:
            text = _(b"replication to '%s' needs a person: %s")
            return text % (self.name, self.reason), hint
        if self.refused:
            text = _(b"'%s' refuses %s: %s: %s")
            refs = b", ".join(self.refused[:_SHOWN_REFS])
            count = counted(len(self.refused), b"ref")
            return text % (self.name, count, refs, self.reason), hint
        return None

    @classmethod
    def all_of(cls, store: GitStore) -> list[ReplicaStatus]:
        """Return the status of each remote of the configuration."""
        return [cls._of(store, name) for name in replicas(store.repo.ui)]

    @classmethod
    def _of(cls, store: GitStore, name: bytes) -> ReplicaStatus:
        try:
            target = targets.named(store, name, in_background=True)
        except error.Abort as exc:
            return cls(name, needs_person=True, reason=failures.reason_of(exc))
        status = cls(name, target.remote.shown, target.config.on_change)
        failure = Failure.read(target.directory, FAILURE)
        ledger = read_only(target.directory, target.placement)
        if Ledger.url(target.directory) != target.remote.url:
            ledger = None
        if ledger is not None:
            refused = sorted(ledger.refused.items())
            look = look_of(store.repository.names_state(), None, target)
            is_current = ledger.look.partition(b"-")[0] == look.partition(b"-")[0]
            since = ledger.since
            if not since and not is_current:
                last = LastExport.read(store)
                since = last.ended if last else 0
            lag = max(0, int(time.time()) - since) if since else 0
            status = status._replace(
                lag_seconds=lag,
                succeeded=ledger.succeeded,
                refused=tuple(ref for ref, it in refused if not it.next),
                reason=refused[0][1].reason if refused else b"",
                pushes=ledger.pushes,
                written=ledger.written,
            )
        if failure is not None:
            kind = kind_of(failure.reason.encode(), FailureKind.TRANSIENT)
            status = status._replace(
                failures=failure.attempts,
                reason=failure.reason.encode(),
                needs_person=not failure.retry or kind is FailureKind.LOGIN,
            )
        return status
