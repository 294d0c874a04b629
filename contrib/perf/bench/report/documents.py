"""Pictures, sentences and tables of results in ``docs/performance.rst``."""

from __future__ import annotations

import statistics
import textwrap
from typing import TYPE_CHECKING

from .. import tables
from ..benchmark import InputError
from ..results import describe_machine
from ..subject import AGAIN
from . import comparison, plots, summary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..results import Results, Sample
    from .comparison import Key

#: A page has its results between these lines; the target of make is in them.
BEGIN = ".. begin of what `make {}` writes\n"
END = ".. end of what `make {}` writes\n"
EXPLANATION = "perf-docs"
_SUMMARY, _SCALING = "performance.svg", "performance-growth.svg"
#: The tables of warm and cold starts that say most.
_TITLES = (", all heads", "look up the last node", "look up 1,000 nodes")
_GROWTH = (
    "Processor time of a first export, start of Python included. The line is a power "
    "law. If its exponent is 1, twice the changesets take twice the time."
)
_INDEXES = (
    "Milliseconds in a fresh process whose code is loaded, medians, by the number of "
    "changesets. Cold means that no file of the repository is in the page cache; in "
    "parentheses is what was read from disk. *read* is plain Mercurial, and *read, "
    "again* the same once more: what these two differ by is noise. *mmap* is "
    "Mercurial's own mapping. *amalgam* is as configured by default: indexes of less "
    "than 8 MB are read, because the modules that map them take longer to load. The "
    "others are amalgam made to map, with the values of ``amalgam.index.prefault``."
)


def explanation(results: Results, page: Path) -> None:
    """Put pictures beside ``page``, and sentences and tables into it."""
    if not summary.groups(results):
        raise InputError("no other program was measured")
    lines = [
        "",
        *_figure(page, _SUMMARY, "what others take, as ratios", summary.draw(results)),
    ]
    for sentence in summary.sentences(results):
        lines += _paragraph(sentence, "- ", "  ")
    lines += ["", *_facts(results, 110), "", *_table(results), ""]
    drawn = dict(plots.all_plots(results))
    growth = [title for title in drawn if title.endswith("by size: cpu_seconds")]
    if growth:
        lines += _heading("How cost grows")
        lines += [*_paragraph(_GROWTH), ""]
        lines += _figure(page, _SCALING, growth[0], drawn[growth[0]])
    shown = [row for row in results.tables if any(t in row["title"] for t in _TITLES)]
    if shown:
        lines += _heading("Indexes, warm and cold")
        lines += [*_paragraph(_INDEXES), ""]
        lines += [tables.as_rst(shown).strip("\n"), ""]
    _fill(page, EXPLANATION, lines)


def _fill(page: Path, target: str, lines: list[str]) -> None:
    """Replace the text between two lines of a page."""
    begin, end = BEGIN.format(target), END.format(target)
    before, found_begin, rest = page.read_text().partition(begin)
    _old, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise InputError(f"{page} does not say where the results are")
    page.write_text(before + begin + "\n".join(lines) + "\n" + end + after)


def _facts(results: Results, width: int) -> list[str]:
    """Return when, on what and with which versions it was measured, as a paragraph."""
    versions = "; ".join(
        f"{name}: {what.partition(', ')[2]}" for name, what in results.subjects.items()
    )
    machine = describe_machine(results.machine)
    text = f"{results.date[:10]}, {machine}. {versions}."
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _timed(results: Results) -> Iterator[tuple[Key, dict[str, list[Sample]]]]:
    """Yield the samples of each benchmark that was timed, of each subject once."""
    for key, by_subject in comparison.samples_by_subject(results).items():
        if key[2] == "time":
            yield key, {n: s for n, s in by_subject.items() if not n.endswith(AGAIN)}


def _peak(results: Results, key: Key, subject: str) -> str:
    """Return the megabytes that a subject took at most, if they were measured."""
    memory = (*key[:2], "memory")
    samples = comparison.samples_by_subject(results).get(memory, {}).get(subject, [])
    peaks = [one.values["peak_pss_bytes"] for one in samples]
    return f"{statistics.median(peaks) / 1e6:.0f}" if peaks else ""


def _heading(text: str) -> list[str]:
    return [text, "-" * len(text), ""]


def _figure(page: Path, name: str, alternative: str, svg: str) -> list[str]:
    (page.parent / name).write_text(svg)
    return [f".. image:: {name}", f"   :alt: {alternative}", "   :width: 100%", ""]


def _paragraph(text: str, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text, 110, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def _table(results: Results) -> list[str]:
    lines = [
        [
            summary.title(results, *key[:2]),
            name,
            f"{statistics.median(s.values['cpu_seconds'] for s in samples):.2f}",
            _peak(results, key, name),
        ]
        for key, by_subject in _timed(results)
        if len(by_subject) > 1
        for name, samples in by_subject.items()
    ]
    head = ["what", "by", "processor time, s", "memory, MB"]
    return tables.csv_table("", head, lines).strip().split("\n")
