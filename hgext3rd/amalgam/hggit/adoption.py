"""Taking over the ids of hg-git, and giving ours back.

The first command that needs ids takes all lines of hg-git's map into the record of
imported commits, and tries some of them: the commit has to have the files and parents
of its changeset. Afterwards a look at the stats of hg-git's files is enough. When
hg-git has changed them, new lines are taken. All of that happens under the lock of
Mercurial, which hg-git holds when it writes. Nothing of hg-git's files changes here.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..configitems import HGGIT_DIALECT
from ..files import Directory
from ..gitstore.imported import ImportedCommits, segment_of, taken_over
from ..gitstore.oidmap import MapFiles
from ..scratch import outside
from ..terminal import counted, one_line
from . import mapfile, objects, sample

if TYPE_CHECKING:
    from ..gitstore.oidmap import OidMap
    from ..gitstore.store import GitStore

_SEGMENT = "hggit-0000000000000000.map"
_SAMPLES = 16


def take_over(store: GitStore, *, waits: bool = False) -> OidMap | None:
    """Take over the ids of hg-git, if it has left any, or has changed them.

    A few system calls if nothing has changed. ``None``, unless nothing can be written
    here; then the map, to be closed. ``waits``: for the lock of Mercurial, as long as
    Mercurial would. ``StorageError`` for a damaged map, and for commits that are not
    those of their changesets.
    """
    if store.config.dialect != HGGIT_DIALECT:
        return None
    stamp = stamp_of(store)
    if not stamp or taken_over(store)[0] == stamp:
        return None
    if not store.trust.usable:
        return _opened_apart(store)
    try:
        with store.asked.lock(wait=waits):
            _take_over(store)
    except error.LockError:
        if waits:
            raise
        return _opened_apart(store)
    return None


def stamp_of(store: GitStore) -> str:
    """Return file stats of hg-git's files; empty without a map."""
    try:
        it = os.stat(os.path.join(store.repo.sharedpath, mapfile.NAME))
    except OSError:
        return ""
    rest = objects.stamp(objects.directory_of(store.repo))
    return f"{it.st_ino} {it.st_size} {it.st_mtime_ns} {rest}".rstrip()


def _take_over(store: GitStore) -> None:
    stamp, repo = stamp_of(store), store.repo.unfiltered()
    lines = mapfile.read(Directory(store.repo.sharedpath))
    git = objects.take(store)
    by_oid = dict(lines)
    by_node = {node: oid for oid, node in lines}
    with contextlib.closing(ImportedCommits(store.repo, store)) as imported:
        if not imported.taken and git is not None:
            sample.check(store.repo, git, lines, by_node, _SAMPLES)
        has = repo.changelog.hasnode
        there = imported.changesets([*by_oid])
        new = {
            oid: node
            for (oid, node), known in zip(by_oid.items(), there, strict=True)
            # a commit whose changeset was stripped may have come again
            if known != node and (known is None or has(node) or not has(known))
        }
        # these files of hg-git depend on the commit of the parent
        if len(repo.file(b".hgsub")) or len(repo.file(b".hgsubstate")):
            kept = {node: by_node[node] for node in new.values()}
        else:
            count = len(by_oid) - len(by_node)
            kept = {n: by_node[n] for o, n in new.items() if count and by_node[n] != o}
        is_first = not imported.taken
        imported.take(new, kept, stamp, behind=imported.behind)
    if is_first and not repo.ui.quiet:
        text = _(b"(going on with the ids of hg-git: %s in '%s')")
        path = os.path.join(store.repo.sharedpath, mapfile.NAME)
        repo.ui.write_err(one_line(text % (counted(len(by_oid), b"commit"), path)))


def _opened_apart(store: GitStore) -> OidMap:
    """Open the map where nothing of the repository is written."""
    lines = mapfile.read(Directory(store.repo.sharedpath))
    with outside() as path:
        content = segment_of(dict(lines), {})
        with open(os.path.join(path, os.fsencode(_SEGMENT)), "wb") as file:
            file.write(content)
        # it stays readable when its file is gone
        return MapFiles(Directory(path), store.trust).open([_SEGMENT])
