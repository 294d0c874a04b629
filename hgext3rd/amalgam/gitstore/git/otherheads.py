"""Heads of branches that are no tips, followed from one export to the next.

A head has no descendants on its branch. New changesets tell which heads have come, and
which have gone: on each way down from a new one, only the first changeset of the same
branch can have been a head. The heads before are the tips, and those that have refs.
Reads neither branches that no new changeset is on, nor Mercurial's cache of branches.
"""

from __future__ import annotations

import itertools
import re
from binascii import unhexlify
from typing import TYPE_CHECKING

from mercurial import encoding, error
from mercurial.node import hex as hex_node, nullid

from . import refs as refsmod
from .refs import OTHER_HEADS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mercurial.interfaces.types import RepoT

    from ..selection import Selection
    from .namelines import NameLines

# of a branch; if it has more, a way down may lead anywhere
_MOST_HEADS = 250
# some 30 us each
_MOST_STEPS = 1000
_DIGITS = 40
_NODE = re.compile(rb"(?:^|/)[0-9a-f]{40}(?:/|$)")


class TooFarError(Exception):
    """All heads have to be computed."""


class HeadRefs:
    """The refs of other heads, as the last export left them."""

    def __init__(self, packed: NameLines, loose: Mapping[bytes, bytes]) -> None:
        self._packed, self._loose = packed, loose

    def has(self, ref: bytes) -> bool:
        """Return whether a ref exists."""
        return ref in self._loose or self._packed.get(ref) is not None

    def below(self, directory: bytes, most: int) -> list[bytes]:
        """Return refs in a directory, no more than ``most``."""
        prefix = directory + b"/"
        loose = (ref for ref in self._loose if ref.startswith(prefix))
        there = itertools.chain(loose, self._packed.below(directory))
        return [*itertools.islice(there, most)]


def changes(
    view: RepoT,
    selected: Selection,
    start: int,
    tips_before: Mapping[bytes, bytes],
    tips: Mapping[bytes, bytes],
    refs: HeadRefs,
) -> dict[bytes, bytes | None]:
    """Return the refs that differ: ref to node, ``None`` for one that goes.

    ``selected``: the changesets of ``view``, with the new ones from revision ``start``
    on. ``tips_before`` and ``tips``: of open branches, by name in UTF-8. ``refs``: of
    heads that have the names that ``escaped`` gives. ``TooFarError`` if it cannot be
    told without a look at all heads.
    """
    walk = _Walk(view, start, tips_before, refs)
    for rev in range(start, selected.len):
        if rev not in selected.excluded:
            walk.add(rev)
    return walk.changes(tips)


class _Branch:
    """A branch that new changesets are on."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        """None of its heads is below this revision."""
        self.heads: set[int] = set()
        """New ones."""
        self.gone: set[int] = set()
        """Old ones that are no heads now; some were none before."""


class _Walk:
    """A walk over new changesets, ascending."""

    def __init__(
        self,
        view: RepoT,
        start: int,
        tips_before: Mapping[bytes, bytes],
        refs: HeadRefs,
    ) -> None:
        self._changelog = view.unfiltered().changelog
        self._start, self._tips_before, self._refs = start, tips_before, refs
        self._branches: dict[bytes, _Branch] = {}
        self._steps = 0

    def add(self, rev: int) -> None:
        """Take the next one, which is a head of its branch."""
        name = self._name(rev)
        branch = self._branches.get(name)
        if branch is None:
            branch = self._branches[name] = _Branch(self._floor(name))
        for ancestor in self._nearest(rev, name, branch.floor):
            branch.heads.discard(ancestor)
            if ancestor < self._start:
                branch.gone.add(ancestor)
        branch.heads.add(rev)

    def changes(self, tips: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        """Return the refs that differ."""
        node = self._changelog.node
        found: dict[bytes, bytes | None] = {}
        for name, branch in self._branches.items():
            tip_before = self._tips_before.get(name)
            gone = {*map(node, branch.gone)}
            come = {*map(node, branch.heads)}
            if tip_before is not None and tip_before not in gone:
                come.add(tip_before)
            for it in come - {tips[name]}:
                ref = _ref(name, it)
                if refsmod.is_too_long(ref) or self._refs.below(ref, 1):
                    raise TooFarError
                found[ref] = it
            refs = (_ref(name, it) for it in gone)
            found |= {ref: None for ref in refs if self._refs.has(ref)}
        return found

    def _name(self, rev: int) -> bytes:
        branch, _closes = self._changelog.branchinfo(rev)
        name: bytes = encoding.fromlocal(branch)
        return name

    def _floor(self, name: bytes) -> int:
        """Return a revision that no head of a branch is below."""
        if _NODE.search(name) or name.endswith(b"/"):
            raise TooFarError  # its refs may be below those of another branch
        directory = _ref(name, nullid)[: -_DIGITS - 1]
        refs = self._refs.below(directory, _MOST_HEADS)
        if len(refs) == _MOST_HEADS:
            return 0
        try:
            nodes = [unhexlify(ref[-_DIGITS:]) for ref in refs]
            if name in self._tips_before:
                nodes.append(self._tips_before[name])
            return min([self._start, *map(self._changelog.rev, nodes)])
        except (ValueError, error.LookupError):  # somebody else made the refs
            raise TooFarError from None

    def _nearest(self, rev: int, name: bytes, floor: int) -> set[int]:
        """Return the first changesets of a branch on each way down from ``rev``."""
        parents = self._changelog.parentrevs
        found, seen = set(), set()
        pending = [*parents(rev)]
        while pending:
            ancestor = pending.pop()
            if ancestor < floor or ancestor in seen:
                continue
            seen.add(ancestor)
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise TooFarError
            if self._name(ancestor) == name:
                found.add(ancestor)
            else:
                pending += parents(ancestor)
        return found


def _ref(branch: bytes, node: bytes) -> bytes:
    return OTHER_HEADS + refsmod.escaped(b"%s/%s" % (branch, hex_node(node)))
