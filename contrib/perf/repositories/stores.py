"""A new repository on disk: its store's layout and the files beside its revlogs.

Owns file names, fncache, phases and bookmarks. Mercurial itself creates the repository
and encodes the names (`hg help internals.revlogs`, "Mapping filename to filelog"), so
requirements are what the installed version writes by default. The user's configuration
is not read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mercurial import error, hg, store as storemod, ui as uimod, util

from .revlogs import LateRevlog, Revlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COMPRESSIONS = ("zstd", "zlib")


class Store:
    """A repository being filled; nothing may read it before ``close``."""

    def __init__(self, path: str, *, compression: str, repeats: bool) -> None:
        """Create a repository at ``path``, which may not be one already.

        ``repeats`` is that of the manifest and the filelogs, see ``Revlog``.

        Raises ``FileExistsError`` if there is one.
        """
        ui = uimod.ui()
        ui.setconfig(b"format", b"revlog-compression", compression.encode())
        try:
            repo = hg.repository(ui, os.fsencode(path), create=True)
        except error.RepoError as err:
            raise FileExistsError(f"repository {path} already exists") from err
        engine = util.compengines[compression.encode()]
        self._compress = engine.revlogcompressor().compress
        self._repeats = repeats
        self._hg_dir: bytes = repo.path
        self._store_dir: bytes = repo.svfs.join(b"")
        self._encode = repo.store.encode
        self._filelogs: dict[bytes, Revlog] = {}
        self.changelog = self._revlog(b"00changelog", deltas=False)
        self.manifest: Revlog = self._revlog(b"00manifest", repeats=repeats)

    def filelog(self, name: bytes) -> Revlog:
        """The revlog of the file ``name``, empty when asked for the first time."""
        filelog = self._filelogs.get(name)
        if filelog is None:
            filelog = self._revlog(b"data/" + name, repeats=self._repeats)
            self._filelogs[name] = filelog
        return filelog

    def late_manifest(self) -> LateRevlog:
        """Let the manifest, which is empty yet, be one whose nodes come later."""
        self.manifest = LateRevlog(self._path(b"00manifest"), self._compress)
        return self.manifest

    def write_bookmarks(self, bookmarks: Iterable[tuple[bytes, int]]) -> None:
        """Set all bookmarks: names with changelog revisions."""
        node = self.changelog.node
        with open(os.path.join(self._hg_dir, b"bookmarks"), "wb") as file:
            for name, rev in sorted(bookmarks):
                file.write(b"%s %s\n" % (node(rev).hex().encode(), name))

    def keep_draft(self, count: int) -> None:
        """Make the last ``count`` changesets draft; all others stay public.

        Mercurial takes a repository without this file for all public.
        """
        first = max(len(self.changelog) - count, 0)
        with open(os.path.join(self._store_dir, b"phaseroots"), "wb") as file:
            for rev in range(first, len(self.changelog)):
                if max(self.changelog.parents(rev)) < first:
                    file.write(b"1 %s\n" % self.changelog.node(rev).hex().encode())

    def close(self) -> None:
        """Write all revlogs, the changelog last, and the fncache."""
        fncache = []
        for name, filelog in self._filelogs.items():
            fncache += [b"data/" + name + suffix for suffix in filelog.close()]
        self.manifest.close()
        with open(os.path.join(self._store_dir, b"fncache"), "wb") as file:
            for path in sorted(fncache):
                file.write(storemod.encodedir(path) + b"\n")
        self.changelog.close()

    def _revlog(
        self, name: bytes, *, deltas: bool = True, repeats: bool = False
    ) -> Revlog:
        path = self._path(name)
        return Revlog(path, self._compress, deltas=deltas, repeats=repeats)

    def _path(self, name: bytes) -> Callable[[bytes], bytes]:
        def path(suffix: bytes) -> bytes:
            full = os.path.join(self._store_dir, self._encode(name + suffix))
            os.makedirs(os.path.dirname(full), exist_ok=True)
            return full

        return path
