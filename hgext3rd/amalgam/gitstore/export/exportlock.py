"""The lock of exports: ``.hg/amalgam/lock``. One export runs at a time.

It is taken after Mercurial's own locks, or without them. An export takes no lock of
Mercurial. So no process that waits for a Mercurial lock waits for an export.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ... import locking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store import GitStore


@contextlib.contextmanager
def locked(store: GitStore, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of ``store``, which ``store.require_lock`` relies on.

    While another process holds it, wait as long as ``ui.timeout`` says, or not at all
    without ``wait``, or in a process that has a Mercurial lock: then ``LockHeld`` at
    once. ``LockUnavailable`` if the lock cannot be made, ``Unusable`` if it is no lock.
    """
    repo = store.asked
    has_hg_lock = repo.currentwlock() or repo._currentlock(repo._lockref)
    waits = wait and not has_hg_lock
    timeout = repo.ui.configint(b"ui", b"timeout") if waits else 0
    lock = locking.held(
        repo.ui,
        store.directory,
        store.placement,
        _(b"git store of %s") % repo.origroot,
        timeout=timeout,
        warn_after=repo.ui.configint(b"ui", b"timeout.warn"),
    )
    with contextlib.ExitStack() as stack:
        try:
            hold = stack.enter_context(lock)
        except error.LockHeld as exc:
            if timeout:
                raise
            # nobody waited, so that nothing "timed out"
            raise error.LockHeld(
                errno.EAGAIN, exc.filename, exc.desc, exc.locker
            ) from None
        stack.enter_context(store.holding(hold))
        yield
