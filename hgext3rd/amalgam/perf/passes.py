"""Passes over a table: each measures every cell once, in random order.

Owns the preconditions of a sample: the page cache is in the state of the column, and
the subject gives the same answer as all others. Does not know the operation.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import random
import time
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from . import pagecache
from .pagecache import Unsuitable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .options import PerfConfig
    from .sample import Sample
    from .subjects import Subject

    Take = Callable[[Subject, bool], tuple[Sample, Any]]
    """Takes one sample of a subject, profiled or not, and returns its answer, too."""


class Cache(enum.Enum):
    """State of the page cache before a sample."""

    WARM = "warm"
    COLD = "cold"


@dataclasses.dataclass(slots=True)
class Cell:
    """Samples of a subject with one state of the cache, or the reason for none."""

    samples: list[Sample] = dataclasses.field(default_factory=list)
    reason: str = ""


Table = dict["tuple[Subject, Cache]", Cell]


def measure(
    subjects: Sequence[Subject],
    caches: Sequence[Cache],
    files: Callable[[], Sequence[bytes]],
    take: Take,
    config: PerfConfig,
    tell: Callable[[int, bytes, int | None], None],
) -> Table:
    """Fill a table. ``files`` are those in the state of the cache.

    ``tell`` is called before each process with the number of ended ones, the current
    cell, and the likely number of all, once known.

    Aborts if two subjects answer differently: they cannot be compared.
    """
    table: Table = {
        (subject, cache): Cell() for subject in subjects for cache in caches
    }
    order, start = random.Random(), time.monotonic()
    ended = _compare_answers(subjects, take, table, tell)
    passes_start, first = time.monotonic(), ended
    for number in itertools.count(-config.pre_run):
        total = None
        live = [key for key, cell in table.items() if not cell.reason]
        if ended > first and live:
            a_sample = (time.monotonic() - passes_start) / (ended - first)
            total = first + config.passes(a_sample * len(live)) * len(live)
        for subject, cache in order.sample(live, len(live)):
            cell = table[subject, cache]
            words = f"{subject.name}, {cache.value}".encode()
            tell(ended, words, total and max(total, ended + 1))
            ended += 1
            try:
                _prepare(cache, files())
                sample, _answer = take(subject, number in config.profiled_passes)
                cell.samples += [sample] if number >= 0 else []
            except Unsuitable as exc:
                cell.reason = f"not {cache.value}: {exc}"
            counts = [len(c.samples) for c in table.values() if not c.reason]
            seconds = time.monotonic() - start
            if not counts or (min(counts) and config.is_enough(seconds, min(counts))):
                return table
        if not live:
            return table
    raise AssertionError("unreachable")


def _compare_answers(
    subjects: Sequence[Subject],
    take: Take,
    table: Table,
    tell: Callable[[int, bytes, int | None], None],
) -> int:
    """Run each subject once, so that it makes its files on disk.

    Return the number of processes.
    """
    answers = []
    for number, subject in enumerate(subjects):
        tell(number, subject.name.encode(), None)
        try:
            answers.append((subject, take(subject, False)[1]))
        except Unsuitable as exc:
            for (other, _cache), cell in table.items():
                if other == subject:
                    cell.reason = str(exc)
    for subject, answer in answers[1:]:
        first, expected = answers[0]
        if answer != expected:
            names = (subject.name.encode(), first.name.encode())
            raise error.StorageError(
                _(b"'%s' and '%s' give different answers") % names,
                hint=_(b"run 'hg admin::amalgam'"),
            )
    return len(subjects)


def _prepare(cache: Cache, paths: Sequence[bytes]) -> None:
    if cache is Cache.COLD:
        pagecache.make_cold(paths)
    else:
        pagecache.make_warm(paths)
