"""Conversion of new git commits to a changegroup for Mercurial.

Owns the git processes that read the commits, the limits, and the names and texts of the
core's reasons for refusals (docs/survey.rst). The core converts the commits, and
verifies the result by exporting it (``rust/git2hg``). git bounds the bytes of a push;
objects are counted when they have arrived, commits when the graph is read, files when
they are converted: all before anything is written to Mercurial. Does not know the
pusher or the refs.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
from subprocess import PIPE
from typing import IO, TYPE_CHECKING, Any

from mercurial import changegroup, error, util
from mercurial.i18n import _
from mercurial.node import bin as bin_node, hex as hex_node
from mercurial.utils import stringutil

from ..config import setting
from ..configitems import HGGIT_DIALECT
from ..core.operation import Operation
from ..files import Directory
from ..gitstore import requirements
from ..gitstore.git.process import last_words, windows
from ..gitstore.oidmap import ID_LEN
from ..records import Record
from ..scratch import scratch
from ..terminal import printable
from .commands import PushRefusedError
from .decoding import TextDecoder
from .graph import NO_COMMIT_GRAPH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import Popen

    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.git.process import Git


# git has 96 MB for bases of deltas; with 32 MB, it makes many of them twice
_CONFIG = {**NO_COMMIT_GRAPH, "core.deltaBaseCacheLimit": "48m"}
_PROCESSES = 4


class GitProcesses:
    """Runs of ``git``, until the end of the context.

    Together they map about ``memory_bytes`` of its packs.
    """

    def __init__(self, git: Git, memory_bytes: int) -> None:
        self._git = git
        self._config = {**_CONFIG, **windows(memory_bytes // _PROCESSES)}
        self._stack = contextlib.ExitStack()
        self._started: list[tuple[Popen[bytes], IO[bytes]]] = []

    def __enter__(self) -> GitProcesses:
        """Begin."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """End all processes."""
        self._stack.close()

    def start(self, *args: str, stdin: Any) -> Popen[bytes]:
        """Start git with a pipe for its output."""
        errors = self.temporary_file()
        process = self._git.start(
            *args, config=self._config, stdin=stdin, stdout=-1, stderr=errors
        )
        self._stack.callback(_end, process)
        self._started.append((process, errors))
        return process

    def temporary_file(self) -> IO[bytes]:
        """Return a file without a name."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the stack
        return self._stack.enter_context(file)

    def kill(self) -> None:
        """Close pipes that the core may be waiting for."""
        for process, _errors in self._started:
            process.kill()

    def wait(self) -> None:
        """Wait until all have ended."""
        for process, _errors in self._started:
            process.wait()

    def failure(self) -> bytes:
        """Return the message of the first process that has failed, or empty.

        All have ended or end now: a process closes its pipes before it ends. One that
        ends because its reader is gone has not failed.
        """
        for process, _errors in self._started:
            _close(process)
        self.wait()
        for process, errors in self._started:
            if process.returncode not in (0, -signal.SIGPIPE):
                return last_words(process, errors)
        return b""


def _end(process: Popen[bytes]) -> None:
    _close(process)
    process.kill()
    process.wait()


def _close(process: Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            # git may have ended before it was closed
            with contextlib.suppress(OSError):
                pipe.close()


class RejectReason(Record):
    """One reason."""

    name: bytes
    """Name in programs and in the documentation."""
    text: bytes
    """The property of such a commit, for people."""
    remedy: bytes
    """The next thing to type; ``START`` stands for the upstream of git rebase."""
    is_lossy: bool = False
    """Whether ``amalgam.git.push-exact`` accepts all such commits."""


_AGAIN = _(b"make the commits again: git rebase -f -r START")
DIFFERS = RejectReason(
    b"differs",
    _(b"its changeset is not exported as the same commit"),
    _(b"push it with hg, and report this bug of amalgam"),
)
FILE_SIZE = RejectReason(
    b"file-size",
    _(b"a file is too large"),
    _(
        b"take the file out of that commit, or ask the operator for a larger "
        b"amalgam.serve.max-push-file"
    ),
)
ANCESTOR = RejectReason(
    b"ancestor", _(b"an ancestor cannot be pushed"), _(b"change that one first")
)
#: By the numbers of the core, in the order in which they are looked for.
REASONS = {
    1: RejectReason(b"malformed-commit", _(b"the commit object is malformed"), _AGAIN),
    2: RejectReason(
        b"signature",
        _(b"the commit is signed"),
        _(b"drop signatures: git rebase -f -r --no-gpg-sign START"),
        is_lossy=True,
    ),
    3: RejectReason(
        b"encoding",
        _(b"the message has an encoding header"),
        _AGAIN,
        is_lossy=True,
    ),
    4: RejectReason(
        b"header",
        _(b"the commit has another header that would be lost"),
        _AGAIN,
        is_lossy=True,
    ),
    5: RejectReason(
        b"octopus",
        _(b"the commit has more than two parents"),
        _(b"merge them one after the other"),
        is_lossy=True,
    ),
    6: RejectReason(
        b"date",
        _(b"the date cannot be written back as it is"),
        _(b"set dates to now: git rebase -f -r --reset-author-date START"),
    ),
    7: RejectReason(
        b"identity",
        _(b"the name or address cannot be written back as it is"),
        _(b"git rebase -i -r START, and there git commit --amend --reset-author"),
    ),
    8: RejectReason(
        b"backslash",
        _(b"the committer contains a backslash"),
        _(b"remove it from user.name, and git rebase -f -r START"),
        is_lossy=True,
    ),
    9: RejectReason(
        b"submodule",
        _(b"the tree has a submodule"),
        _(b"git rebase -i -r START, and there git rm it; or add its files instead"),
        is_lossy=True,
    ),
    10: RejectReason(
        b"mode",
        _(b"a file has a mode that Mercurial cannot store"),
        _AGAIN,
        is_lossy=True,
    ),
    11: RejectReason(
        b"empty-directory",
        _(b"the tree has an empty directory"),
        _AGAIN,
        is_lossy=True,
    ),
    12: RejectReason(
        b"malformed-tree",
        _(b"git itself refuses the tree"),
        _(b"git fsck says more, and git rebase -f -r START mends the order of names"),
    ),
    13: RejectReason(
        b"path",
        _(b"Mercurial refuses a path"),
        _(b"git rebase -i -r START, and there git mv it"),
    ),
    14: ANCESTOR,
    15: FILE_SIZE,
    16: DIFFERS,
    17: RejectReason(
        b"commit-size",
        _(b"the commit object is larger than 4 MB"),
        _(b"shorten its message: git rebase -i -r START"),
    ),
    18: RejectReason(
        b"subrepositories",
        _(b"Mercurial cannot read its subrepositories"),
        _(b"git rebase -i -r START, and there mend .hgsub and .hgsubstate"),
    ),
    19: RejectReason(
        b"left-out",
        _(b"hg-git leaves a file out"),
        _(b"git rebase -i -r START, and there git mv it"),
        is_lossy=True,
    ),
}
#: Reasons of commits that ``git fsck`` refuses, so that no extra can keep them.
MALFORMED = REASONS[1], REASONS[6], REASONS[7]


_PHASES = {
    0: (_(b"converting commits"), _(b"commits")),
    2: (_(b"checking changesets"), _(b"changesets")),
}
STORED_BYTES = 2 << 30
"""Mercurial's own size limit of a file."""
_MOST_BYTES = (1 << 64) - 1
_MOST_RENAMES = 1 << 32
_VERSIONS = {b"02": 2, b"03": 3}
_REQUIREMENTS = (
    requirements.ORDINARY
    | requirements.ELSEWHERE
    | {b"delta-info-revlog", b"exp-delta-info-revlog", b"exp-filelog-metaflag"}
)


class ConversionUnsupported(error.StateError):
    """Commits cannot be pushed into a repository of this kind."""


class _Settings(Record):
    """Fields of the job."""

    dialect: bytes
    version: bytes
    memory_bytes: int
    most_file_bytes: int
    branch: bytes
    round_trip: bool
    is_exact: bool
    packs: Directory | None
    verifies: bool
    renames: dict[str, int] | None
    may_be_part: bool


class Refusal(Record):
    """A commit that cannot be a changeset."""

    oid: bytes
    """The commit, in hex."""
    reason: RejectReason
    """Why."""
    detail: bytes
    """Part of the commit that is the reason, at most 512 bytes; may be empty."""


class Conversion(Record):
    """Result of a conversion."""

    changesets: tuple[tuple[bytes, bytes], ...]
    """New commits and their nodes, in hex, parents first: all, or the first ones.
    Empty if any is refused."""
    refused: tuple[Refusal, ...]
    """Commits that are refused, parents first: then nothing is written."""
    version: bytes
    """Of the changegroup."""
    foreign: tuple[bytes, ...] = ()
    """Those that may not come back from their changesets, without ``round_trip``."""
    is_verified: bool = False
    """Whether all objects in the packs were verified, with ``verifies``."""


def convert(
    ui: UiT,
    repo: RepoT,
    git: Git,
    oids: Sequence[bytes],
    base: Mapping[bytes, bytes],
    out: IO[bytes],
    *,
    dialect: bytes,
    memory_bytes: int,
    most_file_bytes: int = _MOST_BYTES,
    branch: bytes = b"",
    round_trip: bool = True,
    is_exact: bool = False,
    packs: Directory | None = None,
    verifies: bool = False,
    may_be_part: bool = False,
) -> Conversion:
    """Convert new commits ``oids`` to a changegroup, in that order, parents first.

    ``git`` sees all their objects. ``base`` has the changesets of their other parents.
    Oids and nodes are in hex. The chunks go to ``out``, a real file, at its position;
    if nothing is new or any commit is refused, nothing is written. ``branch``: the
    Mercurial branch of all new commits, as its extra is stored; without one, each is on
    the branch of its first parent. With ``round_trip``, commits that do not come back
    from their changesets are refused. ``is_exact``: extras of the changesets keep the
    parts that these cannot express otherwise (docs/formats/exact.rst).
    ``packs``: a directory with packs that have most of the objects. ``verifies``:
    nobody has verified these yet. ``may_be_part``: the first commits are enough if all
    need too much memory.

    ``ConversionUnsupported`` if the repository is of a kind that cannot be pushed to.
    """
    version = _version(repo)
    renames = _rename_settings(repo.ui) if dialect == HGGIT_DIALECT else None
    if not oids:
        return Conversion((), (), version)
    start = out.tell()
    out.flush()
    conversion = None
    try:
        started = GitProcesses(git, memory_bytes)
        with scratch(repo) as path, started as processes:
            settings = _Settings(
                *(dialect, version, memory_bytes, most_file_bytes, branch, round_trip),
                *(is_exact, packs, verifies, renames, may_be_part),
            )
            run = _Run(ui, repo, processes, path)
            conversion = run.convert(oids, base, out, settings)
    finally:
        if conversion is None or conversion.refused:
            out.seek(start)
            out.truncate()
    out.seek(0, 2)
    return conversion


def _rename_settings(ui: UiT) -> dict[str, int] | None:
    """Return how renames are found, by the items that hg-git has; ``None`` if not.

    Mistakes are named with the words of hg-git, whose tests ask for them.
    """
    similarity, limit = _number(ui, b"similarity", 0), _number(ui, b"renamelimit", 400)
    if not 0 <= similarity <= 100:
        raise error.Abort(_(b"git.similarity must be between 0 and 100"))
    if limit < 0:
        raise error.Abort(_(b"git.renamelimit must be non-negative"))
    harder = setting(ui, b"git", b"findcopiesharder") or b"no"
    all_sources = stringutil.parsebool(harder)
    if all_sources is None:
        raise error.ConfigError(
            _(b"git.findcopiesharder is not a boolean ('%s')") % printable(harder)
        )
    if not similarity:
        return None
    limit = min(limit, _MOST_RENAMES)
    return {"similarity": similarity, "limit": limit, "all_sources": all_sources}


def _number(ui: UiT, name: bytes, default: int) -> int:
    value = setting(ui, b"git", name)
    try:
        return default if value is None else int(value)
    except ValueError as err:
        raise error.ConfigError(
            _(b"git.%s is not a valid integer ('%s')") % (name, printable(value or b""))
        ) from err


def _version(repo: RepoT) -> bytes:
    """Return the version of the changegroup that ``repo`` takes."""
    unknown = repo.requirements - _REQUIREMENTS
    if unknown or b"revlogv1" not in repo.requirements:
        raise ConversionUnsupported(
            _(b"cannot add git commits to a repository that requires: %s")
            % b", ".join(sorted(unknown or repo.requirements)),
            hint=_(b"a repository without it can have them; this one takes changesets"),
        )
    versions = _VERSIONS.keys() & changegroup.supportedincomingversions(repo)
    if not versions:
        raise ConversionUnsupported(
            _(b"cannot add git commits to a repository without changegroups"),
            hint=_(b"it takes changesets from Mercurial only"),
        )
    return min(versions)


class _Run:
    """One call of the core."""

    def __init__(self, ui: UiT, repo: RepoT, git: GitProcesses, path: bytes) -> None:
        self._ui = ui
        self._repo = repo
        self._git = git
        self._scratch = path

    def convert(
        self,
        oids: Sequence[bytes],
        base: Mapping[bytes, bytes],
        out: IO[bytes],
        settings: _Settings,
    ) -> Conversion:
        """Start git, and let the core read its output."""
        asked = self._git.temporary_file()
        asked.writelines(b"%s\n" % oid for oid in oids)
        asked.seek(0)
        commits = self._git.start("cat-file", "--batch", "--buffer", stdin=asked).stdout
        assert commits is not None
        revision = self._repo.unfiltered().changelog.revision
        known = []
        for oid, hexnode in base.items():
            node = bin_node(hexnode)
            known.append(
                {"commit": bin_node(oid), "node": node, "text": revision(node)}
            )
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(Directory(self._scratch).opened())
            packs = None
            if settings.packs is not None and settings.packs.exists():
                fd = stack.enter_context(settings.packs.opened())
                packs = {"fd": fd, "path": settings.packs.path}
            decoder = None
            if settings.dialect == HGGIT_DIALECT:
                decoder = stack.enter_context(TextDecoder()).fields()
            fields = {
                "dialect": settings.dialect,
                "commits": commits.fileno(),
                "trees": self._objects(),
                "blobs": self._objects(),
                "packs": packs,
                "decoder": decoder,
                "renames": settings.renames,
                "user": self._repo.ui.config(b"ui", b"username") or b"",
                "out": out.fileno(),
                "scratch": {"fd": directory, "path": self._scratch},
                "store": self._repo.store.path,
                "encoding": requirements.encoding(self._repo),
                "version": _VERSIONS[settings.version],
                "known": known,
                "memory_bytes": settings.memory_bytes,
                "most_file_bytes": settings.most_file_bytes,
                "branch": settings.branch or None,
                "round_trip": settings.round_trip,
                "is_exact": settings.is_exact,
                "verifies": settings.verifies,
                "may_be_part": settings.may_be_part,
            }
            try:
                operation = Operation(self._ui, _PHASES, self._git.kill)
                found = operation.job("convert", fields)
            except (error.InputError, error.StorageError):
                self._check()
                raise
        return _answer(found, settings.version)

    def _objects(self) -> dict[str, int]:
        """Start a git that is asked for objects, and return both its pipes."""
        process = self._git.start("cat-file", "--batch-command", "--buffer", stdin=PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        return {
            "requests": process.stdin.fileno(),
            "answers": process.stdout.fileno(),
        }

    def _check(self) -> None:
        message = self._git.failure()
        if message:
            text = _(b"git cannot read what was pushed: %s") % printable(message)
            raise error.InputError(text)


def _answer(found: dict[str, Any], version: bytes) -> Conversion:
    """Return the core's answer."""
    ids, foreign = map(_split, (found["changesets"], found["foreign"]))
    return Conversion(
        changesets=tuple(zip(ids[::2], ids[1::2], strict=True)),
        refused=tuple(
            Refusal(hex_node(it["commit"]), REASONS[it["reason"]], it["detail"])
            for it in found["refused"]
        ),
        version=version,
        foreign=tuple(foreign),
        is_verified=found["is_verified"] == 1,
    )


def _split(joined: bytes) -> list[bytes]:
    return [hex_node(joined[at : at + ID_LEN]) for at in range(0, len(joined), ID_LEN)]


_MOST_NAMED = 5
"""Commits that are named if they cannot be pushed."""
_SHORT = 12


class PushLimits(Record):
    """How much a push may have."""

    objects: int
    """Objects that it sends, with those that git adds to complete deltas."""
    commits: int
    """New commits."""
    file_bytes: int
    """Bytes of a file in a new commit."""

    def check_objects(self, git: Git) -> None:
        """Refuse too many objects; ``git`` is for the repository that has them."""
        lines = git.run("count-objects", "-v").stdout.splitlines()
        counts = dict(line.split(b": ", 1) for line in lines if b": " in line)
        if int(counts[b"count"]) + int(counts[b"in-pack"]) > self.objects:
            raise PushRefusedError(
                _(
                    b"the push has more than %d objects; push older commits first: "
                    b"git push origin COMMIT:BRANCH"
                )
                % self.objects
            )

    def too_many_commits(self) -> PushRefusedError:
        """Return the refusal of more commits than these."""
        return PushRefusedError(
            _(
                b"the push has more than %d new commits; push older ones first: "
                b"git push origin COMMIT:BRANCH"
            )
            % self.commits
        )

    def explained(
        self,
        refused: Sequence[Refusal],
        start: bytes,
        *,
        is_exact: bool,
        has_exact: bool,
    ) -> tuple[list[bytes], PushRefusedError]:
        """Return lines about commits that are refused, and the refusal of a ref.

        ``start``: the upstream of a rebase that makes the first of them again.
        ``is_exact``: the value of ``amalgam.git.push-exact``. ``has_exact``: whether
        commits were pushed with it.
        """
        lines = []
        for it in refused[:_MOST_NAMED]:
            detail = b": %s" % it.detail if it.detail else b""
            line = _(b"commit %s: %s%s") % (it.oid[:_SHORT], self._text(it), detail)
            lines.append(line)
        first = refused[0]
        short, text = first.oid[:_SHORT], self._text(first)
        remedy = first.reason.remedy.replace(b"START", start)
        option = _(b"ask the operator for amalgam.git.push-exact = yes")
        if first.reason == DIFFERS and has_exact and not is_exact:
            remedy = option  # it removes a submodule, or the like
        elif first.reason.is_lossy and not is_exact:
            remedy += _(b"; or ") + option
        if len(refused) == 1:
            refusal = PushRefusedError(
                _(b"commit %s cannot be pushed: %s; %s") % (short, text, remedy)
            )
        else:
            refusal = PushRefusedError(
                _(b"%d commits cannot be pushed; the first is %s: %s; %s")
                % (len(refused), short, text, remedy)
            )
        return lines, refusal

    def _text(self, refusal: Refusal) -> bytes:
        """Describe the property of a commit that is refused."""
        if refusal.reason != FILE_SIZE:
            return refusal.reason.text
        most = util.bytecount(min(self.file_bytes, STORED_BYTES))
        return _(b"a file is larger than %s") % most
