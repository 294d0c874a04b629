"""``git receive-pack`` for a push: its process, its hook, and the answer to both.

The same for all transports. git reads the push from a file or a pipe and writes to the
client. It checks every object (``fsck``) and updates no ref: it asks its hook, which
passes git's question to this process, and the answer to git (githooks(5),
"proc-receive"). While one thread accepts or refuses the push, another streams git's
output, so keepalives arrive in time. A client that leaves before git has asked has
pushed nothing; if it leaves later, that changes nothing. Owns the switch
``amalgam.git.push``, too.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from typing import IO, TYPE_CHECKING, Any

from mercurial import encoding, util, wireprotov1server
from mercurial.i18n import _
from mercurial.utils import stringutil

from ..config import PushConfig, wants_serve
from ..gitstore.git.reffiles import without_peeled
from ..receive import quarantine
from ..receive.apply import Pusher, refusal_of
from ..receive.commands import (
    ZERO,
    PushRefusedError,
    PushRequest,
    PushResult,
    RefCommand,
)
from ..receive.convert import PushLimits
from ..receive.push import Push, PushRun
from ..records import Record
from ..terminal import cut, shown_by_git, utf8_of
from . import permissions, pktlines
from .errors import HttpError, temporary_file_in_use
from .uploadpack import GitService, address_bytes, hidden_refs, unread_summaries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.git.process import Value
    from ..gitstore.store import GitStore
    from ..receive.quarantine import Quarantine
    from .admission import Admission
    from .limits import Slot, Watchdog


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
    "receive.fsckObjects": "true",
    "receive.keepAlive": "3",  # node ends requests after 5 s without a byte
    "receive.procReceiveRefs": "refs",
    "receive.shallowUpdate": "false",
    "receive.unpackLimit": "1",
    "receive.updateServerInfo": "false",
    "repack.useDeltaBaseOffset": "true",
    "transfer.advertiseSID": "false",
    "transfer.fsckObjects": "true",
    "transfer.unpackLimit": "1",
}
# Problems of commits and trees that the conversion finds, too (rust/git2hg/src/judge).
# It refuses only refs that lead to them, and names commit and path. git refuses all.
_JUDGED = (
    *("badDate", "badDateOverflow", "badEmail", "badName", "badTimezone"),
    *("duplicateEntries", "emptyName", "fullPathname", "hasDot", "hasDotdot"),
    *("hasDotgit", "missingAuthor", "missingCommitter", "missingEmail"),
    *("missingNameBeforeEmail", "missingSpaceBeforeDate", "missingSpaceBeforeEmail"),
    *("multipleAuthors", "treeNotSorted", "zeroPaddedDate", "zeroPaddedFilemode"),
    "nulInCommit",  # in a message, it comes back
)
_CONFIG |= {f"receive.fsck.{name}": "ignore" for name in _JUDGED}
# Pipes from and to git, and of messages. Each ends when its other end is closed, so
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
        self._own = contextlib.ExitStack()
        for end in (self.asked, self.says, self.answers):
            self._own.callback(os.close, end)

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

    def close(self) -> None:
        """Close the own ends, once. So the hook ends: nothing more is answered."""
        self._own.close()


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    """Return both ends of a pipe; ``stack`` closes them."""
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends


class ReceivePackProcess(GitService):
    """A running git receive-pack."""

    @classmethod
    def start(
        cls,
        store: GitStore,
        received: Quarantine,
        *options: str,
        max_bytes: int,
        slot: Slot | None = None,
        stdin: Any = None,
        pass_fds: tuple[int, ...] = (),
    ) -> ReceivePackProcess:
        """Start it in a repository that borrows from ``store``.

        ``max_bytes`` bounds the pack. ``HttpError`` if git cannot be run.
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


_OID_DIGITS = 40
_PIECE_BYTES = 1 << 18
_VERSION = b"version=1"
_OPTIONS = b"push-options"
_MOST_LINES = 20_000
_MOST_BYTES = 4 << 20
_LONGEST_SAID = 1 << 15
_LONGEST_REASON = 1 << 10


def read_request(file: IO[bytes], answers: int) -> PushRequest | None:
    """Read git's question; ``None`` if git ends before it asks.

    ``answers`` is the descriptor for the first line of the answer, which git awaits.
    ``ValueError`` for another protocol; ``PushRefusedError`` for too many commands, all
    of which were read.
    """
    offer = _group(file)
    if offer is None:
        return None
    version, _nul, features = b"".join(offer.lines).rstrip(b"\n").partition(b"\0")
    if version != _VERSION:
        raise ValueError("another version of proc-receive")
    offered = features.split(b" ")
    has_options = _OPTIONS in offered
    wanted = b"\0" + _OPTIONS if has_options else b""
    _write(answers, pktlines.line(_VERSION + wanted + b"\n") + pktlines.FLUSH)
    commands = _group(file)
    options = _group(file) if has_options else _Group((), is_cut=False)
    if commands is None or options is None:
        return None
    if commands.is_cut or options.is_cut:
        raise PushRefusedError(
            _(
                b"the push has more than %d refs or options, or they are too long; "
                b"push fewer at a time"
            )
            % _MOST_LINES
        )
    return PushRequest(
        tuple(map(RefCommand.parse, commands.lines)),
        is_atomic=b"atomic" in offered,
        options=options.lines,
    )


def advertisement(told: bytes, refs: bytes, store: GitStore) -> Iterator[bytes]:
    """Yield the advertisement of ``refs``, which have the form of ``packed-refs``.

    ``told`` is git's own of no refs: it has the capabilities. git itself would look up
    the object of each ref.
    """
    for pattern in hidden_refs(store):
        mark = b" %s/" % pattern.encode()
        start, last = refs.find(mark), refs.rfind(mark)
        if start >= 0:  # names are in order, and have no space
            refs = refs[: start - _OID_DIGITS] + refs[refs.index(b"\n", last) + 1 :]
    begin = refs.index(b"\n") + 1 if refs.startswith(b"#") else 0
    first = next(pktlines.lines(io.BytesIO(told)), b"")
    _none, nul, capabilities = first.partition(b"\0")
    if not nul or begin == len(refs):
        yield told
        return
    end = refs.index(b"\n", begin)
    yield pktlines.line(refs[begin:end] + nul + capabilities)
    while (begin := end + 1) < len(refs):
        end = refs.index(b"\n", min(begin + _PIECE_BYTES, len(refs) - 1))
        lines = refs[begin : end + 1].splitlines(keepends=True)
        yield b"".join([b"%04x%s" % (len(line) + 4, line) for line in lines])
    yield pktlines.FLUSH


def needed_refs(request: bytes, refs: bytes) -> bytes:
    """Return refs for ``git receive-pack``, in the form of ``packed-refs``.

    They lead to the objects that the ``request`` has for its refs. It is the beginning
    of one. If it ends before the last ref, or comes from a shallow clone, these are all
    ``refs`` of the store.
    """
    found: set[bytes] = set()
    with contextlib.suppress(ValueError):
        for content in pktlines.lines(io.BytesIO(request)):
            if content == pktlines.FLUSH:
                lines = (b"%s refs/pushed/%s\n" % (oid, oid) for oid in sorted(found))
                return b"".join(lines)
            found.add(RefCommand.parse(content.partition(b"\0")[0]).new)
            found.discard(ZERO)
    return refs


def wants_quiet(file: IO[bytes]) -> bool:
    """Return whether a client asks for no progress (gitprotocol-capabilities(5)).

    The capabilities are in the first line of the request that is no shallow commit.
    """
    with contextlib.suppress(ValueError):
        for content in pktlines.lines(file):
            _command, nul, capabilities = content.partition(b"\0")
            if nul or content == pktlines.FLUSH:
                return b"quiet" in capabilities.split()
    return False


def write_result(request: PushRequest, result: PushResult, pipe: int) -> None:
    """Send git the result of each ref; nothing if git has ended.

    git itself refuses refs that are not in ``request``.
    """
    with contextlib.suppress(BrokenPipeError):
        for command in request.commands:
            reason = result.refused.get(command.ref)
            if reason is None:
                line = b"ok %s" % command.ref
            else:
                line = b"ng %s %s" % (command.ref, cut(reason, _LONGEST_REASON))
                line = line[: pktlines.LONGEST_CONTENT]
            _write(pipe, pktlines.line(line))
        _write(pipe, pktlines.FLUSH)


def say(result: PushResult, pipe: int) -> None:
    """Send messages to the pusher; git shows them after ``remote:``."""
    text = b"".join(line + b"\n" for line in result.said)
    with contextlib.suppress(BrokenPipeError):
        _write(pipe, cut(text, _LONGEST_SAID))


class _Group(Record):
    """Lines up to a flush."""

    lines: tuple[bytes, ...]
    is_cut: bool
    """Whether there were more than are kept."""


def _group(file: IO[bytes]) -> _Group | None:
    """Read all lines up to the next flush; ``None`` at an early end."""
    found: list[bytes] = []
    size, is_cut = 0, False
    for line in pktlines.lines(file):
        if line == pktlines.FLUSH:
            return _Group(tuple(found), is_cut)
        size += len(line)
        is_cut = is_cut or len(found) == _MOST_LINES or size > _MOST_BYTES
        if not is_cut:
            found.append(line)
    return None


def _write(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


urlreq = util.urlreq
_MOST_TRIES = 5
HEARD_BYTES = 1 << 16
"""How much of a request is looked at, in which many shallow commits may come first."""
_TRIALS = 10
"""How many times the limit without progress an answer to git's hook may last."""


class ReceivePackSession:
    """A receiving repository, and git in it.

    Two threads serve it: one streams git's output, and one answers git's hook. They
    share git's pipes and the watchdog. Mercurial's objects belong to the second one
    until ``answer`` returns.
    """

    def __init__(
        self,
        stack: contextlib.ExitStack,
        admission: Admission,
        repo: RepoT,
        proto: Any,
        watchdog: Watchdog,
    ) -> None:
        """``stack`` ends it. ``proto``: how the client would speak Mercurial's."""
        self._stack = stack
        self._admission = admission
        self._repo, self._proto = repo, proto
        self._watchdog = watchdog
        self._answering_until = 0.0
        self._heard = b""
        with temporary_file_in_use():
            made = quarantine.receiving(admission.store)
            self.received: Quarantine = stack.enter_context(made)
        self._pipes: HookPipes | None = None

    def read_refs(self) -> bytes:
        """Return the refs of the store, hidden ones included, as ``packed-refs``.

        Without the objects behind tags, which git does not advertise for a push.
        ``HttpError`` if the store keeps changing.
        """
        store = self._admission.store
        for _number in range(_MOST_TRIES):
            self.received.note_packs()
            state = store.repository.names_state()
            content = store.repository.packed_refs()
            # changesets hidden meanwhile are not in the refs read now
            if self._admission.is_safe() and state == store.repository.names_state():
                return without_peeled(content)
            self._admission.make_fresh(now=True)
        raise HttpError.later(b"the repository keeps changing; try again")

    def put_refs(self, refs: bytes) -> None:
        """Let git see the refs that it needs, of all ``refs`` of the store.

        git looks for missing objects by a walk from the pushed refs to all others,
        and reads a commit for each of these. The check of received objects finds
        missing ones, too (``fsckObjects``). So git sees only refs at which that walk
        ends at once.
        """
        with temporary_file_in_use():
            self.received.put_refs(needed_refs(self._heard, refs))

    def start(
        self, *options: str, slot: Slot | None, stdin: IO[bytes] | int | None = None
    ) -> ReceivePackProcess:
        """Start git; ``HttpError`` if it cannot be run."""
        pipes = HookPipes()
        self._stack.callback(pipes.close)
        self._pipes = pipes
        try:
            with temporary_file_in_use():
                self.received.write_hook(pipes.script)
            return ReceivePackProcess.start(
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

    def hear(self, piece: bytes) -> None:
        """Take a piece of the client's request: git tells its hook only a part."""
        self._heard += piece[: HEARD_BYTES - len(self._heard)]

    def progress(self) -> None:
        """Note that something came from git or its client, or was taken.

        git's keepalives are no progress of Mercurial's, which has a limit of its own.
        """
        self._watchdog.feed(max(self._answering_until - time.monotonic(), 0))

    def answer(self) -> None:
        """Wait for the question of git's hook, and answer it.

        Returns without an answer if git ends before it asks. The push is applied or
        refused here, whatever becomes of git and its client meanwhile.
        """
        pipes = self._pipes
        assert pipes is not None
        request: PushRequest | None = PushRequest(())
        result = PushResult({})
        try:
            with os.fdopen(pipes.asked, "rb", closefd=False) as file:
                try:
                    request = read_request(file, pipes.answers)
                except PushRefusedError as exc:
                    result = PushResult({}, (exc.sentence,))
            if request and request.commands:
                allowed = _TRIALS * self._admission.config.quiet_seconds
                self._answering_until = time.monotonic() + allowed
                self.progress()
                result = self._answered(request)
            say(result, pipes.says)
            if request is not None:
                write_result(request, result, pipes.answers)
        except (ValueError, BrokenPipeError) as exc:
            problem = stringutil.forcebytestr(exc)
            self._repo.ui.log(b"amalgam", b"git push: %s\n", problem)
        finally:
            self._answering_until = 0
            pipes.close()  # git may wait until all that it says is read

    def _answered(self, request: PushRequest) -> PushResult:
        try:
            return self._accepted(request)
        except Exception as exc:  # Mercurial's of the repository, before it was asked
            problem = stringutil.forcebytestr(exc)
            self._repo.ui.log(b"amalgam", b"git push failed: %s\n", problem)
            sentence = shown_by_git(refusal_of(exc).sentence)
            return PushResult({it.ref: sentence for it in request.commands})

    def _accepted(self, request: PushRequest) -> PushResult:
        repo = wireprotov1server.getdispatchrepo(self._repo, self._proto, b"unbundle")
        config = self._admission.config
        url = self._proto.client()
        pusher = Pusher(
            repo,
            url,
            config.queue_seconds,
            _name_of(repo.ui, url),
            is_quiet=wants_quiet(io.BytesIO(self._heard)),
        )
        limits = PushLimits(
            objects=config.max_push_objects,
            commits=config.max_push_commits,
            file_bytes=config.max_push_file_bytes,
        )
        push = Push(
            request=request,
            pusher=pusher,
            store=self._admission.store,
            quarantine=self.received,
            limits=limits,
            export=self._export,
            is_over=lambda: self._watchdog.has_bitten,
        )
        return PushRun(push).answer()

    def _export(self) -> None:
        """Export accepted changesets, so that a fetch moves no ref."""
        try:
            self._admission.make_fresh(now=True)
        except HttpError as exc:
            self._repo.ui.log(b"amalgam", b"no export after a push: %s\n", exc.logged)


def _name_of(ui: UiT, url: bytes) -> bytes:
    """Return the pusher, if known: the user of a request, or of the process.

    Over ssh, ``HGUSER`` can be set for each key (sshd(8), "environment").
    """
    if url.startswith((b"remote:http:", b"remote:https:")):
        user: bytes = urlreq.unquote(url.rpartition(b":")[2])
        return user.decode("utf-8", "replace").encode()
    return encoding.fromlocal(ui.username(acceptempty=True) or b"")


_READ_ONLY = (
    b"this repository is read-only for git; push with Mercurial, "
    b"or ask its operator to set amalgam.git.push = yes"
)
_LOCKED = b"this repository takes no pushes at the moment; try again later"


def check_policy(repo: RepoT) -> None:
    """Raise ``HttpError`` if the repository takes no pushes now."""
    config = PushConfig.from_ui(repo.ui)
    if not wants_serve(repo.ui):
        return  # all of git is refused, by another sentence
    if config.push == b"no":
        raise HttpError(403, _READ_ONLY)
    if config.push == b"locked":
        if config.message:
            raise HttpError(403, utf8_of(config.message))
        raise HttpError(403, _LOCKED)
    permissions.ask_hooks(repo, contents=False, names=True)
