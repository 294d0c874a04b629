"""One exporter at a time: ``.hg/amalgam/exporter/lock``, locked by flock(2).

The kernel releases it however the process ends, also if the machine does. It keeps
exporters apart, not exports: those have ``exportlock``. Where there is no flock,
exporters wait for each other there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from mercurial import error

from ...placement import Directory

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from ...placement import Placement

LOCK = b"lock"
_LOOKING_SECONDS = 1
"""How long an exporter waits for processes that look at the lock. Each holds it for an
instant. But whoever may read the file can hold it for ever."""
_PAUSE_SECONDS = 0.01


def directory_of(repo: RepoT) -> Directory:
    """Return the directory of the exporter, which need not exist."""
    return Directory(repo.sharedpath, (b"amalgam", b"exporter"))


def is_held(directory: Directory) -> bool:
    """Tell whether an exporter works, or waits until it tries again.

    ``Unusable`` if what is there cannot be the lock: then there can be no exporter.
    """
    try:
        fd = directory.open(LOCK)
    except OSError:
        return False
    try:
        return _is_exclusive(fd)
    finally:
        os.close(fd)


def take(directory: Directory, placement: Placement) -> int | None:
    """Return a descriptor that holds the lock until it is closed.

    ``None`` if another process holds it. ``OSError`` or ``Unusable`` if there can be no
    lock. An exporter that replaces itself keeps it as standard input.
    """
    directory.make(placement)
    fd = _inherited(directory)
    while fd is None:
        try:
            fd = directory.open_to_append(LOCK)
            if fd is None:  # a copy made of hard links
                directory.remove(LOCK)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                fd = directory.create(LOCK, placement)
    end = time.monotonic() + _LOOKING_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _is_exclusive(fd) and time.monotonic() < end:
                time.sleep(_PAUSE_SECONDS)
                continue
            os.close(fd)
            return None
        except OSError:
            pass
        return fd


def _inherited(directory: Directory) -> int | None:
    with contextlib.suppress(OSError, error.StorageError):
        if os.path.samestat(os.fstat(0), directory.stat(LOCK)):
            fd = os.dup(0)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.close(null)
            return fd
    return None


def _is_exclusive(fd: int) -> bool:
    """Tell whether an exporter holds the lock, and not one who looks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False
