"""Python buffers that the native core may read or write during one call.

Nothing is copied. The core must not keep a pointer after the call.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ._core import ffi

if TYPE_CHECKING:
    from collections.abc import Iterable

    Buffer = bytes | bytearray | memoryview

# array -> what its members point to; an array of pointers keeps nothing alive itself
_pointed_to: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def lent(data: Buffer) -> tuple[Any, int]:
    """Return pointer and length of ``data``: ``call(lib.f, *lent(data))``."""
    return ffi.from_buffer("uint8_t[]", data), len(data)


def lent_bytes(data: Buffer) -> Any:
    """Return an array of one ``amalgam_bytes``, for a parameter or field of that type.

    The array lives as long as what it points to has to.
    """
    return lent_list([data])[0]


def lent_writable(buffer: bytearray) -> tuple[Any, int]:
    """Return pointer and length of ``buffer``, which the core fills."""
    return ffi.from_buffer("uint8_t[]", buffer, require_writable=True), len(buffer)


def lent_list(items: Iterable[Buffer]) -> tuple[Any, int]:
    """Return an array of ``amalgam_bytes`` and its length."""
    buffers = [ffi.from_buffer("uint8_t[]", item) for item in items]
    array = ffi.new("amalgam_bytes[]", [(buffer, len(buffer)) for buffer in buffers])
    _pointed_to[array] = buffers
    return array, len(buffers)
