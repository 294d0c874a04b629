"""Which branches of a remote become bookmarks, and under which names.

As with hg-git, a branch is the bookmark of its name, followed by the value of
``git.branch_bookmark_suffix``. Of a remote with many branches, only those become new
bookmarks that somebody asked for, and the one that it checks out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import encoding, error, scmutil

from .source import HEADS, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mercurial.interfaces.types import RepoT, UiT

MOST = 100
"""Branches that all become bookmarks."""


def name_of(ui: UiT, ref: bytes) -> bytes:
    """Return the bookmark of a branch."""
    return shown(ref.removeprefix(HEADS)) + (_suffix(ui))


def ref_of(ui: UiT, bookmark: bytes) -> bytes:
    """Return the branch of a bookmark."""
    return HEADS + bytes(encoding.fromlocal(bookmark.removesuffix(_suffix(ui))))


def _suffix(ui: UiT) -> bytes:
    return bytes(ui.config(b"git", b"branch_bookmark_suffix", b""))


def wanted(
    repo: RepoT,
    nodes: Mapping[bytes, bytes],
    asked: Collection[bytes],
    count: int,
) -> dict[bytes, bytes]:
    """Return nodes of bookmarks for the branches ``nodes``.

    ``asked`` are branches that become bookmarks in any case, ``count`` how many the
    remote has. Names that no bookmark can have are left out.
    """
    found = {}
    for ref, node in nodes.items():
        name = name_of(repo.ui, ref)
        if ref in asked or count <= MOST or name in repo._bookmarks:
            try:
                scmutil.checknewlabel(repo, name, b"bookmark")
            except error.InputError:
                continue
            found[name] = node
    return found
