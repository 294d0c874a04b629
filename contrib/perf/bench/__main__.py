"""The command line: python -m bench COMMAND, see --help."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from . import machine, repository, runner, selfcheck, tables
from .benchmark import CommandError
from .benchmarks import BENCHMARKS
from .history import kept, trend
from .history.revision import Revision
from .instruments import INSTRUMENTS
from .report import comparison, explanation, headline, page, plots, trends
from .results import Results, UnreadableError, merge
from .subject import KINDS, SpecificationError, Subject

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROBLEMS = (
    CommandError,
    OSError,
    SpecificationError,
    UnreadableError,
    headline.MissingError,
    repository.UnusableError,
    runner.DisagreementError,
    selfcheck.UnfitError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; 1 if something cannot be done."""
    options = _parser().parse_args(arguments)
    if "cache" in options:
        options.cache = options.cache.absolute()
    try:
        status: int = options.function(options)
    except _PROBLEMS as err:
        print(f"bench: {err}", file=sys.stderr)
        return 1
    return status


def _run(options: argparse.Namespace) -> int:
    """Measure, and write the results."""
    subjects: list[Subject] = []
    for text in options.subject:
        hg = subjects[0].hg if subjects else None
        subjects.append(Subject.parse(text, hg))
    results = Results(machine.facts(), command=_command_line())
    results.subjects = {s.name: f"{s.kind}, {s.version()}" for s in subjects}
    repositories = _repositories(options, subjects[0].hg, results)
    instruments = []
    for name in options.instrument or ["time"]:
        missing = INSTRUMENTS[name].missing()
        if missing:
            results.skipped.append(f"{name}: {missing}")
        else:
            instruments.append(INSTRUMENTS[name])
    plan = runner.Plan(
        benchmarks=[BENCHMARKS[name] for name in options.benchmarks],
        repositories=repositories,
        subjects=subjects,
        instruments=instruments,
        passes=options.passes,
        directory=options.cache / "runs",
        limit_seconds=options.limit,
    )
    runner.run(plan, results, _say)
    results.write(options.output)
    _print_lines(list(comparison.within(results)))
    return 0


def _tables(options: argparse.Namespace) -> int:
    """Have hg's perf commands print their tables, and write them as results."""
    subject = Subject.parse(options.subject, None)
    results = Results(machine.facts(), command=_command_line())
    results.subjects = {subject.name: f"{subject.kind}, {subject.version()}"}
    repositories = _repositories(options, subject.hg, results)
    results.tables = tables.measure(
        subject.hg, repositories, options.limits, _say, options.commands
    )
    results.write(options.output)
    for (name, title), rows in tables.by_title(results.tables).items():
        head, lines = tables.columns(rows)
        print(f"\n{name}: {title}")
        for line in [head, *lines]:
            print(f"{line[0]:<24}" + "".join(f"{cell:>12}" for cell in line[1:]))
    return 0


def _compare(options: argparse.Namespace) -> int:
    """Say what differs, between two files or within one."""
    before = Results.read(options.before)
    if options.after:
        after = Results.read(options.after)
        base = options.base or next(iter(before.subjects))
        other = options.other or next(iter(after.subjects))
        lines = list(comparison.between(before, after, base, other))
    else:
        lines = [
            line
            for line in comparison.within(before)
            if options.other in (None, line.other)
        ]
    if not lines:
        raise UnreadableError("the two have nothing in common")
    _print_lines(lines)
    return 0


def _plot(options: argparse.Namespace) -> int:
    """Write each plot into a directory."""
    options.directory.mkdir(parents=True, exist_ok=True)
    results = merge(map(Results.read, options.results))
    for title, svg in plots.all_plots(results):
        name = "-".join("".join(c if c.isalnum() else " " for c in title).split())
        path = options.directory / f"{name}.svg"
        path.write_text(svg)
        print(path)
    return 0


def _report(options: argparse.Namespace) -> int:
    """Write the page."""
    results = merge(map(Results.read, options.results))
    options.output.write_text(page.page(results))
    print(options.output)
    return 0


def _keep(options: argparse.Namespace) -> int:
    """Keep results with the revision of the tree that they are of."""
    results = merge(map(Results.read, options.results))
    print(kept.keep(results, Revision.of(options.tree), options.history))
    return 0


def _history(options: argparse.Namespace) -> int:
    """Draw what was kept over the commits, and say where it changed."""
    runs, others = kept.of_one_machine(kept.read(options.history))
    newest = runs[-1][1][-1]
    subject = options.subject or next(iter(newest.subjects))
    found = list(trend.trends(runs, subject))
    if not found:
        raise UnreadableError(
            f"{options.history}: nothing of '{subject}' was measured at two commits"
        )
    names = f"{len(runs)} revisions, measured on {machine.name(newest.machine)}."
    if others:
        names += f" Left out: {others} runs on other machines."
    options.output.write_text(trends.page(found, subject, names))
    for sentence in trends.sentences(found):
        print(sentence)
    print(options.output)
    return 0


def _rst(options: argparse.Namespace) -> int:
    """Print the tables for a page of docs."""
    print(tables.as_rst(merge(map(Results.read, options.results)).tables))
    return 0


def _headline(options: argparse.Namespace) -> int:
    """Put table and plot into the README."""
    headline.write(merge(map(Results.read, options.results)), options.readme)
    return 0


def _explanation(options: argparse.Namespace) -> int:
    """Put pictures, sentences and tables into a page of docs."""
    explanation.write(merge(map(Results.read, options.results)), options.page)
    return 0


def _selfcheck(options: argparse.Namespace) -> int:
    """Slow a build down on purpose, and see whether that is found out."""
    subject = Subject.parse(options.subject, None)
    cache = options.cache
    on = repository.prepare(options.repository, cache / "repositories", subject.hg)
    wrong = selfcheck.check(subject, on, cache / "selfcheck", options.trials, print)
    return 1 if wrong else 0


def _repositories(
    options: argparse.Namespace, hg: Path, results: Results
) -> list[repository.Repository]:
    found = []
    for text in options.repository:
        _say(f"repository: {text}")
        found.append(repository.prepare(text, options.cache / "repositories", hg))
    results.repositories = {one.name: one.describe() for one in found}
    return found


def _print_lines(lines: list[comparison.Line]) -> None:
    for line in lines:
        print(
            f"{' '.join(line.key)}: {line.other} "
            f"{comparison.formatted(line.value, line.other_median)}, {line.base} "
            f"{comparison.formatted(line.value, line.base_median)}: "
            f"{line.verdict.ratio:.3f} ({line.verdict.low:.3f} to "
            f"{line.verdict.high:.3f}, noise up to {line.verdict.band:.3f}): "
            f"{line.verdict.words}"
        )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _command_line() -> str:
    return shlex.join(["bench", *sys.argv[1:]])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    run = commands.add_parser("run", help="measure", description=_run.__doc__)
    run.add_argument("benchmarks", nargs="+", choices=BENCHMARKS, metavar="BENCHMARK")
    kinds = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    run.add_argument(
        "-m",
        "--subject",
        action="append",
        required=True,
        metavar="NAME=[KIND:]PATH",
        help=f"whose work; the first is what others are compared with. {kinds}",
    )
    run.add_argument(
        "-i",
        "--instrument",
        action="append",
        choices=INSTRUMENTS,
        metavar="INSTRUMENT",
        help=f"any of {', '.join(INSTRUMENTS)}; by default time",
    )
    run.add_argument("--passes", type=int, default=5)
    run.add_argument(
        "--limit", type=float, default=600, help="seconds that a run may take"
    )
    run.set_defaults(function=_run)

    perf = commands.add_parser("tables", help="warm and cold, by hg's perf commands")
    perf.add_argument(
        "commands",
        nargs="+",
        choices=tables.COMMANDS,
        metavar="TABLE",
        help=f"any of {', '.join(tables.COMMANDS)}",
    )
    perf.add_argument("-m", "--subject", required=True, metavar="NAME=[KIND:]PATH")
    perf.add_argument("--limits", default="15.0-10,40.0-3", help="perf.run-limits")
    perf.set_defaults(function=_tables)
    for command in (run, perf):
        command.add_argument(
            "-r",
            "--repository",
            action="append",
            required=True,
            metavar="REPOSITORY",
            help="a directory, a bundle FILE.hg, or PROFILE[:changesets=N,...]",
        )
        command.add_argument("-o", "--output", type=Path, required=True)
        command.add_argument("--cache", type=Path, default=Path("build", "bench"))

    compare = commands.add_parser("compare", help="say what differs")
    compare.add_argument("before", type=Path, help="results")
    compare.add_argument("after", type=Path, nargs="?", help="other results")
    compare.add_argument("--base", help="subject of the first; its first by default")
    compare.add_argument("--other", help="subject that is compared with it")
    compare.set_defaults(function=_compare)

    plot = commands.add_parser("plot", help="draw")
    plot.add_argument("results", type=Path, nargs="+")
    plot.add_argument("-d", "--directory", type=Path, default=Path("plots"))
    plot.set_defaults(function=_plot)

    report = commands.add_parser("report", help="write one page with everything in it")
    report.add_argument("results", type=Path, nargs="+")
    report.add_argument("-o", "--output", type=Path, default=Path("report.html"))
    report.set_defaults(function=_report)

    where = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    where = where / "hg-amalgam" / "perf-history"
    keep = commands.add_parser("keep", help="keep results by revision")
    keep.add_argument("results", type=Path, nargs="+")
    keep.add_argument(
        "--tree", type=Path, default=Path(__file__).parents[3], help="what was measured"
    )
    keep.set_defaults(function=_keep)

    history = commands.add_parser("history", help="trends over what was kept, a page")
    history.add_argument("-m", "--subject", help="the first one, by default")
    history.add_argument("-o", "--output", type=Path, default=Path("history.html"))
    history.set_defaults(function=_history)
    for command in (keep, history):
        command.add_argument("--history", type=Path, default=where, metavar="DIRECTORY")

    rst = commands.add_parser("rst", help="print tables for a page of docs")
    rst.add_argument("results", type=Path, nargs="+")
    rst.set_defaults(function=_rst)

    readme = commands.add_parser(
        "headline", help="put a table and a plot in the README"
    )
    readme.add_argument("results", type=Path, nargs="+")
    readme.add_argument("--readme", type=Path, required=True)
    readme.set_defaults(function=_headline)

    docs = commands.add_parser("explanation", help="put results in a page of docs")
    docs.add_argument("results", type=Path, nargs="+")
    docs.add_argument("--page", type=Path, required=True)
    docs.set_defaults(function=_explanation)

    check = commands.add_parser("selfcheck", help="try the harness itself")
    check.add_argument("-m", "--subject", required=True, metavar="NAME=[KIND:]PATH")
    check.add_argument("-r", "--repository", default="realistic:changesets=300")
    check.add_argument("--trials", type=int, default=10)
    check.add_argument("--cache", type=Path, default=Path("build", "bench"))
    check.set_defaults(function=_selfcheck)
    return parser


if __name__ == "__main__":
    sys.exit(main())
