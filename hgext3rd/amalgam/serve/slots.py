"""Slots: how many git processes may work at the same time, on one host.

Each pool has a number of slots. With ``amalgam.serve.run-directory``, a slot is a file
there that is locked with flock(2), so all processes of the host share them. The kernel
releases it however a process ends. git inherits the descriptor: a slot is taken until
git has ended, too. Without a directory, each process has slots of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import threading
import time
from typing import TYPE_CHECKING

from ..placement import Directory, Placement, Unusable
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SHORTEST_SECONDS = 0.005
_LONGEST_SECONDS = 0.1

_SLOT = re.compile(rb"([a-z]+)-[0-9]{1,6}")

_lock = threading.Lock()
_semaphores: dict[Pool, threading.BoundedSemaphore] = {}


class Pool(Record):
    """Slots for one kind of request."""

    name: bytes
    slots: int


class Slot:
    """A slot that is taken until it is released."""

    def __init__(self, release: Callable[[], None], fd: int | None = None) -> None:
        """``fd``: what a process inherits that takes the slot, too."""
        self._release: Callable[[], None] | None = release
        self.inherited = () if fd is None else (fd,)

    def release(self) -> None:
        """Release it, once."""
        release, self._release = self._release, None
        if release:
            release()


def take(path: bytes | None, pool: Pool, timeout: float) -> Slot | None:
    """Take a slot of ``pool``, or return ``None`` if there is none in time.

    ``path``: the directory that the host shares. ``OSError`` or ``StorageError`` if it
    cannot be used.
    """
    if path is None:
        return _take_own(pool, timeout)
    directory, placement = _prepared(path)
    end = time.monotonic() + timeout
    pause = _SHORTEST_SECONDS
    while True:
        for number in range(pool.slots):
            fd = _locked(directory, placement, b"%s-%d" % (pool.name, number))
            if fd is not None:
                return Slot(functools.partial(os.close, fd), fd)
        left = end - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_SECONDS)


def held(path: bytes, pools: Iterable[bytes]) -> dict[bytes, int]:
    """Return how many slots of each of ``pools`` are taken on this host.

    To see that, each slot is locked for an instant, shared; a request that tries it at
    that moment takes the next one, or tries again. Makes nothing. ``OSError`` or
    ``StorageError`` if ``path`` cannot be read.
    """
    found = dict.fromkeys(pools, 0)
    directory = Directory(path)
    for name in directory.names():
        slot = _SLOT.fullmatch(name)
        if slot and slot[1] in found:
            found[slot[1]] += _is_taken(directory, name)
    return found


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


def _take_own(pool: Pool, timeout: float) -> Slot | None:
    with _lock:
        semaphore = _semaphores.setdefault(pool, threading.BoundedSemaphore(pool.slots))
    if not semaphore.acquire(timeout=max(timeout, 0)):
        return None
    return Slot(semaphore.release)


def _prepared(path: bytes) -> tuple[Directory, Placement]:
    """Return the directory, which is made if need be, and the mode of its files."""
    directory = Directory(path)
    directory.make(Placement(0o700, os.geteuid(), os.getegid()))
    found = directory.stat()
    return directory, Placement(found.st_mode & 0o777, found.st_uid, found.st_gid)


def _locked(directory: Directory, placement: Placement, name: bytes) -> int | None:
    """Return a descriptor of a file that it locks; ``None`` if another one does."""
    try:
        fd = directory.open_to_append(name)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.close(directory.create(name, placement))
        fd = directory.open_to_append(name)
    if fd is None:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd
