"""The journal of unfinished transactions, whose changesets do not leave.

Mercurial writes the changelog and bookmarks as it closes a transaction. If its process
is killed then, all readers see them until ``hg recover`` takes them back. No process
holds the lock any more, and the journal still exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error, txnutil
from mercurial.i18n import _

from ... import locking
from ...files import Directory
from ...locking import LockState

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

_JOURNAL = b"journal"


class TransactionAbandoned(error.StateError):
    """A transaction was neither closed nor undone, and its process is gone."""


def refuse_unfinished(repo: RepoT) -> None:
    """Raise ``StateError`` if this process has a transaction open, or another died."""
    if txnutil.mayhavepending(repo.root) or repo.currenttransaction() is not None:
        raise error.StateError(
            _(b"cannot export while a transaction is open"),
            hint=_(b"set amalgam.git.export-on-change, or export from a txnclose hook"),
        )
    refuse_abandoned(repo)


def refuse_abandoned(repo: RepoT) -> None:
    """Raise ``TransactionAbandoned`` for an abandoned transaction."""
    journal = _journal(repo)
    # the same file as before: no other transaction has begun since nobody had the lock
    if journal and not _is_locked(repo) and _journal(repo) == journal:
        raise TransactionAbandoned(
            _(b"abandoned transaction found"),
            hint=_(b"run 'hg recover' to clean up transaction"),
        )


def _journal(repo: RepoT) -> tuple[int, int] | None:
    """Return the identity of the journal, if one exists."""
    try:
        found = repo.svfs.lstat(_JOURNAL)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


def _is_locked(repo: RepoT) -> bool:
    """Return whether a process may write to the store; on another host, it may."""
    held = locking.holder(Directory(repo.store.path))
    if held is None or held.state is LockState.DEAD:
        return False
    return not (held.state is LockState.RUNNING and _is_zombie(held.pid))


def _is_zombie(pid: int) -> bool:
    """Return whether a process has ended as a zombie; see proc(5).

    In containers, it stays for ever if the first process is no init. Mercurial takes it
    for a running one.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            _name, _end, rest = file.read().rpartition(b")")
    except OSError:
        return False
    return rest.split()[:1] == [b"Z"]
