"""Clients that do not read what is sent, and how much the kernel takes in for them."""

from __future__ import annotations

import socket
from pathlib import Path

_RECEIVED_BYTES = 1 << 16
_SENT = Path("/proc/sys/net/ipv4/tcp_wmem")
_SENT_BYTES = 16 << 20  # where nothing says so
_BETWEEN_BYTES = 4 << 20  # pipes, and buffers of servers
_SECONDS = 600


def connected(port: int) -> socket.socket:
    """Connect to a server so that little is received that nobody reads.

    The kernel makes buffers as large as it allows, unless their size is set before the
    connection is made.
    """
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
    connection.settimeout(_SECONDS)
    connection.connect(("127.0.0.1", port))
    return connection


def endless_bytes() -> int:
    """Return the size of an answer that no server gets rid of if nobody reads it."""
    most = int(_SENT.read_text().split()[2]) if _SENT.exists() else _SENT_BYTES
    return most + 2 * _RECEIVED_BYTES + _BETWEEN_BYTES
