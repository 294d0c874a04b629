"""The command line: python -m bench COMMAND, see --help."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hgext3rd.amalgam.perf.passes import Disagreement

from . import history, repository, runner, selfcheck, tables
from .benchmark import CommandError, InputError
from .benchmarks import BENCHMARKS
from .instruments import INSTRUMENTS
from .report import comparison, documents, pages
from .results import Results, machine_facts, machine_name, merge
from .subject import KINDS, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PROBLEMS = (CommandError, Disagreement, InputError, OSError)
_HISTORY = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_HISTORY = _HISTORY / "hg-amalgam" / "perf-history"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; 1 if something cannot be done."""
    options = _parser().parse_args(arguments)
    try:
        options.function(options)
    except _PROBLEMS as err:
        print(f"bench: {err}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    """Measure, write the results, and name the differences."""
    subjects: list[Subject] = []
    for text in options.subject:
        hg = subjects[0].hg if subjects else None
        subjects.append(Subject.parse(text, hg))
    results, repositories = _begun(options, subjects)
    runner.run(_plan(options, subjects, repositories, results), results, _say)
    results.write(options.output)
    _print_lines(list(comparison.within(results)))
    _print_exponents(results)


def _selfcheck(options: argparse.Namespace) -> None:
    """Slow hg down on purpose, and see whether the harness finds out."""
    subject = Subject.parse(options.subject, None)
    results, repositories = _begun(options, [subject])
    plan = _plan(options, [subject], repositories, results)
    if not plan.instruments:
        raise CommandError(results.skipped[0])
    if selfcheck.check(plan, options.cache.absolute() / "selfcheck", options.trials):
        raise CommandError("the harness was wrong")


def _tables(options: argparse.Namespace) -> None:
    """Take the tables of hg's perf commands, and write them as results."""
    subject = Subject.parse(options.subject, None)
    results, repositories = _begun(options, [subject])
    results.tables = tables.measure(
        subject.hg, repositories, options.limits, _say, options.commands
    )
    results.write(options.output)


def _compare(options: argparse.Namespace) -> None:
    """Say what differs, between two files or within one."""
    before = Results.read(options.before)
    if options.after:
        after = Results.read(options.after)
        base, other = next(iter(before.subjects)), next(iter(after.subjects))
        lines = list(comparison.between(before, after, base, other))
    else:
        lines = list(comparison.within(before))
    if not lines:
        raise InputError("the two have nothing in common")
    _print_lines(lines)
    _print_exponents(after if options.after else before)


def _exponents(options: argparse.Namespace) -> None:
    """Say how cost grows over results that are of different sizes."""
    _print_exponents(_merged(options))


def _report(options: argparse.Namespace) -> None:
    """Write the page."""
    options.output.write_text(pages.outcome(_merged(options)))
    print(options.output)


def _keep(options: argparse.Namespace) -> None:
    """Keep results with the revision of the tree that they are of."""
    revision = history.Revision.of(options.tree)
    print(history.keep(_merged(options), revision, options.history))


def _history(options: argparse.Namespace) -> None:
    """Draw what was kept over the commits, and say where it changed."""
    runs, others = history.of_one_machine(history.read(options.history))
    newest = runs[-1][1][-1]
    subject = options.subject or next(iter(newest.subjects))
    found = list(history.trends(runs, subject))
    if not found:
        raise InputError(
            f"{options.history}: nothing of '{subject}' was measured at two commits"
        )
    names = f"{len(runs)} revisions, measured on {machine_name(newest.machine)}."
    if others:
        names += f" Left out: {others} runs on other machines."
    options.output.write_text(pages.history(found, subject, names))
    for sentence in pages.sentences(found):
        print(sentence)
    print(options.output)


def _rst(options: argparse.Namespace) -> None:
    """Print the tables for a page of docs."""
    print(tables.as_rst(_merged(options).tables))


def _explanation(options: argparse.Namespace) -> None:
    """Put pictures, sentences and tables into a page of docs."""
    documents.explanation(_merged(options), options.page)


def _merged(options: argparse.Namespace) -> Results:
    return merge(map(Results.read, options.results))


def _begun(
    options: argparse.Namespace, subjects: list[Subject]
) -> tuple[Results, list[repository.Repository]]:
    """Return results without samples yet, and the repositories they will be of."""
    results = Results(machine_facts(), command=shlex.join(["bench", *sys.argv[1:]]))
    results.subjects = {s.name: f"{s.kind}, {s.version()}" for s in subjects}
    found, cache = [], options.cache.absolute() / "repositories"
    for text in options.repository:
        _say(f"repository: {text}")
        found.append(repository.prepare(text, cache, subjects[0].hg))
    results.repositories = {one.name: one.describe() for one in found}
    return results, found


def _plan(
    options: argparse.Namespace,
    subjects: list[Subject],
    repositories: list[repository.Repository],
    results: Results,
) -> runner.Plan:
    """Return a plan with the instruments that there are; note the missing ones."""
    instruments = []
    for name in options.instrument or ["time"]:
        missing = INSTRUMENTS[name].missing()
        if missing:
            results.skipped.append(f"{name}: {missing}")
        else:
            instruments.append(INSTRUMENTS[name])
    return runner.Plan(
        benchmarks=[BENCHMARKS[name] for name in options.benchmarks],
        repositories=repositories,
        subjects=subjects,
        instruments=instruments,
        passes=options.passes,
        directory=options.cache.absolute() / "runs",
        limit_seconds=600,
    )


def _print_lines(lines: list[comparison.Line]) -> None:
    for line in lines:
        print(
            f"{' '.join(line.key)}: {line.other} "
            f"{comparison.formatted(line.value, line.other_median)}, {line.base} "
            f"{comparison.formatted(line.value, line.base_median)}: "
            f"{line.verdict.ratio:.3f} (noise up to {line.verdict.band:.3f}): "
            f"{line.verdict.words}"
        )


def _print_exponents(results: Results) -> None:
    """Say how cost grows, where a benchmark was run on repositories of two sizes."""
    for line in comparison.exponents(results):
        print(line)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(
        name: str, function: Callable[[argparse.Namespace], None]
    ) -> argparse.ArgumentParser:
        words = function.__doc__
        added = commands.add_parser(name, help=words, description=words)
        added.set_defaults(function=function)
        return added

    run = command("run", _run)
    run.add_argument("benchmarks", nargs="+", choices=BENCHMARKS, metavar="BENCHMARK")
    kinds = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    words = f"whose work; the first is what others are compared with. {kinds}"
    place = "NAME=[KIND:]PATH"
    run.add_argument(
        "-m", "--subject", action="append", required=True, metavar=place, help=words
    )
    words = f"any of {', '.join(INSTRUMENTS)}; by default time"
    run.add_argument(
        "-i", "--instrument", action="append", choices=INSTRUMENTS, help=words
    )
    run.add_argument("--passes", type=int, default=5)

    perf = command("tables", _tables)
    names = tables.COMMANDS
    perf.add_argument("commands", nargs="+", choices=names, metavar="TABLE")
    perf.add_argument("-m", "--subject", required=True, metavar=place)
    perf.add_argument("--limits", default="15.0-10,40.0-3", help="perf.run-limits")

    words = "a directory, a bundle FILE.hg, or PROFILE[:changesets=N,...]"
    for measures in (run, perf):
        measures.add_argument(
            "-r", "--repository", action="append", required=True, help=words
        )
        measures.add_argument("-o", "--output", type=Path, required=True)
        measures.add_argument("--cache", type=Path, default=Path("build", "bench"))

    check = command("selfcheck", _selfcheck)
    check.add_argument("-m", "--subject", required=True, metavar=place)
    check.add_argument("-i", "--instrument", nargs=1, choices=INSTRUMENTS)
    check.add_argument("--trials", type=int, default=10)
    check.add_argument("--cache", type=Path, default=Path("build", "bench"))
    check.set_defaults(benchmarks=["export"], instrument=["instructions"], passes=3)
    check.set_defaults(repository=["realistic:changesets=300"])

    compare = command("compare", _compare)
    compare.add_argument("before", type=Path, help="results")
    compare.add_argument("after", type=Path, nargs="?", help="other results")

    report, keep = command("report", _report), command("keep", _keep)
    report.add_argument("-o", "--output", type=Path, default=Path("report.html"))
    tree = Path(__file__).parents[3]
    keep.add_argument("--tree", type=Path, default=tree, help="what was measured")
    shown = command("history", _history)
    shown.add_argument("-m", "--subject", help="the first one, by default")
    shown.add_argument("-o", "--output", type=Path, default=Path("history.html"))
    for kept in (keep, shown):
        kept.add_argument("--history", type=Path, default=_HISTORY, metavar="DIRECTORY")
    docs = command("explanation", _explanation)
    docs.add_argument("--page", type=Path, required=True)
    grown = command("exponents", _exponents)
    for reads in (report, keep, docs, grown, command("rst", _rst)):
        reads.add_argument("results", type=Path, nargs="+")
    return parser


if __name__ == "__main__":
    sys.exit(main())
