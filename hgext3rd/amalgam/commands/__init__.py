"""Tables of an extension: names of commands, labels, revsets, a template keyword.

Every hg process loads this module. ``table`` has the commands themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import registrar

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT

NAMES = (
    b"git::export",
    b"git::clone-command",
    b"git::verify",
    b"git::id",
    b"git::bundle",
    b"git::push",
    b"git::follow",
    b"git::survey",
    b"admin::amalgam",
    b"debug::amalgam-export",
    b"debug::amalgam-replicate",
    b"debug::amalgam-follow",
    b"debug::amalgam-bundles",
    b"debug::amalgam-maintenance",
    b"git-import|gimport",
    b"git-export|gexport",
    b"git-verify|gverify",
    b"git-cleanup",
    b"debuggitdir",
    b"debug-remove-hggit-state",
)
"""The names of all commands, as ``table`` has them."""

cmdtable: dict[bytes, Any] = {}
"""Empty while Mercurial checks the tables of an extension, which looks at every option
and takes longer than all else here. ``tests/commands/test_table.py`` checks them."""
colortable = {
    b"amalgam.behind": b"yellow",
    b"amalgam.good": b"green",
    b"amalgam.heading": b"bold",
    b"amalgam.note": b"yellow",
    b"amalgam.problem": b"red bold",
}
"""Labels of output, for the section ``[color]``."""
revsetpredicate = registrar.revsetpredicate()
templatekeyword = registrar.templatekeyword()


class CommandRow:
    """The row of a command, made of ``args`` when Mercurial looks at it."""

    def __init__(self, make: Callable[..., Any], *args: Any) -> None:
        self._make = make
        self._args = args

    def __getitem__(self, index: int) -> Any:
        """Return the function, the options or the synopsis."""
        return self._made()[index]

    def __len__(self) -> int:
        """Return how many of them the command has."""
        return len(self._made())

    def _made(self) -> Any:
        if self._args:
            self._make, self._args = self._make(*self._args), ()
        return self._make


def _ours(name: bytes) -> Any:
    from . import table

    return table.cmdtable[name]


def add_commands() -> None:
    """Fill the table of commands, after Mercurial has checked it."""
    cmdtable.update((name, CommandRow(_ours, name)) for name in NAMES)


@revsetpredicate(b"fromgit()")
def fromgit_revset(repo: RepoT, subset: Any, x: Any) -> Any:
    """Changesets that have a commit in git: exported, or pulled from there."""
    from . import hggit

    return hggit.fromgit(repo, subset, x)


@revsetpredicate(b"gittag([name])")
def gittag_revset(repo: RepoT, subset: Any, x: Any) -> Any:
    """Changesets with a tag of git, or with the tag of this name, or pattern."""
    from . import hggit

    return hggit.gittag(repo, subset, x)


def _ids() -> Any:
    from ..loading import load, one_at_a_time

    with one_at_a_time:
        from . import ids

        load(ids)
    return ids


@revsetpredicate(b"gitnode(id)", safe=True)
def gitnode_revset(repo: RepoT, subset: Any, x: Any) -> Any:
    """The changeset whose commit in git has this id, which may be abbreviated."""
    return _ids().revset(repo, subset, x)


@templatekeyword(b"gitnode", requires={b"ctx", b"repo", b"cache"})
def gitnode_keyword(context: Any, mapping: Any) -> bytes:
    """String. The id of the changeset's commit in git; empty if it has none."""
    return _ids().keyword(context, mapping)
