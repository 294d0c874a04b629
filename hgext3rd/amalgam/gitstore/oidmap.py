"""Ids on both sides: which git object stands for which Mercurial node.

A thin owner of the core's map handle. Ids are 20 bytes; lookups are made in batches,
since each call pays for its way into the core.
"""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING, Any

from ..native import errors
from ..native._core import ffi, lib
from ..native.lent import lent, lent_list, lent_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ID_LEN = 20
_NONE = bytes(ID_LEN)


class Table(enum.IntEnum):
    """What a node is the node of, as ``amalgam_map_oids`` numbers it."""

    CHANGESETS = 0
    MANIFESTS = 1
    FILES = 2


class OidMap:
    """An open map, to be closed. What is exported later is not in it."""

    def __init__(self, directory: bytes, segments: Sequence[str]) -> None:
        """Open the ``segments`` (file names) in ``directory``.

        ``OSError`` if one cannot be read, ``StorageError`` if it is no segment.
        """
        out = ffi.new("amalgam_map **")
        names = [os.fsencode(name) for name in segments]
        errors.call(lib.amalgam_map_open, out, *lent(directory), *lent_list(names))
        self._handle: Any = ffi.gc(out[0], lib.amalgam_map_free)

    def close(self) -> None:
        """Free the map; it cannot be used any more."""
        ffi.release(self._handle)

    def count(self, table: Table) -> int:
        """Return the number of nodes in ``table``."""
        count = ffi.new("uint64_t *")
        errors.call(lib.amalgam_map_count, count, self._handle, table)
        return int(count[0])

    def oids(
        self, nodes: Sequence[bytes], table: Table = Table.CHANGESETS
    ) -> list[bytes | None]:
        """Return the oid for each of ``nodes``, in their order; ``None`` if unknown."""
        return self._batch(
            lambda out, joined: errors.call(
                lib.amalgam_map_oids, *out, self._handle, table, *joined
            ),
            nodes,
        )

    def changesets(self, oids: Sequence[bytes]) -> list[bytes | None]:
        """Return the changeset for each commit in ``oids``; ``None`` if unknown."""
        return self._batch(
            lambda out, joined: errors.call(
                lib.amalgam_map_changesets, *out, self._handle, *joined
            ),
            oids,
        )

    @staticmethod
    def _batch(
        look_up: Callable[[Any, Any], None], ids: Sequence[bytes]
    ) -> list[bytes | None]:
        out = bytearray(len(ids) * ID_LEN)
        look_up(lent_writable(out), lent(b"".join(ids)))
        found = (bytes(out[at : at + ID_LEN]) for at in range(0, len(out), ID_LEN))
        return [None if id_ == _NONE else id_ for id_ in found]
