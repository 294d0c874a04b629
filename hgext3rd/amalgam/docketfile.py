"""The text form of all records of amalgam: dockets, and the bundle register.

``docs/formats/dockets.rst`` describes it: a title, lines ``key value``, a checksum.
Owns that form, how values are written, and how the fields of a record become lines.
Does not know where a file is, nor what its keys mean.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, Any

from .records import Record

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeAlias

    Line: TypeAlias = "tuple[bytes, bytes]"  # key and value
    Fields: TypeAlias = "Mapping[str, Field | Group]"  # by name of the attribute

_CONTROLS = bytes(range(0x20)) + b"\x7f"
_PLAIN = bytes(range(0x20, 0x7F)).replace(b"\\", b"")
_LONGEST = 19  # digits of a number of 63 bits
_UID_DIGITS = 16


class Field(Record):
    """The written form of a field: lines with one key."""

    key: bytes
    parse: Callable[[bytes], Any]
    """``ValueError`` for a value that ``format`` never returns."""
    format: Callable[[Any], bytes]
    default: Any = ...
    """No line is written for this value. Without a default, a line is required."""
    many: bool = False
    """Whether it is a tuple, or the items of a dictionary, with a line for each."""


class Group(Record):
    """The written form of a record within a record: its keys have a prefix."""

    prefix: bytes
    make: Callable[..., Any]
    fields: Fields


class Form(Record):
    """The written form of a file with one record and nothing else."""

    title: bytes
    fields: Fields

    def content_of(self, record: Any) -> bytes:
        """Return the content of the file."""
        return formatted(self.title, lines_of(record, self.fields))

    def values_in(self, content: bytes) -> dict[str, Any]:
        """Return the values by field; ``ValueError`` for another form."""
        return values_of(parsed(content, self.title), self.fields)


def formatted(title: bytes, lines: Iterable[Line]) -> bytes:
    """Return the content of a file."""
    written = (b"%s %s\n" % (key, _escaped(value)) for key, value in lines)
    body = b"%s\n%s" % (title, b"".join(written))
    return b"%ssum %08x\n" % (body, zlib.crc32(body))


def parsed(content: bytes, title: bytes) -> list[Line]:
    """Return the lines of a file; ``ValueError`` if ``formatted`` did not make it."""
    body, _sum, stated = content.rpartition(b"sum ")
    if stated != b"%08x\n" % zlib.crc32(body):
        raise ValueError("damaged")
    first, *lines = body.split(b"\n")
    if first != title:
        raise ValueError("of another kind or version")
    if not lines or lines.pop():
        raise ValueError("the last line is cut")
    parts = (line.partition(b" ") for line in lines)
    return [(key, _unescaped(value)) for key, _space, value in parts]


def _escaped(value: bytes) -> bytes:
    value = value.replace(b"\\", rb"\x5c")
    if len(value.translate(None, _CONTROLS)) < len(value):
        for code in _CONTROLS:
            value = value.replace(bytes([code]), b"\\x%02x" % code)
    return value


def _unescaped(value: bytes) -> bytes:
    if not value.translate(None, _PLAIN):  # a docket is read with each index
        return value
    first, *rest = value.split(b"\\")
    found = b"".join([first, *(bytes([int(p[1:3], 16)]) + p[3:] for p in rest)])
    if _escaped(found) != value:
        raise ValueError("a value is not escaped as amalgam does")
    return found


def split(lines: Iterable[Line], key: bytes) -> list[list[Line]]:
    """Return the lines before the first one with ``key``, then the records.

    Each record begins with a line that has this key.
    """
    parts: list[list[Line]] = [[]]
    for line in lines:
        if line[0] == key:
            parts.append([])
        parts[-1].append(line)
    return parts


def lines_of(record: Any, fields: Fields, prefix: bytes = b"") -> Iterator[Line]:
    """Yield the lines of a record."""
    for name, field in fields.items():
        value = getattr(record, name)
        if isinstance(field, Group):
            yield from lines_of(value, field.fields, prefix + field.prefix)
        elif field.many:
            items = value.items() if isinstance(value, dict) else value
            yield from ((prefix + field.key, field.format(item)) for item in items)
        elif value != field.default:
            yield prefix + field.key, field.format(value)


def values_of(lines: Iterable[Line], fields: Fields) -> dict[str, Any]:
    """Return the values of ``lines_of``, by field; a repeated line counts once.

    ``ValueError`` for unknown keys, values of another form, and missing fields.
    """
    found: dict[bytes, dict[bytes, None]] = {}
    for key, value in lines:
        found.setdefault(key, {})[value] = None
    values = _taken(found, fields, b"")
    if found:
        raise ValueError("unknown keys")
    return values


def _taken(
    found: dict[bytes, dict[bytes, None]], fields: Fields, prefix: bytes
) -> dict[str, Any]:
    values = {}
    for name, field in fields.items():
        if isinstance(field, Group):
            inner = _taken(found, field.fields, prefix + field.prefix)
            values[name] = field.make(**inner)
            continue
        given = tuple(map(field.parse, found.pop(prefix + field.key, ())))
        if field.many:
            values[name] = given
        elif len(given) == 1 or (not given and field.default is not ...):
            values[name] = given[0] if given else field.default
        else:
            raise ValueError("a field has no value, or several")
    return values


def number(text: bytes) -> int:
    """Parse a number of 63 bits; ``ValueError`` for anything else."""
    if not text.isdigit() or len(text) > _LONGEST or int(text) >> 63:
        raise ValueError("not a number")
    return int(text)


def is_uid(text: bytes) -> bool:
    """Return whether it is 16 hexadecimal digits, valid in a file name."""
    return len(text) == _UID_DIGITS and not text.strip(b"0123456789abcdef")


def uid(text: bytes) -> bytes:
    """Parse a uid; ``ValueError`` for anything else."""
    if not is_uid(text):
        raise ValueError("not a uid")
    return text


def matching(pattern: re.Pattern[str]) -> Callable[[bytes], str]:
    """Return a parser of texts that match a pattern."""

    def text(value: bytes) -> str:
        found = os.fsdecode(value)
        if not pattern.fullmatch(found):
            raise ValueError("not a text that amalgam writes")
        return found

    return text


def texts(
    key: bytes, pattern: re.Pattern[str], default: Any = ..., *, many: bool = False
) -> Field:
    """Return a field that is a text, or several."""
    return Field(key, matching(pattern), os.fsencode, default, many)


def numbers(key: bytes, default: Any = ...) -> Field:
    """Return a field that is a number of 63 bits."""
    return Field(key, number, b"%d".__mod__, default)


def rows(key: bytes, make: Callable[..., Any], *, many: bool = False) -> Field:
    """Return a field that is a record of numbers."""
    length = len(make._fields)  # type: ignore[attr-defined]

    def parse(value: bytes) -> Any:
        parts = value.split(b" ")
        if len(parts) != length:
            raise ValueError("not as many numbers as fields")
        return make(*map(number, parts))

    return Field(key, parse, lambda row: b" ".join(map(b"%d".__mod__, row)), many=many)


def flags(key: bytes) -> Field:
    """Return a field that is true or false, the default."""
    return Field(key, _flag, lambda _flag: b"yes", default=False)


def _flag(text: bytes) -> bool:
    if text != b"yes":
        raise ValueError("not yes")
    return True
