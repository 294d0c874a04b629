"""Which samples are compared with which: subjects of one run, or of two."""

from __future__ import annotations

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
