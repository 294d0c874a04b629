"""Renewal of snapshots after the history of a repository has changed.

Owns the list of indexes: changelog, manifest, and the manifests of directories in use.
The caller holds the lock of the repository, or wants everything made again.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.utils import stringutil

from ..core.errors import Moved
from . import indexfile, nodemapfile
from .decision import Reason
from .snapshot import Busy, FileStat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mercurial.interfaces.types import RepoT

    from ..files import Placement
    from .mapping import Site
    from .snapshot import Snapshot

_PATHS = (b"00changelog.i", b"00manifest.i")


def states(repo: RepoT) -> dict[bytes, FileStat]:
    """Return the file stats of the indexes that a transaction appends to."""
    found = {}
    for path in _PATHS:
        with contextlib.suppress(OSError):
            found[path] = FileStat.of(repo.svfs.stat(path))
    return found


def renew(
    repo: RepoT,
    site: Site,
    threshold_bytes: int | None,
    before: Mapping[bytes, FileStat],
) -> bytes:
    """Renew the snapshots of all indexes to be mapped.

    Indexes in ``before`` have only been appended to since they had that state. Returns
    the reasons for failures, which cost only speed. Does nothing in the repository of
    an untrusted owner.
    """
    if not site.trust.usable:
        return _(b"the owner of the repository is not trusted")
    try:
        _renew(repo, site, threshold_bytes, before)
    except Busy:
        return _(b"another process is writing snapshots")
    except (Moved, OSError, error.StorageError) as exc:
        return stringutil.forcebytestr(exc)
    return b""


def rebuild(repo: RepoT, site: Site, threshold_bytes: int | None) -> None:
    """Make all snapshots from nothing, and remove those of removed indexes.

    Does nothing for users who may not write to the store, or in a world-writable one:
    damage there is never mapped. ``SecurityError`` if the owner is not trusted.
    ``StateError``, ``StorageError`` or ``OSError`` on failure.
    """
    if not os.access(repo.store.path, os.W_OK):
        return
    site.trust.require(site.owner_path)
    if site.snapshots.is_public(site.placement()):
        return
    try:
        with repo.lock():
            _renew(repo, site, threshold_bytes, {}, afresh=True)
    except Busy:
        raise error.StateError(
            _(b"another process is writing snapshots of indexes"),
            hint=_(b"try again"),
        ) from None


def _renew(
    repo: RepoT,
    site: Site,
    threshold_bytes: int | None,
    before: Mapping[bytes, FileStat],
    *,
    afresh: bool = False,
) -> None:
    paths, gone = set(_paths(repo)), set()
    if afresh:
        directory = site.snapshots.directory
        gone = {*site.snapshots.names(), *nodemapfile.names(directory)}
        paths |= {path for name in gone if (path := _path_of(site, name))}
    wanted = []
    with contextlib.ExitStack() as stack:
        for path in sorted(paths):
            seen = stack.enter_context(indexfile.open_candidate(repo.svfs, path))
            if seen.reason(threshold_bytes, lambda: site) is Reason.LARGE_ENOUGH:
                wanted.append(seen.file)
        if not wanted and not gone:
            return
        placement = site.placement()
        stack.enter_context(site.snapshots.writing(placement))
        for file in wanted:
            grown_from = before.get(file.path)
            site.renew(file, placement, grown_from=grown_from, afresh=afresh)
        for name in gone - {file.name for file in wanted}:
            site.snapshots.forget(name)
            nodemapfile.remove(directory, name)


def _path_of(site: Site, name: bytes) -> bytes | None:
    """Return the path of the index that a docket belongs to; ``None`` if to none."""
    docket = site.snapshots.docket(name)
    if docket is None or indexfile.name_of(docket.path) != name:
        return None
    *above, last = docket.path.split(b"/")
    in_tree = above[:1] == [b"meta"] and last == b"00manifest.i"
    if any(part in (b"", b".", b"..") for part in above) or (above and not in_tree):
        return None
    return docket.path


def _paths(repo: RepoT) -> list[bytes]:
    """Return the paths of the indexes that may be mapped, below ``.hg/store``."""
    manifest = repo.manifestlog.getstorage(b"")
    trees = [log.get_revlog() for name, log in manifest._dirlogcache.items() if name]
    return [*_PATHS, *sorted(tree._indexfile for tree in trees)]


def follow(
    placement: Placement, snapshot: Snapshot, data: memoryview, afresh: bool
) -> None:
    """Renew data that depends on a snapshot; a failure costs only speed."""
    with contextlib.suppress(OSError, error.StorageError):
        nodemapfile.renew(placement, snapshot, data, afresh=afresh)
