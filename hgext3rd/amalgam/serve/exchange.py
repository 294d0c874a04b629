"""One request of a git client and its answer: what is to be given back at the end.

Owns git's process, its slot and the watchdog. The answer begins when git has written
something, so that its failure has a status of its own. However the answer ends, also
if the client leaves or the server never asks for it, all processes of git end with it.
"""

from __future__ import annotations

import contextlib
import functools
import re
import time
import weakref
from typing import TYPE_CHECKING, Any

from mercurial import pycompat
from mercurial.hgweb import common
from mercurial.i18n import _

from ..config import warn_once
from ..terminal import printable, utf8_of
from . import requestbody
from .connection import Connection
from .refusal import RefusedError
from .watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mercurial.interfaces.types import RepoT

    from .slots import Slot
    from .uploadpack import GitService

_NO_CACHE = (
    (b"Expires", b"Fri, 01 Jan 1980 00:00:00 GMT"),
    (b"Pragma", b"no-cache"),
    (b"Cache-Control", b"no-cache, max-age=0, must-revalidate"),
    (b"X-Content-Type-Options", b"nosniff"),
)
# not dulwich, which expects no line about an error after its wants
GIT_AGENT = re.compile(rb"git/[0-9]")
"""How git itself begins its name."""
_REFUSED_SECONDS = 10
"""How long a client may go on sending what is refused."""
_DIED = 128
"""The exit code of git if it does not go on with a request."""
_OUR_FAULT = re.compile(
    rb"error: |fatal: (?:packed object|multi-pack-index|mmap|out of memory|unable to)",
    re.IGNORECASE,
)
"""How begins what git says if the reason is not in the request. The rest may repeat
what is."""


class Exchange:
    """A request, what works on it, and its answer."""

    def __init__(self, repo: RepoT, req: Any, res: Any) -> None:
        """``req`` and ``res`` are hgweb's request and response."""
        self.repo, self.req = repo, req
        self._res = res
        self.connection = Connection(req)
        self._started = time.monotonic()
        self.watchdog: Watchdog | None = None
        self.slot: Slot | None = None
        self.running: GitService | None = None
        self.command = b"advertisement"
        self._sent_bytes = 0
        self._is_ended = False

    def serve(self, may: Callable[[bytes], None]) -> None:
        """Answer the request, or say why not.

        ``may`` asks for a permission.
        """
        try:
            self.answer(may)
        except common.ErrorResponse as exc:
            headers = tuple(exc.headers)
            sentence = utf8_of(pycompat.bytestr(exc))
            self.refuse(RefusedError(exc.code, sentence, headers=headers))
        except RefusedError as exc:
            self.refuse(exc)
        except BaseException:
            self.end(b"failed", kill=True)
            raise

    def answer(self, may: Callable[[bytes], None]) -> None:
        """Answer it; ``RefusedError`` or ``ErrorResponse`` if that may not be."""
        raise NotImplementedError

    @property
    def wants_now(self) -> bool:
        """Whether the client waits for all that is served."""
        wanted: bytes = self.req.headers.get(b"X-Amalgam-Freshness", b"")
        return wanted == b"now"

    def expect(self, *methods: bytes) -> None:
        """Refuse a request with another method, and one with a body if it has none."""
        if self.req.method not in methods:
            allowed = (b"Allow", b", ".join(methods))
            raise RefusedError(405, b"method not allowed", headers=(allowed,))
        if b"GET" in methods and not requestbody.is_empty(self.req):
            raise RefusedError(400, b"this request has no body")

    def expect_type(self, kind: bytes) -> None:
        """Refuse a request whose body is of another type than ``kind``."""
        found = self.req.headers.get(b"Content-Type", b"").partition(b";")[0]
        if found.strip().lower() != kind:
            sentence = b"the content type of the request has to be " + kind
            raise RefusedError(415, sentence)

    def watch(self, quiet_seconds: float) -> None:
        """Bound the time from now on."""
        # not to keep alive what the server has dropped
        bite = functools.partial(_bite, weakref.ref(self))
        self.watchdog = Watchdog(quiet_seconds, bite)

    def progress(self) -> None:
        """Note that something came, or was taken."""
        if self.watchdog:
            self.watchdog.feed()

    @contextlib.contextmanager
    def waiting(self, seconds: float) -> Iterator[None]:
        """Allow for a wait that ends by itself after ``seconds``."""
        if self.watchdog:
            self.watchdog.feed(seconds)
        yield
        self.progress()

    def break_off(self) -> None:
        """End what the thread of this request waits for."""
        if self.running:
            self.running.kill()
        self.connection.break_off()

    def rest(self) -> Iterator[bytes]:
        """Yield what git goes on to write after the answer has begun.

        Unless the kernel can send it: then it is sent, and nothing is yielded.
        """
        assert self.running is not None
        spliced = self.connection.spliced(self.running.output)
        if spliced is None:
            yield from self.pieces()
            return
        for size in spliced:
            self._sent_bytes += size
            self.progress()

    def pieces(self) -> Iterator[bytes]:
        """Yield what git writes."""
        assert self.running is not None
        while piece := self.running.read():
            self.progress()
            yield piece
            self.progress()  # the server has taken it

    def send_whole(self, kind: bytes, content: bytes) -> None:
        """Answer with ``content``, or only with its length if that is all asked for."""
        pieces = () if self.req.method == b"HEAD" else (content,)
        self.send(kind, iter(pieces), len(content))

    def send(
        self, kind: bytes, pieces: Iterator[bytes], length_bytes: int | None = None
    ) -> None:
        """Answer with ``pieces``."""
        res = self._take_response()
        res.status = b"200 OK"
        res.headers[b"Content-Type"] = kind
        if length_bytes is not None:
            res.headers[b"Content-Length"] = b"%d" % length_bytes
        for name, value in _NO_CACHE:
            res.headers[name] = value
        res.setbodygen(self._body(pieces))

    def _take_response(self) -> Any:
        """Return the response, which is not kept.

        It keeps the answer, which keeps this. In a circle, nothing would end when the
        server drops the response.
        """
        res, self._res = self._res, None
        return res

    def stop_git(self) -> None:
        """End git, which is to be started again."""
        if self.running:
            self.running.close(kill=True)
            self.running.said()
        self.running = None

    def check_end(self) -> None:
        """Refuse the request if git has failed, which has written nothing."""
        assert self.running is not None
        code = self.running.close(kill=False)
        said, self.running = self.running.said(), None
        is_ours = _OUR_FAULT.match(said) is not None
        if code == _DIED and self.req.method == b"POST" and not is_ours:
            raise malformed(said)
        if code:
            logged = _(b"git ended with %d: %s") % (code, said)
            raise RefusedError(500, b"git failed on the server", logged=logged)

    def _body(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        is_whole = False
        try:
            for piece in pieces:
                self._sent_bytes += len(piece)
                yield piece
            is_whole = True
        finally:
            timed_out = self.watchdog is not None and self.watchdog.has_bitten
            how = b"timed out" if timed_out else b"cut"
            if is_whole and not timed_out:
                how = self._outcome()
            self.end(how, kill=not is_whole)
        if timed_out and not self.connection.is_raw:
            raise TimeoutError("git made no progress, or the client did not read")

    def _outcome(self) -> bytes:
        """Return how a request ended whose whole answer was sent.

        git may have broken off: the status was sent before, so the log has to say it.
        """
        if self.running is None:
            return b"done"
        code = self.running.close(kill=False)
        said, self.running = self.running.said(), None
        return b"git ended with %d: %s" % (code, said) if code else b"done"

    def refuse(self, refusal: RefusedError) -> None:
        """Answer with a status and a sentence."""
        self.end(b"refused with %d: %s" % (refusal.code, refusal.logged), kill=True)
        if refusal.code >= 500 and refusal.logged != refusal.sentence:
            warn_once(self.repo.ui, _(b"git: %s") % refusal.logged)
        req, res, connection = self.req, self._take_response(), self.connection
        if req.method not in (b"GET", b"HEAD") or not requestbody.is_empty(req):
            connection.close_after_answer()
        code, kind, body = self.explained(refusal.code, printable(refusal.sentence))
        res.status = common.statusmessage(code)
        for name, value in refusal.headers:
            res.headers[name] = value
        res.headers[b"Content-Type"] = kind
        res.headers[b"Content-Length"] = b"%d" % len(body)
        for name, value in _NO_CACHE:
            res.headers[name] = value
        pieces = () if req.method == b"HEAD" else (body,)
        # hgweb reads what is left of the request before it answers
        watchdog = Watchdog(_REFUSED_SECONDS, connection.break_off)
        discard = connection.discard_chunks
        res.setbodygen(_while_watched(watchdog, discard, pieces))

    def explained(self, code: int, sentence: bytes) -> tuple[int, bytes, bytes]:
        """Return status, type and body of an answer that is an error."""
        return code, b"text/plain; charset=utf-8", sentence + b"\n"

    def end(self, how: bytes, *, kill: bool) -> None:
        """Give everything back, and log the request, once."""
        if self._is_ended:
            return
        self._is_ended = True
        if self.running:
            self.running.close(kill=kill)
            self.running.said()
        if self.slot:
            self.slot.release()
        if self.watchdog:
            self.watchdog.stop()
        self.repo.ui.log(
            b"amalgam",
            b"git %s of %s by %s at %s: %s, %d bytes in %.3f seconds\n",
            self.command,
            self.repo.root,
            printable(self.req.remoteuser or b"-"),
            printable(self.req.remotehost or b"-"),
            printable(how),
            self._sent_bytes,
            time.monotonic() - self._started,
        )

    def __del__(self) -> None:
        """End what the web server has never asked for."""
        self.end(b"cut", kill=True)


def _bite(exchange: weakref.ReferenceType[Exchange]) -> None:
    """End what an exchange waits for; its thread does the rest."""
    found = exchange()
    if found is not None:
        found.break_off()


def _while_watched(
    watchdog: Watchdog, discard: Callable[[], None], pieces: tuple[bytes, ...]
) -> Iterator[bytes]:
    """Yield an answer when the rest of the request has been discarded."""
    try:
        discard()
        watchdog.feed()
        yield from pieces
    finally:
        watchdog.stop()


def malformed(logged: bytes = b"") -> RefusedError:
    """Return the refusal of a request that is not as git's are."""
    sentence = b"the request is malformed: it is not git's"
    return RefusedError(400, sentence, logged=logged)
