"""A session of a git client over ssh: each request passes what one of hgweb passes.

In version 2 of the protocol, a client sends one request after the other, and none
needs the one before it. So each is read whole, and git is started for it alone, when it
may be answered (gitprotocol-v2(5)). In earlier versions one git process serves the
session. It has files open that may be gone. So each time that it begins to answer, the
store has to be safe, and still have all packs that it had at the start.

Owns the limits of a session. Does not know where it comes from, nor what a client may.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import tempfile
import threading
from subprocess import PIPE
from typing import IO, TYPE_CHECKING, Any

from .. import pktlines
from ..admission import Admission
from ..economy import capabilities
from ..refusal import RefusedError, temporary_file_in_use
from ..uploadpack import UploadPack
from ..watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT

    from ..admission import Seen
    from ..slots import Slot

_PIECE_BYTES = 1 << 16
_MOST_STARTS = 5
_LONGEST_LIST = 1 << 16
"""Bytes of what git can do, as it says itself."""
_ADVERTISE = ("--stateless-rpc", "--http-backend-info-refs")
_COMMANDS = (b"ls-refs", b"fetch")
_CHANGES = b"the repository keeps changing; try again"
_MALFORMED = b"the request is malformed: it is not git's"


class Session:
    """A client that may pull, on two descriptors."""

    def __init__(self, repo: RepoT, proto: Any, stdin: int, stdout: int) -> None:
        """``RefusedError`` if it gets no answer. ``proto``: how it would speak hg's."""
        self._admission = Admission(repo, proto)
        self._stdin, self._stdout = stdin, stdout
        self._watchdog = Watchdog(self._admission.config.quiet_seconds, end_all)

    def run(self, spoken: bytes) -> tuple[int, bytes]:
        """Serve the client to its end.

        ``spoken``: the protocol version that it asks for, or nothing. Return git's exit
        code and what it said; ``RefusedError`` if a request gets no answer.
        """
        try:
            if spoken == b"version=2":
                return self._answer_each(spoken)
            return self._relay(spoken)
        finally:
            self._watchdog.stop()

    def _answer_each(self, spoken: bytes) -> tuple[int, bytes]:
        """Serve requests of version 2, each by a git process of its own."""
        with self._answer(spoken, None, is_fetch=False) as (running, first):
            found = first
            while len(found) < _LONGEST_LIST and (piece := running.read()):
                found += piece
        self._write(capabilities.shown(found))
        with io.BufferedReader(_Input(self._stdin, self._watchdog)) as stream:
            while body := self._next_request(stream):
                with body:
                    code, said = self._answer_request(spoken, body)
                if code:
                    return code, said
        return 0, b""

    def _next_request(self, stream: IO[bytes]) -> IO[bytes] | None:
        """Read a request into a file without a name; ``None`` at the end of all."""
        limit = self._admission.config.max_body_bytes
        with temporary_file_in_use():
            # it ends with the object that is returned
            body = tempfile.TemporaryFile(prefix="amalgam-request-")  # noqa: SIM115
        size = 0
        try:
            for content in pktlines.lines(stream):
                is_mark = content in (pktlines.FLUSH, pktlines.DELIMITER)
                size += len(content) if is_mark else len(content) + 4
                if size > limit:
                    raise RefusedError(413, b"the request is too long")
                with temporary_file_in_use():
                    body.write(content if is_mark else pktlines.line(content))
                    if content == pktlines.FLUSH:
                        body.seek(0)  # which writes the rest
                        return body
            if size:
                raise RefusedError(400, b"the request ends too early")
        except ValueError:
            body.close()
            raise RefusedError(400, _MALFORMED) from None
        except BaseException:
            body.close()
            raise
        body.close()
        return None

    def _answer_request(self, spoken: bytes, body: IO[bytes]) -> tuple[int, bytes]:
        """Answer one request; git's exit code and what it said."""
        try:
            head = pktlines.head_of(body)
        except ValueError:
            raise RefusedError(400, _MALFORMED) from None
        if head.is_flush:  # the client has what it wants
            return 0, b""
        if head.command not in _COMMANDS:
            raise RefusedError(400, _MALFORMED)
        is_fetch = head.command == b"fetch"
        with self._answer(spoken, body, is_fetch=is_fetch, want=head.want) as found:
            running, piece = found
            while piece:
                self._write(piece)
                piece = running.read()
            return running.close(kill=False), running.said()

    @contextlib.contextmanager
    def _answer(
        self,
        spoken: bytes,
        body: IO[bytes] | None,
        *,
        is_fetch: bool,
        want: bytes = b"",
    ) -> Iterator[tuple[UploadPack, bytes]]:
        """Let git begin an answer while the store may be read; yield its first piece.

        Its processes end with the context.
        """
        admission = self._admission
        admission.make_fresh()
        if is_fetch and body:
            admission.ask_hooks()
            admission.await_objects(body)
        slot = admission.take_slot(is_fetch=is_fetch)
        running = None
        try:
            if is_fetch:
                admission.tell_hooks(want)
            running, first = self._begun(spoken, slot, body)
            yield running, first
        finally:
            if running is not None:
                running.end()
            slot.release()

    def _begun(
        self, spoken: bytes, slot: Slot, body: IO[bytes] | None
    ) -> tuple[UploadPack, bytes]:
        admission = self._admission
        options = ("--stateless-rpc",) if body else _ADVERTISE
        for _number in range(_MOST_STARTS):
            admission.make_fresh()
            if body:
                body.flush()
                os.lseek(body.fileno(), 0, os.SEEK_SET)  # git's position, not Python's
            seen = admission.seen()
            running = UploadPack.start(
                admission.store, *options, spoken=spoken, slot=slot, stdin=body
            )
            try:
                first = running.read()
                self._watchdog.feed()
                if admission.is_safe(seen):
                    return running, first
            except BaseException:
                running.end()
                raise
            running.end()
        raise RefusedError.later(_CHANGES)

    def _relay(self, spoken: bytes) -> tuple[int, bytes]:
        """Serve a session of version 0 or 1 by one git process."""
        admission = self._admission
        admission.make_fresh()
        admission.ask_hooks()
        slot = admission.take_slot(is_fetch=True)
        running = None
        try:
            admission.tell_hooks(b"")
            admission.make_fresh()
            seen = admission.seen()
            running = UploadPack.start(
                admission.store, spoken=spoken, slot=slot, stdin=PIPE
            )
            self._pump(running, seen)
            return running.close(kill=False), running.said()
        finally:
            if running is not None:
                running.end()
            slot.release()

    def _pump(self, running: UploadPack, seen: Seen) -> None:
        """Pass on what both say, until git ends. What it has open may be gone."""
        admission = self._admission
        answers, asks = running.descriptors()
        sources = [answers, self._stdin]
        was_asked = True
        while True:
            ready = select.select(sources, [], [])[0]
            self._watchdog.feed()
            if answers in ready:
                piece = running.read()
                if not piece:
                    return
                if was_asked and not admission.is_safe(seen):
                    raise RefusedError.later(_CHANGES)
                was_asked = False
                self._write(piece)
            elif self._stdin in ready:
                said = os.read(self._stdin, _PIECE_BYTES)
                was_asked = True
                if said:
                    with contextlib.suppress(BrokenPipeError):
                        write_all(asks, said)
                else:
                    sources.remove(self._stdin)
                    running.hang_up()

    def _write(self, piece: bytes) -> None:
        write_all(self._stdout, piece)
        self._watchdog.feed()


class _Input(io.RawIOBase):
    """What a client says; progress is noted."""

    def __init__(self, fd: int, watchdog: Watchdog) -> None:
        self._fd = fd
        self._watchdog = watchdog

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = os.read(self._fd, len(buffer))
        self._watchdog.feed()
        buffer[: len(found)] = found
        return len(found)


def write_all(fd: int, content: bytes) -> None:
    """Write all of ``content``, however long that takes."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def end_all() -> None:
    """End this process, whatever its main thread waits for."""
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, signal.SIGTERM)
