"""What samples say: whether two subjects differ, and how cost grows.

A ratio of medians is judged by two things. The noise band is what the same subject
differed by from itself, or might have by chance. The interval is what the ratio would
be, 99 times in 100, had other samples been drawn. No difference is called one unless
the ratio is outside the band and the interval does not hold 1.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

_Numbers = npt.NDArray[np.float64]

_SHUFFLES = 2000
_CONFIDENCE = 0.99
#: No difference is smaller: what a processor counts depends a little on addresses.
_LEAST_BAND = {"instructions": 1.01}
_LEAST_BAND_OF_OTHERS = 1.03


@dataclass(frozen=True)
class Verdict:
    """How much one subject takes of something for one of another."""

    ratio: float
    low: float
    high: float
    band: float

    @property
    def differs(self) -> bool:
        """Whether it is a difference."""
        inside = 1 / self.band <= self.ratio <= self.band
        return not inside and not self.low <= 1 <= self.high

    @property
    def words(self) -> str:
        """The verdict as a phrase."""
        if np.isinf(self.high):
            return "too few samples"
        if not self.differs:
            return "no difference"
        if self.ratio >= 2:
            return f"{self.ratio:.1f} times as much"
        if self.ratio > 1:
            return f"{100 * (self.ratio - 1):.1f} % more"
        if self.ratio <= 0.5:
            return f"{1 / self.ratio:.1f} times less"
        return f"{100 * (1 - self.ratio):.1f} % less"


@dataclass(frozen=True)
class Growth:
    """Cost is ``factor * size ** exponent``, the exponent give or take its error."""

    exponent: float
    error: float
    factor: float


def least_band(value: str) -> float:
    """Return the factor below which no difference of a value is called one."""
    return _LEAST_BAND.get(value, _LEAST_BAND_OF_OTHERS)


def noise_band(first: Sequence[float], again: Sequence[float]) -> float:
    """Return the factor, at least 1, by which equal subjects may differ.

    It is the larger of two: the ratio of the medians of ``first`` and ``again``, and
    the one that 99 in 100 random halvings of the same samples stay below. The same
    samples give the same answer.
    """
    ratios = [_factor(first, again)]
    pool, shuffle = [*first, *again], random.Random(0).shuffle
    for _shuffle in range(_SHUFFLES):
        shuffle(pool)
        ratios.append(_factor(pool[: len(first)], pool[len(first) :]))
    return max(ratios[0], float(np.quantile(ratios, _CONFIDENCE)))


def compare(
    base: Sequence[float], other: Sequence[float], value: str, band: float = 1.0
) -> Verdict:
    """Judge ``other`` against ``base``. ``band`` is the noise band, if it is known."""
    band = max(band, least_band(value))
    ratio = _ratio(other, base)
    if len(base) < 2 or len(other) < 2 or not min(base):
        return Verdict(ratio, 0.0, float("inf"), band)

    def ratios(some: _Numbers, others: _Numbers, axis: int = -1) -> _Numbers:
        return np.asarray(np.median(some, axis) / np.median(others, axis))

    interval = stats.bootstrap(
        (np.asarray(other), np.asarray(base)),
        ratios,
        n_resamples=_SHUFFLES,
        confidence_level=_CONFIDENCE,
        method="percentile",
        rng=0,
    ).confidence_interval
    return Verdict(ratio, float(interval.low), float(interval.high), band)


def growth(sizes: Sequence[float], costs: Sequence[float]) -> Growth:
    """Fit a power law; at least three sizes, or the error means nothing."""
    fit = stats.linregress(np.log(sizes), np.log(costs))
    return Growth(float(fit.slope), float(fit.stderr), float(np.exp(fit.intercept)))


def _ratio(some: Sequence[float], others: Sequence[float]) -> float:
    """Return the ratio of the medians; 1 for two that are nothing."""
    above, below = statistics.median(some), statistics.median(others)
    if not below:
        return float("inf") if above else 1.0
    return above / below


def _factor(some: Sequence[float], others: Sequence[float]) -> float:
    ratio = _ratio(some, others)
    return max(ratio, 1 / ratio) if ratio else float("inf")
