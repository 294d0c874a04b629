"""Locks of Mercurial's kind, in directories of amalgam.

A lock is a symbolic link, or a file, that names a host and a process. The lock of a
dead process on this host is taken over (``mercurial.lock``). Mercurial opens a lock by
path and waits if it is a FIFO. This module does neither.

The holder renews a lock: its time of modification proves that the process lives, also
to other hosts, and where another process has got its number. A lock that nobody has
renewed for ``SILENT_SECONDS`` is taken over. Its holder may only have been suspended,
so it calls ``Hold.require`` before each step that another holder would not expect. All
times are those of the file system, so clocks of hosts may differ. Only ``LockState``,
for messages, uses the clock of this machine.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
from typing import TYPE_CHECKING

from mercurial import error, lock as lockmod
from mercurial.i18n import _
from mercurial.utils import procutil

from .files import Unusable
from .records import Choice, Record
from .terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import UiT

    from .files import Directory, Placement


LOCK = b"lock"
"""The name of the lock in its directory."""
SILENT_SECONDS = 600
"""After how long a lock is taken over unless it is renewed."""
_RENEWAL_SECONDS = 30
# the suffix of the lock under which a lock is taken over, as in Mercurial
_BREAKS = b".break"
_LONGEST_BYTES = 1024
# host and process, with at most the digits of a pid; or nothing
# in a file that is about to be written, on file systems without links
_LOCKER = re.compile(rb"[^\x00-\x1f\x7f:]+:[0-9]{1,9}|")
# errno of symlink(2) on file systems without links
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)


class Hold:
    """A lock that this process has taken, and may lose to another host."""

    def __init__(self, files: _Files, desc: bytes) -> None:
        self._files = files
        self._desc = desc
        self._ended = threading.Event()

    def require(self) -> None:
        """Raise ``StateError`` if another process has taken the lock over."""
        if not self._files.has_own(LOCK):
            raise error.StateError(
                _(b"lock on %s was taken over by another process") % self._desc,
                hint=_(b"this one was suspended for %d minutes or more; run it again")
                % (SILENT_SECONDS // 60),
            )

    @contextlib.contextmanager
    def _renewed(self) -> Iterator[Hold]:
        """Let other hosts see, as long as the context lasts, that the holder lives."""
        # without a thread, another host may take the lock over after a while
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._renew, daemon=True).start()
        try:
            yield self
        finally:
            self._ended.set()

    def _renew(self) -> None:
        while not self._ended.wait(_RENEWAL_SECONDS):
            with contextlib.suppress(OSError, error.StorageError):
                if self._files.has_own(LOCK):
                    self._files.directory.touch(LOCK)


@contextlib.contextmanager
def held(
    ui: UiT,
    directory: Directory,
    placement: Placement,
    desc: bytes,
    *,
    timeout: int = 0,
    warn_after: int = 0,
) -> Iterator[Hold]:
    """Hold the lock in an existing directory; ``desc`` names the protected thing.

    Waits ``timeout`` seconds while another process holds it, for ever if that is
    negative, then ``LockHeld``. ``LockUnavailable`` if the lock cannot be made,
    ``Unusable`` if something else has its name.
    """
    files = _Files(directory, placement)
    lock = lockmod.trylock(ui, files, LOCK, timeout, warn_after, desc=desc)
    try:
        with Hold(files, desc)._renewed() as hold:
            yield hold
    finally:
        lock.release()


def is_lock_silent(directory: Directory, now: float, name: bytes = LOCK) -> bool:
    """Return whether a lock in ``directory`` was not renewed.

    ``now``: seconds since the epoch. ``FileNotFoundError`` if it is free, ``Unusable``
    if it is no lock.
    """
    locker(directory, name)
    age_seconds = now - directory.stat(name).st_mtime
    return age_seconds > SILENT_SECONDS


def locker(directory: Directory, name: bytes = LOCK) -> bytes:
    """Return the holder's name in the lock; ``FileNotFoundError`` if it is free.

    ``Unusable`` if it is no lock.
    """
    try:
        found = directory.readlink(name)
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # a lock file, on file systems without links
            raise
        found = directory.read(name, _LONGEST_BYTES)
    if len(found) > _LONGEST_BYTES or not _LOCKER.fullmatch(found):
        raise Unusable(directory.join(name), _(b"is not a lock"))
    return found


class _Files:
    """The part of a vfs that ``mercurial.lock`` uses."""

    def __init__(self, directory: Directory, placement: Placement) -> None:
        self.directory = directory
        self._placement = placement
        self._own: dict[bytes, bytes] = {}
        """Content of the locks that were made here."""

    def has_own(self, name: bytes) -> bool:
        """Return whether a lock that was made here exists."""
        try:
            return locker(self.directory, name) == self._own.get(name)
        except (FileNotFoundError, Unusable):
            return False

    def makelock(self, info: bytes, name: bytes) -> None:
        try:
            self.directory.symlink(info, name)
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            self._write(info, name)
        self._own[name] = info

    def _write(self, info: bytes, name: bytes) -> None:
        fd = self.directory.create(name, self._placement)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(info)
        except OSError as exc:
            self.directory.remove(name)
            exc.filename = self.directory.join(name)  # mercurial.lock names it
            raise

    def readlock(self, name: bytes) -> bytes:
        """Return the content of a lock; ``FileNotFoundError`` if it is free.

        A silent lock is removed first.
        """
        self._take_over(name)
        return locker(self.directory, name)

    def _take_over(self, name: bytes) -> None:
        """Remove a lock if it is silent.

        Another lock sees to it that it is still the same, as Mercurial does.
        """
        with contextlib.suppress(OSError, error.LockError):
            if is_lock_silent(self.directory, self._now(), name):
                with lockmod.lock(self, name + _BREAKS, timeout=0):
                    if is_lock_silent(self.directory, self._now(), name):
                        self.directory.remove(name)

    def _now(self) -> float:
        """Return the time by the clock of the file system."""
        self.directory.touch()
        return self.directory.stat().st_mtime

    def unlink(self, name: bytes) -> None:
        """Remove a lock, unless another process has taken it over."""
        if name not in self._own or self.has_own(name):
            self.directory.remove(name)

    def tryunlink(self, name: bytes) -> None:
        self.unlink(name)

    def join(self, name: bytes, *inside: bytes) -> bytes:
        return os.path.join(self.directory.join(name), *inside)


class LockState(Choice):
    """State of a lock and its process. Values are for JSON."""

    RUNNING = "running"
    DEAD = "dead"
    """The next export takes its lock over."""
    ELSEWHERE = "elsewhere"
    """On another host, or in another container, and renewed of late."""
    SILENT = "silent"
    """There, and not renewed; the next export takes its lock over."""
    NO_LOCK = "no-lock"
    """Something that is no lock has its name."""


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
    """Return the state and the holder of the lock in ``directory``."""
    now = time.time()
    try:
        age = max(0, int(now - directory.stat(LOCK).st_mtime))
        is_silent = is_lock_silent(directory, now)
        named = locker(directory)
    except FileNotFoundError:
        return None
    except Unusable:
        return Holder(b"", 0, LockState.NO_LOCK, 0)
    prefix, _colon, number = named.partition(b":")
    pid = int(number) if number.isdigit() else 0
    state = LockState.SILENT if is_silent else LockState.ELSEWHERE
    if prefix == lockmod._getlockprefix() and pid and not is_silent:
        state = LockState.RUNNING if procutil.testpid(pid) else LockState.DEAD
    return Holder(prefix.partition(b"/")[0], pid, state, age)
