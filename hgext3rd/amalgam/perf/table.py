"""Output of a table: one line for each subject, or data.

Fields have the names of upstream's perf commands where those have them. Tables show
medians, and their difference from the first subject's median in percent.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from mercurial.i18n import _

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .passes import Cache, Cell, Table
    from .sample import Sample
    from .subjects import Subject

_NAME_WIDTH = 22
_CELL_WIDTH = 46


def show(
    fm: Any,
    title: str,
    subjects: Sequence[Subject],
    caches: Sequence[Cache],
    table: Table,
    *,
    all_timing: bool,
) -> None:
    """Print one table."""
    _show_head(fm, title, caches, table)
    for subject in subjects:
        line = subject.name.ljust(_NAME_WIDTH)
        for cache in caches:
            cell, first = table[subject, cache], table[subjects[0], cache]
            percent = _percent(cell, first) if subject is not subjects[0] else None
            fm.startitem()
            fm.data(
                title=title.encode(),
                subject=subject.name.encode(),
                cache=cache.value.encode(),
                **_data(cell, percent, all_timing),
            )
            line += _cell_text(cell, percent).ljust(_CELL_WIDTH)
        fm.plain(b"! %s\n" % line.rstrip().encode())


def _show_head(fm: Any, title: str, caches: Sequence[Cache], table: Table) -> None:
    counts = [len(cell.samples) for cell in table.values()]
    fm.plain(_(b"! %s; median of %d\n") % (title.encode(), max(counts, default=0)))
    names = "".join(cache.value.ljust(_CELL_WIDTH) for cache in caches)
    fm.plain(b"! %s\n" % (" " * _NAME_WIDTH + names).rstrip().encode())
    units = "  seconds   change    MB read     faults  major".ljust(_CELL_WIDTH)
    fm.plain(b"! %s\n" % (" " * _NAME_WIDTH + units * len(caches)).rstrip().encode())


def _cell_text(cell: Cell, percent: float | None) -> str:
    if not cell.samples:
        return cell.reason
    change = "" if percent is None else f"{percent:+.1f}%"
    read = _median(cell, "read_bytes")
    megabytes = "?" if read < 0 else f"{read / 1e6:.2f}"
    return (
        f"{_median(cell, 'wall'):9.6f}{change:>9}{megabytes:>10}"
        f"{_median(cell, 'minor_faults'):9.0f}{_median(cell, 'major_faults'):7.0f}"
    )


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


def _median(cell: Cell, name: str) -> float:
    return statistics.median(getattr(sample, name) for sample in cell.samples)
