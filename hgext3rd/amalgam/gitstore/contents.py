"""What is on disk of a store, by its docket: what counts, and what goes.

The docket is written before what it no longer names goes, and refs lead to none of
that by then: whoever dies on the way leaves files that the next one removes. Decides
nothing of what belongs in a store, and converts nothing. All but ``whole`` and
``has_heads`` need the lock.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ..placement import TEMPORARY
from . import refs as refsmod
from .docket import Docket, Layer
from .oidmap import OidMap
from .outdated import outdated
from .repository import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .export import GitStore


class Contents:
    """The docket of a store, and the files that it is about."""

    def __init__(self, store: GitStore) -> None:
        self.docket = self.next = Docket()
        """What is on disk, and what the next conversion builds on."""
        self._before: Mapping[bytes, bytes] | None = None
        """The refs that were there before some of them had to go, if they had."""
        self._store = store
        self._repo = store.repo
        self._repository = store.repository
        self._dialect = store.config.dialect

    def read(self) -> None:
        """Read the docket on disk."""
        self.docket = Docket.read(self._store.map_vfs, self._dialect)

    def name(self, refs: Mapping[bytes, bytes], head: bytes) -> int:
        """Make ``refs`` all refs; return how many are new, gone or moved."""
        before = self._before or self._repository.refs()
        self._repository.set_refs(refs, head)
        self._before = None
        return differences(before, refs)

    def remove_dropped(self) -> None:
        """Remove the packs that no ref needs any more, and all traces of them."""
        if self.docket.dropped:
            self._repository.remove_packs(self.docket.dropped)
            self._repository.remove_traces()
            self.write(self.docket._replace(dropped=()))

    def whole(self) -> Docket | None:
        """Return what of that on disk can be built on; ``None`` if the base is not."""
        docket: Docket | None = self.docket
        assert docket is not None
        if docket.refused:
            docket = self.next  # what was dropped is removed
        packs = self._repository.packs()
        if docket == Docket() and packs:
            return None
        base, drafts = self._mapped(docket.base), self._mapped(docket.drafts)
        if base is None:
            return None
        docket = docket._replace(base=base)
        if not packs.issuperset(base.packs):
            docket = self._adopted(docket, packs)
            if docket is None:
                return None
        if drafts is None or not packs.issuperset(drafts.packs):
            return without_drafts(docket)
        return docket._replace(drafts=drafts)

    def _mapped(self, layer: Layer) -> Layer | None:
        """Return ``layer``, without a state that is lost; ``None`` without its maps."""
        exists = self._store.map_vfs.exists
        metadata = layer.metadata
        segments = (*layer.segments, *metadata.segments)
        if not all(map(exists, map(os.fsencode, segments))):
            return None
        if layer.segments and not metadata.segments:
            return None
        if exists(os.fsencode(metadata.state)):
            return layer
        return layer._replace(metadata=metadata._replace(state=""))

    def _adopted(self, docket: Docket, packs: frozenset[str]) -> Docket | None:
        """Take for the base what git-repack(1) has made of its packs.

        Not if there are drafts: what they share with the base may be in either. And
        not if git-gc(1) made loose what is needed: that is better packed by us.
        """
        metadata = docket.base.metadata
        if docket.drafts.packs or not packs.difference(docket.base.packs):
            return None
        loose = frozenset(self._repository.loose_objects())
        if outdated(self._repository.git, loose) != loose:
            return None
        if bytes.fromhex(metadata.commit) in loose or not self.has_heads(docket):
            return None
        self._repository.remove_loose_objects()
        kept = tuple(name for name in metadata.packs if name in packs)
        complete = docket.base.complete
        base = docket.base._replace(
            packs=tuple(sorted(packs)),
            complete=complete if complete in packs else "",
            metadata=metadata._replace(packs=kept),
        )
        return docket._replace(base=base)

    def has_heads(self, docket: Docket) -> bool:
        """Tell whether git finds the commits of all heads that are exported."""
        heads = self._repo.unfiltered().changelog.heads()
        try:
            with contextlib.closing(self._store.open_map(docket)) as oidmap:
                oids = [oid for oid in oidmap.oids(heads) if oid is not None]
        except FileNotFoundError:
            return False
        return bool(oids) and self._repository.has_commits(oids)

    def write(self, docket: Docket) -> None:
        """Make ``docket`` the state."""
        if docket != self.docket:
            store = self._store
            docket.write(store.map_vfs, self._dialect, store.placement)
        self.docket = self.next = docket

    def settle(self, docket: Docket) -> Docket:
        """Make what was converted count."""
        packs = frozenset(docket.packs)
        dropped = tuple(name for name in docket.dropped if name not in packs)
        self.write(docket._replace(dropped=dropped))
        self._store.map_vfs.tryunlink(self._store.pending)
        return self.docket

    def drop_drafts(self, docket: Docket) -> None:
        """Remove the drafts, and whatever else git may have made of them."""
        drafts = docket.drafts
        left = self._repository.packs(usable=False).difference(docket.base.packs)
        dropped = (*docket.dropped, *sorted(left.difference(docket.dropped)))
        docket = docket._replace(drafts=Layer(), dropped=dropped)
        self.write(docket._replace(refused=True, named=""))
        refs = self._repository.refs()
        with contextlib.closing(OidMap(self.map_path, drafts.segments)) as oidmap:
            nodes = oidmap.changesets(list(refs.values()))
        named = zip(refs.items(), nodes, strict=True)
        kept = {name: oid for (name, oid), node in named if node is None}
        self._unname(with_metadata(kept, docket))
        self.remove(dropped)

    def drop_all(self) -> None:
        """Remove all that is exported."""
        left = self._repository.packs(usable=False)
        self.write(Docket(refused=True, dropped=tuple(sorted(left))))
        self._unname({})
        self.remove(left)

    def _unname(self, refs: Mapping[bytes, bytes]) -> None:
        """Leave only ``refs``, so that none leads to what is about to go."""
        if self._before is None:
            self._before = self._repository.refs()
        self._repository.set_refs(refs, self._repository.head())

    def remove(self, packs: Iterable[str]) -> None:
        """Remove packs that the docket has as dropped, and all traces of them."""
        self._repository.remove_packs(packs)
        self._repository.remove_traces()
        self.remove_debris()
        self.next = self.docket._replace(dropped=())

    def remove_debris(self) -> None:
        """Remove what a killed run left, and segments that were merged into others."""
        vfs = self._store.map_vfs
        pending = vfs.tryread(self._store.pending).decode("ascii", "replace").split()
        packs = [pack for pack in pending if pack not in self.docket.packs]
        self._repository.remove_packs(packs)
        vfs.tryunlink(self._store.pending)
        names = (*self.docket.segments, *self.docket.metadata_files)
        kept = frozenset(map(os.fsencode, names))
        ours = self._dialect + b"-"
        for name in vfs.listdir():
            is_ours = name.startswith(ours) and name.endswith((b".map", b".state"))
            if name.startswith(TEMPORARY) or (is_ours and name not in kept):
                vfs.tryunlink(name)
        self._repository.remove_debris()

    def anew(self, docket: Docket) -> Docket:
        """Return a docket for an export from nothing; all goes when that is done."""
        return Docket(
            held=docket.held,
            refused=docket.refused,
            dropped=tuple(sorted(self._repository.packs(usable=False))),
        )

    @property
    def map_path(self) -> bytes:
        """The directory of map segments."""
        return bytes(self._store.map_vfs.base)


def without_drafts(docket: Docket) -> Docket:
    """Return a docket whose drafts go when they are made again."""
    dropped = (*docket.dropped, *docket.drafts.packs)
    return docket._replace(drafts=Layer(), dropped=dropped)


def with_metadata(refs: Mapping[bytes, bytes], docket: Docket) -> dict[bytes, bytes]:
    """Return refs with the one that is for git-cinnabar, if there is one."""
    named = {name: oid for name, oid in refs.items() if name != refsmod.METADATA}
    if docket.metadata.commit:
        named[refsmod.METADATA] = bytes.fromhex(docket.metadata.commit)
    return named
