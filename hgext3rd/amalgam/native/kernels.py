"""SHA-1 kernels of the native core: which ones this machine cannot be trusted with.

The core tests each kernel that the CPU offers against known answers, once per process,
and uses none that fails.
"""

from __future__ import annotations

from ._core import ffi, lib
from .errors import call

PORTABLE = b"portable"
"""The kernel that is used where no other can be."""


def refused() -> list[bytes]:
    """Return the names of the kernels that gave wrong answers, the fastest first.

    ``PORTABLE`` is used even if it is among them, because nothing else is left.
    """
    names = ffi.new("amalgam_bytes *")
    call(lib.amalgam_sha1_refused, names)
    joined = bytes(ffi.buffer(names.data, names.len))
    return joined.split(b",") if joined else []
