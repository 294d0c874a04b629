"""What the README shows: one table and one plot, put in by this and not by hand."""

from __future__ import annotations

import statistics
import textwrap
from typing import TYPE_CHECKING

from .. import machine
from ..subject import AGAIN
from . import comparison, plots

if TYPE_CHECKING:
    from pathlib import Path

    from ..results import Results

_BEGIN = ".. begin of what `make perf-headline` writes\n"
_END = ".. end of what `make perf-headline` writes\n"
_PLOT = "docs/headline.svg"


class MissingError(Exception):
    """The results, or the README, lack what the headline needs."""


def write(results: Results, readme: Path) -> None:
    """Replace the headline in ``readme``, and the plot beside it."""
    shown = _table(results)
    keys = comparison.samples_by_subject(results)
    drawn = next((k for k in keys if k[0] == "export" and k[2] == "time"), None)
    if not drawn:
        raise MissingError("no export was timed")
    plain = {n: s for n, s in keys[drawn].items() if not n.endswith(AGAIN)}
    (readme.parent / _PLOT).write_text(plots.bars(drawn, plain))
    picture = [
        f".. image:: {_PLOT}",
        f"   :alt: hg git::export of {drawn[1]} and others",
    ]
    fill(readme, _BEGIN, _END, ["", *shown, "", *picture, "", *facts(results), ""])


def fill(page: Path, begin: str, end: str, lines: list[str]) -> None:
    """Replace what is between two lines of a page."""
    text = page.read_text()
    before, found_begin, rest = text.partition(begin)
    _old, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise MissingError(f"{page} does not say where the results are")
    page.write_text(before + begin + "\n".join(lines) + "\n" + end + after)


def facts(results: Results) -> list[str]:
    """Return when, on what and with which versions it was measured, as a paragraph."""
    versions = "; ".join(
        f"{name}: {what.partition(', ')[2]}" for name, what in results.subjects.items()
    )
    text = f"{results.date[:10]}, {machine.describe(results.machine)}. {versions}."
    return textwrap.wrap(text, 98, break_on_hyphens=False)


def _table(results: Results) -> list[str]:
    rows = [["what", "on", "by", "seconds", "memory", "against the first"]]
    keys = comparison.samples_by_subject(results)
    verdicts = {(line.key, line.other): line for line in comparison.within(results)}
    for (benchmark, repository, instrument), by_subject in keys.items():
        if instrument != "time":
            continue
        memory = keys.get((benchmark, repository, "memory"), {})
        for name, samples in by_subject.items():
            if name.endswith(AGAIN):
                continue
            line = verdicts.get(((benchmark, repository, instrument), name))
            peaks = [one.values["peak_pss_bytes"] for one in memory.get(name, [])]
            seconds = statistics.median(one.values["seconds"] for one in samples)
            peak = f"{statistics.median(peaks) / 1e6:.0f} MB" if peaks else ""
            verdict = line.verdict.words if line else ""
            rows.append([benchmark, repository, name, f"{seconds:.2f}", peak, verdict])
    if len(rows) == 1:
        raise MissingError("nothing was timed")
    return _aligned(rows)


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return a simple table; the first row is its header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = " ".join("=" * width for width in widths)
    lines = [" ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [rule, lines[0], rule, *lines[1:], rule]
