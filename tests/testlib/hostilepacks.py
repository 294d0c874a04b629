"""Packs as no git writes them, and a host that sends one in place of its own."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence

COMMIT, TREE, BLOB, BY_ID = 1, 2, 3, 7
_PIECE_BYTES = 65_515  # of a sideband packet
_COPIED_BYTES = 1 << 16

Entry = tuple[int, bytes, bytes]
"""Type, the id of the base of a delta or nothing, and the content or delta."""


def _type_and_size(kind: int, size: int) -> bytes:
    found = bytearray([kind << 4 | size & 15])
    size >>= 4
    while size:
        found[-1] |= 128
        found.append(size & 127)
        size >>= 7
    return bytes(found)


def _size(number: int) -> bytes:
    found = bytearray([number & 127])
    while number := number >> 7:
        found[-1] |= 128
        found.append(number & 127)
    return bytes(found)


def object_id(kind: bytes, content: bytes) -> bytes:
    return hashlib.sha1(b"%s %d\0" % (kind, len(content)) + content).digest()


def pack(entries: Sequence[Entry], count: int | None = None) -> bytes:
    """Return a pack, which says that it has ``count`` objects, or how many it has."""
    said = len(entries) if count is None else count
    parts = [struct.pack(">4sII", b"PACK", 2, said)]
    for kind, base, content in entries:
        stream = zlib.compress(content, 1)
        parts.append(_type_and_size(kind, len(content)) + base + stream)
    content = b"".join(parts)
    return content + hashlib.sha1(content).digest()


def repeated(base: bytes, size: int) -> bytes:
    """Return a delta that makes ``size`` bytes of a base of 64 KiB."""
    assert len(base) == _COPIED_BYTES
    count = size // _COPIED_BYTES
    return _size(len(base)) + _size(count * _COPIED_BYTES) + b"\x80" * count


def appended(base_bytes: int, more: bytes) -> bytes:
    """Return a delta that adds up to 127 bytes to a base of less than 64 KiB."""
    copy = b"\xb0" + struct.pack("<H", base_bytes)
    lens = _size(base_bytes) + _size(base_bytes + len(more))
    return lens + copy + bytes([len(more)]) + more


def commit(tree: bytes, parents: Iterable[str], message: bytes = b"hostile") -> bytes:
    lines = [b"tree " + tree.hex().encode()]
    lines += [b"parent " + it.encode() for it in parents]
    lines += [b"%s A <a@b> 0 +0000" % it for it in (b"author", b"committer")]
    return b"\n".join(lines) + b"\n\n" + message


def in_place_of_packs(content: bytes) -> Callable[[bytes], bytes]:
    """Return a function that puts ``content`` in place of packs in answers."""
    packets = []
    for at in range(0, len(content), _PIECE_BYTES):
        piece = content[at : at + _PIECE_BYTES]
        packets.append(b"%04x\x01" % (len(piece) + 5) + piece)
    told = b"".join(packets) + b"0000"

    def alter(answer: bytes) -> bytes:
        head, mark, _pack = answer.partition(b"packfile\n")
        return head + mark + told if mark else answer

    return alter
