"""Translation of ids of changesets and commits, in full or abbreviated.

Does not ask Mercurial which changesets there are. Callers have the messages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mercurial.node import bin as bin_node

from ..records import Record
from .oidmap import ID_LEN, Side, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .oidmap import OidMap, Pair

_ABBREVIATION = re.compile(rb"[0-9a-fA-F]{1,40}")


class Translation(Record):
    """A changeset, its commit, and which of them was asked for."""

    node: bytes
    oid: bytes
    asked: Side

    @property
    def given(self) -> bytes:
        """The id that was asked for."""
        return self.node if self.asked is Side.NODE else self.oid

    @property
    def other(self) -> bytes:
        """The id on the other side."""
        return self.oid if self.asked is Side.NODE else self.node


class RemoteIds:
    """Ids of exported changesets, and those of other commits that were imported.

    Answers as ``OidMap`` does. Of two commits that became one changeset, the exported
    one comes first.
    """

    def __init__(self, imported: OidMap, exported: OidMap) -> None:
        """In the map ``imported``, commits are in the place of nodes."""
        self._imported = imported
        self._exported = exported

    def close(self) -> None:
        """Free both maps."""
        self._imported.close()
        self._exported.close()

    def count(self, table: Table) -> int:
        """Return the sum of both: 0 if nothing is known."""
        return self._imported.count(table) + self._exported.count(table)

    def oids(self, nodes: Sequence[bytes]) -> list[bytes | None]:
        """Return the commit of each of ``nodes``."""
        both = self._exported.oids(nodes), self._imported.changesets(nodes)
        return [first or second for first, second in zip(*both, strict=True)]

    def changesets(self, oids: Sequence[bytes]) -> list[bytes | None]:
        """Return the changeset of each of ``oids``."""
        both = self._imported.oids(oids), self._exported.changesets(oids)
        return [first or second for first, second in zip(*both, strict=True)]

    def matches(self, side: Side, prefixes: Sequence[bytes]) -> list[tuple[Pair, ...]]:
        """Return the changesets whose id of ``side`` begins with each of ``prefixes``.

        None, one, or two if ambiguous.
        """
        turned = self._imported.matches(Side(1 - side), prefixes)
        others = self._exported.matches(side, prefixes)
        return [
            tuple(({node: oid for oid, node in ours} | dict(theirs)).items())[:2]
            for ours, theirs in zip(turned, others, strict=True)
        ]


def is_id(text: bytes) -> bool:
    """Return whether ``text`` could be an id, or the beginning of one."""
    return _ABBREVIATION.fullmatch(text) is not None


def is_full(text: bytes) -> bool:
    """Return whether ``text`` is a full id."""
    return len(text) == 2 * ID_LEN and is_id(text)


def translate(
    oidmap: OidMap | RemoteIds, ids: Sequence[bytes]
) -> list[list[Translation]]:
    """Return the meanings of each of ``ids``: none, one, or two if ambiguous.

    An id is 1 to 40 hexadecimal digits; other texts have no meaning. About 2 us an id,
    if many are asked for at once.
    """
    meanings: list[list[Translation]] = [[] for _id in ids]
    full: list[int] = []
    abbreviated: list[int] = []
    for at, id_ in enumerate(ids):
        if _ABBREVIATION.fullmatch(id_):
            (full if len(id_) == 2 * ID_LEN else abbreviated).append(at)
    given = [bin_node(ids[at]) for at in full]
    for at, node, oid in zip(full, given, oidmap.oids(given), strict=True):
        if oid is not None:
            meanings[at].append(Translation(node, oid, Side.NODE))
    for at, oid, known in zip(full, given, oidmap.changesets(given), strict=True):
        if known is not None:
            meanings[at].append(Translation(known, oid, Side.OID))
    prefixes = [ids[at].lower() for at in abbreviated]
    for side in Side:
        matches = oidmap.matches(side, prefixes)
        for at, pairs in zip(abbreviated, matches, strict=True):
            for node, oid in pairs:
                meanings[at].append(Translation(node, oid, side))
    return meanings


def changesets(oidmap: OidMap | RemoteIds, id_: bytes) -> list[Pair]:
    """Return the changesets whose commit's id begins with ``id_``: two if ambiguous."""
    if not is_id(id_):
        return []
    (pairs,) = oidmap.matches(Side.OID, [id_.lower()])
    return list(pairs)
