"""The git store of a repository: where it is, and how it is brought up to date.

Owns what can be said before and after an export: that one is not possible, that none
is needed, what it did. What it does is in ``run``.
"""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING

from mercurial import error, txnutil
from mercurial.i18n import _

from ...audience import elsewhere
from ...configitems import GitConfig
from ...placement import Directory, Placement, Unusable
from ...records import Record
from ...trust import Trust
from ..git import strays
from ..git.gitprocess import Git, Owner
from ..git.repository import Repository
from ..state import censorship, layers, requirements
from ..state.docket import Docket
from ..state.oidmap import MapFiles
from ..state.source import source_of
from .exclusion import locked
from .run import Run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT

    from ..state.oidmap import OidMap

# another export may merge segments between reading the docket and opening them
_TRIES = 5
# the names of some packs
_PENDING_BYTES = 1 << 16
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


class Report(Record):
    """What an export did."""

    path: bytes
    """The git repository."""
    start: int
    """The first revision that was not there at the last export."""
    named: frozenset[bytes]
    """Changesets that refs lead to."""
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
    """Drafts that had been exported and had to go; the others were converted again."""
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
        hg_path = self.repo.sharedpath
        # for the map, too: who does not get to the one does not get to the other
        place = elsewhere if config.path else Placement.at
        self.placement = place(self.repo.store.path, hg_path)
        self.trust = Trust.of(self.repo.ui, self.repo.store.path, hg_path)
        self.directory = Directory(hg_path, (b"amalgam",))
        self.maps = MapFiles(self.directory.sub(b"map"), self.trust)
        configured = Directory(config.path) if config.path else None
        parent = configured or self.directory.sub(b"git")
        owner = Owner(self.repo.ui, hg_path)
        git = Git(config.program, parent.sub(config.dialect + b".git"), owner)
        self.repository = Repository(
            git, self.placement, shows_heads=b"heads" in config.refs
        )

    @property
    def pending(self) -> bytes:
        """The file that names a pack which the docket does not have yet."""
        return self.config.dialect + b".pending"

    def pending_packs(self) -> list[str]:
        """Return the names that are in that file."""
        try:
            content = self.maps.directory.tryread(self.pending, _PENDING_BYTES)
        except Unusable:
            return []
        return content.decode("ascii", "replace").split()

    def require_trust(self) -> None:
        """Raise ``SecurityError`` in a repository of somebody who is not trusted.

        Needed by all that writes files, and by all that runs git.
        """
        self.trust.require(self.repo.sharedpath)

    def docket(self) -> Docket:
        """Return what is exported; nothing if the git repository is gone."""
        docket = Docket.read(self.maps.directory, self.config.dialect)
        return docket if self.repository.packs() or not docket.packs else Docket()

    def open_map(self, docket: Docket | None = None) -> OidMap:
        """Open the map that ``docket`` names, by default the one on disk."""
        if docket is not None:
            return self.maps.open(docket.segments)
        for remaining in reversed(range(_TRIES)):
            try:
                return self.maps.open(self.docket().segments)
            except FileNotFoundError:
                if not remaining:
                    raise
        raise AssertionError

    def open_metadata_map(self, docket: Docket) -> OidMap:
        """Open the map of what only git-cinnabar needs, as ``docket`` names it.

        From a commit to the note of its changeset, from a manifest to its commit, from
        a file revision to what precedes its content.
        """
        return self.maps.open(docket.metadata.segments)

    def may_answer(self) -> bool:
        """Tell whether all that is exported may be read by who reads the repository.

        What answers from the store asks this whenever ``selection.state_of`` has
        changed; if not, it answers after an export, or not at all. Quick unless
        something was removed, hidden or published below the last changeset.
        """
        docket, export = self.docket(), self.config.export
        # what is dropped, or pending, is in packs that the docket does not count
        is_ending = docket.dropped or self.maps.directory.exists(self.pending)
        if is_ending or not self.is_settled(docket):
            return False
        return layers.is_safe(self.repo, export, docket, self.maps)

    def is_settled(self, docket: Docket) -> bool:
        """Tell whether all that is in the store is what ``docket`` names.

        And whether no text was censored since. Takes the same time at any size.
        """
        try:
            mark = censorship.mark_of(self.repo)
        except error.StorageError:
            return False
        if docket.refused or docket.censored != mark:
            return False
        return not strays.holders(self.repository, docket)

    def export(
        self, revs: Iterable[int] | None = None, *, rebuild: bool = False
    ) -> Report:
        """Bring the store up to date with what the repository serves.

        ``revs``: only these and their ancestors. ``rebuild``: from nothing, and forget
        all that was there. Takes time in proportion to what is new. ``StateError`` if
        there is something to write and it cannot be written.
        """
        started = time.monotonic()
        self.require_trust()
        requirements.check(self.repo)
        self._refuse_what_is_pending()
        nodes = None
        if revs is not None:
            node = self.repo.unfiltered().changelog.node
            nodes = [node(rev) for rev in revs]
        run = Run(self, nodes)
        try:
            self.maps.directory.make(self.placement)
            with locked(self._asked, self.directory, self.placement):
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
            pack=next((done.pack for done in reversed(run.done) if done.pack), ""),
            refs=run.refs,
            deleted=run.deleted,
            gone=run.gone,
            seconds=time.monotonic() - started,
            start=run.start,
            named=run.named,
        )

    def _refuse_what_is_pending(self) -> None:
        """Abort in a transaction that may yet be rolled back."""
        pending = txnutil.mayhavepending(self._asked.root)
        if pending or self._asked.currenttransaction() is not None:
            raise error.StateError(
                _(b"cannot export while a transaction is open"),
                hint=_(b"export from a txnclose hook"),
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
            hint = _(b"export on a host that may write to this file system")
        return error.StateError(
            _(b"git store is not up to date and cannot be written: %s: '%s'")
            % (reason, path),
            hint=hint,
        )
