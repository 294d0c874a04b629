"""Output of a table: one line for each subject, or data.

Fields have the names of upstream's perf commands where those have them. Tables show
medians, and their difference from the first subject's median in percent, in parentheses
if it is not more than the noise. Tables have ms or microseconds; data have seconds.
"""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING, Any

from mercurial import encoding
from mercurial.i18n import _

from .verdicts import FEWEST, Noise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .passes import Cache, Cell, Table
    from .sample import Sample
    from .subjects import Subject

_NAME_WIDTH = 22
_CELL_WIDTH = 48
_MICROSECONDS = 0.0001
"""Below this many seconds, a table has microseconds."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Column:
    """Columns of a state of the cache, and the meaning of their numbers."""

    cells: dict[Subject, Cell]
    first: Subject
    noise: Noise | None

    @classmethod
    def of(cls, table: Table, cache: Cache) -> _Column:
        cells = {who: cell for (who, state), cell in table.items() if state is cache}
        first, again = list(cells)[:2] if len(cells) > 1 else [*cells] * 2
        noise = Noise.of(_walls(cells[first]), _walls(cells[again]))
        return cls(cells, first, noise)

    def percent(self, subject: Subject) -> float | None:
        if subject is self.first:
            return None
        return _percent(self.cells[subject], self.cells[self.first])

    def differs(self, subject: Subject) -> bool:
        walls = _walls(self.cells[subject])
        return bool(self.noise and walls and self.noise.differs(walls))


def show(
    fm: Any,
    title: str,
    subjects: Sequence[Subject],
    caches: Sequence[Cache],
    table: Table,
    *,
    all_timing: bool,
    remark: bytes = b"",
) -> None:
    """Print one table, with ``remark`` below its title, and its meaning below it."""
    columns = {cache: _Column.of(table, cache) for cache in caches}
    unit = _Unit.of(table)
    _show_head(fm, title, caches, table, unit, remark)
    for subject in subjects:
        line = subject.name.ljust(_NAME_WIDTH)
        for cache, column in columns.items():
            cell, percent = table[subject, cache], column.percent(subject)
            differs = column.differs(subject)
            fm.startitem()
            fm.data(
                title=title.encode(),
                subject=subject.name.encode(),
                cache=cache.value.encode(),
                **_data(cell, percent, all_timing),
            )
            if column.noise and percent is not None:
                fm.data(differs=differs, noise_percent=round(column.noise.percent, 2))
            line += _cell_text(cell, percent, differs, unit).ljust(_CELL_WIDTH)
        fm.plain(b"! %s\n" % line.rstrip().encode())
    for cache, column in columns.items():
        for sentence in _sentences(column, unit):
            fm.plain(b"! %s: %s\n" % (cache.value.encode(), sentence.encode()))


def _show_head(
    fm: Any,
    title: str,
    caches: Sequence[Cache],
    table: Table,
    unit: _Unit,
    remark: bytes,
) -> None:
    counts = [len(cell.samples) for cell in table.values() if cell.samples] or [0]
    number = str(min(counts))
    if max(counts) > min(counts):
        number += f" to {max(counts)}"
    fm.plain(_(b"! %s; median of %s\n") % (title.encode(), number.encode()))
    if remark:
        fm.plain(b"! %s\n" % remark)
    names = "".join(cache.value.ljust(_CELL_WIDTH) for cache in caches)
    fm.plain(b"! %s\n" % (" " * _NAME_WIDTH + names).rstrip().encode())
    units = f"{unit.name:>9}     change   MB read    faults  major".ljust(_CELL_WIDTH)
    fm.plain(b"! %s\n" % (" " * _NAME_WIDTH + units * len(caches)).rstrip().encode())


def _cell_text(cell: Cell, percent: float | None, differs: bool, unit: _Unit) -> str:
    if not cell.samples:
        return cell.reason
    change = "" if percent is None else f"{percent:+.1f}%"
    if change and not differs:
        change = f"({change})"
    read = _median(cell, "read_bytes")
    megabytes = "?" if read < 0 else f"{read / 1e6:.2f}"
    return (
        f"{unit.number(_median(cell, 'wall')):>9}{change:>11}{megabytes:>10}"
        f"{_median(cell, 'minor_faults'):10.0f}{_median(cell, 'major_faults'):7.0f}"
    )


def _sentences(column: _Column, unit: _Unit) -> Iterator[str]:
    """Yield the lines below a table: the noise, and the fastest row."""
    first = column.cells[column.first]
    if not first.samples:
        return
    if column.noise is None:
        yield f"no verdict with fewer than {FEWEST} samples (see perf.run-limits)"
        return
    yield (
        f"noise is {column.noise.words}; changes of up to {column.noise.percent:.1f}% "
        f"mean nothing"
    )
    others = [who for who in column.cells if column.differs(who)]
    faster = [who for who in others if (column.percent(who) or 0) < 0]
    if not faster:
        what = "is faster than" if others else "differs from"
        yield f"no row {what} '{column.first.name}' by more than the noise"
        return
    best = min(faster, key=lambda who: _median(column.cells[who], "wall"))
    seconds, slow = _median(column.cells[best], "wall"), _median(first, "wall")
    yield (
        f"the fastest is '{best.name}': {unit.text(seconds)} in place of "
        f"{unit.text(slow)} of '{column.first.name}', "
        f"{slow / seconds:.1f} times as fast"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Unit:
    """Milliseconds, or microseconds for tables that have so short times."""

    name: str
    factor: float

    @classmethod
    def of(cls, table: Table) -> _Unit:
        medians = [_median(cell, "wall") for cell in table.values() if cell.samples]
        if min(medians, default=1.0) >= _MICROSECONDS:
            return cls("ms", 1e3)
        is_utf8 = encoding.encoding.lower() in (b"utf-8", b"utf8")
        return cls("\N{MICRO SIGN}s" if is_utf8 else "us", 1e6)

    def number(self, seconds: float) -> str:
        value = self.factor * seconds
        return f"{value:.3g}" if value < 99.5 else f"{value:.0f}"

    def text(self, seconds: float) -> str:
        return f"{self.number(seconds)} {self.name}"


def _data(cell: Cell, percent: float | None, all_timing: bool) -> dict[str, Any]:
    """Return the fields of a cell; without samples, the reason alone."""
    if not cell.samples:
        return {"reason": cell.reason.encode()}
    ordered = sorted(cell.samples, key=lambda sample: sample.wall)
    found: dict[str, Any] = dict(_times("", ordered[0]))
    found["count"] = len(ordered)
    found["read_bytes"] = int(_median(cell, "read_bytes"))
    found["minor_faults"] = int(_median(cell, "minor_faults"))
    found["major_faults"] = int(_median(cell, "major_faults"))
    found["rss_bytes"] = int(_median(cell, "rss_bytes"))
    if all_timing:
        found |= _times("max.", ordered[-1])
        for name in ("wall", "comb", "user", "sys"):
            values = [getattr(sample, name) for sample in ordered]
            found[f"avg.{name}"] = statistics.fmean(values)
            found[f"median.{name}"] = statistics.median(values)
        found["samples"] = [sample.wall for sample in cell.samples]
    if percent is not None:
        found["change_percent"] = round(percent, 2)
    return found


def _times(prefix: str, sample: Sample) -> dict[str, float]:
    names = ("wall", "comb", "user", "sys")
    return {prefix + name: getattr(sample, name) for name in names}


def _percent(cell: Cell, first: Cell) -> float | None:
    if not cell.samples or not first.samples:
        return None
    return 100 * (_median(cell, "wall") / _median(first, "wall") - 1)


def _walls(cell: Cell) -> list[float]:
    return [sample.wall for sample in cell.samples]


def _median(cell: Cell, name: str) -> float:
    return statistics.median(getattr(sample, name) for sample in cell.samples)
