"""Departures: what goes from the drafts of a store together with some changesets.

Changesets vanish, or become public and move into the base. Either way the packs and
maps of the drafts lose what no other draft needs, and nothing else. Decides what that
is, and changes nothing. ``None`` instead of an answer: the ids of others may change in
a way that only a conversion of all drafts tells.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from ...records import Record
from .. import plan
from ..oidmap import ID_LEN, Table
from . import uses as usesmod
from .counts import UseCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..docket import Docket, Layer
    from ..oidmap import OidMap
    from ..selection import Selection
    from ..store import GitStore
    from .uses import Uses

# The uses of more drafts than this are not counted at once: it takes some 10 kB each.
_MOST_AT_ONCE = 100_000

Nodes = dict[Table, "Sequence[bytes]"]


class Departure(Record):
    """What leaves the drafts."""

    changesets: tuple[bytes, ...]
    objects: frozenset[bytes]
    """What the packs lose."""
    entries: Nodes
    """What the map loses, as nodes."""
    metadata_entries: Nodes
    """What the map of git-cinnabar's metadata loses."""
    changes: Mapping[bytes, int]
    """By how much use counts differ afterwards."""


def of_vanished(
    store: GitStore, docket: Docket, counts: UseCounts, nodes: Iterable[bytes]
) -> Departure | None:
    """Tell what goes with changesets that must not be there any more.

    Changesets that have another id without them go with them.
    """
    going = _with_displaced(store, docket, nodes)
    found = [*usesmod.of_changesets(store, docket, going)]
    changes = _changes(found)
    left = {id_: counts.count(id_) + change for id_, change in changes.items()}
    if any(count < 0 for count in left.values()):
        raise error.StorageError(_(b"use counts of drafts are wrong"))
    gone = {id_ for id_, count in left.items() if not count}
    manifests = [uses.manifest for uses in found if uses.manifest]
    in_base = _in_base(store, docket, manifests)
    for uses in found:
        commit = uses.manifest_commit
        if commit in gone and uses.manifest not in in_base:
            built_upon = usesmod.built_upon(commit)
            count = left.get(built_upon)
            if counts.count(built_upon) if count is None else count:
                return None  # the commits of other manifests would lose a parent
    return _departure(found, gone, changes)


def of_published(
    store: GitStore, docket: Docket, nodes: Sequence[bytes]
) -> Departure | None:
    """Tell what becomes part of the base with changesets that are public now."""
    found = [*usesmod.of_changesets(store, docket, nodes)]
    commits = {uses.manifest_commit for uses in found}
    parents = {parent for uses in found for parent in uses.manifest_parents} - commits
    if parents and not parents <= _manifest_commits_in_base(store, docket, found):
        return None
    if _have_twins_before(store, docket, found):
        return None
    changes = _changes(found)
    return _departure(found, set(changes), changes)


def twins(
    store: GitStore, docket: Docket, base: Layer, selected: Selection
) -> list[tuple[bytes, bytes]]:
    """Return changesets that are new in ``base`` and have the commit of a draft.

    Pairs of one that is ``selected`` for the base and the draft, the later one first.
    """
    if not docket.drafts.segments:
        return []
    repo = store.repo
    rev_of = repo.unfiltered().changelog.index.get_rev
    below = selected.known_below(repo, docket.base.seen)
    nodes = selected.nodes_above(repo, below)
    with contextlib.closing(store.maps.open(base.segments)) as oidmap:
        oids = oidmap.oids(nodes)
    with contextlib.closing(store.maps.open(docket.drafts.segments)) as drafts:
        others = drafts.changesets([oid or bytes(ID_LEN) for oid in oids])
    found = []
    for node, other in zip(nodes, others, strict=True):
        if other is not None:
            earlier, later = sorted((node, other), key=rev_of)
            found.append((later, earlier))
    return found


def all_uses(store: GitStore, docket: Docket) -> Iterator[Uses] | None:
    """Yield what each draft introduces, in the order of the changelog.

    ``None`` if there are too many.
    """
    nodes = plan.changesets(store.maps, docket.drafts)
    if len(nodes) > _MOST_AT_ONCE:
        return None
    rev_of = store.repo.unfiltered().changelog.index.get_rev
    nodes.sort(key=lambda node: (rev_of(node) or 0, node))
    return usesmod.of_changesets(store, docket, nodes)


def _changes(found: Iterable[Uses]) -> dict[bytes, int]:
    changes: Counter[bytes] = Counter()
    for uses in found:
        changes.subtract(uses.counted())
    return changes


def _departure(
    found: Sequence[Uses], gone: set[bytes], changes: Mapping[bytes, int]
) -> Departure:
    manifests = {uses.manifest for uses in found if uses.manifest_commit in gone}
    files = gone & frozenset().union(*(uses.files for uses in found))
    shared: Nodes = {Table.MANIFESTS: [*manifests], Table.FILES: [*files]}
    objects = frozenset().union(*(uses.objects for uses in found))
    return Departure(
        changesets=tuple(uses.node for uses in found),
        objects=objects & gone,
        entries={Table.CHANGESETS: [uses.node for uses in found], **shared},
        metadata_entries={Table.CHANGESETS: [uses.commit for uses in found], **shared},
        changes=changes,
    )


def _in_base(store: GitStore, docket: Docket, manifests: Sequence[bytes]) -> set[bytes]:
    """Return those of ``manifests`` that changesets of the base have."""
    with contextlib.closing(store.maps.open(docket.base.segments)) as base:
        oids = base.oids(manifests, Table.MANIFESTS)
        return {
            node for node, oid in zip(manifests, oids, strict=True) if oid is not None
        }


def _manifest_commits_in_base(
    store: GitStore, docket: Docket, found: Sequence[Uses]
) -> set[bytes]:
    """Return the commits of the base's manifests that manifests of ``found`` name."""
    manifestlog = store.repo.manifestlog.getstorage(b"")
    nodes = []
    for uses in found:
        if uses.manifest:
            nodes += manifestlog.parents(uses.manifest)
    with contextlib.closing(store.maps.open(docket.base.metadata_segments)) as base:
        return {oid for oid in base.oids(nodes, Table.MANIFESTS) if oid is not None}


def _with_displaced(
    store: GitStore, docket: Docket, nodes: Iterable[bytes]
) -> list[bytes]:
    """Return ``nodes`` and all drafts whose ids are others without them.

    A commit that is like an earlier one has line feeds at its end (docs/formats/
    cinnabar.rst). Its descendants name it.
    """
    changelog = store.repo.unfiltered().changelog
    going = dict.fromkeys(nodes)
    new = [*going]
    with (
        contextlib.closing(store.open_map(docket)) as oidmap,
        contextlib.closing(store.maps.open(docket.drafts.segments)) as drafts,
    ):
        while new:
            twins = {*_twins_after(store, oidmap, new)}
            others = [*twins, *_descendants(changelog, twins)]
            known = zip(others, drafts.oids(others), strict=True)
            new = [node for node, oid in known if oid is not None and node not in going]
            going.update(dict.fromkeys(new))
    return [*going]


def _descendants(changelog: Any, nodes: Iterable[bytes]) -> list[bytes]:
    """Return the descendants of those of ``nodes`` that are there."""
    revs = [rev for rev in map(changelog.index.get_rev, nodes) if rev is not None]
    return [*map(changelog.node, changelog.descendants(revs))] if revs else []


def _twins_after(
    store: GitStore, oidmap: OidMap, nodes: Sequence[bytes]
) -> Iterator[bytes]:
    """Yield the changesets whose commits differ from these by line feeds alone."""
    commits = [oid for oid in oidmap.oids(nodes) if oid is not None]
    for content in usesmod.contents(store.repository.git, commits):
        twin: bytes | None = b""
        while twin is not None:
            content += b"\n"
            [twin] = oidmap.changesets([_commit_oid(content)])
            if twin is not None:
                yield twin


def _have_twins_before(store: GitStore, docket: Docket, found: Sequence[Uses]) -> bool:
    """Tell whether the id of any depends on a draft that is not among them."""
    own = {uses.node for uses in found}
    commits = [uses.commit for uses in found]
    with contextlib.closing(store.maps.open(docket.drafts.segments)) as drafts:
        for content in usesmod.contents(store.repository.git, commits):
            while content.endswith(b"\n"):
                content = content[:-1]
                [twin] = drafts.changesets([_commit_oid(content)])
                if twin is not None and twin not in own:
                    return True
    return False


def _commit_oid(content: bytes) -> bytes:
    return hashlib.sha1(b"commit %d\0%s" % (len(content), content)).digest()
