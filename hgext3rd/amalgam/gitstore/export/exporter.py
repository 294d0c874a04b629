"""The exporter: a background process that exports after transactions.

No request is lost. A transaction starts an exporter if it finds the lock free. An
exporter looks for changes after it has released the lock. So a transaction that found
the lock held was complete before that look. A killed exporter is replaced after the
next transaction.

After a failure, the exporter waits and replaces itself by a new one, which reads the
configuration files again. It holds the lock meanwhile.
``.hg/amalgam/exporter/failure`` has the reason, for ``admin::amalgam``. Exports
requested by a server wait as long.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from mercurial import error

from ... import background
from ...config import GitConfig, wants_export_on_change
from ...files import Placement
from ...trust import Trust
from .. import failures, selection
from ..failures import Failure
from ..source import source_of
from ..store import GitStore
from . import maintenance, request
from .export import export
from .request import COMMAND, REQUESTED

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from ..selection import FilesState

FAILURE = b"failure"
"""The file that says why the last exporter failed."""
_LONGEST_WAIT_SECONDS = 300
_NOT_SET = (
    "amalgam.git.export-on-change is not set in the configuration of the repository, "
    "the user or the system"
)


def forget_failure(repo: RepoT) -> None:
    """Know that an export has succeeded."""
    failures.forget(request.exporter_directory(repo), FAILURE)
    background.forget(repo, COMMAND)


def note_lost_start(repo: RepoT) -> bool:
    """Note that the last exporter ended before it began; return whether it did.

    None runs now.
    """
    problem = background.failure(repo, COMMAND, has_ended=True)
    if problem:
        background.forget(repo, COMMAND)
        repo.ui.log(b"amalgam", b"no export: %s\n", problem)
        _note_reason(repo, problem)
    return bool(problem)


def note_failure(repo: RepoT, exc: Exception) -> None:
    """Note that an export failed which a client or a server requested.

    They request it again; ``must_wait`` tells whether that is too early.
    """
    _note_reason(repo, failures.reason_of(exc))


def _note_reason(repo: RepoT, reason: bytes) -> None:
    before = Failure.read(request.exporter_directory(repo), FAILURE)
    attempts = 1 + (before.attempts if before else 0)
    retry = int(time.time()) + _wait_seconds(attempts)
    _note(repo, Failure(failures.short(reason), attempts, retry))


def must_wait(repo: RepoT) -> bool:
    """Return whether exports have failed, and another request is too early."""
    failure = Failure.read(request.exporter_directory(repo), FAILURE)
    # a clock may have been set back
    return failure is not None and (
        0 < failure.retry - time.time() <= _LONGEST_WAIT_SECONDS
    )


def _wait_seconds(attempts: int) -> int:
    """Return the seconds to wait after this number of failures in a row."""
    return min(1 << min(attempts - 1, 16), _LONGEST_WAIT_SECONDS)


def run(repo: RepoT, attempts: int, *, is_requested: bool = False) -> None:
    """Run as the exporter, unless one runs; ``attempts``: recent failures in a row.

    ``is_requested``: export though no change asks for it, as for a server.
    """
    repo = source_of(repo)
    background.begin(repo, COMMAND)
    directory = request.exporter_directory(repo)
    try:
        trust = Trust.of(repo.ui, repo.store.path, repo.sharedpath)
        trust.require(repo.sharedpath)
        lock = request.take_exporter_lock(directory, Placement.of(repo))
    except (OSError, error.Abort, error.StorageError) as exc:
        # without a lock, exporters that try again would grow in number
        repo.ui.log(
            b"amalgam", b"no export after a change: %s\n", failures.reason_of(exc)
        )
        return
    if lock is None:
        return
    try:
        is_wanted = is_requested or wants_export_on_change(repo.ui)
        state = _export(repo) if is_wanted else None
        forget_failure(repo)
        if state is None and not attempts:  # else it was switched off since
            _note(repo, Failure(_NOT_SET, 1, 0))
    except Exception as exc:
        if is_requested:  # the server asks again
            repo.ui.log(
                b"amalgam", b"requested export failed: %s\n", failures.reason_of(exc)
            )
            note_failure(repo, exc)
            os.close(lock)
            return
        _try_again(repo, exc, attempts + 1, lock)
    os.close(lock)
    if state is not None and selection.state_of(repo) != state:
        requested = (REQUESTED,) if is_requested else ()
        background.restart(repo, COMMAND, *requested)


def _export(repo: RepoT) -> FilesState:
    """Export, and return the state of the repository's files that was exported."""
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    report = export(store, once=True)
    roll_up_if_due(store)
    return report.state


def roll_up_if_due(store: GitStore) -> None:
    """Let another process roll up packs, if they are due: exports go on meanwhile."""
    if maintenance.is_due(store):
        background.start(store.repo, store.repo.root, maintenance.COMMAND)


def _try_again(repo: RepoT, exc: Exception, attempts: int, lock: int) -> None:
    """Wait and export again, as a new process; the wait doubles with each failure."""
    wait = _wait_seconds(attempts)
    reason = failures.reason_of(exc)
    repo.ui.log(
        b"amalgam",
        b"export after a change failed, attempt %d, next in %d seconds: %s\n",
        attempts,
        wait,
        reason,
    )
    failure = Failure(failures.short(reason), attempts, int(time.time()) + wait)
    _note(repo, failure)
    command = (COMMAND, b"--attempts", b"%d" % attempts)
    background.restart(repo, *command, after_seconds=wait, kept=lock)


def _note(repo: RepoT, failure: Failure) -> None:
    directory, placement = request.exporter_directory(repo), Placement.of(repo)
    with contextlib.suppress(OSError, error.StorageError):
        directory.make(placement)
    failure.write(directory, FAILURE, placement)
