"""One export: select, convert, remember, name.

The order is the crash safety. The core writes packs, then map segments and state; the
docket makes all count; refs come after that, and packs that are no longer wanted go
last. A run that dies on the way leaves files that the next one removes, never a ref
to what is not there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..native import errors
from ..placement import TEMPORARY
from . import censorship, refs as refsmod, requirements, selection
from .conversion import Conversion, Converted
from .docket import Docket, Metadata
from .outdated import outdated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .export import GitStore
    from .selection import FilesState, Selection

# Each round but the first has only that to convert which came during the one before:
# milliseconds. So many changes in a row are no coincidence.
_ROUNDS = 20
# Packs that only older metadata commits need may have so many bytes, or as many as the
# newest needs: then they are not worth the files that they are.
_STALE_BYTES = 1 << 16
# What reading a repository may raise if it is written at the same time: an index that
# was read and the data that it leads to are then of two states. A full disk is none.
_TORN = (
    error.StorageError,
    error.RepoError,
    LookupError,
    ValueError,
    FileNotFoundError,
)


class Run:
    """One export of a store, and what came of it. All but reading needs the lock."""

    def __init__(self, store: GitStore, nodes: Sequence[bytes] | None) -> None:
        self.done: list[Converted] = []
        self.refs = 0
        self._nodes = nodes
        self._store = store
        self._repo = store.repo
        self._config = store.config
        self._repository = store.repository
        self._docket = self._next = Docket()
        """What is on disk, and what the next conversion builds on."""
        self._conversion = Conversion(
            store_path=store.repo.store.path,
            encoding=requirements.encoding(store.repo),
            tree_manifests=requirements.has_tree_manifests(store.repo),
            packs_path=store.repository.packs_path,
            map_path=store.map_vfs.base,
            prefix=store.config.dialect,
            file_mode=store.placement.file_mode,
            check_texts=store.config.check_texts,
        )

    def update(self, rebuild: bool) -> None:
        """Do what there is to do."""
        self._docket = Docket.read(self._store.map_vfs, self._config.dialect)
        is_there = self._repository.exists()
        if is_there and not rebuild:
            self._refuse_foreign_store()
        self._repository.set_up()
        self._remove_debris()
        if censorship.is_marked(self._store.map_vfs, self._config.dialect):
            self._forget()
        whole = self._whole()
        if is_there and whole is None and not rebuild:
            why = _(b"is not whole")
            if self._docket.segments and self._docket.metadata == Metadata():
                why = _(b"is of an older version")
            self._repo.ui.warn(_(b"warning: git store %s: exporting all\n") % why)
        if rebuild or whole is None:
            whole = Docket(dropped=tuple(self._repository.packs(usable=False)))
        self._next = whole
        try:
            self._rounds()
        except BaseException:
            # the next run would do it, too; but why leave it what can be large
            with contextlib.suppress(OSError):
                self._remove_debris()
            raise
        if self._docket.dropped:
            self._repository.remove_packs(self._docket.dropped)
            self._repository.remove_loose_objects()
            self._write(dataclasses.replace(self._docket, dropped=()))
        self._remove_debris()

    def _forget(self) -> None:
        """Let nothing count that is exported; its packs go once others are there."""
        packs = tuple(self._repository.packs(usable=False))
        self._write(Docket(dropped=packs))
        censorship.unmark(self._store.map_vfs, self._config.dialect)

    def is_up_to_date(self) -> bool:
        """Tell whether an export would write nothing; writes nothing itself."""
        selection.read_again(self._repo)
        docket = self._store.docket()
        selected = self._select()
        if self._nodes is None:
            whole = selected.known_below(self._repo, docket.seen) == selected.len
        else:
            excluded = frozenset(selected.excluded.values())
            wanted = [node for node in self._nodes if node not in excluded]
            with contextlib.closing(self._store.open_map(docket)) as oidmap:
                whole = None not in oidmap.oids(wanted)
        return whole and self._repository.is_named(*self._wanted_refs(docket))

    def _rounds(self) -> None:
        """Convert and name, until nothing has moved meanwhile."""
        for _round in range(_ROUNDS):
            selection.read_again(self._repo)
            state = selection.state_of(self._repo)
            try:
                if self._round(state):
                    return
            except errors.Moved:
                pass
            except _TORN:
                if selection.state_of(self._repo) == state:
                    raise
            self._remove_debris()
        raise error.StateError(
            _(b"repository kept changing while it was exported"),
            hint=_(b"run 'hg git::export' again; what was converted is kept"),
        )

    def _round(self, state: FilesState) -> bool:
        """Convert what is new and name it; tell whether that is all there is to do.

        Refs are named only from a view that was still that of the repository's files
        after all that it selects was converted.
        """
        docket = self._convert(self._select(), self._next)
        self._write(docket)
        self._store.map_vfs.tryunlink(self._pending)
        refs, head = self._wanted_refs(docket)
        if selection.state_of(self._repo) != state:
            return False
        self.refs += self._repository.set_refs(refs, head)
        named = self._repository.names_digest()
        self._write(dataclasses.replace(docket, named=named))
        return selection.state_of(self._repo) == state

    def _select(self) -> Selection:
        return selection.select(self._repo, self._config.export, self._nodes)

    def _convert(self, selected: Selection, before: Docket) -> Docket:
        """Convert what is selected and not in ``before``; return what is then there."""
        known_below = selected.known_below(self._repo, before.seen)
        docket = before
        anew = self._is_metadata_stale(before)
        is_lost = before.segments and not before.metadata.state
        if known_below < selected.len or is_lost:
            done = self._conversion.run(
                self._repo.ui,
                selected,
                known_below,
                before.segments,
                before.metadata,
                anew=anew,
            )
            if done.metadata:
                self.done.append(done)
                docket = self._extended(before, done, done.metadata, anew)
        if self._nodes is None:
            return dataclasses.replace(docket, seen=selected.seen())
        return docket

    def _extended(
        self, before: Docket, done: Converted, metadata: Metadata, anew: bool
    ) -> Docket:
        """Return ``before`` with what was made."""
        dropped = before.metadata.packs if anew else ()
        made = (*filter(None, [done.pack]), *metadata.packs)
        kept = () if anew else before.metadata.packs
        return dataclasses.replace(
            before,
            segments=done.segments,
            packs=(*(name for name in before.packs if name not in dropped), *made),
            dropped=tuple(
                name for name in (*before.dropped, *dropped) if name not in made
            ),
            metadata=dataclasses.replace(metadata, packs=(*kept, *metadata.packs)),
        )

    def _is_metadata_stale(self, docket: Docket) -> bool:
        """Tell whether to write all that the metadata commit needs once more."""
        metadata = docket.metadata
        if not metadata.state:
            return bool(docket.segments)
        first, *others = map(self._repository.pack_bytes, metadata.packs or ("",))
        return sum(others) > max(first, _STALE_BYTES)

    def _wanted_refs(self, docket: Docket) -> tuple[dict[bytes, bytes], bytes]:
        """Return refs, name to oid, and HEAD; what is not exported is left out."""
        view = selection.view_of(self._repo, self._config.export)
        nodes, head = refsmod.wanted(view, self._config.refs)
        with contextlib.closing(self._store.open_map(docket)) as oidmap:
            oids = dict(zip(nodes, oidmap.oids(list(nodes.values())), strict=True))
        refs = {name: oid for name, oid in oids.items() if oid is not None}
        if docket.metadata.commit:
            refs[refsmod.METADATA] = bytes.fromhex(docket.metadata.commit)
        return refs, head

    def _refuse_foreign_store(self) -> None:
        """Abort if ``amalgam.git.path`` leads to a repository that others fill."""
        packs = self._docket.packs
        is_ours = packs and (
            any(map(self._repository.has_pack, packs)) or self._has_heads(self._docket)
        )
        if self._config.path and self._repository.has_refs() and not is_ours:
            raise error.StateError(
                _(b"git repository '%s' is not filled by this repository")
                % self._repository.path,
                hint=_(b"set amalgam.git.path to another directory, or use --rebuild"),
            )

    def _whole(self) -> Docket | None:
        """Return what is on disk; ``None`` if something of it is lost."""
        docket = self._docket
        metadata = docket.metadata
        for segment in (*docket.segments, *metadata.segments):
            if not self._store.map_vfs.exists(os.fsencode(segment)):
                return None
        if docket.segments and not metadata.segments:
            return None
        if not self._store.map_vfs.exists(os.fsencode(metadata.state)):
            metadata = dataclasses.replace(metadata, state="")
            docket = dataclasses.replace(docket, metadata=metadata)
        packs = self._repository.packs()
        if packs.issuperset(docket.packs):
            return docket
        # git-repack(1) puts what was in our packs into others, git-gc(1) makes loose
        # what no ref leads to. If any of that is needed, it is better packed by us.
        loose = frozenset(self._repository.loose_objects())
        is_packed = (
            bytes.fromhex(metadata.commit) not in loose
            and outdated(self._repository.git, loose) == loose
        )
        if is_packed and packs.difference(docket.packs) and self._has_heads(docket):
            self._repository.remove_loose_objects()
            kept = tuple(name for name in metadata.packs if name in packs)
            metadata = dataclasses.replace(metadata, packs=kept)
            names = tuple(sorted(packs))
            return dataclasses.replace(docket, packs=names, metadata=metadata)
        return None

    def _has_heads(self, docket: Docket) -> bool:
        """Tell whether git finds the commits of all heads that are exported."""
        heads = self._repo.unfiltered().changelog.heads()
        try:
            with contextlib.closing(self._store.open_map(docket)) as oidmap:
                oids = [oid for oid in oidmap.oids(heads) if oid is not None]
        except FileNotFoundError:
            return False
        return bool(oids) and self._repository.has_commits(oids)

    def _write(self, docket: Docket) -> None:
        if docket != self._docket:
            store = self._store
            docket.write(store.map_vfs, self._config.dialect, store.placement)
        self._docket = self._next = docket

    @property
    def _pending(self) -> bytes:
        return self._config.dialect + b".pending"

    def _remove_debris(self) -> None:
        """Remove what a killed run left, and segments that were merged into others."""
        vfs = self._store.map_vfs
        pending = vfs.tryread(self._pending).decode("ascii", "replace").split()
        packs = [pack for pack in pending if pack not in self._docket.packs]
        self._repository.remove_packs(packs)
        vfs.tryunlink(self._pending)
        names = (*self._docket.segments, *self._docket.metadata.files)
        kept = frozenset(map(os.fsencode, names))
        ours = self._config.dialect + b"-"
        for name in vfs.listdir():
            is_ours = name.startswith(ours) and name.endswith((b".map", b".state"))
            if name.startswith(TEMPORARY) or (is_ours and name not in kept):
                vfs.tryunlink(name)
        self._repository.remove_debris()
