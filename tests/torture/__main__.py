"""Kills, full disks, flipped bits, hostile files: python -m torture, in ``tests``.

Prints counts and writes them as JSON. Whatever goes wrong is printed with what repeats
it, and ends it with 1. How long anything takes decides nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from testlib.generated import generate
from testlib.hgserver import HgServer
from testlib.interruption import Interrupted, bookmarked
from testlib.needs import missing

from . import (
    bundles,
    disks,
    flips,
    hostile,
    hostileserving,
    kills,
    objectstores,
    pushes,
    requests,
    sequences,
    serving,
    truncations,
)

#: Returns counts, and perhaps what is wrong.
Part: TypeAlias = Callable[..., Counter[str] | tuple[Counter[str], list[str]]]


class Torture:
    """The parts, one after the other, and what came of them."""

    def __init__(self, only: str) -> None:
        """``only``: how the names begin of the parts to run."""
        self._only = only
        self.counts: dict[str, dict[str, int]] = {}
        self.seconds: dict[str, float] = {}
        self.problems: list[str] = []

    def run(self, name: str, part: Part, *args: Any) -> None:
        """Run a part; one that fails does not keep the others from running."""
        if not name.startswith(self._only):
            return
        started = time.monotonic()
        try:
            counts = part(*args)
            if isinstance(counts, tuple):
                counts, problems = counts
                self.problems += problems
        except AssertionError as exc:
            counts = Counter({"wrong": 1})
            self.problems.append(f"{name}: {exc}")
        self.seconds[name] = round(time.monotonic() - started, 1)
        self.counts[name] = dict(sorted(counts.items()))
        told = ", ".join(f"{count} {what}" for what, count in self.counts[name].items())
        print(f"{name}: {told}", flush=True)


def main() -> int:
    """Run all parts and return the exit status."""
    options = _options()
    torture = Torture(options.only)
    with tempfile.TemporaryDirectory(prefix="torture-") as directory:
        scratch = Path(directory)
        server = HgServer()
        root = generate(scratch / "history", "realistic", "--changesets=150")
        history = Interrupted(root, server)
        named = Interrupted(bookmarked(scratch / "named"), server)
        kill = options.kills, options.seed
        torture.run("random kills", kills.at_random, history, *kill)
        torture.run("random kills of roll-ups", kills.of_maintenance, history, *kill)
        torture.run(
            "kills at each operation", kills.at_each_operation, history, scratch
        )
        sizes = options.disks
        torture.run("limited files", disks.limited_files, history, sizes)
        torture.run("limited files, mostly refs", disks.limited_files, named, 1)
        if reason := missing("mounts"):
            print(f"small disks: skipped, {reason}")
        else:
            torture.run("small disks", disks.small_disks, history, sizes)
        torture.run("damaged files", flips.flip, server, options.seconds, options.seed)
        cuts = options.cuts
        torture.run("truncated indexes", truncations.under_load, scratch, cuts)
        drawn = options.sequences, options.steps, options.seed
        torture.run("random sequences", sequences.run, scratch, server, *drawn)
        visits = options.visits, options.seed
        torture.run("hostile files", hostile.visits, scratch, *visits)
        cases = hostileserving.cases
        torture.run("served hostile files", cases, scratch, server, *visits)
        for name, part in (
            *serving.all_of(scratch, server, options, torture.problems),
            *bundles.all_of(scratch, server, options),
            *objectstores.all_of(scratch, options),
            *requests.all_of(scratch, server, options.requests, options.seed),
        ):
            torture.run(name, part)
        # which prepare something when they are asked for
        for name, part in pushes.all_of(scratch, options.pushes, options.seed):
            torture.run(name, part)
        server.close()
    report = {"seed": options.seed, "counts": torture.counts}
    report |= {"problems": torture.problems, "seconds": torture.seconds}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if not torture.counts:
        torture.problems.append(f"no part has run whose name begins '{options.only}'")
    for problem in torture.problems:
        print(f"\nwrong: {problem}", file=sys.stderr)
    return 1 if torture.problems else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="at random moments")
    parser.add_argument("--disks", type=int, default=40, help="sizes of full disks")
    parser.add_argument(
        "--seconds", type=float, default=120, help="to damage files for"
    )
    parser.add_argument(
        "--visits", type=float, default=300, help="seconds with hostile files"
    )
    parser.add_argument("--cuts", type=int, default=200, help="of a served repository")
    parser.add_argument("--sequences", type=int, default=200, help="of random events")
    parser.add_argument("--steps", type=int, default=30, help="of each sequence")
    parser.add_argument("--clients", type=int, default=50, help="of git, at once")
    parser.add_argument("--load", type=float, default=600, help="seconds of them")
    parser.add_argument("--corpora", type=Path, help="with bundles *.hg to serve, too")
    parser.add_argument("--only", default="", help="parts whose names begin so")
    parser.add_argument("--pushes", type=int, default=200, help="that end early")
    parser.add_argument(
        "--requests", type=float, default=120, help="seconds of drawn ones"
    )
    parser.add_argument("--changes", type=int, default=100, help="with bundles")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=Path, help="file for counts and problems")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
