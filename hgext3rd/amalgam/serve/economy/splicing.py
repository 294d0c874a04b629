"""Splicing: what git writes goes from its pipe to a socket, and not through Python.

The kernel passes the pages on (splice(2), Linux). So a pack costs this process a part
of the time that reading and writing it takes. It is for the server that hands out its
socket: ``hg serve``, without TLS. Owns how such an answer is chunked (RFC 9112, section
7.1). Does not know what is sent.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import termios
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_INT = struct.Struct("i")
_MORE = getattr(socket, "MSG_MORE", 0)
# A pause lets more come, to be sent at once: as much as half of a pipe has room for.
_FEW_BYTES, _MANY_BYTES = 1 << 17, 3 << 17
_PAUSES_MILLISECONDS = 1, 16


def can_splice(connection: Any) -> bool:
    """Tell whether the kernel can write to a connection of ``socketserver``."""
    # not one with TLS, nor one with a time limit, which does not block
    is_plain = type(connection) is socket.socket and connection.gettimeout() is None
    return is_plain and hasattr(os, "splice")


def splice(pipe: int, connection: socket.socket, *, is_chunked: bool) -> Iterator[int]:
    """Send all that comes out of ``pipe``; yield how many bytes were sent, each time.

    The head of the answer has been sent. The last chunk, which is empty, is left to the
    caller. ``OSError`` if the connection breaks.
    """
    ready, end = select.poll(), select.poll()
    ready.register(pipe, select.POLLIN)
    end.register(pipe, 0)
    between = b""
    shortest, longest = _PAUSES_MILLISECONDS
    pause = shortest
    while True:
        size = _waiting_bytes(pipe)
        if between and size < _FEW_BYTES:
            end.poll(pause)
            size = _waiting_bytes(pipe)
            if size < _FEW_BYTES:
                pause = min(2 * pause, longest)
            elif size > _MANY_BYTES:
                pause = max(pause // 2, shortest)
        if not size:
            if between:
                connection.sendall(between)  # which lets go of what is held back
                between = b""
            ready.poll()
            size = _waiting_bytes(pipe)
            if not size:
                return
        if is_chunked:
            connection.sendall(b"%s%x\r\n" % (between, size), _MORE)
            between = b"\r\n"
        left = size
        while left:
            flags = os.SPLICE_F_MORE if is_chunked else 0
            moved = os.splice(pipe, connection.fileno(), left, flags=flags)
            if not moved:
                raise BrokenPipeError("the pipe ended while it was read")
            left -= moved
            yield moved


def _waiting_bytes(pipe: int) -> int:
    """Return how much a pipe has that nobody has read."""
    (size,) = _INT.unpack(fcntl.ioctl(pipe, termios.FIONREAD, bytes(_INT.size)))
    return int(size)
