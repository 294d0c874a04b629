"""Pushes of git commits, compared with what git-cinnabar makes of the same commits.

    python3 -m oracle.pushes --cinnabar PROGRAM [--random N] [--both N] [--pulled N]...

Random histories are converted in up to three pushes. Stock hg takes each changegroup.
The nodes have to be those of the reference (``testlib.pushed``). Other random histories
and the surviving commits of real ones are pushed by git-cinnabar into a stock server,
too, which has to get the same nodes. What git-cinnabar cannot push is counted by its
cause. More random histories are pushed by git to a server, from which all clients pull
(``pulls``). Ends with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

from testlib.converted import Target
from testlib.environment import ENVIRONMENT, HG, git, hg
from testlib.pushed import Pushed
from testlib.randomhistories import History

from . import pulls

_MARKED = 8
"""One of so many histories for git-cinnabar has contents like Mercurial's metadata."""
_MARKED_CONTENT = "contents that begin like metadata"
_EMPTY_ROOT = "an empty root and an empty file, which have one id"
_PANIC = "Option::unwrap()"
_SHOWN = 3


@dataclass
class Outcome:
    """What the comparison of one history gave."""

    name: str
    commits: int = 0
    equal: int = 0
    """Commits with one node on both sides."""
    cause: str = ""
    """Why git-cinnabar is no oracle for it, if that is known."""
    problems: list[str] = field(default_factory=list)


class Cinnabar:
    """git-cinnabar as a client of a stock server."""

    def __init__(self, program: Path) -> None:
        path = [str(program.parent), str(HG.parent), ENVIRONMENT["PATH"]]
        self.environment = ENVIRONMENT | {
            "PATH": ":".join(path),
            "GIT_CINNABAR_CHECK": "no-version-check",
        }

    def push(self, source: Path, tips: Sequence[str], target: Path) -> bytes:
        """Push commits into an empty repository; return what was said of a failure."""
        borrowing = target.with_name(f"{target.name}.git")
        git(target.parent, "init", "-q", "--bare", str(borrowing))
        alternates = borrowing / "objects" / "info" / "alternates"
        alternates.write_text(f"{source.resolve()}/objects\n")
        options = ("-c", "cinnabar.experiments=merge", "-c", "cinnabar.data=never")
        refs = [
            f"+{tip}:refs/heads/bookmarks/b{number}" for number, tip in enumerate(tips)
        ]
        done = subprocess.run(
            ["git", *options, "push", "-q", f"hg::{target}", *refs],
            cwd=borrowing,
            env=self.environment,
            capture_output=True,
        )
        return done.stderr if done.returncode else b""


def against_reference(seed: int, scratch: Path) -> Outcome:
    """Convert a random history in parts, and compare it with the reference."""
    outcome = Outcome(f"random {seed}")
    draw = random.Random(seed)
    place = Path(tempfile.mkdtemp(dir=scratch))
    history = History(place / "project.git", draw)
    target = _empty(place / "target", scratch)
    try:
        for _push in range(draw.choice([1, 2, 3])):
            history.grow(draw.choice([1, 10, 25]))
            memory_bytes = draw.choice([0, 1 << 20, 32 << 20])
            heads = history.heads()
            target.push(history.repo.path, *heads, memory_bytes=memory_bytes)
        if seed % 10 == 0 and "warning" in (said := target.hg("verify", "-q")):
            outcome.problems.append(said)
    except AssertionError as exc:
        outcome.problems.append(str(exc))
    reference = Pushed(history.repo.path, "--all").changesets
    expected = {oid: it.node.hex() for oid, it in reference.items()}
    _compare(outcome, target.known, expected)
    shutil.rmtree(place)
    return outcome


def against_cinnabar(seed: int, scratch: Path, program: Path) -> Outcome:
    """Convert a random history, and let git-cinnabar push it."""
    outcome = Outcome(f"random {seed} by both")
    draw = random.Random(seed)
    place = Path(tempfile.mkdtemp(dir=scratch))
    is_marked = seed % _MARKED == 0
    history = History(place / "project.git", draw, has_marks=is_marked)
    history.grow(draw.choice([5, 20, 40]))
    _push_both(outcome, history.repo.path, history.heads(), scratch, place, program)
    if outcome.problems and is_marked:
        outcome.cause, outcome.problems = _MARKED_CONTENT, []
    elif history.has_empty_root() and _PANIC in "".join(outcome.problems):
        outcome.cause, outcome.problems = _EMPTY_ROOT, []
    shutil.rmtree(place)
    return outcome


def against_real(source: Path, most: int, scratch: Path, program: Path) -> Outcome:
    """Do the same with commits of a real history that survive, the oldest first."""
    outcome = Outcome(str(source))
    place = Path(tempfile.mkdtemp(dir=scratch))
    tips = _surviving(source, most)
    _push_both(outcome, source, tips, scratch, place, program)
    shutil.rmtree(place)
    return outcome


def pulled(
    seed: int, scratch: Path, program: Path, receivers: Sequence[Path]
) -> Outcome:
    """Push a random history with git, and let all clients pull."""
    outcome = Outcome(f"random {seed} pulled")
    place = Path(tempfile.mkdtemp(dir=scratch))
    environment = Cinnabar(program).environment
    try:
        outcome.commits, outcome.problems = pulls.problems_after_pushes(
            seed, place, [HG, *receivers], environment
        )
    except AssertionError as exc:
        outcome.problems.append(str(exc))
    outcome.equal = 0 if outcome.problems else outcome.commits
    shutil.rmtree(place)
    return outcome


def _push_both(
    outcome: Outcome,
    source: Path,
    tips: Sequence[str],
    scratch: Path,
    place: Path,
    program: Path,
) -> None:
    target = _empty(place / "ours", scratch)
    try:
        target.push(source, *tips)
    except AssertionError as exc:
        outcome.problems.append(str(exc))
    theirs = _empty(place / "theirs", scratch)
    said = Cinnabar(program).push(source, tips, theirs.root)
    if said:
        outcome.commits = len(target.known)
        text = said[-500:].decode(errors="replace")
        outcome.problems.append(f"git-cinnabar: {text}")
        return
    nodes = {*theirs.hg("log", "-T", "{node}\n").split()}
    _compare(
        outcome,
        target.known,
        {oid: node if node in nodes else "" for oid, node in target.known.items()},
    )
    if len(nodes) != len(target.known):
        outcome.problems.append(f"{len(nodes)} changesets, not {len(target.known)}")


def _compare(outcome: Outcome, found: dict[str, str], expected: dict[str, str]) -> None:
    outcome.commits = len(expected)
    different = [oid for oid, node in expected.items() if found.get(oid) != node]
    outcome.equal = len(expected) - len(different)
    for oid in different[:_SHOWN]:
        outcome.problems.append(f"commit {oid}: ours is {found.get(oid)}")
    if different[_SHOWN:]:
        outcome.problems.append(f"and {len(different) - _SHOWN} others")


def _surviving(source: Path, most: int) -> list[str]:
    """Return the heads of the first ``most`` commits that survive a push."""
    command = [str(HG), "--config=extensions.amalgam=", "git::survey", "--commits"]
    surveyed = subprocess.run(
        [*command, "-T", "json", str(source), "HEAD"],
        cwd=source,
        env=ENVIRONMENT,
        capture_output=True,
    )
    assert surveyed.returncode in (0, 1), surveyed.stderr.decode()
    refused = {it["commit"] for it in json.loads(surveyed.stdout)[0]["refusals"]}
    listed = git(source, "rev-list", "--topo-order", "--reverse", "--parents", "HEAD")
    heads: dict[str, None] = {}
    count = 0
    for line in listed.decode().splitlines():
        oid, *parents = line.split()
        if oid not in refused and count < most:
            count += 1
            heads[oid] = None
            for parent in parents:
                heads.pop(parent, None)
    return list(heads)


def _empty(root: Path, scratch: Path) -> Target:
    """Make an empty repository."""
    template = scratch / "empty"
    shutil.copytree(template, root)
    return Target(root)


def _print(outcome: Outcome) -> None:
    verdict = f"{outcome.equal} of {outcome.commits} nodes equal"
    verdict = f"git-cinnabar fails: {outcome.cause}" if outcome.cause else verdict
    print(f"  {outcome.name:<36} {verdict}", flush=True)
    for problem in outcome.problems:
        print("    " + problem.replace("\n", "\n    "), flush=True)


def _all(
    pool: ProcessPoolExecutor, options: argparse.Namespace, scratch: Path
) -> Iterator[tuple[str, Outcome]]:
    program = options.cinnabar.absolute()
    first = options.first_seed

    def each(
        work: Callable[..., Outcome], count: int, *args: object
    ) -> Iterator[Outcome]:
        seeds = range(first, first + count)
        yield from pool.map(work, seeds, *map(repeat, (scratch, *args)))

    for source in options.git:
        yield "real", against_real(source, options.commits, scratch, program)
    receivers = [receiver.absolute() for receiver in options.receiver]
    for outcome in each(pulled, options.pulled, program, receivers):
        yield "pulled", outcome
    for outcome in each(against_cinnabar, options.both, program):
        yield "by both", outcome
    for outcome in each(against_reference, options.random):
        yield "random", outcome


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cinnabar", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("--random", type=int, default=60, help="by the reference")
    parser.add_argument("--both", type=int, default=30, help="by git-cinnabar, too")
    parser.add_argument("--pulled", type=int, default=10, help="by all clients")
    parser.add_argument(
        "--receiver", type=Path, action="append", default=[], metavar="HG"
    )
    parser.add_argument("--git", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--commits", type=int, default=2000, help="of each real one")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> int:
    """Compare; 1 if anything differs."""
    options = _options()
    counts: dict[str, Counter[str]] = {}
    causes: Counter[str] = Counter()
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="amalgam-oracle-") as name,
        ProcessPoolExecutor(options.jobs) as pool,
    ):
        scratch = Path(name)
        hg(scratch, "init", "empty")
        for kind, outcome in _all(pool, options, scratch):
            of_kind = counts.setdefault(kind, Counter())
            of_kind["histories"] += 1
            if outcome.cause:
                causes[outcome.cause] += 1
            else:
                of_kind["commits"] += outcome.commits
                of_kind["equal"] += outcome.equal
            if outcome.problems or kind == "real" or outcome.cause:
                _print(outcome)
            wrong += [f"{outcome.name}: {it}" for it in outcome.problems]
    report = {"compared": counts, "git-cinnabar failed": causes, "wrong": wrong}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({**report, "wrong": len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
