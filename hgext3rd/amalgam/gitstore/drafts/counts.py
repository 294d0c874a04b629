"""Use counts: how many drafts introduce each object and file revision.

Owns the format of ``<dialect>-<16 digits>.uses`` (docs/formats/map.rst). A file has
ids, and for each the number by which its count differs. The count of an id is the sum
over all files of a docket. Files are written once and merged geometrically, so what an
export writes follows what it converts. Does not know what an id is the id of.
"""

from __future__ import annotations

import hashlib
import os
import struct
from bisect import bisect_left
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..oidmap import ID_LEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...files import Directory, Placement

_HEADER = struct.Struct(">8sIIQ")
_MAGIC = b"AMALGUSE"
_VERSION = 1
_COUNT = struct.Struct(">i")
_ENTRY_LEN = ID_LEN + _COUNT.size
_TRAILER_LEN = 20
# of a hundred million ids
_LONGEST_BYTES = 1 << 32
# as of the segments of the map
_FACTOR = 2


class _CountFile:
    """One file, read."""

    def __init__(self, directory: Directory, name: str) -> None:
        """``StorageError`` if it is none, ``OSError`` if it cannot be read."""
        file = os.fsencode(name)
        data = directory.tryread(file, _LONGEST_BYTES)
        body, trailer = data[:-_TRAILER_LEN], data[-_TRAILER_LEN:]
        if len(body) < _HEADER.size or hashlib.sha1(body).digest() != trailer:
            raise _damaged(directory, file)
        magic, version, _zero, self.len = _HEADER.unpack_from(body)
        self._counts_at = _HEADER.size + self.len * ID_LEN
        is_whole = len(body) == self._counts_at + self.len * _COUNT.size
        if magic != _MAGIC or version != _VERSION or not is_whole:
            raise _damaged(directory, file)
        self.name = name
        self._data = body

    def _id(self, at: int) -> bytes:
        start = _HEADER.size + at * ID_LEN
        return self._data[start : start + ID_LEN]

    def _count(self, at: int) -> int:
        (count,) = _COUNT.unpack_from(self._data, self._counts_at + at * _COUNT.size)
        return int(count)

    def count(self, id_: bytes) -> int:
        """Return the number that the file has for an id, 0 for an unknown one."""
        at = bisect_left(range(self.len), id_, key=self._id)
        return self._count(at) if at < self.len and self._id(at) == id_ else 0

    def add_to(self, counts: dict[bytes, int]) -> None:
        """Add all numbers to those in ``counts``."""
        for at in range(self.len):
            id_ = self._id(at)
            counts[id_] = counts.get(id_, 0) + self._count(at)


class UseCounts:
    """The counts that the files of a docket have together."""

    def __init__(self, directory: Directory, names: Iterable[str]) -> None:
        """``StorageError`` or ``OSError`` if one of the files cannot be used."""
        self._directory = directory
        self._files = [_CountFile(directory, name) for name in names]

    def count(self, id_: bytes) -> int:
        """Return how many drafts use an object or file revision."""
        return sum(file.count(id_) for file in self._files)

    def changed(
        self, changes: Mapping[bytes, int], dialect: bytes, placement: Placement
    ) -> tuple[str, ...]:
        """Write ``changes`` of counts; return the names of all files, oldest first.

        No file is removed. The newest ones are merged into the one that is written,
        unless they are at least twice as long.
        """
        kept, merged = [*self._files], dict(changes)
        while kept and kept[-1].len < _FACTOR * len(merged):
            kept.pop().add_to(merged)
        names = tuple(file.name for file in kept)
        content = _content({id_: count for id_, count in merged.items() if count})
        digits = content[-_TRAILER_LEN:].hex()[:16]
        name = f"{dialect.decode('ascii')}-{digits}.uses"
        self._directory.replace(os.fsencode(name), content, placement)
        return (*names, name)


def _content(counts: Mapping[bytes, int]) -> bytes:
    ids: Sequence[bytes] = sorted(counts)
    header = _HEADER.pack(_MAGIC, _VERSION, 0, len(ids))
    numbers = struct.pack(f">{len(ids)}i", *map(counts.__getitem__, ids))
    body = b"".join((header, *ids, numbers))
    return body + hashlib.sha1(body).digest()


def _damaged(directory: Directory, name: bytes) -> error.StorageError:
    return error.StorageError(
        _(b"'%s' is no file of use counts") % directory.join(name)
    )
