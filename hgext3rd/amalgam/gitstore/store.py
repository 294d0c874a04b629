"""The git store of a repository: its paths, its contents, and whether it may be read.

Writes nothing but the lock of exports, ``.hg/amalgam/lock``: one export runs at a time.
That is taken after Mercurial's own locks, or without them. An export takes no lock of
Mercurial. So no process that waits for a Mercurial lock waits for an export. Does not
know how an export is made.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from .. import locking
from ..config import GitConfig
from ..files import Directory, Placement, Unusable
from ..trust import Trust
from . import censorship, plan, selection
from .adopted import AdoptedFile
from .docket import Docket
from .git import packfiles
from .git.process import Git, Owner
from .git.repository import Repository
from .oidmap import MapFiles, Table
from .source import source_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT

    from ..locking import Hold
    from .oidmap import OidMap

# another export may merge segments between reading the docket and opening them
_TRIES = 5
# the names of all packs that there could be
_PENDING_BYTES = 1 << 24
_REMOVALS_BYTES = 100


class GitStore:
    """The git store of one dialect of a Mercurial repository, and its map."""

    def __init__(self, repo: RepoT, config: GitConfig) -> None:
        """For a share, it is the store of its source, with the source's ``config``."""
        self.repo = source_of(repo)
        if self.repo is not repo:
            config = GitConfig.from_ui(self.repo.ui, config.dialect)
        self.config = config
        self.asked = repo
        """The repository that was asked for: a share, or the source itself."""
        hg_path = self.repo.sharedpath
        # for the map, too: users without access to one have none to the other
        place = Placement.elsewhere if config.path else Placement.at
        self.placement = place(self.repo.store.path, hg_path)
        self.trust = Trust.of(self.repo.ui, self.repo.store.path, hg_path)
        self.directory = Directory(hg_path, (b"amalgam",))
        self.maps = MapFiles(self.directory.sub(b"map"), self.trust)
        adopted = self.directory.sub(b"adopted")
        self.adopted = AdoptedFile(adopted, config.dialect, self.trust)
        configured = Directory(config.path) if config.path else None
        parent = configured or self.directory.sub(b"git")
        owner = Owner(self.repo.ui, hg_path)
        git = Git(config.program, parent.sub(config.dialect + b".git"), owner)
        self.repository = Repository(
            git, self.placement, shows_heads=b"heads" in config.refs
        )
        self._hold: Hold | None = None

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

    @property
    def removals(self) -> bytes:
        """The file with a random value, another one before packs are removed."""
        return self.config.dialect + b".removals"

    def removals_mark(self) -> bytes:
        """Return that value, or empty."""
        return self.maps.directory.tryread(self.removals, _REMOVALS_BYTES)

    def require_trust(self) -> None:
        """Raise ``SecurityError`` in the repository of an untrusted user.

        Needed before files are written and git is run.
        """
        self.trust.require(self.repo.sharedpath)

    @contextlib.contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock of exports.

        While another process holds it, wait as long as ``ui.timeout`` says, or not at
        all without ``wait``, or in a process that has a Mercurial lock: then
        ``LockHeld`` at once. ``LockUnavailable`` if the lock cannot be made,
        ``Unusable`` if it is no lock.
        """
        repo = self.asked
        has_hg_lock = repo.currentwlock() or repo._currentlock(repo._lockref)
        waits = wait and not has_hg_lock
        timeout = repo.ui.configint(b"ui", b"timeout") if waits else 0
        lock = locking.held(
            repo.ui,
            self.directory,
            self.placement,
            _(b"git store of %s") % repo.origroot,
            timeout=timeout,
            warn_after=repo.ui.configint(b"ui", b"timeout.warn"),
        )
        with contextlib.ExitStack() as stack:
            try:
                self._hold = stack.enter_context(lock)
            except error.LockHeld as exc:
                if timeout:
                    raise
                # nobody waited, so that nothing "timed out"
                raise error.LockHeld(
                    errno.EAGAIN, exc.filename, exc.desc, exc.locker
                ) from None
            try:
                yield
            finally:
                self._hold = None

    def require_lock(self) -> None:
        """Raise ``StateError`` if the lock of exports was lost to another host."""
        if self._hold:
            self._hold.require()

    def docket(self) -> Docket:
        """Return the docket; an empty one if the git repository is gone."""
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
        """Open the map for git-cinnabar, as ``docket`` names it.

        From a commit to the note of its changeset, from a manifest to its commit, from
        a file revision to its copy metadata.
        """
        return self.maps.open(docket.metadata_segments)

    def may_answer(self) -> bool:
        """Return whether readers of the repository may see all exported changesets.

        To be asked whenever ``selection.state_of`` has changed; if not, answer after an
        export, or not at all. Quick unless a changeset was removed, hidden or published
        below the last one.
        """
        docket, export = self.docket(), self.config.export
        if not self.is_complete(docket):
            return False
        return plan.is_safe(self.repo, export, docket, self.maps)

    def is_complete(self, docket: Docket) -> bool:
        """Return whether ``is_settled``, and no export is writing or has left objects.

        Takes the same time at any size.
        """
        # dropped and pending packs do not count in the docket
        is_ending = docket.dropped or self.maps.directory.exists(self.pending)
        return not is_ending and self.is_settled(docket)

    def missing(self) -> int:
        """Return about how many changesets the next export converts.

        ``StorageError`` or ``OSError`` if that cannot be read. Cost as of an export of
        nothing.
        """
        selected = selection.select(self.repo, self.config.export).changesets()
        docket = self.docket()
        if docket.censored != censorship.mark_of(self.repo):
            return selected
        with contextlib.closing(self.open_map(docket)) as oidmap:
            return max(0, selected - oidmap.count(Table.CHANGESETS))

    def is_settled(self, docket: Docket) -> bool:
        """Return whether the files of the store are those that ``docket`` names.

        And whether no text was censored since. Takes the same time at any size.
        """
        try:
            mark = censorship.mark_of(self.repo)
        except error.StorageError:
            return False
        if docket.refused or docket.censored != mark:
            return False
        return not packfiles.unlisted_holders(self.repository, docket)


def has_foreign_ids(repo: RepoT) -> bool:
    """Return whether exported commits have other ids than git-cinnabar's."""
    config = GitConfig.from_ui(repo.ui)
    store = GitStore(repo, config)
    is_other = not config.keeps_metadata or store.adopted.exists()
    return is_other or store.docket().has_foreign_ids
