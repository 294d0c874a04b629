"""Where a series changed: levels, and the steps between them.

A series is taken for constant levels with noise on them. The fit has the least sum of
absolute deviations, in logarithms, for each number of levels (dynamic programming); the
number is the one with the best information criterion. That is the idea of asv
(airspeed velocity, ``asv.step_detect``, after Friedrich 2008 and Yao 1988). There, the
fit is approximate, and noise is correlated; here, series are short, so it is exact.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A level of one value could be an outlier.
_SHORTEST = 2
_MOST_LEVELS = 12
_PENALTY = 4.0  # as in asv, where it was found by trial


@dataclass(frozen=True)
class Level:
    """A part of a series that is constant but for noise."""

    start: int
    end: int
    """After its last value."""
    median: float


def levels(values: Sequence[float], least_factor: float) -> list[Level]:
    """Return the levels of a series of positive numbers, in order, without gaps.

    A change by less than ``least_factor`` makes no new level. Takes time in the third
    power of the length.
    """
    count = len(values)
    if count < 2 * _SHORTEST:
        return _as_levels(values, [0, count])
    logs = np.log(values)
    costs = np.full((count + 1, count + 1), np.inf)
    for start in range(count):
        for end in range(start + _SHORTEST, count + 1):
            part = logs[start:end]
            costs[start, end] = np.abs(part - np.median(part)).sum()
    # by which the fit is so good that a better one means nothing
    floor = np.log(least_factor) / 2
    best, bounds = costs[0].copy(), [[0, end] for end in range(count + 1)]
    chosen = bounds[count]
    least = _criterion(best[count], 1, count, floor)
    for number in range(2, min(_MOST_LEVELS, count // _SHORTEST) + 1):
        totals = best[:, None] + costs
        before = totals.argmin(axis=0)
        best = totals.min(axis=0)
        bounds = [[*bounds[before[end]], end] for end in range(count + 1)]
        criterion = _criterion(best[count], number, count, floor)
        if criterion < least:
            least, chosen = criterion, bounds[count]
    return _merged(values, chosen, least_factor)


def _criterion(deviation: float, number: int, count: int, floor: float) -> float:
    fit = count * np.log(floor + deviation / count)
    return float(fit + _PENALTY * number * np.log(count))


def _merged(
    values: Sequence[float], bounds: list[int], least_factor: float
) -> list[Level]:
    """Join neighbours that hardly differ, those first that differ least."""
    while True:
        found = _as_levels(values, bounds)
        factors = [
            max(one.median / other.median, other.median / one.median)
            for one, other in itertools.pairwise(found)
        ]
        if not factors or min(factors) >= least_factor:
            return found
        del bounds[factors.index(min(factors)) + 1]


def _as_levels(values: Sequence[float], bounds: Sequence[int]) -> list[Level]:
    return [
        Level(start, end, float(np.median(values[start:end])))
        for start, end in itertools.pairwise(bounds)
        if start < end
    ]
