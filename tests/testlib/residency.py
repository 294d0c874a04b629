"""Which pages of a file are in memory, by mincore(2), and how they get out of it."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

PAGE_BYTES = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3]
_libc.mmap.argtypes += [ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def resident(path: Path) -> set[int]:
    """Return the numbers of the pages of a file that are in memory."""
    size = path.stat().st_size
    found = ctypes.create_string_buffer(-(-size // PAGE_BYTES))
    with path.open("rb") as file:
        start = _libc.mmap(
            None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0
        )
        try:
            if _libc.mincore(start, size, found):
                raise OSError(ctypes.get_errno(), "mincore")
        finally:
            _libc.munmap(start, size)
    return {number for number, flags in enumerate(found.raw) if flags & 1}


def drop(path: Path) -> None:
    """Have the kernel forget a file that nobody has mapped, where it can."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
