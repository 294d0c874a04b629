"""The outcome in one picture and some sentences: each subject as a ratio to the first.

Ratios of all benchmarks fit on one axis, which seconds and bytes do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..benchmarks import BENCHMARKS
from ..subject import AGAIN
from . import comparison, plots
from .comparison import formatted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from ..results import Results
    from .comparison import Line

#: Instrument to what its bars are called, and their colour.
_BARS = {"time": ("processor time", plots.BLUE), "memory": ("memory", plots.ORANGE)}
#: Seconds on the clock depend more on what else a machine does.
_VALUES = {"time": "cpu_seconds"}
_HEIGHT = 0.36
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


@dataclass(frozen=True)
class Group:
    """A benchmark on a repository: each other subject with its lines by instrument."""

    title: str
    base: str
    rows: dict[str, dict[str, Line]]

    def bases(self) -> Iterator[tuple[str, str]]:
        """Yield what the first subject took, by instrument."""
        found = {name: line for row in self.rows.values() for name, line in row.items()}
        for name in _BARS:
            if name in found:
                line = found[name]
                yield name, formatted(line.value, line.base_median)


def groups(results: Results) -> list[Group]:
    """Return what can be shown; nothing if there is only one subject."""
    found: dict[tuple[str, str], Group] = {}
    for line in comparison.within(results, _VALUES):
        benchmark, repository, instrument = line.key
        if instrument not in _BARS or line.other.endswith(AGAIN):
            continue
        group = found.setdefault(
            line.key[:2], Group(title(results, benchmark, repository), line.base, {})
        )
        group.rows.setdefault(line.other, {})[instrument] = line
    order = [*BENCHMARKS]
    return [
        found[key]
        for key in sorted(
            found,
            key=lambda key: order.index(key[0]) if key[0] in order else len(order),
        )
    ]


def title(results: Results, benchmark: str, repository: str) -> str:
    """Return what is measured in words, and on how large a repository."""
    known = BENCHMARKS.get(benchmark)
    name = (known and known.title) or benchmark
    changesets = results.repositories.get(repository, {}).get("changesets")
    if not isinstance(changesets, int):
        return f"{name}, {repository}"
    profile = repository.partition(":")[0]
    return f"{name}, {profile} ({changesets:,} changesets)"


def sentences(results: Results) -> Iterator[str]:
    """Yield one for each group: what the first takes, and the others against it."""
    for group in groups(results):
        own = " and ".join(
            f"{text} of {_BARS[name][0]}" for name, text in group.bases()
        )
        others = []
        for name, row in group.rows.items():
            parts = [
                f"{_words(row[instrument])} {_BARS[instrument][0]}"
                for instrument in _BARS
                if instrument in row
            ]
            others.append(f"{name} takes {' and '.join(parts)}")
        yield f"{group.title}: {group.base} takes {own}. {'; '.join(others)}."


def draw(results: Results) -> str:
    """Draw it: a bar to the right is a program that takes more than the first."""
    shown = groups(results)
    lines = 1.25 * len(shown) + sum(len(group.rows) for group in shown)
    drawing, axes = plots.figure(1.1 + 0.42 * lines)
    top = 0.0
    places: dict[float, str] = {}
    for group in shown:
        axes.annotate(
            group.title,
            (0, top),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            weight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
        for number, (name, row) in enumerate(group.rows.items(), 1):
            places[top + number] = name
            for half, instrument in enumerate(_BARS):
                if instrument in row:
                    middle = top + number + (half - 0.5) * _HEIGHT
                    _bar(axes, middle, row[instrument], _BARS[instrument][1])
        top += len(group.rows) + 1.25
    _finish(axes, shown, places, top)
    return plots.svg(drawing)


def _bar(axes: Axes, middle: float, line: Line, color: str) -> None:
    ratio = line.verdict.ratio
    axes.barh(middle, ratio - 1, left=1, height=_HEIGHT, color=color)
    more = ratio >= 1
    axes.annotate(
        _factor(line),
        (ratio, middle),
        xytext=(4 if more else -4, 0),
        textcoords="offset points",
        va="center",
        ha="left" if more else "right",
        fontsize=8,
        annotation_clip=False,
    )


def _finish(
    axes: Axes, shown: list[Group], places: dict[float, str], bottom: float
) -> None:
    ratios = [
        line.verdict.ratio
        for group in shown
        for row in group.rows.values()
        for line in row.values()
    ]
    axes.set_xscale("log")
    left, right = min([*ratios, 0.8]) / 1.9, max([*ratios, 1.25]) * 1.9
    axes.set_xlim(left, right)
    ticks = [tick for tick in _TICKS if left < tick < right]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom - 0.4, -0.7)
    axes.set_yticks([*places], [*places.values()])
    axes.tick_params(axis="y", length=0)
    axes.axvline(1, color=plots.GREY, lw=1)
    base = shown[0].base if shown else "the first"
    axes.set_xlabel(f"times what {base} takes (1 = the same)")
    for name, color in _BARS.values():
        axes.barh(0, 0, left=1, color=color, label=name)
    axes.figure.legend(loc="outside upper right", ncols=2, frameon=False)


def _factor(line: Line) -> str:
    if not line.verdict.differs:
        return "same"
    ratio = line.verdict.ratio
    return f"{ratio:.2g} \N{MULTIPLICATION SIGN}"


def _words(line: Line) -> str:
    if not line.verdict.differs:
        return "the same"
    return line.verdict.words.replace(" % ", "% ")
