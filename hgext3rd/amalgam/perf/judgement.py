"""Verdicts on samples: whether two of them differ, and how cost grows.

The first row of a table, or the first program of a run, is measured twice: its samples
of both times are the base. A difference has two conditions. The ratio of medians is
outside the noise band, the factor by which equal rows may differ. And the ranks of the
samples are as far apart in fewer than 3 of 100 random orders (Wilcoxon's rank sum, by
permutation). The same samples get the same verdict.

Ranks, and not a 99 % interval of the ratio by resampling, as in ``contrib/perf`` until
2026-11-26. Simulated 200 times each: of equal triples with 3 % noise and outliers, the
interval called 8 in 100 different, ranks 2. Of quintuples that differ by 5 %, it saw 30
in 100, ranks 52; of triples, 41 and 29.

Knows nothing of Mercurial, and needs no package: ``hg perf::amalgam-*`` and
``contrib/perf`` judge with it.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 3
"""Samples of each row that a verdict needs."""
_SHUFFLES = 2000
_CONFIDENCE = 0.99
_CHANCE = 0.03  # three samples against six cannot be less probable than 0.024
#: The smallest difference: a processor's counts depend a little on addresses.
_LEAST_BAND = {"instructions": 1.01}
_LEAST_BAND_OF_OTHERS = 1.03

Numbers = Sequence[float]


@dataclass(frozen=True, slots=True)
class Judgement:
    """How much one subject takes of something for one of another."""

    ratio: float
    band: float
    chance: float | None
    """Part of random orders in which they are as far apart; ``None``: too few."""

    @property
    def differs(self) -> bool:
        """Whether it is a difference."""
        inside = 1 / self.band <= self.ratio <= self.band
        return not inside and self.chance is not None and self.chance < _CHANCE

    @property
    def words(self) -> str:
        """The verdict as a phrase."""
        if self.chance is None:
            return "too few samples"
        return change(self.ratio) if self.differs else "no difference"


def change(ratio: float) -> str:
    """Return a ratio as a phrase."""
    if ratio >= 2:
        return f"{ratio:.1f} times as much"
    if ratio > 1:
        return f"{100 * (ratio - 1):.1f} % more"
    if ratio <= 0.5:
        return f"{1 / ratio:.1f} times less"
    return f"{100 * (1 - ratio):.1f} % less"


def least_band(value: str) -> float:
    """Return the factor below which no difference of a value is called one."""
    return _LEAST_BAND.get(value, _LEAST_BAND_OF_OTHERS)


def noise_band(first: Numbers, again: Numbers) -> float:
    """Return the factor, at least 1, by which equal subjects may differ.

    It is the larger of two: the ratio of the medians of ``first`` and ``again``, and
    the one that 99 in 100 random halvings of the same samples stay below.
    """
    pool, shuffle, factors = [*first, *again], random.Random(0).shuffle, []
    for _shuffle in range(_SHUFFLES):
        shuffle(pool)
        factors.append(_factor(pool[: len(first)], pool[len(first) :]))
    factors.sort()
    place = _CONFIDENCE * (_SHUFFLES - 1)
    below, above = factors[int(place)], factors[math.ceil(place)]
    return max(_factor(first, again), below + place % 1 * (above - below))


def compare(
    base: Numbers, other: Numbers, value: str, band: float = 1.0, again: Numbers = ()
) -> Judgement:
    """Judge ``other`` against ``base``, which was measured as ``again``, too.

    ``value`` is the name of the measured value, ``band`` the noise band.
    """
    pool = [*base, *again]
    orders = math.comb(len(pool) + len(other), len(other))
    chance = _chance(other, pool) if orders * _CHANCE > 2 else None
    return Judgement(_ratio(other, base), max(band, least_band(value)), chance)


@dataclass(frozen=True, slots=True)
class Growth:
    """Cost is ``factor * size ** exponent``, the exponent give or take its error."""

    exponent: float
    error: float
    factor: float


def growth(sizes: Numbers, costs: Numbers) -> Growth:
    """Fit a power law; at least three sizes, or the error means nothing."""
    xs, ys = ([math.log(number) for number in some] for some in (sizes, costs))
    slope, start = statistics.linear_regression(xs, ys)
    missed = sum((y - slope * x - start) ** 2 for x, y in zip(xs, ys, strict=True))
    spread = len(xs) * statistics.pvariance(xs)
    error = math.sqrt(missed / max(len(xs) - 2, 1) / spread)
    return Growth(slope, error, math.exp(start))


def _chance(some: Numbers, others: Numbers) -> float:
    """Return how often random samples are ranked at least as far apart, either way."""
    ordered = sorted((*some, *others))
    ranks = [ordered.index(value) for value in (*some, *others)]
    middle = sum(ranks) / len(ranks) * len(some)
    distance = abs(sum(ranks[: len(some)]) - middle)
    shuffle, as_far = random.Random(0).shuffle, 0
    for _shuffle in range(_SHUFFLES):
        shuffle(ranks)
        as_far += abs(sum(ranks[: len(some)]) - middle) >= distance
    return as_far / _SHUFFLES


def _ratio(some: Numbers, others: Numbers) -> float:
    """Return the ratio of the medians; 1 for two that are nothing."""
    above, below = statistics.median(some), statistics.median(others)
    if not below:
        return math.inf if above else 1.0
    return above / below


def _factor(some: Numbers, others: Numbers) -> float:
    ratio = _ratio(some, others)
    return max(ratio, 1 / ratio) if ratio else math.inf
