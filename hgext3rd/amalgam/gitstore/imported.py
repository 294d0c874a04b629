"""The changesets that commits of other git repositories have become.

Files of ``.hg/amalgam/imported`` (docs/formats/imported.rst). They are derived: without
them, the same commits are converted again, to the same changesets. A batch is written
while the transaction of its changesets is open, and counts when that ends. Pairs of
changesets that are gone do not count, so nobody has to remove any.

Exports give changesets the commits that they were made of, even if the changesets alone
would not: ``ImportedFiles`` is what the core reads for that.

Those of hg-git's map are among them, where a repository has one (``hggit``).
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
from ..records import Record
from .git.layout import PACKS
from .ids import RemoteIds
from .oidmap import ID_LEN, MapFiles, Table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mercurial.interfaces.types import RepoT

    from ..files import Directory
    from .oidmap import OidMap
    from .store import GitStore

    _Pairs = Mapping[bytes, bytes]

_DIRECTORY = b"imported"
_FETCHED = b"fetched"
_SEGMENT = re.compile(r"[a-z]+-[0-9a-f]{16}\.map")
_STAMP = re.compile(r"[0-9]+(?: [0-9]+)*")
_SUFFIX = b".map"
_DOCKET_BYTES = 1 << 20
_HEADER = struct.Struct(">8sIIQQQ24x")
_MAGIC, _VERSION = b"AMALGMAP", 1


class _Docket(Record):
    """Which segments count."""

    segments: tuple[str, ...] = ()
    """Their names, oldest first."""
    exact: bool = False
    """Whether extras keep the ids of all commits, from the first import on."""
    taken: str = ""
    """File stats of hg-git's files, when all of them was taken over."""
    behind: bool = False
    """Whether hg-git's files may lack commits that are here."""


_FORM = docketfile.Form(
    b"amalgam imported commits 1",
    {
        "segments": docketfile.texts(b"segment", _SEGMENT, many=True),
        "exact": docketfile.flags(b"exact"),
        "taken": docketfile.texts(b"taken", _STAMP, ""),
        "behind": docketfile.flags(b"behind"),
    },
)


def fetched_objects(store: GitStore) -> Directory:
    """Return the bare git repository with all objects that were fetched."""
    return store.directory.sub(_FETCHED).sub(b"objects.git")


class ImportedFiles(Record):
    """The files of commits that exports give back. The default is none."""

    maps: MapFiles | None = None
    segments: tuple[str, ...] = ()
    """File names of the segments of the map, oldest first."""
    packs: Directory | None = None
    """Of the objects of these commits, if any are there."""

    @staticmethod
    def directory(store: GitStore) -> Directory:
        """Return the directory of maps and dockets, which need not exist."""
        return store.directory.sub(_DIRECTORY)

    @classmethod
    def of(cls, store: GitStore) -> ImportedFiles:
        """Return those of a store, as they are now.

        None if changesets give all commits back. Where hg-git's files are kept, names
        of authors may have changed since.
        """
        dialect = store.config.dialect
        if dialect == METADATA_DIALECT:
            return cls()
        maps = _maps(store)
        docket = _read(maps.directory, dialect)
        names = map(os.fsencode, docket.segments)
        if (
            (docket.exact and not docket.taken)
            or not docket.segments
            or not all(map(maps.directory.exists, names))
        ):
            return cls()
        objects = fetched_objects(store)
        packs = objects.sub(PACKS) if objects.exists(PACKS) else None
        return cls(maps, docket.segments, packs)

    def are_as_exported(self, oidmap: OidMap, but: Collection[str]) -> bool:
        """Return whether all commits have their changesets in ``oidmap``, if any.

        ``but``: segments that need no look.
        """
        assert self.maps is not None
        new = [it for it in self.segments if it not in but]
        with contextlib.closing(self.maps.open(new)) as part:
            pairs = _pairs(part, Table.CHANGESETS)
        nodes = [*dict.fromkeys(pairs.values())]
        exported = zip(nodes, oidmap.oids(nodes), strict=True)
        other = [(node, oid) for node, oid in exported if oid]
        other = [(node, oid) for node, oid in other if pairs.get(oid) != node]
        if not other:
            return True
        with contextlib.closing(self.maps.open(self.segments)) as whole:
            found = whole.oids([oid for _node, oid in other])
        return found == [node for node, _oid in other]


def _maps(store: GitStore) -> MapFiles:
    return MapFiles(ImportedFiles.directory(store), store.trust)


def _read(directory: Directory, dialect: bytes) -> _Docket:
    try:
        content = directory.tryread(_name(dialect), _DOCKET_BYTES)
        if content:
            return _Docket(**_FORM.values_in(content))
    except (Unusable, ValueError):
        pass  # it is made again, from nothing
    return _Docket()


def _name(dialect: bytes) -> bytes:
    return dialect + b".docket"


class ImportedCommits:
    """The imported commits of one dialect, as they were when this was made.

    And those of ``record``. Commits and nodes are in hex. To be closed.
    """

    def __init__(self, repo: RepoT, store: GitStore) -> None:
        """``repo``: the repository that gets changesets, with its ``store``."""
        self._repo = repo
        self._placement = store.placement
        self._dialect = store.config.dialect
        self._files = _maps(store)
        self._fetched = store.directory.sub(_FETCHED)
        docket = _read(self._files.directory, self._dialect)
        self._segments = docket.segments
        self.taken = docket.taken
        """File stats of hg-git's files, when all of them was taken over."""
        self.behind = docket.behind
        """Whether hg-git's files may lack commits that are here."""
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

    def record(
        self,
        transaction: Any,
        pairs: Sequence[tuple[bytes, bytes]],
        foreign: Collection[bytes] = (),
    ) -> None:
        """Keep ``pairs`` of commits and nodes when ``transaction`` ends.

        ``foreign``: those of the commits that changesets may not give back.
        """
        if not pairs:
            return
        new = {bin_node(oid): bin_node(node) for oid, node in pairs}
        lost = {new[oid]: oid for oid in map(bin_node, foreign)}
        segments = self._segments_with(new, lost)

        def count(_transaction: Any) -> None:
            self._count(segments, self.taken, behind=bool(self.taken))

        transaction.addfinalize(b"zz-amalgam-imported", count)

    def take(self, new: _Pairs, kept: _Pairs, taken: str, *, behind: bool) -> None:
        """Keep commits of hg-git at once, under the lock of Mercurial.

        ``new``: changesets by commits, ``kept``: commits by changesets that they may
        not give back; all ids are 20 bytes. ``taken`` and ``behind`` are as here.
        """
        segments = self._segments
        if new:
            segments = self._segments_with(new, kept)
        self._count(segments, taken, behind=behind)

    def begin(self) -> None:
        """Leave a record, if only of no commits: it names the dialect of a clone."""
        if not self._files.directory.exists(_name(self._dialect)):
            # commands look for a dialect where this directory is
            self._fetched.make(self._placement)
            self._count(self._segments, self.taken, behind=self.behind)

    def changesets(self, oids: Sequence[bytes]) -> list[bytes | None]:
        """Return the changeset that each of ``oids`` became, here or elsewhere.

        All ids are 20 bytes.
        """
        return self._map.oids(oids)

    def pairs(self) -> _Pairs:
        """Return all commits with their changesets; ids are 20 bytes."""
        return _pairs(self._map, Table.CHANGESETS)

    def _segments_with(self, new: _Pairs, lost: _Pairs) -> tuple[str, ...]:
        """Write a segment; return the names of those that then make the map."""
        self._files.directory.make(self._placement)
        kept = [*self._segments]
        while kept and self._length(kept[-1]) < 2 * len(new):
            with contextlib.closing(self._files.open(kept[-1:])) as older:
                new = {**_pairs(older, Table.CHANGESETS), **new}
                lost = {**_pairs(older, Table.MANIFESTS), **lost}
            kept.pop()
        name = self._write(new, lost)
        return (*(it for it in kept if it != name), name)

    def _count(self, segments: tuple[str, ...], taken: str, *, behind: bool) -> None:
        """Let ``segments`` be the map."""
        self._files.directory.make(self._placement)
        content = _FORM.content_of(_Docket(segments, self.is_exact, taken, behind))
        name = _name(self._dialect)
        self._files.directory.replace(name, content, self._placement)
        self.taken, self.behind = taken, behind
        if segments != self._segments:
            self._segments = segments
            self._map.close()
            self._map = self._files.open(segments)
            self._remove_others()

    def _length(self, segment: str) -> int:
        with contextlib.closing(self._files.open([segment])) as part:
            return part.count(Table.CHANGESETS)

    def _write(self, *tables: _Pairs) -> str:
        """Write a segment, if it is not there; return its name."""
        content = segment_of(*tables)
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


def segment_of(changesets: _Pairs, commits: _Pairs) -> bytes:
    """Return a segment of the oid map with two tables (docs/formats/map.rst).

    From commits to their ``changesets``, and from changesets that do not give them back
    to their ``commits``.
    """
    keys = sorted(changesets)
    by_value = sorted(range(len(keys)), key=lambda at: (changesets[keys[at]], at))
    parts = (
        _HEADER.pack(_MAGIC, _VERSION, 0, len(changesets), len(commits), 0),
        *(_table(changesets), _table(commits), _table({})),
        struct.pack(f">{len(keys)}I", *by_value),
    )
    content = b"".join(parts)
    return content + hashlib.sha1(content, usedforsecurity=False).digest()


def _table(pairs: _Pairs) -> bytes:
    keys = sorted(pairs)
    counts = [0] * 256
    for key in keys:
        counts[key[0]] += 1
    fanout = struct.pack(">256I", *accumulate(counts))
    return b"".join((fanout, *keys, *(pairs[key] for key in keys)))


def _pairs(oidmap: OidMap, table: Table) -> dict[bytes, bytes]:
    found = {}
    for joined, count in oidmap.pairs(table):
        for at in range(0, count * 2 * ID_LEN, 2 * ID_LEN):
            key, value = joined[at : at + ID_LEN], joined[at + ID_LEN : at + 2 * ID_LEN]
            found[key] = value
    return found


def taken_over(store: GitStore) -> tuple[str, bool]:
    """Return ``taken`` and ``behind`` of ``ImportedCommits``, without its map."""
    docket = _read(ImportedFiles.directory(store), store.config.dialect)
    return docket.taken, docket.behind
