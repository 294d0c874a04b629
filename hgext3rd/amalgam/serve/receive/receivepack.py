"""Runs of ``git receive-pack`` in a receiving repository: configuration and hook.

git reads a push, checks every object (``fsck``), and that none is missing. It updates
no ref: for all of them it asks its hook, which passes on what git says to this process,
and the answer to git (githooks(5), "proc-receive").
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from ..uploadpack import GitService, address_bytes, hidden_refs, unread_summaries

if TYPE_CHECKING:
    from ...gitstore.git.gitprocess import Value
    from ...gitstore.store import GitStore
    from ...push.receiving import Receiving
    from ..slots import Slot

SERVICE = b"git-receive-pack"
_CONFIG: dict[str, Value] = {
    "core.logAllRefUpdates": "false",
    "core.precomposeUnicode": "false",
    "core.bigFileThreshold": "64m",
    "core.deltaBaseCacheLimit": "64m",
    "core.packedGitWindowSize": "32m",
    "core.packedGitLimit": str(1 << 30),
    "pack.threads": "2",
    "receive.advertiseAtomic": "true",
    "receive.advertisePushOptions": "true",
    "receive.autogc": "false",
    "receive.denyCurrentBranch": "ignore",
    "receive.denyDeleteCurrent": "ignore",
    "receive.denyDeletes": "false",
    "receive.denyNonFastForwards": "false",
    # in a message, it comes back
    "receive.fsck.nulInCommit": "ignore",
    "receive.fsckObjects": "true",
    "receive.keepAlive": "5",
    "receive.procReceiveRefs": "refs",
    "receive.shallowUpdate": "false",
    "receive.unpackLimit": "1",
    "receive.updateServerInfo": "false",
    "repack.useDeltaBaseOffset": "true",
    "transfer.advertiseSID": "false",
    "transfer.fsckObjects": "true",
    "transfer.unpackLimit": "1",
}
# From and to git; and what people are told. Each ends when its other end is closed, so
# nothing is left if this process dies.
_HOOK = b"""\
#!/bin/sh
exec 3<&0
cat <&3 >/dev/fd/%d &
cat </dev/fd/%d >&2 &
says=$!
cat </dev/fd/%d
wait "$says"
"""


class HookPipes:
    """The pipes between this process and the hook of one push."""

    def __init__(self) -> None:
        """Make them."""
        with contextlib.ExitStack() as made:
            self.asked, self._asks = _pipe(made)
            self._heard, self.says = _pipe(made)
            self._answered, self.answers = _pipe(made)
            made.pop_all()
        self._is_open = self._is_read = True

    @property
    def of_git(self) -> tuple[int, int, int]:
        """The ends that git inherits, for its hook."""
        return self._asks, self._heard, self._answered

    @property
    def script(self) -> bytes:
        """The hook."""
        return _HOOK % self.of_git

    def release_ends(self) -> None:
        """Close the ends that git has inherited."""
        for fd in self.of_git:
            os.close(fd)

    def hang_up(self) -> None:
        """Let the hook end: nothing more is said or answered."""
        for fd in (self.says, self.answers):
            os.close(fd)
        self._is_open = False

    def close(self) -> None:
        """Close the own ends."""
        if self._is_open:
            self.hang_up()
        if self._is_read:
            os.close(self.asked)
        self._is_read = False


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    """Return both ends of a pipe; ``stack`` closes them."""
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends


class ReceivePack(GitService):
    """A running git receive-pack."""

    @classmethod
    def start(
        cls,
        store: GitStore,
        received: Receiving,
        *options: str,
        max_bytes: int,
        slot: Slot | None = None,
        stdin: Any = None,
        pass_fds: tuple[int, ...] = (),
    ) -> ReceivePack:
        """Start it in a repository that borrows from ``store``.

        ``max_bytes`` bounds the pack. ``RefusedError`` if git cannot be run.
        """
        config = {
            **_CONFIG,
            "core.hooksPath": os.fsdecode(received.hooks),
            "receive.maxInputSize": str(max_bytes),
            "transfer.hideRefs": hidden_refs(store),
            **unread_summaries(store),
        }
        return cls.launch(
            received.git,
            "receive-pack",
            *options,
            config=config,
            address_bytes=address_bytes(store),
            slot=slot,
            stdin=stdin,
            pass_fds=pass_fds,
        )
