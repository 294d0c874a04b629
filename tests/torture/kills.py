"""kill -9, at moments drawn by chance and at every operation on files.

Of exports, and of roll-ups.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from pathlib import Path

from testlib.interruption import Interrupted, preloaded

MIDDLE = "70"
"""A revision in the middle of what is exported."""
MAINTENANCE = "debug::amalgam-maintenance"
NO_ROLL_UP = """
def extsetup(ui):
    from hgext3rd.amalgam.gitstore.export import maintenance as rollup
    rollup.after_export = lambda store: None
"""


def at_random(case: Interrupted, count: int, seed: int) -> Counter[str]:
    """Kill ``count`` exports; what they leave may pile up for a while."""
    draw = random.Random(seed)
    case.clear()
    started = time.monotonic()
    case.start().communicate()
    whole_seconds = time.monotonic() - started
    counts: Counter[str] = Counter()
    while counts["killed"] < count:
        start = draw.choice(["as it is", "as it is", "nothing", "middle"])
        if start != "as it is":
            case.clear()
        if start == "middle":
            case.export("-r", MIDDLE)
        process = case.start(*draw.choice([[], [], ["--rebuild"], ["-r", MIDDLE]]))
        # the first part of the time it takes is that of Python to start
        time.sleep(draw.uniform(draw.choice([0, 0.5]), 1) * whole_seconds)
        process.kill()
        process.communicate()
        counts["killed" if process.returncode < 0 else "too late"] += 1
        case.check_valid()
        if case.amalgam.exists() and case.debris():
            counts["left something"] += 1
        if draw.random() < 0.7:
            case.check_next()
            counts["exported again"] += 1
    case.check_next()
    return counts


def of_maintenance(case: Interrupted, count: int, seed: int) -> Counter[str]:
    """Kill ``count`` roll-ups of many packs, and look at what the next one does."""
    draw = random.Random(seed)
    many = case.root.parent / "many-packs"
    idle = case.root.parent / "norollup.py"
    idle.write_text(NO_ROLL_UP)
    case.clear()
    for revision in range(100, 124):
        process = case.start("-r", str(revision), "--config", f"extensions.idle={idle}")
        assert not process.wait()
    shutil.copytree(case.amalgam, many, symlinks=True)
    before = len(case.packs())
    started = time.monotonic()
    process = case.start(command=MAINTENANCE)
    _out, err = process.communicate()
    assert not process.returncode, err
    whole_seconds = time.monotonic() - started
    after = len(case.packs())
    assert after < before, "nothing was rolled up"
    counts: Counter[str] = Counter()
    while counts["killed"] < count:
        case.clear()
        shutil.copytree(many, case.amalgam, symlinks=True)
        process = case.start(command=MAINTENANCE)
        time.sleep(draw.uniform(0.3, 1.05) * whole_seconds)
        process.kill()
        process.communicate()
        counts["killed" if process.returncode < 0 else "too late"] += 1
        case.check_valid()
        if draw.random() < 0.5:
            assert not case.start(command=MAINTENANCE).wait()
            assert len(case.packs()) == after
            counts["rolled up again"] += 1
        case.check_next()
    return counts


def at_each_operation(case: Interrupted, scratch: Path) -> Counter[str]:
    """Kill before each operation, starting from nothing, in the middle, and anew."""
    library = preloaded(Path(__file__).with_name("killat.c"), scratch)
    environment = {
        "LD_PRELOAD": str(library),
        "KILL_BELOW": str(case.amalgam),
        "KILL_COUNT": str(scratch / "count"),
    }

    def run(start: str, kill_at: int) -> int:
        case.clear()
        if start != "nothing":
            case.export("-r", MIDDLE)
        if start == "two packs":
            case.export()
        variables = environment | {"KILL_AT": str(kill_at)}
        args = ["--rebuild"] if start == "two packs" else []
        process = case.start(*args, environment=variables)
        process.communicate()
        return process.returncode

    counts: Counter[str] = Counter()
    for start in ("nothing", "middle", "two packs"):
        assert run(start, 0) == 0
        operations = int((scratch / "count").read_text())
        for kill_at in range(1, operations + 1):
            code = run(start, kill_at)
            where = f"{start}, killed at operation {kill_at}: {code}"
            assert code == -9, where
            try:
                case.check_valid()
                case.check_next()
            except AssertionError as exc:
                raise AssertionError(f"{where}\n{exc}") from None
            counts[f"operations from {start}"] += 1
    return counts
