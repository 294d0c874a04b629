"""Passes over a table: each measures every cell once, in random order.

Owns the preconditions of a sample: the page cache is in the state of the column, and
the row gives the same answer as all others. Knows neither the operation nor Mercurial:
``contrib/perf`` orders its runs here, too.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import samples
from .samples import Unsuitable

if TYPE_CHECKING:
    from .samples import Sample
    from .subjects import Subject

    Take = Callable[[Subject], tuple[Sample, Any]]
    """Takes one sample of a row, and returns its answer, too."""

T = TypeVar("T")


class Disagreement(Exception):  # noqa: N818
    """Two subjects made different things of the same repository."""

    def __init__(self, name: str, other: str, words: str) -> None:
        super().__init__(f"{name}: {words} of {other}")
        self.names = (name, other)


def agree(
    name: str, answer: Mapping[str, object], others: Mapping[str, Mapping[str, object]]
) -> None:
    """Raise ``Disagreement`` if an answer differs from another one.

    A key counts between subjects that have it.
    """
    for other, known in others.items():
        for key in answer.keys() & known.keys():
            if answer[key] != known[key]:
                words = f"{key} is {answer[key]}, but {known[key]}"
                raise Disagreement(name, other, words)


def shuffled(cells: Sequence[T], numbers: Iterable[int]) -> Iterator[tuple[int, T]]:
    """Yield each cell once in each pass, in random order, with the pass's number."""
    for number in numbers:
        for cell in random.sample(cells, len(cells)):
            yield number, cell


class Cache(enum.Enum):
    """State of the page cache before a sample."""

    WARM = "warm"
    COLD = "cold"

    def prepare(self, paths: Sequence[bytes]) -> None:
        """Bring files into this state; ``Unsuitable`` if that fails."""
        make = samples.make_cold if self is Cache.COLD else samples.make_warm
        make(paths)


@dataclasses.dataclass(slots=True)
class Cell:
    """Samples of a row with one state of the cache, or the reason for none."""

    samples: list[Sample] = dataclasses.field(default_factory=list)
    reason: str = ""

    @property
    def walls(self) -> list[float]:
        """Seconds of the samples, in their order."""
        return [sample.wall for sample in self.samples]


Table = dict["tuple[Subject, Cache]", Cell]


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The end of a table: seconds, and samples of each cell; one pair is enough."""

    pairs: Sequence[tuple[float, int]]

    def are_reached(self, seconds: float, count: int) -> bool:
        """Return whether the cell with the fewest samples has enough."""
        return any(seconds >= most and count >= few for most, few in self.pairs)

    def passes(self, seconds_per_pass: float) -> int:
        """Return how many passes it will take to have enough."""
        return min(
            max(few, math.ceil(most / seconds_per_pass)) for most, few in self.pairs
        )


def measure(
    rows: Sequence[Subject],
    caches: Sequence[Cache],
    files: Callable[[], Sequence[bytes]],
    take: Take,
    limits: Limits,
    tell: Callable[[int, bytes, int | None], None],
) -> Table:
    """Fill a table. ``files`` are those in the state of the cache.

    Each row is run once before, so that it makes its files on disk. ``Disagreement`` if
    two rows answer differently. ``tell`` is called before each process with the number
    of ended ones, the current cell, and the likely number of all, once known.
    """
    table: Table = {(row, cache): Cell() for row in rows for cache in caches}
    start, answers = time.monotonic(), dict[str, dict[str, Any]]()
    for ended, row in enumerate(rows):
        tell(ended, row.name.encode(), None)
        try:
            answer = {"answer": take(row)[1]}
        except Unsuitable as exc:
            for cache in caches:
                table[row, cache] = Cell(reason=str(exc))
        else:
            agree(row.name, answer, answers)
            answers[row.name] = answer
    ended, passes_start, total = len(rows), time.monotonic(), None
    for number, (row, cache) in shuffled([*table], itertools.count()):
        cell, seconds = table[row, cache], time.monotonic() - start
        counts = [len(one.samples) for one in table.values() if not one.reason]
        fewest = min(counts, default=0)
        if not counts or (fewest and limits.are_reached(seconds, fewest)):
            break
        if cell.reason:
            continue
        if number:
            a_sample = (time.monotonic() - passes_start) / (ended - len(rows))
            likely = limits.passes(a_sample * len(counts)) * len(counts)
            total = max(len(rows) + likely, ended + 1)
        tell(ended, f"{row.name}, {cache.value}".encode(), total)
        ended += 1
        try:
            cache.prepare(files())
            cell.samples.append(take(row)[0])
        except Unsuitable as exc:
            cell.reason = f"not {cache.value}: {exc}"
    return table
