"""Which samples are compared with which: subjects of one run, or of two."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from hgext3rd.amalgam.perf import judgement

from ..instruments import INSTRUMENTS
from ..subject import AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hgext3rd.amalgam.perf.judgement import Judgement

    from ..results import Results, Sample

_LEAST_SECONDS = 0.005

Key = tuple[str, str, str]
"""Benchmark, repository, instrument."""
Columns = dict[str, list[float]]
"""The numbers of each subject."""


@dataclass(frozen=True)
class Line:
    """Two subjects, and what their difference is."""

    key: Key
    value: str
    base: str
    base_median: float
    other: str
    other_median: float
    verdict: Judgement


def samples_by_subject(results: Results) -> dict[Key, dict[str, list[Sample]]]:
    """Return the samples of each key by subject, those of the first one first."""
    order = [*results.subjects]
    found: dict[Key, dict[str, list[Sample]]] = {}
    for sample in results.samples:
        key = (sample.benchmark, sample.repository, sample.instrument)
        found.setdefault(key, {}).setdefault(sample.subject, []).append(sample)

    def place(name: str) -> tuple[int, bool]:
        plain = name.removesuffix(AGAIN)
        return (order.index(plain) if plain in order else len(order), plain != name)

    return {
        key: {name: by_subject[name] for name in sorted(by_subject, key=place)}
        for key, by_subject in sorted(found.items())
    }


def within(
    results: Results, values: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Line]:
    """Compare the subjects of each benchmark with the first one, itself included.

    ``values``: what to compare by, for instruments where that is not the usual.
    """
    for key, by_subject in samples_by_subject(results).items():
        value = values.get(key[2], INSTRUMENTS[key[2]].measures)
        columns = _columns(by_subject, value)
        base, *others = columns
        for other in others:
            yield _line(key, value, columns, base, columns, other)


def between(before: Results, after: Results, base: str, other: str) -> Iterator[Line]:
    """Compare subject ``base`` of one run with subject ``other`` of another."""
    theirs = samples_by_subject(after)
    for key, by_subject in samples_by_subject(before).items():
        if base in by_subject and other in theirs.get(key, {}):
            value = INSTRUMENTS[key[2]].measures
            first, second = _columns(by_subject, value), _columns(theirs[key], value)
            yield _line(key, value, first, base, second, other)


def exponents(results: Results) -> Iterator[str]:
    """Yield how cost grows with size: a line for benchmark and subject.

    It is processor time, and the bytes written where these were counted.

    Size is what a repository has most of: names, heads or changesets. The exponent is
    the slope of a line through the logarithms of all samples. Where ``start`` was
    measured, it is subtracted first, but not from the time of a server.
    """
    costs: dict[tuple[str, str, str, str], list[tuple[int, list[float]]]] = {}
    of_servers = set()
    for (benchmark, repository, instrument), by_subject in sorted(
        samples_by_subject(results).items()
    ):
        profile, size = _size(repository)
        if instrument not in ("time", "cpu", "written") or not size:
            continue
        value = "written_bytes" if instrument == "written" else "cpu_seconds"
        for subject, taken in by_subject.items():
            key = (benchmark, profile, subject, value)
            row = (size, [one.values[value] for one in taken])
            costs.setdefault(key, []).append(row)
            if "user_seconds" not in taken[0].values:
                of_servers.add(key)
    for (benchmark, profile, subject, value), rows in costs.items():
        rows.sort(key=lambda row: row[0])
        if len(rows) < 2 or benchmark == "start":
            continue
        of_start = ("start", profile, subject.removesuffix(AGAIN), value)
        starts = dict(costs.get(of_start, []))
        if (benchmark, profile, subject, value) in of_servers:
            starts = {}
        form = "{:,}: {:,.0f} bytes" if value == "written_bytes" else "{:,}: {:.3f} s"
        above = [
            (size, statistics.median(taken) - statistics.median(starts.get(size, [0])))
            for size, taken in rows
        ]
        yield (
            f"{benchmark} {profile}: {subject} "
            f"{', '.join(form.format(*point) for point in above)}"
            f"{' above start' if starts else ''}; {_slope(above)}"
        )


def _size(repository: str) -> tuple[str, int]:
    """Return profile and size of a repository that is generated; else no size."""
    profile, _colon, options = repository.partition(":")
    sizes = dict(re.findall(r"(\w+)=(\d+)", options))
    found = [
        int(sizes[name]) for name in ("names", "heads", "changesets") if name in sizes
    ]
    return profile, found[0] if found else 0


def _slope(points: list[tuple[int, float]]) -> str:
    """Return the exponent of growth, in words."""
    if min(seconds for _size, seconds in points) <= _LEAST_SECONDS:
        return "no exponent: nothing is measured"
    slope, _constant = statistics.linear_regression(
        [math.log(size) for size, _seconds in points],
        [math.log(seconds) for _size, seconds in points],
    )
    return f"exponent {slope:.2f}"


def _columns(by_subject: dict[str, list[Sample]], value: str) -> Columns:
    return {
        name: [one.values[value] for one in by_subject[name]] for name in by_subject
    }


def _line(
    key: Key, value: str, first: Columns, base: str, second: Columns, other: str
) -> Line:
    # the noise is that of all subjects that were measured twice, in either run
    bands = [
        judgement.noise_band(columns[name], columns[name + AGAIN])
        for columns in (first, second)
        for name in columns
        if name + AGAIN in columns
    ]
    ours, theirs, again = first[base], second[other], first.get(base + AGAIN, [])
    verdict = judgement.compare(ours, theirs, value, max(bands, default=1.0), again)
    medians = statistics.median(ours), statistics.median(theirs)
    return Line(key, value, base, medians[0], other, medians[1], verdict)


def formatted(value: str, number: float) -> str:
    """Return a number with the unit that its name has."""
    if value.endswith("seconds"):
        return f"{number:.3f} s"
    if value.endswith("bytes"):
        return f"{number / 1e6:.1f} MB"
    return f"{number / 1e6:.1f} M" if number >= 1e6 else f"{number:.0f}"
