"""Hostile files below ``.hg/amalgam``, and each kind of visitor."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

from testlib.hostile import Case, Problem, Scene, Servers
from testlib.needs import missing
from testlib.visiting import ONESELF, VISITORS

#: Of each case, in an order of its own: those that come first meet what is spoilt.
COMMANDS = 12


def visits(scratch: Path, seconds: float, seed: int) -> tuple[Counter[str], list[str]]:
    """Spoil files for ``seconds`` and let visitors run all commands.

    Returns counts, and what went wrong, once for each kind, command and state.
    """
    draw = random.Random(seed)
    scratch.chmod(0o755)
    visitors = (ONESELF,) if missing("users") else VISITORS
    servers = Servers.start()
    scenes = [Scene(scratch / "scenes", visitor, servers) for visitor in visitors]
    counts: Counter[str] = Counter()
    problems: dict[tuple[str, ...], Problem] = {}
    rounds = [(scene, spoiling) for scene in scenes for spoiling in scene.spoilings]
    draw.shuffle(rounds)
    end = time.monotonic() + seconds
    for scene, spoiling in rounds:
        if time.monotonic() > end:
            break
        case = Case(scene, spoiling, f"{seed} {scene.visitor.name} {spoiling}")
        for problem in case.problems(COMMANDS):
            counts[problem.kind] += 1
            key = (problem.kind, problem.command, spoiling.state)
            problems.setdefault(key, problem)
        counts["commands"] += case.ran
        counts["cases"] += 1
        case.close()
    servers.close()
    return counts, [str(problem) for problem in problems.values()]
