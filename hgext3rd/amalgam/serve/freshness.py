"""Freshness: whether a git store may be read now, and is up to date.

The verdict on a store is cached while the files of repository and store are unchanged,
so most requests cost a few system calls. A running export is not part of it, and is
asked for on each call. A request waits for an export if changesets are missing. Does
not know how an export is made.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
import time
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from mercurial import error
from mercurial.i18n import _
from mercurial.utils import stringutil

from .. import locking
from ..files import Unusable
from ..gitstore import plan, selection
from ..gitstore.export import export as exporting, exporter, request
from ..gitstore.export.journal import TransactionAbandoned
from ..gitstore.export.settled import Settled
from ..gitstore.git import packfiles
from ..locking import LockState
from ..records import Record
from .errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..gitstore.docket import Docket
    from ..gitstore.selection import FilesState
    from ..gitstore.store import GitStore

    _Key: TypeAlias = tuple[bytes, bytes, object]


_MOST_KNOWN = 10_000
_LOOK_PAUSE_SECONDS = 0.02
_CUTTING_SECONDS = 1
_BROKEN = b"the git repository cannot be read; its operator finds the reason in the log"
UNREADABLE = (OSError, error.Abort, error.StorageError)
"""Errors of reading a repository or its store."""
_T = TypeVar("_T")


class Verdict(Record):
    """A verdict on a store, and the state of the files that it is about."""

    state: FilesState
    names: tuple[object, ...]
    docket: Docket
    is_safe: bool
    is_current: bool
    missing: int | None = None
    """About how many changesets the next export converts, if that is known."""
    damaged: bytes = b""
    """A pack that git cannot open."""


_known: dict[_Key, Verdict] = {}
_finding: dict[_Key, threading.Lock] = {}
_one_look_at_a_time = threading.Lock()


def look(store: GitStore) -> Verdict:
    """Return the current verdict, from the cache if possible."""
    return patiently(store, functools.partial(_look, store))


def patiently(store: GitStore, ask: Callable[[], _T]) -> _T:
    """Return the result of ``ask``; ``HttpError`` if it cannot read a file.

    A strip truncates one file after the other, so ``ask`` has some time to succeed.
    """
    end = time.monotonic() + _CUTTING_SECONDS
    while True:
        try:
            return ask()
        except FileNotFoundError:
            raise
        except UNREADABLE as exc:
            if time.monotonic() > end:
                raise _failure(exc) from None
        time.sleep(_LOOK_PAUSE_SECONDS)
        with contextlib.suppress(*UNREADABLE):
            selection.read_again(store.repo)


def _look(store: GitStore) -> Verdict:
    shown = store.repo.ui.config(b"server", b"view")
    key = (store.repo.sharedpath, store.repository.path, (store.config, shown))
    state = selection.state_of(store.repo)
    names = store.repository.names_state()
    known, damaged = _known.get(key), b""
    try:
        if not _holds(known, store, state, names):
            known = _find(store, key)
        if known is not None and _is_whole(store, known.docket):
            damaged = _damaged(store, known.docket)
            if not damaged:
                return known
    except FileNotFoundError:  # an export has just replaced a file, or all was removed
        known = None
    docket, missing = (known.docket, known.missing) if known else (store.docket(), None)
    return Verdict(
        *(state, names, docket),
        is_safe=False,
        is_current=False,
        missing=missing,
        damaged=damaged,
    )


def _find(store: GitStore, key: _Key) -> Verdict | None:
    """Compute and cache the verdict; ``None`` while files of the store change.

    ``_holds`` may not notice such a change, so a verdict of that time is not cached.
    """
    # the other threads would find out the same
    with _one_look_at_a_time:
        lock = _finding.setdefault(key, threading.Lock())
    with lock:
        state = selection.state_of(store.repo)
        names = store.repository.names_state()
        known = _known.get(key)
        if not _holds(known, store, state, names):
            places = _places(store)
            if not _is_whole(store, store.docket()):
                return None
            try:
                known = _found(store, state, names)
            finally:
                _release(store)
            # something may have come and gone: an export that was given up
            is_sure = known.is_current or _places(store) == places
            if not is_sure or not _is_whole(store, known.docket):
                return None
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[key] = known
        return known


def _is_whole(store: GitStore, docket: Docket) -> bool:
    return store.is_complete(docket)


def _places(store: GitStore) -> tuple[object, ...]:
    """Return the file stats of the directories that exports write into."""
    repository = store.repository
    loose = map(repository.directory.sub, repository.loose_object_directories())
    objects = repository.directory.sub(b"objects")
    written = (store.maps.directory, objects, repository.packs_directory)
    found = [directory.stat() for directory in (*written, *loose)]
    return tuple((it.st_dev, it.st_ino, it.st_mtime_ns, it.st_ctime_ns) for it in found)


def _holds(
    known: Verdict | None,
    store: GitStore,
    state: FilesState,
    names: tuple[object, ...],
) -> bool:
    """Return whether a verdict is about these files, and about the current docket."""
    if known is None or (known.state, known.names) != (state, names):
        return False
    return store.docket() == known.docket


def _damaged(store: GitStore, docket: Docket) -> bytes:
    """Return a pack in the docket that git cannot open, or None.

    ``FileNotFoundError`` if an export has just replaced packs.
    """
    found = packfiles.damaged(store.repository.packs_directory, docket.packs)
    if found and store.docket() != docket:
        raise FileNotFoundError
    return found


def _found(store: GitStore, state: FilesState, names: tuple[object, ...]) -> Verdict:
    """Compute the verdict; ``state`` and ``names`` were taken before."""
    if Settled.now(store):
        return Verdict(state, names, store.docket(), is_safe=True, is_current=True)
    repo = store.repo
    selection.read_again(repo)
    docket = store.docket()
    is_named = bool(docket.named) and docket.named == store.repository.names_digest()
    is_safe = is_named and plan.is_safe(repo, store.config.export, docket, store.maps)
    is_current = is_safe and exporting.is_up_to_date(store)
    missing = None if is_current else store.missing()
    return Verdict(state, names, docket, is_safe, is_current, missing)


def _release(store: GitStore) -> None:
    """Forget cached data of the repository.

    hgweb keeps a repository for each request that was answered at the same time as
    others. With 100,000 heads and bookmarks, each would have 40 MB.
    """
    store.repo.invalidate(clearfilecache=True)


def damage(store: GitStore, pack: bytes) -> HttpError:
    """Return the refusal for a pack that git would pass over."""
    text = _(
        b"pack '%s' is missing or damaged; see 'hg git::verify', or make all packs "
        b"again with 'hg git::export --rebuild'"
    )
    path = store.repository.packs_directory.join(pack)
    return HttpError.later(_BROKEN, logged=text % path)


def _failure(exc: BaseException) -> HttpError:
    """Return the error for a repository that cannot be exported."""
    problem = stringutil.forcebytestr(exc)
    if isinstance(exc, Unusable):
        problem = exc.message
    return HttpError.later(
        _BROKEN,
        logged=_(b"git store cannot be read: %s") % problem,
    )


_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.5
_LATER = b"the git repository is being made up to date; try again"
_FAILED = (
    b"the git repository cannot be made up to date; its operator finds why in the log"
)
_NO_EXPORTER = (
    b"the git repository cannot be made up to date: no exporter can be started; its "
    b"operator finds why in the log"
)
_MOST_EXPORTERS = 3
"""How many exporters one request starts before it gives up."""
_READ_ONLY = b"the git store is not up to date, and this process may not write it"


class _Exports:
    """Exports of this process's threads into one store, one at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last_began = -math.inf
        """When the last one began that succeeded; ``time.monotonic()``."""

    def note(self, began: float) -> None:
        """Note one that succeeded; the lock is held."""
        self.last_began = began


_exports: dict[tuple[bytes, object], _Exports] = {}
_one_at_a_time = threading.Lock()


class Freshness:
    """One request for a store that may be read."""

    def __init__(
        self,
        store: GitStore,
        limit: int,
        timeout: float,
        waits_on: Callable[[], bool] | None = None,
    ) -> None:
        """``limit``: how many missing changesets are exported before an answer.

        ``timeout``: how many seconds the request may wait. If it waits for a first
        export, it goes on while that works and ``waits_on`` returns true.
        """
        self._store = store
        self._limit = limit
        self._needed = time.monotonic()
        """When an export has to begin, at the earliest, to be new enough."""
        self._end = self._needed + timeout
        self._waits_on = waits_on
        self._started = 0

    def ensure(self, *, now: bool = False) -> None:
        """See that the store may be read, and is as fresh as it has to be.

        ``now``: up to date, whatever that takes. ``HttpError`` if that cannot be, or
        not in time.
        """
        store = self._store
        pause = _PAUSE_SECONDS
        while True:
            known = look(store)
            if known.is_current:
                return
            if known.damaged and not self._is_locked():
                raise damage(store, known.damaged)
            # an empty store is no earlier state of a repository with changesets
            may_be_old = known.is_safe and not now and bool(known.docket.packs)
            if not _may_write(store):
                if may_be_old:
                    return
                logged = _READ_ONLY  # unless another process is at it
            elif self._is_locked():
                if may_be_old and self._missing(known) > self._limit:
                    return
                logged = b""
            elif self._missing(known) <= self._limit:
                has_worked, looked = self._export(), time.monotonic()
                if look(store).is_safe and (has_worked or may_be_old):
                    return
                if not has_worked:
                    raise HttpError.later(_FAILED)
                # something was hidden since: only a later export leaves it out
                self._needed = looked
                logged = b""
            else:
                problem = self._start()
                if may_be_old:
                    return
                if problem:
                    raise HttpError.later(problem)
                logged = b""
            if self._left() <= 0:
                if may_be_old:
                    return
                is_first = not known.docket.named
                # it may have ended since the look
                if not (is_first and self._goes_on()) and not look(store).is_current:
                    raise HttpError.later(_LATER, logged=logged)
            time.sleep(pause)
            pause = min(1.1 * pause, _LONGEST_PAUSE_SECONDS)

    def _missing(self, known: Verdict) -> int:
        if known.missing is not None:
            return known.missing
        try:
            return patiently(self._store, self._store.missing)
        except FileNotFoundError:
            return 0  # segments are being merged; look again
        finally:
            _release(self._store)

    def _is_locked(self) -> bool:
        """Return whether another process exports."""
        held = locking.holder(self._store.directory)
        if held is None or held.state is not LockState.RUNNING:
            return False
        return held.pid != os.getpid()

    def _export(self) -> bool:
        """Export; return whether that succeeded.

        Threads of this process share an export that is new enough for each of them.
        """
        store = self._store
        with _one_at_a_time:
            key = (store.repo.sharedpath, store.config)
            exports = _exports.setdefault(key, _Exports())
        if not exports.lock.acquire(timeout=max(0, self._left())):
            raise HttpError.later(_LATER)
        try:
            if exports.last_began > self._needed or look(store).is_current:
                return True
            if exporter.must_wait(store.repo):
                return False
            began = time.monotonic()
            with _patience(store, self._left()):
                exporting.export(store, once=True)
            exports.note(began)
            exporter.forget_failure(store.repo)
            with contextlib.suppress(*UNREADABLE):  # the next export tries again
                exporter.roll_up_if_due(store)
        except Exception as exc:
            problem = stringutil.forcebytestr(exc)
            store.repo.ui.log(b"amalgam", b"export for git failed: %s\n", problem)
            # another one may end yet, and somebody run hg recover
            if not isinstance(exc, error.LockError | TransactionAbandoned):
                exporter.note_failure(store.repo, exc)
            return False
        finally:
            _release(store)
            exports.lock.release()
        return True

    def _start(self) -> bytes:
        """Let another process export; return why that cannot be, for the client."""
        repo = self._store.repo
        try:
            if request.is_exporter_running(request.exporter_directory(repo)):
                return b""
            if exporter.note_lost_start(repo):
                return _NO_EXPORTER
            if self._started == _MOST_EXPORTERS or exporter.must_wait(repo):
                return _FAILED
            self._started += 1
            request.start_exporter_for_server(self._store.asked)
        except UNREADABLE as exc:
            problem = stringutil.forcebytestr(exc)
            repo.ui.log(b"amalgam", b"no export for git: %s\n", problem)
            if not isinstance(exc, error.Abort):  # a stranger's repository
                exporter.note_failure(repo, exc)
            return _NO_EXPORTER
        return b""

    def _goes_on(self) -> bool:
        """Return whether an export is running, and the client waits for it."""
        directory = request.exporter_directory(self._store.repo)
        is_running = self._is_locked() or request.is_exporter_running(directory)
        return is_running and self._waits_on is not None and self._waits_on()

    def _left(self) -> float:
        return self._end - time.monotonic()


def _may_write(store: GitStore) -> bool:
    """Return whether this process may change the store."""
    for path in (store.directory.path, store.directory.root):
        if os.path.isdir(path):
            effective = os.access in os.supports_effective_ids
            return os.access(path, os.W_OK, effective_ids=effective)
    return False


@contextlib.contextmanager
def _patience(store: GitStore, seconds: float) -> Iterator[None]:
    """Let an export wait for another one no longer than ``seconds``."""
    wait = b"%d" % max(1, int(seconds))
    overrides = {(b"ui", b"timeout"): wait, (b"ui", b"timeout.warn"): b"0"}
    with store.asked.ui.configoverride(overrides, b"amalgam"):
        yield
