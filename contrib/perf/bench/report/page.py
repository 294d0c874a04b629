"""One page with everything in it: tables and plots, nothing fetched from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from .. import machine, tables
from . import comparison, html, plots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..results import Results


def page(results: Results) -> str:
    """Return the page as HTML."""
    return html.document("What was measured", _body(results))


def _body(results: Results) -> Iterator[str]:
    yield from _facts(results)
    yield from _comparisons(results)
    yield from _plots(results)
    yield from _tables(results)


def _facts(results: Results) -> Iterator[str]:
    yield f"<p>{escape(results.date)}: <code>{escape(results.command)}</code></p>"
    yield f"<p>{escape(machine.describe(results.machine))}</p>"
    yield html.table(["subject", "what it is"], results.subjects.items())
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
        "<p>Medians. The interval is where the ratio is 99 times in 100; the noise "
        "band is what the first subject differs by from itself, or might by chance. "
        "Inside either there is no difference.</p>"
    )
    head = ["", "median", "ratio", "interval", "noise band", "verdict"]
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
