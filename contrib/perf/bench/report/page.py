"""One page with all results: the outcome first, then on what it was measured."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from .. import machine, tables
from . import comparison, html, plots, summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..results import Results


def page(results: Results) -> str:
    """Return the page as HTML."""
    return html.document("What was measured", _body(results))


def _body(results: Results) -> Iterator[str]:
    yield from _summary(results)
    yield from _facts(results)
    yield from _comparisons(results)
    yield from _plots(results)
    yield from _tables(results)


def _summary(results: Results) -> Iterator[str]:
    if not summary.groups(results):
        return
    base = next(iter(results.subjects))
    yield (
        f"<p>Each bar is a program that does the same as {escape(base)}. A bar to the "
        f"right takes more than {escape(base)}, a bar to the left takes less. The "
        "number is the ratio of medians. <i>same</i>: the difference is not larger "
        "than what equal programs differ by on this machine. Processor time is that "
        "of all processes and threads together, and memory their peak. Before "
        "anything was measured, all gave the same result.</p>"
    )
    yield html.picture("ratios of all programs", summary.draw(results))
    yield "<ul>"
    yield from (f"<li>{escape(line)}</li>" for line in summary.sentences(results))
    yield "</ul>"


def _facts(results: Results) -> Iterator[str]:
    yield "<h2>Measured on what</h2>"
    yield f'<p class="facts">{escape(results.date)}, '
    yield f"{escape(machine.describe(results.machine))}.<br/>"
    yield f"<code>{escape(results.command)}</code></p>"
    yield html.table(["program", "what it is"], results.subjects.items())
    yield html.table(
        ["repository", "changesets", "tip"],
        [
            [name, str(facts["changesets"]), str(facts["tip"])[:12]]
            for name, facts in results.repositories.items()
        ],
    )
    if results.skipped:
        yield "<h2>Not measured</h2><ul>"
        yield from (f"<li>{escape(reason)}</li>" for reason in results.skipped)
        yield "</ul>"


def _comparisons(results: Results) -> Iterator[str]:
    lines = list(comparison.within(results))
    if not lines:
        return
    yield "<h2>Compared</h2>"
    yield (
        "<p>Medians, and their ratio to the first program's. The interval has the "
        "ratio in 99 of 100 cases. The noise band is what the first program differs "
        "by from itself, as <i>(again)</i>, or might by chance. A ratio inside the "
        "band, or an interval with 1 in it, is no difference.</p>"
    )
    head = ["program", "median", "ratio", "interval", "noise band", "verdict"]
    for key in dict.fromkeys(line.key for line in lines):
        benchmark, repository, instrument = key
        ours = [line for line in lines if line.key == key]
        first = ours[0]
        value = first.value
        yield f"<h3>{escape(f'{benchmark} of {repository}: {instrument}')}</h3>"
        base = comparison.formatted(value, first.base_median)
        rows = [[first.base, base, "1", "", "", ""]]
        for line in ours:
            verdict = line.verdict
            rows.append(
                [
                    line.other,
                    comparison.formatted(value, line.other_median),
                    f"{verdict.ratio:.3f}",
                    f"{verdict.low:.3f} to {verdict.high:.3f}",
                    f"{1 / verdict.band:.3f} to {verdict.band:.3f}",
                    verdict.words,
                ]
            )
        different = {n for n, line in enumerate(ours, 1) if line.verdict.differs}
        yield html.table(head, rows, different)


def _plots(results: Results) -> Iterator[str]:
    found = list(plots.all_plots(results))
    if found:
        yield "<h2>Drawn</h2>"
    for title, svg in found:
        yield f"<h3>{escape(title)}</h3>"
        yield html.picture(title, svg)


def _tables(results: Results) -> Iterator[str]:
    found = tables.by_title(results.tables)
    if found:
        yield "<h2>Warm and cold</h2>"
        yield (
            "<p>By <code>hg perf::amalgam-*</code>: a fresh process each; cold means "
            "that no page of the repository was in memory. Changes are against the "
            "first row; <i>read, again</i> is the same once more, so noise.</p>"
        )
    for (repository, title), rows in found.items():
        yield f"<h3>{escape(repository)}: {escape(title)}</h3>"
        yield html.table(*tables.columns(rows))
