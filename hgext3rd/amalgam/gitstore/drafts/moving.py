"""Replacements of the drafts' files, when some drafts vanish or become public.

Makes the packs, the segments of both maps and the use counts that a store is to have
then. None of it counts before a docket names it. Does not write dockets and refs, and
removes nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from typing import TYPE_CHECKING

from mercurial import error

from ...records import Record
from ..docket import Layer
from ..git import layout
from ..oidmap import ID_LEN, Table
from . import departure as departuremod, packs as packsmod, uses as usesmod
from .counts import UseCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ...files import Directory
    from ..docket import Docket
    from ..oidmap import OidMap
    from ..store import GitStore
    from .departure import Departure, Nodes

    Take = Callable[[Directory, Sequence[str]], None]

# What more drafts use is counted when it is needed: they are mostly a first export.
_MOST_COUNTED = 2048
# If more are published, and these are most drafts, it takes a third of the time to
# convert all drafts again (33,122 of 33,431 changesets of octave, 2026-11-23).
_MOST_MOVED = 2048


class Replacement(Record):
    """What a store is to have."""

    base: Layer
    drafts: Layer
    made: tuple[str, ...]
    """Packs of both that are new."""
    changesets: tuple[bytes, ...]
    """Those that are no drafts of the store any more."""
    commits: tuple[bytes, ...]


class _Counted(Record):
    """The use counts of all drafts."""

    docket: Docket
    counts: UseCounts
    order: Mapping[bytes, int] | None
    """The first draft that introduces an object, as a number, if that is known."""


def without_vanished(
    store: GitStore, docket: Docket, take: Take, nodes: Sequence[bytes]
) -> Replacement | None:
    """Make what stays without drafts that vanished.

    ``None`` if that is not enough, or fails for whatever reason. Then all drafts have
    to be converted again. ``take`` brings packs to where they may count.
    """
    return _made(
        store, docket, take, lambda area: _vanished(store, docket, area, nodes)
    )


def without_published(
    store: GitStore, docket: Docket, take: Take, nodes: Sequence[bytes]
) -> Replacement | None:
    """Make a base that has drafts which are public now.

    Answers as above; ``None`` also if a conversion of all drafts takes less time.
    """
    if len(nodes) > max(_MOST_MOVED, _changesets(store, docket.drafts) // 2):
        return None
    return _made(
        store, docket, take, lambda area: _published(store, docket, area, nodes)
    )


def _made(
    store: GitStore,
    docket: Docket,
    take: Take,
    make: Callable[[Directory], Replacement | None],
) -> Replacement | None:
    directory = store.repository.directory
    try:
        with layout.staging_area(directory, store.placement, docket.packs) as area:
            new = make(area)
            if new is not None:
                take(area, new.made)
            return new
    except (error.Abort, error.StorageError, OSError) as exc:
        store.repo.ui.log(b"amalgam", b"drafts are converted again: %s\n", exc)
        return None


def _vanished(
    store: GitStore, docket: Docket, area: Directory, nodes: Sequence[bytes]
) -> Replacement | None:
    counted = _counted(store, docket)
    if counted is None:
        return None
    leaving = departuremod.of_vanished(store, docket, counted.counts, nodes)
    if leaving is None:
        return None
    drafts, made = _replaced(store, counted, area, leaving)
    return _replacement(docket.base, drafts, made, leaving)


def _published(
    store: GitStore, docket: Docket, area: Directory, nodes: Sequence[bytes]
) -> Replacement | None:
    counted = _counted(store, docket)
    if counted is None:
        return None
    leaving = departuremod.of_published(store, docket, nodes)
    if leaving is None:
        return None
    base, drafts = docket.base, counted.docket.drafts
    moved = packsmod.made_of(store.repository, area, drafts.packs, leaving.objects)
    of_metadata = leaving.metadata_entries
    base = base._replace(
        segments=(
            *base.segments,
            *_sifted(store, drafts.segments, leaving.entries, b""),
        ),
        packs=(*base.packs, *moved),
        metadata_segments=(
            *base.metadata_segments,
            *_sifted(store, drafts.metadata_segments, of_metadata, b"-metadata"),
        ),
        seen=(),
    )
    drafts, made = _replaced(store, counted, area, leaving)
    made = tuple(dict.fromkeys((*moved, *made)))
    return _replacement(base, drafts, made, leaving)


def _replacement(
    base: Layer, drafts: Layer, made: tuple[str, ...], leaving: Departure
) -> Replacement:
    commits = tuple(leaving.metadata_entries[Table.CHANGESETS])
    return Replacement(base, drafts, made, leaving.changesets, commits)


def with_counted(
    store: GitStore, before: Docket, docket: Docket, nodes: Sequence[bytes]
) -> Docket:
    """Count what those of ``nodes`` use that are drafts now, and were not ``before``.

    Unless that is much, the other drafts are not counted, or git cannot be run.
    """
    drafts, there = docket.drafts, _changesets(store, before.drafts)
    new_len = _changesets(store, drafts) - there
    if drafts.counted != there or not 0 < new_len <= _MOST_COUNTED:
        return docket
    with (
        contextlib.closing(store.maps.open(before.drafts.segments)) as old,
        contextlib.closing(store.maps.open(drafts.segments)) as oidmap,
    ):
        known = zip(nodes, old.oids(nodes), oidmap.oids(nodes), strict=True)
        nodes = [node for node, was, is_ in known if was is None and is_ is not None]
    if len(nodes) != new_len:
        return docket
    changes: Counter[bytes] = Counter()
    try:
        counts = UseCounts(store.maps.directory, drafts.uses)
        for uses in usesmod.of_changesets(store, docket, nodes):
            changes.update(uses.counted())
    except error.Abort:
        return docket  # of a user for whom no git runs there, as nobody is trusted
    except error.StorageError:
        # lost or damaged: they are counted when that is needed
        return docket._replace(drafts=drafts._replace(uses=(), counted=0))
    names = counts.changed(changes, store.config.dialect, store.placement)
    counted = drafts._replace(uses=names, counted=there + new_len)
    return docket._replace(drafts=counted)


def _counted(store: GitStore, docket: Docket) -> _Counted | None:
    """Return the use counts of all drafts, which may have to be made."""
    drafts, directory = docket.drafts, store.maps.directory
    number = _changesets(store, drafts)
    if drafts.counted == number:
        return _Counted(docket, UseCounts(directory, drafts.uses), None)
    found = departuremod.all_uses(store, docket)
    if found is None:
        return None
    changes: Counter[bytes] = Counter()
    order: dict[bytes, int] = {}
    for at, uses in enumerate(found):
        changes.update(uses.counted())
        for oid in uses.objects:
            order.setdefault(oid, at)
    names = UseCounts(directory, ()).changed(
        changes, store.config.dialect, store.placement
    )
    docket = docket._replace(drafts=drafts._replace(uses=names, counted=number))
    return _Counted(docket, UseCounts(directory, names), order)


def _order(store: GitStore, docket: Docket) -> Mapping[bytes, int]:
    order: dict[bytes, int] = {}
    for at, uses in enumerate(departuremod.all_uses(store, docket) or ()):
        for oid in uses.objects:
            order.setdefault(oid, at)
    return order


def _replaced(
    store: GitStore, counted: _Counted, area: Directory, leaving: Departure
) -> tuple[Layer, tuple[str, ...]]:
    """Return the drafts without what leaves, and packs that are new."""
    docket, counts, order = counted
    drafts, repository = docket.drafts, store.repository
    left = drafts.counted - len(leaving.changesets)
    if not left:
        return Layer(), ()
    sources = packsmod.sources(repository, drafts, leaving.objects)
    made = packsmod.made_without(
        repository,
        area,
        sources,
        leaving.objects,
        packsmod.most_objects(repository, drafts),
        lambda: order if order is not None else _order(store, docket),
    )
    of_metadata = leaving.metadata_entries
    layer = Layer(
        segments=_without(store, drafts.segments, leaving.entries, b""),
        packs=(*made, *(name for name in drafts.packs if name not in sources)),
        complete="" if drafts.complete in sources else drafts.complete,
        metadata_segments=_without(
            store, drafts.metadata_segments, of_metadata, b"-metadata"
        ),
        uses=counts.changed(leaving.changes, store.config.dialect, store.placement),
        counted=left,
    )
    return layer, made


def _changesets(store: GitStore, layer: Layer) -> int:
    with contextlib.closing(store.maps.open(layer.segments)) as oidmap:
        return oidmap.count(Table.CHANGESETS)


def _without(
    store: GitStore, segments: Iterable[str], nodes: Nodes, infix: bytes
) -> tuple[str, ...]:
    """Return segments without some entries; those that have them are written again."""
    names = []
    for name in segments:
        with contextlib.closing(store.maps.open([name])) as oidmap:
            if not any(_has_any(oidmap, table, nodes[table]) for table in nodes):
                names.append(name)
                continue
            names += _written(store, oidmap.sifted(nodes, keep=False), infix)
    return tuple(dict.fromkeys(names))


def _sifted(
    store: GitStore, segments: Sequence[str], nodes: Nodes, infix: bytes
) -> tuple[str, ...]:
    """Write the entries of ``nodes`` in ``segments`` as a segment."""
    with contextlib.closing(store.maps.open(segments)) as oidmap:
        return _written(store, oidmap.sifted(nodes, keep=True), infix)


def _has_any(oidmap: OidMap, table: Table, nodes: Collection[bytes]) -> bool:
    return any(oid is not None for oid in oidmap.oids([*nodes], table))


def _written(store: GitStore, content: bytes, infix: bytes) -> tuple[str, ...]:
    """Write a segment, unless it is empty."""
    if not any(content[16:40]):
        return ()
    digits = content[-ID_LEN:].hex()[:16].encode()
    name = store.config.dialect + infix + b"-" + digits + b".map"
    store.maps.directory.replace(name, content, store.placement)
    return (os.fsdecode(name),)
