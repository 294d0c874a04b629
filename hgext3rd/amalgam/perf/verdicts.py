"""Verdicts on the samples of a table: the noise, and the rows that differ.

``read`` and ``read, again`` are the same, so their difference is noise. A row differs
if its ratio to both is larger than the noise, and the ranks of its samples are unlikely
by chance. Knows nothing of Mercurial.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FEWEST = 3
"""Samples of a row, below which nothing is said."""
_SHUFFLES = 1000
_CONFIDENCE = 0.99
_CHANCE = 0.03  # three samples against six cannot be less probable than 0.024
_LEAST_BAND = 1.03
_LOW, _HIGH = 1.05, 1.15


@dataclass(frozen=True, slots=True)
class Noise:
    """Difference of two rows that measure the same."""

    seconds: tuple[float, ...]
    """All samples of the two."""
    band: float
    """The factor, at least 1.03, by which equal rows may differ."""

    @property
    def percent(self) -> float:
        """The band, as a change in percent."""
        return 100 * (self.band - 1)

    @property
    def words(self) -> str:
        """Size of the noise, and a way to less of it."""
        if self.band <= _LOW:
            return "low"
        if self.band <= _HIGH:
            return "moderate"
        return "high (a quieter machine or more samples would lower it)"

    def differs(self, seconds: Sequence[float]) -> bool:
        """Return whether the samples of another row are no noise."""
        return self._factor(seconds, self.seconds) > self.band and (
            _probability(seconds, self.seconds) < _CHANCE
        )

    @classmethod
    def of(cls, first: Sequence[float], again: Sequence[float]) -> Noise | None:
        """Compare two rows that are the same; ``None`` if they have too few samples.

        The band is the larger of two: the difference of their medians, and that of
        random halves of all samples, 99 times in 100. Equal samples give an equal band.
        """
        if min(len(first), len(again)) < FEWEST:
            return None
        pool, shuffle = [*first, *again], random.Random(0).shuffle
        factors = []
        for _number in range(_SHUFFLES):
            shuffle(pool)
            half = len(pool) // 2
            factors.append(cls._factor(pool[:half], pool[half:]))
        chance = sorted(factors)[int(_CONFIDENCE * _SHUFFLES)]
        band = max(cls._factor(first, again), chance, _LEAST_BAND)
        return cls((*first, *again), band)

    @staticmethod
    def _factor(some: Sequence[float], others: Sequence[float]) -> float:
        ratio = statistics.median(some) / statistics.median(others)
        return max(ratio, 1 / ratio)


def _probability(some: Sequence[float], others: Sequence[float]) -> float:
    """Return how often random samples are ranked at least as far apart, either way."""
    ordered = sorted((*some, *others))
    ranks = [ordered.index(value) for value in (*some, *others)]
    middle = sum(ranks) / len(ranks) * len(some)
    distance = abs(sum(ranks[: len(some)]) - middle)
    shuffle = random.Random(0).shuffle
    as_far = 0
    for _number in range(_SHUFFLES):
        shuffle(ranks)
        as_far += abs(sum(ranks[: len(some)]) - middle) >= distance
    return as_far / _SHUFFLES
