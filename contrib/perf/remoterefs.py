"""The cost of refs of a git remote that do not change: remoterefs.py HG [COUNT]...

For each COUNT (1,000, 10,000 and 100,000), makes a git repository of 2,000 commits with
so many refs, clones it with HG, and pulls: one commit, nothing for the first time, and
nothing again. A tenth of the refs are tags, half of these annotated. Prints the
processor's seconds of all processes, each the median of five, with those of the start
of hg and of git's own part: ``ls-remote``, for one commit also ``fetch``. The rest is
amalgam's. Prints its exponents, and those of the whole pull without git.
"""

from __future__ import annotations

import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_COMMITS = 2000
_ROUNDS = 5
_COUNTS = ("1000", "10000", "100000")
_WHO = "a <a@example.org> 1700000000 +0000"
_ENVIRONMENT = os.environ | {
    "HGRCPATH": "",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{it}_NAME": "a" for it in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{it}_EMAIL": "a@example.org" for it in ("AUTHOR", "COMMITTER")},
}


def run(*command: str, given: str = "") -> str:
    """Run a program, and return its output."""
    done = subprocess.run(
        command,
        env=_ENVIRONMENT,
        input=given.encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout.decode()


def seconds(*command: str) -> float:
    """Run a program, and return the processor's seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def made(path: Path, count: int) -> None:
    """Make a git repository with so many refs."""
    run("git", "init", "-q", "--bare", "-b", "main", str(path))
    git = ("git", "-C", str(path))
    run(
        *(*git, "fast-import", "--quiet"),
        given="".join(
            f"commit refs/heads/main\nauthor {_WHO}\ncommitter {_WHO}\ndata 5\n"
            f"c{at:04d}\nM 100644 inline f{at % 50}\ndata 6\nl{at:05d}\n"
            for at in range(_COMMITS)
        ),
    )
    oids = run(*git, "rev-list", "main").split()
    targets = [(at, oids[at * 7919 % _COMMITS]) for at in range(count - 1)]
    run(
        *(*git, "fast-import", "--quiet"),
        given="".join(
            f"tag v{at:06d}\nfrom {oid}\ntagger {_WHO}\ndata 2\nt\n"
            for at, oid in targets
            if at % 20 == 0
        ),
    )
    run(
        *(*git, "update-ref", "--stdin"),
        given="".join(
            f"create refs/{'heads/b' if at % 10 else 'tags/v'}{at:06d} {oid}\n"
            for at, oid in targets
            if at % 20
        ),
    )
    run(*git, "pack-refs", "--all")


def measured(hg: str, count: int, scratch: Path) -> dict[str, float]:
    """Return medians by step."""
    remote, clone = scratch / f"{count}.git", scratch / f"{count}"
    made(remote, count)
    url = f"git+file://{remote}"
    program: tuple[str, ...] = (hg, "--config", "extensions.amalgam=")
    found = {"clone": [seconds(*program, "clone", "-q", "-U", url, str(clone))]}
    program += ("-R", str(clone))
    git = ("git", "-C", str(remote))
    for number in range(_ROUNDS):
        args = ("commit-tree", "-p", "main", "-m", str(number), "main^{tree}")
        tip = run(*git, *args).strip()
        run(*git, "update-ref", "refs/heads/main", tip)
        steps = {
            "one": (*program, "pull", "-q"),
            "first nothing": (*program, "pull", "-q"),
            "nothing": (*program, "pull", "-q"),
            "hg": (*program, "root"),
            "ls-remote": ("git", "ls-remote", str(remote)),
            "fetch": (*git, "fetch", "-q", str(remote), "refs/heads/main"),
        }
        for name, command in steps.items():
            found.setdefault(name, []).append(seconds(*command))
        there = run(*program, "log", "-r", "default/main", "-T", "{gitnode}")
        assert there == tip, f"{there} was pulled for {tip}"
    return {name: statistics.median(taken) for name, taken in found.items()}


def main(hg: str, *counts: str) -> None:
    """Print a line for each count, then exponents."""
    pulls = ("one", "first nothing", "nothing")
    former: tuple[int, dict[str, float]] | None = None
    with tempfile.TemporaryDirectory() as scratch:
        for count in map(int, counts or _COUNTS):
            found = measured(hg, count, Path(scratch))
            git = {"one": found["ls-remote"] + found["fetch"]}
            rest = {it: found[it] - git.get(it, found["ls-remote"]) for it in pulls}
            print(count, " ".join(f"{it} {taken:.2f}" for it, taken in found.items()))
            own = [f"{it} {taken - found['hg']:.2f}" for it, taken in rest.items()]
            print("  beyond git and the start of hg:", ", ".join(own))
            if former is not None:
                ratio = math.log(count / former[0])
                for it, taken in rest.items():
                    exponent = math.log(taken / former[1][it]) / ratio
                    print(f"  {it}: exponent {exponent:.2f} since {former[0]} refs")
            former = count, rest


if __name__ == "__main__":
    main(*sys.argv[1:])
