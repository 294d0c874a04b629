"""Commits of a push: one reading of git's graph.

A commit is new unless it is a changeset that the pusher may see. git lists commits from
the tips downwards, more each time, until all ways end in known changesets: the length
of the history does not matter. Then it lists the new ones in topological order. All
other questions are answered from that value. Oids and nodes are in hex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from mercurial.i18n import _

from ..records import Record
from .commands import PushRefusedError

if TYPE_CHECKING:
    from ..gitstore.git.process import Git

Known: TypeAlias = Callable[[Iterable[bytes]], Mapping[bytes, bytes]]
"""Returns the changesets of the known ones of some commits."""

#: Parents are those of the commits, not of a cache.
NO_COMMIT_GRAPH = {"core.commitGraph": "false"}
_FIRST_COMMITS = 256
"""Commits that are searched first for known ones."""
_GROWTH = 4


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

    ``git`` sees all their objects. ``PushRefusedError`` if more than ``most_commits``
    are new. ``are_all_new``: no commit is known, as in an empty repository.
    """
    asked = sorted({*tips})
    nodes = {**known(asked)}
    new = [oid for oid in asked if oid not in nodes]
    if not new:
        return PushGraph({}, nodes)
    if not are_all_new:
        nodes |= _ends(git, new, known, nodes, most_commits)
    lines = [*new, *(b"^" + oid for oid in nodes)]
    listed = _listed(git, lines, "--topo-order", "--reverse")
    return PushGraph({oid: parents for oid, *parents in listed}, nodes)


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


def _listed(git: Git, lines: Sequence[bytes], *args: str) -> list[list[bytes]]:
    """Return commits with their parents; ``lines`` are arguments of rev-list."""
    done = git.run(
        *("rev-list", "--parents", "--full-history", *args, "--stdin"),
        input=b"".join(b"%s\n" % line for line in lines),
        config=NO_COMMIT_GRAPH,
    )
    return [line.split() for line in done.stdout.splitlines()]


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
        listed = _listed(git, lines, f"--max-count={count}")
        graph = {oid: parents for oid, *parents in listed}
        unknown = {it for oids in listed for it in oids} - looked_up
        looked_up |= unknown
        nodes.update(known(unknown))
        ends, new, is_complete = _walked(tips, graph, nodes)
        if new > most_commits:
            raise PushRefusedError(
                _(
                    b"the push has more than %d new commits; push older ones first: "
                    b"git push origin COMMIT:BRANCH"
                )
                % most_commits
            )
        if is_complete or len(listed) < count:
            return {oid: nodes[oid] for oid in ends}
        count *= _GROWTH


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
