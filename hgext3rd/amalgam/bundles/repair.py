"""Repair of what is published: what is lost is withdrawn, and orphans are removed.

Only for bundles in an object store. The next generator removes all that is left in
directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..terminal import one_line
from . import extension
from .lifecycle import directories, formats, generator
from .lifecycle.objectstore import contents, stored

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT


def repair(repo: RepoT) -> None:
    """Compare the object store with the register, and let them agree.

    ``StateError`` if bundles are being generated.
    """
    if not formats.is_enabled(repo.ui) or not stored.chosen(repo.ui):
        return
    directories.trust(repo).require(repo.path)
    try:
        with generator.exclusive(repo):
            found = contents.look(repo)
            if found is None:
                return
            contents.remove(repo, found)
            if found.orphans:
                text = _(b"removed %d objects that no bundle needs")
                repo.ui.status(one_line(text % len(found.orphans)))
            contents.withdraw_lost(repo, found)
            extension.advertise(repo)
    except error.LockHeld as exc:
        raise generator.refuse(exc) from None
