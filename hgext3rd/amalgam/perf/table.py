"""Output of a table: one line for each row, or data.

Fields have the names of upstream's perf commands where those have them. Tables show
medians, and their difference from the first row's median in percent, in parentheses if
it is not more than the noise. Tables have ms or microseconds; data have seconds.
"""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING, Any

from mercurial import encoding
from mercurial.i18n import _

from .judgement import FEWEST, Judgement, compare, least_band, noise_band

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .passes import Cache, Cell, Table
    from .subjects import Subject

_NAME_WIDTH = 22
_CELL_WIDTH = 48
_MICROSECONDS = 0.0001
"""Below this many seconds, a table has microseconds."""
_WORDS = (("low", 1.05), ("moderate", 1.15))
"""Names of noise bands, up to a factor."""
_TIMES = ("wall", "comb", "user", "sys")


@dataclasses.dataclass(frozen=True, slots=True)
class _Column:
    """Columns of a state of the cache, and the meaning of their numbers."""

    cells: dict[Subject, Cell]
    first: Subject
    band: float | None
    """The noise band; ``None`` with too few samples."""
    verdicts: dict[Subject, Judgement]
    """Of all rows that have samples, but the first; empty if that has none."""

    @classmethod
    def of(cls, table: Table, cache: Cache) -> _Column:
        cells = {row: cell for (row, state), cell in table.items() if state is cache}
        first, second = list(cells)[:2]
        base, again = cells[first].walls, cells[second].walls
        band, verdicts = None, {}
        if min(len(base), len(again)) >= FEWEST:
            band = max(noise_band(base, again), least_band("seconds"))
        for row, cell in cells.items():
            if base and cell.samples and row is not first:
                walls = cell.walls
                verdicts[row] = compare(base, walls, "seconds", band or 1.0, again)
        return cls(cells, first, band, verdicts)

    def differs(self, row: Subject) -> bool:
        return bool(self.band and row in self.verdicts and self.verdicts[row].differs)

    @property
    def noise_percent(self) -> float:
        return 100 * ((self.band or 1) - 1)


def show(
    fm: Any,
    title: str,
    table: Table,
    remark: bytes = b"",
) -> None:
    """Print one table, with ``remark`` below its title, and its meaning below it."""
    caches = list(dict.fromkeys(cache for _row, cache in table))
    columns = {cache: _Column.of(table, cache) for cache in caches}
    unit = _Unit.of(table)
    _show_head(fm, title, caches, table, unit, remark)
    for row in dict.fromkeys(row for row, _cache in table):
        line = row.name.ljust(_NAME_WIDTH)
        for cache, column in columns.items():
            cell, verdict = table[row, cache], column.verdicts.get(row)
            percent = 100 * (verdict.ratio - 1) if verdict else None
            differs = column.differs(row)
            fm.startitem()
            fm.data(
                title=title.encode(),
                subject=row.name.encode(),
                cache=cache.value.encode(),
                **_data(cell),
            )
            if percent is not None:
                fm.data(change_percent=round(percent, 2))
                if column.band:
                    noise_percent = round(column.noise_percent, 2)
                    fm.data(differs=differs, noise_percent=noise_percent)
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
    if column.band is None:
        yield f"no verdict with fewer than {FEWEST} samples (see perf.run-limits)"
        return
    high = "high (a quieter machine or more samples would lower it)"
    noise = next((w for w, b in _WORDS if column.band <= b), high)
    yield (
        f"noise is {noise}; changes of up to {column.noise_percent:.1f}% mean nothing"
    )
    others = [row for row in column.verdicts if column.differs(row)]
    faster = [row for row in others if column.verdicts[row].ratio < 1]
    if not faster:
        what = "is faster than" if others else "differs from"
        yield f"no row {what} '{column.first.name}' by more than the noise"
        return
    best = min(faster, key=lambda row: column.verdicts[row].ratio)
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


def _data(cell: Cell) -> dict[str, Any]:
    """Return the fields of a cell; without samples, the reason alone."""
    if not cell.samples:
        return {"reason": cell.reason.encode()}
    ordered = sorted(cell.samples, key=lambda sample: sample.wall)
    found: dict[str, Any] = {"count": len(ordered), "samples": cell.walls}
    for name in ("read_bytes", "minor_faults", "major_faults", "rss_bytes"):
        found[name] = int(_median(cell, name))
    for name in _TIMES:
        values = [getattr(sample, name) for sample in ordered]
        found[name], found[f"max.{name}"] = values[0], values[-1]
        found[f"avg.{name}"] = statistics.fmean(values)
        found[f"median.{name}"] = statistics.median(values)
    return found


def _median(cell: Cell, name: str) -> float:
    return statistics.median(getattr(sample, name) for sample in cell.samples)
