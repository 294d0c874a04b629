"""The page cache of the operating system: which pages of a file it holds.

Drops files from the cache, and checks that they are gone. A page stays in the cache if
another process has mapped it, if it exists nowhere on disk (tmpfs), or if the file
system keeps it. Since Linux 5.2, the kernel reports every page as cached for files that
the caller may not write. Knows nothing of Mercurial.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_DROP_CACHES = "/proc/sys/vm/drop_caches"
_WARM_ENOUGH = 0.99
_READ_BYTES = 1 << 20


class Residency(NamedTuple):
    """How many pages files have, and how many of them are in memory."""

    pages: int
    resident: int


class Unsuitable(Exception):  # noqa: N818
    """The cache is not as it has to be; says why."""


def make_cold(paths: Sequence[bytes]) -> None:
    """Drop all pages of the files from memory. ``Unsuitable`` if some are left.

    Only if posix_fadvise(2) does not suffice, all that the system has cached is
    dropped, where this user may.
    """
    if not hasattr(os, "posix_fadvise"):
        raise Unsuitable("this system has no posix_fadvise")
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)  # dirty pages are not dropped
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    left = residency(paths)
    if left.resident:
        with contextlib.suppress(OSError), open(_DROP_CACHES, "w") as file:
            file.write("1")
        left = residency(paths)
    if left.resident:
        raise Unsuitable(f"{left.resident} of {left.pages} pages stay in memory")


def make_warm(paths: Sequence[bytes]) -> None:
    """Have all pages of the files in memory. ``Unsuitable`` if they are not."""
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass
    found = residency(paths)
    if found.resident < _WARM_ENOUGH * found.pages:
        raise Unsuitable(f"only {found.resident} of {found.pages} pages are in memory")


def residency(paths: Sequence[bytes]) -> Residency:
    """Ask mincore(2) for each page of each file. ``Unsuitable`` if it cannot tell."""
    libc = _libc()
    pages = resident = 0
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            states = _page_states(libc, fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)
        pages += len(states)
        resident += sum(state & 1 for state in states)
    return Residency(pages, resident)


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "mincore"):
        raise Unsuitable("this system has no mincore")
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype = pointer
    libc.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
    libc.munmap.argtypes = [pointer, size]
    libc.mincore.argtypes = [pointer, size, ctypes.c_char_p]
    return libc


def _page_states(libc: Any, fd: int, size_bytes: int) -> bytes:
    """Return a byte a page, its lowest bit set for those in memory."""
    if not size_bytes:
        return b""
    # mapping a file brings none of it into memory
    start = libc.mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if start == ctypes.c_void_p(-1).value:
        raise Unsuitable(f"mmap: {os.strerror(ctypes.get_errno())}")
    try:
        states = ctypes.create_string_buffer(-(-size_bytes // mmap.PAGESIZE))
        if libc.mincore(start, size_bytes, states):
            raise Unsuitable(f"mincore: {os.strerror(ctypes.get_errno())}")
        return states.raw
    finally:
        libc.munmap(start, size_bytes)
