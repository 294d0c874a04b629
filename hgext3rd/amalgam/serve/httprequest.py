"""One request of a git client and its answer: connection, body, git's process.

Owns git's process, its slot and the watchdog. The answer begins when git has written
something, so that a failure has a status of its own. All processes of git end with the
answer, also if the client leaves or the server never asks for it.

``hg serve`` exposes its socket and decodes no chunked requests. Other WSGI servers keep
the connection to themselves, decode requests, and have time limits of their own.

The body is read, decoded and bounded before git is started, into a temporary file
without a name. So a slow client holds no git process, and the connection is at the end
of the request before the answer: some clients read nothing before, and remaining bytes
would be taken for a request. A body of more than 64 KiB takes its slot before.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import signal
import socket
import tempfile
import time
import weakref
import zlib
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Protocol

from mercurial import pycompat, util
from mercurial.hgweb import common, server
from mercurial.i18n import _

from ..config import warn_once
from ..terminal import printable, utf8_of
from . import pktlines
from .errors import HttpError, temporary_file_in_use
from .limits import Watchdog, has_left
from .uploadpack import complaint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mercurial.interfaces.types import RepoT

    from ..config import ServeConfig
    from .admission import Admission
    from .limits import Slot
    from .uploadpack import GitService


_LONGEST_LINE = 1024
_MOST_TRAILERS = 16
_DISCARDED_BYTES = 1 << 16
_END = b"\r\n"
_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_FRAMING = frozenset({"content-length", "transfer-encoding"})
"""Headers that say where a request ends."""


class Connection:
    """The connection that a request came by.

    ``is_ambiguous``: a proxy may think that the request ends elsewhere. Nothing that
    follows such a request is taken for another one.
    """

    def __init__(self, req: Any) -> None:
        """``req`` is hgweb's request."""
        handler = getattr(req.rawenv.get(b"wsgi.errors"), "handler", None)
        is_hg_serve = isinstance(handler, server._httprequesthandler)
        self._handler: Any = handler if is_hg_serve else None
        self.file: BinaryIO = req.rawenv[b"wsgi.input"]
        self._chunks: ChunkedReader | None = None
        if self._handler:
            self.is_ambiguous = _is_ambiguous(self._handler)
        else:
            name = b"CONTENT_LENGTH"
            found = {req.rawenv.get(key) for key in (name, b"HTTP_" + name)}
            self.is_ambiguous = len(found - {None}) > 1
        if self.is_ambiguous:
            self.close_after_answer()

    @property
    def is_raw(self) -> bool:
        """Whether a chunked request is still to be decoded."""
        return self._handler is not None

    @property
    def is_open(self) -> bool:
        """Whether the client is there; also true if only the web server knows."""
        return self._handler is None or not has_left(self._handler.connection)

    def chunks(self) -> ChunkedReader:
        """Return the reader of a chunked request's body."""
        self._chunks = ChunkedReader(self.file)
        return self._chunks

    def discard_chunks(self) -> None:
        """Read the rest of a chunked request, which hgweb does not know.

        A client that still sends may not read an answer. Ends when the connection
        breaks.
        """
        with contextlib.suppress(HttpError, OSError, ValueError):
            while self._chunks and self._chunks.read(_DISCARDED_BYTES):
                pass

    def close_after_answer(self) -> None:
        """Take no further request from here: this one may not have been read whole."""
        if handler := self._handler:
            handler.close_connection = True

    def break_off(self) -> None:
        """End it now, for threads that read from it or write to it, too."""
        if self._handler:
            with contextlib.suppress(OSError):
                self._handler.connection.shutdown(socket.SHUT_RDWR)


def _is_ambiguous(handler: Any) -> bool:
    """Return whether web servers may disagree on the end of a request.

    It has two lengths, of which hgweb sees one; or a length in CGI's spelling, with
    underscores, which hgweb takes for the real one; or a line that ends the headers
    for Python only; or chunks in HTTP/1.0 (RFC 9112, section 6.1).
    """
    headers = handler.headers
    names = [name.lower() for name in headers]
    found = [name for name in names if name.replace("_", "-") in _FRAMING]
    is_old = handler.request_version < "HTTP/1.1" and "transfer-encoding" in found
    is_twice = len(found) > 1
    return is_twice or is_old or bool(headers.defects) or not _FRAMING.issuperset(found)


class ChunkedReader:
    """Reads the body of a chunked request (RFC 9112, section 7.1)."""

    def __init__(self, file: BinaryIO) -> None:
        """``file`` is at the beginning of the body, and stays at its end."""
        self._file = file
        self._left = 0
        self._is_at_end = False
        file.read(0)  # lets a client send that waits for "100 Continue"

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end; or ``HttpError``.

        After an error, the body is at its end.
        """
        if self._is_at_end:
            return b""
        try:
            return self._piece(size)
        except HttpError:
            self._is_at_end = True
            raise

    def _piece(self, size: int) -> bytes:
        if not self._left:
            self._left = self._next_size()
            if not self._left:
                self._is_at_end = True
                self._skip_trailers()
                return b""
        found = self._file.read(min(size, self._left))
        if not found:
            raise cut()
        self._left -= len(found)
        if not self._left and self._line() != _END:
            raise _malformed()
        return found

    def _next_size(self) -> int:
        found = _SIZE.fullmatch(self._line())
        if not found:
            raise _malformed()
        return int(found[1], 16)

    def _skip_trailers(self) -> None:
        for _number in range(_MOST_TRAILERS):
            line = self._line()
            if line == _END:
                return
            if not line.endswith(_END):
                break
        raise _malformed()

    def _line(self) -> bytes:
        line = self._file.readline(_LONGEST_LINE)
        if not line:
            raise cut()
        return line


def _ambiguous() -> HttpError:
    return HttpError(400, b"the request has two lengths, or malformed headers")


def cut() -> HttpError:
    """Return the refusal of a body that ends too early."""
    return HttpError(400, b"the request ends too early")


def _malformed() -> HttpError:
    return HttpError(400, b"the request is malformed: it is not chunked as it says")


_READ_BYTES = 1 << 14
_INFLATED_BYTES = 1 << 16
_SMALL_BYTES = 1 << 16
_LENGTH = re.compile(rb"[0-9]{1,15}")
_GZIP = 16 + zlib.MAX_WBITS
_GZIP_NAMES = (b"gzip", b"x-gzip")


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes; nothing at the end."""


def is_body_empty(req: Any) -> bool:
    """Return whether a request declares an empty body."""
    has_length = req.headers.get(b"Content-Length", b"0").strip() not in (b"", b"0")
    return not has_length and not req.headers.get(b"Transfer-Encoding")


@contextlib.contextmanager
def received_body(
    req: Any,
    connection: Connection,
    limit_bytes: int,
    moved: Callable[[int, float], bool],
    *,
    directory: bytes | None = None,
    before_more: Callable[[], None] = lambda: None,
) -> Iterator[IO[bytes]]:
    """Receive the body of ``req`` into a file, which is at its beginning.

    ``limit_bytes`` bounds it after decompression. ``moved`` is ``Watchdog.moved``.
    ``directory``: where the file is, if not in ``TMPDIR``. ``before_more`` is called
    before it takes more than 64 KiB. ``HttpError`` if it is too long, or malformed.
    """
    pieces = _read(_reader(req, connection), limit_bytes, moved)
    encoding = req.headers.get(b"Content-Encoding", b"identity").strip().lower()
    if encoding in _GZIP_NAMES:
        pieces = _inflated(pieces)
    elif encoding != b"identity":
        raise HttpError(415, b"the encoding of the request is not known")
    with contextlib.ExitStack() as stack:
        with temporary_file_in_use():
            place = os.fsdecode(directory) if directory else None
            file = tempfile.TemporaryFile(  # noqa: SIM115
                prefix="amalgam-request-", dir=place
            )
        stack.callback(_close, file)
        size = 0
        for piece in pieces:
            is_small = size <= _SMALL_BYTES
            size += len(piece)
            if size > limit_bytes:
                raise _too_long(limit_bytes)
            if is_small and size > _SMALL_BYTES:
                before_more()
            with temporary_file_in_use():
                file.write(piece)
        with temporary_file_in_use():
            file.seek(0)  # which writes the rest
        yield file


def _close(file: IO[bytes]) -> None:
    """Close a file, even if its last bytes find no room."""
    with contextlib.suppress(OSError):
        file.close()


def _reader(req: Any, connection: Connection) -> _Reader:
    """Return a reader of exactly the body of a request."""
    length = req.headers.get(b"Content-Length", b"").strip()
    coding = req.headers.get(b"Transfer-Encoding", b"").strip().lower()
    if coding and req.rawenv.get(b"wsgi.input_terminated"):
        return connection.file  # the web server has decoded it
    if connection.is_ambiguous or (coding and length):
        raise _ambiguous()
    if coding:
        if coding != b"chunked":
            raise HttpError(501, b"the transfer encoding of the request is not known")
        if connection.is_raw:
            return connection.chunks()
        sentence = (
            b"the web server does not decode chunked requests "
            b"(git config http.postBuffer 64m)"
        )
        raise HttpError(411, sentence)
    if not length:
        raise HttpError(411, b"the request has no length")
    if not _LENGTH.fullmatch(length):
        raise HttpError(400, b"the length of the request is malformed")
    return _Measured(req.bodyfh, int(length))


class _Measured:
    """Reader of a body of known length."""

    def __init__(self, file: _Reader, length: int) -> None:
        self._file = file
        self._left = length

    def read(self, size: int, /) -> bytes:
        if not self._left:
            return b""
        found = self._file.read(min(size, self._left))
        if not found:
            raise cut()
        self._left -= len(found)
        return found


def _read(
    reader: _Reader, limit_bytes: int, moved: Callable[[int, float], bool]
) -> Iterator[bytes]:
    """Yield the body as sent, which is not longer than its decoded form may be."""
    size = 0
    while True:
        began = time.monotonic()
        try:
            piece = reader.read(_READ_BYTES)
        except HttpError:
            if moved(0, 0):
                raise
            raise _too_slow() from None  # it was cut for that
        if not piece:
            return
        if not moved(len(piece), time.monotonic() - began):
            raise _too_slow()
        size += len(piece)
        if size > limit_bytes:
            raise _too_long(limit_bytes)
        yield piece


def _too_slow() -> HttpError:
    return HttpError(408, b"the request comes too slowly")


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the content of one gzip member, and nothing may follow it (RFC 1952)."""
    stream = zlib.decompressobj(_GZIP)
    try:
        for piece in pieces:
            if stream.eof:
                raise _no_gzip()
            rest, is_full = piece, True
            while rest or (is_full and not stream.eof):
                inflated = stream.decompress(rest, _INFLATED_BYTES)
                rest, is_full = stream.unconsumed_tail, len(inflated) == _INFLATED_BYTES
                yield inflated
            if stream.unused_data:
                raise _no_gzip()
        if not stream.eof:
            raise _no_gzip()
    except zlib.error:
        raise _no_gzip() from None


def _no_gzip() -> HttpError:
    return HttpError(400, b"the request is malformed: it is not compressed as it says")


def _too_long(limit_bytes: int) -> HttpError:
    sentence = _(b"the request is longer than %s") % util.bytecount(limit_bytes)
    return HttpError(413, sentence)


class _Body:
    """An answer that ends with the loop over it.

    hgweb gives the repository to another request when that loop has ended, and drops
    the response, with a generator in it, after that.
    """

    def __init__(self, begin: Callable[[], Iterator[bytes]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[bytes]:
        return self._begin()


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
"""Seconds that a client may go on sending a refused body."""
_DIED = 128
"""The exit code of git if it does not go on with a request."""
_CRASHES = (-signal.SIGSEGV, -signal.SIGABRT)
"""How git ends by a mistake of its own, which an odd request has met: in version 2.39,
the first by a push with ``shallow`` and the id of a tree."""
_OUR_FAULT = re.compile(
    rb"error: |fatal: (?:packed object|multi-pack-index|mmap|out of memory|unable to)",
    re.IGNORECASE,
)
"""Prefixes of git errors caused by the server, not by the request. The rest may repeat
the request."""


class GitRequest:
    """A request, its git process, and its answer."""

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
        self.outcome = b"done"
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
            self.refuse(HttpError(exc.code, sentence, headers=headers))
        except HttpError as exc:
            self.refuse(exc)
        except BaseException:
            self.connection.close_after_answer()
            self.end(b"failed", kill=True)
            raise

    def answer(self, may: Callable[[bytes], None]) -> None:
        """Answer it; ``HttpError`` or ``ErrorResponse`` if that may not be."""
        raise NotImplementedError

    @property
    def wants_now(self) -> bool:
        """Whether the client waits for all that is served."""
        wanted: bytes = self.req.headers.get(b"X-Amalgam-Freshness", b"")
        return wanted == b"now"

    def expect(self, *methods: bytes) -> None:
        """Refuse other methods, ambiguous requests, and a body where none belongs.

        HEAD is allowed where GET is. OPTIONS is answered here: by the methods.
        """
        if b"GET" in methods:
            methods = (*methods, b"HEAD")
        allowed = (b"Allow", b", ".join((*methods, b"OPTIONS")))
        method = self.req.method
        if method not in (*methods, b"OPTIONS"):
            raise HttpError(405, b"method not allowed", headers=(allowed,))
        if self.connection.is_ambiguous:
            raise _ambiguous()
        if method != b"POST" and not is_body_empty(self.req):
            raise HttpError(400, b"this request has no body")
        if method == b"OPTIONS":
            raise HttpError(200, b"", headers=(allowed,))

    def expect_type(self, kind: bytes) -> None:
        """Refuse a request whose body is of another type than ``kind``."""
        found = self.req.headers.get(b"Content-Type", b"").partition(b";")[0]
        if found.strip().lower() != kind:
            sentence = b"the content type of the request has to be " + kind
            raise HttpError(415, sentence)

    def watch(self, config: ServeConfig) -> None:
        """Bound the time from now on."""
        # weak: the watchdog must not keep a dropped request alive
        bite = functools.partial(_bite, weakref.ref(self))
        self.watchdog = Watchdog(config.quiet_seconds, bite, config.least_speed)

    def received(
        self, admission: Admission, limit_bytes: int, *, is_fetch: bool = False
    ) -> contextlib.AbstractContextManager[IO[bytes]]:
        """Receive the body, as ``received_body``.

        A large one takes a slot first, so that bodies fill the disk no more than slots.
        """
        assert self.watchdog is not None

        def take_slot() -> None:
            self.take_slot(admission, is_fetch=is_fetch)

        return received_body(
            self.req,
            self.connection,
            limit_bytes,
            self.watchdog.moved,
            before_more=take_slot,
        )

    def take_slot(self, admission: Admission, *, is_fetch: bool) -> None:
        """Take a slot, unless the request has one; ``HttpError`` if none is free."""
        if self.slot is None:
            with self.waiting(admission.config.queue_seconds):
                self.slot = admission.take_slot(is_fetch=is_fetch)

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

    def waits_on(self) -> bool:
        """Return whether the client is known to wait, or may; count it as progress."""
        self.progress()
        return self.connection.is_open

    def break_off(self) -> None:
        """Close pipes and sockets that the thread of this request waits for."""
        if self.running:
            self.running.kill()
        self.connection.break_off()

    def pieces(self) -> Iterator[bytes]:
        """Yield git's output; nothing if git has ended without any."""
        while self.running and (piece := self.running.read()):
            self.progress()
            yield piece
            self.progress()  # the server has taken it

    def send_whole(self, kind: bytes, content: bytes) -> None:
        """Answer with ``content`` and its length."""
        self.send(kind, iter((content,)), len(content))

    def send(
        self, kind: bytes, pieces: Iterator[bytes], length_bytes: int | None = None
    ) -> None:
        """Answer with ``pieces``; with none of them if only headers are asked for."""
        if self.req.method == b"HEAD":
            self.stop_git()
            pieces = iter(())
        res = self._take_response()
        res.status = b"200 OK"
        res.headers[b"Content-Type"] = kind
        if length_bytes is not None:
            res.headers[b"Content-Length"] = b"%d" % length_bytes
        for name, value in _NO_CACHE:
            res.headers[name] = value
        res.setbodygen(_Body(functools.partial(self._body, pieces)))

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
        logged = _(b"git ended with %d: %s") % (code, said)
        is_refused = code == _DIED and not _OUR_FAULT.match(said)
        if self.req.method == b"POST" and (is_refused or code in _CRASHES):
            raise malformed(logged, complaint(said))
        if code:
            raise HttpError(500, b"git failed on the server", logged=logged)

    def _body(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        is_whole = timed_out = False
        try:
            for piece in itertools.chain(pieces, self._last_words()):
                self._sent_bytes += len(piece)
                began = time.monotonic()
                yield piece
                seconds = time.monotonic() - began
                if self.watchdog and not self.watchdog.moved(len(piece), seconds):
                    timed_out = True
                    self.break_off()
                    break
            else:
                is_whole = True
        finally:
            timed_out |= self.watchdog is not None and self.watchdog.has_bitten
            how = b"timed out" if timed_out else b"cut"
            if is_whole and not timed_out:
                how = self.outcome
            self.end(how, kill=not is_whole)
        if timed_out and not self.connection.is_raw:
            raise TimeoutError("git made no progress, or the client did not read")

    def _last_words(self) -> Iterator[bytes]:
        """End git, and tell the client why it broke off, if that can be told.

        The status was sent before, so the log has to say it, too.
        """
        if self.running is None:
            return
        code = self.running.close(kill=False)
        said, self.running = self.running.said(), None
        if code:
            self.outcome = b"git ended with %d: %s" % (code, said)
            if sentence := complaint(said):
                yield pktlines.error_line(sentence)

    def refuse(self, refusal: HttpError) -> None:
        """Answer with a status and a sentence."""
        self.end(self.noted(refusal), kill=True)
        req, res, connection = self.req, self._take_response(), self.connection
        if req.method in (b"POST", b"PUT") or not is_body_empty(req):
            connection.close_after_answer()
        code, kind, body = self.explained(refusal.code, printable(refusal.sentence))
        if req.method == b"OPTIONS":
            body = b""
        res.status = common.statusmessage(code)
        for name, value in refusal.headers:
            res.headers[name] = value
        res.headers[b"Content-Type"] = kind
        res.headers[b"Content-Length"] = b"%d" % len(body)
        for name, value in _NO_CACHE:
            res.headers[name] = value
        pieces = () if req.method == b"HEAD" else (body,)
        # hgweb reads the rest of the request before it answers
        watchdog = Watchdog(_REFUSED_SECONDS, connection.break_off)
        discard = connection.discard_chunks
        res.setbodygen(_while_watched(watchdog, discard, pieces))

    def noted(self, refusal: HttpError) -> bytes:
        """Tell the operator of a refusal, and return it for the log."""
        if refusal.code >= 500 and refusal.logged != refusal.sentence:
            warn_once(self.repo.ui, _(b"git: %s") % refusal.logged)
        if refusal.code == 200:
            return b"done"
        return b"refused with %d: %s" % (refusal.code, refusal.logged)

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
        """End an answer that the web server never asked for."""
        self.end(b"cut", kill=True)


def _bite(exchange: weakref.ReferenceType[GitRequest]) -> None:
    """Break off a request; its thread does the rest."""
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


def malformed(logged: bytes = b"", sentence: bytes = b"") -> HttpError:
    """Return the refusal of a request that is not as git's are, or cannot be met."""
    sentence = sentence or b"the request is malformed: it is not git's"
    return HttpError(400, sentence, logged=logged)
