"""Buffers that Python lends to the native core for one call, and answers of the core.

Lent buffers are not copied. The core must not keep a pointer after the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core import ffi, lib

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview


def lent(data: Buffer) -> tuple[Any, int]:
    """Return pointer and length of ``data``: ``call(lib.f, *lent(data))``."""
    return ffi.from_buffer("uint8_t[]", data), len(data)


def lent_writable(buffer: bytearray) -> tuple[Any, int]:
    """Return pointer and length of ``buffer``, which the core fills."""
    return ffi.from_buffer("uint8_t[]", buffer, require_writable=True), len(buffer)


def taken(answer: Any) -> bytes:
    """Copy an ``amalgam_answer`` and give it back to the core."""
    try:
        return bytes(ffi.buffer(answer.data, answer.len))
    finally:
        lib.amalgam_answer_free(answer[0])
