"""The history as a page: what changed at which commit, and a drawing of each series."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ..history.revision import SHORT
from . import html, plots
from .comparison import formatted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..history.trend import Step, Trend

_NAMED = 24  # revisions whose names fit below a drawing


def sentences(trends: Sequence[Trend]) -> Iterator[str]:
    """Yield a line for each change, the newest first."""
    for trend, step in _steps(trends):
        yield f"{step.at.date[:10]} {step.at.name} {_sentence(trend, step)}"


def page(trends: Sequence[Trend], subject: str, remark: str) -> str:
    """Return the page as HTML."""
    return html.document(f"{subject}, from commit to commit", _body(trends, remark))


def _body(trends: Sequence[Trend], remark: str) -> Iterator[str]:
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
        yield html.picture(title, draw(trend))


def draw(trend: Trend) -> str:
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
