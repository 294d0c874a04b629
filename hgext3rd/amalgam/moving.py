"""A finished file moves into a directory that amalgam keeps, perhaps elsewhere.

Follows the rules of ``placement``: by descriptors of directories, never through links,
and only what this process has created changes its mode.
"""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING, BinaryIO

from .placement import TEMPORARY

if TYPE_CHECKING:
    from .placement import Directory, Placement

_CHUNK_BYTES = 1 << 20


def move(
    source: Directory, name: bytes, target: Directory, placement: Placement
) -> None:
    """Move the file ``name``, which this process has made, from ``source``.

    It gets a mode without write bits and is fsynced; what had the name in ``target`` is
    replaced. A file on another file system is copied, and so is one with other names:
    they must not change their mode.
    """
    fd = source.open(name)
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_nlink == 1:
            os.fsync(fd)
            placement.hand_over(fd, placement.file_mode & 0o444)
            if _rename(source, name, target):
                return
        _copy(file, name, target, placement)
    source.remove(name)


def _rename(source: Directory, name: bytes, target: Directory) -> bool:
    """Rename a file; ``False`` if the directories are on different file systems."""
    with source.opened() as fd, target.opened() as target_fd:
        try:
            os.rename(name, name, src_dir_fd=fd, dst_dir_fd=target_fd)
        except OSError as exc:
            if exc.errno != errno.EXDEV:
                raise
            return False
        os.fsync(target_fd)
    return True


def _copy(file: BinaryIO, name: bytes, target: Directory, placement: Placement) -> None:
    # named after what it becomes: whoever knows that can remove it after a crash
    temporary = b"%s%s-%s" % (TEMPORARY, name, os.urandom(8).hex().encode())
    try:
        with os.fdopen(target.create(temporary, placement), "wb") as copy:
            shutil.copyfileobj(file, copy, _CHUNK_BYTES)
            copy.flush()
            os.fchmod(copy.fileno(), placement.file_mode & 0o444)
            os.fsync(copy.fileno())
        target.rename(temporary, name)
    except BaseException:
        target.remove(temporary)
        raise
