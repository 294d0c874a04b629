"""One read-only buffer with the bytes of an index.

The native core maps a snapshot and reads the bytes after it. The memory is freed with
the last reference to the buffer. A buffer holds no descriptor.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ..core._core import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable

# expected uses of a mapped snapshot
FEW_PLACES, EVERYTHING, STRETCHES = range(3)

#: Expected use at first, by values of ``amalgam.index.prefault``.
PREFAULTS = {b"none": 0, b"willneed": 1, b"populate": 2}


class Mapped:
    """An index in memory."""

    __slots__ = ("data", "expect", "handle")

    def __init__(
        self, data: memoryview, expect: Callable[[int, int, int], None], handle: Any
    ) -> None:
        self.data = data
        """All of it, read-only. It owns the memory."""
        self.expect = expect
        """Tells the kernel the expected use of a range of bytes, ``FEW_PLACES`` or one
        of the others; by default, the kernel reads megabytes around each place. Owns
        the memory, too."""
        self.handle = handle
        """``amalgam_mapped *``, for calls of the core. Owns the memory, too."""


def mapped(
    snapshot: int, path: bytes, covered: int, fd: int, length_bytes: int, prefault: int
) -> Mapped:
    """Return the first ``length_bytes`` of the index open as ``fd``.

    The first ``covered`` of them are mapped from the file open as ``snapshot``, which
    messages call ``path``. ``Moved`` if a file is shorter than that, or if they differ
    at the end of the snapshot. ``prefault`` is one of ``PREFAULTS``.
    """
    out = ffi.new("amalgam_mapped **")
    data = ffi.new("uint8_t const **")
    _call(
        lib.amalgam_mapped_new,
        out,
        data,
        snapshot,
        path,
        len(path),
        covered,
        fd,
        length_bytes,
        prefault,
    )
    owner = ffi.gc(out[0], lib.amalgam_mapped_free)
    # The buffer keeps this object, with its destructor, and so the owner of the memory.
    # A Mercurial built with Rust refuses the buffer itself, but not a view of it.
    start = ffi.gc(data[0], functools.partial(_release, owner))
    view = memoryview(ffi.buffer(start, length_bytes)).toreadonly()
    return Mapped(view, functools.partial(_expect, owner), owner)


def _expect(owner: Any, expected: int, start: int, end: int) -> None:
    _call(lib.amalgam_mapped_expect, owner, expected, start, end)


def common_prefix(
    snapshot: int, path: bytes, covered: int, fd: int, length_bytes: int
) -> int:
    """Return in how many first bytes the file open as ``snapshot`` agrees with ``fd``.

    Of the one ``covered`` are looked at, of the other ``length_bytes``.
    """
    common = ffi.new("uint64_t *")
    _call(
        lib.amalgam_snapshot_common,
        common,
        snapshot,
        path,
        len(path),
        covered,
        fd,
        length_bytes,
    )
    return int(common[0])


def _release(_owner: Any, _start: Any) -> None:
    """Do nothing: the owner is freed with the partial function that refers to it."""


def _call(func: Callable[..., int], *args: Any) -> None:
    """Call like ``errors.call``, a module that is loaded only after a failure."""
    problem = ffi.new("amalgam_error *")
    status = func(*args, problem)
    if status:
        from ..core import errors

        errors.check(status, problem)
