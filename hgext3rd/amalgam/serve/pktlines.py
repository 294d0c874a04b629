"""Pkt-lines: how requests and answers of git are framed (gitprotocol-common(5))."""

from __future__ import annotations

import contextlib
import os
import re
from typing import IO, TYPE_CHECKING

from mercurial.node import bin as bin_node

from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

FLUSH, DELIMITER = b"0000", b"0001"
_LONGEST = 65520
LONGEST_CONTENT = _LONGEST - 4
"""Bytes that a line may have."""
_LENGTH = re.compile(rb"[0-9a-fA-F]{4}")
_COMMAND = re.compile(rb"command=([a-z-]{1,40})\n?")
_WANT = re.compile(rb"want ([0-9a-f]{40})[ \n]?.*", re.DOTALL)
_MOST_LOOKED_AT = 100
# as git writes them, but for the first one in versions 0 and 1
_PLAIN_WANTS = re.compile(rb"(?:0032want [0-9a-f]{40}\n)+")
_PLAIN_WANT_BYTES, _WANTED = 0x32, slice(9, 49)
_WANTS_AT_ONCE = 100


class Head(Record):
    """The first lines of a request."""

    command: bytes = b""
    """The command of protocol version 2, or empty."""
    want: bytes = b""
    """The first object that the client wants; empty if none is among those lines."""
    is_flush: bool = False
    """Whether the request consists of its end only."""


def line(content: bytes) -> bytes:
    """Return ``content`` as one line; ``ValueError`` if it is too long."""
    if len(content) > LONGEST_CONTENT:
        raise ValueError("too long for a pkt-line")
    return b"%04x%s" % (len(content) + 4, content)


def error_line(sentence: bytes) -> bytes:
    """Return the line that ends an answer of upload-pack, and that git prints."""
    return line(b"ERR %s\n" % sentence)


def lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file; ``FLUSH`` and ``DELIMITER`` stand for themselves.

    ``ValueError`` if a line is malformed, truncated, or equal to one of those.
    """
    while length := file.read(4):
        if not _LENGTH.fullmatch(length):
            raise ValueError("no length of a pkt-line")
        size = int(length, 16)
        if size < 2:
            yield length
            continue
        content = file.read(size - 4) if 4 <= size <= _LONGEST else b""
        if size < 4 or len(content) != size - 4 or content in (FLUSH, DELIMITER):
            raise ValueError("no pkt-line")
        yield content


def framed(content: bytes) -> bytes:
    """Return a line, or mark, that ``lines`` has read."""
    return content if content in (FLUSH, DELIMITER) else line(content)


def head_of(file: IO[bytes]) -> Head:
    """Look at the first lines of a request; ``ValueError`` if one is malformed.

    Looks at no more than ``_MOST_LOOKED_AT``: git reads all of it.
    """
    command = want = b""
    is_flush = False
    for number, content in zip(range(_MOST_LOOKED_AT), lines(file), strict=False):
        if content == FLUSH:
            is_flush = not number
            break
        if found := _COMMAND.fullmatch(content):
            if command:
                raise ValueError("two commands")
            command = found[1]
        elif found := _WANT.fullmatch(content):
            want = bin_node(found[1])
            break
    return Head(command, want, is_flush)


def wants(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the objects that a request wants, from its beginning, each 20 bytes.

    Ends where it is malformed: git says so then. Keeps nothing of it.
    """
    file.seek(0)
    with contextlib.suppress(ValueError):
        for content in lines(file):
            if content == FLUSH:
                return
            if found := _WANT.fullmatch(content):
                yield bin_node(found[1])
                yield from _plain_wants(file)


def _plain_wants(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the ids of the wants from here on, up to another kind of line.

    The file is behind them then. A want takes a fraction of the time of other lines.
    """
    while True:
        block = file.read(_WANTS_AT_ONCE * _PLAIN_WANT_BYTES)
        found = _PLAIN_WANTS.match(block)
        end = found.end() if found else 0
        for at in range(0, end, _PLAIN_WANT_BYTES):
            yield bin_node(block[at : at + _PLAIN_WANT_BYTES][_WANTED])
        if end < len(block):
            file.seek(end - len(block), os.SEEK_CUR)
        if not end:
            return
