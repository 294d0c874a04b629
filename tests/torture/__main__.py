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
    sequences,
    serving,
    truncations,
)


class Torture:
    """The parts, one after the other, and what came of them."""

    def __init__(self, only: str) -> None:
        """``only``: how the names begin of the parts to run."""
        self._only = only
        self.counts: dict[str, dict[str, int]] = {}
        self.seconds: dict[str, float] = {}
        self.problems: list[str] = []

    def run(self, name: str, part: Callable[[], Counter[str]]) -> None:
        """Run a part; one that fails does not keep the others from running."""
        if not name.startswith(self._only):
            return
        started = time.monotonic()
        try:
            counts = part()
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
        torture.run(
            "random kills",
            lambda: kills.at_random(history, options.kills, options.seed),
        )
        torture.run(
            "random kills of roll-ups",
            lambda: kills.of_maintenance(history, options.kills, options.seed),
        )
        torture.run(
            "kills at each operation",
            lambda: kills.at_each_operation(history, scratch),
        )
        torture.run(
            "limited files", lambda: disks.limited_files(history, options.disks)
        )
        torture.run("limited files, mostly refs", lambda: disks.limited_files(named, 1))
        if reason := missing("mounts"):
            print(f"small disks: skipped, {reason}")
        else:
            torture.run(
                "small disks", lambda: disks.small_disks(history, options.disks)
            )

        def flip() -> Counter[str]:
            counts, problems = flips.flip(server, options.seconds, options.seed)
            torture.problems += problems
            return counts

        torture.run("damaged files", flip)
        torture.run(
            "truncated indexes",
            lambda: truncations.under_load(scratch, options.cuts),
        )
        torture.run(
            "random sequences",
            lambda: sequences.run(
                scratch, server, options.sequences, options.steps, options.seed
            ),
        )

        def visit() -> Counter[str]:
            counts, problems = hostile.visits(scratch, options.visits, options.seed)
            torture.problems += problems
            return counts

        torture.run("hostile files", visit)

        def serve() -> Counter[str]:
            counts, problems = hostileserving.cases(
                scratch, server, options.visits, options.seed
            )
            torture.problems += problems
            return counts

        torture.run("served hostile files", serve)

        loads = serving.all_of(scratch, server, options, torture.problems)
        for name, part in loads:
            torture.run(name, part)
        for name, part in bundles.all_of(scratch, server, options):
            torture.run(name, part)
        for name, part in objectstores.all_of(scratch, options):
            torture.run(name, part)
        for name, part in pushes.all_of(scratch, options.pushes, options.seed):
            torture.run(name, part)
        server.close()
    report = {"seed": options.seed, "counts": torture.counts}
    report |= {"problems": torture.problems, "seconds": torture.seconds}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
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
    parser.add_argument("--changes", type=int, default=100, help="with bundles")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=Path, help="file for counts and problems")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
