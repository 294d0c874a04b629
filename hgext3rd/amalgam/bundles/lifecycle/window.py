"""How much memory a bundle of Mercurial asks of those who read it.

The format is in ``hg help internals.bundle2``. Reads no more than the header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

if TYPE_CHECKING:
    from typing import BinaryIO

_BUNDLE2 = b"HG20"
_ZSTD = b"\x28\xb5\x2f\xfd"


def window_bytes(file: BinaryIO) -> int:
    """Return how much of its past zstd has to keep to read the bundle ``file``.

    0 if it is not compressed so, or does not say (RFC 8878, section 3.1.1.1).
    ``StorageError`` if it ends before that.
    """
    if file.read(4) != _BUNDLE2:
        return 0
    length = int.from_bytes(_whole(file, 4), "big", signed=True)
    if length < 0:
        raise error.StorageError(_(b"bundle has parameters of %d bytes") % length)
    if b"Compression=ZS" not in _whole(file, length):
        return 0
    if _whole(file, 4) != _ZSTD:
        return 0
    descriptor = _whole(file, 1)[0]
    single_segment = descriptor & 0x20
    if single_segment:  # then the window is all of the content
        _whole(file, (0, 1, 2, 4)[descriptor & 3])
        size = (1, 2, 4, 8)[descriptor >> 6]
        return int.from_bytes(_whole(file, size), "little")
    window = _whole(file, 1)[0]
    base = 1 << (10 + (window >> 3))
    return base + (base >> 3) * (window & 7)


def _whole(file: BinaryIO, length: int) -> bytes:
    found = file.read(length)
    if len(found) < length:
        raise error.StorageError(_(b"bundle is cut"))
    return found
