"""The skeleton of a git store: an empty bare repository, and forbidden names.

Makes what gitrepository-layout(5) asks for. Refuses files that would lead git to other
repositories. Does not know objects, refs and settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ...placement import Unusable
from ...terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...placement import Directory, Placement

PACKS = b"objects/pack"
_DIRECTORIES = (PACKS, b"objects/info", b"refs/heads", b"refs/tags")
_NEEDED = (PACKS, b"refs", b"HEAD")
HEAD = b"ref: refs/heads/default\n"
"""What HEAD says in a new store."""

MEDDLING = frozenset(
    {
        b"commondir",
        b"config.worktree",
        b"gitdir",
        b"info/grafts",
        b"modules",
        b"objects/info/alternates",
        b"objects/info/http-alternates",
        b"reftable",
        b"shallow",
        b"worktrees",
    }
)
"""Files and directories with which git looks elsewhere, or leaves out what is there."""


def is_whole(directory: Directory) -> bool:
    """Tell whether there is a repository."""
    return all(map(directory.exists, _NEEDED))


def complete(directory: Directory, placement: Placement) -> None:
    """Make of a directory an empty repository without a configuration.

    What is there already stays.
    """
    for name in _DIRECTORIES:
        directory.sub(name).make(placement)
    if not directory.exists(b"HEAD"):
        directory.replace(b"HEAD", HEAD, placement)


def intruders(directory: Directory) -> Iterator[bytes]:
    """Yield the names of all that no git repository needs and that leads elsewhere.

    That is what is neither a file nor a directory, and what has a name of ``MEDDLING``.
    Reads directories only: some 10 us for each, and no call for a file.
    """
    for name, entry in directory.walk():
        is_known = entry.is_file(follow_symlinks=False) or entry.is_dir(
            follow_symlinks=False
        )
        if name in MEDDLING or not is_known:
            yield name


def check(directory: Directory) -> None:
    """Raise ``SecurityError`` if git, in this repository, would look elsewhere."""
    for name in intruders(directory):
        raise error.SecurityError(
            _(b"git store has a file that leads git elsewhere: '%s'")
            % printable(directory.join(name)),
            hint=_(b"run 'hg git::export', which removes it"),
        )


def remove_intruders(directory: Directory) -> None:
    """Remove what ``check`` refuses."""
    for name in [*intruders(directory)]:
        try:
            directory.remove(name)
        except Unusable:
            continue  # a directory above it was an intruder, too
