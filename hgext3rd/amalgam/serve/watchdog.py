"""Watchdogs: what takes too long ends, though its thread is blocked."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 100
"""How many times the limit without progress anything may last in all."""


class Watchdog:
    """Calls ``bite`` in a thread of its own if ``feed`` is not called in time.

    It is called once, and not after ``stop`` has returned.
    """

    def __init__(self, quiet_seconds: float, bite: Callable[[], None]) -> None:
        """``quiet_seconds``: the longest time without progress."""
        self._quiet_seconds = quiet_seconds
        self._bite = bite
        self._fed = time.monotonic()
        self._end = self._fed + LONGEST * quiet_seconds
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self.has_bitten = False
        threading.Thread(target=self._watch, daemon=True).start()

    def feed(self, more_seconds: float = 0) -> None:
        """Note progress, of which there may be none for ``more_seconds`` than usual."""
        self._fed = time.monotonic() + more_seconds

    def stop(self) -> None:
        """End the watch."""
        with self._lock:
            self._stopped.set()

    def _watch(self) -> None:
        while True:
            left = min(self._fed + self._quiet_seconds, self._end) - time.monotonic()
            # it may be fed with less than it has
            if self._stopped.wait(max(min(left, self._quiet_seconds), 0)):
                return
            if left > 0:
                continue
            with self._lock:
                if not self._stopped.is_set():
                    self.has_bitten = True
                    self._bite()
            return
