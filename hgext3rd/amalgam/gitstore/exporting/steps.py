"""The steps of an export: select, convert, record, name.

The order is the crash safety. The core writes packs, then map segments. Then the docket
makes them count. Then refs are written. Packs that were replaced go last. A killed run
leaves files that the next run removes, never a ref to a missing object.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ...native import errors
from ...terminal import one_line
from ..drafts import departure, moving
from ..git import branchtips, refs as refsmod
from ..git.branchtips import BranchTips
from ..state import censorship, layers, lfs, selection, unreadable
from ..state.docket import Docket, Layer
from ..state.layers import Drafts, ExportPlan
from ..state.oidmap import Table
from . import metadatacommit, pending, transitions
from .conversion import Converted, ExportConversion
from .metadatacommit import Covers
from .storefiles import StoreFiles, with_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..state.selection import FilesState, Selection
    from ..store import GitStore

# Each round but the first has only that to convert which came during the one before:
# milliseconds. So many changes in a row are no coincidence.
_ROUNDS = 20


class _DisplacedError(Exception):
    """Later changesets have the commits of earlier ones."""

    def __init__(self, displaced: Sequence[tuple[bytes, bytes]]) -> None:
        super().__init__()
        self.displaced = displaced


class ExportRun:
    """One export of a store, and what came of it. All but reading needs the lock."""

    def __init__(
        self,
        store: GitStore,
        nodes: Sequence[bytes] | None,
        *,
        once: bool = False,
        covers: Covers | None = None,
    ) -> None:
        self.done: list[Converted] = []
        self.refs = self.deleted = 0
        """Refs that changed, and those of them that are gone."""
        self.gone = 0
        """Drafts that had been exported, and had to go."""
        self.again = False
        """Whether others had to go with them, and were converted again."""
        self.start = 0
        """The first revision that was not there at the last export."""
        self.named: frozenset[bytes] = frozenset()
        """Changesets that refs lead to."""
        self.too_long: Sequence[bytes] = ()
        """Names that have no ref, since they are too long."""
        self.state: FilesState = ()
        """That of the repository's files when they were looked at for the last time."""
        self._tips: BranchTips | None = None
        self._once = once
        self._covers = covers
        self._nodes = nodes
        self._store = store
        self._repo = store.repo
        self._config = store.config
        self._maps = store.maps.directory
        self._repository = store.repository
        self._files = StoreFiles(store)
        self._conversion = ExportConversion.into(store)

    def update(self, rebuild: bool) -> None:
        """Do what there is to do."""
        self._files.read()
        is_there = self._repository.exists()
        if is_there:
            if not rebuild:
                self._files.refuse_foreign_store()
            self._repository.remove_intruders()
        else:
            self._repository.set_up()
        self._files.begin(censorship.mark_of(self._repo))
        whole = self._files.whole()
        if is_there and not rebuild:
            self._warn_of_loss(whole)
        seen = self._files.docket.drafts.seen
        if rebuild or whole is None:
            branchtips.forget(self._maps, self._config.dialect)
            self._files.plan_anew()
        else:
            self.start = selection.appended(self._repo, seen)
            self._files.plan(whole)
        try:
            self._rounds()
        except BaseException:
            # the next run would do it, too; but why leave it what can be large
            with contextlib.suppress(OSError):
                self._files.remove_debris()
            raise
        if covers := self._covers or self._covers_of_first():
            metadatacommit.make(self._store, self._files, covers)
        self._files.finish()

    def _covers_of_first(self) -> Covers | None:
        """Tell what is to be named after an export from nothing, which writes all."""
        if not self.done:
            return None
        done = sum(done.changesets for done in self.done)
        with contextlib.closing(self._store.open_map(self._files.docket)) as oidmap:
            is_all = done >= oidmap.count(Table.CHANGESETS)
        return Covers.ALL if is_all else None

    def _warn_of_loss(self, whole: Docket | None) -> None:
        """Say what is made again because it was lost."""
        if whole is None or self._files.is_docket_lost:
            what = _(b"everything")
        elif self._files.docket.drafts.segments and not whole.drafts.segments:
            what = _(b"drafts")
        else:
            return
        text = _(b"warning: git store is incomplete: exporting %s") % what
        self._repo.ui.warn(one_line(text))

    def is_up_to_date(self) -> bool:
        """Tell whether an export would write nothing; writes nothing itself."""
        self.state = selection.state_of(self._repo)
        selection.read_again(self._repo)
        docket = self._store.docket()
        wanted = self._want(docket)
        if not self._files.is_settled(docket) or self._has_old_pointers(docket):
            return False
        if self._nodes is None:
            known = wanted.allowed.known_below(self._repo, docket.drafts.seen)
            whole = (
                wanted.is_as_seen(self._repo, docket) and known == wanted.allowed.len
            )
        else:
            wanted_nodes = [
                node for node in self._nodes if wanted.allowed.has(self._repo, node)
            ]
            with contextlib.closing(self._store.open_map(docket)) as oidmap:
                whole = None not in oidmap.oids(wanted_nodes)
        refs, head = self._wanted_refs(docket, wanted.allowed)
        covers = self._covers
        whole = whole and (
            covers is None or metadatacommit.is_current(self._store, docket, covers)
        )
        return whole and self._repository.is_named(refs, head)

    def _rounds(self) -> None:
        """Convert and name, until nothing has moved meanwhile."""
        cause: Exception | None = None
        for _round in range(_ROUNDS):
            self.state = state = selection.state_of(self._repo)
            try:
                selection.read_again(self._repo)
                if self._round(state):
                    return
                cause = None
            except errors.Moved as exc:
                cause = exc
            except Exception as exc:
                moved = selection.state_of(self._repo) != state
                if not moved or not unreadable.is_of_repository(exc):
                    raise
                cause = exc
            self._files.remove_debris()
        raise error.StateError(
            _(b"repository kept changing while it was exported"),
            hint=_(b"run 'hg git::export' again; what was converted is kept"),
        ) from cause

    def _round(self, state: FilesState) -> bool:
        """Convert what is new and name it; tell whether that is all there is to do.

        Refs are named only from a view that was still that of the repository's files
        after all that it selects was converted; or, if one naming is enough, if all
        that they lead to may still leave.
        """
        self._drop_censored()
        self._replace_pointers()
        wanted = self._settle()
        before = self._files.next
        known_below = wanted.allowed.known_below(self._repo, before.drafts.seen)
        # what had to go has gone, even if this has to wait for a lock of git
        self._repository.set_up()
        try:
            self._convert(wanted)
        except _DisplacedError as found:
            self._make_room(wanted, found.displaced)
            return False
        if not self._is_exact(wanted, known_below):
            return False
        docket = self._files.next
        if docket.drafts.segments != before.drafts.segments:
            nodes = wanted.selected.nodes_above(self._repo, known_below)
            docket = moving.with_counted(self._store, before, docket, nodes)
        refs, head = self._wanted_refs(docket, wanted.allowed)
        places = wanted.places(self._repo) if wanted.is_all else None
        if selection.state_of(self._repo) != state and not (
            self._once and self._is_still_allowed(docket)
        ):
            self._files.write(docket)
            return False
        pending.refuse_abandoned(self._repo)
        changed, deleted = self._files.name(refs, head)
        self.refs += changed
        self.deleted += deleted
        self._repository.keep(docket.packs)
        named = self._repository.names_digest()
        self._note_tips()
        if places is not None:
            docket = transitions.with_seen(docket, *places)
        self._files.write(transitions.named(docket, named))
        return self._once or selection.state_of(self._repo) == state

    def _is_still_allowed(self, docket: Docket) -> bool:
        """Tell whether all that refs lead to may still leave, though files changed."""
        state = selection.state_of(self._repo)
        selection.read_again(self._repo)
        allowed = selection.select(self._repo, self._config.export)
        return (
            docket.censored == censorship.mark_of(self._repo)
            and all(allowed.has(self._repo, node) for node in self.named)
            and selection.state_of(self._repo) == state
        )

    def _drop_censored(self) -> None:
        """Remove all, if a text was censored since this export began to read texts."""
        mark = censorship.mark_of(self._repo)
        docket = self._files.next
        if docket.censored != mark:
            for layer in (docket.base, docket.drafts):
                self._select_again(self._want(docket), layer)
            self._files.drop_all(mark)

    def _replace_pointers(self) -> None:
        """Export from nothing, if blobs of files in LFS are as Mercurial stores them.

        Ids of commits with them change, and a store has ids of one rule only.
        """
        docket = self._files.next
        if self._has_old_pointers(docket):
            self._repo.ui.warn(
                _(b"warning: LFS pointers change: exporting everything again\n")
            )
            for layer in (docket.base, docket.drafts):
                self._select_again(self._want(docket), layer)
            self._files.plan_anew()
        if lfs.is_used(self._repo):
            self._files.plan(transitions.with_pointers(self._files.next))

    def _has_old_pointers(self, docket: Docket) -> bool:
        if docket.pointers or not docket.segments or not lfs.is_used(self._repo):
            return False
        with contextlib.closing(self._store.open_map(docket)) as oidmap:
            return lfs.has_any(self._repo, oidmap)

    def _want(self, docket: Docket) -> ExportPlan:
        return ExportPlan.of(self._repo, self._config.export, docket, self._nodes)

    def _settle(self) -> ExportPlan:
        """Take away what does not belong there, before anything is added.

        Return what is to be there.
        """
        nodes, maps = self._nodes, self._store.maps
        wanted, judgement = self._judge()
        docket = self._files.next
        if judgement is Drafts.DROP:
            vanished = layers.vanished(self._repo, wanted.allowed, maps, docket.drafts)
            self.gone += len(vanished)
            if self._part_with(wanted, vanished):
                wanted, judgement = self._judge()
        if judgement is Drafts.SORT and self._publish(wanted):
            wanted, judgement = self._judge()
        docket = self._files.next
        if judgement in (Drafts.SORT, Drafts.DROP):
            self._select_again(wanted, docket.drafts)
        if judgement is Drafts.DROP:
            self.again = True
            self._files.drop_drafts(docket)
        elif judgement is Drafts.SORT:
            self._files.plan(transitions.without_drafts(docket))
        elif judgement is Drafts.PROMOTE:
            self._files.plan(transitions.promoted(docket))
        if wanted.has_base_shrunk(self._repo, docket, self._store.maps):
            self._drop_vanished(wanted)
        return wanted if self._nodes is nodes else self._want(self._files.next)

    def _judge(self) -> tuple[ExportPlan, Drafts]:
        """Return what is wanted now, and what is to be done with the drafts."""
        docket = self._files.next
        wanted = self._want(docket)
        return wanted, wanted.judge(self._repo, docket, self._store.maps)

    def _part_with(self, wanted: ExportPlan, vanished: Sequence[bytes]) -> bool:
        """Remove drafts that vanished; ``False`` if all others have to go with them."""
        new = moving.without_vanished(
            self._store, self._files.next, self._files.take, vanished
        )
        if new is None:
            return False
        docket = transitions.without_vanished(self._files.next, new.drafts)
        self._files.part_with(docket, new.commits)
        if self._nodes is not None:
            stay = (
                node for node in new.changesets if wanted.allowed.has(self._repo, node)
            )
            self._nodes = [*self._nodes, *stay]
        return True

    def _publish(self, wanted: ExportPlan) -> bool:
        """Move drafts that are public now; ``False`` if all have to be made again."""
        docket = self._files.next
        maps = self._store.maps
        public = layers.published(self._repo, wanted.public, maps, docket.drafts)
        new = moving.without_published(self._store, docket, self._files.take, public)
        if new is None:
            return False
        self._files.settle(transitions.with_published(docket, new.base, new.drafts))
        return True

    def _select_again(self, wanted: ExportPlan, layer: Layer) -> None:
        """Let this export make again what stays of ``layer``."""
        if self._nodes is not None:
            nodes = layers.changesets(self._store.maps, layer)
            stay = (node for node in nodes if wanted.allowed.has(self._repo, node))
            self._nodes = [*self._nodes, *stay]

    def _drop_vanished(self, wanted: ExportPlan) -> bool:
        """If the base has what it must not have, remove all; tell whether it had."""
        base = self._files.next.base
        if not layers.vanished(self._repo, wanted.allowed, self._store.maps, base):
            return False
        self._repo.ui.warn(
            _(b"warning: public changesets were removed: exporting everything again\n")
        )
        for layer in (base, self._files.next.drafts):
            self._select_again(wanted, layer)
        self._files.drop_all(self._files.next.censored)
        return True

    def _convert(self, wanted: ExportPlan) -> None:
        """Convert what is selected and not there, the base first."""
        docket = transitions.with_held(self._files.next, wanted.held)
        known_below = wanted.first_draft()
        # then its only layer has all: it can be named on the way
        names_heads = not docket.segments and known_below >= wanted.selected.len
        base = self._extend(
            docket.base, Layer(), wanted.for_base, 0, names_heads=names_heads
        )
        if base is not docket.base:
            if twins := departure.twins(self._store, docket, base, wanted.for_base):
                raise _DisplacedError(twins)
            docket = transitions.with_base(docket, base)
            if names_heads:
                commit = self.done[-1].commit
                docket = transitions.with_base_commit(docket, commit)
            docket = self._files.settle(docket)
        drafts = docket.drafts
        if known_below < wanted.selected.len:
            drafts = self._extend(drafts, base, wanted.selected, known_below)
        self._files.settle(transitions.with_drafts(docket, drafts))

    def _extend(
        self,
        layer: Layer,
        base: Layer,
        selected: Selection,
        known_below: int,
        *,
        names_heads: bool = False,
    ) -> Layer:
        """Convert what is selected and in neither ``layer`` nor ``base``."""
        known_below = max(known_below, selected.known_below(self._repo, layer.seen))
        if not selected.has_above(known_below):
            return layer
        done = self._conversion.run(
            self._repo.ui, selected, known_below, layer, base, names_heads=names_heads
        )
        if done.displaced:
            raise _DisplacedError(done.displaced)
        if not done.segments:
            return layer
        self.done.append(done)
        is_first = not layer.segments and not base.segments
        return Layer(
            segments=done.segments,
            packs=(*layer.packs, *done.own_packs),
            complete=done.pack if is_first and done.aside_pack else layer.complete,
            metadata_segments=done.metadata_segments,
            uses=layer.uses,
            counted=layer.counted,
        )

    def _make_room(
        self, wanted: ExportPlan, displaced: Sequence[tuple[bytes, bytes]]
    ) -> None:
        """See to it that earlier changesets get the commits that later ones have.

        A later one is converted again; if it is public and the earlier one a draft,
        then with the drafts, since its id depends on one.
        """
        docket = self._files.next
        held = dict(docket.held)
        anew = False
        for later, earlier in displaced:
            if wanted.public.has(self._repo, later):
                anew = True
                if not wanted.public.has(self._repo, earlier):
                    held[later] = earlier
            elif not wanted.allowed.has(self._repo, later):
                anew = True
        for layer in (docket.base, docket.drafts) if anew else (docket.drafts,):
            self._select_again(wanted, layer)
        self._files.plan(transitions.with_held(docket, held.items()))
        if anew:
            self._files.plan_anew()
        else:
            self._files.plan(transitions.without_drafts(self._files.next))

    def _is_exact(self, wanted: ExportPlan, known_below: int) -> bool:
        """Tell whether the store has what is wanted, and no more.

        All below ``known_below`` was there, and is. Else prepare another round. Where
        changesets are is only a hint of what they are: after a strip, others may have
        come in their place.
        """
        if not wanted.is_all:
            return True
        docket = self._files.next
        with contextlib.closing(self._store.open_map(docket)) as oidmap:
            count = oidmap.count(Table.CHANGESETS)
            # the map is closed under ancestors
            new = (
                wanted.allowed.nodes_above(self._repo, known_below)
                if known_below
                else selection.heads(self._repo, self._config.export)
            )
            whole = None not in oidmap.oids(new)
        with contextlib.closing(self._store.maps.open(docket.base.segments)) as base:
            public = base.count(Table.CHANGESETS)
        if not whole:
            self._files.plan(transitions.with_seen(docket, (), ()))
        elif public != wanted.public.changesets():
            if not self._drop_vanished(wanted):
                self._files.plan_anew()
        elif count != wanted.allowed.changesets():
            self._files.drop_drafts(docket)
        else:
            return True
        return False

    def _wanted_refs(
        self, docket: Docket, allowed: Selection
    ) -> tuple[dict[bytes, bytes], bytes]:
        """Return refs, name to oid, and HEAD; what is not exported is left out."""
        view = selection.view_of(self._repo, self._config.export)
        kinds, dialect = self._config.refs, self._config.dialect
        follows = refsmod.can_follow(kinds)
        tips = None
        if follows:
            tips = branchtips.followed(self._maps, dialect, view, allowed)
        names = refsmod.NamedNodes.of(view, kinds, tips)
        self._tips = BranchTips.of(view, allowed, names.tips) if follows else None
        nodes, head = names.refs()
        self.too_long = names.too_long(nodes)
        with contextlib.closing(self._store.open_map(docket)) as oidmap:
            oids = dict(zip(nodes, oidmap.oids(list(nodes.values())), strict=True))
        refs = {name: oid for name, oid in oids.items() if oid is not None}
        self.named = frozenset(nodes[name] for name in refs)
        return with_metadata(refs, docket), head

    def _note_tips(self) -> None:
        """Let the next export follow the tips of branches, if it can."""
        dialect = self._config.dialect
        if self._tips:
            self._tips.write(self._maps, dialect, self._store.placement)
        else:
            branchtips.forget(self._maps, dialect)
