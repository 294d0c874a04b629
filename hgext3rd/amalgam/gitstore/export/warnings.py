"""Warnings after an export: changesets left out, and files that look different in git.

Different files are names that git refuses, and placeholders for contents elsewhere:
subrepositories, largefiles, LFS. Their history is exported unchanged, because ids
depend on it. Looks at names, and for LFS at flags. The command has the messages.
"""

from __future__ import annotations

import contextlib
import heapq
from typing import TYPE_CHECKING

from mercurial import phases, repoview, revlog, store as storemod

from ...records import Choice, Record
from .. import selection
from ..git.refs import METADATA
from ..refusednames import is_left_out, is_refused

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from mercurial.interfaces.types import RepoT

    from ..selection import Selection
    from ..store import GitStore
    from .export import Report


# of so many changesets the files are looked at, of more all that ever were
_FEW_CHANGESETS = 100
# so many filelogs may be opened
_MOST_OPENED = 2000

_SUBREPOSITORIES = (b".hgsub", b".hgsubstate")
_STANDINS = b".hglf/"
# nearly all stores have none of these, and then need not be looked through
_SUSPICIOUS = (b".git", b"git~1", b"/.hgsub", b"/.hglf", b"/./", b"/../", b"//")


class DifferenceKind(Choice):
    """Why git shows something else."""

    REFUSED = "refused"
    """Git refuses to check the file out."""
    LEFT_OUT = "left-out"
    """Commits do not have it, by hg-git's rules."""
    SUBREPOSITORIES = "subrepositories"
    """It names subrepositories, which git does not know."""
    LARGEFILES = "largefiles"
    """It stands for a file of the largefiles extension."""
    LFS = "lfs"
    """It is the pointer to content in LFS."""


class DifferentFile(Record):
    """Files of one kind."""

    kind: DifferenceKind
    files: int
    example: bytes


def different_files(
    repo: RepoT, start: int, excluded: Iterable[int], *, is_hggit: bool = False
) -> list[DifferentFile]:
    """Return new files since revision ``start``, by kind.

    ``excluded``: revisions that are not exported. ``is_hggit``: the dialect. Cost
    follows the number of new changesets or, if these are many, that of all files, in
    nanoseconds each. Of LFS only so many files are looked at that it is quick.
    """
    repo = repo.unfiltered()
    skipped = frozenset(excluded)
    revs = [rev for rev in range(start, len(repo)) if rev not in skipped]
    has_lfs = b"lfs" in repo.requirements
    if len(revs) <= _FEW_CHANGESETS:
        readfiles = repo.changelog.readfiles
        paths = {path for rev in revs for path in readfiles(rev)}
    else:
        paths = set(_all_files(repo)) if has_lfs or _may_differ(repo) else set()
    found: dict[DifferenceKind, list[bytes]] = {}
    opened = 0
    for path in sorted(paths):
        kind = _difference_kind(path, is_hggit=is_hggit)
        if kind is None and has_lfs:
            kind = DifferenceKind.LFS
        if kind is None or (kind is DifferenceKind.LFS and opened >= _MOST_OPENED):
            continue
        if kind is DifferenceKind.LFS or start or skipped:
            opened += 1
            if opened < _MOST_OPENED and not _is_new(
                repo, path, start, skipped, in_lfs=kind is DifferenceKind.LFS
            ):
                continue
        found.setdefault(kind, []).append(path)
    return [
        DifferentFile(kind, len(found[kind]), found[kind][0])
        for kind in DifferenceKind
        if kind in found
    ]


def _difference_kind(path: bytes, *, is_hggit: bool) -> DifferenceKind | None:
    if is_hggit and is_left_out(path):
        return DifferenceKind.LEFT_OUT
    if path in _SUBREPOSITORIES:
        return DifferenceKind.SUBREPOSITORIES
    if path.startswith(_STANDINS):
        return DifferenceKind.LARGEFILES
    return DifferenceKind.REFUSED if is_refused(path) else None


def _is_new(
    repo: RepoT, path: bytes, start: int, excluded: frozenset[int], *, in_lfs: bool
) -> bool:
    """Return whether the first exported revision of a file is a new one."""
    filelog = repo.file(path).get_revlog()
    for rev in range(len(filelog)):
        if in_lfs and not filelog.flags(rev) & revlog.REVIDX_EXTSTORED:
            continue
        linkrev = filelog.linkrev(rev)
        if linkrev not in excluded:
            return bool(linkrev >= start)
    return False


def _all_files(repo: RepoT) -> Iterator[bytes]:
    """Yield the names of all files of the history."""
    if b"fncache" not in repo.requirements:
        for entry in repo.store.data_entries(undecodable=[]):
            if entry.is_filelog:
                yield entry.target_id
        return
    content: bytes = repo.svfs.tryread(b"fncache")
    for line in content.splitlines():
        if line.startswith(b"data/") and line.endswith(b".i"):
            yield storemod.decodedir(line)[5:-2]


def _may_differ(repo: RepoT) -> bool:
    """Return whether the name of any file may look different in git."""
    if b"fncache" not in repo.requirements:
        return True
    content: bytes = repo.svfs.tryread(b"fncache").lower()
    return any(part in content for part in _SUSPICIOUS)


# so many changesets are looked at together, at first and at most
_FIRST_BATCH, _LARGEST_BATCH = 64, 1 << 14
_TOPIC = b"topic"


class LeftOutReason(Choice):
    """Why a changeset does not leave."""

    SECRET = "secret"
    HIDDEN = "hidden"
    DRAFT = "draft"
    """And ``amalgam.git.export`` is ``public``."""
    TOPIC = "topic"
    """It is a draft with a topic."""
    VIEW = "view"
    """It is in no view that a server shows."""


class LeftOut(Record):
    """Some of the changesets that were asked for."""

    reason: LeftOutReason
    nodes: tuple[bytes, ...]


class ExportWarnings(Record):
    """Facts about an export besides its report."""

    unreachable: int
    """Changesets that are exported, and that no ref leads to."""
    heads: int
    """Heads among them."""
    topics: int
    """Changesets that are served by hg alone, since they have a topic."""
    different: Sequence[DifferentFile]
    """New files that git shows otherwise."""
    too_long: Sequence[bytes]
    """Names in UTF-8 that have no ref, since not every clone can have them."""

    @classmethod
    def of(
        cls,
        store: GitStore,
        report: Report,
        revs: Collection[int] | None,
        *,
        everything: bool = True,
    ) -> ExportWarnings:
        """Look at ``store`` after an export of ``revs`` and their ancestors.

        Without ``everything``, only at new changesets, if refs were compared with those
        of the export before.
        """
        repo, export = store.repo, store.config.export
        node = repo.unfiltered().changelog.node
        nodes = None if revs is None else list(map(node, revs))
        selected = selection.select(repo, export, nodes)

        def wanted() -> list[bytes]:
            if nodes is None:
                return selection.heads(repo, export)
            return [node for node in nodes if selected.has(repo, node)]

        if everything or nodes is not None or report.named is None or not report.start:
            unreachable, heads = _unreachable(repo, wanted(), _named(store))
        else:
            unreachable, heads = _unreachable_since(
                repo, report.start, selected, report.named
            )
        different: Sequence[DifferentFile] = ()
        if report.changesets:
            is_hggit = not store.config.keeps_metadata  # and so it has submodules
            found = different_files(
                repo, report.start, selected.excluded, is_hggit=is_hggit
            )
            different = [
                it
                for it in found
                if it.kind is not DifferenceKind.SUBREPOSITORIES or not is_hggit
            ]
        topics = 0
        if nodes is None and export == b"served":
            topics = selection.topics(repo)
        return cls(unreachable, heads, topics, different, report.too_long)


def _named(store: GitStore) -> list[bytes]:
    """Return the changesets that refs lead to."""
    refs = store.repository.targets()
    oids = [oid for ref, oid in refs.items() if ref != METADATA]
    with contextlib.closing(store.open_map()) as oidmap:
        return [node for node in oidmap.changesets(oids) if node is not None]


def left_out(repo: RepoT, export: bytes, revs: Iterable[int]) -> list[LeftOut]:
    """Return those of ``revs`` that must not leave, by reason."""
    changelog = repo.unfiltered().changelog
    excluded = selection.select(repo, export).excluded
    hidden = repoview.filterrevs(repo.unfiltered(), b"visible")
    found: dict[LeftOutReason, list[bytes]] = {}
    for rev in revs:
        if rev not in excluded:
            continue
        context = repo.unfiltered()[rev]
        if context.phase() >= phases.secret:
            reason = LeftOutReason.SECRET
        elif rev in hidden:
            reason = LeftOutReason.HIDDEN
        elif export == b"public" and context.mutable():
            reason = LeftOutReason.DRAFT
        else:
            reason = (
                LeftOutReason.TOPIC
                if context.extra().get(_TOPIC)
                else LeftOutReason.VIEW
            )
        found.setdefault(reason, []).append(changelog.node(rev))
    return [LeftOut(why, tuple(found[why])) for why in LeftOutReason if why in found]


def _unreachable_since(
    repo: RepoT, start: int, selected: Selection, named: Iterable[bytes]
) -> tuple[int, int]:
    """Return how many new changesets are no ancestors of ``named``, and their heads.

    New ones begin with revision ``start``. ``named``: all that have a new ref.
    """
    changelog = repo.unfiltered().changelog
    reached = {*map(changelog.rev, named)}
    above: set[int] = set()
    count = heads = 0
    for rev in range(selected.len - 1, start - 1, -1):
        if rev in reached:
            reached.update(changelog.parentrevs(rev))
        elif rev not in selected.excluded:
            count += 1
            heads += rev not in above
            above.update(changelog.parentrevs(rev))
    return count, heads


def _unreachable(
    repo: RepoT, heads: Iterable[bytes], named: Iterable[bytes]
) -> tuple[int, int]:
    """Return how many ancestors of ``heads`` are none of ``named``, and their heads.

    Cost follows their number, and takes some 10 ns for each changeset since the first
    of them: Mercurial's C or Rust code walks down from ``named``.
    """
    changelog = repo.unfiltered().changelog
    names = sorted(map(changelog.rev, named))
    found_heads = {*map(changelog.rev, heads)}.difference(names)
    count, batch_len = 0, _FIRST_BATCH
    known = set(found_heads)
    pending = [-rev for rev in found_heads]
    heapq.heapify(pending)
    while pending:
        # all ancestors down to some revision, though some of them may be reached
        batch: list[int] = []
        while pending and len(batch) < batch_len:
            rev = -heapq.heappop(pending)
            batch.append(rev)
            for parent in changelog.parentrevs(rev):
                if parent >= 0 and parent not in known:
                    known.add(parent)
                    heapq.heappush(pending, -parent)
        reached = {*changelog.reachableroots(batch[-1], names, batch)}
        for rev in batch:
            if rev in reached:
                reached.update(changelog.parentrevs(rev))
                found_heads.discard(rev)
            else:
                count += 1
                found_heads.difference_update(changelog.parentrevs(rev))
        pending = [rev for rev in pending if -rev not in reached]
        heapq.heapify(pending)
        batch_len = min(2 * batch_len, _LARGEST_BATCH)
    return count, len(found_heads)
