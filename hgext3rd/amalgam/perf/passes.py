"""Passes over a table: each measures every cell once, in random order.

Owns the preconditions of a sample: the page cache is in the state that the column
names, and the subject gives the same answer as all others. Does not know what is
measured.
"""

from __future__ import annotations

import dataclasses
import enum
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
    """What of the repository is in memory before a sample is taken."""

    WARM = "warm"
    COLD = "cold"


@dataclasses.dataclass(slots=True)
class Cell:
    """The samples of a subject with one state of the cache, or why there are none."""

    samples: list[Sample] = dataclasses.field(default_factory=list)
    reason: str = ""


Table = dict["tuple[Subject, Cache]", Cell]


def measure(
    subjects: Sequence[Subject],
    caches: Sequence[Cache],
    files: Callable[[], Sequence[bytes]],
    take: Take,
    config: PerfConfig,
) -> Table:
    """Fill a table. ``files`` are those that the cache is about.

    Aborts if two subjects answer differently: there is nothing to compare.
    """
    table: Table = {
        (subject, cache): Cell() for subject in subjects for cache in caches
    }
    _compare_answers(subjects, caches, take, table)
    order = random.Random()
    number, start = -config.pre_run, time.monotonic()
    while number <= 0 or not config.is_enough(time.monotonic() - start, number):
        if number == 0:
            start = time.monotonic()
        for cache in order.sample(caches, len(caches)):
            for subject in order.sample(subjects, len(subjects)):
                cell = table[subject, cache]
                if cell.reason:
                    continue
                try:
                    _prepare(cache, files())
                    sample, _answer = take(subject, number in config.profiled_passes)
                except Unsuitable as exc:
                    cell.reason = f"not {cache.value}: {exc}"
                    continue
                if number >= 0:
                    cell.samples.append(sample)
        number += 1
    return table


def _compare_answers(
    subjects: Sequence[Subject], caches: Sequence[Cache], take: Take, table: Table
) -> None:
    """Run each subject once, which lets it make what it keeps on disk, too."""
    answers = []
    for subject in subjects:
        try:
            answers.append((subject, take(subject, False)[1]))
        except Unsuitable as exc:
            for cache in caches:
                table[subject, cache].reason = str(exc)
    for subject, answer in answers[1:]:
        first, expected = answers[0]
        if answer != expected:
            names = (subject.name.encode(), first.name.encode())
            raise error.StorageError(_(b"'%s' and '%s' give different answers") % names)


def _prepare(cache: Cache, paths: Sequence[bytes]) -> None:
    if cache is Cache.COLD:
        pagecache.make_cold(paths)
    else:
        pagecache.make_warm(paths)
