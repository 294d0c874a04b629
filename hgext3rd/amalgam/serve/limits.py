"""Limits: slots for git processes on one host, and watchdogs.

Each pool has a number of slots. With ``amalgam.serve.run-directory``, a slot is a file
there that is locked with flock(2), so all processes of the host share the slots. The
kernel releases it at the end of a process. git inherits the descriptor: a slot is taken
until git has ended, too. Without a directory, each process has slots of its own.

The last quarter of the slots is for clients that hold no other one, so no client takes
them all. While a client holds slots, its requests share the lock of a file of its own;
one that takes a slot of the last quarter locks it exclusively for that moment.

Requests wait in places that are slots of another pool: their number is bounded, the
last quarter is for clients that do not wait yet, and dead processes hold none. Refused
requests are a number in a file. Without a directory, neither is counted.

A watchdog ends requests that take too long, even if their thread is blocked.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import select
import threading
import time
from typing import TYPE_CHECKING

from mercurial import error

from ..files import Directory, Placement, Unusable
from ..records import Record

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable


_SHORTEST_SECONDS = 0.005
_LONGEST_SECONDS = 0.1

_SLOT = re.compile(rb"([a-z]+)-(waits-)?[0-9]{1,6}")
_CLIENT = b"%s-client-%02x"
_WAITING_PER_SLOT = 32
"""Places for requests that wait. More are refused at once."""
_REFUSED = b"%s-refused"
_DIGITS = 20
_NUMBER = re.compile(rb"[0-9]{%d}\n" % _DIGITS)

_lock = threading.Lock()
_holders: dict[Pool, list[bytes]] = {}
"""The clients that hold slots of this process."""


class Pool(Record):
    """Slots for one kind of request."""

    name: bytes
    slots: int

    @property
    def shared(self) -> int:
        """Number of slots for all; the rest is for clients that hold none."""
        return self.slots - (self.slots + 3) // 4 if self.slots > 1 else self.slots

    @property
    def places(self) -> Pool:
        """The places of requests that wait for a slot."""
        return Pool(self.name + b"-waits", _WAITING_PER_SLOT * self.slots)


class Usage(Record):
    """How a pool is used, by all processes of the host."""

    held: int = 0
    """Slots that are taken."""
    waiting: int = 0
    """Requests that wait for a slot."""
    refused: int = 0
    """Requests that got none in time, since the directory was made."""


class Slot:
    """A slot that is taken until it is released."""

    def __init__(self, release: Callable[[], None], *inherited: int) -> None:
        """``inherited``: descriptors that keep it taken, for child processes."""
        self._release: Callable[[], None] | None = release
        self.inherited = inherited

    def release(self) -> None:
        """Release it, once."""
        release, self._release = self._release, None
        if release:
            release()


def take_slot(
    path: bytes | None, pool: Pool, timeout: float, client: bytes = b""
) -> Slot | None:
    """Take a slot of ``pool``, or return ``None`` if none is free in time.

    ``path``: the directory shared by the host. ``client``: who asks; if unknown, each
    request counts as another client. ``OSError`` or ``StorageError`` if the directory
    cannot be used.
    """
    files = None if path is None else _prepared(path)
    end = time.monotonic() + timeout
    pause = _SHORTEST_SECONDS
    place = None
    try:
        while True:
            slot = _taken_now(files, pool, client)
            if slot is not None:
                return slot
            left = end - time.monotonic()
            if left > 0 and place is None:
                place = _taken_now(files, pool.places, client)
            if left <= 0 or place is None:
                if files:
                    _count_refusal(*files, pool)
                return None
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_SECONDS)
    finally:
        if place:
            place.release()


def _taken_now(
    files: tuple[Directory, Placement] | None, pool: Pool, client: bytes
) -> Slot | None:
    if files:
        return _taken_of_host(*files, pool, client)
    with _lock:
        holders = _holders.setdefault(pool, [])
        is_last = len(holders) >= pool.shared and client and client in holders
        if is_last or len(holders) >= pool.slots:
            return None
        holders.append(client)

    def release() -> None:
        with _lock:
            holders.remove(client)

    return Slot(release)


def _taken_of_host(
    directory: Directory, placement: Placement, pool: Pool, client: bytes
) -> Slot | None:
    with contextlib.ExitStack() as stack:

        def lock(name: bytes, how: int = fcntl.LOCK_EX) -> int | None:
            fd = _locked(directory, placement, name, how)
            if fd is not None:
                stack.callback(os.close, fd)
            return fd

        held: list[int] = []
        if client:
            # of two clients with one file, only one gets a slot of the last quarter
            (number,) = hashlib.sha256(client).digest()[:1]
            mark = lock(_CLIENT % (pool.name, number), fcntl.LOCK_SH)
            if mark is None:
                return None  # for a moment
            held.append(mark)
        for number in range(pool.slots):
            if number == pool.shared and held:
                try:
                    fcntl.flock(held[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return None
            fd = lock(b"%s-%d" % (pool.name, number))
            if fd is None:
                continue
            if number >= pool.shared and held:
                fcntl.flock(held[0], fcntl.LOCK_SH)
            return Slot(stack.pop_all().close, fd, *held)
    return None


def slot_usage(path: bytes, pools: Iterable[bytes]) -> dict[bytes, Usage]:
    """Return how each of ``pools`` is used on this host.

    To see that, each file is locked for an instant, shared; a request that tries it at
    that moment takes the next one, or tries again. Makes nothing. ``OSError`` or
    ``StorageError`` if ``path`` cannot be read.
    """
    directory = Directory(path)
    held, waiting = dict.fromkeys(pools, 0), dict.fromkeys(pools, 0)
    for name in directory.names():
        slot = _SLOT.fullmatch(name)
        if slot and slot[1] in held:
            taken = waiting if slot[2] else held
            taken[slot[1]] += _is_taken(directory, name)
    return {
        pool: Usage(held[pool], waiting[pool], _refused(directory, pool))
        for pool in held
    }


def _count_refusal(directory: Directory, placement: Placement, pool: Pool) -> None:
    """Add one to those that were refused; if that cannot be, do not.

    The number is replaced by one write, so a process that is killed damages nothing.
    """
    with contextlib.suppress(OSError, error.StorageError):
        fd = _opened(directory, placement, _REFUSED % pool.name)
        if fd is None:
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            number = _parsed(os.pread(fd, _DIGITS + 2, 0)) + 1
            os.pwrite(fd, b"%0*d\n" % (_DIGITS, number), 0)
            os.ftruncate(fd, _DIGITS + 1)  # the old content may be damaged
        finally:
            os.close(fd)


def _refused(directory: Directory, pool: bytes) -> int:
    with contextlib.suppress(OSError, error.StorageError):
        return _parsed(directory.tryread(_REFUSED % pool, _DIGITS + 1))
    return 0


def _parsed(content: bytes) -> int:
    return int(content) if _NUMBER.fullmatch(content) else 0


def _is_taken(directory: Directory, name: bytes) -> bool:
    try:
        fd = directory.open(name)
    except (FileNotFoundError, Unusable):  # gone, or no slot
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)  # which unlocks it
    return False


def _prepared(path: bytes) -> tuple[Directory, Placement]:
    """Return the directory, which is made if need be, and the mode of its files."""
    directory = Directory(path)
    directory.make(Placement(0o700, os.geteuid(), os.getegid()))
    found = directory.stat()
    return directory, Placement(found.st_mode & 0o777, found.st_uid, found.st_gid)


def _locked(
    directory: Directory, placement: Placement, name: bytes, how: int
) -> int | None:
    """Return a descriptor of a file that it locks; ``None`` if that would wait."""
    fd = _opened(directory, placement, name)
    if fd is None:
        return None
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


def _opened(directory: Directory, placement: Placement, name: bytes) -> int | None:
    """Return a descriptor of a file, which is made if need be.

    One that has another name, too, is made again: a copy made of hard links would keep
    its slot for ever. ``None`` if that has happened again.
    """
    with contextlib.suppress(FileNotFoundError):
        fd = directory.open_to_append(name)
        if fd is not None:
            return fd
        directory.remove(name)
    with contextlib.suppress(FileExistsError):
        os.close(directory.create(name, placement))
    return directory.open_to_append(name)


LONGEST = 100
"""How many times the limit without progress anything may last in all."""


def has_left(connection: int | socket.socket) -> bool:
    """Return whether the other end of a pipe or socket is closed."""
    poll = select.poll()
    # systems without it notice when something is sent
    poll.register(connection, getattr(select, "POLLRDHUP", 0))
    try:
        return bool(poll.poll(0))
    except OSError:
        return True


class Watchdog:
    """Calls ``bite`` in a thread of its own if ``feed`` is not called in time.

    It is called once, and not after ``stop`` has returned.
    """

    def __init__(
        self, quiet_seconds: float, bite: Callable[[], None], least_speed: int = 0
    ) -> None:
        """``quiet_seconds``: the longest time without progress.

        ``least_speed``: bytes per second that a client has to send or to take, if they
        are all that is waited for; 0 for any.
        """
        self._quiet_seconds = quiet_seconds
        self._least_speed = least_speed
        self._credit_seconds = quiet_seconds
        self._bite = bite
        self._fed = time.monotonic()
        self._end = self._fed + LONGEST * quiet_seconds
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self.has_bitten = False
        threading.Thread(target=self._watch, daemon=True).start()

    def feed(self, more_seconds: float = 0) -> None:
        """Note progress; the next may take ``more_seconds`` longer than usual."""
        self._fed = time.monotonic() + more_seconds

    def moved(self, size_bytes: int, seconds: float) -> bool:
        """Note bytes that a client took or sent in ``seconds``; false: too slowly.

        Each byte earns time, up to ``quiet_seconds`` altogether: buffers of the kernel
        take much at once, and then nothing for long. After ``bite``, all is too late.
        """
        self.feed()
        if self.has_bitten:
            return False
        if not self._least_speed:
            return True
        earned = self._credit_seconds + size_bytes / self._least_speed
        self._credit_seconds = min(self._quiet_seconds, earned) - seconds
        return self._credit_seconds >= 0

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
