"""One export: select, convert, remember, name.

The order is the crash safety. The core writes the pack, then the map segment; the
docket makes both count; refs come last. A run that dies on the way leaves files that
the next one removes, never a ref to what is not there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any

from mercurial import lock as lockmod, vfs as vfsmod
from mercurial.i18n import _

from ..native import errors
from ..native._core import ffi, lib
from ..native.lent import lent, lent_list
from ..native.operation import Operation
from . import refs as refsmod, requirements, selection
from .docket import Docket
from .oidmap import OidMap
from .repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mercurial.interfaces.types import RepoT, VfsT

    from ..configitems import GitConfig
    from .selection import Selection

# phases of amalgam_export_run: topic and unit of the progress bar
_PHASES = {
    0: (_(b"reading changesets"), _(b"changesets")),
    1: (_(b"reading manifests"), _(b"manifests")),
    2: (_(b"exporting files"), _(b"revisions")),
    3: (_(b"exporting changesets"), _(b"changesets")),
}
_LEVEL = 6
# another process may add or strip changesets while we look; more often is bad luck
_TRIES = 5


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
    """Size of the pack written."""
    pack: str
    """Its name, without suffix; empty if there was nothing to convert."""
    refs: int
    """Refs that are new, gone or moved."""
    seconds: float
    """Wall time of all."""


class GitStore:
    """The git store of one dialect of a Mercurial repository, and its map."""

    def __init__(self, repo: RepoT, config: GitConfig) -> None:
        self.config = config
        self._ui = repo.ui
        root = os.path.join(repo.sharedpath, b"amalgam")
        self.vfs = _vfs(repo, root)
        self.map_vfs = _vfs(repo, os.path.join(root, b"map"))
        path = config.path or os.path.join(root, b"git")
        self.repository = Repository(
            os.path.join(path, config.dialect + b".git"), config.program
        )

    def docket(self) -> Docket:
        """Return what is exported; nothing if the git repository is gone."""
        docket = Docket.read(self.map_vfs, self.config.dialect)
        if docket.packs and not any(map(self.repository.has_pack, docket.packs)):
            return Docket()
        return docket

    def open_map(self, docket: Docket | None = None) -> OidMap:
        """Open the map that ``docket`` names, by default the one on disk."""
        docket = self.docket() if docket is None else docket
        return OidMap(self.map_vfs.base, docket.segments)

    def export(
        self, repo: RepoT, revs: Iterable[int] | None = None, *, rebuild: bool = False
    ) -> Report:
        """Bring the store up to date with what ``repo`` serves.

        ``revs``: only these and their ancestors. ``rebuild``: from nothing, and forget
        all that was there. Takes time in proportion to what is new.
        """
        started = time.monotonic()
        requirements.check(repo)
        with self._locked(repo):
            if not self.repository.exists():
                self.repository.create()
            before = self.docket()
            self._remove_debris(before)
            for remaining in reversed(range(_TRIES)):
                selected = selection.select(repo, self.config.export, revs)
                known_below = 0 if rebuild else selected.known_below(repo, before.seen)
                try:
                    docket, done = self._convert(
                        repo, selected, Docket() if rebuild else before, known_below
                    )
                    break
                except errors.Moved:
                    if not remaining:
                        raise
                    repo.invalidate()
            if revs is None:
                docket = dataclasses.replace(docket, seen=selected.seen())
            if docket != before:
                docket.write(self.map_vfs, self.config.dialect)
            self.map_vfs.tryunlink(self._pending)
            if rebuild:
                self.repository.remove_packs(keep=docket.packs)
            self._remove_debris(docket)
            changed = self._name(repo, docket)
        return Report(
            path=self.repository.path,
            changesets=int(done.changesets),
            objects=int(done.objects),
            bytes=int(done.pack_bytes),
            pack=_text(done.pack, done.pack_len),
            refs=changed,
            seconds=time.monotonic() - started,
        )

    def _convert(
        self, repo: RepoT, selected: Selection, before: Docket, known_below: int
    ) -> tuple[Docket, Any]:
        """Convert what is selected and not in ``before``; return what is then there."""
        done = ffi.new("amalgam_export_report *")
        if known_below == selected.len:
            return before, done
        request = ffi.new("amalgam_export_request *")
        lent_bytes = {
            "store": repo.store.path,
            "packs": self.repository.packs_path,
            "map": self.map_vfs.base,
            "prefix": self.config.dialect,
            "tip": selected.tip,
            "excluded": b"".join(selected.excluded.values()),
        }
        keep = []
        for name, value in lent_bytes.items():
            pointer, length = lent(value)
            keep.append(pointer)
            setattr(request, name, {"data": pointer, "len": length})
        segments, count = lent_list([os.fsencode(name) for name in before.segments])
        request.segments, request.segments_len = segments, count
        request.encoding = requirements.encoding(repo)
        request.len = selected.len
        request.known_below = known_below
        request.check_texts = self.config.check_texts
        request.level = _LEVEL
        Operation(self._ui, _PHASES).run(lib.amalgam_export_run, done, request)
        pack = _text(done.pack, done.pack_len)
        names = tuple(_text(done.segments, done.segments_len).split())
        return Docket(names, (*before.packs, pack) if pack else before.packs), done

    def _name(self, repo: RepoT, docket: Docket) -> int:
        """Write refs and HEAD; refs whose changeset is not exported are left out."""
        view = selection.view_of(repo, self.config.export)
        nodes, head = refsmod.wanted(view, self.config.refs)
        with contextlib.closing(self.open_map(docket)) as oidmap:
            oids = dict(zip(nodes, oidmap.oids(list(nodes.values())), strict=True))
        known = {name: oid for name, oid in oids.items() if oid is not None}
        return self.repository.set_refs(known, head)

    @property
    def _pending(self) -> bytes:
        return self.config.dialect + b".pending"

    def _remove_debris(self, docket: Docket) -> None:
        """Remove what a killed run left, and segments that were merged into others."""
        pack = self.map_vfs.tryread(self._pending).decode("ascii", "replace")
        if pack and pack not in docket.packs:
            self.repository.remove_packs(only=pack)
        self.map_vfs.tryunlink(self._pending)
        kept = frozenset(map(os.fsencode, docket.segments))
        ours = self.config.dialect + b"-"
        for name in self.map_vfs.listdir():
            if name.startswith(b"tmp-map-") or (
                name.startswith(ours) and name.endswith(b".map") and name not in kept
            ):
                self.map_vfs.tryunlink(name)
        for name in self.repository.vfs.listdir(b"objects/pack"):
            if name.startswith(b"tmp_"):
                self.repository.vfs.tryunlink(b"objects/pack/" + name)

    @contextlib.contextmanager
    def _locked(self, repo: RepoT) -> Iterator[None]:
        """Hold ``.hg/amalgam/lock``: one export at a time."""
        self.map_vfs.makedirs()
        holds_hg_lock = repo.currentwlock() or repo._currentlock(repo._lockref)
        timeout = 0 if holds_hg_lock else self._ui.configint(b"ui", b"timeout")
        held = lockmod.trylock(
            self._ui,
            self.vfs,
            b"lock",
            timeout,
            self._ui.configint(b"ui", b"timeout.warn"),
            desc=_(b"git stores of %s") % repo.origroot,
        )
        try:
            yield
        finally:
            held.release()


def _vfs(repo: RepoT, path: bytes) -> VfsT:
    vfs = vfsmod.vfs(path, cacheaudited=True)
    vfs.createmode = repo.store.createmode
    return vfs


def _text(array: Any, length: int) -> str:
    return bytes(ffi.buffer(array, length)).decode("ascii")
