"""Tries the harness: a build that is 15 % slower has to be named, an unchanged one not.

Both are copies of the package that an hg loads. The slower one has a loop in its source
that takes 15 % of the instructions of an export.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import machine, runner
from .benchmark import Command
from .benchmarks import BENCHMARKS
from .instruments import INSTRUMENTS
from .report import comparison
from .results import Results

if TYPE_CHECKING:
    from collections.abc import Callable

    from .repository import Repository
    from .subject import Subject

SLOWER = 0.15
_PLACE = ("gitstore/export/export.py", "    started = time.monotonic()\n")
_LOOP = "for _lost in range({count}): pass"
_PASSES = 3


class UnfitError(Exception):
    """The harness cannot be tried here."""


def check(
    subject: Subject,
    repository: Repository,
    directory: Path,
    trials: int,
    say: Callable[[str], None],
) -> int:
    """Return how many of the trials went wrong."""
    missing = INSTRUMENTS["instructions"].missing()
    if missing:
        raise UnfitError(missing)
    unchanged = _copy(subject, directory / "unchanged", "")
    base = _measure(unchanged, repository, directory)
    instructions = base.samples[-1].values["instructions"]
    count = int(SLOWER * instructions / _instructions_of_a_turn(directory))
    slowed = _copy(subject, directory / "slowed", _LOOP.format(count=count))
    wrong = 0
    for trial in range(1, trials + 1):
        before, same, slower = (
            _measure(one, repository, directory) for one in (subject, unchanged, slowed)
        )
        for results, expected in ((same, False), (slower, True)):
            (line,) = comparison.between(before, results, subject.name, "copy")
            is_right = line.verdict.differs is expected
            wrong += not is_right
            what = "slowed" if expected else "unchanged"
            verdict = f"{line.verdict.ratio:.4f}, {line.verdict.words}"
            say(f"trial {trial}: {what}: {verdict}: {'right' if is_right else 'WRONG'}")
    say(f"{2 * trials - wrong} of {2 * trials} right")
    return wrong


def _copy(subject: Subject, directory: Path, loop: str) -> Subject:
    """Return a subject whose amalgam is a copy, with a loop in it."""
    shutil.rmtree(directory, ignore_errors=True)
    program = [str(subject.program.with_name("python3")), "-c"]
    where = "import hgext3rd.amalgam as a; print(a.__path__[0])"
    source = Path(Command([*program, where]).output().strip())
    package = directory / "hgext3rd" / "amalgam"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    if loop:
        name, place = _PLACE
        text = (package / name).read_text()
        if text.count(place) != 1:
            raise UnfitError(f"{name} has changed: where is the loop to go?")
        indented = place + " " * 4 + loop + "\n"
        (package / name).write_text(text.replace(place, indented))
    # not by whoever is first, who may be told not to write it
    Command([*program[:1], "-m", "compileall", "-q", str(package)]).output()
    wrapper = directory / "hg"
    hg = f"PYTHONPATH={shlex.quote(str(directory))} {shlex.quote(str(subject.program))}"
    wrapper.write_text(f'#!/bin/sh\nexec env {hg} "$@"\n')
    wrapper.chmod(0o755)
    copied = Command(
        [*program, where], {"PYTHONPATH": str(directory)}, directory
    ).output()
    if Path(copied.strip()) != package:
        raise UnfitError(f"{source} is found before a copy of it: use a build in place")
    return replace(subject, name="copy", program=wrapper)


def _measure(subject: Subject, repository: Repository, directory: Path) -> Results:
    results = Results(machine.facts(), subjects={subject.name: subject.kind})
    plan = runner.Plan(
        benchmarks=[BENCHMARKS["export"]],
        repositories=[repository],
        subjects=[subject],
        instruments=[INSTRUMENTS["instructions"]],
        passes=_PASSES,
        directory=directory / "runs",
        limit_seconds=600,
    )
    runner.run(plan, results, lambda _text: None)
    return results


def _instructions_of_a_turn(directory: Path) -> float:
    counts = []
    for turns in (1_000_000, 2_000_000):
        # a function, as in the build: its names are quicker than those of a module
        lines = f"def f():\n {_LOOP.format(count=turns)}\nf()"
        command = Command([sys.executable, "-c", lines])
        measured = INSTRUMENTS["instructions"].measure(command, directory)
        counts.append(measured.values["instructions"])
    return (counts[1] - counts[0]) / 1_000_000
