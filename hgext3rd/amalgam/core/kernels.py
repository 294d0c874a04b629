"""What the native core says of itself: its version, and kernels that it does not use.

Once per process, the core compares each kernel that the CPU offers with known answers.
It does not use kernels that fail.
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


def version_of_core() -> bytes:
    """Return the version of the core that is loaded."""
    version = lib.amalgam_version()
    return bytes(ffi.buffer(version.data, version.len))
