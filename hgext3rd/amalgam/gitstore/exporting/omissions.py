"""What an export leaves out or cannot show, so that users are told.

Looks at the repository after an export, and changes nothing. The command has the words.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from mercurial import phases, repoview

from ...records import Choice, Record
from ..state import selection
from . import checkout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from mercurial.interfaces.types import RepoT

    from ..store import GitStore
    from .export import Report

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


class Remarks(Record):
    """What there is to say of an export besides what it did."""

    unreachable: int
    """Changesets that are exported, and that no ref leads to."""
    heads: int
    """Heads among them."""
    topics: int
    """Changesets that are served by hg alone, since they have a topic."""
    different: Sequence[checkout.Different]
    """New files that git shows otherwise."""
    too_long: Sequence[bytes]
    """Names in UTF-8 that have no ref, since not every clone can have them."""

    @classmethod
    def of(
        cls, store: GitStore, report: Report, revs: Collection[int] | None
    ) -> Remarks:
        """Look at ``store`` after an export of ``revs`` and their ancestors."""
        repo, export = store.repo, store.config.export
        node = repo.unfiltered().changelog.node
        nodes = None if revs is None else list(map(node, revs))
        selected = selection.select(repo, export, nodes)
        if nodes is None:
            wanted = selection.heads(repo, export)
        else:
            wanted = [node for node in nodes if selected.has(repo, node)]
        unreachable, heads = _unreachable(repo, wanted, report.named)
        different: Sequence[checkout.Different] = ()
        if report.changesets:
            start = report.start
            different = checkout.different(repo, start, selected.excluded)
        topics = 0
        if nodes is None and export == b"served":
            topics = selection.topics(repo)
        return cls(unreachable, heads, topics, different, report.too_long)


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
