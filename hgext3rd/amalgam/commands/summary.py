"""Our line of ``hg summary``: whether git users get what is served.

Runs no git, and looks up no changeset: a summary is to be quick. ``admin::amalgam``
knows more.

Our part of ``hg debuginstall``: the native core, and git.

Loads the core where it is tried, and only then what needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from .. import metadata
from ..config import GitConfig
from ..gitstore.docket import Docket
from ..gitstore.export import exporter, request
from ..gitstore.failures import Failure
from ..gitstore.git import process
from ..gitstore.store import GitStore
from ..index import hooks
from ..terminal import one_line

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT


def show_summary(ui: UiT, repo: RepoT) -> None:
    """Show the line, if there was an export."""
    if not repo.local() or not hooks.enabled(ui):
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
    """Return what there is to say, and how it is coloured."""
    missing = store.missing()
    failure = Failure.read(request.exporter_directory(store.repo), exporter.FAILURE)
    if failure is not None and failure.attempts:
        text = _(b"exports fail, %d changesets behind (see 'hg admin::amalgam')")
        return text % missing, b"amalgam.problem"
    if missing:
        text = _(b"%d changesets behind (run 'hg git::export')")
        return text % missing, b"amalgam.behind"
    if not store.may_answer():
        text = _(b"changesets are gone since (run 'hg git::export')")
        return text, b"amalgam.behind"
    return _(b"up to date"), b"amalgam.good"


def check_installation(ui: UiT, fm: Any) -> int:
    """Show what is checked and what is wrong; return the number of problems."""
    return _check_core(fm) + _check_git(ui, fm)


def _check_core(fm: Any) -> int:
    try:
        from ..core import kernels

        version = kernels.version_of_core()
    except error.Abort as exc:
        fm.plain(_(b"checking native core of amalgam...\n"))
        return _show(fm, b"amalgamcoreerror", [(exc.message, exc.hint or b"")])
    from .admin import kernel_problems

    fm.data(amalgamcore=version)
    fm.plain(one_line(_(b"checking native core of amalgam (%s)") % version))
    problems = kernel_problems()
    found = [(problem.text, problem.hint) for problem in problems]
    if version != metadata.__version__:
        text = _(b"native core is of version %s, amalgam of %s")
        hint = _(b"install hg-amalgam again")
        found.append((text % (version, metadata.__version__), hint))
    return _show(fm, b"amalgamcoreerror", found)


def _check_git(ui: UiT, fm: Any) -> int:
    try:
        program = GitConfig.from_ui(ui).program
        version = process.version_of(program)
    except error.Abort as exc:
        fm.plain(_(b"checking git...\n"))
        return _show(fm, b"amalgamgiterror", [(exc.message, exc.hint or b"")])
    fm.data(amalgamgit=version)
    fm.plain(one_line(_(b"checking git (%s, version %s)") % (program, version)))
    return 0


def _show(fm: Any, key: bytes, found: list[tuple[bytes, bytes]]) -> int:
    if found:
        fm.data(**{key.decode(): b", ".join(text for text, _hint in found)})
    for text, hint in found:
        fm.plain(one_line(b" %s" % text))
        fm.plain(one_line(b" (%s)" % hint))
    return len(found)
