"""``hg-amalgam-ssh``: access over ssh to some repositories, for hg and git.

It replaces Mercurial's ``hg-ssh``, with the same arguments: in the option ``command``
of a key in ``authorized_keys``, sshd(8). The client's command is in the environment.
Mercurial and git have one form of it each; all else, options included, is refused. Of
the client's environment, git gets only ``GIT_PROTOCOL``, if it is a version.

Each request of a git client passes the checks of hgweb. In version 2 of the protocol,
requests are independent: each is read whole, and git is started for it alone
(gitprotocol-v2(5)). In earlier versions, one git process serves the session. It may
have removed packs open, so before each of its answers the store must be readable, with
all packs of the start. A push has the advertisement and the steps of one over HTTP.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import select
import shlex
import signal
import sys
import tempfile
import threading
import time
from subprocess import PIPE
from typing import IO, TYPE_CHECKING, Any, NoReturn

from mercurial import dispatch, error, extensions, ui as uimod, wireprotoserver
from mercurial.i18n import _
from mercurial.utils import procutil, stringutil

from .. import compat
from ..configitems import is_enabled
from ..gitpeer import follow
from ..records import Choice, Record
from ..terminal import printable, shown_by_git, utf8_of
from . import pktlines, receivepack, uploadpack
from .admission import Admission
from .errors import HttpError, temporary_file_in_use
from .limits import Watchdog, has_left
from .receivepack import ReceivePackSession
from .uploadpack import UploadPack

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from .admission import Seen
    from .limits import Slot
    from .receivepack import ReceivePackProcess


_PIECE_BYTES = 1 << 16
_MOST_STARTS = 5
_RELAY_SECONDS = 1
_LONGEST_LIST = 1 << 16
"""Bytes for git's capabilities."""
_ADVERTISE = ("--stateless-rpc", "--http-backend-info-refs")
_COMMANDS = (b"ls-refs", b"fetch")
_STDERR = 2
_PROGRESS_SECONDS = 60
_PROGRESS = b"the first export of this repository to git is running; please wait\n"
_CHANGES = b"the repository keeps changing; try again"
_MALFORMED = b"the request is malformed: it is not git's"


class Waiting:
    """A client that waits for a first export, and is told so."""

    def __init__(self, watchdog: Watchdog, stdout: int) -> None:
        self._watchdog = watchdog
        self._stdout = stdout
        self._said = -math.inf

    def goes_on(self) -> bool:
        """Return whether the client is there; count it as progress."""
        self._watchdog.feed()
        if time.monotonic() - self._said > _PROGRESS_SECONDS:
            self._said = time.monotonic()
            with contextlib.suppress(OSError):
                os.write(_STDERR, _PROGRESS)
        return not has_left(self._stdout)


class Session:
    """A client that may pull, on two descriptors."""

    def __init__(self, repo: RepoT, proto: Any, stdin: int, stdout: int) -> None:
        """``HttpError`` if it gets no answer. ``proto``: how it would speak hg's."""
        self._admission = Admission(repo, proto)
        self._stdin, self._stdout = stdin, stdout
        config = self._admission.config
        self._watchdog = Watchdog(config.quiet_seconds, end_all, config.least_speed)
        self._waits_on = Waiting(self._watchdog, stdout).goes_on

    def run(self, spoken: bytes) -> tuple[int, bytes]:
        """Serve the client to its end.

        ``spoken``: the protocol version that it asks for, or nothing. Return git's exit
        code and its stderr; ``HttpError`` if a request is refused.
        """
        try:
            answer = self._answer_each if spoken == b"version=2" else self._relay
            code, said = answer(spoken)
            if sentence := uploadpack.complaint(said):
                self._write(pktlines.error_line(sentence))
            return code, said
        finally:
            self._watchdog.stop()

    def _answer_each(self, spoken: bytes) -> tuple[int, bytes]:
        """Serve requests of version 2, each by a git process of its own."""
        with self._answer(spoken, None, is_fetch=False) as (running, first):
            found = first
            while len(found) < _LONGEST_LIST and (piece := running.read()):
                found += piece
        self._write(uploadpack.shown_capabilities(found))
        with io.BufferedReader(_Input(self._stdin, self._watchdog)) as stream:
            while body := self._next_request(stream):
                with body:
                    ended = self._answer_request(spoken, body)
                if ended:
                    return ended
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
                framed = pktlines.framed(content)
                size += len(framed)
                if size > limit:
                    raise HttpError(413, b"the request is too long")
                with temporary_file_in_use():
                    body.write(framed)
                    if content == pktlines.FLUSH:
                        body.seek(0)  # which writes the rest
                        return body
            if size:
                raise HttpError(400, b"the request ends too early")
        except ValueError:
            body.close()
            raise HttpError(400, _MALFORMED) from None
        except BaseException:
            body.close()
            raise
        body.close()
        return None

    def _answer_request(
        self, spoken: bytes, body: IO[bytes]
    ) -> tuple[int, bytes] | None:
        """Answer one request.

        Return git's exit code and its stderr if that ends the session.
        """
        try:
            head = pktlines.head_of(body)
        except ValueError:
            raise HttpError(400, _MALFORMED) from None
        if head.is_flush:  # the client has got everything
            return 0, b""
        if head.command not in _COMMANDS:
            raise HttpError(400, _MALFORMED)
        is_fetch = head.command == b"fetch"
        with self._answer(spoken, body, is_fetch=is_fetch, want=head.want) as found:
            running, piece = found
            while piece:
                self._write(piece)
                piece = running.read()
            code = running.close(kill=False)
            return (code, running.said()) if code else None

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
        admission.make_fresh(waits_on=self._waits_on)
        if body:
            admission.ask_hooks(is_fetch=is_fetch)
        if is_fetch and body:
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
        raise HttpError.later(_CHANGES)

    def _relay(self, spoken: bytes) -> tuple[int, bytes]:
        """Serve a session of version 0 or 1 by one git process."""
        admission = self._admission
        admission.make_fresh(waits_on=self._waits_on)
        for is_fetch in (False, True):
            admission.ask_hooks(is_fetch=is_fetch)
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
        """Copy in both directions until git ends; check for removed packs."""
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
                    raise HttpError.later(_CHANGES)
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
        began = time.monotonic()
        write_all(self._stdout, piece)
        if not self._watchdog.moved(len(piece), time.monotonic() - began):
            end_all()


class _Input(io.RawIOBase):
    """Input of the client; reading it is progress."""

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


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST = 1 << 13  # characters; git refuses longer ones


class Service(Choice):
    """A client's request for a repository."""

    MERCURIAL = "hg serve --stdio"
    FETCH = "git-upload-pack"
    PUSH = "git-receive-pack"
    ARCHIVE = "git-upload-archive"


_OF_GIT = (Service.FETCH, Service.PUSH, Service.ARCHIVE)


class Command(Record):
    """A service, and the repository as the client names it."""

    service: Service
    path: str

    @classmethod
    def parse(cls, text: str) -> Command:
        """Return the command that ``text`` is; ``ValueError`` if it is none."""
        if len(text) > _LONGEST or _CONTROL.search(text):
            raise ValueError("not a command")
        words = shlex.split(text)
        if words[:1] == ["git"] and len(words) == 3:
            words = [f"git-{words[1]}", words[2]]
        if len(words) == 5 and words[:2] == ["hg", "-R"]:
            if words[3:] == ["serve", "--stdio"]:
                return cls._of(Service.MERCURIAL, words[2])
        elif len(words) == 2:
            for service in _OF_GIT:
                if words[0] == service.value:
                    return cls._of(service, words[1])
        raise ValueError("another command")

    @classmethod
    def _of(cls, service: Service, path: str) -> Command:
        if not path or path.startswith("-") or ".." in path.split("/"):
            raise ValueError("not a path")
        return cls(service, path)


def allowed(path: str, paths: Collection[str], directory: str) -> str | None:
    """Return the repository of ``paths`` that ``path`` names, or None.

    Relative ones are below ``directory``; ``~`` is a home. As in hg-ssh.
    """
    found = _absolute(path, directory)
    return found if found in {_absolute(name, directory) for name in paths} else None


def _absolute(path: str, directory: str) -> str:
    return os.path.normpath(os.path.join(directory, os.path.expanduser(path)))


class _PushRelay:
    """A thread that copies between a client and git, until git ends or one has gone."""

    def __init__(
        self,
        reception: ReceivePackSession,
        running: ReceivePackProcess,
        head: bytes,
        stdin: int,
        stdout: int,
    ) -> None:
        """``head``: the input that was read already."""
        self._reception = reception
        self._running = running
        self._source, self._target = stdin, stdout
        self._sink = running.descriptors()[1]
        os.set_blocking(self._sink, False)
        self._held = memoryview(head)
        """The client's input that git has not taken: at most one piece."""
        self._poll = select.poll()
        self._poll.register(running.output, select.POLLIN)
        self._poll.register(self._sink, select.POLLOUT)
        self._is_lost = False
        # not awaited at the end: the client may never read
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def has_lost_client(self) -> bool:
        """Wait for its end, and return whether the client went before."""
        self._thread.join()
        return self._is_lost

    def end(self) -> None:
        """Kill git, so that it ends."""
        self._running.kill()
        self._thread.join(_RELAY_SECONDS)

    def _run(self) -> None:
        try:
            self._copy()
        except OSError:
            self._is_lost = True
            self._running.kill()  # else its hook may never ask

    def _copy(self) -> None:
        while True:
            ready = dict(self._poll.poll())
            self._reception.progress()
            self._pass_on(ready)
            if self._running.output in ready:
                if not (piece := self._running.read()):
                    return
                write_all(self._target, piece)
                self._reception.progress()

    def _pass_on(self, ready: Mapping[int, int]) -> None:
        """Read a piece, or write some of the one that is held."""
        if self._source in ready:
            piece = os.read(self._source, _PIECE_BYTES)
            self._reception.hear(piece)
            self._held = memoryview(piece)
            self._poll.unregister(self._source)
            if not self._held:
                self._running.hang_up()
                return
            self._poll.register(self._sink, select.POLLOUT)
        elif self._sink in ready:
            try:
                self._held = self._held[os.write(self._sink, self._held) :]
            except BlockingIOError:
                return
            except BrokenPipeError:  # git needs no more of it
                self._poll.unregister(self._sink)
                return
            if not self._held:
                self._poll.unregister(self._sink)
                self._poll.register(self._source, select.POLLIN)


class PushSession:
    """A client that may push, on two descriptors."""

    def __init__(self, repo: RepoT, proto: Any, stdin: int, stdout: int) -> None:
        """``HttpError`` if it gets no answer. ``proto``: how it would speak hg's."""
        receivepack.check_policy(repo)
        self._repo, self._proto = repo, proto
        self._admission = Admission(repo, proto)
        self._stdin, self._stdout = stdin, stdout
        self._watchdog = Watchdog(self._admission.config.quiet_seconds, end_all)

    def run(self) -> tuple[int, bytes]:
        """Serve the client to its end.

        Return git's exit code and its stderr; ``HttpError`` if it is refused.
        """
        admission, watchdog = self._admission, self._watchdog
        with contextlib.ExitStack() as stack:
            stack.callback(watchdog.stop)
            waits_on = Waiting(watchdog, self._stdout).goes_on
            admission.make_fresh(now=True, waits_on=waits_on)
            slot = admission.take_push_slot()
            stack.callback(slot.release)
            reception = ReceivePackSession(
                stack, admission, self._repo, self._proto, watchdog
            )
            refs = reception.read_refs()
            self._advertise(reception, refs, slot)
            head = self._read_commands()
            if head in (b"", pktlines.FLUSH):
                return (0, b"") if head else (1, b"the client has gone")
            reception.hear(head)
            try:
                reception.put_refs(refs)
                running = reception.start("--stateless-rpc", slot=slot, stdin=PIPE)
            except HttpError as exc:
                # after the advertisement, git shows errors of the sideband only
                line = pktlines.line(b"\3%s\n" % shown_by_git(exc.sentence))
                write_all(self._stdout, line + pktlines.FLUSH)
                return 1, exc.logged
            stack.callback(running.end)
            relay = _PushRelay(reception, running, head, self._stdin, self._stdout)
            stack.callback(relay.end)
            # here, so that a signal lets Mercurial roll back
            reception.answer()
            if relay.has_lost_client():
                return 1, b"the client has gone"
            return running.close(kill=False), running.said()

    def _advertise(
        self, reception: ReceivePackSession, refs: bytes, slot: Slot
    ) -> None:
        """Send the refs, with the capabilities that git has."""
        running = reception.start(*_ADVERTISE, slot=slot)
        try:
            told = b""
            while piece := running.read():
                told += piece
        finally:
            running.end()
        for piece in receivepack.advertisement(told, refs, self._admission.store):
            write_all(self._stdout, piece)
            self._watchdog.feed()

    def _read_commands(self) -> bytes:
        """Read the commands of the request, or the beginning of many.

        Nothing if the client has gone.
        """
        # all that comes after is for git
        stream = io.BufferedReader(_Input(self._stdin, self._watchdog), buffer_size=1)
        head = b""
        try:
            for content in pktlines.lines(stream):
                head += pktlines.framed(content)
                if content == pktlines.FLUSH or len(head) >= receivepack.HEARD_BYTES:
                    break
        except ValueError:
            raise HttpError(400, _MALFORMED) from None
        return head


_ILLEGAL = 255
"""The exit code of hg-ssh for a refused command."""
_READ_ONLY = b"you may not push into this repository; ask its operator to allow it"
_ARCHIVES = b"this service of git is not offered here"
_OFF = b"amalgam is not enabled for this repository; its operator does that"


def main() -> int:
    """Serve the command of one client; return the exit code."""
    dispatch.initstdio()
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, _end)
    is_read_only, paths = _arguments(sys.argv[1:])
    asked = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    try:
        wanted = Command.parse(asked)
    except ValueError:
        return _say(b'illegal command "%s"' % os.fsencode(asked), _ILLEGAL)
    path = allowed(wanted.path, paths, os.getcwd())
    if path is None:
        sentence = b'illegal repository "%s"' % os.fsencode(wanted.path)
        return _refuse(wanted.service, sentence, _ILLEGAL)
    if wanted.service is Service.ARCHIVE:
        return _refuse(wanted.service, _ARCHIVES)
    if wanted.service is Service.PUSH and is_read_only:
        return _refuse(wanted.service, _READ_ONLY)
    if wanted.service in (Service.FETCH, Service.PUSH):
        return _serve_git(wanted.service, os.fsencode(path))
    return _serve_hg(os.fsencode(path), is_read_only)


def _arguments(arguments: Sequence[str]) -> tuple[bool, Sequence[str]]:
    """Return whether pushes are refused, and the repositories."""
    at = next(
        (at for at, word in enumerate(arguments) if word != "--read-only"),
        len(arguments),
    )
    return at > 0, arguments[at:]


def _serve_hg(path: bytes, is_read_only: bool) -> int:
    """Let Mercurial serve its client, as hg-ssh does."""
    request = compat.request_of([b"-R", path, b"serve", b"--stdio"])
    if is_read_only:
        request.ui = request.ui or uimod.ui.load()
        for hook in (b"pretxnopen.hg-ssh", b"prepushkey.hg-ssh"):
            request.ui.setconfig(b"hooks", hook, _refuse_push, b"hg-ssh")
    return int(dispatch.dispatch(request) or 0)


def _refuse_push(ui: UiT, **_details: Any) -> bool:
    ui.warn(_(b"Permission denied\n"))
    return True


def _serve_git(service: Service, path: bytes) -> int:
    """Start git for its client, after the checks of hgweb."""
    asked = os.fsencode(os.environ.get("GIT_PROTOCOL", ""))
    spoken = uploadpack.spoken(asked)
    started = time.monotonic()
    try:
        ui = uimod.ui.load()
        extensions.loadall(ui)
        extensions.populateui(ui)
        repo = compat.open_repository(ui, path)
        if not is_enabled(repo.ui):
            raise HttpError(403, _OFF)
        follow.start_if_due(repo)
        if service is Service.PUSH:
            code, said = _receive(repo)
        else:
            code, said = _fetch(repo, spoken)
    except HttpError as exc:
        if exc.logged != exc.sentence:
            _log(repo.ui, service, path, b"refused: %s" % exc.logged, started)
        return _refuse(service, exc.sentence)
    except (error.Abort, error.RepoError, error.StorageError, OSError) as exc:
        return _refuse(service, utf8_of(stringutil.forcebytestr(exc)))
    how = b"git ended with %d: %s" % (code, said) if code else b"done"
    _log(repo.ui, service, path, how, started)
    return code


def _fetch(repo: RepoT, spoken: bytes) -> tuple[int, bytes]:
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    proto = wireprotoserver.sshv1protocolhandler(repo.ui, stdin, stdout)
    session = Session(repo, proto, stdin.fileno(), stdout.fileno())
    return session.run(spoken)


def _receive(repo: RepoT) -> tuple[int, bytes]:
    # output of Mercurial and its hooks must not get into git's protocol
    stdin, stdout = repo.ui.protectfinout()
    try:
        proto = wireprotoserver.sshv1protocolhandler(repo.ui, stdin, stdout)
        return PushSession(repo, proto, stdin.fileno(), stdout.fileno()).run()
    finally:
        repo.ui.restorefinout(stdin, stdout)


def _log(ui: UiT, service: Service, path: bytes, how: bytes, started: float) -> None:
    ui.log(
        b"amalgam",
        b"git %s of %s by %s over ssh: %s in %.3f seconds\n",
        b"push" if service is Service.PUSH else b"fetch",
        path,
        procutil.getuser(),
        printable(how),
        time.monotonic() - started,
    )


def _refuse(service: Service, sentence: bytes, code: int = 1) -> int:
    """Print a refusal in a way that the client shows."""
    if service in (Service.FETCH, Service.PUSH):
        line = pktlines.error_line(shown_by_git(sentence))
        # a client that has gone needs no answer
        with contextlib.suppress(BrokenPipeError):
            write_all(sys.stdout.fileno(), line)
        return code
    return _say(sentence, code)


def _say(sentence: bytes, code: int) -> int:
    sys.stderr.buffer.write(printable(sentence) + b"\n")
    sys.stderr.buffer.flush()
    return code


def _end(_number: int, _frame: object) -> NoReturn:
    sys.exit(_ILLEGAL)


if __name__ == "__main__":
    sys.exit(main())
