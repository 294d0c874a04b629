"""Freshness: a request waits until its git store may be read, and is up to date.

A request is answered from a store only if all that is in it may be read at that moment.
``economy.verdicts`` tells whether that is so.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.utils import stringutil

from ..gitstore import lockholder
from ..gitstore.exporting import (
    export as exporting,
    exporter,
    exportrequest,
)
from ..gitstore.exporting.pending import TransactionAbandoned
from ..gitstore.lockholder import LockState
from .economy.verdicts import UNREADABLE, damage, look, patiently
from .refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..gitstore.store import GitStore

_PAUSE_SECONDS = 0.02
_LATER = b"the git repository is being made up to date; try again"
_FAILED = (
    b"the git repository cannot be made up to date; its operator finds why in the log"
)
_READ_ONLY = b"the git store is not up to date, and this process may not write it"


class _Exports:
    """What the threads of this process export into one store, one at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last_began = -math.inf
        """When the last one began that succeeded; ``time.monotonic()``."""

    def note(self, began: float) -> None:
        """Note one that succeeded; the lock is held."""
        self.last_began = began


_exports: dict[tuple[bytes, object], _Exports] = {}
_one_at_a_time = threading.Lock()


class Freshness:
    """One request for a store that may be read."""

    def __init__(self, store: GitStore, limit: int, timeout: float) -> None:
        """``limit``: how many missing changesets are exported before an answer.

        ``timeout``: how many seconds the request may wait.
        """
        self._store = store
        self._limit = limit
        self._began = time.monotonic()
        self._end = self._began + timeout
        self._is_started = False

    def ensure(self, *, now: bool = False) -> None:
        """See that the store may be read, and is as fresh as it has to be.

        ``now``: up to date, whatever that takes. ``RefusedError`` if that cannot be, or
        not in time.
        """
        store = self._store
        while True:
            known = look(store)
            if known.is_current:
                return
            if known.damaged and not self._is_locked():
                raise damage(store, known.damaged)
            may_be_old = known.is_safe and not now
            if not _may_write(store):
                if may_be_old:
                    return
                logged = _READ_ONLY  # unless another process is at it
            elif self._is_locked():
                if may_be_old and self._missing() > self._limit:
                    return
                logged = b""
            elif self._missing() <= self._limit:
                has_worked = self._export()
                if look(store).is_safe and (has_worked or not now):
                    return
                if not has_worked:
                    raise RefusedError.later(_FAILED)
                logged = b""
            else:
                self._start()
                if may_be_old and known.docket.packs:
                    return
                logged = b""
            if self._left() <= 0:
                if may_be_old:
                    return
                raise RefusedError.later(_LATER, logged=logged)
            time.sleep(_PAUSE_SECONDS)

    def _missing(self) -> int:
        try:
            return patiently(self._store, self._store.missing)
        except FileNotFoundError:
            return 0  # segments are being merged; look again

    def _is_locked(self) -> bool:
        """Tell whether another process exports."""
        held = lockholder.holder(self._store.directory)
        if held is None or held.state is not LockState.RUNNING:
            return False
        return held.pid != os.getpid()

    def _export(self) -> bool:
        """Export; tell whether that worked.

        Threads of this process share an export: one that began after the request has
        all that the request has to see.
        """
        store = self._store
        with _one_at_a_time:
            key = (store.repo.sharedpath, store.config)
            exports = _exports.setdefault(key, _Exports())
        if not exports.lock.acquire(timeout=max(0, self._left())):
            raise RefusedError.later(_LATER)
        try:
            if exports.last_began > self._began or look(store).is_current:
                return True
            if exporter.must_wait(store.repo):
                return False
            began = time.monotonic()
            with _patience(store, self._left()):
                exporting.export(store, once=True)
            exports.note(began)
            exporter.forget_failure(store.repo)
            with contextlib.suppress(*UNREADABLE):  # the next export tries again
                exporter.roll_up_if_due(store)
        except Exception as exc:
            problem = stringutil.forcebytestr(exc)
            store.repo.ui.log(b"amalgam", b"export for git failed: %s\n", problem)
            # another one may end yet, and somebody run hg recover
            if not isinstance(exc, error.LockError | TransactionAbandoned):
                exporter.note_failure(store.repo, exc)
            return False
        finally:
            exports.lock.release()
        return True

    def _start(self) -> None:
        """Let another process export."""
        if self._is_started or exporter.must_wait(self._store.repo):
            return
        self._is_started = True
        try:
            exportrequest.start_for_server(self._store.repo)
        except UNREADABLE as exc:
            problem = stringutil.forcebytestr(exc)
            self._store.repo.ui.log(b"amalgam", b"no export for git: %s\n", problem)

    def _left(self) -> float:
        return self._end - time.monotonic()


def _may_write(store: GitStore) -> bool:
    """Tell whether this process may change the store."""
    for path in (store.directory.path, store.directory.root):
        if os.path.isdir(path):
            effective = os.access in os.supports_effective_ids
            return os.access(path, os.W_OK, effective_ids=effective)
    return False


@contextlib.contextmanager
def _patience(store: GitStore, seconds: float) -> Iterator[None]:
    """Let an export wait for another one no longer than ``seconds``."""
    wait = b"%d" % max(1, int(seconds))
    overrides = {(b"ui", b"timeout"): wait, (b"ui", b"timeout.warn"): b"0"}
    with store.asked.ui.configoverride(overrides, b"amalgam"):
        yield
