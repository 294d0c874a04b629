"""Bits of revlogs, flipped as long as there is time."""

from __future__ import annotations

import random
import time
from collections import Counter

from testlib.damage import CUT, LAYOUTS, Victim, memory
from testlib.hgserver import HgServer

_UNCHECKED = ("--config", "amalgam.git.check-texts=no")


def flip(server: HgServer, seconds: float, seed: int) -> tuple[Counter[str], list[str]]:
    """Damage stores of each layout for ``seconds`` in all.

    Returns counts, and what went wrong, with the damage that repeats it.
    """
    counts: Counter[str] = Counter()
    problems: list[str] = []
    for layout in LAYOUTS:
        with memory() as scratch:
            victim = Victim.make(scratch / "repository", layout, server)
            draw = random.Random(f"{seed} {layout}")
            end = time.monotonic() + seconds / len(LAYOUTS)
            while time.monotonic() < end:
                numbers = draw.randrange(1 << 16), draw.randrange(1 << 20)
                damage = victim.damage(*numbers, draw.randrange(CUT + 1))
                try:
                    if draw.random() < 0.2:
                        victim.survive(damage, *_UNCHECKED)
                        counts["survived unchecked"] += 1
                    else:
                        counts[victim.strike(damage)] += 1
                except AssertionError as exc:
                    counts["wrong"] += 1
                    problems.append(f"{layout}: {damage}\n{exc}")
    return counts, problems
