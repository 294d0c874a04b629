"""Pages in one file, which fetch nothing; light or dark, as the reader has it.

One has all results: the outcome first, then on what it was measured. The other has the
history: what changed at which commit, and a drawing of each series.
"""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from .. import tables
from ..history import SHORT
from ..results import describe_machine
from . import comparison, plots, summary
from .comparison import formatted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..history import Step, Trend
    from ..results import Results

_NAMED = 24  # revisions whose names fit below a drawing
_STYLE = """
:root { color-scheme: light dark; --text: #222; --back: #fff; --line: #ddd;
        --soft: #f3f3f3; --mark: #2f6690; --dim: #666; }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --back: #131416; --line: #383b40; --soft: #25272b;
          --mark: #7fb2dc; --dim: #a0a4aa; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 54em; margin: 2em auto;
       padding: 0 1em; color: var(--text); background: var(--back); }
h2 { margin-top: 2em; border-bottom: 2px solid var(--mark); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.8em 0 1.6em; font-size: 14px; }
th, td { padding: 0.2em 0.7em; text-align: right;
         border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
tr.differs td:last-child { font-weight: bold; }
img { width: 100%; max-width: 45em; height: auto; }
code { background: var(--soft); padding: 0 0.2em; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--mark); margin: 1em 0; }
.facts { color: var(--dim); font-size: 14px; overflow-wrap: anywhere; }
"""


def outcome(results: Results) -> str:
    """Return the page as HTML."""
    return _document("What was measured", _outcome(results))


def _outcome(results: Results) -> Iterator[str]:
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
    yield _picture("ratios of all programs", summary.draw(results))
    yield "<ul>"
    yield from (f"<li>{escape(line)}</li>" for line in summary.sentences(results))
    yield "</ul>"


def _facts(results: Results) -> Iterator[str]:
    yield "<h2>Measured on what</h2>"
    yield f'<p class="facts">{escape(results.date)}, '
    yield f"{escape(describe_machine(results.machine))}.<br/>"
    yield f"<code>{escape(results.command)}</code></p>"
    yield _table(["program", "what it is"], results.subjects.items())
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
        "<p>Medians, and their ratio to the first program's. The noise band is what "
        "the first program differs by from itself, as <i>(again)</i>, or might by "
        "chance. Chance is how often random samples would be ranked as far apart. A "
        "ratio inside the band, or a chance of 3 % or more, is no difference.</p>"
    )
    head = ["program", "median", "ratio", "noise band", "chance", "verdict"]
    for key in dict.fromkeys(line.key for line in lines):
        benchmark, repository, instrument = key
        ours = [line for line in lines if line.key == key]
        first = ours[0]
        value = first.value
        yield f"<h3>{escape(f'{benchmark} of {repository}: {instrument}')}</h3>"
        base = formatted(value, first.base_median)
        rows = [[first.base, base, "1", "", "", ""]]
        for line in ours:
            verdict = line.verdict
            rows.append(
                [
                    line.other,
                    formatted(value, line.other_median),
                    f"{verdict.ratio:.3f}",
                    f"{1 / verdict.band:.3f} to {verdict.band:.3f}",
                    "" if verdict.chance is None else f"{verdict.chance:.1%}",
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
        yield f"<h3>{escape(title)}</h3>"
        yield _picture(title, svg)


def _tables(results: Results) -> Iterator[str]:
    if results.tables:
        yield "<h2>Warm and cold</h2>"
        yield (
            "<p>By <code>hg perf::amalgam-*</code>: milliseconds of a fresh process, "
            "by the number of changesets; cold means that no page of the repository "
            "was in memory, and in parentheses is what was read from disk. <i>read, "
            "again</i> is the first row once more, so noise.</p>"
        )
    for title, head, lines in tables.grids(results.tables):
        yield f"<h3>{escape(title)}</h3>"
        yield _table(head, lines)


def sentences(trends: Sequence[Trend]) -> Iterator[str]:
    """Yield a line for each change, the newest first."""
    for trend, step in _steps(trends):
        yield f"{step.at.date[:10]} {step.at.name} {_sentence(trend, step)}"


def history(trends: Sequence[Trend], subject: str, remark: str) -> str:
    """Return the page as HTML."""
    return _document(f"{subject}, from commit to commit", _history(trends, remark))


def _history(trends: Sequence[Trend], remark: str) -> Iterator[str]:
    yield (
        "<p>Each point is the median of what was measured at a commit, with the range "
        "of the samples. A line is a level that several commits share. Where the level "
        "changes, the first commit that was measured with the new level is marked.</p>"
    )
    yield f'<p class="facts">{escape(remark)}</p>'
    yield "<h2>What changed</h2>"
    found = _steps(trends)
    for at in dict.fromkeys(step.at for _trend, step in found):
        yield f"<h3>{escape(at.name)} {escape(at.summary)}</h3>"
        ours = [(trend, step) for trend, step in found if step.at == at]
        yield "<ul>"
        yield from (f"<li>{escape(_sentence(*item))}</li>" for item in ours)
        yield "</ul>"
        spans = {f"{step.before.oid[:SHORT]}..{at.oid[:SHORT]}" for _, step in ours}
        commands = ", ".join(f"<code>git log {span}</code>" for span in sorted(spans))
        yield f'<p class="facts">{at.date[:10]}; the reason is among {commands}</p>'
    if not found:
        yield "<p>Nothing, by more than the noise.</p>"
    yield "<h2>Drawn</h2>"
    for trend in trends:
        title = _title(trend)
        yield f"<h3>{escape(title)}</h3>"
        yield _picture(title, _drawing(trend))


def _drawing(trend: Trend) -> str:
    """Draw one series."""
    figure, axes = plots.figure(3.4)
    unit = plots.unit(trend.value)
    medians = [median / unit for median in trend.medians]
    below = [m - min(s) / unit for m, s in zip(medians, trend.samples, strict=True)]
    above = [max(s) / unit - m for m, s in zip(medians, trend.samples, strict=True)]
    places = range(len(medians))
    axes.errorbar(
        places, medians, yerr=[below, above], fmt="o", ms=4, lw=0.8, color=plots.BLUE
    )
    for level in trend.levels:
        span = (level.start - 0.4, level.end - 0.6)
        axes.plot(span, [level.median / unit] * 2, color=plots.BLUE, lw=2.5)
    axes.set_ylim(0, 1.25 * max(m + a for m, a in zip(medians, above, strict=True)))
    top = axes.get_ylim()[1]
    for step in trend.steps:
        place = trend.revisions.index(step.at)
        axes.axvline(place - 0.5, color=plots.RED, lw=1, ls="--")
        text = f" {step.at.name}\n {step.words}"
        right = place > len(medians) / 2
        side = "right" if right else "left"
        axes.text(place - 0.5, top, text, color=plots.RED, va="top", ha=side)
    names = [revision.name for revision in trend.revisions]
    every = -(-len(names) // _NAMED)
    axes.set_xticks(places[::every], names[::every], rotation=60, ha="right")
    axes.set_ylabel(plots.label(trend.value))
    return plots.svg(figure)


def _title(trend: Trend) -> str:
    benchmark, repository, instrument = trend.key
    return f"{benchmark} of {repository}: {instrument}"


def _sentence(trend: Trend, step: Step) -> str:
    before, after = (
        formatted(trend.value, number) for number in (step.from_median, step.to_median)
    )
    return f"{_title(trend)}: {step.words}, {before} to {after}"


def _steps(trends: Sequence[Trend]) -> list[tuple[Trend, Step]]:
    found = [(trend, step) for trend in trends for step in trend.steps]
    return sorted(found, key=lambda item: item[1].at.order, reverse=True)


def _document(title: str, body: Iterable[str]) -> str:
    """Return a page."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *body,
            "</body></html>",
            "",
        ]
    )


def _picture(title: str, svg: str) -> str:
    """Return a drawing, with its title for who cannot see it."""
    source = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{source}"/>'


def _table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    marked: set[int] | None = None,
) -> str:
    """Return a table; rows whose numbers are ``marked`` have a bold last cell."""
    parts = ['<div class="wide"><table><thead><tr>']
    parts += [f"<th>{escape(cell)}</th>" for cell in head]
    parts.append("</tr></thead><tbody>")
    for number, row in enumerate(rows):
        parts.append('<tr class="differs">' if number in (marked or ()) else "<tr>")
        parts += [f"<td>{escape(cell)}</td>" for cell in row]
        parts.append("</tr>")
    parts.append("</tbody></table></div>")
    return "".join(parts)
