"""The map of hg-git, ``.hg/git-mapfile``: commits and their changesets.

A line has a commit in 40 digits, a space, a changeset in 40 digits, and a line feed.
hg-git refuses lines of another length. Of two lines for a commit, or for a changeset,
the later one counts. hg-git writes the whole file under the lock of Mercurial, and
puts it in place by a rename; so do we.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import re
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..files import Directory, Unusable
from ..terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..files import Placement

NAME = b"git-mapfile"
_LINE_LEN = 82
_ID_LEN = 20
_DIGITS = 2 * _ID_LEN
_MOST_BYTES = 1 << 32
_LINE = re.compile(rb"[0-9a-f]{40} [0-9a-f]{40}\n")
_LONGEST_SHOWN = 60


def read(directory: Directory) -> list[tuple[bytes, bytes]]:
    """Return commit and changeset of each line; ids are 20 bytes.

    ``directory`` is ``.hg``. ``StorageError`` names the first line of another form. A
    line takes about a microsecond.
    """
    with kept_by_hggit():
        content = directory.tryread(NAME, _MOST_BYTES)
    count = len(content) // _LINE_LEN
    if (
        count * _LINE_LEN != len(content)
        or content[_DIGITS::_LINE_LEN] != b" " * count
        or content[_LINE_LEN - 1 :: _LINE_LEN] != b"\n" * count
        or content.lower() != content
    ):
        raise _damaged(directory, content)
    try:
        joined = binascii.unhexlify(content.translate(None, b" \n"))
    except binascii.Error:
        raise _damaged(directory, content) from None
    if len(joined) != 2 * _ID_LEN * count:
        raise _damaged(directory, content)
    return [
        (joined[at : at + _ID_LEN], joined[at + _ID_LEN : at + 2 * _ID_LEN])
        for at in range(0, len(joined), 2 * _ID_LEN)
    ]


@contextlib.contextmanager
def kept_by_hggit() -> Iterator[None]:
    """Say of something unusable that it is hg-git's: nobody should remove it."""
    try:
        yield
    except Unusable as exc:
        hint = _(
            b"hg-git had its own there: put that back, or restore it from a backup"
        )
        raise error.StorageError(exc.message, hint=hint) from None


def extend(
    directory: Directory, new: Iterable[tuple[bytes, bytes]], placement: Placement
) -> None:
    """Add lines for commits and changesets, 20 bytes each."""
    content = directory.tryread(NAME, _MOST_BYTES)
    lines = (b"%s %s\n" % (_hex(oid), _hex(node)) for oid, node in new)
    _replace(directory, content + b"".join(lines), placement)


def rewrite(
    directory: Directory, pairs: Iterable[tuple[bytes, bytes]], placement: Placement
) -> None:
    """Write a map of these commits and changesets."""
    lines = (b"%s %s\n" % (_hex(oid), _hex(node)) for oid, node in pairs)
    _replace(directory, b"".join(lines), placement)


def _replace(directory: Directory, content: bytes, placement: Placement) -> None:
    directory.replace(NAME, content, placement)


def _hex(id_: bytes) -> bytes:
    return id_.hex().encode()


def _damaged(directory: Directory, content: bytes) -> error.StorageError:
    number, at = 1, 0
    while match := _LINE.match(content, at):
        number, at = number + 1, match.end()
    found = content[at : at + _LONGEST_SHOWN].partition(b"\n")[0]
    text = _(b"'%s', line %d: expected a commit and a changeset, found '%s'")
    return error.StorageError(
        text % (os.path.join(directory.path, NAME), number, printable(found)),
        hint=_(b"remove the line, or restore the file from a backup"),
    )
