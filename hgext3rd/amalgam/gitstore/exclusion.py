"""One export at a time: ``.hg/amalgam/lock``, a lock of Mercurial's kind.

It names host and process. A lock of a process that is dead, on this host, is taken
over. It is taken after Mercurial's own locks or without them, and an export takes none
of those: so nobody who waits for a Mercurial lock waits for an export.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING

from mercurial import error, lock as lockmod
from mercurial.i18n import _

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT, VfsT

_NAME = b"lock"


@contextlib.contextmanager
def locked(repo: RepoT, vfs: VfsT) -> Iterator[None]:
    """Hold the lock in ``vfs``, which is ``.hg/amalgam``.

    While another process holds it, wait as long as ``ui.timeout`` says, or not at all
    if ``repo`` has a Mercurial lock: then ``LockHeld`` at once. ``LockUnavailable`` if
    the lock cannot be made.
    """
    has_hg_lock = repo.currentwlock() or repo._currentlock(repo._lockref)
    timeout = 0 if has_hg_lock else repo.ui.configint(b"ui", b"timeout")
    try:
        held = lockmod.trylock(
            repo.ui,
            vfs,
            _NAME,
            timeout,
            repo.ui.configint(b"ui", b"timeout.warn"),
            desc=_(b"git stores of %s") % repo.origroot,
        )
    except error.LockHeld as exc:
        if timeout:
            raise
        # nobody waited, so that nothing "timed out"
        raise error.LockHeld(errno.EAGAIN, exc.filename, exc.desc, exc.locker) from None
    try:
        yield
    finally:
        held.release()
