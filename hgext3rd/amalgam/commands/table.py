"""The tables of commands and labels, and commands that only amalgam itself calls.

Every hg process pays for what is in this module.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from mercurial import registrar
from mercurial.i18n import _

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT, UiT

_Command = TypeVar("_Command", bound="Callable[..., Any]")

cmdtable: dict[bytes, Any] = {}
colortable = {
    b"amalgam.behind": b"yellow",
    b"amalgam.good": b"green",
    b"amalgam.heading": b"bold",
    b"amalgam.note": b"yellow",
    b"amalgam.problem": b"red bold",
}
"""The labels of what commands show, for the section ``[color]``."""
_register = registrar.command(cmdtable)


def command(*args: Any, **kwargs: Any) -> Callable[[_Command], _Command]:
    """Register a command; what damage to the repository raises is for people to read.

    The arguments are those of ``registrar.command``.
    """

    def registered(func: _Command) -> _Command:
        @functools.wraps(func)
        def answer(*given: Any, **opts: Any) -> Any:
            from ..gitstore import selection

            with selection.blamed():
                return func(*given, **opts)

        _register(*args, **kwargs)(answer)
        return func

    return registered


@command(
    b"debug::amalgam-export",
    [
        (b"", b"attempts", 0, _(b"how many exporters have just failed"), _(b"NUMBER")),
        (b"", b"requested", None, _(b"export though no configuration asks for it")),
    ],
    b"",
)
def debug_amalgam_export(
    ui: UiT, repo: RepoT, attempts: int, requested: bool | None
) -> None:
    """export what is new, unless another process does (INTERNAL)"""
    from ..gitstore.export import exporter

    exporter.run(repo, attempts, is_requested=bool(requested))


@command(b"debug::amalgam-bundles", [], b"")
def debug_amalgam_bundles(ui: UiT, repo: RepoT) -> None:
    """generate missing bundles, unless another process does (INTERNAL)"""
    from . import admin

    admin.run_generator(ui, repo)


@command(b"debug::amalgam-maintenance", [], b"")
def debug_amalgam_maintenance(ui: UiT, repo: RepoT) -> None:
    """roll up packs if there are many (INTERNAL)"""
    from . import export

    export.maintain(ui, repo)
