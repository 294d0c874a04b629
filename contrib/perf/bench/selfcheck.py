"""A trial of the harness: it has to report a slower program, and no equal one.

Both are an hg with one more extension. That of the slower one has a loop, which takes
15 % of the instructions of an export, or of what else an instrument measures.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import runner
from .benchmark import Command
from .report import comparison
from .results import Results

if TYPE_CHECKING:
    from .instruments import Instrument
    from .subject import Subject

SLOWER = 0.15
_LOOP = "def uisetup(ui):\n    for _lost in range({}): pass\n"


def check(plan: runner.Plan, directory: Path, trials: int) -> int:
    """Return how many of the trials went wrong; ``plan`` has one subject."""
    (subject,), (instrument,) = plan.subjects, plan.instruments
    equal = _with_loop(subject, directory / "equal", 0)
    (*_, sample) = _measured(plan, equal).samples
    whole, turn = sample.values[instrument.measures], _turn(instrument)
    slower = _with_loop(subject, directory / "slower", int(SLOWER * whole / turn))
    wrong = 0
    for trial in range(1, trials + 1):
        before = _measured(plan, subject)
        for other in (equal, slower):
            after = _measured(plan, other)
            (line,) = comparison.between(before, after, subject.name, other.name)
            is_right = line.verdict.differs is (other is slower)
            wrong += not is_right
            said = f"{line.verdict.ratio:.4f}, {line.verdict.words}"
            print(f"trial {trial}: {other.name}: {said}{'' if is_right else ': WRONG'}")
    print(f"{2 * trials - wrong} of {2 * trials} right")
    return wrong


def _with_loop(subject: Subject, directory: Path, turns: int) -> Subject:
    """Return a subject that does the same, after so many turns of a loop."""
    directory.mkdir(parents=True, exist_ok=True)
    extension, wrapper = directory / "loop.py", directory / "hg"
    extension.write_text(_LOOP.format(turns))
    words = [str(subject.program), "--config", f"extensions.loop={extension}"]
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    wrapper.chmod(0o755)
    return replace(subject, name=directory.name, program=wrapper)


def _measured(plan: runner.Plan, subject: Subject) -> Results:
    results = Results({}, subjects={subject.name: subject.kind})
    runner.run(replace(plan, subjects=[subject]), results, lambda _text: None)
    return results


def _turn(instrument: Instrument) -> float:
    """Return the cost of a turn of the loop."""
    costs = []
    for turns in (1_000_000, 2_000_000):
        program = f"{_LOOP.format(turns)}uisetup(None)"
        command = Command([sys.executable, "-c", program])
        with tempfile.TemporaryDirectory() as files:
            costs.append(instrument.measure(command, Path(files)).values)
    more, less = costs[1][instrument.measures], costs[0][instrument.measures]
    return (more - less) / 1_000_000
