"""Which objects a pack has: its index, gitformat-pack(5), version 2, mapped.

A pack of a large repository has many millions, so none of this makes an object of each.
"""

from __future__ import annotations

import contextlib
import mmap
import operator
import struct
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HEADER = b"\xfftOc\0\0\0\2"
_FANOUT = struct.Struct(">256I")
_OIDS_AT = len(_HEADER) + _FANOUT.size
_OID_BYTES = 20


class Idx:
    """The index of a pack, open."""

    def __init__(self, data: mmap.mmap, path: bytes) -> None:
        if data[: len(_HEADER)] != _HEADER or len(data) < _OIDS_AT:
            raise _damaged(path)
        # how many oids have a first byte below each, and how many there are
        self._starts = (0, *_FANOUT.unpack_from(data, len(_HEADER)))
        if len(data) < _OIDS_AT + self._starts[-1] * _OID_BYTES:
            raise _damaged(path)
        if any(map(operator.gt, self._starts, self._starts[1:])):
            raise _damaged(path)
        self._data = data

    def has(self, oid: bytes) -> bool:
        """Tell whether the pack has an object."""
        low, high = self._starts[oid[0] : oid[0] + 2]
        while low < high:
            middle = (low + high) // 2
            found = self._oid(middle)
            if found == oid:
                return True
            if found < oid:
                low = middle + 1
            else:
                high = middle
        return False

    def beginning(self, byte: int) -> set[bytes]:
        """Return the oids with a first byte: of each 256, about one."""
        return set(map(self._oid, range(*self._starts[byte : byte + 2])))

    def _oid(self, number: int) -> bytes:
        at = _OIDS_AT + number * _OID_BYTES
        return self._data[at : at + _OID_BYTES]


@contextlib.contextmanager
def opened(pack_path: bytes) -> Iterator[Idx]:
    """Open the index of a pack; ``StorageError`` if it is none."""
    path = pack_path.removesuffix(b".pack") + b".idx"
    with open(path, "rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # it is empty
            raise _damaged(path) from None
    with data:
        yield Idx(data, path)


def are_disjoint(pack_paths: Iterable[bytes]) -> bool:
    """Tell whether no two packs have an object in common."""
    with contextlib.ExitStack() as stack:
        indexes = [stack.enter_context(opened(path)) for path in pack_paths]
        for byte in range(256):
            here = [index.beginning(byte) for index in indexes]
            if len(set().union(*here)) != sum(map(len, here)):
                return False
    return True


def _damaged(path: bytes) -> error.StorageError:
    return error.StorageError(
        _(b"'%s' is no index of a pack") % path,
        hint=_(b"run 'hg admin::amalgam --repair'"),
    )
