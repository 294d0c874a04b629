"""Messages of jobs: named fields in bencode, the encoding of BEP 3.

The twin of ``rust/capi/src/message.rs``. Field names are ``str``. Values are integers,
bytes, lists and messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    Message = Mapping[str, Any]


def encode(message: Message) -> bytes:
    """Return the encoded ``message``.

    ``str`` is encoded in ASCII, ``bool`` as an integer, any buffer as bytes. A field
    that is ``None`` is left out.
    """
    return b"".join(_encoded(message))


def _encoded(value: Any) -> Iterator[Any]:
    if isinstance(value, int):
        yield b"i%de" % value
    elif isinstance(value, str):
        yield from _encoded(value.encode("ascii"))
    elif isinstance(value, Mapping):
        yield b"d"
        for name, field in sorted(value.items()):
            if field is not None:
                yield from _encoded(name)
                yield from _encoded(field)
        yield b"e"
    elif isinstance(value, list | tuple):
        yield b"l"
        for item in value:
            yield from _encoded(item)
        yield b"e"
    else:
        with memoryview(value) as view:
            yield b"%d:" % view.nbytes
        yield value


def decode(data: bytes) -> dict[str, Any]:
    """Return the message that ``data`` encodes; ``ValueError`` if it encodes none."""
    message, end = _decoded(data, 0)
    if not isinstance(message, dict) or end != len(data):
        raise ValueError("not a message")
    return message


def _decoded(data: bytes, at: int) -> tuple[Any, int]:
    """Return the value at a position of ``data`` and the position after it."""
    kind = data[at : at + 1]
    if kind == b"i":
        end = data.index(b"e", at)
        return int(data[at + 1 : end]), end + 1
    if kind in (b"l", b"d"):
        values = []
        at += 1
        while data[at : at + 1] != b"e":
            value, at = _decoded(data, at)
            values.append(value)
        if kind == b"l":
            return values, at + 1
        names = (name.decode("ascii") for name in values[::2])
        return dict(zip(names, values[1::2], strict=True)), at + 1
    start = data.index(b":", at) + 1
    end = start + int(data[at : start - 1])
    if end > len(data):
        raise ValueError("cut byte string")
    return data[start:end], end
