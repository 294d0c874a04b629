"""git's own transport to a remote: list its refs, fetch and push.

git reaches the remote with the user's configuration (``Access``): credential helpers,
ssh, proxies, certificates. A process that prints nothing for too long is ended. Says
what git and the remote answered for each ref, and of which kind a failure is. Does not
know which refs should be there.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import tempfile
import time
from subprocess import DEVNULL, PIPE, TimeoutExpired
from typing import IO, TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from ..files import Directory
from ..gitstore.git import layout
from ..gitstore.git.process import Access, FetchLimits, Git
from ..records import Choice, Record
from ..terminal import printable
from .urls import PROTOCOLS, RemoteUrl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from subprocess import Popen

    from mercurial.interfaces.types import UiT

NO_OID = b"0" * 40
"""The oid of a ref that does not exist."""
_REMOTE = "amalgam"
"""The name of the remote in git's configuration, which only our processes have."""
_ALLOWED = b":".join(PROTOCOLS).decode()
_LINE = re.compile(rb"(.)\t([^\t]*):([^\t]*)\t([^\t]*)")
_REASON = re.compile(rb"\[[^\]]*\](?: \((.*)\))?", re.DOTALL)
_LISTED = re.compile(rb"([0-9a-f]{40})\t(refs/.+)")
# what it advertises: a symbolic ref, or an oid, which may be what a tag leads to
_ADVERTISED = re.compile(
    rb"(?:ref: (?P<target>refs/\S+)|(?P<oid>[0-9a-f]{40}))"
    rb"\t(?P<name>HEAD|refs/[^\x00-\x20\x7f~^:?*\[\\]+)(?P<peeled>\^\{\})?"
)
_LONG_OID = re.compile(rb"^[0-9a-f]{64}\t", re.MULTILINE)
_DEFAULT_SSH = b"ssh"
"""The default of Mercurial's ``ui.ssh``, which leaves the choice to git."""
_MOST_WORDS = 5
# git says it after each failure of ssh
_ADVICE = (
    b"Please make sure you have the correct access rights",
    b"and the repository exists.",
)
_MOST_OUTPUT = 1 << 20
_PIECE_BYTES = 1 << 16
# a name or password before the host, as url.*.insteadOf of git may have it
_SECRET = re.compile(rb"(https?://|://[^/@\s:]*:)[^/@\s]*@")
_PERCENT = re.compile(rb"^([A-Z][a-z ]+): +(\d+)% \((\d+)/(\d+)\)")


class FailureKind(Choice):
    """Kinds of failures, which decide when a push is tried again. For JSON."""

    RULE = "rule"
    """The remote does not allow it."""
    MOVED = "moved"
    """Somebody else wrote the ref."""
    LIMIT = "limit"
    """Too much at once."""
    LOGIN = "login"
    """The remote does not know us, or we do not know the remote."""
    TRANSIENT = "transient"
    """Anything that may go away by itself."""


_KINDS = (
    (
        FailureKind.LOGIN,
        rb"authentication failed|could not read (username|password)"
        rb"|terminal prompts disabled|permission denied|invalid (username|credentials)"
        rb"|returned error: 40[13]|http basic: access denied|host key verification"
        rb"|not authorized|unauthorized|repository not found|returned error: 404"
        rb"|does not appear to be a git repository|ssl certificate problem",
    ),
    (
        FailureKind.LIMIT,
        rb"more than \d+ commits|too many commits|returned error: 413|http 413"
        rb"|exceeds maximum allowed (size|pack)|pack (is )?too large"
        rb"|maximum (push|pack|request) size|too large",
    ),
    (
        FailureKind.TRANSIENT,
        rb"cannot lock ref|failed to update ref|unable to create|unpacker error"
        rb"|failed to lock|index-pack|unpack-objects|no space left|disk quota exceeded"
        rb"|internal server error|time(d )?.?out|try again|temporar|unavailable"
        rb"|connection|hung up|failed to report",
    ),
)


def kind_of(text: bytes, otherwise: FailureKind) -> FailureKind:
    """Return the kind of a failure by the words of git or of the remote."""
    lower = text.lower()
    for kind, pattern in _KINDS:
        if re.search(pattern, lower):
            return kind
    return otherwise


class RemoteFailureError(Exception):
    """A remote gave no answer that git understands."""

    def __init__(self, kind: FailureKind, reason: bytes) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class Answer(Record):
    """Result of the push of one ref."""

    is_done: bool
    """Whether the remote has it."""
    reason: bytes = b""
    """Otherwise, the words of the remote or of git."""
    kind: FailureKind = FailureKind.RULE
    is_forced: bool = False
    """Whether commits that the ref had are not below it any more."""
    was_equal: bool = False
    """Whether the remote had it before."""


class PushAnswers(Record):
    """Result of a push."""

    refs: dict[bytes, Answer]
    """Of those refs for which git knows one."""
    failure: RemoteFailureError | None
    """Why others are missing, if git failed."""
    was_declined: bool
    """Whether a hook of the remote refused all refs together."""


class Advertised(Record):
    """The refs that a remote shows. Oids are in hexadecimal digits."""

    head: bytes
    """The ref that its ``HEAD`` leads to; empty if it has none, or leads to no ref."""
    oids: dict[bytes, bytes]
    """By name, with ``HEAD``."""
    peeled: dict[bytes, bytes]
    """Targets of tag objects among them, by the same names."""

    @classmethod
    def parsed(cls, listing: bytes) -> Advertised:
        """Return the refs that ``git ls-remote --symref`` has printed."""
        found = cls(b"", {}, {})
        for match in filter(None, map(_ADVERTISED.fullmatch, listing.split(b"\n"))):
            if match["target"]:
                if match["name"] == b"HEAD":  # clones have refs/remotes/origin/HEAD
                    found = found._replace(head=match["target"])
            else:
                oids = found.peeled if match["peeled"] else found.oids
                oids[match["name"]] = match["oid"]
        return found

    def commit(self, name: bytes) -> bytes:
        """Return the target of a ref behind all tag objects; of an oid, itself."""
        return self.peeled.get(name) or self.oids.get(name, name)


class Transport:
    """git for one remote."""

    def __init__(
        self,
        git: Git,
        remote: RemoteUrl,
        access: Access,
        quiet_seconds: int,
        progress: Callable[[bytes, int, int], None] | None = None,
    ) -> None:
        """``git`` is for the store; ``quiet_seconds``: the longest silence of git.

        ``progress`` is called with git's topic, position and total.
        """
        self._git = Git(git.program, access=access)
        self._store = git
        self._remote = remote
        self._quiet_seconds = quiet_seconds
        self._progress = progress

    def refs(
        self, *, is_usual: bool, shown: Iterable[bytes] = ()
    ) -> dict[bytes, bytes]:
        """Ask the remote for its refs: name to oid, in hexadecimal digits.

        ``is_usual``: branches and tags only. If ``shown`` has refs, the remote is
        asked to list no others. git sends no other prefixes (2.39 to 2.55).
        """
        args: list[str | bytes] = ["ls-remote", "--refs"]
        if is_usual:
            args += ["--heads", "--tags"]
        if hidden := self._hidden(b"uploadpack", shown):
            args.append(b"--upload-pack=" + hidden + b"upload-pack")
        code, output, words = self._run(self._git, args, (self._remote.url,), {})
        if code:
            raise self._failure(words, code)
        found = (_LISTED.fullmatch(line) for line in output.split(b"\n"))
        return {match[2]: match[1] for match in found if match}

    def listing(self) -> bytes:
        """Ask the remote for all refs that it shows; for ``Advertised.parsed``."""
        code, output, words = self._run(
            self._git, ("ls-remote", "--symref"), (self._remote.url,), {}
        )
        if code:
            raise self._failure(words, code)
        if _LONG_OID.search(output):
            text = _(b"it has ids of sha256, and Mercurial's are of SHA-1")
            raise RemoteFailureError(FailureKind.RULE, text)
        return output

    def fetch(
        self,
        into: Git,
        specs: Sequence[bytes],
        config: dict[str, str],
        limits: FetchLimits,
    ) -> list[bytes]:
        """Fetch ``specs`` into a repository that this process has made.

        ``config`` and ``limits`` are for git, too. Return the lines of its messages.
        """
        git = into._replace(access=self._git.access)
        args = ["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--force"]
        args += ["--no-auto-maintenance", "--no-recurse-submodules"]
        with tempfile.TemporaryFile() as given:
            given.write(b"".join(b"%s\n" % it for it in specs))
            given.seek(0)
            code, _output, words = self._run(
                *(git, [*args, "--stdin"], (self._remote.url,), config, given),
                limits=limits,
            )
        if code:
            raise self._failure(words, code)
        return words

    def local(self) -> Git | None:
        """Return git for a remote of this machine, if nothing leads git elsewhere."""
        path = self._remote.url.removeprefix(b"file://")
        if self._remote.protocol != b"file" or b"%" in path:
            return None
        # in the order of git's enter_repo
        for end in (b"/.git", b"", b".git/.git", b".git"):
            directory = Directory(path.rstrip(b"/") + end)
            with contextlib.suppress(OSError, error.Abort, error.StorageError):
                if layout.is_whole(directory):
                    git = Git(self._git.program, directory)
                    git.check()
                    return git
        return None

    def push(
        self,
        staging: Git,
        specs: Iterable[bytes],
        leases: Sequence[bytes],
        hooks: bytes,
        options: Iterable[bytes],
        shown: Iterable[bytes],
    ) -> PushAnswers:
        """Push ``specs`` from a staging repository, each with its lease.

        ``leases``: ``REF:OID`` of each ref, unless a hook in the directory ``hooks``
        checks them. ``options`` are push options. If ``shown`` has refs, the remote is
        asked to advertise no others. ``RemoteFailureError`` if nothing was sent.
        """
        git = staging._replace(access=self._git.access, lender=self._store)
        args: list[str | bytes] = ["push", "--porcelain", "--progress"]
        # git takes the first that may mean a ref, also as refs/tags/REF
        longest = sorted(leases, key=lambda it: -it.index(b":"))
        args += [b"--force-with-lease=" + lease for lease in longest]
        args += [b"--push-option=" + option for option in options]
        if hidden := self._hidden(b"receive", shown):
            args.append(b"--receive-pack=" + hidden + b"receive-pack")
        config = {f"remote.{_REMOTE}.url": os.fsdecode(self._remote.url)}
        if hooks:
            config["core.hooksPath"] = os.fsdecode(hooks)
        else:
            args.append("--no-verify")
        code, output, words = self._run(git, args, (_REMOTE.encode(), *specs), config)
        answers, was_declined = _answers(output, words)
        failure = self._failure(words, code) if code else None
        return PushAnswers(answers, failure, was_declined)

    def _hidden(self, section: bytes, shown: Iterable[bytes]) -> bytes:
        """Return the start of a command that hides all refs but ``shown``, if any."""
        values = [b"!" + ref for ref in shown]
        if not values:
            return b""
        # of a path, it is the same git; a shell runs it
        is_path = self._remote.protocol == b"file"
        program = _quoted(self._git.program) if is_path else b"git"
        key = b"-c " + section + b".hideRefs="
        return b" ".join(
            [program, *(key + _quoted(it) for it in (b"refs", *values)), b""]
        )

    def _failure(self, words: list[bytes], code: int) -> RemoteFailureError:
        said = [
            line.removeprefix(b"fatal: ").removeprefix(b"error: ")
            for line in words
            if not line.startswith((b"hint: ", b"To ", b"Done")) and line not in _ADVICE
        ]
        text = b"; ".join(said[-_MOST_WORDS:]) or b"git ended with status %d" % code
        # any of the lines may have the reason
        kind = kind_of(b"\n".join(words), FailureKind.TRANSIENT)
        return RemoteFailureError(kind, self._without_url(text))

    def _without_url(self, text: bytes) -> bytes:
        return text.replace(self._remote.url, self._remote.shown)

    def _run(
        self,
        git: Git,
        args: Iterable[str | bytes],
        operands: Iterable[bytes],
        config: Mapping[str, str],
        given: IO[bytes] | None = None,
        **limited: Any,
    ) -> tuple[int, bytes, list[bytes]]:
        """Run git; return its exit code, its output, and its words on stderr.

        ``given``: its standard input. ``limited``: limits, as for ``Git.start``.
        """
        access = git.access
        assert access is not None
        with git.start(
            *args,
            operands=operands,
            config=dict(config),
            protocols=_ALLOWED,
            stdout=PIPE,
            stderr=PIPE,
            # ssh and credential helpers find no terminal to ask at
            start_new_session=not access.may_ask,
            stdin=given or (None if access.may_ask else DEVNULL),
            **limited,
        ) as process:
            try:
                output, errors = self._read(process)
                code = process.wait(self._quiet_seconds)
            except BaseException as exc:
                _end(process, is_group=not access.may_ask)
                if isinstance(exc, TimeoutExpired):
                    raise self._silence() from None
                raise
        # progress is drawn over itself; ssh ends its lines with both characters, and
        # upload-pack some with a null byte
        lines = (it.strip(b" \t\r\0") for it in errors.split(b"\n"))
        words = [_told(it.rpartition(b"\r")[2]) for it in lines if it]
        return code, output, words

    def _silence(self) -> RemoteFailureError:
        return RemoteFailureError(
            FailureKind.TRANSIENT,
            b"no progress for %d seconds" % self._quiet_seconds,
        )

    def _read(self, process: Popen[bytes]) -> tuple[bytes, bytes]:
        """Read both outputs to their ends; ``RemoteFailureError`` after a silence."""
        assert process.stdout is not None
        assert process.stderr is not None
        found: dict[int, bytearray] = {}
        with selectors.DefaultSelector() as selector:
            for pipe in (process.stdout, process.stderr):
                found[pipe.fileno()] = bytearray()
                selector.register(pipe, selectors.EVENT_READ)
            end = time.monotonic() + self._quiet_seconds
            while selector.get_map():
                ready = selector.select(max(0, end - time.monotonic()))
                if not ready:
                    raise self._silence()
                end = time.monotonic() + self._quiet_seconds
                for key, _events in ready:
                    piece = os.read(key.fd, _PIECE_BYTES)
                    if not piece:
                        selector.unregister(key.fileobj)
                    found[key.fd] += piece
                    if key.fileobj is process.stderr:
                        self._show(piece)
                        del found[key.fd][:-_MOST_OUTPUT]
        return (
            bytes(found[process.stdout.fileno()]),
            bytes(found[process.stderr.fileno()]),
        )

    def _show(self, piece: bytes) -> None:
        if self._progress is None:
            return
        line = piece.rstrip(b"\r\n").replace(b"\r", b"\n").rpartition(b"\n")[2]
        if match := _PERCENT.match(line.removeprefix(b"remote: ")):
            self._progress(match[1], int(match[3]), int(match[4]))


def _told(text: bytes) -> bytes:
    """Return words of git or of the remote for people, without passwords."""
    return _SECRET.sub(rb"\1***@", printable(text))


def _quoted(word: bytes) -> bytes:
    """Return a word for a shell."""
    return b"'%s'" % word.replace(b"'", b"'\\''")


def _answers(output: bytes, words: list[bytes]) -> tuple[dict[bytes, Answer], bool]:
    """Return the answer for each ref, and whether a hook declined all of them."""
    remote = [it[8:].strip() for it in words if it.startswith(b"remote: ")]
    # Gitea's hook says "error:" before and after its words, too
    remote = [it for it in remote if it.removeprefix(b"error:")]
    remote = [it for it in remote if not _PERCENT.match(it)]
    said = b"; ".join(remote[-_MOST_WORDS:])
    answers: dict[bytes, Answer] = {}
    declined = 0
    for line in output.split(b"\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        flag, ref, summary = match[1], match[3], match[4]
        if flag != b"!":
            answers[ref] = Answer(True, is_forced=flag == b"+", was_equal=flag == b"=")
            continue
        reason = _told((_REASON.fullmatch(summary) or [b"", b""])[1] or summary)
        if b"failed to report status" in reason:
            continue  # nobody knows
        is_hook = b"hook declined" in reason
        declined += b"pre-receive hook declined" in reason
        if said and (is_hook or b"unpack" in reason or b"update ref" in reason):
            reason += b": " + said
        kind = kind_of(reason, FailureKind.RULE)
        if b"stale info" in reason:
            kind = FailureKind.MOVED
        elif is_hook and kind is not FailureKind.LIMIT:
            kind = FailureKind.RULE
        answers[ref] = Answer(False, reason, kind)
    return answers, declined > 1


def _end(process: Popen[bytes], *, is_group: bool) -> None:
    """End git, and the processes that it has started if they are a group."""
    with contextlib.suppress(ProcessLookupError):
        if is_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def access_of(ui: UiT, git: Git, remote: RemoteUrl, *, in_background: bool) -> Access:
    """Return the access to ``remote``; only a person at a terminal is asked."""
    may_ask = not in_background and ui.interactive()
    command = b""
    if remote.protocol == b"ssh":
        command = os.environb.get(b"GIT_SSH_COMMAND", b"")
        # Mercurial copies its default into the ui of each remote
        configured = ui.config(b"ui", b"ssh")
        if not command and configured != _DEFAULT_SSH:
            command = configured
        if not may_ask:
            plain = Git(git.program, access=Access(may_ask))
            asked = plain.run("config", "--get", "core.sshCommand", check=False)
            command = command or asked.stdout.strip() or b"ssh"
            command += b" -batch" if b"plink" in command else b" -o BatchMode=yes"
    return Access(may_ask, command)
