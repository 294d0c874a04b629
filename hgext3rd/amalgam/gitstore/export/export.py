"""An export: whether it is possible, whether it is needed, and what it did.

``steps`` has the order of work.

The steps of an export: select, convert, record, name.

The order is the crash safety. The core writes packs, then map segments. Then the docket
makes them count. Then refs are written. Packs that were replaced go last. A killed run
leaves files that the next run removes, never a ref to a missing object.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ... import docketfile
from ...core import errors
from ...files import Unusable
from ...records import Record
from ...terminal import one_line
from .. import censorship, plan, requirements, selection
from ..docket import Docket, Layer
from ..git import branchtips, refs as refsmod
from ..git.branchtips import BranchTips
from ..oidmap import ID_LEN, Table
from ..plan import Drafts, ExportPlan
from . import docketedits, metadatacommit, transaction
from .conversion import Converted, ExportConversion
from .exportlock import locked
from .metadatacommit import Covers
from .writer import StoreFiles, with_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mercurial.interfaces.types import RepoT

    from ..selection import FilesState, Selection
    from ..store import GitStore


# Each round but the first has only that to convert which came during the one before:
# milliseconds. So many changes in a row are no coincidence.
_ROUNDS = 20
# The recent drafts, converted again when one of them changes: after that, and before.
_LEAST_RECENT = 256
_MOST_RECENT = 512


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
        self._replaces = Drafts.KEEP
        """The reason to convert all drafts again, if there is one."""
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
        if not self._files.is_settled(docket):
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
                if not moved or not selection.is_repository_error(exc):
                    if self._replaces is not Drafts.DROP:
                        raise
                    # vanished drafts must go even if others cannot stay
                    self._files.drop_drafts()
                    self._replaces = Drafts.KEEP
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
        wanted = self._settle()
        seen = self._files.next.drafts.seen
        known_below = wanted.allowed.known_below(self._repo, seen)
        if self._replaces is not Drafts.DROP:
            self._repository.set_up()
        try:
            self._convert(wanted)
        except _DisplacedError as found:
            self._make_room(wanted, found.displaced)
            return False
        if not self._is_exact(wanted, known_below):
            return False
        docket = self._files.next
        refs, head = self._wanted_refs(docket, wanted.allowed)
        places = wanted.places(self._repo) if wanted.is_all else None
        if selection.state_of(self._repo) != state and not (
            self._once and self._is_still_allowed(docket)
        ):
            self._files.write(docket)
            return False
        transaction.refuse_abandoned(self._repo)
        changed, deleted = self._files.name(refs, head)
        self.refs += changed
        self.deleted += deleted
        self._repository.keep(docket.packs)
        named = self._repository.names_digest()
        self._note_tips()
        if places is not None:
            docket = docketedits.with_seen(docket, *places)
        self._files.write(docketedits.named(docket, named))
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

    def _want(self, docket: Docket) -> ExportPlan:
        return ExportPlan.of(self._repo, self._config.export, docket, self._nodes)

    def _settle(self) -> ExportPlan:
        """Take away what does not belong there, before anything is added.

        Return what is to be there.
        """
        nodes, docket = self._nodes, self._files.next
        wanted = self._want(docket)
        judgement = wanted.judge(self._repo, docket, self._store.maps)
        if judgement in (Drafts.SORT, Drafts.DROP):
            self._convert_again(wanted, judgement)
        elif judgement is Drafts.KEEP and self._has_outgrown(wanted, docket):
            self._convert_again(wanted, Drafts.SORT)
        elif judgement is Drafts.PROMOTE:
            self._files.plan(docketedits.promoted(docket))
        if wanted.has_base_shrunk(self._repo, docket, self._store.maps):
            self._drop_vanished(wanted)
        return wanted if self._nodes is nodes else self._want(self._files.next)

    def _has_outgrown(self, wanted: ExportPlan, docket: Docket) -> bool:
        """Return whether the recent drafts are too many for another one."""
        selected, seen = wanted.selected, docket.drafts.seen
        if not selected.has_above(selected.known_below(self._repo, seen)):
            return False
        _base, _older, recent = docket.layers
        return len(plan.changesets(self._store.maps, recent)) > _MOST_RECENT

    def _convert_again(self, wanted: ExportPlan, judgement: Drafts) -> None:
        """Plan a conversion of drafts beside their present packs.

        Of the recent drafts, unless an older one vanished or became public. These packs
        remain until the new ones replace them: other drafts can be fetched all the
        time.
        """
        docket, maps = self._files.next, self._store.maps
        _base, older, recent = docket.layers
        nodes = plan.changesets(maps, older)
        is_recent = all(wanted.is_draft(self._repo, node) for node in nodes)
        if judgement is Drafts.DROP:
            vanished = plan.vanished(self._repo, wanted.allowed, maps, docket.drafts)
            self.gone += len(vanished)
            self.again = not is_recent
        self._replaces = judgement
        self._select_again(wanted, recent if is_recent else docket.drafts)
        edit = docketedits.without_recent if is_recent else docketedits.without_drafts
        self._files.plan(edit(docket))

    def _select_again(self, wanted: ExportPlan, layer: Layer) -> None:
        """Let this export make again what stays of ``layer``."""
        if self._nodes is not None:
            nodes = plan.changesets(self._store.maps, layer)
            stay = (node for node in nodes if wanted.allowed.has(self._repo, node))
            self._nodes = [*self._nodes, *stay]

    def _drop_vanished(self, wanted: ExportPlan) -> bool:
        """If the base has what it must not have, remove all; tell whether it had."""
        base = self._files.next.base
        if not plan.vanished(self._repo, wanted.allowed, self._store.maps, base):
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
        docket = docketedits.with_held(self._files.next, wanted.held)
        known_below = wanted.first_draft()
        # then its only layer has all: it can be named on the way
        names_heads = not docket.segments and known_below >= wanted.selected.len
        base = self._extend(
            docket.base, Layer(), wanted.for_base, 0, names_heads=names_heads
        )
        if base is not docket.base:
            if found := self._collisions(docket, base, wanted.for_base):
                raise _DisplacedError(found)
            docket = docketedits.with_base(docket, base)
            if names_heads:
                commit = self.done[-1].commit
                docket = docketedits.with_base_commit(docket, commit)
            if self._replaces is Drafts.KEEP:
                docket = self._files.settle(docket)
        if known_below < wanted.selected.len:
            docket = self._with_more_drafts(docket, wanted, known_below)
        replaces, self._replaces = self._replaces, Drafts.KEEP
        if replaces is Drafts.DROP:
            self._files.replace_drafts(docket)
            # last, since it may have to wait for a lock of git
            self._repository.set_up()
        else:
            self._files.settle(docket)

    def _with_more_drafts(
        self, docket: Docket, wanted: ExportPlan, known_below: int
    ) -> Docket:
        """Convert drafts; at the end of a conversion again, the newest are recent."""
        base, older, recent = docket.layers
        selected = wanted.selected
        known_below = max(
            known_below, selected.known_below(self._repo, docket.drafts.seen)
        )
        if self._replaces is not Drafts.KEEP:
            others = selected.without(wanted.newest_drafts(_LEAST_RECENT))
            older = self._extend(older, base, others, known_below)
        elif not docket.drafts.segments and (
            len(wanted.newest_drafts(_MOST_RECENT + 1)) > _MOST_RECENT
        ):
            # in one run, which makes the smallest packs
            older = self._extend(older, base, selected, known_below)
            return docketedits.with_drafts(docket, older, recent)
        below = base.with_above(older)
        recent = self._extend(recent, below, selected, known_below)
        return docketedits.with_drafts(docket, older, recent)

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
            self._repo.ui,
            selected,
            known_below,
            layer,
            base,
            names_heads=names_heads,
            replaced=self._files.next.dropped,
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
        self._files.plan(docketedits.with_held(docket, held.items()))
        if anew:
            self._files.plan_anew()
        else:
            self._files.plan(docketedits.without_drafts(self._files.next))

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
            self._files.plan(docketedits.with_seen(docket, (), ()))
        elif public != wanted.public.changesets():
            if not self._drop_vanished(wanted):
                self._files.plan_anew()
        elif count != wanted.allowed.changesets():
            self._files.drop_drafts()
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


_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
# in .hg/amalgam
_LAST = b"last-export"
_LAST_BYTES = 1 << 10


class Report(Record):
    """What an export did."""

    path: bytes
    """The git repository."""
    start: int
    """The first revision that was not there at the last export."""
    named: frozenset[bytes]
    """Changesets that refs lead to."""
    too_long: tuple[bytes, ...]
    """Names that have no ref, since they are too long; in UTF-8."""
    state: FilesState
    """That of the repository's files when they were looked at for the last time."""
    changesets: int
    """Changesets converted."""
    objects: int
    """Objects written."""
    bytes: int
    """Size of the packs written."""
    pack: str
    """Name of the last of them, without suffix; empty if nothing was converted."""
    refs: int
    """Refs that are new, gone or moved."""
    deleted: int
    """Those of them that are gone."""
    gone: int
    """Drafts that had been exported and had to go."""
    again: bool
    """Whether all other drafts were converted again for that."""
    seconds: float
    """Wall time of all."""


class LastExport(Record):
    """The last export that changed something, for ``admin::amalgam --metrics``."""

    ended: int
    """In seconds since the epoch."""
    milliseconds: int
    """Wall time of all."""
    changesets: int
    """Changesets converted."""

    @classmethod
    def read(cls, store: GitStore) -> LastExport | None:
        """Return what is recorded; ``None`` if nothing is, or nothing readable."""
        try:
            content = store.directory.tryread(_LAST, _LAST_BYTES)
            if not content:
                return None
            return cls(**_LAST_FORM.values_in(content))
        except (OSError, Unusable, ValueError):
            return None

    def write(self, store: GitStore) -> None:
        """Record it, if that is possible."""
        content = _LAST_FORM.content_of(self)
        # not by a temporary file, which a killed export would leave in .hg/amalgam
        with contextlib.suppress(OSError, error.StorageError):
            store.directory.remove(_LAST)
            with os.fdopen(store.directory.create(_LAST, store.placement), "wb") as out:
                out.write(content)


_LAST_FORM = docketfile.Form(
    b"amalgam last export 1",
    {
        "ended": docketfile.numbers(b"ended"),
        "milliseconds": docketfile.numbers(b"milliseconds"),
        "changesets": docketfile.numbers(b"changesets"),
    },
)


def export(
    store: GitStore,
    revs: Iterable[int] | None = None,
    *,
    rebuild: bool = False,
    once: bool = False,
    covers: Covers | None = None,
) -> Report:
    """Bring the store up to date with what the repository serves.

    ``revs``: only these and their ancestors. ``rebuild``: from nothing, and forget
    all that was there. ``once``: leave what comes meanwhile to the next export, so that
    refs follow a repository that never rests. ``covers``: make the metadata commit of
    these changesets as well, if it is behind. Takes time in proportion to what is new,
    and for that commit in proportion to all.
    ``StateError`` if there is something to write and it cannot be written.
    """
    started = time.monotonic()
    store.require_trust()
    requirements.check(store.repo)
    transaction.refuse_unfinished(store.asked)
    nodes = None
    if revs is not None:
        node = store.repo.unfiltered().changelog.node
        nodes = [node(rev) for rev in revs]
    run = ExportRun(store, nodes, once=once, covers=covers)
    try:
        store.maps.directory.make(store.placement)
        with locked(store):
            run.update(rebuild)
    except OSError as exc:
        if exc.errno not in _UNWRITABLE or _is_of_hg(store.repo, exc.filename):
            raise
        if rebuild or not run.is_up_to_date():
            raise _unwritable(store, exc) from None
    report = Report(
        path=store.repository.path,
        changesets=sum(done.changesets for done in run.done),
        objects=sum(done.objects for done in run.done),
        bytes=sum(done.bytes for done in run.done),
        pack=next((done.pack for done in reversed(run.done) if done.pack), ""),
        refs=run.refs,
        deleted=run.deleted,
        gone=run.gone,
        again=run.again,
        seconds=time.monotonic() - started,
        start=run.start,
        named=run.named,
        too_long=tuple(run.too_long),
        state=run.state,
    )
    if report.changesets or report.refs or report.gone:
        milliseconds = int(1000 * report.seconds)
        LastExport(int(time.time()), milliseconds, report.changesets).write(store)
    store.repo.ui.log(
        b"amalgam",
        b"exported %d changesets: %d objects, %d bytes, %d refs changed, "
        b"%d drafts gone, in %.3f seconds\n",
        *(report.changesets, report.objects, report.bytes, report.refs, report.gone),
        report.seconds,
    )
    return report


def is_up_to_date(store: GitStore) -> bool:
    """Tell whether an export would write nothing; reads the repository again."""
    return ExportRun(store, None).is_up_to_date()


def _is_of_hg(repo: RepoT, path: bytes | str | None) -> bool:
    """Tell whether a file belongs to Mercurial's store, not to amalgam."""
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
