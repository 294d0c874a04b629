"""One export: select, convert, remember, name.

The order is the crash safety. The core writes the pack, then the map segment; the
docket makes both count; refs come after that, and packs that are no longer wanted go
last. A run that dies on the way leaves files that the next one removes, never a ref
to what is not there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import time
from typing import TYPE_CHECKING

from mercurial import error, txnutil, vfs as vfsmod
from mercurial.i18n import _

from ..configitems import GitConfig
from ..native import errors
from . import refs as refsmod, requirements, selection
from .conversion import Conversion, Converted
from .docket import Docket
from .exclusion import locked
from .gitprocess import Git, Owner
from .oidmap import OidMap
from .placement import TEMPORARY, Placement
from .repository import Repository
from .source import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mercurial.interfaces.types import RepoT

    from .selection import Selection

# Each round but the first has only that to convert which came during the one before:
# milliseconds. So many changes in a row are no coincidence.
_ROUNDS = 20
# another export may merge segments between reading the docket and opening them
_TRIES = 5
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What an export did."""

    path: bytes
    """The git repository."""
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
    seconds: float
    """Wall time of all."""


class GitStore:
    """The git store of one dialect of a Mercurial repository, and its map."""

    def __init__(self, repo: RepoT, config: GitConfig) -> None:
        """For a share, it is the store of its source, with the source's ``config``."""
        self.repo = source_of(repo)
        if self.repo is not repo:
            config = GitConfig.from_ui(self.repo.ui, config.dialect)
        self.config = config
        self._asked = repo
        self.placement = Placement.of(self.repo)
        root = os.path.join(self.repo.sharedpath, b"amalgam")
        self.vfs = vfsmod.vfs(root, cacheaudited=True)
        self.map_vfs = vfsmod.vfs(os.path.join(root, b"map"), cacheaudited=True)
        path = config.path or os.path.join(root, b"git")
        owner = Owner(self.repo.ui, self.repo.sharedpath)
        git = Git(config.program, os.path.join(path, config.dialect + b".git"), owner)
        self.repository = Repository(git, self.placement)

    def docket(self) -> Docket:
        """Return what is exported; nothing if the git repository is gone."""
        docket = Docket.read(self.map_vfs, self.config.dialect)
        return docket if self.repository.packs() or not docket.packs else Docket()

    def open_map(self, docket: Docket | None = None) -> OidMap:
        """Open the map that ``docket`` names, by default the one on disk."""
        if docket is not None:
            return OidMap(self.map_vfs.base, docket.segments)
        for remaining in reversed(range(_TRIES)):
            try:
                return OidMap(self.map_vfs.base, self.docket().segments)
            except FileNotFoundError:
                if not remaining:
                    raise
        raise AssertionError

    def export(
        self, revs: Iterable[int] | None = None, *, rebuild: bool = False
    ) -> Report:
        """Bring the store up to date with what the repository serves.

        ``revs``: only these and their ancestors. ``rebuild``: from nothing, and forget
        all that was there. Takes time in proportion to what is new. ``StateError`` if
        there is something to write and it cannot be written.
        """
        started = time.monotonic()
        requirements.check(self.repo)
        self._refuse_what_is_pending()
        node = self.repo.unfiltered().changelog.node
        nodes = None if revs is None else [node(rev) for rev in revs]
        run = _Run(self, nodes)
        try:
            self.placement.make_directory(self.map_vfs.base)
            with locked(self._asked, self.vfs):
                run.update(rebuild)
        except OSError as exc:
            if exc.errno not in _UNWRITABLE or self._is_of_hg(exc.filename):
                raise
            if rebuild or not run.is_up_to_date():
                raise self._unwritable(exc) from None
        return Report(
            path=self.repository.path,
            changesets=sum(done.changesets for done in run.done),
            objects=sum(done.objects for done in run.done),
            bytes=sum(done.bytes for done in run.done),
            pack=run.done[-1].pack if run.done else "",
            refs=run.refs,
            seconds=time.monotonic() - started,
        )

    def _refuse_what_is_pending(self) -> None:
        """Abort in a transaction that may yet be rolled back."""
        pending = txnutil.mayhavepending(self._asked.root)
        if pending or self._asked.currenttransaction() is not None:
            raise error.StateError(
                _(b"cannot export while a transaction is open"),
                hint=_(b"let a hook export that runs when it is closed"),
            )

    def _is_of_hg(self, path: bytes | str | None) -> bool:
        """Tell whether a file belongs to Mercurial's store, not to amalgam."""
        store = os.path.join(self.repo.store.path, b"")
        return path is not None and os.fsencode(path).startswith(store)

    def _unwritable(self, exc: OSError) -> error.StateError:
        reason = os.fsencode(os.strerror(exc.errno or errno.EACCES))
        path = os.fsencode(exc.filename or self.repository.path)
        hint = _(b"export as a user who may write to '%s'") % self.repo.store.path
        if exc.errno == errno.EROFS:
            hint = _(b"export where this file system can be written")
        return error.StateError(
            _(b"git store is not up to date and cannot be written: %s: '%s'")
            % (reason, path),
            hint=hint,
        )


class _Run:
    """One export of a store, and what came of it. All but reading needs the lock."""

    def __init__(self, store: GitStore, nodes: Sequence[bytes] | None) -> None:
        self.done: list[Converted] = []
        self.refs = 0
        self._nodes = nodes
        self._store = store
        self._repo = store.repo
        self._config = store.config
        self._repository = store.repository
        self._docket = Docket()
        """What is on disk."""
        self._conversion = Conversion(
            store_path=store.repo.store.path,
            encoding=requirements.encoding(store.repo),
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
        start = self._whole()
        if is_there and start is None and not rebuild:
            self._repo.ui.warn(_(b"warning: git store is not whole: exporting all\n"))
        if rebuild or start is None:
            start = Docket(dropped=tuple(self._repository.packs(usable=False)))
        try:
            self._rounds(start)
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

    def _rounds(self, docket: Docket) -> None:
        """Convert and name, until nothing has moved meanwhile.

        Refs are named only from a view that was still that of the repository's files
        after all that it selects was converted.
        """
        for _round in range(_ROUNDS):
            selection.read_again(self._repo)
            state = selection.state_of(self._repo)
            selected = self._select()
            try:
                docket = self._convert(selected, docket)
            except errors.Moved:
                continue
            if docket != self._docket:
                self._write(docket)
            self._store.map_vfs.tryunlink(self._pending)
            refs, head = self._wanted_refs(docket)
            if selection.state_of(self._repo) != state:
                continue
            self.refs += self._repository.set_refs(refs, head)
            named = self._repository.names_digest()
            docket = dataclasses.replace(docket, named=named)
            if docket != self._docket:
                self._write(docket)
            if selection.state_of(self._repo) == state:
                return
        raise error.StateError(
            _(b"repository kept changing while it was exported"),
            hint=_(b"run 'hg git::export' again; what was converted is kept"),
        )

    def _select(self) -> Selection:
        return selection.select(self._repo, self._config.export, self._nodes)

    def _convert(self, selected: Selection, before: Docket) -> Docket:
        """Convert what is selected and not in ``before``; return what is then there."""
        known_below = selected.known_below(self._repo, before.seen)
        docket = before
        if known_below < selected.len:
            done = self._conversion.run(
                self._repo.ui, selected, before.segments, known_below
            )
            docket = dataclasses.replace(before, segments=done.segments)
            if done.pack:
                self.done.append(done)
                dropped = tuple(name for name in before.dropped if name != done.pack)
                packs = (*before.packs, done.pack)
                docket = dataclasses.replace(docket, packs=packs, dropped=dropped)
        if self._nodes is None:
            return dataclasses.replace(docket, seen=selected.seen())
        return docket

    def _wanted_refs(self, docket: Docket) -> tuple[dict[bytes, bytes], bytes]:
        """Return refs, name to oid, and HEAD; what is not exported is left out."""
        view = selection.view_of(self._repo, self._config.export)
        nodes, head = refsmod.wanted(view, self._config.refs)
        with contextlib.closing(self._store.open_map(docket)) as oidmap:
            oids = dict(zip(nodes, oidmap.oids(list(nodes.values())), strict=True))
        return {name: oid for name, oid in oids.items() if oid is not None}, head

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
        for segment in docket.segments:
            if not self._store.map_vfs.exists(os.fsencode(segment)):
                return None
        packs = self._repository.packs()
        if packs.issuperset(docket.packs):
            return docket
        # git-repack(1) puts what was in our packs into others. What is then loose is
        # better packed by us.
        is_packed = not self._repository.loose_object_directories()
        if is_packed and packs.difference(docket.packs) and self._has_heads(docket):
            return dataclasses.replace(docket, packs=tuple(sorted(packs)))
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
        docket.write(self._store.map_vfs, self._config.dialect, self._store.placement)
        self._docket = docket

    @property
    def _pending(self) -> bytes:
        return self._config.dialect + b".pending"

    def _remove_debris(self) -> None:
        """Remove what a killed run left, and segments that were merged into others."""
        vfs = self._store.map_vfs
        pack = vfs.tryread(self._pending).decode("ascii", "replace")
        if pack and pack not in self._docket.packs:
            self._repository.remove_packs([pack])
        vfs.tryunlink(self._pending)
        kept = frozenset(map(os.fsencode, self._docket.segments))
        ours = self._config.dialect + b"-"
        for name in vfs.listdir():
            is_segment = name.startswith(ours) and name.endswith(b".map")
            if name.startswith(TEMPORARY) or (is_segment and name not in kept):
                vfs.tryunlink(name)
        self._repository.remove_debris()
