"""The changesets that commits of other git repositories have become.

Files of ``.hg/amalgam/imported`` (docs/formats/imported.rst). They are derived: without
them, the same commits are converted again, to the same changesets. A batch is written
while the transaction of its changesets is open, and counts when that ends. Pairs of
changesets that are gone do not count, so nobody has to remove any.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import struct
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.node import bin as bin_node, hex as hex_node

from .. import docketfile
from ..config import PushConfig
from ..configitems import METADATA_DIALECT
from ..files import TEMPORARY, Unusable
from ..gitstore.ids import RemoteIds
from ..gitstore.oidmap import ID_LEN, MapFiles, Table
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mercurial.interfaces.types import RepoT

    from ..gitstore.oidmap import OidMap
    from ..gitstore.store import GitStore

_SEGMENT = re.compile(r"[a-z]+-[0-9a-f]{16}\.map")
_SUFFIX = b".map"
_DOCKET_BYTES = 1 << 20
_HEADER = struct.Struct(">8sIIQQQ24x")
_MAGIC, _VERSION = b"AMALGMAP", 1
_NO_FANOUT = bytes(4 * 256)


class _Docket(Record):
    """Which segments count."""

    segments: tuple[str, ...] = ()
    """Their names, oldest first."""
    exact: bool = False
    """Whether extras keep the ids of all commits, from the first import on."""


_FORM = docketfile.Form(
    b"amalgam imported commits 1",
    {
        "segments": docketfile.texts(b"segment", _SEGMENT, many=True),
        "exact": docketfile.flags(b"exact"),
    },
)


class ImportedCommits:
    """The imported commits of one dialect, as they were when this was made.

    And those of ``record``. Commits and nodes are in hex. To be closed.
    """

    def __init__(self, repo: RepoT, store: GitStore) -> None:
        """``repo``: the repository that gets changesets, with its ``store``."""
        self._repo = repo
        self._placement = store.placement
        self._dialect = store.config.dialect
        self._files = MapFiles(store.directory.sub(b"imported"), store.trust)
        docket = self._read()
        self._segments = docket.segments
        is_exact = docket.exact or self._dialect == METADATA_DIALECT
        if not self._segments:
            is_exact |= PushConfig.from_ui(store.repo.ui).is_exact
        self.is_exact = is_exact
        """Whether extras keep parts of commits that changesets cannot express."""
        try:
            self._map = self._files.open(self._segments)
        except (FileNotFoundError, error.StorageError):
            self._segments = ()  # they are made again
            self._map = self._files.open(())

    def close(self) -> None:
        """Free the map."""
        self._map.close()

    def known(self, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the changesets of those of ``oids`` that have one."""
        asked = [*oids]
        found = self._map.oids([bin_node(oid) for oid in asked])
        has = self._repo.unfiltered().changelog.hasnode
        return {
            oid: hex_node(node)
            for oid, node in zip(asked, found, strict=True)
            if node and has(node)
        }

    def commits(self, nodes: Iterable[bytes]) -> list[bytes]:
        """Return commits of those of ``nodes`` (binary) that were imported."""
        found = self._map.changesets([*nodes])
        return [hex_node(oid) for oid in found if oid]

    def ids_with(self, exported: OidMap) -> RemoteIds:
        """Return the ids of imported commits, with those of ``exported``."""
        return RemoteIds(self._map, exported)

    def record(self, transaction: Any, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Keep ``pairs`` of commits and nodes when ``transaction`` ends."""
        if not pairs:
            return
        self._files.directory.make(self._placement)
        new = {bin_node(oid): bin_node(node) for oid, node in pairs}
        kept = [*self._segments]
        while kept and self._length(kept[-1]) < 2 * len(new):
            with contextlib.closing(self._files.open(kept[-1:])) as older:
                new = _pairs(older) | new
            kept.pop()
        name = self._write(new)
        segments = (*(it for it in kept if it != name), name)

        def count(_transaction: Any) -> None:
            content = _FORM.content_of(_Docket(segments, self.is_exact))
            self._files.directory.replace(self._docket, content, self._placement)
            self._segments = segments
            self._map.close()
            self._map = self._files.open(segments)
            self._remove_others()

        transaction.addfinalize(b"zz-amalgam-imported", count)

    @property
    def _docket(self) -> bytes:
        return self._dialect + b".docket"

    def _read(self) -> _Docket:
        try:
            content = self._files.directory.tryread(self._docket, _DOCKET_BYTES)
            if content:
                return _Docket(**_FORM.values_in(content))
        except (Unusable, ValueError):
            pass  # it is made again, from nothing
        return _Docket()

    def _length(self, segment: str) -> int:
        with contextlib.closing(self._files.open([segment])) as part:
            return part.count(Table.CHANGESETS)

    def _write(self, pairs: Mapping[bytes, bytes]) -> str:
        """Write a segment, if it is not there; return its name."""
        content = segment_of(pairs)
        digits = hashlib.sha1(content, usedforsecurity=False).hexdigest()[:16]
        name = f"{self._dialect.decode()}-{digits}{_SUFFIX.decode()}"
        self._files.directory.replace(os.fsencode(name), content, self._placement)
        return name

    def _remove_others(self) -> None:
        """Remove segments that do not count, and unfinished files."""
        directory = self._files.directory
        ours, kept = self._dialect + b"-", {*map(os.fsencode, self._segments)}
        for name in directory.names():
            is_other = name.startswith(ours) and name.endswith(_SUFFIX)
            if name.startswith(TEMPORARY) or (is_other and name not in kept):
                directory.remove(name)


def segment_of(pairs: Mapping[bytes, bytes]) -> bytes:
    """Return a segment of the oid map, with one table (docs/formats/map.rst)."""
    keys = sorted(pairs)
    values = [pairs[key] for key in keys]
    counts = [0] * 256
    for key in keys:
        counts[key[0]] += 1
    by_value = sorted(range(len(keys)), key=lambda at: (values[at], at))
    parts = (
        _HEADER.pack(_MAGIC, _VERSION, 0, len(keys), 0, 0),
        struct.pack(">256I", *accumulate(counts)),
        *(*keys, *values),
        _NO_FANOUT * 2,
        struct.pack(f">{len(keys)}I", *by_value),
    )
    content = b"".join(parts)
    return content + hashlib.sha1(content, usedforsecurity=False).digest()


def _pairs(oidmap: Any) -> dict[bytes, bytes]:
    found = {}
    for joined, count in oidmap.pairs(Table.CHANGESETS):
        for at in range(0, count * 2 * ID_LEN, 2 * ID_LEN):
            key, value = joined[at : at + ID_LEN], joined[at + ID_LEN : at + 2 * ID_LEN]
            found[key] = value
    return found
