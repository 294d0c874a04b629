"""The line of ``hg summary``: is the git repository up to date?

Starts no git and looks up no changeset, to be quick. ``admin::amalgam`` has the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..config import GitConfig
from ..configitems import is_enabled
from ..gitstore.docket import Docket
from ..gitstore.export import exporter, request
from ..gitstore.failures import Failure
from ..gitstore.store import GitStore
from ..terminal import counted, one_line

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT


def show_summary(ui: UiT, repo: RepoT) -> None:
    """Show the line, if there was an export."""
    if not repo.local() or not is_enabled(ui):
        return
    try:
        store = GitStore(repo, GitConfig.from_ui(ui))
        if store.docket() == Docket():
            return
        text, label = _state(store)
    except (OSError, error.Abort, error.StorageError):
        text, label = _(b"not known (see 'hg admin::amalgam')"), b"amalgam.problem"
    # i18n: column positioning for "hg summary"
    ui.status(_(b"git:    "))
    ui.status(one_line(text), label=label)


def _state(store: GitStore) -> tuple[bytes, bytes]:
    """Return the text and its label."""
    missing = store.missing()
    behind = counted(missing, b"changeset")
    failure = Failure.read(request.exporter_directory(store.repo), exporter.FAILURE)
    if failure is not None and failure.attempts:
        text = _(b"exports fail, %s behind (see 'hg admin::amalgam')")
        return text % behind, b"amalgam.problem"
    if missing:
        text = _(b"%s behind (run 'hg git::export')")
        return text % behind, b"amalgam.behind"
    if not store.may_answer():
        text = _(b"changesets are gone since (run 'hg git::export')")
        return text, b"amalgam.behind"
    return _(b"up to date"), b"amalgam.good"
