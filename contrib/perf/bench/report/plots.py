"""Drawings of results, as SVG."""

from __future__ import annotations

import io
import statistics
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from hgext3rd.amalgam.perf.judgement import growth

from ..instruments import INSTRUMENTS
from ..subject import AGAIN
from .comparison import samples_by_subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from ..results import Results, Sample
    from .comparison import Key

mpl.rcParams["svg.hashsalt"] = "bench"  # the same results give the same file
BLUE, ORANGE, RED, GREY = "#47799e", "#d08a35", "#b4432e", "#999999"
#: Text is text, in the font of the reader.
_LEGIBLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
mpl.rcParams["svg.fonttype"] = "none"
mpl.rcParams["font.family"] = "sans-serif"
mpl.rcParams["font.sans-serif"] = ["DejaVu Sans", "Verdana", "Arial"]
#: matplotlib's colours for text and background, and ours, for dark pages.
_DARK = """<style>@media (prefers-color-scheme: dark) {
[style*="fill: #ffffff"] { fill: #131416 !important }
[style*="stroke: #ffffff"] { stroke: #131416 !important }
[style*="stroke: #000000"] { stroke: #c8c8c8 !important }
text:not([style*="fill"]) { fill: #dddddd }
[style*="fill: #b4432e"] { fill: #f08a72 !important }
[style*="stroke: #b4432e"] { stroke: #f08a72 !important }
[style*="fill: #47799e"] { fill: #6fa3cc !important }
[style*="stroke: #47799e"] { stroke: #6fa3cc !important }
}</style>
"""
_STYLES = {"pss_bytes": "-", "anonymous_bytes": ":"}
_LABELS = {
    "seconds": "seconds",
    "cpu_seconds": "seconds of processor time",
    "peak_pss_bytes": "peak memory of all processes, MB",
    "instructions": "instructions, millions",
}


def all_plots(results: Results) -> Iterator[tuple[str, str]]:
    """Yield each plot that the results allow, as title and SVG."""
    for key, by_subject in samples_by_subject(results).items():
        benchmark, repository, instrument = key
        plain = {name: s for name, s in by_subject.items() if not name.endswith(AGAIN)}
        if len(plain) > 1:
            yield f"{benchmark} of {repository}: {instrument}", bars(key, plain)
        if any(taken[0].series for taken in plain.values()):
            title = f"{benchmark} of {repository}: {instrument} over time"
            yield title, over_time(plain)
    yield from _scalings(results)


def bars(key: Key, by_subject: dict[str, list[Sample]]) -> str:
    """Draw a bar a subject: its median, with the range of its samples."""
    value = INSTRUMENTS[key[2]].measures
    drawing, axes = figure(1 + 0.4 * len(by_subject))
    divisor = unit(value)
    names = list(by_subject)[::-1]
    for place, name in enumerate(names):
        numbers = [sample.values[value] / divisor for sample in by_subject[name]]
        middle = statistics.median(numbers)
        spread = [[middle - min(numbers)], [max(numbers) - middle]]
        axes.barh(place, middle, color=BLUE, xerr=spread, height=0.6)
        axes.annotate(
            f" {_short(middle)}",
            (max(numbers), place),
            va="center",
            annotation_clip=False,
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(label(value))
    return svg(drawing)


def over_time(by_subject: dict[str, list[Sample]]) -> str:
    """Draw what the first sample of each subject saw over time, with its phases."""
    drawing, axes = figure(3.2)
    for number, (name, samples) in enumerate(by_subject.items()):
        series = samples[0].series
        for column, style in _STYLES.items():
            if column in series:
                megabytes = [size / 1e6 for size in series[column]]
                named = f"{name}: {column.replace('_', ' ').removesuffix(' bytes')}"
                times, color = series["seconds"], f"C{number}"
                axes.plot(times, megabytes, style, color=color, label=named)
    phases = next((s[0].phases for s in by_subject.values() if s[0].phases), [])
    top = axes.get_ylim()[1]
    for seconds, topic in phases:
        axes.axvline(seconds, color=GREY, linewidth=0.6)
        axes.text(seconds, top, topic, rotation=90, va="top", ha="right", fontsize=7)
    axes.set_xlabel("seconds")
    axes.set_ylabel("MB")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)
    return svg(drawing)


def _scalings(results: Results) -> Iterator[tuple[str, str]]:
    """Yield a plot for what was measured on three sizes of a profile, or more."""
    groups: dict[tuple[str, str, str], dict[str, dict[int, list[float]]]] = {}
    for sample in results.samples:
        profile, _colon, sizes = sample.repository.partition(":")
        changesets = results.repositories.get(sample.repository, {}).get("changesets")
        if not sizes or not isinstance(changesets, int):
            continue
        value = INSTRUMENTS[sample.instrument].measures
        if value == "seconds":
            value = "cpu_seconds"  # the clock depends on what else the machine does
        group = groups.setdefault((sample.benchmark, profile, value), {})
        by_size = group.setdefault(sample.subject, {})
        by_size.setdefault(changesets, []).append(sample.values[value])
    for (benchmark, profile, value), by_subject in groups.items():
        if max(map(len, by_subject.values())) >= 3:
            yield (
                f"{benchmark} of {profile} by size: {value}",
                scaling(value, by_subject),
            )


def scaling(value: str, by_subject: dict[str, dict[int, list[float]]]) -> str:
    """Draw cost against changesets on log axes, and name the fitted exponents."""
    drawing, axes = figure(3.6)
    divisor = unit(value)
    for name, by_size in by_subject.items():
        if name.endswith(AGAIN) or len(by_size) < 3:
            continue
        sizes = sorted(by_size)
        costs = [statistics.median(by_size[size]) / divisor for size in sizes]
        fit = growth(sizes, costs)
        named = f"{name}: exponent {fit.exponent:.2f} ± {fit.error:.2f}"
        axes.loglog(sizes, costs, "o", label=named)
        fitted = [fit.factor * size**fit.exponent for size in sizes]
        axes.loglog(sizes, fitted, "-", color=axes.lines[-1].get_color(), linewidth=0.8)
    axes.set_xlabel("changesets")
    axes.set_ylabel(label(value))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:,.6g}")
        axis.set_minor_formatter(NullFormatter())
    axes.legend(fontsize=8)
    return svg(drawing)


def figure(height: float) -> tuple[Figure, Axes]:
    """Return an empty drawing of so many inches, as wide as a page."""
    with mpl.rc_context(_LEGIBLE):
        drawing = Figure(figsize=(6.2, height), layout="constrained")
        return drawing, drawing.subplots()


def label(value: str) -> str:
    """Return what an axis is called that shows a value."""
    return _LABELS.get(value, value)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def unit(value: str) -> float:
    """Return what values are divided by, to be in the unit of their label."""
    return 1e6 if value.endswith("bytes") or value == "instructions" else 1


def svg(drawing: Figure) -> str:
    """Return a drawing as SVG, which is dark for readers who prefer that."""
    output = io.StringIO()
    drawing.savefig(output, format="svg", metadata={"Date": None})
    text = output.getvalue()
    text = text[text.index("<svg") :]
    head, defs, rest = text.partition("<defs>")
    return head + _DARK + defs + rest
