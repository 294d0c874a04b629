"""Results over the commits of a tree: kept, put in order, and searched for steps.

Results are kept outside of the tree, a file for each run: the JSON of ``results``,
without what was seen over time, and the revision.

A series is taken for constant levels with noise on them. The fit has the least sum of
absolute deviations, in logarithms, for each number of levels (dynamic programming); the
number is the one with the best information criterion. That is the idea of asv
(airspeed velocity, ``asv.step_detect``, after Friedrich 2008 and Yao 1988). There, the
fit is approximate, and noise is correlated; here, series are short, so it is exact.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hgext3rd.amalgam.perf import judgement

from .benchmark import Command, InputError
from .instruments import INSTRUMENTS
from .results import Results

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .report.comparison import Key

SHORT = 10
#: A level of one value could be an outlier.
_SHORTEST = 2
_MOST_LEVELS = 12
_PENALTY = 4.0  # as in asv, where it was found by trial


@dataclass(frozen=True)
class Revision:
    """A commit of the tree, perhaps with changes."""

    date: str
    """Of the commit, ISO 8601 in UTC, so that strings are in order."""
    modified: bool
    """Whether files differed from the commit."""
    oid: str
    summary: str
    ancestors: int = field(default=0, compare=False)
    """How many commits it has, with itself; 0 where an earlier version kept it."""

    @property
    def order(self) -> tuple[str, int, bool, str]:
        """Sort key of revisions: several commits may be of one second."""
        return self.date, self.ancestors, self.modified, self.oid

    @property
    def name(self) -> str:
        """Its name on pages."""
        return self.oid[:SHORT] + "+" * self.modified

    @classmethod
    def of(cls, tree: Path) -> Revision:
        """Ask git. ``CommandError`` if ``tree`` is none of git's."""
        git = ["git", "-C", str(tree)]
        local = {"TZ": "UTC0"}
        form = ["--date=iso-strict-local", "--format=%cd%n%H%n%s"]
        log = Command([*git, "log", "-1", *form], local).output()
        date, oid, summary = log.splitlines()[:3]
        changed = bool(
            Command([*git, "status", "--porcelain", "--untracked-files=no"])
            .output()
            .strip()
        )
        ancestors = int(Command([*git, "rev-list", "--count", oid]).output())
        return cls(date, changed, oid, summary, ancestors)


Kept = list[tuple[Revision, list[Results]]]


def keep(results: Results, revision: Revision, directory: Path) -> Path:
    """Write a file for a run and return its path."""
    samples = [
        dataclasses.replace(sample, series={}, phases=[], files=[])
        for sample in results.samples
    ]
    facts = dataclasses.asdict(revision)
    kept = dataclasses.replace(results, samples=samples, revision=facts)
    when = "".join(c for c in results.date if c.isalnum())
    path = directory / f"{revision.oid[:SHORT]}-{when}.json"
    kept.write(path)
    return path


def read(directory: Path) -> Kept:
    """Return the results in a directory, by the date of the commit.

    ``InputError`` if a file is none of these, or if there is none.
    """
    found: dict[Revision, list[Results]] = {}
    for path in sorted(directory.glob("*.json")):
        results = Results.read(path)
        try:
            revision = Revision(**results.revision)
        except TypeError as err:
            raise InputError(f"{path}: no revision: {err}") from err
        found.setdefault(revision, []).append(results)
    if not found:
        raise InputError(f"{directory}: nothing was kept there")
    return sorted(found.items(), key=lambda item: item[0].order)


def of_one_machine(kept: Kept) -> tuple[Kept, int]:
    """Return the results of the machine of the last run, and the others' number.

    Numbers of two machines are no trend.
    """
    runs = [(revision, run) for revision, several in kept for run in several]
    last = _machine(max(runs, key=lambda item: item[1].date)[1])
    found = []
    for revision, several in kept:
        ours = [run for run in several if _machine(run) == last]
        if ours:
            found.append((revision, ours))
    return found, len(runs) - sum(len(ours) for _revision, ours in found)


def _machine(results: Results) -> tuple[object, ...]:
    # the memory of a virtual machine differs by some pages from start to start
    memory = results.machine.get("memory_bytes")
    gigabytes = round(memory / 2**30) if isinstance(memory, int) else 0
    return results.machine.get("cpu"), results.machine.get("cores"), gigabytes


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
        return judgement.change(self.to_median / self.from_median)


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


def trends(kept: Kept, subject: str) -> Iterator[Trend]:
    """Yield the results of a subject that has several revisions."""
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
            found_levels = levels(medians, judgement.least_band(value))
            yield Trend(key, subject, value, list(by_revision), samples, found_levels)
