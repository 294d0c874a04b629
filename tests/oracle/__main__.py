"""Compare with git-cinnabar: python3 -m oracle --cinnabar PROGRAM [...].

Generates repositories, or takes real ones from bundles, exports each with amalgam, in
two steps and at once, real ones after each of twenty pulls, too, clones it with
git-cinnabar, and compares the ids of all changesets that are served, and all that
git-cinnabar keeps beside them. Prints how many of how many are equal, for each
repository and in total, and ends with 1 if any is not.
An odd repository with a difference is shrunk and kept. The last line is JSON; `--json`
writes all of it.

Clients of all kinds start from published bundles as well, see ``bundles``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path

from testlib.environment import ENVIRONMENT, HG
from testlib.oddstore import Step

from . import bundles, subjects
from .comparison import Outcome, compare
from .crashes import CRASHES, our_answers, still_crashes
from .shrinking import shrink
from .sides import SideError, Theirs
from .subjects import Odd, Subject

_SHRUNK = 3  # of the histories with a difference: it takes minutes each
_PULLS = 20  # of real history
_LINES = 12  # of what a program said
_CHARACTERS = 400  # of a step: contents may be long
_KINDS = {
    "generated": "generated",
    "odd": "odd",
    "corpus": "real",
    "given": "given",
}


class Oracle:
    """One run: what is compared, and what was found so far."""

    def __init__(self, program: Path, scratch: Path, kept: Path) -> None:
        self._program = program
        self._scratch = scratch
        self._kept = kept
        self.version = Theirs(program, scratch).version()
        self.outcomes: list[tuple[Subject, Outcome]] = []
        self.crashes: dict[str, str] = {}  # name to what is wrong, if anything
        self.clients: dict[str, str] = {}  # the same

    def compare_all(self, wanted: Iterable[Subject], workers: int) -> None:
        """Compare each and print a line about it, in order."""
        with ThreadPoolExecutor(workers) as pool:
            for subject, outcome in self._outcomes(wanted, pool, workers):
                self.outcomes.append((subject, outcome))
                _print_outcome(outcome)

    def check_crashes(self) -> None:
        """Try what git-cinnabar cannot convert, and print a line about each."""
        theirs = Theirs(self._program, self._scratch)
        wrongs = our_answers(self._scratch)
        for crash in CRASHES:
            wrong = wrongs[crash.name]
            if not still_crashes(crash, self._scratch, theirs):
                wrong = "git-cinnabar converts it"
            self.crashes[crash.name] = wrong
            answer = wrong or crash.answer.decode(errors="replace")
            print(f"  {crash.name:<36} {answer}", flush=True)

    def check_clients(self) -> None:
        """Let clients start from bundles, and print a line about each kind."""
        scratch = Path(tempfile.mkdtemp(dir=self._scratch))
        self.clients = bundles.check_all(self._program, scratch, (), None)

    def shrink_all(self) -> None:
        """Shrink the first odd histories that were not equal, and keep them."""
        bad = (subject for subject, outcome in self.outcomes if not outcome.is_good)
        odd_ones = (subject for subject in bad if isinstance(subject, Odd))
        for subject in islice(odd_ones, _SHRUNK):
            self._shrink(subject)

    def report(self) -> dict[str, object]:
        """What the last line says."""
        outcomes = [outcome for _subject, outcome in self.outcomes]
        return {
            "git-cinnabar": self.version,
            "hg": _first_line(str(HG), "--version", "-q"),
            "git": _first_line("git", "--version"),
            "repositories": len(outcomes),
            "repositories_equal": sum(outcome.is_good for outcome in outcomes),
            "changesets": sum(outcome.changesets for outcome in outcomes),
            "changesets_equal": sum(outcome.equal for outcome in outcomes),
            "metadata_entries": sum(outcome.entries for outcome in outcomes),
            "crashes": len(self.crashes),
            "crashes_answered": sum(not wrong for wrong in self.crashes.values()),
            "clients": len(self.clients),
            "clients_served": sum(not wrong for wrong in self.clients.values()),
        }

    def details(self) -> dict[str, object]:
        """The report, and all that led to it."""
        outcomes = [
            {"kind": subject.kind, **outcome.to_json()}
            for subject, outcome in self.outcomes
        ]
        answers = {"answers": self.crashes, "clients_wrong": self.clients}
        return {**self.report(), "outcomes": outcomes, **answers}

    @property
    def is_good(self) -> bool:
        """Whether nothing is different or wrong."""
        wrong = [*self.crashes.values(), *self.clients.values()]
        return all(outcome.is_good for _subject, outcome in self.outcomes) and not any(
            wrong
        )

    def _outcomes(
        self, wanted: Iterable[Subject], pool: ThreadPoolExecutor, workers: int
    ) -> Iterator[tuple[Subject, Outcome]]:
        """Make repositories here, and have them compared by the pool."""
        pending: deque[tuple[Subject, Future[Outcome]]] = deque()
        for subject in wanted:
            place = Path(tempfile.mkdtemp(prefix=subject.name, dir=self._scratch))
            subject.make(place / "repository")
            pending.append((subject, pool.submit(self._compare, subject, place)))
            while len(pending) > workers:
                ready, future = pending.popleft()
                yield ready, future.result()
        for ready, future in pending:
            yield ready, future.result()

    def _compare(self, subject: Subject, place: Path) -> Outcome:
        theirs = Theirs(self._program, place)
        repository = place / "repository"
        outcome = compare(
            subject.name,
            repository,
            theirs,
            percent=subject.percent,
            pulls=_PULLS if subject.kind == "corpus" else 0,
            check=subject.kind in ("generated", "odd"),
        )
        shutil.rmtree(place)
        return outcome

    def _shrink(self, subject: Odd) -> None:
        def outcome(steps: list[Step]) -> Outcome:
            place = Path(tempfile.mkdtemp(dir=self._scratch))
            smaller = Odd(subject.name, subject.kind, subject.percent, tuple(steps))
            smaller.make(place / "repository")
            return self._compare(smaller, place)

        steps = shrink(subject.steps, lambda steps: not outcome(steps).is_good)
        target = self._kept / subject.name
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        Odd(subject.name, subject.kind, subject.percent, tuple(steps)).make(target)
        print(f"\n{subject.name} in {len(steps)} steps, kept in {target}:")
        for step in steps:
            print(f"  {str(step)[:_CHARACTERS]}")
        _print_outcome(outcome(steps))


def _print_outcome(outcome: Outcome) -> None:
    counted = f"{outcome.equal} of {outcome.changesets} ids equal"
    counted += f", {outcome.entries} entries of metadata"
    print(f"  {outcome.name:<36} {counted}", flush=True)
    for one in outcome.differences:
        print(f"    changeset {one.rev} {one.node}, {one.how}:")
        print(f"      amalgam {one.ours}, git-cinnabar {one.theirs}")
    for problem in outcome.problems:
        lines = problem.splitlines()[:_LINES]
        print("    " + "\n      ".join(lines), flush=True)


def _first_line(*command: str) -> str:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=True)
    return done.stdout.decode().splitlines()[0]


def _summary(oracle: Oracle) -> str:
    """What was compared, and with what result, in words."""
    kinds = [subject.kind for subject, _outcome in oracle.outcomes]
    counts = [
        f"{kinds.count(kind)} {word}" for kind, word in _KINDS.items() if kind in kinds
    ]
    report = oracle.report()
    text = f"Compared with {oracle.version}, repositories: {', '.join(counts)}."
    if not {"corpus", "given"}.intersection(kinds):
        text += "\nNo real ones: CORPORA=DIR takes all *.hg bundles of a directory."
    return (
        f"{text}\n{report['changesets_equal']} of {report['changesets']} ids equal, "
        f"{report['repositories_equal']} of {report['repositories']} repositories."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--cinnabar", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("--corpora", type=Path, metavar="DIR", help="*.hg bundles")
    parser.add_argument("--odd", type=int, default=30, help="odd repositories")
    parser.add_argument("--first-seed", type=int, default=1, help="of the odd ones")
    parser.add_argument("--repository", type=Path, help="compare this one alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all of it")
    parser.add_argument("--keep", type=Path, default=Path("build/oracle"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser


def main() -> int:
    """Run the comparison; 1 if anything differs."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="amalgam-oracle-") as scratch:
        try:
            oracle = Oracle(options.cinnabar.absolute(), Path(scratch), options.keep)
            if options.repository:
                wanted: Iterable[Subject] = [subjects.given(options.repository)]
            else:
                wanted = chain(
                    subjects.generated(),
                    subjects.odd_ones(options.first_seed, options.odd),
                    subjects.corpora(options.corpora) if options.corpora else (),
                )
            oracle.compare_all(wanted, options.jobs)
            if not options.repository:
                print("\nWhat git-cinnabar cannot convert, and ours:\n")
                oracle.check_crashes()
                print("\nClients that start from bundles:\n")
                oracle.check_clients()
            oracle.shrink_all()
        except (OSError, SideError) as err:
            print(f"oracle: {err}", file=sys.stderr)
            return 1
    print(f"\n{_summary(oracle)}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(oracle.details(), indent=1) + "\n")
    print(json.dumps(oracle.report()))
    return 0 if oracle.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
