"""Verification: a git store, compared with the history it comes from.

``run`` checks from the bottom up: complete files (``files``), the map against history
and objects (``mapping``), the metadata (``metadata``), the refs (``refs``). With
``--full`` it exports everything again and compares (``recompute``). Consequences of
known damage are left out. Changes nothing, and takes no lock.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ...locking import holder
from .. import censorship, selection
from ..docket import Docket
from ..export import metadatacommit
from ..export.settled import Settled
from ..export.writer import with_metadata
from ..fetchedrefs import FetchedRefs
from ..git import refs as refsmod
from ..git.layout import forbidden_files
from ..oidmap import Table
from ..plan import ExportPlan
from ..remotetags import RemoteTags, ShownTags
from . import files, mapping, metadata, recompute
from .findings import Difference, Findings, Note, Remedy
from .mapping import Served, check_layers, check_objects, check_segments
from .refs import ExpectedRefs, check_tags, unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..oidmap import OidMap
    from ..store import GitStore

__all__ = ["Difference", "Findings", "Note", "Remedy", "run"]


def run(store: GitStore, *, full: bool = False, deep: bool = True) -> Findings:
    """Verify ``store`` against the current repository.

    Without ``deep``, only quick checks are made, whatever the size: contents of packs,
    map and objects are not read. ``full``: compute every id again, and let git check
    everything. ``StateError`` without a store, or if an export changes it meanwhile.
    """
    if deep:
        store.require_trust()
    docket = Docket.read(store.maps.directory, store.config.dialect)
    selection.read_again(store.repo)
    findings = Findings(full=full)
    _Verification(store, docket, findings).run(full, deep)
    lock = holder(store.directory)
    is_exporting = lock is not None and not lock.is_left
    moved = Docket.read(store.maps.directory, store.config.dialect) != docket
    if deep and (moved or (findings.differences and is_exporting)):
        raise error.StateError(
            _(b"an export changes the git store while it is verified"),
            hint=_(b"run it again when the export is done"),
        )
    return findings


class _Verification:
    """One verification, with its findings so far."""

    def __init__(self, store: GitStore, docket: Docket, findings: Findings) -> None:
        self._store = store
        self._repo = store.repo
        self._repository = store.repository
        self._docket = docket
        self._findings = findings
        self._selected = selection.select(store.repo, store.config.export)

    def run(self, full: bool, deep: bool) -> None:
        """Look at everything, from the bottom up."""
        findings, repository, docket = self._findings, self._repository, self._docket
        if findings.add(self._check_presence()):
            return
        findings.packs = len(docket.packs)
        if findings.add(mapping.check_adopted(self._store.adopted, docket, deep)):
            self._leave_out(_(b"ids, computed again"))
            full = False
        check_packs = files.check_packs if deep else files.check_presence
        damaged = findings.add(check_packs(self._repo.ui, repository, docket))
        findings.add(files.check_foreign(repository, docket))
        if any(forbidden_files(repository.directory)):
            damaged = True  # no git is run on it
        findings.notes += files.unfinished(repository, docket)
        maps = self._store.maps
        segments = docket.segments + docket.metadata_segments
        if findings.add(check_segments(maps, segments, deep)):
            self._leave_out(_(b"changesets, refs and objects"))
            return
        has_metadata = self._store.config.keeps_metadata and not findings.add(
            metadata.check_presence(docket)
        )
        with (
            contextlib.closing(self._store.open_map(docket)) as oidmap,
            contextlib.closing(self._store.open_metadata_map(docket)) as metadata_map,
        ):
            if has_metadata:
                findings.add(metadata.check_counts(oidmap, metadata_map))
            served = self._check_history(oidmap)
            self._check_names(oidmap, deep)
            if deep:
                findings.notes += files.check_paths(self._repo, self._selected.excluded)
            if damaged:
                self._leave_out(_(b"objects"))
            elif deep:
                self._check_objects(oidmap, metadata_map)
            if full:
                self._recompute(oidmap, metadata_map, served, damaged)

    def _check_presence(self) -> Iterator[Difference]:
        """Yield docket or git repository if they are not there."""
        name = self._store.config.dialect + b".docket"
        repository, maps = self._repository, self._store.maps.directory
        nothing, state = _(b"nothing"), _(b"a finished export")
        if self._docket.refused:
            found = _(b"an unfinished rewrite")
            yield Difference(b"docket", name, found, state, Remedy.WITHDRAW)
        elif self._docket.censored != censorship.mark_of(self._repo):
            found = _(b"a state from before a censoring")
            yield Difference(b"docket", name, found, state, Remedy.WITHDRAW)
        elif self._docket != Docket():
            if not repository.exists():
                whole = _(b"a git repository")
                yield Difference(
                    b"directory", repository.path, nothing, whole, Remedy.REBUILD
                )
        elif maps.exists(name):
            found = _(b"an unreadable file")
            yield Difference(b"docket", name, found, state, Remedy.REBUILD)
        elif repository.packs() or (repository.exists() and repository.has_refs()):
            yield Difference(b"docket", name, nothing, state, Remedy.REBUILD)
        elif not repository.exists():
            raise error.StateError(
                _(b"nothing is exported yet"), hint=_(b"run 'hg git::export'")
            )

    def _check_history(self, oidmap: OidMap) -> Served:
        served = Served.of(self._repo, oidmap, self._selected)
        self._findings.changesets = len(served.nodes) + len(served.missing)
        known_below = self._selected.known_below(self._repo, self._docket.drafts.seen)
        findings = self._findings
        if not findings.add(served.check(self._repo, oidmap, known_below)):
            export = self._store.config.export
            wanted = ExportPlan.of(self._repo, export, self._docket)
            layers = check_layers(self._repo, wanted, self._docket, self._store.maps)
            findings.add(layers)
        return served

    def _check_names(self, oidmap: OidMap, deep: bool) -> None:
        if not deep and Settled.now(self._store):
            self._findings.refs = self._repository.count_refs()
            return
        view = selection.view_of(self._repo, self._store.config.export)
        main_line = FetchedRefs(self._store).main_line()
        nodes, head = refsmod.wanted(view, self._store.config.refs, main_line)
        wanted = list(nodes.values())
        oids = dict(zip(nodes, oidmap.oids(wanted), strict=True))
        known = dict(zip(nodes, oidmap.has(wanted), strict=True))
        refs = {name: oid for name, oid in oids.items() if oid}
        own = {ref: node for ref, node in nodes.items() if ref.startswith(refsmod.TAGS)}
        tags = ShownTags.of(
            *(self._store, self._docket, RemoteTags(self._store), own),
            lambda node: self._selected.has(self._repo, node),
        )
        refs |= tags.refs
        names = ExpectedRefs(
            refs=with_metadata(refs, self._docket),
            peeled=tags.peeled,
            head=head,
            pending={name: nodes[name] for name in nodes if not known[name]},
        )
        self._findings.refs = len(nodes.keys() | tags.refs.keys())
        self._findings.add(names.check(self._repository, self._docket.named))
        self._findings.add(check_tags(self._repository, self._docket, tags))
        if deep:
            named = (*nodes.values(), *tags.nodes)
            self._findings.unreachable, noted = unreachable(view, named)
            left_out = sorted(tags.left_out.items())
            for ref, why in left_out:
                is_tag = ref.startswith(refsmod.TAGS)
                kind = b"tag without a ref" if is_tag else b"notes without a ref"
                noted.append(Note(kind, ref, why))
            self._findings.notes += noted

    def _check_objects(self, oidmap: OidMap, metadata_map: OidMap) -> None:
        findings, ui, git = self._findings, self._repo.ui, self._repository.git
        maps = (oidmap, metadata_map)
        findings.objects = sum(one.count(table) for one in maps for table in Table)
        findings.add(check_objects(ui, git, oidmap))
        findings.add(check_objects(ui, git, metadata_map, metadata.KINDS))
        findings.add(metadata.check_commits(git, self._docket))

    def _recompute(
        self, oidmap: OidMap, metadata_map: OidMap, served: Served, damaged: bool
    ) -> None:
        """Make all again, as far as it is exported, and compare."""
        findings, ui = self._findings, self._repo.ui
        selected = self._selected
        if served.missing:
            nodes = served.nodes
            selected = selection.select(self._repo, self._store.config.export, nodes)
        commit = metadatacommit.current(self._store, self._docket)
        with recompute.Recomputed.of(self._store, selected, commit) as right:
            findings.add(right.check_map(ui, oidmap))
            findings.add(right.check_metadata(ui, metadata_map))
            if not damaged:
                findings.add(right.check_objects(self._repository, self._docket))
        if not any(forbidden_files(self._repository.directory)):
            git, notes = self._repository.git, findings.notes
            findings.add(recompute.check_with_git(ui, git, notes))

    def _leave_out(self, what: bytes) -> None:
        text = _(b"not compared, because something they depend on is damaged")
        self._findings.notes.append(Note(what, b"", text))
