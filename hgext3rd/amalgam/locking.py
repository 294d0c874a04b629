"""Locks of Mercurial's kind, in directories of amalgam.

A lock is a symbolic link, or a file, that names a host and a process. The lock of a
dead process on this host is taken over (``mercurial.lock``). Mercurial opens a lock by
path and waits if it is a FIFO. This module does neither.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import TYPE_CHECKING

from mercurial import lock as lockmod
from mercurial.i18n import _

from .placement import Unusable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import UiT

    from .placement import Directory, Placement

LOCK = b"lock"
"""The name of the lock in its directory."""
_LONGEST_BYTES = 1024
# host and process, in so many digits that the system can be asked for it; or nothing
# in a file that is about to be written, where there are no links
_LOCKER = re.compile(rb"[^\x00-\x1f\x7f:]+:[0-9]{1,9}|")
# what symlink(2) says where there are none
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)


@contextlib.contextmanager
def held(
    ui: UiT,
    directory: Directory,
    placement: Placement,
    desc: bytes,
    *,
    timeout: int = 0,
    warn_after: int = 0,
) -> Iterator[None]:
    """Hold the lock in ``directory``, which exists; ``desc`` is what it protects.

    Waits ``timeout`` seconds while another process holds it, for ever if that is
    negative, then ``LockHeld``. ``LockUnavailable`` if the lock cannot be made,
    ``Unusable`` if what is there is no lock.
    """
    files = _Files(directory, placement)
    lock = lockmod.trylock(ui, files, LOCK, timeout, warn_after, desc=desc)
    try:
        yield
    finally:
        lock.release()


def locker(directory: Directory, name: bytes = LOCK) -> bytes:
    """Return what the lock in ``directory`` names; ``FileNotFoundError`` if it is free.

    ``Unusable`` if it is no lock.
    """
    try:
        found = directory.readlink(name)
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # a file is one where there are no links
            raise
        found = directory.read(name, _LONGEST_BYTES)
    if len(found) > _LONGEST_BYTES or not _LOCKER.fullmatch(found):
        raise Unusable(directory.join(name), _(b"is not a lock"))
    return found


class _Files:
    """What ``mercurial.lock`` needs of a vfs."""

    def __init__(self, directory: Directory, placement: Placement) -> None:
        self._directory = directory
        self._placement = placement

    def makelock(self, info: bytes, name: bytes) -> None:
        try:
            self._directory.symlink(info, name)
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            with os.fdopen(self._directory.create(name, self._placement), "wb") as file:
                file.write(info)

    def readlock(self, name: bytes) -> bytes:
        return locker(self._directory, name)

    def unlink(self, name: bytes) -> None:
        self._directory.remove(name)

    def tryunlink(self, name: bytes) -> None:
        self._directory.remove(name)

    def join(self, name: bytes, *inside: bytes) -> bytes:
        return os.path.join(self._directory.join(name), *inside)
