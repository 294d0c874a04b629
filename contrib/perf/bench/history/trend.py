"""What a subject took for something, from commit to commit, and where that changed."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import judgement
from ..instruments import INSTRUMENTS
from . import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..report.comparison import Key
    from ..results import Results
    from .revision import Revision
    from .steps import Level


@dataclass(frozen=True)
class Step:
    """A change that lasted."""

    before: Revision
    """The last one that was measured before it."""
    at: Revision
    from_median: float
    to_median: float

    @property
    def words(self) -> str:
        """How large it is."""
        ratio = self.to_median / self.from_median
        return judgement.Verdict(ratio, ratio, ratio, 1.0).words


@dataclass(frozen=True)
class Trend:
    """One series."""

    key: Key
    subject: str
    value: str
    revisions: list[Revision]
    samples: list[list[float]]
    """Of each revision."""
    levels: list[Level]

    @property
    def medians(self) -> list[float]:
        """One number a revision."""
        return [statistics.median(taken) for taken in self.samples]

    @property
    def steps(self) -> list[Step]:
        """Where it changed, in order."""
        return [
            Step(
                self.revisions[after.start - 1],
                self.revisions[after.start],
                before.median,
                after.median,
            )
            for before, after in itertools.pairwise(self.levels)
        ]


def trends(
    kept: Sequence[tuple[Revision, list[Results]]], subject: str
) -> Iterator[Trend]:
    """Yield what was measured of a subject at more than one revision."""
    found: dict[Key, dict[Revision, list[float]]] = {}
    for revision, several in kept:
        for results in several:
            for sample in results.samples:
                if sample.subject == subject:
                    key = (sample.benchmark, sample.repository, sample.instrument)
                    number = sample.values[INSTRUMENTS[sample.instrument].measures]
                    taken = found.setdefault(key, {}).setdefault(revision, [])
                    taken.append(number)
    for key, by_revision in sorted(found.items()):
        if len(by_revision) > 1:
            value = INSTRUMENTS[key[2]].measures
            samples = list(by_revision.values())
            medians = [statistics.median(taken) for taken in samples]
            if min(medians) <= 0:
                continue  # it has no logarithm
            levels = steps.levels(medians, judgement.least_band(value))
            yield Trend(key, subject, value, list(by_revision), samples, levels)
