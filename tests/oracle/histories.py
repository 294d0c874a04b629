"""Real histories go through Mercurial, whole, and come back.

    python3 -m oracle.histories [--mode MODE]... [--client HG]... GITREPO[:REV]...

git pushes a history in two parts to a server. Each client, a stock Mercurial, clones
after the first and pulls after the second, verifies, reads, and rebases a change of its
own. A server exports the clone of the first one. git fetches from there, and has to get
every commit, and the same words about every signature. Ends with 1 if not.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testlib.environment import HG, captured, git, hg, publish_commits
from testlib.pushing import ON
from testlib.webserver import ON as SERVED, serving

from .drawn import MODES

_FIRST_PERCENT = 70
_SHOWN = 5
_MAIN = "refs/heads/main"


@dataclass
class Outcome:
    """What became of one history."""

    name: str
    commits: int = 0
    equal: int = 0
    signed: int = 0
    push_seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


class Journey:
    """One history and those who have it."""

    def __init__(
        self, source: Path, rev: str, options: Sequence[str], place: Path
    ) -> None:
        self._source = source
        self._options = options
        self._place = place
        self._tip = git(source, "rev-parse", f"{rev}^{{commit}}").decode().strip()
        self._server = place / "server"
        hg(place, "init", "server")
        publish_commits(self._server)

    def run(self, clients: Sequence[Path], outcome: Outcome) -> None:
        """Let it travel."""
        listed = git(self._source, "rev-list", "--topo-order", "--reverse", self._tip)
        oids = listed.decode().split()
        outcome.commits = len(oids)
        first = oids[len(oids) * _FIRST_PERCENT // 100]
        with serving(self._server, *ON, *self._options) as web:
            for part, tip in enumerate((first, self._tip)):
                before = time.perf_counter()
                # the ref of the named branch, and one that is a bookmark
                done = captured(
                    ["git", "push", "-q", web.url, f"+{tip}:{_MAIN}"], self._source
                )
                outcome.push_seconds += time.perf_counter() - before
                if done.returncode:
                    text = done.stderr.decode(errors="replace")
                    outcome.problems.append(f"git push: {text}")
                    return
                for at, client in enumerate(clients):
                    copy = self._place / f"client{at}"
                    outcome.problems += _pulled(client, web.url, copy, part)
        for at, client in enumerate(clients):
            outcome.problems += _used(client, self._place / f"client{at}", len(oids))
        self._returned(oids, outcome)

    def _returned(self, oids: list[str], outcome: Outcome) -> None:
        copy = self._place / "client0"
        target = self._place / "returned.git"
        git(self._place, "init", "-q", "--bare", str(target))
        with serving(copy, *SERVED, *self._options) as web:
            git(target, "fetch", "-q", web.url, "+refs/heads/*:refs/heads/*")
        there = {*git(target, "rev-list", "--all").decode().split()}
        outcome.equal = len(there.intersection(oids))
        lost = [oid for oid in oids if oid not in there]
        outcome.problems += [f"{oid} is lost" for oid in lost[:_SHOWN]]
        if lost:
            outcome.problems.append(f"{len(lost)} commits are lost")
            return
        words = [_signatures(it, self._tip) for it in (self._source, target)]
        outcome.signed = words[0].count("gpg: Signature made")
        if words[0] != words[1]:
            outcome.problems.append("git log --show-signature differs")


def _signatures(repository: Path, tip: str) -> str:
    """Return what git says of all signatures, whoever may have made them."""
    command = ["git", "log", "--show-signature", "--format=raw", tip]
    done = captured(command, repository)
    assert not done.returncode, done.stderr
    return done.stdout.decode(errors="replace")


def _pulled(client: Path, url: str, copy: Path, part: int) -> Iterator[str]:
    command = ["pull", "-q", url] if part else ["clone", "-qU", url, str(copy)]
    yield from _said(client, copy if part else copy.parent, *command)


def _used(client: Path, copy: Path, commits: int) -> Iterator[str]:
    """Verify, read and change a clone, and say what is wrong; the change goes."""
    yield from _said(client, copy, "verify", "-q", is_silent=True)
    count = _output(client, copy, "log", "-r", "all()", "-T", "x")
    if len(count) < commits:
        yield f"{client}: {len(count)} changesets of {commits} commits"
    yield from _said(client, copy, "update", "-qC", "main")
    yield from _said(client, copy, "status", is_silent=True)
    yield from _said(client, copy, "log", "-pr", "tip")
    yield from _said(client, copy, "annotate", "-r", "main", "glob:*", "-q")
    yield from _said(client, copy, "update", "-qC", "main~1")
    (copy / "an own file").write_text("own\n")
    yield from _said(client, copy, "commit", "-qAm", "own", "-d", "0 0")
    rebase = ("rebase", "-qd", "main", "-r", ".", "--config=extensions.rebase=")
    yield from _said(client, copy, *rebase)
    yield from _said(client, copy, "update", "-qC", "main")
    # a changeset that was pushed, with all that it carries, as somebody else's
    again = ("graft", "-qf", "-r", "main~2 and not merge()", "-u", "G <g@x>")
    yield from _said(client, copy, *again, codes=(0, 1, 255))
    yield from _said(client, copy, "update", "-qC", "main")
    yield from _said(client, copy, "verify", "-q", is_silent=True)


def _run(client: Path, cwd: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    return captured([str(client), *args], cwd)


def _output(client: Path, cwd: Path, *args: str) -> bytes:
    return _run(client, cwd, *args).stdout


def _said(
    client: Path,
    cwd: Path,
    *args: str,
    is_silent: bool = False,
    codes: tuple[int, ...] = (0,),
) -> Iterator[str]:
    done = _run(client, cwd, *args)
    said = (done.stderr + (done.stdout if is_silent else b"")).decode(errors="replace")
    if done.returncode not in codes or (is_silent and said):
        yield f"{client} {' '.join(args)}: exit {done.returncode}: {said}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mode", action="append", choices=MODES)
    parser.add_argument("--client", type=Path, action="append", default=[])
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("histories", nargs="+", metavar="GITREPO[:REV]")
    return parser.parse_args()


def main() -> int:
    """Let all travel; 1 if anything differs."""
    options = _options()
    clients = [HG, *(it.absolute() for it in options.client)]
    outcomes: list[Outcome] = []
    for given in options.histories:
        source, _colon, rev = given.partition(":")
        for mode in options.mode or MODES:
            outcome = Outcome(f"{Path(source).name} {rev} {mode}")
            with tempfile.TemporaryDirectory(
                prefix="amalgam-histories-", dir=options.scratch
            ) as place:
                own = Path(source).absolute()
                journey = Journey(own, rev or "HEAD", MODES[mode].options, Path(place))
                journey.run(clients, outcome)
            outcomes.append(outcome)
            print(f"  {outcome.name:<36} {outcome.equal} of {outcome.commits} commits,")
            print(
                f"    {outcome.signed} signed, pushed in {outcome.push_seconds:.0f} s"
            )
            print("".join(f"    {it}\n" for it in outcome.problems), end="", flush=True)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = {
        "commits": sum(it.commits for it in outcomes),
        "equal": sum(it.equal for it in outcomes),
        "wrong": sum(len(it.problems) for it in outcomes),
        "peak_kbytes": children.ru_maxrss,
    }
    if options.json:
        options.json.write_text(json.dumps([vars(it) for it in outcomes], indent=1))
    print(json.dumps(report))
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
