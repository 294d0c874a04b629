"""Bookmarks: which of them a push may make, move and delete.

Mercurial has names in memory in the encoding of the process, and so the bookmarks of
a bundle, too. Changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import bookmarks, encoding
from mercurial.i18n import _

from ...gitstore.git.refs import HEADS
from ...gitstore.state.source import has_own_bookmarks
from . import names
from .refcommands import PushRefusedError

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT


def name_of(ref: bytes) -> bytes:
    """Return the bookmark of a new branch, as Mercurial has it in memory."""
    shown = ref.removeprefix(HEADS)
    name: bytes = encoding.tolocal(shown)
    if encoding.fromlocal(name) != shown:
        raise PushRefusedError(_(b"the name of a branch has to be UTF-8"))
    names.check_length(shown)
    return name


def check(name: bytes) -> None:
    """Refuse a bookmark that Mercurial takes from nobody, in no push."""
    if bookmarks.isdivergent(name):
        raise PushRefusedError(
            _(
                b"no bookmark: Mercurial uses '@' within a name for bookmarks that "
                b"diverge"
            )
        )
    if isinstance(name, encoding.localstr):  # it has less than what is stored
        raise PushRefusedError(
            _(
                b"no bookmark: the server's encoding lacks characters of the name; "
                b"its operator has to set HGENCODING=UTF-8"
            )
        )


def check_share(repo: RepoT) -> None:
    """Refuse bookmarks of a share that git users would not see."""
    if has_own_bookmarks(repo):
        raise PushRefusedError(
            _(
                b"this is a share with bookmarks of its own; push to the "
                b"repository that it is a share of"
            )
        )


def left_as_branch(ref: bytes) -> PushRefusedError:
    """Return the refusal to delete a bookmark that has the name of a named branch."""
    return PushRefusedError(
        _(b"'%s' cannot be deleted: it is a Mercurial branch, too") % ref
    )
