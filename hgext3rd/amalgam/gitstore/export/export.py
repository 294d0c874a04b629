"""An export: ``export`` brings a git store up to date.

``ExportRun.update`` has its steps in their order, and that order is the crash safety.
The core writes packs, then map segments. Then the docket makes them count. Then refs
are written. Replaced packs go last. A killed run leaves files that the next run
removes, never a ref to a missing object.

Each step takes a docket and returns the next one. ``StoreWriter.docket`` is the one on
disk. A conversion adds to the one in ``PlannedDocket``, which may not be written yet.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from ...config import GitConfig
from ...configitems import DIALECTS
from ...core import errors
from ...damage import is_repository_error
from ...files import Unusable
from ...hggit import adoption
from ...records import Record
from ...terminal import one_line
from .. import censorship, plan, requirements, selection
from ..docket import Docket, Layer
from ..git import branchtips, lastnames
from ..imported import ImportedFiles
from ..oidmap import ID_LEN, Table
from ..packgroups import APART_FROM
from ..plan import Drafts, ExportPlan
from ..store import GitStore
from . import docketedits, journal, metadatacommit, request as requests, settled
from .conversion import Converted, ExportConversion, OtherStore
from .lastexport import LastExport
from .metadatacommit import Covers
from .naming import Names
from .writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mercurial.interfaces.types import RepoT

    from ..selection import FilesState, Selection

    _Nodes = tuple[bytes, ...]


# Each round but the first converts only changes made during the one before, which takes
# milliseconds. This many changes in a row are no coincidence.
_ROUNDS = 20
# The recent drafts, converted again when one of them changes: after that, and before.
_LEAST_RECENT = 256
_MOST_RECENT = 512
# roots of public changesets that stay with the drafts; each export reads them
_MOST_PUBLISHED = 256
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


class _DisplacedError(Exception):
    """Later changesets have the commits of earlier ones."""

    def __init__(self, displaced: Sequence[tuple[bytes, bytes]]) -> None:
        super().__init__()
        self.displaced = displaced


class ExportRequest(Record):
    """Arguments of an export."""

    nodes: _Nodes | None = None
    """Changesets to export with their ancestors; ``None`` for all."""
    rebuild: bool = False
    """Whether to export from nothing."""
    once: bool = False
    """Whether to leave changes made meanwhile to the next export."""
    covers: Covers | None = None
    """The changesets of a metadata commit to make."""


class Report(Record):
    """Result of an export."""

    path: bytes
    """The git repository."""
    start: int = 0
    """The first revision that was not there at the last export."""
    named: frozenset[bytes] | None = None
    """Changesets that refs lead to which have changed; ``None`` if all refs count."""
    too_long: tuple[bytes, ...] = ()
    """Names that have no ref, since they are too long; in UTF-8."""
    state: FilesState = ()
    """State of the repository's files when they were read for the last time."""
    changesets: int = 0
    """Changesets converted."""
    objects: int = 0
    """Objects written."""
    bytes: int = 0
    """Size of the packs written."""
    pack: str = ""
    """Name of the last of them, without suffix; empty if nothing was converted."""
    refs: int = 0
    """Refs that are new, gone or moved."""
    deleted: int = 0
    """Those of them that are gone."""
    gone: int = 0
    """Drafts that had been exported and had to go."""
    again: bool = False
    """Whether all other drafts were converted again for that."""
    seconds: float = 0
    """Wall time of all."""


class PlannedDocket(Record):
    """The docket that a conversion adds to, and the changesets to convert."""

    docket: Docket
    replaced: Drafts = Drafts.KEEP
    """``SORT`` or ``DROP`` if drafts on disk are being converted again."""
    nodes: _Nodes | None = None
    """As in the request, with those to be converted again."""


class ExportRun:
    """One export of a store. All but ``is_up_to_date`` needs the lock of exports."""

    def __init__(self, store: GitStore, request: ExportRequest) -> None:
        self.report = Report(store.repository.path)
        """The result until now, but for the sums of ``done``."""
        self.done: list[Converted] = []
        self._request = request
        self._store = store
        self._repo = store.repo
        self._writer = StoreWriter(store)

    def update(self) -> None:
        """Export."""
        # Read the docket. Remove files that must not be read or that it does not name.
        planned = self._begin()
        try:
            # Plan, convert and name, until the repository rests.
            self._follow(planned)
        except BaseException:
            # the next run would do it, too, but they can be large
            with contextlib.suppress(OSError):
                self._writer.remove_debris()
            raise
        # Make the metadata commit. A first export of everything has made it.
        if covers := self._request.covers or self._covers_of_first():
            metadatacommit.make(self._store, self._writer, covers)
        # Remove replaced packs, and summaries that git has written of them.
        self._writer.finish()

    def _follow(self, planned: PlannedDocket) -> None:
        """Repeat the steps of an export until the repository does not change."""
        repo, repository = self._repo, self._store.repository
        cause: Exception | None = None
        for number in range(_ROUNDS):
            if number:
                self._writer.remove_debris()
            # Read the repository.
            self._keep_bookmarks()
            state = selection.state_of(repo)
            self._note(state=state)
            try:
                selection.read_again(repo)
                # Plan. Censored texts and lost public changesets go at once.
                planned = self._without_censored(planned)
                planned = self._as_imported(planned)
                wanted = self._want(planned)
                nodes = planned.nodes
                planned = self._judged(planned, wanted)
                planned = self._without_lost(planned, wanted)
                published = planned.docket.published
                if planned.nodes is not nodes or published != wanted.published:
                    wanted = self._want(planned)
                seen = planned.docket.drafts.seen
                known_below = wanted.allowed.known_below(repo, seen)
                if planned.replaced is not Drafts.DROP:
                    repository.set_up()
                # Convert: write packs, then map segments, then the docket.
                planned = self._with_base(planned, wanted)
                planned = self._with_drafts(planned, wanted)
                corrected = self._corrected(planned, wanted, known_below)
                if corrected is not planned:
                    planned, cause = corrected, None
                    continue
                # Write refs, and note them in the docket.
                if self._name(planned.docket, wanted, state):
                    return
                planned = planned._replace(docket=self._writer.docket)
                cause = None
            except _DisplacedError as found:
                planned = self._with_room(planned, wanted, found.displaced)
                cause = None
            except errors.Moved as exc:
                cause = exc
            except Exception as exc:
                moved = selection.state_of(repo) != state
                if not moved or not is_repository_error(exc):
                    if planned.replaced is not Drafts.DROP:
                        raise
                    # vanished drafts must go even if others cannot stay
                    docket = self._writer.drop_drafts()
                    planned = planned._replace(docket=docket, replaced=Drafts.KEEP)
                cause = exc
        raise error.StateError(
            _(b"repository kept changing while it was exported"),
            hint=_(b"run 'hg git::export' again; what was converted is kept"),
        ) from cause

    def is_settled(self) -> bool:
        """Return whether files are as an export left them that had nothing to do."""
        state = selection.state_of(self._repo)
        found = settled.Settled.now(self._store)
        if found:
            self._note(state=state, too_long=found.too_long)
        return found is not None

    def is_up_to_date(self) -> bool:
        """Return whether an export would write nothing; write nothing itself."""
        nodes, covers = self._request.nodes, self._request.covers
        self._note(state=selection.state_of(self._repo))
        selection.read_again(self._repo)
        docket = self._store.docket()
        wanted = self._want(PlannedDocket(docket, nodes=nodes))
        if not self._writer.is_settled(docket):
            return False
        if nodes is None:
            known = wanted.allowed.known_below(self._repo, docket.drafts.seen)
            whole = (
                wanted.is_as_seen(self._repo, docket) and known == wanted.allowed.len
            )
        else:
            wanted_nodes = [
                node for node in nodes if wanted.allowed.has(self._repo, node)
            ]
            with contextlib.closing(self._store.open_map(docket)) as oidmap:
                whole = all(oidmap.has(wanted_nodes))
        whole = whole and (
            covers is None or metadatacommit.is_current(self._store, docket, covers)
        )
        if not whole:
            return False
        names = Names.of(self._store, docket, wanted.allowed)
        self._note(too_long=names.too_long)
        return names.are_written(self._store.repository)

    def _keep_bookmarks(self) -> None:
        """Let the next export see which bookmarks have changed, if it can."""
        store = self._store
        if b"bookmarks" not in store.config.refs:
            return
        with contextlib.suppress(OSError, Unusable):
            lastnames.keep_bookmarks(
                self._repo, store.maps.directory, store.config.dialect, store.placement
            )

    def _note(self, **fields: Any) -> None:
        """Set fields of the report."""
        self.report = self.report._replace(**fields)

    def _want(self, planned: PlannedDocket) -> ExportPlan:
        export = self._store.config.export
        return ExportPlan.of(self._repo, export, planned.docket, planned.nodes)

    def _begin(self) -> PlannedDocket:
        """Return the docket to start from; remove files that it does not name."""
        writer, repository = self._writer, self._store.repository
        rebuild, nodes = self._request.rebuild, self._request.nodes
        writer.read()
        is_there = repository.exists()
        if is_there:
            if not rebuild:
                writer.refuse_foreign_store()
            repository.remove_intruders()
        else:
            repository.set_up()
        docket = writer.begin(censorship.mark_of(self._repo))
        whole = writer.whole(docket)
        if is_there and not rebuild:
            self._warn_of_loss(whole)
        if rebuild or whole is None:
            self._warn_of_lost_imports(docket)
            config = self._store.config
            branchtips.forget(self._store.maps.directory, config.dialect)
            return PlannedDocket(writer.emptied(docket), nodes=nodes)
        seen = writer.docket.drafts.seen
        self._note(start=selection.appended(self._repo, seen))
        return PlannedDocket(whole, nodes=nodes)

    def _warn_of_loss(self, whole: Docket | None) -> None:
        """Warn of a loss, and name the changesets to be converted again."""
        if whole is None or self._writer.is_docket_lost:
            lost = _(b"everything")
        elif self._writer.docket.drafts.segments and not whole.drafts.segments:
            lost = _(b"drafts")
        else:
            return
        text = _(b"warning: git store is incomplete: exporting %s") % lost
        self._repo.ui.warn(one_line(text))

    def _warn_of_lost_imports(self, docket: Docket) -> None:
        """Warn that commits get other ids than they had."""
        if not docket.imported or ImportedFiles.of(self._store).segments:
            return
        warn = self._repo.ui.warn
        warn(_(b"warning: commits that were pulled from git may get other ids: "))
        warn(_(b"their list is lost\n"))
        warn(_(b"(to restore it, remove all of '.hg/amalgam' but 'adopted', pull "))
        warn(_(b"from git, and export)\n"))

    def _covers_of_first(self) -> Covers | None:
        """Return the changesets of the metadata commit of a first export of all."""
        if not self.done:
            return None
        done = sum(done.changesets for done in self.done)
        with contextlib.closing(self._store.open_map(self._writer.docket)) as oidmap:
            is_all = done >= oidmap.count(Table.CHANGESETS)
        return Covers.ALL if is_all else None

    def _without_censored(self, planned: PlannedDocket) -> PlannedDocket:
        """Remove everything, if a text was censored since this export began to read."""
        mark = censorship.mark_of(self._repo)
        if planned.docket.censored == mark:
            return planned
        nodes = planned.nodes
        if nodes is not None:
            nodes = self._kept(planned, self._want(planned), *_layers(planned.docket))
        return planned._replace(docket=self._writer.drop_all(mark), nodes=nodes)

    def _as_imported(self, planned: PlannedDocket) -> PlannedDocket:
        """Begin anew, if changesets have other commits than those of new imports."""
        docket, nodes = planned.docket, planned.nodes
        imported = ImportedFiles.of(self._store)
        if imported.segments in ((), docket.imported):
            return planned
        if docket.segments:
            with contextlib.closing(self._store.open_map(docket)) as oidmap:
                is_right = imported.are_as_exported(oidmap, docket.imported)
            if not is_right:
                self._repo.ui.status(
                    _(b"changesets were pulled from git: exporting them again\n")
                )
                nodes = self._kept(planned, self._want(planned), *_layers(docket))
                docket = self._writer.emptied(docket)
        docket = docket._replace(imported=imported.segments)
        return planned._replace(docket=docket, nodes=nodes)

    def _judged(self, planned: PlannedDocket, wanted: ExportPlan) -> PlannedDocket:
        """Choose the drafts that are converted again."""
        docket = planned.docket
        judgement = wanted.judge(self._repo, docket, self._store.maps)
        if judgement is Drafts.DROP:
            return self._again(planned, wanted, judgement)
        if judgement is Drafts.PUBLISH:
            docket = self._published(docket, wanted)
            planned = planned._replace(docket=docket)
        is_much = len(docket.published) > _MOST_PUBLISHED
        if is_much or self._has_outgrown(wanted, docket):
            return self._again(planned, wanted, Drafts.SORT)
        return planned

    def _published(self, docket: Docket, wanted: ExportPlan) -> Docket:
        """Move nothing: layers of public changesets alone become part of the base, and
        others stay with the drafts."""
        repo, maps = self._repo, self._store.maps
        _base, *layers = docket.layers
        for layer in layers:
            nodes = plan.changesets(maps, layer)
            if not all(wanted.all_public.has(repo, node) for node in nodes):
                break
            docket = docketedits.promoted(docket, layer)
        nodes = plan.changesets(maps, docket.drafts)
        roots = wanted.roots_of_public(repo, nodes)
        return docketedits.with_published(docket, roots)

    def _has_outgrown(self, wanted: ExportPlan, docket: Docket) -> bool:
        """Return whether the recent drafts are too many for another one."""
        selected, seen = wanted.selected, docket.drafts.seen
        if not selected.has_above(selected.known_below(self._repo, seen)):
            return False
        _base, _older, recent = docket.layers
        return len(plan.changesets(self._store.maps, recent)) > _MOST_RECENT

    def _again(
        self, planned: PlannedDocket, wanted: ExportPlan, judgement: Drafts
    ) -> PlannedDocket:
        """Plan a conversion of drafts beside their present packs.

        Of the recent drafts, unless an older one vanished, or it is time to sort those
        that became public into the base: if they are most of the older ones, each is
        converted twice at most. These packs remain until the new ones replace them:
        other drafts can be fetched all the time.
        """
        docket, maps = planned.docket, self._store.maps
        _base, older, recent = docket.layers
        nodes = plan.changesets(maps, older)
        repo = self._repo
        roots = wanted.roots_of_public(repo, nodes)
        is_recent = len(roots) <= _MOST_PUBLISHED
        is_recent &= all(wanted.allowed.has(repo, node) for node in nodes)
        if judgement is Drafts.SORT:
            public = sum(wanted.all_public.has(repo, node) for node in nodes)
            is_recent &= 2 * public <= len(nodes)
        if judgement is Drafts.DROP:
            vanished = plan.vanished(self._repo, wanted.allowed, maps, docket.drafts)
            gone = self.report.gone + len(vanished)
            self._note(gone=gone, again=not is_recent)
        if is_recent:
            docket = docketedits.without_recent(docket)
            docket = docketedits.with_published(docket, roots)
        else:
            docket = docketedits.without_drafts(docket)
        return PlannedDocket(
            docket,
            planned.replaced if planned.replaced is Drafts.DROP else judgement,
            self._kept(planned, wanted, recent if is_recent else planned.docket.drafts),
        )

    def _kept(
        self, planned: PlannedDocket, wanted: ExportPlan, *layers: Layer
    ) -> _Nodes | None:
        """Return the changesets to convert, with those of ``layers`` that stay."""
        if planned.nodes is None:
            return None
        again = (
            node
            for layer in layers
            for node in plan.changesets(self._store.maps, layer)
            if wanted.allowed.has(self._repo, node)
        )
        return (*planned.nodes, *again)

    def _without_lost(
        self, planned: PlannedDocket, wanted: ExportPlan
    ) -> PlannedDocket:
        """Remove everything, if a changeset of the base has to go."""
        maps = self._store.maps
        if not wanted.has_base_shrunk(self._repo, planned.docket, maps):
            return planned
        return self._without_vanished(planned, wanted)

    def _without_vanished(
        self, planned: PlannedDocket, wanted: ExportPlan
    ) -> PlannedDocket:
        """Look at each changeset of the base as ``_without_lost`` does."""
        docket = planned.docket
        maps = self._store.maps
        if not plan.vanished(self._repo, wanted.allowed, maps, docket.base):
            return planned
        self._repo.ui.warn(
            _(b"warning: public changesets were removed: exporting everything again\n")
        )
        nodes = self._kept(planned, wanted, *_layers(docket))
        docket = self._writer.drop_all(docket.censored)
        return planned._replace(docket=docket, nodes=nodes)

    def _with_base(self, planned: PlannedDocket, wanted: ExportPlan) -> PlannedDocket:
        """Convert the base; count it now, unless drafts are converted again."""
        if planned.replaced is not Drafts.KEEP:
            return planned  # counted with the drafts, which replace those on disk
        docket = self._extended_base(planned.docket, wanted)
        if docket.base is not planned.docket.base:
            docket = self._writer.settle(docket)
        return planned._replace(docket=docket)

    def _extended_base(self, docket: Docket, wanted: ExportPlan) -> Docket:
        """Convert selected changesets that are not in the base, and not drafts."""
        docket = docketedits.with_held(docket, wanted.held)
        docket = docketedits.with_published(docket, wanted.published)
        # no drafts: the metadata commit is made in the same run
        names_heads = (
            not docket.segments and wanted.first_draft() >= wanted.selected.len
        )
        base = self._extend(
            docket, docket.base, Layer(), wanted.for_base, names_heads=names_heads
        )
        if base is docket.base:
            return docket
        if found := self._collisions(docket, base, wanted.for_base):
            raise _DisplacedError(found)
        docket = docketedits.with_base(docket, base)
        if names_heads:
            return docketedits.with_base_commit(docket, self.done[-1].commit)
        return docket

    def _with_drafts(self, planned: PlannedDocket, wanted: ExportPlan) -> PlannedDocket:
        """Convert the drafts, and count everything that is converted."""
        docket, first = planned.docket, wanted.first_draft()
        if planned.replaced is not Drafts.KEEP:
            docket = self._extended_base(docket, wanted)
        if first < wanted.selected.len:
            docket = self._extended_drafts(docket, wanted, planned.replaced)
        if planned.replaced is Drafts.DROP:
            docket = self._writer.replace_drafts(docket)
            # last, since it may have to wait for a lock of git
            self._store.repository.set_up()
        else:
            docket = self._writer.settle(docket)
        return planned._replace(docket=docket, replaced=Drafts.KEEP)

    def _extended_drafts(
        self, docket: Docket, wanted: ExportPlan, replaced: Drafts
    ) -> Docket:
        """Convert drafts; at the end of a conversion again, the newest are recent."""
        base, older, recent = docket.layers
        selected = wanted.selected
        known_below = max(
            wanted.first_draft(), selected.known_below(self._repo, docket.drafts.seen)
        )
        if replaced is not Drafts.KEEP:
            others = selected.without(wanted.newest_drafts(_LEAST_RECENT))
            older = self._extend(docket, older, base, others, known_below)
        elif not docket.drafts.segments and (
            len(wanted.newest_drafts(_MOST_RECENT + 1)) > _MOST_RECENT
        ):
            # in one run, which makes the smallest packs
            older = self._extend(docket, older, base, selected, known_below)
            return docketedits.with_drafts(docket, older, recent)
        below = base.with_above(older)
        recent = self._extend(docket, recent, below, selected, known_below)
        return docketedits.with_drafts(docket, older, recent)

    def _other(self) -> OtherStore | None:
        """Return the store of another dialect, if its blobs can be copied.

        The lock of exports is one for all dialects, so it does not change.
        """
        ui, own = self._repo.ui, self._store.config.dialect
        for dialect in DIALECTS:
            store = GitStore(self._repo, GitConfig.from_ui(ui, dialect))
            docket = store.docket()
            if dialect != own and docket.segments and store.is_complete(docket):
                packs = store.repository.packs_directory
                return OtherStore(packs, docket.packs, docket.segments)
        return None

    def _extend(
        self,
        docket: Docket,
        layer: Layer,
        base: Layer,
        selected: Selection,
        known_below: int = 0,
        *,
        names_heads: bool = False,
    ) -> Layer:
        """Convert selected changesets that are in neither ``layer`` nor ``base``."""
        known_below = max(known_below, selected.known_below(self._repo, layer.seen))
        if not selected.has_above(known_below):
            return layer
        is_first = not layer.segments and not base.segments
        done = ExportConversion.into(self._store).run(
            self._repo.ui,
            selected,
            known_below,
            layer,
            base,
            names_heads=names_heads,
            replaced=docket.dropped,
            other=self._other() if is_first and not self._request.rebuild else None,
        )
        if done.displaced:
            raise _DisplacedError(done.displaced)
        if not done.segments:
            return layer
        self.done.append(done)
        # a dialect without metadata has one pack, which git clients need
        is_apart = bool(done.aside_pack) or (
            not self._store.config.keeps_metadata and done.changesets >= APART_FROM
        )
        return Layer(
            segments=done.segments,
            packs=(*layer.packs, *done.own_packs),
            complete=done.pack if is_first and is_apart else layer.complete,
            metadata_segments=done.metadata_segments,
            exact=layer.exact or bool(done.exact),
        )

    def _collisions(
        self, docket: Docket, base: Layer, selected: Selection
    ) -> list[tuple[bytes, bytes]]:
        """Return new changesets of ``base`` with the commit of another draft.

        Each with the draft, the later one of both first. ``selected``: the base.
        """
        if not docket.drafts.segments:
            return []
        rev_of = self._repo.unfiltered().changelog.index.get_rev
        below = selected.known_below(self._repo, docket.base.seen)
        nodes = selected.nodes_above(self._repo, below)
        maps = self._store.maps
        with (
            contextlib.closing(maps.open(base.segments)) as oidmap,
            contextlib.closing(maps.open(docket.drafts.segments)) as drafts,
        ):
            oids = [oid or bytes(ID_LEN) for oid in oidmap.oids(nodes)]
            pairs = zip(nodes, drafts.changesets(oids), strict=True)
        return [
            (max(node, draft, key=rev_of), min(node, draft, key=rev_of))
            for node, draft in pairs
            if draft is not None
        ]

    def _with_room(
        self,
        planned: PlannedDocket,
        wanted: ExportPlan,
        displaced: Sequence[tuple[bytes, bytes]],
    ) -> PlannedDocket:
        """Let earlier changesets get the commits that later ones have.

        A later one is converted again; if it is public and the earlier one a draft,
        then with the drafts, since its id depends on one.
        """
        docket = planned.docket
        held = dict(docket.held)
        anew = False
        for later, earlier in displaced:
            if wanted.public.has(self._repo, later):
                anew = True
                if not wanted.public.has(self._repo, earlier):
                    held[later] = earlier
            elif not wanted.allowed.has(self._repo, later):
                anew = True
        layers = _layers(docket) if anew else (docket.drafts,)
        nodes = self._kept(planned, wanted, *layers)
        docket = docketedits.with_held(docket, held.items())
        edit = self._writer.emptied if anew else docketedits.without_drafts
        return planned._replace(docket=edit(docket), nodes=nodes)

    def _corrected(
        self, planned: PlannedDocket, wanted: ExportPlan, known_below: int
    ) -> PlannedDocket:
        """Return ``planned`` if it has just the wanted changesets, else another one.

        All below ``known_below`` was there, and is. The places of changesets are only a
        hint of their nodes: after a strip, others may have come in their place.
        """
        if not wanted.is_all:
            return planned
        docket = planned.docket
        with contextlib.closing(self._store.open_map(docket)) as oidmap:
            count = oidmap.count(Table.CHANGESETS)
            # the map is closed under ancestors
            new = (
                wanted.allowed.nodes_above(self._repo, known_below)
                if known_below
                else selection.heads(self._repo, self._store.config.export)
            )
            whole = all(oidmap.has(new))
        with contextlib.closing(self._store.maps.open(docket.base.segments)) as base:
            public = base.count(Table.CHANGESETS)
        if not whole:
            return planned._replace(docket=docketedits.with_seen(docket, (), ()))
        if public != wanted.public.changesets():
            corrected = self._without_vanished(planned, wanted)
            if corrected is planned:
                return planned._replace(docket=self._writer.emptied(docket))
            return corrected
        if count != wanted.allowed.changesets():
            return planned._replace(docket=self._writer.drop_drafts())
        return planned

    def _name(self, docket: Docket, wanted: ExportPlan, state: FilesState) -> bool:
        """Name everything; return whether nothing is left to this export.

        Refs are written only from a view that was still current when all changesets of
        it were converted; or, if one naming is enough, if all changesets that refs lead
        to may still leave. If not, only the docket is written.
        """
        repo, writer, once = self._repo, self._writer, self._request.once
        names = Names.of(self._store, docket, wanted.allowed)
        self._note(too_long=names.too_long)
        if names.last:
            named = self.report.named or frozenset()
            self._note(named=named | names.nodes)
        places = wanted.places(repo) if wanted.is_all else None
        if selection.state_of(repo) != state and not (
            once and self._is_still_allowed(docket, names)
        ):
            writer.write(docket)
            return False
        journal.refuse_abandoned(repo)
        if names.tags:
            docket = writer.take_tags(docket, names.tags)
        if names.last:
            changed, deleted = writer.change_names(names.refs, names.head)
        else:
            refs = names.exported
            changed, deleted = writer.name(refs, names.head, names.peeled)
        self._note(
            refs=self.report.refs + changed, deleted=self.report.deleted + deleted
        )
        repository = self._store.repository
        repository.keep(docket.packs)
        # servers answer from a store only if no name is missing in it
        digest = repository.names_digest() if names.is_whole else ""
        names.note(self._store, docket, state)
        if places is not None:
            docket = docketedits.with_seen(docket, *places)
        writer.write(docketedits.named(docket, digest))
        return once or selection.state_of(repo) == state

    def _is_still_allowed(self, docket: Docket, names: Names) -> bool:
        """Return whether everything named may still leave, though files changed."""
        state = selection.state_of(self._repo)
        selection.read_again(self._repo)
        allowed = selection.select(self._repo, self._store.config.export)
        is_as_seen = not names.last or names.source.holds_in(allowed, names.last.seen)
        return (
            docket.censored == censorship.mark_of(self._repo)
            and is_as_seen
            and all(allowed.has(self._repo, node) for node in names.nodes)
            and selection.state_of(self._repo) == state
        )


def _layers(docket: Docket) -> tuple[Layer, Layer]:
    return docket.base, docket.drafts


def export(
    store: GitStore,
    revs: Iterable[int] | None = None,
    *,
    rebuild: bool = False,
    once: bool = False,
    covers: Covers | None = None,
) -> Report:
    """Bring the store up to date with the served changesets.

    ``revs``: only these and their ancestors. ``rebuild``: from nothing,
    removing the present content. ``once``: leave changes made meanwhile to the next
    export, so that refs follow a repository that never rests. ``covers``: make the
    metadata commit of these changesets as well, if it is behind. Takes time in
    proportion to new changesets, and for that commit in proportion to all.
    ``StateError`` if the store is behind and cannot be written.
    """
    started = time.monotonic()
    store.require_trust()
    requirements.check(store.repo)
    adoption.take_over(store, waits=True)
    journal.refuse_unfinished(store.asked)
    nodes = None
    if revs is not None:
        nodes = tuple(map(store.repo.unfiltered().changelog.node, revs))
    run = ExportRun(store, ExportRequest(nodes, rebuild, once, covers))
    is_plain = revs is None and not rebuild and covers is None
    try:
        if not (is_plain and run.is_settled()):
            store.maps.directory.make(store.placement)
            with store.locked():
                run.update()
                if revs is None:
                    settled.note(store, run.report.state, run.report.too_long)
    except OSError as exc:
        if exc.errno not in _UNWRITABLE or _is_of_hg(store.repo, exc.filename):
            raise
        if rebuild or not run.is_up_to_date():
            raise _unwritable(store, exc) from None
    report = run.report._replace(
        changesets=sum(done.changesets for done in run.done),
        objects=sum(done.objects for done in run.done),
        bytes=sum(done.bytes for done in run.done),
        pack=next((done.pack for done in reversed(run.done) if done.pack), ""),
        seconds=time.monotonic() - started,
    )
    if report.changesets or report.refs or report.gone:
        milliseconds = int(1000 * report.seconds)
        LastExport(int(time.time()), milliseconds, report.changesets).write(store)
    if report.refs:
        requests.start_replication(store.repo)
    store.repo.ui.log(
        b"amalgam",
        b"exported %d changesets: %d objects, %d bytes, %d refs changed, "
        b"%d drafts gone, in %.3f seconds\n",
        *(report.changesets, report.objects, report.bytes, report.refs, report.gone),
        report.seconds,
    )
    return report


def is_up_to_date(store: GitStore) -> bool:
    """Return whether an export would write nothing; read the repository again."""
    return ExportRun(store, ExportRequest()).is_up_to_date()


def _is_of_hg(repo: RepoT, path: bytes | str | None) -> bool:
    """Return whether a file belongs to Mercurial's store, not to amalgam."""
    of_hg = os.path.join(repo.store.path, b"")
    return path is not None and os.fsencode(path).startswith(of_hg)


def _unwritable(store: GitStore, exc: OSError) -> error.StateError:
    reason = os.fsencode(os.strerror(exc.errno or errno.EACCES))
    path = os.fsencode(exc.filename or store.repository.path)
    hint = _(b"export as a user who may write to '%s'") % store.repo.store.path
    if exc.errno == errno.EROFS:
        hint = _(b"export on a host that may write to this file system")
    return error.StateError(
        _(b"git store is not up to date and cannot be written: %s: '%s'")
        % (reason, path),
        hint=hint,
    )
