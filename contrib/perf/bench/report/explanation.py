"""What the page of docs about performance shows: written by this, not by hand."""

from __future__ import annotations

import csv
import io
import statistics
import textwrap
from typing import TYPE_CHECKING

from .. import tables
from ..subject import AGAIN
from . import comparison, headline, plots, summary

if TYPE_CHECKING:
    from pathlib import Path

    from ..results import Results

BEGIN = ".. begin of what `make perf-docs` writes\n"
END = ".. end of what `make perf-docs` writes\n"
_SUMMARY, _SCALING = "performance.svg", "performance-growth.svg"
#: The tables of warm and cold starts that say most.
_TITLES = (", all heads", "look up the last node", "look up 1,000 nodes")
_GROWTH = (
    "Processor time of a first export, start of Python included. The line is a power "
    "law. If its exponent is 1, twice the changesets take twice the time."
)
_INDEXES = (
    "Milliseconds in a fresh process, medians, by the number of changesets. Cold means "
    "that no file of the repository is in the page cache; in parentheses is what was "
    "read from disk. *read* is plain Mercurial, and *read, again* the same once more: "
    "what these two differ by is noise. *mmap* is Mercurial's own mapping. The others "
    "are amalgam with the values of ``amalgam.index.prefault``. Indexes of less than "
    "1 MB are read, unless ``experimental.mmapindexthreshold`` says otherwise: mapping "
    "them gains nothing."
)
_HEAD = ["what", "by", "processor time, s", "memory, MB"]


def write(results: Results, page: Path) -> None:
    """Put pictures beside ``page``, and sentences and tables into it."""
    if not summary.groups(results):
        raise headline.MissingError("no other program was measured")
    lines = [
        "",
        *_figure(page, _SUMMARY, "what others take, as ratios", summary.draw(results)),
        *_sentences(results),
        "",
        *_paragraph(" ".join(headline.facts(results))),
        "",
        *_table(results),
        "",
    ]
    drawn = dict(plots.all_plots(results))
    growth = [title for title in drawn if title.endswith("by size: cpu_seconds")]
    if growth:
        lines += _heading("How cost grows")
        lines += [*_paragraph(_GROWTH), ""]
        lines += _figure(page, _SCALING, growth[0], drawn[growth[0]])
    shown = [row for row in results.tables if _is_shown(row["title"])]
    if shown:
        lines += _heading("Indexes, warm and cold")
        lines += [*_paragraph(_INDEXES), ""]
        lines += [tables.as_rst(shown).strip("\n"), ""]
    headline.fill(page, BEGIN, END, lines)


def _heading(text: str) -> list[str]:
    return [text, "-" * len(text), ""]


def _figure(page: Path, name: str, alternative: str, svg: str) -> list[str]:
    (page.parent / name).write_text(svg)
    return [f".. image:: {name}", f"   :alt: {alternative}", "   :width: 100%", ""]


def _paragraph(text: str, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text, 110, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def _sentences(results: Results) -> list[str]:
    found = []
    for sentence in summary.sentences(results):
        found += _paragraph(sentence, "- ", "  ")
    return found


def _table(results: Results) -> list[str]:
    output = io.StringIO()
    writer = csv.writer(output, quoting=csv.QUOTE_ALL, lineterminator="\n   ")
    writer.writerow(_HEAD)
    keys = comparison.samples_by_subject(results)
    for (benchmark, repository, instrument), by_subject in keys.items():
        others = [name for name in by_subject if not name.endswith(AGAIN)]
        if instrument != "time" or len(others) < 2:
            continue
        memory = keys.get((benchmark, repository, "memory"), {})
        for name in others:
            seconds = [sample.values["cpu_seconds"] for sample in by_subject[name]]
            peaks = [one.values["peak_pss_bytes"] for one in memory.get(name, [])]
            peak = f"{statistics.median(peaks) / 1e6:.0f}" if peaks else ""
            what = summary.title(results, benchmark, repository)
            writer.writerow([what, name, f"{statistics.median(seconds):.2f}", peak])
    text = f".. csv-table::\n   :header-rows: 1\n\n   {output.getvalue()}"
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _is_shown(title: str) -> bool:
    return any(part in title for part in _TITLES)
