"""A push over ssh: one git process for all of it, and the steps of one over HTTP.

Owns the limits of a session. Does not know where it comes from, nor what a client may.
"""

from __future__ import annotations

import contextlib
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

from ..admission import Admission
from ..receive import policy
from ..receive.reception import Reception
from ..watchdog import Watchdog
from .session import end_all, write_all

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

_TRIALS = 10
"""How many times the limit without progress an answer to git's hook may last."""


class PushSession:
    """A client that may push, on two descriptors."""

    def __init__(self, repo: RepoT, proto: Any, stdin: int, stdout: int) -> None:
        """``RefusedError`` if it gets no answer. ``proto``: how it would speak hg's."""
        policy.check(repo)
        self._repo, self._proto = repo, proto
        self._admission = Admission(repo, proto)
        self._stdin, self._stdout = stdin, stdout
        self._quiet_seconds = self._admission.config.quiet_seconds
        self._watchdog = Watchdog(self._quiet_seconds, end_all)

    def run(self) -> tuple[int, bytes]:
        """Serve the client to its end.

        Return git's exit code and what it said; ``RefusedError`` if it gets no answer.
        """
        admission = self._admission
        with contextlib.ExitStack() as stack:
            stack.callback(self._watchdog.stop)
            admission.make_fresh(now=True)
            slot = admission.take_push_slot()
            stack.callback(slot.release)
            reception = Reception(stack, admission, self._repo, self._proto)
            reception.copy_refs()
            running = reception.start(slot=slot, stdin=PIPE)
            stack.callback(running.end)
            pieces = reception.pieces(
                running,
                self._is_answering,
                self._watchdog.feed,
                lambda: self._watchdog.has_bitten,
                self._stdin,
            )
            for piece in pieces:
                write_all(self._stdout, piece)
                self._watchdog.feed()
            return running.close(kill=False), running.said()

    def _is_answering(self) -> None:
        """Allow for the time that Mercurial needs."""
        self._watchdog.feed(_TRIALS * self._quiet_seconds)
