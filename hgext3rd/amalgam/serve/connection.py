"""The connection of a request, as far as the web server lets hgweb get at it.

``hg serve`` hands out its socket and decodes no chunked requests. Other WSGI servers
keep the connection to themselves, decode requests, and have time limits of their own.
"""

from __future__ import annotations

import contextlib
import re
import socket
from typing import TYPE_CHECKING, Any, BinaryIO

from mercurial.hgweb import server

from .economy import splicing
from .refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_LINE = 1024
_MOST_TRAILERS = 16
_DISCARDED_BYTES = 1 << 16
_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")


class Connection:
    """The connection that a request came by."""

    def __init__(self, req: Any) -> None:
        """``req`` is hgweb's request."""
        handler = getattr(req.rawenv.get(b"wsgi.errors"), "handler", None)
        is_hg_serve = isinstance(handler, server._httprequesthandler)
        self._handler: Any = handler if is_hg_serve else None
        self.file: BinaryIO = req.rawenv[b"wsgi.input"]
        self._chunks: ChunkedReader | None = None

    @property
    def is_raw(self) -> bool:
        """Whether a chunked request is still to be decoded."""
        return self._handler is not None

    @property
    def has_repeated_length(self) -> bool:
        """Whether two lengths were sent, of which hgweb is told one."""
        headers = self._handler.headers if self._handler else None
        return headers is not None and any(
            len(headers.get_all(name, ())) > 1
            for name in ("Content-Length", "Transfer-Encoding")
        )

    def chunks(self) -> ChunkedReader:
        """Return what decodes the body of a chunked request."""
        self._chunks = ChunkedReader(self.file)
        return self._chunks

    def discard_chunks(self) -> None:
        """Read what is left of a chunked request, of which hgweb does not know.

        A client that still sends may not read an answer. Ends when somebody breaks off.
        """
        with contextlib.suppress(RefusedError, OSError, ValueError):
            while self._chunks and self._chunks.read(_DISCARDED_BYTES):
                pass

    def close_after_answer(self) -> None:
        """Take no further request from here: this one may not have been read whole."""
        if handler := self._handler:
            handler.close_connection = True

    def spliced(self, pipe: int) -> Iterator[int] | None:
        """Return what sends the rest of an answer from ``pipe``, as ``splice`` does.

        ``None`` if that cannot be here. The head of the answer has been sent.
        """
        handler = self._handler
        if handler is None or not handler.sent_headers or handler.length is not None:
            return None
        if not splicing.can_splice(handler.connection):
            return None
        return splicing.splice(
            pipe, handler.connection, is_chunked=bool(handler._chunked)
        )

    def break_off(self) -> None:
        """End it now, for threads that read from it or write to it, too."""
        if self._handler:
            with contextlib.suppress(OSError):
                self._handler.connection.shutdown(socket.SHUT_RDWR)


class ChunkedReader:
    """Reads the body of a chunked request (RFC 9112, section 7.1)."""

    def __init__(self, file: BinaryIO) -> None:
        """``file`` is at the beginning of the body, and stays at its end."""
        self._file = file
        self._left = 0
        self._is_at_end = False
        file.read(0)  # lets a client send that waits for "100 Continue"

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, nothing at the end; or ``RefusedError``.

        After an error, there is nothing more.
        """
        if self._is_at_end:
            return b""
        try:
            return self._piece(size)
        except RefusedError:
            self._is_at_end = True
            raise

    def _piece(self, size: int) -> bytes:
        if not self._left:
            self._left = self._next_size()
            if not self._left:
                self._is_at_end = True
                self._skip_trailers()
                return b""
        found = self._file.read(min(size, self._left))
        if not found:
            raise cut()
        self._left -= len(found)
        if not self._left and self._line() not in (b"\r\n", b"\n"):
            raise _malformed()
        return found

    def _next_size(self) -> int:
        found = _SIZE.fullmatch(self._line())
        if not found:
            raise _malformed()
        return int(found[1], 16)

    def _skip_trailers(self) -> None:
        for _number in range(_MOST_TRAILERS):
            if self._line() in (b"\r\n", b"\n"):
                return
        raise _malformed()

    def _line(self) -> bytes:
        line = self._file.readline(_LONGEST_LINE)
        if not line:
            raise cut()
        return line


def cut() -> RefusedError:
    """Return the refusal of a body that ends too early."""
    return RefusedError(400, b"the request ends too early")


def _malformed() -> RefusedError:
    return RefusedError(400, b"the request is malformed: it is not chunked as it says")
