"""The body of a request: read, decoded and bounded, before git is started.

It goes to a temporary file without a name. So a client that sends slowly holds no git
process, and the connection is at the end of the request before an answer begins: some
clients read nothing before, and what is left there would be taken for a request.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import zlib
from typing import IO, TYPE_CHECKING, Any, Protocol

from mercurial import util
from mercurial.i18n import _

from .connection import cut
from .refusal import RefusedError, temporary_file_in_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .connection import Connection

_READ_BYTES = 1 << 14
_INFLATED_BYTES = 1 << 16
_LENGTH = re.compile(rb"[0-9]{1,15}")
_GZIP = 16 + zlib.MAX_WBITS
_GZIP_NAMES = (b"gzip", b"x-gzip")


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes; nothing at the end."""


def is_empty(req: Any) -> bool:
    """Tell whether a request says that it has no body."""
    has_length = req.headers.get(b"Content-Length", b"0").strip() not in (b"", b"0")
    return not has_length and not req.headers.get(b"Transfer-Encoding")


@contextlib.contextmanager
def received(
    req: Any,
    connection: Connection,
    limit_bytes: int,
    progress: Callable[[], None],
    directory: bytes | None = None,
) -> Iterator[IO[bytes]]:
    """Receive the body of ``req`` into a file, which is at its beginning.

    ``limit_bytes`` bounds it after decompression. ``progress`` is called when something
    came. ``directory``: where the file is, if not in ``TMPDIR``. ``RefusedError`` if it
    is too long, or malformed.
    """
    pieces = _read(_reader(req, connection), limit_bytes, progress)
    encoding = req.headers.get(b"Content-Encoding", b"identity").strip().lower()
    if encoding in _GZIP_NAMES:
        pieces = _inflated(pieces)
    elif encoding != b"identity":
        raise RefusedError(415, b"the encoding of the request is not known")
    with contextlib.ExitStack() as stack:
        with temporary_file_in_use():
            place = os.fsdecode(directory) if directory else None
            file = tempfile.TemporaryFile(  # noqa: SIM115
                prefix="amalgam-request-", dir=place
            )
        stack.callback(_close, file)
        size = 0
        for piece in pieces:
            size += len(piece)
            if size > limit_bytes:
                raise _too_long(limit_bytes)
            with temporary_file_in_use():
                file.write(piece)
        with temporary_file_in_use():
            file.seek(0)  # which writes the rest
        yield file


def _close(file: IO[bytes]) -> None:
    """Close a file, which may be too large for what was not written yet."""
    with contextlib.suppress(OSError):
        file.close()


def _reader(req: Any, connection: Connection) -> _Reader:
    """Return what reads exactly the body of a request."""
    length = req.headers.get(b"Content-Length", b"").strip()
    coding = req.headers.get(b"Transfer-Encoding", b"").strip().lower()
    if coding and req.rawenv.get(b"wsgi.input_terminated"):
        return connection.file  # the web server has decoded it
    if connection.has_repeated_length or (coding and length):
        raise RefusedError(400, b"the request has two lengths")
    if coding:
        if coding != b"chunked":
            raise RefusedError(
                501, b"the transfer encoding of the request is not known"
            )
        if connection.is_raw:
            return connection.chunks()
        sentence = (
            b"the web server does not decode chunked requests "
            b"(git config http.postBuffer 64m)"
        )
        raise RefusedError(411, sentence)
    if not length:
        raise RefusedError(411, b"the request has no length")
    if not _LENGTH.fullmatch(length):
        raise RefusedError(400, b"the length of the request is malformed")
    return _Measured(req.bodyfh, int(length))


class _Measured:
    """Reads a body of which the length is known."""

    def __init__(self, file: _Reader, length: int) -> None:
        self._file = file
        self._left = length

    def read(self, size: int, /) -> bytes:
        if not self._left:
            return b""
        found = self._file.read(min(size, self._left))
        if not found:
            raise cut()
        self._left -= len(found)
        return found


def _read(
    reader: _Reader, limit_bytes: int, progress: Callable[[], None]
) -> Iterator[bytes]:
    """Yield what is sent, which is no longer than what may become of it."""
    size = 0
    while piece := reader.read(_READ_BYTES):
        progress()
        size += len(piece)
        if size > limit_bytes:
            raise _too_long(limit_bytes)
        yield piece


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the content of one gzip member, and nothing may follow it (RFC 1952)."""
    stream = zlib.decompressobj(_GZIP)
    try:
        for piece in pieces:
            if stream.eof:
                raise _no_gzip()
            rest, is_full = piece, True
            while rest or (is_full and not stream.eof):
                inflated = stream.decompress(rest, _INFLATED_BYTES)
                rest, is_full = stream.unconsumed_tail, len(inflated) == _INFLATED_BYTES
                yield inflated
            if stream.unused_data:
                raise _no_gzip()
        if not stream.eof:
            raise _no_gzip()
    except zlib.error:
        raise _no_gzip() from None


def _no_gzip() -> RefusedError:
    return RefusedError(
        400, b"the request is malformed: it is not compressed as it says"
    )


def _too_long(limit_bytes: int) -> RefusedError:
    sentence = _(b"the request is longer than %s") % util.bytecount(limit_bytes)
    return RefusedError(413, sentence)
