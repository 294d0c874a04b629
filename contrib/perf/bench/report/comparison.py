"""Which samples are compared with which: subjects of one run, or of two."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from .. import judgement
from ..instruments import INSTRUMENTS
from ..subject import AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..judgement import Verdict
    from ..results import Results, Sample

Key = tuple[str, str, str]
"""Benchmark, repository, instrument."""


@dataclass(frozen=True)
class Line:
    """Two subjects, and what their difference is."""

    key: Key
    value: str
    base: str
    base_median: float
    other: str
    other_median: float
    verdict: Verdict


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
        columns = {
            name: [sample.values[value] for sample in taken]
            for name, taken in by_subject.items()
        }
        base, *others = columns
        band = _band(columns)
        for other in others:
            yield _line(key, value, base, columns[base], other, columns[other], band)


def between(before: Results, after: Results, base: str, other: str) -> Iterator[Line]:
    """Compare subject ``base`` of one run with subject ``other`` of another."""
    ours, theirs = samples_by_subject(before), samples_by_subject(after)
    for key, by_subject in ours.items():
        if base not in by_subject or other not in theirs.get(key, {}):
            continue
        value = INSTRUMENTS[key[2]].measures
        columns, other_columns = (
            {name: [one.values[value] for one in taken] for name, taken in some.items()}
            for some in (by_subject, theirs[key])
        )
        band = max(_band(columns), _band(other_columns))
        first, second = columns[base], other_columns[other]
        yield _line(key, value, base, first, other, second, band)


def _band(columns: dict[str, list[float]]) -> float:
    """Return the noise band of what was measured twice, 1 if nothing was."""
    bands = [
        judgement.noise_band(columns[name], columns[name + AGAIN])
        for name in columns
        if name + AGAIN in columns
    ]
    return max(bands, default=1.0)


def _line(
    key: Key,
    value: str,
    base: str,
    first: list[float],
    other: str,
    second: list[float],
    band: float,
) -> Line:
    verdict = judgement.compare(first, second, value, band)
    medians = statistics.median(first), statistics.median(second)
    return Line(key, value, base, medians[0], other, medians[1], verdict)


def formatted(value: str, number: float) -> str:
    """Return a number with the unit that its name has."""
    if value.endswith("seconds"):
        return f"{number:.3f} s"
    if value.endswith("bytes"):
        return f"{number / 1e6:.1f} MB"
    if value.startswith("fragmentation"):
        return f"{100 * number:.1f} %"
    return f"{number / 1e6:.1f} M" if number >= 1e6 else f"{number:.0f}"
