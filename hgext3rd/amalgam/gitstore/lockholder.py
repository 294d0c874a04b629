"""The holder of ``.hg/amalgam/lock``, for messages.

Never takes the lock; ``exportlock`` does. Writes nothing, so it has no clock but that
of this machine. If the file server's differs, so does what is called silent here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mercurial import lock as lockmod
from mercurial.i18n import _
from mercurial.utils import procutil

from .. import locking
from ..placement import Unusable
from ..records import Choice, Record
from ..terminal import printable

if TYPE_CHECKING:
    from ..placement import Directory


class LockState(Choice):
    """What is known of the process. Values are for JSON."""

    RUNNING = "running"
    DEAD = "dead"
    """The next export takes its lock over."""
    ELSEWHERE = "elsewhere"
    """On another host, or in another container, and renewed of late."""
    SILENT = "silent"
    """There, and not renewed; the next export takes its lock over."""
    NO_LOCK = "no-lock"
    """What is there is no lock of Mercurial's kind."""


class Holder(Record):
    """The process that a lock names."""

    host: bytes
    pid: int
    state: LockState
    age_seconds: int
    """Since it was taken, or renewed."""

    @property
    def needs_person(self) -> bool:
        """Whether the lock may stay for ever."""
        return self.state is LockState.NO_LOCK

    @property
    def is_left(self) -> bool:
        """Whether the next one takes it over."""
        return self.state in (LockState.DEAD, LockState.SILENT)

    def explain(self) -> bytes:
        """Return the state of the lock as a phrase for people."""
        if self.state is LockState.NO_LOCK:
            return _(b"is no lock that amalgam or Mercurial could have made")
        process = _(b"process %d on host '%s'") % (self.pid, printable(self.host))
        if self.state is LockState.RUNNING:
            return _(b"held by %s: an export is running") % process
        if self.state is LockState.DEAD:
            return _(b"stale: %s is gone; the next export takes it over") % process
        if self.state is LockState.SILENT:
            text = _(
                b"stale: %s has been silent for %d minutes; the next export takes it "
                b"over"
            )
            return text % (process, self.age_seconds // 60)
        seen = _(b"held by %s, which renewed it %d seconds ago")
        return seen % (process, self.age_seconds)


def holder(directory: Directory) -> Holder | None:
    """Return who holds the lock in ``directory``, if anybody does."""
    now = time.time()
    try:
        age = max(0, int(now - directory.stat(locking.LOCK).st_mtime))
        is_silent = locking.is_silent(directory, now)
        named = locking.locker(directory)
    except FileNotFoundError:
        return None
    except Unusable:
        return Holder(b"", 0, LockState.NO_LOCK, 0)
    prefix, _colon, number = named.partition(b":")
    pid = int(number) if number.isdigit() else 0
    state = LockState.SILENT if is_silent else LockState.ELSEWHERE
    if prefix == lockmod._getlockprefix() and pid:
        state = LockState.RUNNING if procutil.testpid(pid) else LockState.DEAD
    return Holder(prefix.partition(b"/")[0], pid, state, age)
