"""Status of a git store, and its repair.

Status is size, freshness and problems. It reads only the tables of the map, so it is
quick for stores of any size. Repair removes foreign files, then exports missing
changesets, or everything: all data is derived.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from mercurial import error, phases, repoview, util
from mercurial.i18n import _
from mercurial.node import bin

from .. import background
from ..config import wants_export_on_change
from ..files import Unusable
from ..locking import LOCK, Holder, LockState, holder
from ..records import Record
from . import packgroups, requirements, selection, verify
from .docket import Docket
from .export import export, exporter, maintenance, request
from .export.lastexport import LastExport
from .failures import Failure
from .git import branchtips, lastnames
from .git.packfiles import object_count
from .oidmap import Table
from .verify import Remedy
from .verify.files import foreign_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mercurial.interfaces.types import RepoT

    from ..files import Directory
    from .store import GitStore
    from .verify import Difference, Findings


_EXPORT = _(b"run 'hg git::export'")
_LOG = _(b"see the log of hg (category 'amalgam'), or run 'hg git::export'")
# an exporter has begun by then, even if the machine is busy
_LONGEST_START_SECONDS = 60
_MAINTAIN = _(b"next attempt after an export; or run 'hg debug::amalgam-maintenance'")
_REPAIR = _(b"run 'hg admin::amalgam --repair'")


class Problem(Record):
    """Something that does not mend itself."""

    text: bytes
    hint: bytes
    """The next step, preferably a command to type."""


class StoreStatus:
    """A git store at a glance; the default is one that was never exported."""

    served: int = 0
    """Changesets that should be exported."""
    behind: int = 0
    """Changesets among them without a commit."""
    gone: int = 0
    """Changesets that are exported, and were amended, hidden or stripped since."""
    metadata_behind: int = 0
    """Those that are exported, and that the metadata commit does not cover."""
    refs: int = 0
    refs_behind: int = 0
    """Refs that another export changes."""
    objects: int = 0
    packs: int = 0
    pack_bytes: int = 0
    """Size of packs and their indexes."""
    growth_bytes: int = 0
    """Likely growth of these by exports until packs are rolled up."""
    peak_bytes: int = 0
    """Size of these during the next roll-up."""
    segments: int = 0
    map_bytes: int = 0
    adopted: int = 0
    """Changesets whose commits another program has made."""
    is_exact: bool = False
    """Whether extras of changesets name commits, so that no metadata is advertised."""
    exists: bool = False
    exporter: bytes = b"off"
    """Whether changes are exported in the background: ``off``, ``idle``, ``working``,
    or ``waiting`` after a failure."""
    export_failures: int = 0
    """Background exports that failed in a row."""
    maintenance_failures: int = 0
    """Roll-ups of packs that failed in a row."""

    def __init__(
        self, lock: Holder | None = None, last: LastExport | None = None
    ) -> None:
        self.lock = lock
        self.last = last
        """The last export that changed something."""
        self.pairs: dict[Table, int] = {}
        """Pairs in each table of the map."""
        self.problems: list[Problem] = []

    @classmethod
    def of(cls, store: GitStore) -> StoreStatus:
        """Look at ``store``."""
        status = cls(lock=holder(store.directory), last=LastExport.read(store))
        try:
            status._check_surroundings(store)
            status._look(store)
        except NotADirectoryError:
            text = _(b"'%s' is not a directory") % store.repository.path
            status.problems.append(Problem(text, _(b"remove what is in its place")))
        status._check_exporter(store)
        status._check_roll_ups(store)
        return status

    def _look(self, store: GitStore) -> None:
        """Measure the store, and compare it with the history."""
        docket = Docket.read(store.maps.directory, store.config.dialect)
        selected = selection.select(store.repo, store.config.export)
        self.served = selected.len - len(selected.excluded)
        self.behind = self.served
        self.exists = docket != Docket() or store.repository.exists()
        with contextlib.suppress(error.StorageError):  # one of the problems
            self.adopted = store.adopted.changesets()
        if not self.exists:
            return
        self._measure(store, docket)
        findings = verify.run(store, deep=False)
        self.refs = findings.refs
        unexported = 0
        refs = []
        for difference in findings.differences:
            is_running = self.lock and self.lock.state is LockState.RUNNING
            if is_running and difference.what != b"changeset":
                continue  # the beginning of an export would look wrong
            if _is_gone(store.repo, difference):
                self.gone += 1  # the next export does all that it takes
            elif difference.remedy is Remedy.WITHDRAW:
                text = difference.line().rstrip()
                self.problems.append(Problem(text, _EXPORT))
            elif difference.remedy is not Remedy.EXPORT:
                text = difference.line().rstrip()
                self.problems.append(Problem(text, _REPAIR))
            elif difference.what == b"changeset":
                unexported += 1
            elif difference.what == b"layer":
                pass  # published since the last export
            else:
                refs.append(difference)
        if findings.changesets:
            self.behind = unexported
        self._judge(store, docket, refs)

    def _check_surroundings(self, store: GitStore) -> None:
        """See whether an export could work at all, and nobody locks it out."""
        try:
            requirements.check(store.repo)
            store.repository.git.run("rev-parse", "--git-dir", check=False)
        except (error.Abort, error.StorageError) as exc:
            hint = exc.hint or _(b"see 'hg help git::export'")
            self.problems.append(Problem(exc.message, hint))
        if self.lock and self.lock.needs_person:
            lock = store.directory.join(LOCK)
            hint = _(b"remove '%s' if no export is running there") % lock
            self.problems.append(Problem(_(b"lock %s") % self.lock.explain(), hint))

    def _check_exporter(self, store: GitStore) -> None:
        """See whether the store follows, if it should."""
        directory = request.exporter_directory(store.repo)
        failure = Failure.read(directory, exporter.FAILURE)
        follows = wants_export_on_change(store.repo.ui)
        is_there, lost = False, b""
        try:
            is_there = request.is_exporter_running(directory)
            if not is_there:
                lost = background.failure(store.repo, request.COMMAND, has_ended=True)
        except Unusable as exc:
            if follows:
                self.problems.append(Problem(exc.message, exc.hint or _LOG))
        if follows:
            self.exporter = b"working" if is_there else b"idle"
        if failure is not None:
            self.export_failures = failure.attempts
            hint = _(b"next attempt after the next change; or run 'hg git::export'")
            wait = int(failure.retry - time.time())
            if is_there and wait > 0:
                self.exporter = b"waiting"
                hint = _(b"next attempt in %d seconds; or run 'hg git::export'") % wait
            elif is_there:
                hint = _(b"next attempt is running")
            text = failure.explain(_(b"background export failed"))
            self.problems.append(Problem(text, hint))
        elif lost:
            self.export_failures = 1
            self.problems.append(Problem(lost, _EXPORT))
        elif self.exporter == b"idle" and (
            self.behind or self.gone or self.refs_behind
        ):
            newest = max(stamp[3] for stamp in selection.state_of(store.repo) if stamp)
            if time.time() - newest / 1e9 > _LONGEST_START_SECONDS:
                text = _(b"changes are not exported, but the configuration asks for it")
                self.problems.append(Problem(text, _LOG))

    def _check_roll_ups(self, store: GitStore) -> None:
        failure = maintenance.failure(store)
        if failure is not None:
            self.maintenance_failures = failure.attempts
            text = failure.explain(_(b"maintenance of packs failed"))
            self.problems.append(Problem(text, _MAINTAIN))
        elif problem := background.failure(store.repo, maintenance.COMMAND):
            self.maintenance_failures = 1
            self.problems.append(Problem(problem, _MAINTAIN))

    def _measure(self, store: GitStore, docket: Docket) -> None:
        self.packs = len(docket.packs)
        sizes = {
            pack: _size(store.repository.packs_directory, _files_of(pack))
            for pack in docket.packs
        }
        self.pack_bytes = sum(sizes.values())
        room = packgroups.room(docket, sizes.__getitem__)
        self.problems += _disk_problems(store, self.packs, room)
        objects = {
            pack: object_count(store.repository.packs_directory, pack)
            for pack in docket.packs
        }
        self.objects = sum(objects.values())
        self.growth_bytes = packgroups.growth(
            docket, objects.__getitem__, sizes.__getitem__
        )
        # added packs are copied, too
        self.peak_bytes = self.pack_bytes + room + 2 * self.growth_bytes
        self.is_exact = docket.is_exact
        self.segments = len(docket.segments)
        self.map_bytes = _size(store.maps.directory, map(os.fsencode, docket.segments))
        try:
            oidmap = store.open_map(docket)
        except (OSError, error.StorageError):
            return  # one of the problems
        self.pairs = {table: oidmap.count(table) for table in Table}
        oidmap.close()
        covered = docket.metadata_commit.covered
        if store.config.keeps_metadata and not docket.has_foreign_ids:
            self.metadata_behind = max(0, self.pairs[Table.CHANGESETS] - covered)

    def _judge(
        self, store: GitStore, docket: Docket, refs: Iterable[Difference]
    ) -> None:
        """Tell refs that are only old from those that somebody else made."""
        as_exported = docket.named in ("", store.repository.names_digest())
        for ref in refs:
            if not as_exported or ref.what == b"loose ref":
                self.problems.append(Problem(ref.line().rstrip(), _EXPORT))
            elif ref.id != b"HEAD" or not self.refs_behind:
                self.refs_behind += 1  # the branch of HEAD counts once


def _files_of(pack: str) -> list[bytes]:
    name = os.fsencode(pack)
    return [name + suffix for suffix in (b".pack", b".idx", b".rev")]


def _disk_problems(store: GitStore, packs: int, room: int) -> Iterator[Problem]:
    """Yield reasons for failing roll-ups; ``room``: the space that one needs."""
    with contextlib.suppress(OSError):
        with store.repository.packs_directory.opened() as fd:
            found = os.fstatvfs(fd)
        free = found.f_bavail * found.f_frsize
        if free < room:
            text = _(b"packs cannot be rolled up: needs %s, but only %s are free")
            text %= (util.bytecount(room), util.bytecount(free))
            yield Problem(
                text, _(b"make room on the file system of the git repository")
            )
    if packs >= packgroups.MOST:
        text = _(b"%d packs are not rolled up (expected fewer than %d)")
        yield Problem(text % (packs, packgroups.MOST), _EXPORT)


def _is_gone(repo: RepoT, difference: Difference) -> bool:
    """Return whether an exported changeset has been replaced or removed since.

    Secret changesets stay in the repository, but git users must not get them.
    """
    if difference.what != b"changeset" or difference.remedy is not Remedy.WITHDRAW:
        return False
    unfiltered = repo.unfiltered()
    rev = unfiltered.changelog.index.get_rev(bin(difference.id))
    if rev is None:
        return True
    hidden = repoview.filterrevs(unfiltered, b"visible")
    return rev in hidden and unfiltered[rev].phase() < phases.secret


def _size(directory: Directory, names: Iterable[bytes]) -> int:
    total = 0
    for name in names:
        with contextlib.suppress(FileNotFoundError, Unusable):
            total += directory.stat(name).st_size
    return total


# foreign packs may contain the only copies of needed objects
_ROUNDS = 2


def repair(store: GitStore) -> tuple[Findings, Findings]:
    """Verify ``store``, mend it, and verify again; return the first and last findings.

    With nothing to mend nothing is written, and both are the same. Takes as long as a
    verification, or two with an export between them.
    """
    store.require_trust()
    before = findings = verify.run(store)
    for _round in range(_ROUNDS):
        if findings.remedy is None:
            break
        _apply(store, findings.remedy)
        findings = verify.run(store)
    return before, findings


def _apply(store: GitStore, remedy: Remedy) -> None:
    if remedy is not Remedy.EXPORT:
        _remove_foreign(store)
    for cache in (branchtips, lastnames):
        cache.forget(store.maps.directory, store.config.dialect)
    export.export(store, rebuild=remedy is Remedy.REBUILD)
    if remedy is Remedy.REBUILD:
        _remove_foreign(store)  # leftovers of packs that were ours


def _remove_foreign(store: GitStore) -> None:
    with store.locked():
        docket = Docket.read(store.maps.directory, store.config.dialect)
        for file in foreign_files(store.repository, docket):
            store.repository.directory.remove(file)
