"""The oid map: git oids by Mercurial nodes, and the other way round.

A thin owner of the core's handle. Ids are 20 bytes. Lookups are made in batches,
because each call into the core has a cost.
"""

from __future__ import annotations

import contextlib
import enum
import os
from typing import TYPE_CHECKING, Any

from mercurial.i18n import _
from mercurial.node import bin as bin_node

from ..core import errors
from ..core._core import ffi, lib
from ..core.buffers import lent, lent_writable, taken
from ..core.message import decode, encode
from ..core.operation import Operation
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mercurial.interfaces.types import UiT

    from ..files import Directory
    from ..trust import Trust

ID_LEN = 20
_NONE = bytes(ID_LEN)
_NO_COMMIT = b"\xff" * ID_LEN
_PREFIX_LEN = ID_LEN + 1
_PAIR_LEN = 2 * ID_LEN
_MATCH_LEN = 1 + 2 * _PAIR_LEN
_DIFFERENCE_LEN = 3 * ID_LEN
# pairs that one call answers
_AT_ONCE = 50_000

Pair = tuple[bytes, bytes]
"""A node, and the oid of its object in git."""


class Table(enum.IntEnum):
    """Kinds of nodes, as ``amalgam_map_oids`` numbers them."""

    CHANGESETS = 0
    MANIFESTS = 1
    FILES = 2


# names of the tables in messages
_FIELDS = {
    Table.CHANGESETS: "changesets",
    Table.MANIFESTS: "manifests",
    Table.FILES: "files",
}


class MapDifference(Record):
    """A node with different oids in two maps; ``None`` where it has none."""

    table: Table
    node: bytes
    found: bytes | None
    expected: bytes | None


class Side(enum.IntEnum):
    """Which id of a changeset, as ``amalgam_map_match`` numbers it."""

    NODE = 0
    OID = 1


class MapFiles(Record):
    """Directory of segments, with the trust in their owners."""

    directory: Directory
    trust: Trust

    def open(self, segments: Sequence[str]) -> OidMap:
        """Open the map that ``segments`` (file names) make, to be closed.

        ``OSError`` if one cannot be read, ``StorageError`` if it is no segment. One
        whose owner is not trusted is read, and not mapped.
        """
        out = ffi.new("amalgam_map **")
        fields: dict[str, Any] = {
            "segments": segments,
            "unmapped": self.unmapped(segments),
        }
        with contextlib.ExitStack() as stack:
            # without segments there may be no directory
            if segments:
                fd = stack.enter_context(self.directory.opened())
                fields["directory"] = {"fd": fd, "path": self.directory.path}
            errors.call(lib.amalgam_map_open, out, *lent(encode(fields)))
        return OidMap(ffi.gc(out[0], lib.amalgam_map_free))

    def unmapped(self, segments: Sequence[str]) -> list[str]:
        """Return the members of ``segments`` to be read, since others own them."""
        if not self.trust.usable or not segments:
            return [*segments]
        above = self.directory.stat()
        return [
            name
            for name in segments
            if not self.trust.may_map(self.directory.stat(os.fsencode(name)), above)
        ]


class OidMap:
    """An open map, to be closed. It does not see later exports."""

    def __init__(self, handle: Any) -> None:
        """``MapFiles.open`` has made the ``handle``."""
        self._handle = handle

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
        """Return the oid for each of ``nodes``, in their order; ``None`` if unknown.

        And for changesets that have no commit in their dialect.
        """
        found = self._oids(nodes, table)
        return [None if oid == _NO_COMMIT else oid for oid in found]

    def has(self, nodes: Sequence[bytes]) -> list[bool]:
        """Return whether each of these changesets is there, even without a commit."""
        found = self._oids(nodes, Table.CHANGESETS)
        return [oid is not None for oid in found]

    def _oids(self, nodes: Sequence[bytes], table: Table) -> list[bytes | None]:
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

    def matches(self, side: Side, prefixes: Sequence[bytes]) -> list[tuple[Pair, ...]]:
        """Return the changesets whose id of ``side`` begins with each of ``prefixes``.

        A prefix is 1 to 40 lower-case hexadecimal digits. The answer for each is none,
        one, or, if ambiguous, two changesets.
        """
        digits = b"".join(
            prefix.ljust(2 * ID_LEN, b"0") + b"%02x" % len(prefix)
            for prefix in prefixes
        )
        out = bytearray(len(prefixes) * _MATCH_LEN)
        errors.call(
            lib.amalgam_map_match,
            *lent_writable(out),
            self._handle,
            side,
            *lent(bin_node(digits)),
        )
        found = bytes(out)
        return [
            () if not found[start] else _pairs(found, start + 1, found[start])
            for start in range(0, len(found), _MATCH_LEN)
        ]

    def pairs(self, table: Table) -> Iterator[tuple[bytes, int]]:
        """Yield all pairs of ``table``: node and oid of some, and how many they are.

        Their order means nothing.
        """
        out = bytearray(min(self.count(table), _AT_ONCE) * _PAIR_LEN)
        written = ffi.new("uint64_t *")
        start = 0
        while out:
            errors.call(
                lib.amalgam_map_pairs,
                *lent_writable(out),
                written,
                self._handle,
                table,
                start,
            )
            if not written[0]:
                return
            yield bytes(out[: written[0] * _PAIR_LEN]), int(written[0])
            start += int(written[0])

    def check(self) -> None:
        """Read the map whole; ``StorageError`` names a segment that was changed."""
        errors.call(lib.amalgam_map_check, self._handle)

    def differences(self, ui: UiT, expected: OidMap) -> Iterator[MapDifference]:
        """Yield each node that has another oid in the map ``expected``."""
        answer = ffi.new("amalgam_answer *")
        phases = {0: (_(b"comparing ids"), _(b"ids"))}
        compare = lib.amalgam_map_compare
        Operation(ui, phases).run(compare, answer, self._handle, expected._handle)
        found = decode(taken(answer))
        for table, name in _FIELDS.items():
            joined = found[name]
            for at in range(0, len(joined), _DIFFERENCE_LEN):
                node, here, there = (
                    joined[start : start + ID_LEN]
                    for start in range(at, at + _DIFFERENCE_LEN, ID_LEN)
                )
                yield MapDifference(table, node, _known(here), _known(there))

    @staticmethod
    def _batch(
        look_up: Callable[[Any, Any], None], ids: Sequence[bytes]
    ) -> list[bytes | None]:
        out = bytearray(len(ids) * ID_LEN)
        look_up(lent_writable(out), lent(b"".join(ids)))
        found = bytes(out)
        return [_known(found[at : at + ID_LEN]) for at in range(0, len(out), ID_LEN)]


def _known(id_: bytes) -> bytes | None:
    return None if id_ == _NONE else id_


def _pairs(buffer: bytes, start: int, count: int) -> tuple[Pair, ...]:
    ends = range(start + _PAIR_LEN, start + _PAIR_LEN * (count + 1), _PAIR_LEN)
    return tuple(
        (buffer[at - _PAIR_LEN : at - ID_LEN], buffer[at - ID_LEN : at]) for at in ends
    )
