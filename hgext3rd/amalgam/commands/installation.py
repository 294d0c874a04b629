"""The lines of ``hg debuginstall``: the native core, its SHA-1 kernels, and git.

Once per process, the core compares each kernel that the CPU offers with known answers.
It does not use kernels that fail. This module must load without the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from .. import __version__
from ..config import GitConfig
from ..gitstore.git import process
from ..terminal import one_line

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT


_PORTABLE = b"portable"
"""The kernel that is used where no other can be."""


def check(ui: UiT, fm: Any) -> int:
    """Show checks and problems; return the number of problems."""
    return _check_core(ui, fm) + _check_git(ui, fm)


def _check_core(ui: UiT, fm: Any) -> int:
    try:
        version = version_of_core(ui)
    except error.Abort as exc:
        fm.plain(_(b"checking native core of amalgam...\n"))
        return _show(fm, b"amalgamcoreerror", [(exc.message, exc.hint or b"")])
    fm.data(amalgamcore=version)
    fm.plain(one_line(_(b"checking native core of amalgam (%s)") % version))
    found = kernel_problems(ui)
    if version != __version__:
        text = _(b"native core is of version %s, amalgam of %s")
        hint = _(b"install hg-amalgam again")
        found.append((text % (version, __version__), hint))
    return _show(fm, b"amalgamcoreerror", found)


def version_of_core(ui: UiT) -> bytes:
    """Return the version of the core that is loaded; ``Abort`` if none can be."""
    from ..core.operation import Operation

    version: bytes = Operation(ui, {}).job("core", {})["version"]
    return version


def refused_kernels(ui: UiT) -> list[bytes]:
    """Return the names of the kernels that gave wrong answers, the fastest first.

    The portable one is used even if it is among them, because nothing else is left.
    """
    from ..core.operation import Operation

    names: list[bytes] = Operation(ui, {}).job("core", {})["refused_kernels"]
    return names


def kernel_problems(ui: UiT) -> list[tuple[bytes, bytes]]:
    """Return text and hint for each SHA-1 kernel that fails its known answers."""
    found = []
    for name in refused_kernels(ui):
        text = _(
            b"SHA-1 kernel '%s' gives wrong answers on this machine, and is not used"
        )
        hint = _(b"check its CPU microcode and hypervisor")
        if name == _PORTABLE:
            text = _(b"SHA-1 kernel '%s' gives wrong answers on this machine")
            hint = _(b"do not export on it: no other kernel is left")
        found.append((text % name, hint))
    return found


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
