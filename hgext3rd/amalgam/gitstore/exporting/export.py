"""An export: whether it is possible, whether it is needed, and what it did.

``steps`` has the order of work.
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
from ...placement import Unusable
from ...records import Record
from ..state import requirements
from . import pending
from .exportlock import locked
from .steps import ExportRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT

    from ..state.selection import FilesState
    from ..store import GitStore
    from .metadatacommit import Covers

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
    pending.refuse(store.asked)
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
