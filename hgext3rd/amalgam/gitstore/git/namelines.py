"""Lines ``<40 hexadecimal digits> <name>``, ascending by name: searched and compared.

``packed-refs`` and Mercurial's bookmarks are such files, of megabytes where there are
many names. A line ``^<40 digits>`` of git belongs to the line before it. A search reads
some blocks. A comparison reads both files, and makes objects only of lines that are
near a difference. Does not know what names mean.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, TypeAlias

from ...files import Unusable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...files import Directory

Changes: TypeAlias = "dict[bytes, tuple[bytes | None, bytes | None]]"
"""Name to its digits before and after; ``None`` without such a line."""

_DIGITS = 40
_NAME_AT = _DIGITS + 1
_BLOCK_BYTES = 4096
_CHUNK_BYTES = 1 << 17
_PARSED_BYTES = 1 << 20
_WHITESPACE = b" \t\n\r\v\f"


class NotInOrderError(ValueError):
    """Lines of another form, or not strictly ascending."""


class NameLines:
    """An open file of such lines, which is replaced and never changed in place."""

    def __init__(self, fd: int) -> None:
        """Take over ``fd``. A first line that begins with ``#`` is skipped."""
        self._fd = fd
        self.stat = os.fstat(fd)
        self.start, self.end = 0, self.stat.st_size
        if self.read(0, 1) == b"#":
            self.start = self._line_after(0)

    @classmethod
    def open(cls, directory: Directory, name: bytes) -> NameLines:
        """Open a file of amalgam; a missing one has no lines."""
        try:
            return cls(directory.open(name))
        except (FileNotFoundError, Unusable):
            return cls(os.open(os.devnull, os.O_RDONLY))

    def __enter__(self) -> NameLines:
        """Keep the file open as long as the context lasts."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes between two places."""
        content = b""
        while len(content) < end - start:
            piece = os.pread(self._fd, end - start - len(content), start + len(content))
            if not piece:
                break  # cut meanwhile
            content += piece
        return content

    def get(self, name: bytes) -> bytes | None:
        """Return the digits of a name."""
        line = self._line(self.place(name))
        return line[:_DIGITS] if line[_NAME_AT:] == name else None

    def below(self, directory: bytes) -> Iterator[bytes]:
        """Yield the names in a directory, which is named without a slash."""
        prefix = directory + b"/"
        at = self.place(prefix)
        while (name := self._line(at)[_NAME_AT:]).startswith(prefix):
            yield name
            at = self.after(at)

    def place(self, name: bytes, low: int | None = None) -> int:
        """Return where the first line begins whose name is not below ``name``.

        ``low``: a line from which on it is looked for.
        """
        low, high = self.start if low is None else low, self.end
        while high - low > _BLOCK_BYTES:
            middle = self._line_after((low + high) // 2)
            if middle >= high:
                break
            if self.name_at(middle) < name:
                low = middle
            else:
                high = middle
        # no more than a block, or a line longer than half of what is left
        for line in self.read(low, high).splitlines(keepends=True):
            if line[_NAME_AT:].rstrip(b"\n") >= name:
                break
            low += len(line)
        return low

    def name_at(self, place: int) -> bytes:
        """Return the name of the line that begins there; empty at the end."""
        return self._line(place)[_NAME_AT:]

    def after(self, place: int) -> int:
        """Return where the line that begins there ends, and another begins."""
        return self._line_after(place)

    def chunk_end(self, start: int) -> int:
        """Return the end of a line some way after ``start``, where another begins."""
        if self.end - start <= _CHUNK_BYTES:
            return self.end
        return self._line_after(start + _CHUNK_BYTES)

    def _line(self, place: int) -> bytes:
        size = _BLOCK_BYTES
        while True:
            block = self.read(place, min(place + size, self.end))
            line, newline, _rest = block.partition(b"\n")
            if newline or place + size >= self.end:
                return line
            size *= 2

    def _line_after(self, place: int) -> int:
        """Return where the first line begins after a place."""
        while place < self.end:
            block = self.read(place, min(place + _BLOCK_BYTES, self.end))
            found = block.find(b"\n")
            place += found + 1 if found >= 0 else len(block) or self.end
            if found >= 0 and self.read(place, place + 1) != b"^":
                return place
        return self.end


def names_in(content: bytes, *, are_utf8: bool = True) -> dict[bytes, bytes]:
    """Return names and digits of a whole file; ``NotInOrderError`` for other forms.

    ``are_utf8``: names have to be UTF-8, as in Mercurial's files; those of git need not
    be.
    """
    found: dict[bytes, bytes] = {}
    start, last = 0, b""
    while start < len(content):
        end = content.find(b"\n", start + _PARSED_BYTES) + 1 or len(content)
        last = _add_names(found, content[start:end], last, are_utf8=are_utf8)
        start = end
    return found


def _add_names(
    found: dict[bytes, bytes], content: bytes, last: bytes, *, are_utf8: bool
) -> bytes:
    """Add the lines of a part, which come after the name ``last``; return its last."""
    lines = _split(content)
    names = [line[_NAME_AT:] for line in lines]
    digits = [line[:_DIGITS] for line in lines]
    spaces = b"".join([line[_DIGITS:_NAME_AT] for line in lines])
    first = b"".join([name[:1] for name in names])
    every = b"".join(digits)
    if are_utf8:
        try:
            content.decode()
        except UnicodeDecodeError:
            raise NotInOrderError from None
    # all at once: a test of each line takes more time than all the rest
    if (
        len(every) != _DIGITS * len(lines)
        or every.translate(None, b"0123456789abcdef")
        or spaces != b" " * len(lines)
        or len(first.translate(None, _WHITESPACE)) != len(lines)
        or any(bytes([space]) + b"\n" in content for space in _WHITESPACE)
        or not all(map(bytes.__lt__, itertools.chain([last], names), names))
    ):
        raise NotInOrderError
    found.update(zip(names, digits, strict=True))
    return names[-1]


def changes(old: NameLines, new: NameLines) -> Changes:
    """Return the names whose lines differ.

    ``old`` is known to be in order; ``NotInOrderError`` if ``new`` is not. Takes some
    100 us for each megabyte, and some microseconds for each line near a difference.
    """
    found: Changes = {}
    at, new_at, last = old.start, new.start, b""
    while at < old.end or new_at < new.end:
        end = old.chunk_end(at)
        there = old.read(at, end)
        new_end = new_at + len(there)
        here = new.read(new_at, min(new_end, new.end))
        if there != here or not there:
            new_end = new.place(old.name_at(end), new_at) if end < old.end else new.end
            here = new.read(new_at, new_end)
            _add_changes(found, there, here)
        if here:
            if here[_NAME_AT : here.find(b"\n")] <= last:
                raise NotInOrderError
            last = here[here.rfind(b"\n", 0, -1) + 1 + _NAME_AT : -1]
        at, new_at = end, new_end
    return found


def _add_changes(found: Changes, old: bytes, new: bytes) -> None:
    """Add the changes of a part of both files; check the lines of the new one."""
    names = names_in(new)
    before = {line[_NAME_AT:]: line[:_DIGITS] for line in _split(old)}
    for name, digits in before.items():
        if names.get(name) != digits:
            found[name] = digits, names.get(name)
    found.update((name, (None, names[name])) for name in names.keys() - before.keys())


def _split(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    if lines.pop():
        raise NotInOrderError
    return lines
