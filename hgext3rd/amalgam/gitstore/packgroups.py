"""Which packs of a store are due to be rolled up into one.

Owns the groups: packs that may be in one pack, since they go together. Those of the
base and those of the drafts are apart. Packs of metadata commits are in no group: each
is replaced as a whole. Owns the geometric rule: of the packs of a group that stay, each
has at least twice the objects of the next smaller one. So an object is copied as often
as its pack doubles, and the number of packs follows the logarithm of their objects.

Pure functions, which read no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .docket import Docket, Layer

APART_FROM = 1000
"""Changesets from which a complete pack is made; the core has the same bound."""

MOST = 64
"""Limit of packs, never reached unless roll-ups fail."""
# with this many packs in a store, each group is rolled up, whatever an export adds
_FULL = 48
_FACTOR = 2
# Packs of one group beyond the rule that are rolled up at once.
_BATCH = 16
# packs of a group that stay; smaller ones are rolled up, whatever the rule says
_MOST_KEPT = 8


class RollUp(Record):
    """Packs that are to become one."""

    packs: tuple[str, ...]
    """Their names without suffix, ascending by their objects."""
    is_whole: bool = False
    """Whether they are all packs of the lowest layer, except for its complete pack."""


def due(docket: Docket, count: Callable[[str], int]) -> list[RollUp]:
    """Return the packs to roll up; empty for few packs.

    ``count`` returns the number of objects of a pack.
    """
    is_full = len(docket.packs) >= _FULL
    found = []
    for group, layer in _groups(docket):
        if is_full or len(group) >= _BATCH:
            packs = _outside_of_progression(group, count)
            is_whole = layer is docket.base and len(packs) == len(group)
            if len(packs) >= (2 if is_full else _BATCH):
                found.append(RollUp(packs, is_whole))
    return found


def room(docket: Docket, size: Callable[[str], int]) -> int:
    """Return how many bytes a roll-up takes at most before the old packs go.

    ``size`` tells how many bytes a pack has.
    """
    groups = [group for group, _layer in _groups(docket)]
    complete = lowest(docket).complete
    whole = (*_packs_of_layer(lowest(docket)), *filter(None, [complete]))
    return max(sum(map(size, group)) for group in (*groups, whole))


def growth(
    docket: Docket, count: Callable[[str], int], size: Callable[[str], int]
) -> int:
    """Return how many bytes exports are likely to add before packs are rolled up.

    That is, until each group is due, if its next packs are as large as the largest of
    those that wait for a roll-up. ``count`` and ``size`` are objects and bytes of a
    pack.
    """
    total = 0
    for group, _layer in _groups(docket):
        # the first pack alone does not tell how large the next one will be
        waiting = _outside_of_progression(group, count) or group[1:][-1:]
        left = _BATCH - len(waiting)
        total += max(0, left) * max(map(size, waiting), default=0)
    return total


def lowest(docket: Docket) -> Layer:
    """Return the layer that is below no other one with changesets."""
    return docket.base if docket.base.segments else docket.drafts


def _packs_of_layer(layer: Layer) -> tuple[str, ...]:
    """Return the packs that only go with their layer, without the complete one."""
    return tuple(name for name in layer.packs if name != layer.complete)


def _groups(docket: Docket) -> Iterator[tuple[Sequence[str], Layer]]:
    """Yield each group, and its layer."""
    for layer in docket.layers:
        yield _packs_of_layer(layer), layer


def _outside_of_progression(
    group: Sequence[str], count: Callable[[str], int]
) -> tuple[str, ...]:
    """Return the packs that do not stay, ascending by their objects."""
    counts = {name: count(name) for name in group}
    names = sorted(counts, key=lambda name: (counts[name], name))
    sizes = [counts[name] for name in names]
    end = len(sizes)
    while end and len(sizes) - end < _MOST_KEPT - 1:
        if end > 1 and sizes[end - 1] < _FACTOR * sizes[end - 2]:
            break
        end -= 1
    total = sum(sizes[:end])
    while 1 < end < len(sizes) and sizes[end] < _FACTOR * total:
        total += sizes[end]
        end += 1
    return tuple(names[:end]) if end > 1 else ()
