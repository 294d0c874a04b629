"""The reception of one push: git and its hook, and the answer of Mercurial to both.

The same for all transports. git reads the push from a file or a pipe and writes to
the client. When its hook asks, the push is accepted or refused, in the thread that
passes on what git writes. So a client that leaves before that has pushed nothing.
"""

from __future__ import annotations

import contextlib
import os
import select
from typing import IO, TYPE_CHECKING, Any

from mercurial import encoding, util, wireprotov1server
from mercurial.utils import stringutil

from ...push import receiving
from ...push.accepting import Acceptance
from ...push.applying import Pusher, refusal_of
from ...push.limits import PushLimits
from ...push.refs.refcommands import PushRefusedError, PushRequest, PushResult
from ...terminal import shown_by_git
from ..refusal import RefusedError, temporary_file_in_use
from . import procreceive
from .receivepack import HookPipes, ReceivePack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mercurial.interfaces.types import RepoT, UiT

    from ...push.receiving import Receiving
    from ..admission import Admission
    from ..slots import Slot

urlreq = util.urlreq
_MOST_TRIES = 5
_PIECE_BYTES = 1 << 16


class Reception:
    """A receiving repository, and git in it."""

    def __init__(
        self, stack: contextlib.ExitStack, admission: Admission, repo: RepoT, proto: Any
    ) -> None:
        """``stack`` ends it. ``proto``: how the client would speak Mercurial's."""
        self._stack = stack
        self._admission = admission
        self._repo, self._proto = repo, proto
        with temporary_file_in_use():
            made = receiving.receiving(admission.store)
            self.received: Receiving = stack.enter_context(made)
        self._pipes: HookPipes | None = None

    def copy_refs(self) -> None:
        """Copy the refs of the store; ``RefusedError`` if it keeps changing."""
        store = self._admission.store
        for _number in range(_MOST_TRIES):
            with temporary_file_in_use():
                copied = self.received.copy_refs()
            # what was hidden meanwhile is not in what is read now
            if self._admission.is_safe() and copied == store.repository.packed_refs():
                return
            self._admission.make_fresh(now=True)
        raise RefusedError.later(b"the repository keeps changing; try again")

    def start(
        self, *options: str, slot: Slot | None, stdin: IO[bytes] | int | None = None
    ) -> ReceivePack:
        """Start git; ``RefusedError`` if it cannot be run."""
        pipes = HookPipes()
        self._stack.callback(pipes.close)
        self._pipes = pipes
        try:
            with temporary_file_in_use():
                self.received.write_hook(pipes.script)
            return ReceivePack.start(
                self._admission.store,
                self.received,
                *options,
                max_bytes=self._admission.config.max_push_bytes,
                slot=slot,
                stdin=stdin,
                pass_fds=pipes.of_git,
            )
        finally:
            pipes.release_ends()

    def pieces(
        self,
        running: ReceivePack,
        answering: Callable[[], None],
        progress: Callable[[], None],
        is_over: Callable[[], bool],
        source: int | None = None,
    ) -> Iterator[bytes]:
        """Yield what git writes, and answer its hook when that asks.

        ``answering`` is called before that, which may last; ``progress`` when something
        came; ``is_over`` tells whether the client has been cut off. ``source``: the
        descriptor of a client, whose words are passed on to git.
        """
        assert self._pipes is not None
        asked = self._pipes.asked
        poll = select.poll()
        poll.register(running.output, select.POLLIN)
        poll.register(asked, select.POLLIN)
        words = None if source is None else _Words(source, running, poll)
        while True:
            ready = dict(poll.poll())
            progress()
            if asked in ready:
                poll.unregister(asked)
                if ready[asked] & select.POLLIN:  # else git ends without a question
                    answering()
                    self._answer_hook(is_over)
            if words:
                words.pass_on(ready)
            if running.output in ready:
                if not (piece := running.read()):
                    return
                yield piece

    def _answer_hook(self, is_over: Callable[[], bool]) -> None:
        pipes = self._pipes
        assert pipes is not None
        request: PushRequest | None = PushRequest(())
        result = PushResult({})
        with os.fdopen(pipes.asked, "rb", closefd=False) as file:
            try:
                request = procreceive.read_request(file, pipes.answers)
            except PushRefusedError as exc:
                result = PushResult({}, (exc.sentence,))
            except ValueError as exc:
                problem = stringutil.forcebytestr(exc)
                self._repo.ui.log(b"amalgam", b"git push: %s\n", problem)
                pipes.close()  # git may wait until all that it says is read
                return
        if request and request.commands:
            result = self._answered(request, is_over)
        procreceive.say(result, pipes.says)
        if request is not None:
            procreceive.write_result(request, result, pipes.answers)
        pipes.hang_up()

    def _answered(
        self, request: PushRequest, is_over: Callable[[], bool]
    ) -> PushResult:
        try:
            return self._accepted(request, is_over)
        except Exception as exc:  # Mercurial's of the repository, before it was asked
            problem = stringutil.forcebytestr(exc)
            self._repo.ui.log(b"amalgam", b"git push failed: %s\n", problem)
            sentence = shown_by_git(refusal_of(exc).sentence)
            return PushResult({it.ref: sentence for it in request.commands})

    def _accepted(
        self, request: PushRequest, is_over: Callable[[], bool]
    ) -> PushResult:
        repo = wireprotov1server.getdispatchrepo(self._repo, self._proto, b"unbundle")
        config = self._admission.config
        url = self._proto.client()
        pusher = Pusher(repo, url, config.queue_seconds, _name_of(repo.ui, url))
        limits = PushLimits(
            objects=config.max_push_objects,
            commits=config.max_push_commits,
            file_bytes=config.max_push_file_bytes,
        )
        acceptance = Acceptance(
            pusher, self._admission.store, self.received, limits, self._export, is_over
        )
        return acceptance.answer(request)

    def _export(self) -> None:
        """Bring what was accepted into the store, so that a fetch moves nothing."""
        try:
            self._admission.make_fresh(now=True)
        except RefusedError as exc:
            self._repo.ui.log(b"amalgam", b"no export after a push: %s\n", exc.logged)


def _name_of(ui: UiT, url: bytes) -> bytes:
    """Return who pushes, if that is known: the user of a request, or of the process.

    Over ssh, ``HGUSER`` can be set for each key (sshd(8), "environment").
    """
    if url.startswith((b"remote:http:", b"remote:https:")):
        user: bytes = urlreq.unquote(url.rpartition(b":")[2])
        return user.decode("utf-8", "replace").encode()
    return encoding.fromlocal(ui.username(acceptempty=True) or b"")


class _Words:
    """What a client says to git: at most one piece of it is held."""

    def __init__(self, source: int, running: ReceivePack, poll: select.poll) -> None:
        self._source = source
        self._running = running
        self._sink = running.descriptors()[1]
        os.set_blocking(self._sink, False)
        self._poll = poll
        self._held = memoryview(b"")
        poll.register(source, select.POLLIN)

    def pass_on(self, ready: Mapping[int, int]) -> None:
        """Read a piece, or write some of the one that is held."""
        if self._source in ready:
            self._held = memoryview(os.read(self._source, _PIECE_BYTES))
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
