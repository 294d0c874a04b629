"""New commits of git as a changegroup for Mercurial.

Owns which commits are new, and the git processes that read them. The core converts
them, and converts the result back (``rust/git2hg``). Does not know who pushes, which
refs move, or what becomes of the changegroup.
"""

from __future__ import annotations

from math import inf
from subprocess import PIPE
from typing import IO, TYPE_CHECKING, Any

from mercurial import changegroup, error, node as nodemod
from mercurial.i18n import _

from ..gitstore.state import requirements
from ..native._core import ffi, lib
from ..native.buffers import lent
from ..native.errors import call
from ..native.operation import Operation
from ..placement import Directory
from ..records import Record
from ..scratch import scratch
from ..terminal import printable
from .processes import GitProcesses
from .reasons import REASONS, PushReason
from .refs.refcommands import PushRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.git.gitprocess import Git

    Known = Callable[[Iterable[bytes]], Mapping[bytes, bytes]]

_PHASES = {
    0: (_(b"converting commits"), _(b"commits")),
    2: (_(b"checking changesets"), _(b"changesets")),
}
# commits that are looked through at first for those that are known
_FIRST_COMMITS = 256
_GROWTH = 4
_MOST_BYTES = (1 << 64) - 1
_VERSIONS = {b"02": 2, b"03": 3}
_REQUIREMENTS = (
    requirements.ORDINARY
    | requirements.ELSEWHERE
    | {b"delta-info-revlog", b"exp-delta-info-revlog", b"exp-filelog-metaflag"}
)


class ConversionUnsupported(error.StateError):
    """Commits cannot be pushed into a repository of this kind."""


class ConversionBounds(Record):
    """What is not converted since it is too much."""

    commits: float = inf
    """How many may be new."""
    file_bytes: int = _MOST_BYTES
    """How long a file of one may be."""


_BOUNDS = ConversionBounds()


class _Settings(Record):
    """What is given to the core as it is."""

    version: bytes
    memory_bytes: int
    bounds: ConversionBounds
    branch: bytes
    order: Sequence[bytes]


class Refusal(Record):
    """A commit that cannot be a changeset."""

    oid: bytes
    """The commit, in hex."""
    reason: PushReason
    """Why."""
    detail: bytes
    """What of it is the reason, at most 512 bytes; may be empty."""


class Conversion(Record):
    """What became of the commits that were pushed."""

    changesets: tuple[tuple[bytes, bytes], ...]
    """New commits and their nodes, in hex, parents first. Empty if any is refused."""
    refused: tuple[Refusal, ...]
    """Commits that are refused, parents first: then nothing is written."""
    version: bytes
    """Of the changegroup."""


def convert(
    ui: UiT,
    repo: RepoT,
    git: Git,
    tips: Iterable[bytes],
    known: Known,
    out: IO[bytes],
    *,
    memory_bytes: int,
    bounds: ConversionBounds = _BOUNDS,
    branch: bytes = b"",
    order: Sequence[bytes] = (),
) -> Conversion:
    """Convert the ancestors of ``tips`` that are not ``known`` to a changegroup.

    ``git`` sees all their objects. ``tips`` are oids in hex. ``known`` returns which of
    some oids are changesets that the pusher may see, and their nodes, all in hex. The
    chunks go to ``out``, a real file, at its position; if nothing is new or any commit
    is refused, nothing is written.

    ``branch``: the Mercurial branch of all new commits, as its extra is stored; without
    one, each is on the branch of its first parent. ``order``: the new commits, parents
    first, as they are to be stored; git's order if others are new.

    ``ConversionUnsupported`` if the repository is of a kind that cannot be pushed to;
    ``PushRefusedError`` if more are new than ``bounds`` allow.
    """
    version = _version(repo)
    asked = [*dict.fromkeys(tips)]
    there = known(asked)
    new = [oid for oid in asked if oid not in there]
    if not new:
        return Conversion((), (), version)
    start = out.tell()
    out.flush()
    conversion = None
    try:
        parents = _parents(git, new, known, dict(there), bounds.commits)
        with scratch(repo) as path, GitProcesses(git) as processes:
            settings = _Settings(version, memory_bytes, bounds, branch, order)
            run = _Run(ui, repo, processes, path)
            conversion = run.convert(new, parents, out, settings)
    finally:
        if conversion is None or conversion.refused:
            out.seek(start)
            out.truncate()
    out.seek(0, 2)
    return conversion


def _version(repo: RepoT) -> bytes:
    """Return the version of the changegroup that ``repo`` takes."""
    unknown = repo.requirements - _REQUIREMENTS
    if unknown or b"revlogv1" not in repo.requirements:
        raise ConversionUnsupported(
            _(b"cannot push commits into a repository that requires: %s")
            % b", ".join(sorted(unknown or repo.requirements)),
            hint=_(b"push changesets with Mercurial instead"),
        )
    versions = _VERSIONS.keys() & changegroup.supportedincomingversions(repo)
    if not versions:
        raise ConversionUnsupported(
            _(b"cannot push commits into a repository without changegroups"),
            hint=_(b"push changesets with Mercurial instead"),
        )
    return min(versions)


def _parents(
    git: Git,
    tips: Sequence[bytes],
    known: Known,
    there: dict[bytes, bytes],
    most_commits: float,
) -> dict[bytes, bytes]:
    """Return the known commits that are parents of new ones, and their nodes.

    git lists commits from ``tips`` downwards, more each time, until all ways end in
    known commits. So the length of the history does not matter.
    """
    looked_up = {*tips, *there}
    count = _FIRST_COMMITS
    while True:
        args = ("rev-list", "--parents", "--full-history", f"--max-count={count}")
        lines = [*tips, *(b"^" + oid for oid in there)]
        config = {"core.commitGraph": "false"}
        done = git.run(*args, "--stdin", input=b"\n".join(lines) + b"\n", config=config)
        listed = [line.split() for line in done.stdout.splitlines()]
        graph = {oid: parents for oid, *parents in listed}
        unknown = {it for oids in listed for it in oids} - looked_up
        looked_up |= unknown
        there.update(known(unknown))
        found, new, is_complete = _ends(tips, graph, there)
        if new > most_commits:
            raise PushRefusedError(
                _(
                    b"the push has more than %d new commits; push older ones first: "
                    b"git push origin COMMIT:BRANCH"
                )
                % most_commits
            )
        if is_complete or len(listed) < count:
            return found
        count *= _GROWTH


def _ends(
    tips: Iterable[bytes],
    graph: Mapping[bytes, Sequence[bytes]],
    there: Mapping[bytes, bytes],
) -> tuple[dict[bytes, bytes], int, bool]:
    """Return the known commits where ways from ``tips`` end; and whether all do.

    Between: how many new commits were found on the ways.
    """
    ends: dict[bytes, bytes] = {}
    pending, seen = [*tips], {*tips}
    is_complete = True
    while pending:
        oid = pending.pop()
        if oid in there:
            ends[oid] = there[oid]
        elif oid in graph:
            more = {*graph[oid]} - seen
            seen |= more
            pending += more
        else:
            is_complete = False
    return ends, len(seen) - len(ends), is_complete


class _Run:
    """One call of the core."""

    def __init__(self, ui: UiT, repo: RepoT, git: GitProcesses, path: bytes) -> None:
        self._ui = ui
        self._repo = repo
        self._git = git
        self._scratch = path

    def convert(
        self,
        tips: Sequence[bytes],
        parents: Mapping[bytes, bytes],
        out: IO[bytes],
        settings: _Settings,
    ) -> Conversion:
        """Start git, and let the core read what it writes."""
        asked = self._git.temporary_file()
        asked.writelines(b"%s\n" % oid for oid in tips)
        asked.writelines(b"^%s\n" % oid for oid in parents)
        asked.seek(0)
        oids = self._git.listed(asked, settings.order)
        commits = self._git.start("cat-file", "--batch", "--buffer", stdin=oids).stdout
        oids.close()  # so that rev-list ends when its reader does
        assert commits is not None
        request = ffi.new("amalgam_push_request *")
        request.commits = commits.fileno()
        request.tree_requests, request.tree_answers = self._objects()
        request.blob_requests, request.blob_answers = self._objects()
        request.out = out.fileno()
        changelog = self._repo.unfiltered().changelog
        texts = [
            lent(changelog.revision(nodemod.bin(node))) for node in parents.values()
        ]
        pairs = zip(parents.items(), texts, strict=True)
        known = ffi.new(
            "amalgam_push_parent[]",
            [
                (nodemod.bin(oid), nodemod.bin(node), text)
                for (oid, node), text in pairs
            ],
        )
        request.known, request.known_len = known, len(parents)
        store, path = lent(self._repo.store.path), lent(self._scratch)
        request.store, request.scratch = store, path
        request.encoding = requirements.encoding(self._repo)
        request.version = _VERSIONS[settings.version]
        request.memory_bytes = settings.memory_bytes
        request.most_file_bytes = settings.bounds.file_bytes
        branch = lent(settings.branch)
        request.branch = branch
        handle = ffi.new("amalgam_push **")
        operation = Operation(self._ui, _PHASES, self._git.kill)
        with Directory(self._scratch).opened() as directory:
            request.scratch_fd = directory
            try:
                operation.run(lib.amalgam_push_convert, handle, request)
            except (error.InputError, error.StorageError):
                self._check()
                raise
        push = ffi.gc(handle[0], lib.amalgam_push_free)
        return _answer(push, settings.version)

    def _objects(self) -> tuple[int, int]:
        """Start a git that is asked for objects, and return both its pipes."""
        process = self._git.start("cat-file", "--batch-command", "--buffer", stdin=PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        return process.stdin.fileno(), process.stdout.fileno()

    def _check(self) -> None:
        message = self._git.failure()
        if message:
            text = _(b"git cannot read what was pushed: %s") % printable(message)
            raise error.InputError(text)


def _answer(push: Any, version: bytes) -> Conversion:
    """Take what the core has made."""
    counts = ffi.new("amalgam_push_counts *")
    call(lib.amalgam_push_count, counts, push)
    changesets = ffi.new(f"amalgam_pushed_changeset[{max(counts.changesets, 1)}]")
    call(lib.amalgam_push_changesets, changesets, push)
    refused = ffi.new(f"amalgam_push_refusal[{max(counts.refused, 1)}]")
    call(lib.amalgam_push_refused, refused, push)
    made = (changesets[at] for at in range(counts.changesets))
    told = (refused[at] for at in range(counts.refused))
    return Conversion(
        changesets=tuple((_hex(it.commit), _hex(it.node)) for it in made),
        refused=tuple(
            Refusal(
                _hex(it.commit),
                REASONS[it.reason],
                bytes(ffi.buffer(it.detail))[: it.detail_len],
            )
            for it in told
        ),
        version=version,
    )


def _hex(binary: Any) -> bytes:
    return bytes(ffi.buffer(binary)).hex().encode()
