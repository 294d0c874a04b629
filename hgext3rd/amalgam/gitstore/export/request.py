"""Requests for an export, after each transaction: ``amalgam.git.export-on-change``.

A request starts an exporter once all locks of Mercurial are released, unless one runs.
None is lost: see ``exporter``.

One exporter runs at a time: ``.hg/amalgam/exporter/lock``, locked by flock(2). The
kernel releases it at any end of the process. It keeps exporters apart, not exports:
those have ``GitStore.locked``. Without flock, exporters wait for each other there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import weakref
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.utils import stringutil

from ... import background
from ...config import on_change_replicas, wants_export_on_change
from ...configitems import is_enabled
from ...files import Directory, Placement
from ...trust import Trust
from .. import source

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT, TransactionT


LOCK = b"lock"
WORKER = b".worker"
"""Where a process has its lock beside directories of remotes, which have no dot."""
_LOOKING_SECONDS = 1
"""Seconds that an exporter waits for processes that look at the lock. Each holds it for
an instant, but every reader of the file can hold it for ever."""
_PAUSE_SECONDS = 0.01


def exporter_directory(repo: RepoT) -> Directory:
    """Return the directory of the exporter, which need not exist."""
    return Directory(repo.sharedpath, (b"amalgam", b"exporter"))


def replication_directory(repo: RepoT) -> Directory:
    """Return the directory of replications to git remotes, which need not exist."""
    return Directory(repo.sharedpath, (b"amalgam", b"replicate"))


def is_exporter_running(directory: Directory) -> bool:
    """Return whether an exporter works, or waits for its next try.

    ``Unusable`` if another kind of file is in place of the lock: then no exporter can
    run.
    """
    try:
        fd = directory.open(LOCK)
    except OSError:
        return False
    try:
        return _is_exclusive(fd)
    finally:
        os.close(fd)


def take_exporter_lock(directory: Directory, placement: Placement) -> int | None:
    """Return a descriptor that holds the lock until it is closed.

    ``None`` if another process holds it. ``OSError`` or ``Unusable`` if there can be no
    lock. An exporter that replaces itself keeps it as standard input.
    """
    directory.make(placement)
    fd = _inherited(directory)
    while fd is None:
        try:
            fd = directory.open_to_append(LOCK)
            if fd is None:  # a copy made of hard links
                directory.remove(LOCK)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                fd = directory.create(LOCK, placement)
    end = time.monotonic() + _LOOKING_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _is_exclusive(fd) and time.monotonic() < end:
                time.sleep(_PAUSE_SECONDS)
                continue
            os.close(fd)
            return None
        except OSError:
            pass
        return fd


def _inherited(directory: Directory) -> int | None:
    with contextlib.suppress(OSError, error.StorageError):
        if os.path.samestat(os.fstat(0), directory.stat(LOCK)):
            fd = os.dup(0)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.close(null)
            return fd
    return None


def _is_exclusive(fd: int) -> bool:
    """Return whether an exporter holds the lock, and not a process that looks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


COMMAND = b"debug::amalgam-export"
"""The command of an exporter."""
REPLICATION = b"debug::amalgam-replicate"
"""The command that pushes to remotes that follow each change."""
REQUESTED = b"--requested"
"""Its options if a server asks for an export."""
_CATEGORY = b"amalgam-export"
# repositories whose request waits for the locks
_requested: weakref.WeakSet[Any] = weakref.WeakSet()


def transaction(
    orig: Callable[..., TransactionT], repo: RepoT, *args: Any, **kwargs: Any
) -> TransactionT:
    """Request an export after each transaction."""
    transaction = orig(repo, *args, **kwargs)
    reference = weakref.ref(repo.unfiltered())

    def request(_transaction: Any) -> None:
        repo = reference()
        if repo is not None:
            _request_after_locks(repo)

    if _is_wanted(repo):
        transaction.addpostclose(_CATEGORY, request)
    return transaction


def destroyed(orig: Callable[..., Any], repo: RepoT) -> None:
    """Request an export after a strip or a rollback."""
    orig(repo)
    if _is_wanted(repo):
        _request_after_locks(repo.unfiltered())


def recover(orig: Callable[..., Any], repo: RepoT) -> Any:
    """Request an export after the recovery of an interrupted transaction."""
    recovered = orig(repo)
    if _is_wanted(repo):
        _request_after_locks(repo.unfiltered())
    return recovered


def _is_wanted(repo: RepoT) -> bool:
    """Return whether changes are exported, by the repository that owns the store."""
    # repositories that 'hg debugupgraderepo' is working on
    if b"/.hg/upgrade." in repo.path or not is_enabled(repo.ui):
        return False
    if not repo.shared():
        return wants_export_on_change(repo.ui)
    try:
        return wants_export_on_change(source.configuration_of_source(repo))
    except error.ConfigError:  # commands of the source name the mistake
        return wants_export_on_change(repo.baseui)


def _request_after_locks(repo: RepoT) -> None:
    """Request an export for all that is done under the locks."""

    def request(_success: bool) -> None:
        _requested.discard(repo)
        _request(repo)

    if repo not in _requested:
        _requested.add(repo)
        repo._afterlock(request)


def _request(repo: RepoT) -> None:
    """Start an exporter, unless one runs."""
    try:
        _require_trust(repo)
        start(repo, exporter_directory(repo), COMMAND)
    except (OSError, error.Abort, error.StorageError) as exc:
        # the transaction is closed and cannot be aborted
        problem = stringutil.forcebytestr(exc)
        repo.ui.log(b"amalgam", b"no export after a change: %s\n", problem)


def start_exporter_for_server(repo: RepoT) -> None:
    """Start an exporter, unless one runs; it exports even if not configured.

    One is started for all processes of a server that ask: it inherits the lock.
    ``SecurityError`` in a repository of an untrusted owner; ``OSError`` or
    ``StorageError`` if none can be started.
    """
    _require_trust(repo)
    start(repo, exporter_directory(repo), COMMAND, REQUESTED)


def start(repo: RepoT, directory: Directory, *command: bytes) -> None:
    """Start a background process that has the lock in ``directory``, unless one has it.

    ``OSError`` or ``StorageError`` if none can be started.
    """
    lock = take_exporter_lock(directory, Placement.of(repo))
    if lock is None:
        return
    try:
        root = os.path.dirname(repo.sharedpath)
        background.start(repo, root, *command, kept=lock)
    finally:
        os.close(lock)


def start_replication(repo: RepoT) -> None:
    """Let remotes follow changed refs, in the background, unless a process does.

    That process looks for changes after it has released the lock.
    """
    if not on_change_replicas(repo.ui):
        return
    try:
        _require_trust(repo)
        start(repo, replication_directory(repo).sub(WORKER), REPLICATION)
    except (OSError, error.Abort, error.StorageError) as exc:
        problem = stringutil.forcebytestr(exc)
        repo.ui.log(b"amalgam", b"no replication after a change: %s\n", problem)


def _require_trust(repo: RepoT) -> None:
    trust = Trust.of(repo.ui, repo.store.path, repo.sharedpath)
    trust.require(repo.sharedpath)
