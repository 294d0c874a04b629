"""Files of a git repository that git may replace at the same time.

Owns the lock of such a file: ``NAME.lock`` beside it, as git takes it
(gitrepository-layout(5)). Does not know what the files contain.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

if TYPE_CHECKING:
    from ...placement import Directory, Placement

LOCK_SECONDS = 1.0
"""How long a lock of git is waited for: ``core.packedRefsTimeout`` of git-config(1)."""
_PAUSE_SECONDS = 0.05
_STAGED = b".amalgam"


def replace(
    directory: Directory, name: bytes, content: bytes, placement: Placement
) -> None:
    """Write a file as a whole, and keep git from doing so. Fsynced when this returns.

    That takes ``NAME.lock``. It becomes a second name of a file that only amalgam
    makes, so that if this process dies, the next one knows whose lock it was. A lock of
    git is waited for as long as git would; ``StateError`` if it stays.
    """
    staged, lock = name + _STAGED, name + b".lock"
    forget(directory, name)
    try:
        directory.replace(staged, content, placement)
        deadline = time.monotonic() + LOCK_SECONDS
        while not _link(directory, staged, lock):
            if time.monotonic() >= deadline:
                raise error.StateError(
                    _(b"git store is locked: %s") % directory.join(lock),
                    hint=_(b"remove the file if no git process uses the store"),
                )
            time.sleep(_PAUSE_SECONDS)
        directory.rename(lock, name)
    finally:
        forget(directory, name)


def forget(directory: Directory, name: bytes) -> None:
    """Remove what ``replace`` left, in this process or in one that died."""
    staged, lock = name + _STAGED, name + b".lock"
    try:
        ours = directory.stat(staged)
    except FileNotFoundError:
        return
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(ours, directory.stat(lock)):
            directory.remove(lock)
    directory.remove(staged)


def _link(directory: Directory, old: bytes, new: bytes) -> bool:
    """Give a file a second name; ``False`` if that is taken."""
    with directory.opened() as fd:
        try:
            os.link(old, new, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
        except FileExistsError:
            return False
    return True
