"""Pushes over HTTP: two routes, as gitprotocol-http(5) has them.

A client first asks for the refs, then sends all of the push in one request. Both need
the permission ``push``, as Mercurial's own protocol does.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import IO, TYPE_CHECKING, Any

from mercurial.hgweb import request

from .. import permissions, pktlines, requestbody
from ..admission import Admission
from ..exchange import GIT_AGENT, Exchange, malformed
from ..refusal import RefusedError
from . import policy
from .reception import Reception

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mercurial.interfaces.types import RepoT

    from .receivepack import ReceivePack

PUSH = b"git-receive-pack"
_ADVERTISEMENT = b"info/refs"
_TYPE = b"application/x-git-receive-pack-%s"
_START = pktlines.line(b"# service=git-receive-pack\n") + pktlines.FLUSH
_ADVERTISE = ("--stateless-rpc", "--http-backend-info-refs")
_TRIALS = 10
"""How many times the limit without progress an answer to git's hook may last."""


def is_push(req: Any) -> bool:
    """Tell whether a request belongs to a push."""
    path = req.dispatchpath
    if path == _ADVERTISEMENT:
        return bool(req.qsparams.getall(b"service") == [PUSH])
    return bool(path == PUSH)


def as_post(req: Any) -> Any:
    """Return a request as it would be if it changed something.

    Mercurial allows pushes by POST only. So it is asked for the permission to push in
    this way also if a client asks for refs, which it does by GET.
    """
    return request.attr.evolve(req, method=b"POST")


class PushExchange(Exchange):
    """A request of a push."""

    def __init__(
        self, repo: RepoT, req: Any, res: Any, may_push: Callable[[], None]
    ) -> None:
        """``may_push`` asks for the permission to push."""
        super().__init__(repo, req, res)
        self._may_push = may_push
        self._stack = contextlib.ExitStack()
        self.command = b"push"

    def answer(self, may: Callable[[bytes], None]) -> None:
        """Answer it; ``RefusedError`` or ``ErrorResponse`` if that may not be."""
        req = self.req
        may(b"pull")
        if req.rawenv.get(b"PATH_INFO", b"").endswith(b"/"):
            raise RefusedError(404, b"only git's smart protocol is served here")
        asks = req.dispatchpath == _ADVERTISEMENT
        self.expect(b"GET" if asks else b"POST")
        policy.check(self.repo)
        self._may_push()
        proto = permissions.of_http(self.repo, req, may)
        self._admission = Admission(self.repo, proto)
        self.watch(self._admission.config.quiet_seconds)
        if asks:
            self.command = b"push advertisement"
            self._advertise(proto)
        else:
            self._receive(proto)

    def explained(self, code: int, sentence: bytes) -> tuple[int, bytes, bytes]:
        """Return status, type and body of an answer that is an error.

        Of one to a push, git prints only what comes in the stream for errors
        (gitprotocol-pack(5), "side-band-64k"). 401 makes it ask for a password.
        """
        is_push = self.req.dispatchpath == PUSH and self.req.method == b"POST"
        by_git = GIT_AGENT.match(self.req.headers.get(b"User-Agent", b""))
        if is_push and by_git and code != 401:
            error = pktlines.line(b"\3%s\n" % sentence)
            return 200, _TYPE % b"result", error + pktlines.FLUSH
        return super().explained(code, sentence)

    def _advertise(self, proto: Any) -> None:
        """Answer with all refs, and with what receive-pack can do."""
        with self.waiting(self._admission.config.queue_seconds):
            self._admission.make_fresh(now=True)
            self.slot = self._admission.take_slot(is_fetch=False)
        self._run(Reception(self._stack, self._admission, self.repo, proto), None)

    def _receive(self, proto: Any) -> None:
        """Receive a push and answer what became of it."""
        self.expect_type(_TYPE % b"request")
        # first, so that no more bodies are on the disk than there are slots
        with self.waiting(self._admission.config.queue_seconds):
            self.slot = self._admission.take_push_slot()
        reception = Reception(self._stack, self._admission, self.repo, proto)
        assert self.watchdog is not None
        # a method of this would keep this alive
        feed = self.watchdog.feed
        body = self._stack.enter_context(
            requestbody.received(
                self.req,
                self.connection,
                self._admission.config.max_push_bytes,
                feed,
                reception.received.directory.path,
            )
        )
        try:
            head = pktlines.head_of(body)
        except ValueError:
            raise malformed() from None
        if head.is_flush:  # git asks whether it may send more, or needs a password
            self.send(_TYPE % b"result", iter(()))
            return
        os.lseek(body.fileno(), 0, os.SEEK_SET)  # git's position, not Python's
        with self.waiting(self._admission.config.queue_seconds):
            self._admission.make_fresh()
        self._run(reception, body)

    def _run(self, reception: Reception, body: IO[bytes] | None) -> None:
        """Answer with what git writes."""
        reception.copy_refs()
        options = ("--stateless-rpc",) if body else _ADVERTISE
        running = reception.start(*options, slot=self.slot, stdin=body)
        self.running = running
        pieces = self._pieces(reception, running)
        first = next(pieces, b"")
        if not first:
            self.check_end()
        kind = b"result"
        if body is None:
            kind, first = b"advertisement", _START + first
        self.send(_TYPE % kind, itertools.chain((first,), pieces))

    def _pieces(self, reception: Reception, running: ReceivePack) -> Iterator[bytes]:
        watchdog = self.watchdog
        assert watchdog is not None
        for piece in reception.pieces(
            running, self._is_answering, self.progress, lambda: watchdog.has_bitten
        ):
            yield piece
            self.progress()  # the server has taken it

    def _is_answering(self) -> None:
        """Allow for the time that Mercurial needs."""
        if self.watchdog:
            self.watchdog.feed(_TRIALS * self._admission.config.quiet_seconds)

    def end(self, how: bytes, *, kill: bool) -> None:
        """Give everything back, and log the request, once."""
        super().end(how, kill=kill)
        self._stack.close()
