"""Revlogs, byte by byte: written, and stored in other ways than hg would at their size.

Format: `hg help internals.revlogs`, version 1.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import zstandard

ENTRY_BYTES = 64
_INLINE = 1 << 16
_GENERALDELTA = 1 << 17
_NULL = bytes(20)


def write(path: Path, texts: Iterable[bytes]) -> list[bytes]:
    """Write an inline revlog of full texts, one the child of the other.

    Revision N belongs to changeset N. Returns their nodes.
    """
    content = b""
    nodes: list[bytes] = []
    for rev, text in enumerate(texts):
        node = hashlib.sha1(_NULL + (nodes or [_NULL])[-1] + text).digest()
        place = len(content) - rev * ENTRY_BYTES << 16
        if rev == 0:
            place = (1 | _INLINE | _GENERALDELTA) << 32
        fields = len(text) + 1, len(text), rev, rev, rev - 1, -1
        content += struct.pack(">Qiiiiii20s12x", place, *fields, node)
        content += b"u" + text
        nodes.append(node)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return nodes


def restore(store: Path, *, plain: bool, split: bool) -> None:
    """Store all inline revlogs of a store in another way.

    ``plain``: chunks are not compressed. ``split``: the data has a file of its own;
    not where the file's name is hashed.
    """
    for path in store.rglob("*.i"):
        content = path.read_bytes()
        (header,) = struct.unpack(">I", content[:4])
        if header & _INLINE:
            may_split = split and path.relative_to(store).parts[0] != "dh"
            _restore(path, content, header, plain=plain, split=may_split)


def _restore(
    path: Path, content: bytes, header: int, *, plain: bool, split: bool
) -> None:
    index, data = [], []
    offset = at = 0
    while at < len(content):
        entry = content[at : at + ENTRY_BYTES]
        (length,) = struct.unpack(">i", entry[8:12])
        at += ENTRY_BYTES + length
        chunk = content[at - length : at]
        if plain:
            chunk = _unpacked(chunk)
        place = struct.pack(">Q", offset << 16)[:6] + entry[6:8]
        index.append(place + struct.pack(">i", len(chunk)) + entry[12:])
        data.append(chunk)
        offset += len(chunk)
    if split:
        header &= ~_INLINE
    index[0] = struct.pack(">I", header) + index[0][4:]
    path.unlink()  # hg may have linked it
    if split:
        path.write_bytes(b"".join(index))
        path.with_suffix(".d").write_bytes(b"".join(data))
    else:
        pairs = zip(index, data, strict=True)
        path.write_bytes(b"".join(part for pair in pairs for part in pair))


def _unpacked(chunk: bytes) -> bytes:
    """Return a chunk that stands for the same text or delta, not compressed."""
    if chunk[:1] == b"x":
        text = zlib.decompress(chunk)
    elif chunk[:1] == b"(":
        text = zstandard.ZstdDecompressor().decompressobj().decompress(chunk)
    else:
        return chunk
    return text if text[:1] in (b"", b"\0") else b"u" + text
