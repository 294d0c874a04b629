"""Git's smart HTTP protocol in hgweb: routes, and how a request goes through them.

The order is that of what can go wrong. First comes what the client may do, then the
body of the request, then whether the store may be read. Then a slot is taken, and git
is started. The answer begins when git has written something. So every error but that
of a git process which breaks off has a status of its own (gitprotocol-http(5)).

hg clients use none of these routes. In repositories that do not enable amalgam, all is
left to Mercurial.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
import time
from typing import IO, TYPE_CHECKING, Any

from ..index import openhooks
from ..loading import load
from . import bundleuri, permissions, pktlines, requestbody
from .admission import Admission
from .economy import capabilities
from .exchange import GIT_AGENT, Exchange, malformed
from .receive import pushroutes
from .refusal import RefusedError
from .uploadpack import PROTOCOL, UploadPack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SERVICE = b"git-upload-pack"
_ARCHIVE = b"git-upload-archive"
_ADVERTISEMENT = b"info/refs"
_DUMB = re.compile(rb"HEAD|objects(?:/.*)?")
_TYPE = b"application/x-git-upload-pack-%s"
_COMMANDS = (b"ls-refs", b"fetch", bundleuri.COMMAND)
_ADVERTISEMENT_START = pktlines.line(b"# service=git-upload-pack\n") + pktlines.FLUSH
_SOON_SECONDS = 0.05
"""How long after a look at the store git may be started without another."""
_MOST_STARTS = 5
"""How often git is started if the repository hides something meanwhile."""

_NOT_SMART = b"only git's smart protocol is served here"


def handle_request(
    orig: Callable[..., bool], rctx: Any, req: Any, res: Any, checkperm: Any
) -> bool:
    """Answer a request of a git client; leave all others to Mercurial."""
    load(sys.modules[__name__])
    if not _is_ours(req) or not openhooks.enabled(rctx.repo.ui):
        return orig(rctx, req, res, checkperm)
    may = functools.partial(checkperm, rctx, req)
    if pushroutes.is_push(req):
        may_push = functools.partial(checkperm, rctx, pushroutes.as_post(req), b"push")
        pushroutes.PushExchange(rctx.repo, req, res, may_push).serve(may)
    else:
        _GitRequest(rctx.repo, req, res).serve(may)
    return True


def _is_ours(req: Any) -> bool:
    path = req.dispatchpath or b""
    if path == _ADVERTISEMENT:
        return b"service" in req.qsparams or b"cmd" not in req.qsparams
    return path in (_SERVICE, pushroutes.PUSH, _ARCHIVE) or bool(_DUMB.fullmatch(path))


class _GitRequest(Exchange):
    """A request on one of the routes."""

    def answer(self, may: Callable[[bytes], None]) -> None:
        """Answer it; ``RefusedError`` or ``ErrorResponse`` if that may not be."""
        req, path = self.req, self.req.dispatchpath
        may(b"pull")
        self._check_route()
        self._admission = Admission(self.repo, permissions.of_http(self.repo, req, may))
        self.watch(self._admission.config.quiet_seconds)
        if path == _ADVERTISEMENT:
            self._advertise()
        else:
            self._serve()

    def explained(self, code: int, sentence: bytes) -> tuple[int, bytes, bytes]:
        """Return status, type and body of an answer that is an error.

        Of errors, git prints only the body of ``info/refs``. So it gets the sentence as
        a line of the protocol (gitprotocol-pack(5), "error-line") if the server cannot
        answer now. All others need the status.
        """
        is_late = code >= 500 and self.req.dispatchpath == _SERVICE
        if is_late and GIT_AGENT.match(self.req.headers.get(b"User-Agent", b"")):
            return 200, _TYPE % b"result", pktlines.line(b"ERR %s\n" % sentence)
        return super().explained(code, sentence)

    def _check_route(self) -> None:
        """Refuse what is not an answer of upload-pack."""
        req, path = self.req, self.req.dispatchpath
        if req.rawenv.get(b"PATH_INFO", b"").endswith(b"/") or _DUMB.fullmatch(path):
            raise RefusedError(404, _NOT_SMART)
        service = path
        if path == _ADVERTISEMENT:
            service = b" ".join(req.qsparams.getall(b"service"))
            self.expect(b"GET")
        if not service:
            raise RefusedError(403, _NOT_SMART)
        if service != _SERVICE:
            raise RefusedError(403, b"this service of git is not offered here")
        if path != _ADVERTISEMENT:
            self.expect(b"POST")

    @property
    def _spoken(self) -> bytes:
        """The version of the protocol that the client asks for."""
        found: bytes = self.req.headers.get(b"Git-Protocol", b"")
        return found if PROTOCOL.fullmatch(found) else b""

    @property
    def _is_v2(self) -> bool:
        return self._spoken == b"version=2"

    def _make_fresh(self) -> None:
        with self.waiting(self._admission.config.queue_seconds):
            self._admission.make_fresh(now=self.wants_now)
        self._made_fresh = time.monotonic()

    def _take_slot(self, *, is_fetch: bool) -> None:
        with self.waiting(self._admission.config.queue_seconds):
            self.slot = self._admission.take_slot(is_fetch=is_fetch)

    def _advertise(self) -> None:
        """Answer with capabilities, and in versions 0 and 1 with all refs."""
        self._make_fresh()
        if self._is_v2:
            self._basis = capabilities.basis_of(self._admission.store)
            if told := capabilities.kept(self._basis):
                self.send_whole(_TYPE % b"advertisement", self._shown(told))
                return
        self._take_slot(is_fetch=False)
        self._run(b"advertisement", "--http-backend-info-refs")

    def _serve(self) -> None:
        """Answer one command of version 2, or one round of the earlier versions."""
        self.expect_type(_TYPE % b"request")
        limit = self._admission.config.max_body_bytes
        with requestbody.received(
            self.req, self.connection, limit, self.progress
        ) as body:
            try:
                head = pktlines.head_of(body)
            except ValueError:
                raise malformed() from None
            if head.is_flush:  # git asks whether it may send more, or needs a password
                self.send(_TYPE % b"result", iter(()))
                return
            allowed = _COMMANDS if self._is_v2 else (b"",)
            if head.command not in allowed:
                raise malformed()
            self.command = head.command or b"fetch"
            self._serve_command(head, body)

    def _serve_command(self, head: pktlines.Head, body: IO[bytes]) -> None:
        admission = self._admission
        if self.command == bundleuri.COMMAND:
            if not admission.config.bundle_uri:
                raise malformed()
            answer = bundleuri.answer_of(self.repo, self.req) or pktlines.FLUSH
            self.send(_TYPE % b"result", iter([answer]))
            return
        self._make_fresh()
        is_fetch = self.command == b"fetch"
        if is_fetch:
            admission.ask_hooks()
            with self.waiting(admission.config.queue_seconds):
                admission.await_objects(body)
        self._take_slot(is_fetch=is_fetch)
        if is_fetch:
            admission.tell_hooks(head.want)
        body.flush()
        self._run(b"result", body=body)

    def _run(self, kind: bytes, *options: str, body: IO[bytes] | None = None) -> None:
        """Answer with what git writes.

        The store may be read when git has begun to write. Else it is started again:
        whoever has hidden something has done so before the answer begins.
        """
        admission, spoken = self._admission, self._spoken
        for number in range(_MOST_STARTS):
            if number or time.monotonic() - self._made_fresh > _SOON_SECONDS:
                self._make_fresh()
            if body:
                os.lseek(body.fileno(), 0, os.SEEK_SET)  # git's position, not Python's
            seen = admission.seen()
            self.running = UploadPack.start(
                admission.store,
                "--stateless-rpc",
                *options,
                spoken=spoken,
                slot=self.slot,
                stdin=body,
            )
            pieces = self.pieces()
            first = next(pieces, b"")
            if admission.is_safe(seen):
                break
            self.stop_git()
        else:
            raise RefusedError.later(b"the repository keeps changing; try again")
        if not first:
            self.check_end()
        rest: Iterator[bytes] = iter(())
        if kind == b"result":
            rest = self.rest()
        elif self._is_v2:
            first = self._asked(b"".join((first, *pieces)))  # a handful
        else:
            first, rest = _ADVERTISEMENT_START + first, self.rest()
        self.send(_TYPE % kind, itertools.chain((first,), rest))

    def _asked(self, told: bytes) -> bytes:
        """Return the capabilities that this client is told, and keep those of git."""
        shown = self._shown(told)
        capabilities.keep(self._basis, told)
        return shown

    def _shown(self, told: bytes) -> bytes:
        """Return the capabilities that this client is told, of those of git."""
        offers = self._admission.config.bundle_uri
        if offers and bundleuri.answer_of(self.repo, self.req):
            return capabilities.shown(told, bundleuri.COMMAND)
        return capabilities.shown(told)
