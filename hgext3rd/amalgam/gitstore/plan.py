"""The plan of an export: which changesets go into which layer of a store.

The base has the public changesets. Drafts are on top of it, so that what may vanish is
in packs that can be removed (docs/decisions/visibility.rst). Reads dockets, maps and
histories, and changes nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..records import Choice, Record
from . import selection
from .oidmap import ID_LEN, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mercurial.interfaces.types import RepoT

    from .checkpoint import Checkpoint
    from .docket import Docket, Layer
    from .oidmap import MapFiles, OidMap
    from .selection import Selection

_PAIR_LEN = 2 * ID_LEN


class Drafts(Choice):
    """Change of the layer of drafts."""

    KEEP = 1
    """It grows, or stays as it is."""
    PUBLISH = 2
    """Some of it is public."""
    SORT = 3
    """It is made again, without its public changesets."""
    DROP = 4
    """Some of it must not be there: the rest is made again."""


class ExportPlan(Record):
    """Changesets that may be in a store, and those to convert into each layer."""

    allowed: Selection
    """Changesets that may be in the store at all."""
    all_public: Selection
    """Those of them that are public, but for those that are held."""
    public: Selection
    """Those of these that are in the base, or go there."""
    selected: Selection
    """Allowed changesets that this export is about."""
    held: tuple[tuple[bytes, bytes], ...]
    """As in the docket, without pairs that have lost their reason."""
    published: tuple[bytes, ...]
    """As in the docket, without those that are not public any more."""

    @classmethod
    def of(
        cls,
        repo: RepoT,
        export: bytes,
        docket: Docket,
        nodes: Sequence[bytes] | None = None,
    ) -> ExportPlan:
        """Look at the repository; ``nodes``: export only these and their ancestors."""
        allowed = selected = selection.select(repo, export)
        if nodes is not None:
            selected = selection.select(repo, export, nodes)
        drafts = selection.drafts(repo, allowed)
        changelog = repo.unfiltered().changelog
        rev_of = changelog.index.get_rev
        held = tuple(
            (public, draft)
            for public, draft in docket.held
            if rev_of(draft) in drafts
            and rev_of(public) not in drafts
            and allowed.has(repo, public)
        )
        if held:
            drafts |= _from(changelog, [public for public, _draft in held], allowed)
            drafts = dict(sorted(drafts.items()))
        all_public = allowed.without(drafts)
        published = tuple(
            node for node in docket.published if all_public.has(repo, node)
        )
        base = all_public.without(_from(changelog, published, all_public))
        return cls(allowed, all_public, base, selected, held, published)

    @property
    def is_all(self) -> bool:
        """Whether the export is about all that is allowed."""
        return self.selected is self.allowed

    @property
    def for_base(self) -> Selection:
        """The changesets to convert into the base."""
        if self.is_all:
            return self.public
        return self.selected.without(self.public.excluded)

    def first_draft(self) -> int:
        """Return the first revision that does not go into the base, if any does not."""
        return next(iter(self._drafts()), self.selected.len)

    def newest_drafts(self, count: int) -> dict[int, bytes]:
        """Return the last ``count`` revisions that do not go into the base."""
        return dict([*self._drafts().items()][-count:])

    def _drafts(self) -> dict[int, bytes]:
        """Return the revisions that do not go into the base, ascending."""
        outside, excluded = self.for_base.excluded, self.selected.excluded
        return {rev: node for rev, node in outside.items() if rev not in excluded}

    def judge(self, repo: RepoT, docket: Docket, maps: MapFiles) -> Drafts:
        """Return the change that the drafts of ``docket`` need."""
        no_draft = self.all_public.changesets() == self.allowed.changesets()
        if not docket.drafts.segments or (
            not no_draft and self.is_as_seen(repo, docket)
        ):
            return Drafts.KEEP
        nodes = changesets(maps, docket.drafts)
        if not all(self.allowed.has(repo, node) for node in nodes):
            return Drafts.DROP
        is_new = no_draft or any(self.public.has(repo, node) for node in nodes)
        return Drafts.PUBLISH if is_new else Drafts.KEEP

    def roots_of_public(self, repo: RepoT, nodes: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the public ones of ``nodes`` whose parents are none of these."""
        changelog = repo.unfiltered().changelog
        public = [node for node in nodes if self.all_public.has(repo, node)]
        revs = {*map(changelog.rev, public)}
        parents = changelog.parentrevs
        roots = (rev for rev in sorted(revs) if revs.isdisjoint(parents(rev)))
        return tuple(map(changelog.node, roots))

    def is_as_seen(self, repo: RepoT, docket: Docket) -> bool:
        """Return whether all seen changesets have the same places and layers."""
        return self.is_base_as_seen(repo, docket) and _is_as_seen(
            repo, self.allowed, docket.drafts
        )

    def is_base_as_seen(self, repo: RepoT, docket: Docket) -> bool:
        """Return the same for the base alone."""
        return _is_as_seen(repo, self.public, docket.base)

    def has_base_shrunk(self, repo: RepoT, docket: Docket, maps: MapFiles) -> bool:
        """Return whether the base has a changeset that must not be there.

        Looks at those above the last place that is as it was seen. ``StorageError`` if
        that is so because the changelog is damaged.
        """
        below = self.public.known_below(repo, docket.base.seen)
        nodes = self.allowed.nodes_above(repo, below)
        with contextlib.closing(maps.open(docket.base.segments)) as oidmap:
            known = oidmap.has(nodes)
            there = oidmap.count(Table.CHANGESETS)
        new = [
            node for node, is_known in zip(nodes, known, strict=True) if not is_known
        ]
        if there == self.public.changesets(below) + len(nodes) - len(new):
            return False
        selection.check_texts(repo, new)
        return True

    def places(
        self, repo: RepoT
    ) -> tuple[tuple[Checkpoint, ...], tuple[Checkpoint, ...]]:
        """Return checkpoints of both layers, for a complete export."""
        # what follows the first draft moves when a draft goes, and nothing else does
        places = sorted({self.first_draft(), self.public.len})
        base = (self.public.seen(repo, place) for place in places)
        drafts = self.allowed.seen(repo)
        return tuple(filter(None, base)), (drafts,) if drafts else ()


def _from(
    changelog: Any, nodes: Sequence[bytes], selected: Selection
) -> dict[int, bytes]:
    """Return ``nodes`` and their descendants in ``selected``: revision to node,
    ascending."""
    roots = [*map(changelog.rev, nodes)]
    found = sorted({*roots, *changelog.descendants(roots)}) if roots else []
    return {rev: changelog.node(rev) for rev in found if rev not in selected.excluded}


def _is_as_seen(repo: RepoT, selected: Selection, layer: Layer) -> bool:
    if not layer.seen:  # the layer of an empty repository, or not a complete export
        return not selected.len and not layer.segments
    return selected.known_below(repo, layer.seen) == layer.seen[-1].len


def is_safe(repo: RepoT, export: bytes, docket: Docket, maps: MapFiles) -> bool:
    """Return whether readers of the repository may read all contents of a store."""
    wanted = ExportPlan.of(repo, export, docket)
    if wanted.is_as_seen(repo, docket):
        return True
    layers = (docket.base, docket.drafts)
    return not any(vanished(repo, wanted.allowed, maps, layer) for layer in layers)


def vanished(
    repo: RepoT, allowed: Selection, maps: MapFiles, layer: Layer
) -> list[bytes]:
    """Return the changesets of ``layer`` that must not be there. Looks at each."""
    nodes = changesets(maps, layer)
    return [node for node in nodes if not allowed.has(repo, node)]


def changesets(maps: MapFiles, layer: Layer) -> list[bytes]:
    """Return the changesets that a layer has. Takes some 100 ns each."""
    with contextlib.closing(maps.open(layer.segments)) as oidmap:
        return list(_nodes(oidmap))


def _nodes(oidmap: OidMap) -> Iterator[bytes]:
    for pairs, _count in oidmap.pairs(Table.CHANGESETS):
        for start in range(0, len(pairs), _PAIR_LEN):
            yield pairs[start : start + ID_LEN]
