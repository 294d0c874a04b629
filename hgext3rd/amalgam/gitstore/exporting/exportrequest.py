"""Requests for an export, after each transaction: ``amalgam.git.export-on-change``.

A request starts an exporter once all locks of Mercurial are released, unless one is
there. None is lost: see ``exporter``.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.utils import stringutil

from ... import background
from ...placement import Placement
from ...trust import Trust
from . import exporterlock

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

COMMAND = b"debug::amalgam-export"
"""What an exporter runs."""
REQUESTED = b"--requested"
"""What it runs it with if a server asks for an export."""
_CATEGORY = b"amalgam-export"


def install(repo: RepoT) -> None:
    """Let all that changes ``repo`` request an export."""

    class exportedrepo(repo.__class__):  # noqa: N801
        """A repository whose git store follows it."""

        _is_export_requested = False

        def transaction(self, *args: Any, **kwargs: Any) -> Any:
            transaction = super().transaction(*args, **kwargs)
            reference = weakref.ref(self.unfiltered())

            def request(_transaction: Any) -> None:
                repo = reference()
                if repo is not None:
                    repo._request_export()

            transaction.addpostclose(_CATEGORY, request)
            return transaction

        def destroyed(self) -> Any:
            super().destroyed()
            self.unfiltered()._request_export()

        def recover(self) -> Any:
            recovered = super().recover()
            self.unfiltered()._request_export()
            return recovered

        def _request_export(self) -> None:
            """Request an export for all that is done under the locks."""

            def request(_success: bool) -> None:
                self._is_export_requested = False
                _request(self)

            if not self._is_export_requested:
                self._is_export_requested = True
                self._afterlock(request)

    # what 'hg debugupgraderepo' is working on
    if b"/.hg/upgrade." not in repo.path:
        repo.__class__ = exportedrepo


def _request(repo: RepoT) -> None:
    """Start an exporter, unless there is one."""
    try:
        _require_trust(repo)
        if not exporterlock.is_held(exporterlock.directory_of(repo)):
            background.start(os.path.dirname(repo.sharedpath), COMMAND)
    except (OSError, error.Abort, error.StorageError) as exc:
        # the transaction is closed: there is nothing left to abort
        problem = stringutil.forcebytestr(exc)
        repo.ui.log(b"amalgam", b"no export after a change: %s\n", problem)


def start_for_server(repo: RepoT) -> None:
    """Start an exporter, unless there is one; it exports whether configured or not.

    However many processes of a server ask, one is started: it gets the lock from the
    one that starts it. ``SecurityError`` in a repository of a stranger; ``OSError`` or
    ``StorageError`` if there can be none.
    """
    _require_trust(repo)
    directory = exporterlock.directory_of(repo)
    lock = exporterlock.take(directory, Placement.of(repo))
    if lock is None:
        return
    try:
        root = os.path.dirname(repo.sharedpath)
        background.start(root, COMMAND, REQUESTED, kept=lock)
    finally:
        os.close(lock)


def _require_trust(repo: RepoT) -> None:
    trust = Trust.of(repo.ui, repo.store.path, repo.sharedpath)
    trust.require(repo.sharedpath)
