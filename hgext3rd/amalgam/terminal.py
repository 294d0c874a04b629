"""Foreign strings, made safe for a terminal.

Names of bookmarks and files, URLs, paths, and errors may contain control characters. A
terminal would obey them. All output of a command for people is made by ``one_line``,
and every error of a command is passed to ``clean`` (``damage.blamed``).

The terminal may be that of a git client. git passes bytes on, and expects UTF-8.
Mercurial has messages and names in the encoding of its process. Hooks print what they
like, most often in the same one.
"""

from __future__ import annotations

import re
from typing import Any

from mercurial import encoding, error

# C0 controls and DEL; C1 controls, also as bytes that are no UTF-8
_CONTROL = "[\x00-\x1f\x7f-\x9f\udc80-\udc9f]"
_CONTROL_BUT_NEWLINE = "[\x00-\x09\x0b-\x1f\x7f-\x9f\udc80-\udc9f]"
# attributes of exceptions that Mercurial shows
_SHOWN = ("message", "hint", "desc", "locker", "filename", "filename2", "strerror")


def counted(number: int, noun: bytes) -> bytes:
    """Return a number with its noun: ``1 changeset``, ``2 changesets``."""
    return b"%d %s" % (number, noun if number == 1 else noun + b"s")


def printable(text: bytes) -> bytes:
    r"""Return ``text`` with each control character as ``\xNN``."""
    return _replaced(_CONTROL, text)


def one_line(text: bytes) -> bytes:
    """Return ``text`` as a line of output, whatever is in it."""
    return printable(text) + b"\n"


def utf8_of(text: bytes) -> bytes:
    """Return ``text``, which is in Mercurial's encoding, in UTF-8.

    Text that is not valid in that encoding is taken for UTF-8. Bytes that are neither
    become U+FFFD.
    """
    local = encoding.encoding.decode()
    for name in (local, "utf-8"):
        try:
            return text.decode(name).encode("utf-8", "replace")
        except UnicodeDecodeError:
            pass
    return text.decode(local, "replace").encode("utf-8", "replace")


def shown_by_git(text: bytes) -> bytes:
    r"""Return ``text``, which should be UTF-8, as git is given it.

    Control characters become ``\xNN``, and bytes that are no UTF-8 U+FFFD.
    """
    return printable(text.decode("utf-8", "replace").encode())


def cut(text: bytes, most_bytes: int) -> bytes:
    """Return the beginning of ``text`` in UTF-8, with no part of a character."""
    return text[:most_bytes].decode("utf-8", "ignore").encode()


def clean(exc: BaseException) -> None:
    """Remove control characters from the message of an exception."""
    # it points at the user's input, on a line of its own
    is_marked = isinstance(exc, error.ParseError)
    pattern = _CONTROL_BUT_NEWLINE if is_marked else _CONTROL

    def cleaned(value: Any) -> Any:
        if isinstance(value, bytes):
            return _replaced(pattern, value)
        if isinstance(value, str):
            return _replaced(pattern, value.encode(*_CODEC)).decode(*_CODEC)
        return value

    for name in _SHOWN:
        value = getattr(exc, name, None)
        if cleaned(value) != value:
            setattr(exc, name, cleaned(value))
    if isinstance(exc, error.Error | error.RepoError):
        exc.args = tuple(map(cleaned, exc.args))


_CODEC = ("utf-8", "surrogateescape")


def _replaced(pattern: str, text: bytes) -> bytes:
    # compiled by the first call: commands that print nothing load this module, too
    return re.sub(pattern, _escaped, text.decode(*_CODEC)).encode(*_CODEC)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode(*_CODEC))
