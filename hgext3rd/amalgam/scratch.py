"""Temporary directories of one process.

They are in ``.hg/amalgam``, so the next process removes what a killed one left. Readers
who cannot write there get one in ``TMPDIR``, as do commands that need no repository.
All have mode 0700.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import tempfile
from typing import TYPE_CHECKING

from mercurial import error

from .files import TEMPORARY, Directory, Placement
from .trust import Trust

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT

_PREFIX = TEMPORARY + b"scratch-"
_NAME = re.compile(re.escape(_PREFIX) + rb"[0-9a-f]{16}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def scratch(repo: RepoT) -> Iterator[bytes]:
    """Make a directory that lasts as long as the context, which yields its full path.

    Its lock (``flock``) tells others that it is in use: the kernel releases it when the
    process ends, however that happens.
    """
    parent = Directory(repo.sharedpath, (b"amalgam",))
    name = _PREFIX + os.urandom(8).hex().encode()
    try:
        fd = _make(repo, parent, name)
    except (OSError, error.StorageError):
        with outside() as path:
            yield path
        return
    try:
        yield parent.join(name)
    finally:
        with contextlib.suppress(OSError, error.StorageError):
            parent.remove(name)
        os.close(fd)


@contextlib.contextmanager
def outside() -> Iterator[bytes]:
    """Make a directory in ``TMPDIR`` that lasts as long as the context.

    A process that is killed leaves it behind.
    """
    path = os.fsencode(tempfile.mkdtemp(prefix="amalgam-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _make(repo: RepoT, parent: Directory, name: bytes) -> int:
    """Make a directory in ``parent`` and return a descriptor that holds its lock."""
    if not Trust.of(repo.ui, repo.store.path, repo.sharedpath).usable:
        raise PermissionError
    parent.make(Placement.of(repo))
    sweep(parent, _NAME)
    with parent.opened() as above:
        os.mkdir(name, 0o700, dir_fd=above)
    return hold(parent, name)


def sweep_left(repo: RepoT) -> None:
    """Remove the directories that killed processes left, if this user may."""
    if Trust.of(repo.ui, repo.store.path, repo.sharedpath).usable:
        with contextlib.suppress(OSError, error.StorageError):
            sweep(Directory(repo.sharedpath, (b"amalgam",)), _NAME)


def hold(parent: Directory, name: bytes) -> int:
    """Return a descriptor that holds the lock of a directory in ``parent``.

    ``FileNotFoundError`` if another process has swept it before it had its lock.
    """
    with parent.opened() as above:
        fd = os.open(name, _DIRECTORY, dir_fd=above)
    # flock fails on some NFS; the sweeper gets no lock there, either
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX)
    if not parent.exists(name):
        os.close(fd)
        raise FileNotFoundError(errno.ENOENT, "", parent.join(name))
    return fd


def sweep(parent: Directory, pattern: re.Pattern[bytes]) -> bool:
    """Remove the directories of processes that have ended.

    Those in ``parent`` whose names match ``pattern``. Tells whether any stays.
    """
    stays = False
    for name in filter(pattern.fullmatch, parent.names()):
        try:
            _remove_unused(parent, name)
        except (OSError, error.StorageError):
            stays = True
    return stays


def _remove_unused(parent: Directory, name: bytes) -> None:
    with parent.sub(name).opened() as fd:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        parent.remove(name)
