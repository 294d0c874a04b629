"""The metadata commit, which names all heads for git-cinnabar: made on request.

Exports keep its parts: notes, manifests' commits, and maps of them. So it can be made
of any layer at any time, with the bytes that an export of everything at once gives it.
Until it is made again, the last one stays, and is behind.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial import error

from ...records import Choice
from ..git.lastnames import LastNames
from ..git.refs import METADATA
from ..oidmap import Table
from . import docketedits
from .conversion import ExportConversion
from .writer import StoreWriter, metadata_oid

if TYPE_CHECKING:
    from ..docket import Docket, MetadataCommit
    from ..store import GitStore


class Covers(Choice):
    """The changesets that a metadata commit is of."""

    ALL = 1
    """All that are exported."""
    BASE = 2
    """Public changesets, those of the base."""


def is_current(store: GitStore, docket: Docket, covers: Covers) -> bool:
    """Return whether ``docket`` has the commit of all changesets to be covered.

    None is made in other dialects or of adopted commits: git-cinnabar has other ids.
    """
    if docket.adopted or not store.config.keeps_metadata:
        return True
    segments = docket.segments if covers is Covers.ALL else docket.base.segments
    with contextlib.closing(store.maps.open(segments)) as oidmap:
        count = oidmap.count(Table.CHANGESETS)
    commit = _of(docket, covers)
    return not count or bool(commit.oid and commit.covered == count)


def current(store: GitStore, docket: Docket) -> str:
    """Return the commit of all that is exported, in hex; nothing if it is behind."""
    is_there = is_current(store, docket, Covers.ALL)
    return _of(docket, Covers.ALL).oid if is_there else ""


def _of(docket: Docket, covers: Covers) -> MetadataCommit:
    has_drafts = covers is Covers.ALL and docket.drafts.segments
    return docket.drafts_commit if has_drafts else docket.base_commit


def make(store: GitStore, files: StoreWriter, covers: Covers) -> None:
    """Make the commit unless it is there, and name it. Needs the lock of exports.

    ``files``: those of a successful export. Takes time in proportion to the history.
    """
    docket, repository = files.docket, store.repository
    if is_current(store, docket, covers):
        return
    conversion = ExportConversion.into(store)
    layers = (docket.drafts, docket.base) if covers is Covers.ALL else (docket.base,)
    commit = conversion.metadata_commit(store.repo.ui, *layers)
    if covers is Covers.ALL and docket.drafts.segments:
        docket = files.settle(docketedits.with_drafts_commit(docket, commit))
    else:
        docket = files.settle(docketedits.with_base_commit(docket, commit))
    oid = metadata_oid(docket)
    directory, dialect = store.maps.directory, store.config.dialect
    last = LastNames.read(directory, dialect)
    if last is not None and last.named != repository.names_digest():
        last = None
    files.change_names({METADATA: bytes.fromhex(oid) or None}, repository.head())
    digest = repository.names_digest() if docket.named else ""
    if last is not None:
        last = last.with_refs_of(repository)._replace(metadata=oid)
        last.write(directory, dialect, store.placement)
    files.write(docketedits.named(docket, digest))


def catch_up(store: GitStore) -> None:
    """Make the commit of all that is exported, if nothing stands against it.

    Does nothing while another process has the lock of exports, nor in a store that is
    damaged, out of date or may not be written.
    """
    docket = store.docket()
    with contextlib.suppress(error.Abort, error.LockError, error.StorageError, OSError):
        if is_current(store, docket, Covers.ALL):
            return
        with store.locked(wait=False):
            files = StoreWriter(store)
            files.read()
            files.remove_debris()
            if store.may_answer() and _is_as_named(store, files.docket):
                make(store, files, Covers.ALL)
                files.finish()


def _is_as_named(store: GitStore, docket: Docket) -> bool:
    """Return whether packs and refs are those of the last export."""
    repository = store.repository
    names = repository.names_digest()
    return repository.packs().issuperset(docket.packs) and docket.named == names
