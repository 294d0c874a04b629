"""The replicator: a background process that pushes to remotes that follow changes.

An export starts one, unless one runs (``request.start_replication``). Each remote has a
thread, so a slow one does not hold back others; changes made meanwhile are pushed
together afterwards. The process stays until all remotes have what they take. It waits
for remotes that failed, and replaces itself by a new process, which reads the
configuration again, when the wait is over or refs change. For a long wait it lets the
lock go, so that others can work.

No change is lost: a replicator looks for changes after it has released the lock.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

from mercurial import error

from .. import background
from ..config import GitConfig, on_change_replicas
from ..files import Placement
from ..gitstore import failures
from ..gitstore.export import request
from ..gitstore.export.request import REPLICATION
from ..gitstore.failures import Failure
from ..gitstore.source import source_of
from ..gitstore.store import GitStore
from ..scratch import scratch
from . import targets
from .ledger import read_only
from .planning import Options
from .replicate import FAILURE, Replication
from .source import ReplicaSource, is_settled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT

    from .targets import Target

_DELAY_SECONDS = 1
"""Changes that follow each other within it are pushed together."""
_POLL_SECONDS = 0.5
_LONG_SECONDS = 300
_LONGEST_EXPORT_SECONDS = 600
_LONGEST_WAIT_SECONDS = 3600
_SLEEPER = b".sleeper"
_BACKGROUND = Options(is_asked=False)


def run(repo: RepoT) -> None:
    """Run as the replicator, unless one runs."""
    repo = source_of(repo)
    background.begin(repo, REPLICATION)
    directory, placement = request.replication_directory(repo), Placement.of(repo)
    # the end of a long wait: others may wait from now on
    woken = request.take_exporter_lock(directory.sub(_SLEEPER), placement)
    if woken is not None:
        os.close(woken)
    lock = request.take_exporter_lock(directory.sub(request.WORKER), placement)
    if lock is None:
        return
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    time.sleep(_DELAY_SECONDS)
    found = [*_targets(store)]
    with scratch(repo) as path:
        state = _work(store, found, path)
    wait = _seconds_until_retry(found)
    if wait is not None and wait <= _LONG_SECONDS:
        _wait(store, state, wait)
        background.restart(repo, REPLICATION, kept=lock)
    os.close(lock)
    if store.repository.names_state() != state:
        background.restart(repo, REPLICATION)
    if wait is not None:
        sleeper = request.take_exporter_lock(directory.sub(_SLEEPER), placement)
        if sleeper is not None:
            background.restart(repo, REPLICATION, after_seconds=wait, kept=sleeper)


def _targets(store: GitStore) -> Iterable[Target]:
    """Yield the remotes that follow; of a mistake in one, only its failure is noted."""
    for name in on_change_replicas(store.repo.ui):
        try:
            yield targets.named(store, name, in_background=True)
        except error.ConfigError as exc:
            place = request.replication_directory(store.repo).sub(name)
            with contextlib.suppress(OSError, error.StorageError):
                place.make(store.placement)
            failure = Failure(failures.short(failures.reason_of(exc)), 1)
            failure.write(place, FAILURE, store.placement)


def _work(store: GitStore, found: Iterable[Target], path: bytes) -> object:
    """Replicate until nothing changes; return the last state of names."""
    waiting: dict[Target, None] = {}
    threads: dict[Target, threading.Thread] = {}
    state: object = None
    end = time.monotonic() + _LONGEST_EXPORT_SECONDS
    while True:
        now = store.repository.names_state()
        if not store.is_complete(store.docket()):  # an export is being written
            if time.monotonic() > end and not threads:
                return now
            time.sleep(_POLL_SECONDS)
        elif now != state:
            source = ReplicaSource.read(store.repository, None, path)
            waiting = dict.fromkeys(found)
            state = source.names_state
        for target in [*waiting]:
            if target not in threads:
                del waiting[target]
                threads[target] = thread = threading.Thread(
                    target=_replicate, args=(store, target, source)
                )
                thread.start()
        for target, thread in [*threads.items()]:
            if not thread.is_alive():
                del threads[target]
        if threads:
            next(iter(threads.values())).join(_POLL_SECONDS)
        elif state is not None and not waiting:
            return state


def _replicate(store: GitStore, target: Target, source: ReplicaSource) -> None:
    """Replicate to one remote, unless it is too early after a failure."""
    failure = Failure.read(target.directory, FAILURE)
    # a clock may have been set back
    if failure and 0 < failure.retry - time.time() <= _LONGEST_WAIT_SECONDS:
        return
    try:
        if is_settled(target, source.look(target), is_exact=False):
            return
        result = Replication(target, source, _BACKGROUND).run()
        store.repo.ui.log(
            b"amalgam",
            b"replicated to %s: %s, %d refs, in %.3f seconds\n",
            *(target.name, result.status.value.encode(), len(result.outcomes)),
            result.seconds,
        )
    except Exception as exc:
        before = failure.attempts if failure else 0
        retry = int(time.time()) + min(2 << min(before, 16), _LONG_SECONDS)
        reason = failures.short(failures.reason_of(exc))
        Failure(reason, before + 1, retry).write(
            target.directory, FAILURE, store.placement
        )
        store.repo.ui.log(
            b"amalgam",
            b"replication to %s failed: %s\n",
            *(target.name, failures.reason_of(exc)),
        )


def _seconds_until_retry(found: Iterable[Target]) -> int | None:
    """Return when a remote is due again; ``None`` if none is to be tried again."""
    times = []
    for target in found:
        if failure := Failure.read(target.directory, FAILURE):
            times.append(failure.retry)
        if ledger := read_only(target.directory, target.placement):
            times += [it.next for it in ledger.refused.values()]
    due = [it for it in times if it]
    return max(1, int(min(due) - time.time()) + 1) if due else None


def _wait(store: GitStore, state: object, seconds: int) -> None:
    """Wait, but no longer than refs are the same."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and store.repository.names_state() == state:
        time.sleep(_POLL_SECONDS)
