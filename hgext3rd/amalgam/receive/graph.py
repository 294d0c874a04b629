"""New commits of a push or a pull: one reading of git's graph.

A commit is new unless it is a changeset that the user may see. git lists commits from
the tips downwards, more each time, until all ways end in known changesets: the length
of the history does not matter. Then it lists the new ones in topological order. All
other questions are answered from that value. Oids and nodes are in hex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from ..gitstore.git.process import split
from ..records import Record

if TYPE_CHECKING:
    from ..gitstore.git.process import Git

Known: TypeAlias = Callable[[Iterable[bytes]], Mapping[bytes, bytes]]
"""Returns the changesets of the known ones of some commits."""

#: Parents are those of the commits, not of a cache.
NO_COMMIT_GRAPH = {"core.commitGraph": "false"}
_FIRST_COMMITS = 256
"""Commits that are searched first for known ones."""
_GROWTH = 4


class TooManyCommitsError(Exception):
    """More commits are new than the caller takes."""


class PushGraph(Record):
    """New commits of a push, and the known commits that they are based on."""

    parents: Mapping[bytes, Sequence[bytes]]
    """New commits with their parents, in git's topological order, parents first."""
    nodes: Mapping[bytes, bytes]
    """Changesets of the known tips, and of all known parents of new commits."""

    def needed(self, tips: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return the new commits among ``tips`` and their ancestors, in order."""
        found: set[bytes] = set()
        pending = [tip for tip in tips if tip in self.parents]
        while pending:
            oid = pending.pop()
            if oid not in found:
                found.add(oid)
                pending += (it for it in self.parents[oid] if it in self.parents)
        return tuple(oid for oid in self.parents if oid in found)

    def from_first(self, tips: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return the new commits, parents first: all of the first tip, of the next."""
        seen: set[bytes] = set()
        found: list[bytes] = []
        for tip in tips:
            pending = [tip] if tip in self.parents and tip not in seen else []
            seen.update(pending)
            while pending:
                for parent in self.parents[pending[-1]]:
                    if parent in self.parents and parent not in seen:
                        seen.add(parent)
                        pending.append(parent)
                        break
                else:
                    found.append(pending.pop())
        return tuple(found)

    def base(self, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the known parents of new commits ``oids``, and their changesets."""
        parents = (parent for oid in oids for parent in self.parents[oid])
        return {oid: self.nodes[oid] for oid in parents if oid in self.nodes}

    def first_known(self, oid: bytes) -> bytes | None:
        """Return the first known commit on the way of first parents from ``oid``."""
        while oid in self.parents:
            parents = self.parents[oid]
            if not parents:
                return None
            oid = parents[0]
        return oid

    def leading_to(
        self, oids: Iterable[bytes], tips: Iterable[bytes]
    ) -> dict[bytes, bytes]:
        """Return which of ``tips`` lead to new commits ``oids``, each with one."""
        found = {oid: oid for oid in oids}
        for oid, parents in self.parents.items():
            for parent in parents:
                if parent in found:
                    found.setdefault(oid, found[parent])
        return {tip: found[tip] for tip in tips if tip in found}

    def with_commit(self, oid: bytes, parent: bytes) -> PushGraph:
        """Return the graph with one more commit."""
        return self._replace(parents={**self.parents, oid: (parent,)})


def read(
    git: Git,
    tips: Iterable[bytes],
    known: Known,
    most_commits: float,
    *,
    are_all_new: bool = False,
) -> PushGraph:
    """Read the ancestors of ``tips`` that are not ``known``.

    ``git`` sees all their objects. ``TooManyCommitsError`` if more than
    ``most_commits`` are new. ``are_all_new``: no commit is known, as in an empty
    repository.
    """
    asked = sorted({*tips})
    nodes = {**known(asked)}
    new = [oid for oid in asked if oid not in nodes]
    if not new:
        return PushGraph({}, nodes)
    if not are_all_new:
        nodes |= _ends(git, new, known, nodes, most_commits)
    lines = [*new, *(b"^" + oid for oid in nodes)]
    parents: dict[bytes, Sequence[bytes]] = {}
    for oid, above in _listed(git, lines, "--topo-order", "--reverse"):
        parents[oid] = above
        if len(parents) > most_commits:
            raise TooManyCommitsError
    return PushGraph(parents, nodes)


def oldest_first(git: Git, tips: Iterable[bytes]) -> list[bytes]:
    """Return commits in hg-git's order: by their times less the offsets of zones."""
    done = git.run(
        *("rev-list", "--no-walk=unsorted", "--no-commit-header", "--stdin"),
        *("--format=%H %cd", "--date=raw"),  # other formats fail for some dates
        input=b"".join(b"%s\n" % it for it in tips),
        config=NO_COMMIT_GRAPH,
    )
    times = {}
    for line in done.stdout.splitlines():
        oid, *time = line.split()
        if len(time) != 2:  # a damaged date
            time = [b"0", b"+0000"]
        seconds, zone = time
        minutes = int(zone[1:3]) * 60 + int(zone[3:])
        times[oid] = int(seconds) - int(zone[:1] + b"60") * minutes
    return sorted(times, key=times.__getitem__)


def _listed(
    git: Git, lines: Sequence[bytes], *args: str
) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """Yield commits and their parents; ``lines`` are arguments of rev-list.

    Each oid is one object, wherever it is yielded: 500,000 commits take 110 MB.
    """
    oids: dict[bytes, bytes] = {}
    with git.pieces(
        *("rev-list", "--parents", "--full-history", *args, "--stdin"),
        input=(b"%s\n" % line for line in lines),
        config=NO_COMMIT_GRAPH,
    ) as pieces:
        for line in split(pieces, b"\n"):
            oid, *parents = (oids.setdefault(it, it) for it in line.split())
            yield oid, tuple(parents)


def _ends(
    git: Git,
    tips: Sequence[bytes],
    known: Known,
    known_tips: Mapping[bytes, bytes],
    most_commits: float,
) -> dict[bytes, bytes]:
    """Return the known commits that are parents of new ones, and their nodes."""
    nodes = {**known_tips}
    looked_up = {*tips, *nodes}
    count = _FIRST_COMMITS
    while True:
        lines = [*tips, *(b"^" + oid for oid in nodes)]
        graph = dict(_listed(git, lines, f"--max-count={count}"))
        unknown = {*graph, *chain.from_iterable(graph.values())} - looked_up
        looked_up |= unknown
        nodes.update(known(unknown))
        ends, new, is_complete = _walked(tips, graph, nodes)
        if new > most_commits:
            raise TooManyCommitsError
        if is_complete or len(graph) < count:
            return {oid: nodes[oid] for oid in ends}
        # no more at once than the limit again
        count = int(min(count * _GROWTH, count + most_commits))


def _walked(
    tips: Iterable[bytes],
    graph: Mapping[bytes, Sequence[bytes]],
    nodes: Mapping[bytes, bytes],
) -> tuple[set[bytes], int, bool]:
    """Return the known commits where ways from ``tips`` end; and whether all do.

    Between: the number of new commits on the ways.
    """
    ends: set[bytes] = set()
    pending, seen = [*tips], {*tips}
    is_complete = True
    while pending:
        oid = pending.pop()
        if oid in nodes:
            ends.add(oid)
        elif oid in graph:
            more = {*graph[oid]} - seen
            seen |= more
            pending += more
        else:
            is_complete = False
    return ends, len(seen) - len(ends), is_complete
