"""Tips of named branches after a push, known before anything is stored.

In git, a named branch is its newest head. So a pushed one leads to its commit if that
is the last new commit on the branch. The order of new commits is free as long as
parents come first. A commit that has another of its branch above it can never be the
last, and its ref is refused. It is stored all the same, since the other one needs it.

Other refs of a push can lead a named branch elsewhere, too: above its tip, if any new
commit is. Refs that would take it off a commit which no branch has then are refused
(docs/decisions/forced-pushes.rst). Owns that order and these refusals. Changes nothing.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

from mercurial import encoding
from mercurial.i18n import _
from mercurial.node import bin as bin_node

from ..gitstore.git.refs import HEADS, MAIN_LINES
from ..records import Record
from . import successors
from .commands import ZERO
from .refplan import branch_of, leaves_main_line, leaves_tip
from .refstate import BOOKMARK, TAG, TIP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .graph import PushGraph
    from .refplan import RefPlan, RefUpdate

_DEFAULT = b"default"
_SHORT = 12


class Arrangement(Record):
    """How the new commits of a push are stored."""

    plan: RefPlan
    """Without named branches that would lead elsewhere; their commits are stored."""
    order: tuple[bytes, ...]
    """The new commits, parents first."""
    beside: dict[bytes, bytes]
    """Refs whose commits must not be stored, with sentences; then plan again."""


def arranged(
    plan: RefPlan, graph: PushGraph, chosen: bytes, *, is_atomic: bool
) -> Arrangement:
    """Return how to store the new commits; their order changes as little as possible.

    ``chosen`` is the named branch of all new ones, if the pusher has chosen one.
    """
    if lacking := _new_main_lines(plan, graph):
        return Arrangement(plan, (), lacking)
    oids = graph.needed(plan.tips)
    tips = [it for it in plan.updates if it.kind == TIP and it.command.new != ZERO]
    refs = {it.command.new: it.command.ref for it in plan.updates if it.kind != TAG}
    if not oids or (len(tips) == 1 and refs.keys() == {tips[0].command.new}):
        return Arrangement(plan, oids, {})
    branches = _branches(plan, graph, oids, chosen)
    above = _above_tips(plan, graph, branches)
    commits = _Commits(oids, graph.parents, branches)
    is_new_on = {*branches.values()}
    below = commits.below({it.command.new: it.name for it in tips})
    passed = [
        it
        for it in tips
        if it.command.new in below
        or (it.command.new not in branches and it.name in is_new_on)
    ]
    left = {it.name: it.command.new for it in tips if it not in passed}
    left = {name: oid for name, oid in left.items() if oid in branches}
    asked = {*left}
    left |= {it: its[-1] for it, its in above.items() if its and it not in asked}
    order, circular = commits.ordered(left)
    while circular:
        passed += [it for it in tips if it.name == circular and it not in passed]
        del left[circular]
        order, circular = commits.ordered(left)
    last = {branches[oid]: oid for oid in order}
    names = {name: refs.get(oid, oid[:_SHORT]) for name, oid in last.items()}
    refused = {
        it.command.ref: _passed(it, names[it.name], is_atomic=is_atomic)
        for it in passed
    }
    elsewhere = {name for name, its in above.items() if last[name] not in its}
    elsewhere -= asked.intersection(left)
    beside = _beside(plan, graph, branches, above, elsewhere)
    return Arrangement(plan.refusing(refused), tuple(order), beside)


def _new_main_lines(plan: RefPlan, graph: PushGraph) -> dict[bytes, bytes]:
    """Return new main lines that would let their named branch leave a commit.

    Those of a clone that lacks commits of others.
    """
    state = plan.state
    refused = {}
    for it in plan.updates:
        is_new = it.command.old == ZERO != it.command.new
        if it.kind != BOOKMARK or not is_new or it.name not in MAIN_LINES:
            continue
        branch = branch_of(plan, graph, it.command.new)
        tip, ref = state.tips.get(branch), state.ref_of_tip(branch)
        if branch in state.with_main_line or not tip or not ref:
            continue
        if _may_become_obsolete(plan, tip):
            continue
        if not _stays(plan, graph, ref, tip):
            oid = state.oids(plan.store, [ref])[ref]
            refused[it.command.ref] = leaves_main_line(ref, oid).sentence
    return refused


def _above_tips(
    plan: RefPlan, graph: PushGraph, branches: Mapping[bytes, bytes]
) -> dict[bytes, list[bytes]]:
    """Return the new commits on each named branch that are above its tip.

    ``branches``: of each new commit, in git's order. Branches without a new commit, or
    without a tip that git users see, are left out.
    """
    view, tips = plan.state.view, plan.state.tips
    base = {
        oid: view.changelog.rev(bin_node(node))
        for oid, node in graph.base(branches).items()
    }
    found = {}
    for name in {*branches.values()} & tips.keys():
        # one call of C code, from the bases down to the tip
        revs = {*view.revs(b"%n::%ld", tips[name], [*base.values()])}
        above = {oid for oid, rev in base.items() if rev in revs}
        for oid in branches:
            if not above.isdisjoint(graph.parents[oid]):
                above.add(oid)
        found[name] = [it for it in branches if it in above and branches[it] == name]
    return found


def _beside(
    plan: RefPlan,
    graph: PushGraph,
    branches: Mapping[bytes, bytes],
    above: Mapping[bytes, Sequence[bytes]],
    left: set[bytes],
) -> dict[bytes, bytes]:
    """Return refs that would take named branches off their tips, with sentences.

    ``left`` are the named branches that would lead elsewhere: that is refused if no
    branch leads to the tip then.
    """
    state = plan.state
    refused: dict[bytes, bytes] = {}
    for name in left - state.with_main_line:
        ref, tip = state.ref_of_tip(name), state.tips[name]
        if _may_become_obsolete(plan, tip):
            continue
        if not ref or _stays(plan, graph, ref, tip):
            continue
        new = [it for it in branches if branches[it] == name and it not in above[name]]
        sentence = leaves_tip(plan.store, state, ref).sentence
        refs = plan.leading_to(graph, new).values()
        refused |= {ref: sentence for its in refs for ref in its}
    return refused


def _may_become_obsolete(plan: RefPlan, tip: bytes) -> bool:
    """Return whether a tip can vanish in the transaction, which looks again."""
    return bool(plan.state.view[tip].mutable() and successors.is_wanted(plan.repo))


def _stays(plan: RefPlan, graph: PushGraph, ref: bytes, tip: bytes) -> bool:
    """Return whether a branch other than ``ref`` leads to ``tip`` after the push."""
    asked = {it.command.ref: it.command.new for it in plan.updates}
    ends = [asked[it] for it in asked if it.startswith(HEADS) and asked[it] != ZERO]
    known = {*graph.base(graph.needed(ends)).values()}
    known |= {graph.nodes[oid] for oid in ends if oid in graph.nodes}
    nodes = [*map(bin_node, known)]
    if plan.state.view.revs(b"%n::%ln", tip, nodes):
        return True
    return plan.state.leads_to(tip, without={ref, *asked})


def _passed(update: RefUpdate, name: bytes, *, is_atomic: bool) -> bytes:
    """Return the refusal of a named branch that would lead to ``name``."""
    branch = encoding.fromlocal(update.name)
    if is_atomic:
        sentence = _(
            b"the Mercurial branch '%s' would lead to '%s', its newest head; push "
            b"that one later"
        )
    else:
        sentence = _(
            b"the Mercurial branch '%s' will lead to '%s', its newest head; fetch it "
            b"after the push"
        )
    return sentence % (branch, name)


def _branches(
    plan: RefPlan, graph: PushGraph, oids: Sequence[bytes], chosen: bytes
) -> dict[bytes, bytes]:
    """Return the named branch that each new commit will be on."""
    if chosen:
        return dict.fromkeys(oids, chosen)
    view = plan.state.view
    known = {
        oid: view[bin_node(node)].branch() for oid, node in graph.base(oids).items()
    }
    branches: dict[bytes, bytes] = {}
    for oid in oids:
        first = graph.parents[oid][:1]
        branches[oid] = _DEFAULT
        if first:
            branches[oid] = branches.get(first[0]) or known[first[0]]
    return branches


class _Commits:
    """New commits, and the named branches that they will be on."""

    def __init__(
        self,
        oids: Sequence[bytes],
        parents: Mapping[bytes, Iterable[bytes]],
        branches: Mapping[bytes, bytes],
    ) -> None:
        self._oids = oids
        self._branches = branches
        self._parents = {
            oid: [it for it in dict.fromkeys(parents[oid]) if it in branches]
            for oid in oids
        }
        self._children: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self._members: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for oid in oids:
            self._members[branches[oid]].append(oid)
            for parent in self._parents[oid]:
                self._children[parent].append(oid)

    def below(self, tips: Mapping[bytes, bytes]) -> set[bytes]:
        """Return which of ``tips`` have commits of their branch above them."""
        bits = {name: 1 << at for at, name in enumerate({*tips.values()})}
        above: defaultdict[bytes, int] = defaultdict(int)
        found = set()
        for oid in reversed(self._oids):
            branches = above.pop(oid, 0)
            if oid in tips and branches & bits[tips[oid]]:
                found.add(oid)
            branches |= bits.get(self._branches[oid], 0)
            for parent in self._parents[oid]:
                above[parent] |= branches
        return found

    def ordered(self, tips: Mapping[bytes, bytes]) -> tuple[list[bytes], bytes]:
        """Return all commits so that each of ``tips``, by branch, is its branch's last.

        If that cannot be, return a branch of those that wait for each other, too.
        """
        place = {oid: at for at, oid in enumerate(self._oids)}
        waits = {oid: len(its) for oid, its in self._parents.items()}
        for name, tip in tips.items():
            waits[tip] += len(self._members[name]) - 1
        ready = [place[oid] for oid, count in waits.items() if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            oid = self._oids[heapq.heappop(ready)]
            order.append(oid)
            tip = tips.get(self._branches[oid], oid)
            for later in self._children[oid] + [tip] * (tip != oid):
                waits[later] -= 1
                if not waits[later]:
                    heapq.heappush(ready, place[later])
        stuck = [tip for tip in tips.values() if waits[tip]]
        return order, self._circular(stuck[0], waits) if stuck else b""

    def _circular(self, oid: bytes, waits: Mapping[bytes, int]) -> bytes:
        """Return a branch whose tip waits for itself; ``oid`` waits for it, too."""
        seen: set[bytes] = set()
        while oid not in seen:
            seen.add(oid)
            others = self._members[self._branches[oid]]
            before = (*self._parents[oid], *(it for it in others if it != oid))
            oid = next(it for it in before if waits[it])
        while any(waits[it] for it in self._parents[oid]):
            oid = next(it for it in self._parents[oid] if waits[it])
        return self._branches[oid]
