"""``git upload-pack``, and how services of git run and end.

Owns the configuration and limits of upload-pack; ``receivepack`` has its own. Every key
that upload-pack reads is set on each run, so nothing in a store's own configuration
decides the answer (git-config(1), "uploadpack", "transfer"). Every version of the
protocol hands out every object of a store by its id, so callers ask ``freshness``
before.

The capabilities of protocol version 2 are cached in this process. They depend on git's
program, on our configuration and on the store's, but on no ref and no object. So most
first requests start no git. The cache ends when the program's file or the store's
configuration changes, and after a while, since the program may be a script.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import re
import select
import shutil
import signal
import tempfile
import threading
import time
from subprocess import DEVNULL, PIPE
from typing import IO, TYPE_CHECKING, Any, TypeVar

from mercurial import error
from mercurial.i18n import _

from ..files import Unusable
from ..gitstore.git import summaries
from ..gitstore.git.process import CONFIG, CONFIG_BYTES, settings
from ..records import Record
from ..terminal import cut, shown_by_git
from . import pktlines
from .errors import HttpError, temporary_file_in_use, unavailable, unavailable_since

if TYPE_CHECKING:
    from collections.abc import Mapping
    from subprocess import Popen

    from ..gitstore.git.process import Git, Value
    from ..gitstore.store import GitStore
    from .limits import Slot


_VERSION = re.compile(rb"version=[012]")
_PIECE_BYTES = 1 << 16
# git writes a pack in pieces of 8 KiB, and sending one takes as long as sending 64 KiB.
# git's output during that time must find room.
_PAUSE_MILLISECONDS = 2
_PIPE_BYTES = 1 << 19
_SAID_BYTES = 1 << 12
_LONGEST_NAME = 200
_THREADS = "2"
# Memory of git besides the packs, of which it maps no more than _MAPPED_BYTES, and of
# their indexes: 28 bytes and up for an object there, 100 to 200 while it counts.
_ADDRESS_BYTES = 4 << 30
_ADDRESS_PER_INDEX_BYTE = 16
_MAPPED_BYTES = 1 << 30

# Keys without a neutral value: their presence has an effect.
_REFUSED_KEYS = frozenset({b"uploadpack.blobpackfileuri"})
_CONFIG: dict[str, Value] = {
    "uploadpack.allowTipSHA1InWant": "true",
    "uploadpack.allowReachableSHA1InWant": "true",
    # as in version 2; clients of versions 0 and 1 complete partial clones by it
    "uploadpack.allowAnySHA1InWant": "true",
    "uploadpack.allowRefInWant": "false",
    "uploadpack.allowSidebandAll": "false",
    "uploadpack.advertiseBundleURIs": "false",
    "uploadpack.keepAlive": "3",  # as for pushes
    "uploadpack.allowFilter": "true",
    "uploadpackfilter.allow": "false",
    "uploadpackfilter.blob:none.allow": "true",
    "uploadpackfilter.blob:limit.allow": "true",
    "uploadpackfilter.tree.allow": "true",
    "uploadpackfilter.tree.maxDepth": str((1 << 31) - 1),
    "uploadpackfilter.object:type.allow": "true",
    # docs/decisions/serving.rst: a cheap request would become an expensive one
    "uploadpackfilter.sparse:oid.allow": "false",
    "uploadpackfilter.combine.allow": "false",
    "uploadpackfilter.auto.allow": "false",
    "transfer.advertiseSID": "false",
    "transfer.advertiseObjectInfo": "false",
    "promisor.advertise": "false",
    "lsrefs.unborn": "advertise",
    "core.precomposeUnicode": "false",
    "core.bigFileThreshold": "64m",
    "core.deltaBaseCacheLimit": "64m",
    "core.packedGitWindowSize": "32m",
    "core.packedGitLimit": str(_MAPPED_BYTES),
    "pack.allowPackReuse": "true",
    "pack.deltaCacheSize": "64m",
    "pack.threads": _THREADS,
    "pack.windowMemory": "128m",
}
# One that is wrong ends git. Exports check what others have put there.
_WITHOUT_SUMMARIES: dict[str, Value] = {
    "core.commitGraph": "false",
    "core.multiPackIndex": "false",
}


def config_of(store: GitStore) -> dict[str, Value]:
    """Return the configuration of git for clients of ``store``."""
    hidden = hidden_refs(store)
    return {**_CONFIG, "transfer.hideRefs": hidden, **unread_summaries(store)}


def hidden_refs(store: GitStore) -> tuple[str, ...]:
    """Return the refs that no client is shown, as ``transfer.hideRefs`` has them."""
    # the last matching pattern decides: the first two undo those of the store
    hidden = ["!refs", "!HEAD", "refs/cinnabar"]
    if b"heads" not in store.config.refs:
        hidden.append("refs/hg")
    return tuple(hidden)


def unread_summaries(store: GitStore) -> dict[str, Value]:
    """Return settings that keep git from unverified summaries of ``store``."""
    if summaries.digest(store.repository) == store.docket().summaries:
        return {}
    return _WITHOUT_SUMMARIES


def spoken(asked: bytes) -> bytes:
    """Return the newest known version of the protocol in a client's list of keys.

    As git reads ``GIT_PROTOCOL`` (git(1)). Empty if there is none.
    """
    return max(filter(_VERSION.fullmatch, asked.split(b":")), default=b"")


_Service = TypeVar("_Service", bound="GitService")


class GitService:
    """A running program of git that answers a client, with all that it starts."""

    def __init__(self, process: Popen[bytes], errors: IO[bytes]) -> None:
        """``process`` leads a process group; its stderr goes to ``errors``."""
        self._process = process
        self._errors = errors
        self._end = select.poll()
        self._has_more = True
        self._lock = threading.Lock()
        self._is_reaped = False
        if process.stdout is not None:
            self._end.register(process.stdout, 0)
            with contextlib.suppress(OSError, AttributeError):  # Linux has it
                fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    @classmethod
    def launch(
        cls: type[_Service],
        git: Git,
        service: str,
        *options: str,
        config: Mapping[str, Value],
        address_bytes: int,
        spoken: bytes = b"",
        slot: Slot | None = None,
        stdin: Any = None,
        pass_fds: tuple[int, ...] = (),
    ) -> _Service:
        """Start a service on the repository of ``git``.

        ``spoken``: the client's protocol version. ``address_bytes``: address space of
        each process. ``pass_fds``: descriptors to inherit. ``HttpError`` if git cannot
        be run.
        """
        assert git.directory is not None
        with temporary_file_in_use():
            # it ends with the object that is returned
            errors = tempfile.TemporaryFile(prefix="amalgam-said-")  # noqa: SIM115
        try:
            process = git.start(
                service,
                *options,
                operands=[git.directory.path],
                config=config,
                spoken=spoken,
                address_bytes=address_bytes,
                stdin=DEVNULL if stdin is None else stdin,
                stdout=PIPE,
                stderr=errors,
                start_new_session=True,
                pass_fds=(*pass_fds, *(slot.inherited if slot else ())),
            )
        except (OSError, error.Abort, error.StorageError) as exc:
            errors.close()
            raise unavailable_since(exc) from None
        except BaseException:
            errors.close()
            raise
        return cls(process, errors)

    def read(self) -> bytes:
        """Return the next output, about 64 KiB at most; empty at the end.

        After a short piece, waits a moment for more, but not after git's end.
        """
        if not self._has_more:
            self._end.poll(_PAUSE_MILLISECONDS)
        piece = os.read(self.output, _PIECE_BYTES)
        self._has_more = len(piece) == _PIECE_BYTES
        return piece

    @property
    def output(self) -> int:
        """The descriptor that ``read`` reads from, to wait for it."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def kill(self) -> None:
        """Kill all of its processes; also from another thread."""
        with self._lock:
            if not self._is_reaped:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def close(self, *, kill: bool) -> int:
        """Wait for its end, or ``kill`` it; return its exit code."""
        if kill:
            self.kill()
        self.hang_up()
        if self._process.stdout is not None:
            self._process.stdout.close()
        # it is not reaped yet, so that the group has its number for certain
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self.kill()
        with self._lock:
            self._is_reaped = True
            return self._process.wait()

    def end(self) -> None:
        """Kill it unless it has ended, and discard its stderr."""
        if not self._is_reaped:
            self.close(kill=True)
        self._errors.close()

    def descriptors(self) -> tuple[int, int]:
        """Return its output, and its input if that is a pipe."""
        assert self._process.stdin is not None
        return self.output, self._process.stdin.fileno()

    def hang_up(self) -> None:
        """Let it know that nothing more comes."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def said(self) -> bytes:
        """Return the last that it said about errors, once; after ``close``."""
        with self._errors as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _SAID_BYTES))
            return file.read().strip()


class UploadPack(GitService):
    """A running git upload-pack."""

    @classmethod
    def start(
        cls,
        store: GitStore,
        *options: str,
        spoken: bytes = b"",
        slot: Slot | None = None,
        stdin: Any = None,
    ) -> UploadPack:
        """Start it on ``store``; ``spoken`` is the protocol that the client speaks.

        ``HttpError`` if git cannot be run there.
        """
        _check_settings(store)
        return cls.launch(
            store.repository.git,
            "upload-pack",
            "--strict",
            *options,
            config=config_of(store),
            address_bytes=address_bytes(store),
            spoken=spoken,
            slot=slot,
            stdin=stdin,
        )


# as upload-pack and pack-objects of git 2.39 to 2.55 say why they end
_COMPLAINTS = (
    (
        rb"(?:ambiguous deepen-not|deepen-not is not a ref): (?:deepen-not )?(.*)",
        b"'%s' is no branch and no tag, or both (--shallow-exclude); see "
        b"'git ls-remote'",
    ),
    (
        rb"no commits selected for shallow requests",
        b"no commit is left (--shallow-since, --shallow-exclude); choose an earlier "
        b"date, or exclude less",
    ),
    (
        rb"invalid filter-spec '(.*)'",
        b"this server does not know the filter '%s'; blob:none, blob:limit=SIZE, "
        b"tree:DEPTH and object:type=TYPE are served",
    ),
)
_FATAL = rb"^fatal: (?:git upload-pack: )?(?:%s)$"


def complaint(said: bytes) -> bytes:
    """Return why git refused a request, if its client can do something about it.

    ``said``: git's stderr.
    """
    for pattern, sentence in _COMPLAINTS:
        if found := re.search(_FATAL % pattern, said, re.MULTILINE):
            named = tuple(cut(shown_by_git(it), _LONGEST_NAME) for it in found.groups())
            return sentence % named
    return b""


def _check_settings(store: GitStore) -> None:
    """Refuse a store with settings that cannot be overridden."""
    git, directory = store.repository.git, store.repository.directory
    try:
        content = directory.tryread(CONFIG, CONFIG_BYTES)
        keys = {key for key, _value in settings(git.program, content)}
    except (OSError, error.Abort, error.StorageError) as exc:
        raise unavailable_since(exc) from None
    for key in keys & _REFUSED_KEYS:
        logged = _(b"git store has a setting that may not be there: %s") % key
        raise unavailable(logged)


def address_bytes(store: GitStore) -> int:
    """Return how much memory a process of git may address, by the size of a store."""
    size = 0
    with store.repository.packs_directory.opened() as fd:
        for name in os.listdir(fd):
            if not name.endswith(".pack"):
                with contextlib.suppress(FileNotFoundError):
                    size += os.stat(name, dir_fd=fd, follow_symlinks=False).st_size
    return _ADDRESS_BYTES + _ADDRESS_PER_INDEX_BYTE * size


# git 2.39 offers the first, whatever its configuration says; amalgam answers the second
_NOT_OFFERED = (b"object-info", b"bundle-uri")
_KEPT_SECONDS = 60
_MOST_KEPT = 100


class Basis(Record):
    """Cache key of git's capabilities."""

    program: str
    """Where ``PATH`` leads to."""
    file: tuple[int, ...]
    """File stat of it."""
    settings: bytes
    """The configuration of the store."""


class _Kept(Record):
    told: bytes
    until: float
    """``time.monotonic()``."""


_kept: dict[Basis, _Kept] = {}


def capabilities_basis(store: GitStore) -> Basis | None:
    """Return the cache key for a store; ``None`` if nothing is to be cached.

    Taken before git is asked.
    """
    git = store.repository.git
    try:
        program = shutil.which(os.fsdecode(git.program))
        if program is None:
            return None
        it = os.stat(program)
        settings = store.repository.directory.tryread(CONFIG, CONFIG_BYTES)
    except (OSError, Unusable):
        return None
    state = (it.st_dev, it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns)
    return Basis(program, state, settings)


def kept_capabilities(basis: Basis | None) -> bytes:
    """Return the cached capabilities, or empty."""
    found = _kept.get(basis) if basis else None
    return found.told if found and time.monotonic() < found.until else b""


def keep_capabilities(basis: Basis | None, told: bytes) -> None:
    """Cache the capabilities."""
    if basis is None:
        return
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[basis] = _Kept(told, time.monotonic() + _KEPT_SECONDS)


def shown_capabilities(told: bytes, *more: bytes) -> bytes:
    """Return the capabilities for clients: git's, and ``more``.

    Without those that are not answered here.
    """
    try:
        lines = [*pktlines.lines(io.BytesIO(told))]
    except ValueError:
        lines = []
    if lines[-1:] != [pktlines.FLUSH]:
        raise HttpError(500, b"git failed on the server")
    kept = [line for line in lines[:-1] if line.rstrip(b"\n") not in _NOT_OFFERED]
    kept += [name + b"\n" for name in more]
    return b"".join(map(pktlines.line, kept)) + pktlines.FLUSH
