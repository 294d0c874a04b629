"""The lines of ``hg debuginstall``: the native core, and git.

A module of its own, because it must load without the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from .. import metadata
from ..config import GitConfig
from ..gitstore.git import process
from ..terminal import one_line

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT


def check(ui: UiT, fm: Any) -> int:
    """Show checks and problems; return the number of problems."""
    return _check_core(ui, fm) + _check_git(ui, fm)


def _check_core(ui: UiT, fm: Any) -> int:
    try:
        from ..core import kernels

        version = kernels.version_of_core(ui)
    except error.Abort as exc:
        fm.plain(_(b"checking native core of amalgam...\n"))
        return _show(fm, b"amalgamcoreerror", [(exc.message, exc.hint or b"")])
    from .admin import kernel_problems

    fm.data(amalgamcore=version)
    fm.plain(one_line(_(b"checking native core of amalgam (%s)") % version))
    problems = kernel_problems(ui)
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
