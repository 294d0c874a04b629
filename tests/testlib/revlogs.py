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
    texts = list(texts)
    nodes = nodes_of(texts)
    chunks = [(rev, b"u" + text) for rev, text in enumerate(texts)]
    write_chunks(path, chunks, list(map(len, texts)), nodes)
    return nodes


def nodes_of(texts: Iterable[bytes]) -> list[bytes]:
    """Return the nodes of texts of which each is the child of the one before."""
    nodes: list[bytes] = []
    for text in texts:
        parent = nodes[-1] if nodes else _NULL
        nodes.append(hashlib.sha1(_NULL + parent + text).digest())
    return nodes


def write_chunks(
    path: Path,
    chunks: Iterable[tuple[int, bytes]],
    lengths: list[int],
    nodes: list[bytes],
) -> None:
    """Write an inline revlog, whatever comes of it.

    ``chunks``: for each revision the one that its delta is against, itself for a full
    text, and what is stored. ``lengths``: those of the texts.
    """
    content = b""
    for rev, (base, chunk) in enumerate(chunks):
        place = len(content) - rev * ENTRY_BYTES << 16
        if rev == 0:
            place = (1 | _INLINE | _GENERALDELTA) << 32
        fields = len(chunk), lengths[rev], base, rev, rev - 1, -1
        content += struct.pack(">Qiiiiii20s12x", place, *fields, nodes[rev])
        content += chunk
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def delta(*hunks: tuple[int, int, bytes]) -> bytes:
    """Return a delta as it is stored: bytes from and to, and what comes instead."""
    packed = [struct.pack(">III", a, b, len(data)) + data for a, b, data in hunks]
    return b"".join(packed)  # the first byte is 0, which says that it is plain


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
