"""One page with everything in it: tables and plots, nothing fetched from elsewhere."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from .. import machine, tables
from . import comparison, plots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..results import Results

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60em; margin: 2em auto;
       padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 0.8em 0 1.6em; font-size: 13px; }
th, td { padding: 0.2em 0.7em; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
tr.differs td:last-child { font-weight: bold; }
img { max-width: 100%; }
code { background: #f3f3f3; padding: 0 0.2em; }
h2 { margin-top: 2em; border-bottom: 2px solid #47799e; }
@media (prefers-color-scheme: dark) {
  body { background: #fff; } }
"""


def page(results: Results) -> str:
    """Return the page as HTML."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"/>',
            f"<title>amalgam: measured {escape(results.date)}</title>",
            f"<style>{_STYLE}</style></head><body>",
            "<h1>What was measured</h1>",
            *_facts(results),
            *_comparisons(results),
            *_plots(results),
            *_tables(results),
            "</body></html>",
            "",
        ]
    )


def _facts(results: Results) -> Iterator[str]:
    yield f"<p>{escape(results.date)}: <code>{escape(results.command)}</code></p>"
    yield f"<p>{escape(machine.describe(results.machine))}</p>"
    yield _table(["subject", "what it is"], results.subjects.items())
    yield _table(
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
        yield _table(head, rows, different)


def _plots(results: Results) -> Iterator[str]:
    found = list(plots.all_plots(results))
    if found:
        yield "<h2>Drawn</h2>"
    for title, svg in found:
        source = base64.b64encode(svg.encode()).decode()
        data = f"data:image/svg+xml;base64,{source}"
        yield f"<h3>{escape(title)}</h3>"
        yield f'<img alt="{escape(title)}" src="{data}"/>'


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
        yield _table(*tables.columns(rows))


def _table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    marked: set[int] | None = None,
) -> str:
    parts = ["<table><thead><tr>"]
    parts += [f"<th>{escape(cell)}</th>" for cell in head]
    parts.append("</tr></thead><tbody>")
    for number, row in enumerate(rows):
        parts.append('<tr class="differs">' if number in (marked or ()) else "<tr>")
        parts += [f"<td>{escape(cell)}</td>" for cell in row]
        parts.append("</tr>")
    parts.append("</tbody></table>")
    return "".join(parts)
