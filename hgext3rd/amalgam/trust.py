"""Trust in the owner of a repository: whether amalgam may write there.

Mercurial's own rule decides (``hg help config.trusted``): users trust themselves,
``trusted.users`` and ``trusted.groups``. The owner of a repository is the owner of
``.hg``. Its group is the owner's choice: to be a member of it is no trust. Root has no
special rights. docs/security.rst says what users without trust get.
"""

from __future__ import annotations

import os
import stat
import types
from typing import TYPE_CHECKING

from mercurial import error, util
from mercurial.i18n import _

from .records import Record

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT


class Trust(Record):
    """Rights of this process over the files below ``.hg/amalgam``."""

    usable: bool
    """Whether they may be mapped and written."""
    owner: int
    """Owner of ``.hg``."""
    group: int | None
    """Group of ``.hg`` that may write ``.hg/store``; None if it may not."""

    @classmethod
    def of(cls, ui: UiT, store_path: bytes, owner_path: bytes) -> Trust:
        """Look at ``.hg/store`` and at ``.hg``, which may be of another repository."""
        store, owner = os.stat(store_path), os.stat(owner_path)
        # a share, or a link, may lead to a store of somebody else
        is_own = (store.st_uid, store.st_gid) == (owner.st_uid, owner.st_gid)
        group = store.st_gid if is_own and store.st_mode & stat.S_IWGRP else None
        return cls(trusts(ui, owner_path, owner), owner.st_uid, group)

    def may_map(
        self, found: os.stat_result, directory: os.stat_result | None = None
    ) -> bool:
        """Return whether a file may be mapped: only trusted users can truncate it.

        These are the owner, and the members of the group that the owner lets write.
        They can truncate Mercurial's own indexes, too. World-writable files are not
        mapped, nor are files in a world-writable directory.
        """
        if not self.usable:
            return False
        if any(it.st_mode & stat.S_IWOTH for it in (found, directory or found)):
            return False
        if found.st_uid in (os.geteuid(), self.owner, 0):
            return True
        return self.group is not None and found.st_gid == self.group

    def require(self, owner_path: bytes) -> None:
        """Raise ``SecurityError`` unless the files are usable."""
        if self.usable:
            return
        hint = _(b"see 'hg help config.trusted'")
        if self.group is not None and _is_member(self.group):
            group = util.groupname(self.group) or b"%d" % self.group
            hint = (
                _(b"if you trust the members of group '%s', set trusted.groups") % group
            )
        user = util.username(self.owner) or b"%d" % self.owner
        raise error.SecurityError(
            _(b"'%s' belongs to user '%s', who is not trusted") % (owner_path, user),
            hint=hint,
        )


def trusts(ui: UiT, path: bytes, found: os.stat_result) -> bool:
    """Return whether hg trusts the owner of ``path``, without a warning."""
    if util.isowner(found):
        return True
    quiet = ui.copy()
    quiet._reportuntrusted = False
    # ui._trusted looks at a file, or else at the name of something that has one
    return bool(quiet._trusted(types.SimpleNamespace(name=path), path))


def _is_member(group: int) -> bool:
    return group == os.getegid() or group in os.getgroups()
