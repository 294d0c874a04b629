"""Where a store could still have what must not be there: every file of it, inflated.

Reads packs by their format (gitformat-pack(5)), with an index or without, finished or
not; git itself would only show what an index leads to.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

_HEADER_LEN = 12
_OFS_DELTA, _REF_DELTA = 6, 7


def traces(amalgam: Path, word: bytes) -> list[str]:
    """Return the files below ``.hg/amalgam`` that have ``word``, packed or plain."""
    files = (path for path in sorted(amalgam.rglob("*")) if path.is_file())
    return [
        str(path.relative_to(amalgam))
        for path in files
        if any(word in piece for piece in _contents(path))
    ]


def _contents(path: Path) -> Iterator[bytes]:
    yield bytes(str(path), "utf-8")
    content = path.read_bytes()
    yield content
    if content.startswith(b"PACK"):
        yield from _packed(content)
    elif content.startswith(b"\x78"):
        yield zlib.decompressobj().decompress(content)


def _packed(pack: bytes) -> Iterator[bytes]:
    """Yield the inflated objects and deltas of a pack, up to where it is damaged."""
    at = _HEADER_LEN
    for _number in range(int.from_bytes(pack[8:12], "big")):
        kind = pack[at] >> 4 & 7
        at = _after_varint(pack, at)
        if kind == _OFS_DELTA:
            at = _after_varint(pack, at)
        elif kind == _REF_DELTA:
            at += 20
        inflating = zlib.decompressobj()
        yield inflating.decompress(pack[at:])
        at = len(pack) - len(inflating.unused_data)


def _after_varint(pack: bytes, at: int) -> int:
    while pack[at] & 0x80:
        at += 1
    return at + 1
