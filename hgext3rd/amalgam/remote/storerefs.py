"""The refs of the git store at one moment, and how they differ from another one.

Lines ``oid name`` as git sorts them. Two states of 100,000 refs are compared in pieces,
byte by byte; only pieces that differ are compared line by line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE_BYTES = 1 << 13
_OID_DIGITS = 40
_MOST_LOOKUPS = 100


class StoreRefs:
    """Refs, name to oid in hexadecimal digits."""

    def __init__(self, lines: bytes = b"") -> None:
        """``lines``: the content of a file ``packed-refs``, or ``lines`` of another."""
        self.lines = lines
        self._table: dict[bytes, bytes] | None = None
        self._lookups = 0

    def table(self) -> dict[bytes, bytes]:
        """Return all refs."""
        if self._table is None:
            self._table = _parsed(self.lines)
        return self._table

    def get(self, name: bytes) -> bytes:
        """Return the oid of a ref; empty if it is not there."""
        self._lookups += 1
        if self._table is not None or self._lookups > _MOST_LOOKUPS:
            return self.table().get(name, b"")
        at = self.lines.find(b" " + name + b"\n")
        start = at - _OID_DIGITS
        if start < 0 or (start and self.lines[start - 1 : start] != b"\n"):
            return self.table().get(name, b"") if at >= 0 else b""
        return self.lines[start:at]

    def differing(self, before: StoreRefs) -> set[bytes]:
        """Return the names of refs that are new, gone, or have another oid."""
        lines: set[bytes] = set()
        for old, new in pieces(before.lines, self.lines):
            lines ^= {*old.split(b"\n")} ^ {*new.split(b"\n")}
        return set(_parsed(b"\n".join(lines)))


def _parsed(lines: bytes) -> dict[bytes, bytes]:
    return {
        line[_OID_DIGITS + 1 :]: line[:_OID_DIGITS]
        for line in lines.split(b"\n")
        if line[_OID_DIGITS : _OID_DIGITS + 1] == b" "
    }


def pieces(old: bytes, new: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield pieces of both that differ: of lines that have a space after an oid.

    All pieces have all lines. If both are sorted, few lines are in pieces that differ.
    """
    at, there = 0, 0
    while at < len(old) or there < len(new):
        # the end of a line in the old state, whose name is in the new one, too
        end = old.find(b"\n", at + _PIECE_BYTES) + 1
        cut = len(new)
        while end:
            start = old.rfind(b"\n", 0, end - 1) + 1
            name = old[start + _OID_DIGITS : end]
            # else it belongs to the line before it
            found = new.find(name, there) if name.startswith(b" ") else -1
            if found >= 0:
                cut = found + len(name)
                break
            end = old.find(b"\n", end) + 1
        end = end or len(old)
        piece, other = old[at:end], new[there:cut]
        if piece != other:
            yield piece, other
        at, there = end, cut
