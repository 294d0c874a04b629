"""Commits that are drawn from git's grammar go through Mercurial and come back.

    python3 -m oracle.drawn [--commits N] [--mode MODE]... [--client HG]... [--keep DIR]

Of all that git accepts (``testlib.gitgrammar``), histories are pushed by git into one
server, cloned by stock hg, and exported by another server. What is accepted has to come
back byte for byte. What is refused has to have the reason that it is given, and in a
lossless mode only what Mercurial cannot check out is refused. A history with a problem
is shrunk, and kept as a shell script that makes it. Ends with 1 if there is any.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import re
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from testlib import roundtrip
from testlib.environment import HG, captured, git
from testlib.gitgrammar import Drawn, Edit, Entry, Grown, Verdict, draw_commits, judge

from .shrinking import smallest

_BATCH = 400
_TRIALS = 80
_SHRUNK = 3


@dataclasses.dataclass(frozen=True)
class Mode:
    """How servers convert."""

    options: tuple[str, ...]
    is_lossless: bool
    is_cinnabar: bool = True
    """Whether the reasons of refusals are those of git-cinnabar's dialect."""


_HGGIT = "--config=amalgam.git.dialect=hggit"
_EXACT = "--config=amalgam.git.push-exact=yes"
# their messages name them
_BRANCHES = "--config=amalgam.git.push-branches=yes"
MODES = {
    "cinnabar": Mode((), is_lossless=False),
    "cinnabar-exact": Mode((_EXACT,), is_lossless=True),
    "hggit": Mode((_HGGIT, _BRANCHES), is_lossless=False, is_cinnabar=False),
    "hggit-exact": Mode(
        (_HGGIT, _EXACT, _BRANCHES), is_lossless=True, is_cinnabar=False
    ),
}


@dataclasses.dataclass(frozen=True)
class Step:
    """A commit of a history, on others that are named by their places."""

    drawn: Drawn
    parents: tuple[int, ...]

    @property
    def on_them(self) -> Drawn:
        """What ``Grown`` adds if the parents are all there is."""
        backs = tuple(len(self.parents) - 1 - at for at in range(len(self.parents)))
        return dataclasses.replace(self.drawn, parents=backs)


History = list[Step]
_KINDS = {
    "accepted": {Verdict.ACCEPTED},
    "warned of": {Verdict.ACCEPTED, Verdict.WARNED},
}


def grown(path: Path, history: Sequence[Step]) -> tuple[Grown, list[str]]:
    """Write a history; return the oid of each step, some of which may be equal."""
    made = Grown(path)
    oids: list[str] = []
    for step in history:
        oids.append(made.add(step.on_them, on=[oids[at] for at in step.parents]))
    made.name_all()
    return made, oids


def histories(
    seed: int, count: int, batch: int, place: Path, wanted: set[Verdict]
) -> Iterator[History]:
    """Yield histories of what git says so of; together ``count`` commits or more."""
    got = 0
    while got < count:
        with tempfile.TemporaryDirectory(dir=place) as name:
            made = [*_drawn(seed, batch, Path(name), wanted)]
        seed += 1
        got += sum(len(history) - 1 for history in made)
        yield from made


def _drawn(
    seed: int, batch: int, place: Path, wanted: set[Verdict]
) -> Iterator[History]:
    alone = Grown(place / "judged.git")
    for it in draw_commits(seed, 2 * batch):
        alone.add(it, on=[])
    alone.name_all()
    verdicts = judge(alone)
    fit = [alone.drawn[oid] for oid in alone.oids if verdicts[oid] in wanted]
    for at in range(0, len(fit), batch):
        history = [Step(Drawn(), ())]
        for it in fit[at : at + batch]:
            there = len(history)
            parents = tuple(there - 1 - n % there for n in it.parents)
            history.append(Step(it, parents))
        yield _accepted(history, place / f"grown{at}", wanted)


def childless(history: History, path: Path) -> tuple[History, Grown, list[str]]:
    """Return it without children of commits that Mercurial cannot check out.

    Those would all be refused, too. Another parent takes the place of such a commit.
    Also what is grown of it, and the oid of each step.
    """
    made = Grown(path)
    oids: list[str] = []
    found: History = []
    places: list[int] = []
    for at, step in enumerate(history):
        parents = tuple(places[parent] for parent in step.parents)
        found.append(Step(step.drawn, parents))
        oids.append(made.add(found[-1].on_them, on=[oids[it] for it in parents]))
        is_refused = bool(protections(made, oids[-1]))
        places.append((parents[0] if parents else 0) if is_refused else at)
    made.name_all()
    return found, made, oids


def _accepted(history: History, place: Path, wanted: set[Verdict]) -> History:
    """Leave out what git refuses where it stands: an edit may meet another tree."""
    for attempt in itertools.count():
        repository = place.with_suffix(f".{attempt}.git")
        history, made, oids = childless(history, repository)
        verdicts = judge(made)
        bad = [at for at, oid in enumerate(oids) if verdicts[oid] not in wanted]
        if not bad:
            break
        for at in reversed(bad):
            history = _without(history, at, at + 1)
    return history


def flat(history: History, mode: Mode, place: Path, wanted: set[Verdict]) -> History:
    """Return it with all parents among a few plain commits, which are never refused.

    Some of those are octopuses, if the mode accepts them. Edits meet other trees here:
    what git says otherwise of is left out.
    """
    octopuses = 0 if mode.is_cinnabar else 4
    files = [Entry(b"100644", name, b"%s\n" % name) for name in (b"a", b"b")]
    files.append(Entry(b"40000", b"d", (Entry(b"100644", b"x", b"x\n"),)))
    edits = tuple(Edit(0, entry) for entry in files)
    drawn = [Drawn(body=b"%d\n" % n, edits=edits) for n in range(32)]
    above = [(0, 1, 2) if n >= 32 - octopuses else () for n in range(32)]
    found = [*itertools.starmap(Step, zip(drawn, above, strict=True))]
    for step in history[1:]:
        count = len(step.parents)
        found.append(
            Step(step.drawn, tuple(at % 32 for at in step.drawn.parents[:count]))
        )
    return _accepted(found, place / "flat", wanted)


# reasons to refuse

_GOOD_DATE = re.compile(
    rb"> (0|[1-9][0-9]*) (?!-0000)[+-][0-9]{2}[0-5][0-9]\Z", re.DOTALL
)
_GOOD_PERSON = re.compile(rb"(?:[^<>]* )?<[^<>]*> [^ >]+ [^ >]+\Z", re.DOTALL)
_KEYS = re.compile(rb"[^ \n\0]+ ", re.DOTALL)
_ONCE = (b"tree ", b"parent ", b"author ", b"committer ")
_GOOD_MODES = {b"100644", b"100755", b"120000", b"40000", b"160000"}


def _people(drawn: Drawn) -> tuple[bytes, bytes]:
    return drawn.author, drawn.committer


def _entries(tree: tuple[Entry, ...]) -> Iterator[Entry]:
    for entry in tree:
        yield entry
        if isinstance(entry.child, tuple):
            yield from _entries(entry.child)


def _is_malformed(drawn: Drawn) -> bool:
    return drawn.body is None or any(
        not _KEYS.match(it) or it.startswith(_ONCE) for it in drawn.headers
    )


def _has_odd_zone(committer: bytes) -> bool:
    """Whether git-cinnabar reads what it makes of a committer's zone as another."""
    hours, minutes = int(committer[-4:-2]), int(committer[-2:])
    return hours == 0 or minutes % 15 != 0 or hours > 14


#: Words of the server, and whether a commit of a repository has it.
REASONS: dict[str, Callable[[Drawn, list[Entry], list[bytes]], bool]] = {
    "the commit object is malformed": lambda it, _e, _p: _is_malformed(it),
    "the commit is signed": lambda it, _e, _p: any(
        header.startswith(b"gpgsig") for header in it.headers
    ),
    "the message has an encoding": lambda it, _e, _p: any(
        header.startswith(b"encoding ") for header in it.headers
    ),
    "the commit has another header": lambda it, _e, _p: bool(it.headers),
    "the date cannot be": lambda it, _e, _p: (
        not all(map(_GOOD_DATE.search, _people(it))) or _has_odd_zone(it.committer)
    ),
    "the name or address": lambda it, _e, _p: (
        not all(
            _GOOD_PERSON.match(who) and not re.match(rb".*@.* <> ", who, re.DOTALL)
            for who in _people(it)
        )
    ),
    "the committer contains a backslash": lambda it, _e, _p: b"\\" in it.committer,
    "the tree has a submodule": lambda _it, entries, _p: any(
        entry.mode == b"160000" for entry in entries
    ),
    "a file has a mode": lambda _it, entries, _p: any(
        entry.mode not in _GOOD_MODES for entry in entries
    ),
    "the tree has an empty directory": lambda _it, entries, _p: any(
        entry.child == () for entry in entries
    ),
    "Mercurial refuses a path": lambda _it, _e, paths: any(
        map(roundtrip.is_no_path_of_hg, paths)
    ),
}
_OCTOPUS = "the commit has more than two parents"
_PATH = "Mercurial refuses a path"
_SUBREPOSITORIES = "Mercurial cannot read its subrepositories"
_DIFFERS = "its changeset is not exported"
_SUBJECT = re.compile(r"commit ([0-9a-f]{12,40}) cannot be pushed: (.*)")


def protections(made: Grown, oid: str) -> list[str]:
    """Return the first words of why Mercurial cannot check a commit out, if so."""
    tree = made.trees[oid]
    is_odd = any(b"/" in it.name or it.name in (b".", b"..") for it in _entries(tree))
    files = {it.name: it.child for it in tree if isinstance(it.child, bytes)}
    found = {
        _PATH: is_odd or any(map(roundtrip.is_no_path_of_hg, made.paths(oid))),
        _SUBREPOSITORIES: roundtrip.has_unreadable_subrepositories(files),
    }
    return [sentence for sentence, is_there in found.items() if is_there]


def wrongs(
    made: Grown, found: roundtrip.Returned, mode: Mode, fscked: dict[str, Verdict]
) -> Iterator[str]:
    """Say what is wrong with an answer."""
    yield from found.problems
    for oid in made.oids if found.accepted else ():
        if oid not in found.refused and (harms := protections(made, oid)):
            yield f"{oid} is accepted: {', '.join(harms)}"
    for oid, said in found.refused.items():
        match = _SUBJECT.search(said)
        if not match:
            yield f"{oid}: {said}"
            continue
        bad = next((it for it in made.oids if it.startswith(match[1])), None)
        if bad is None:
            yield f"{oid}: {said}"
            continue
        reason = match[2]
        entries = [*_entries(made.trees[bad])]
        paths = made.paths(bad)
        if mode.is_lossless or reason.startswith(_SUBREPOSITORIES):
            if not any(map(reason.startswith, protections(made, bad))):
                yield f"{oid} is refused: {reason}"
        elif not mode.is_cinnabar:
            if reason.startswith(_DIFFERS):
                yield f"{oid} is refused: {reason}"
        elif reason.startswith(_OCTOPUS):
            if len(made.parents[bad]) < 3:
                yield f"{oid} is refused: {reason}"
        elif reason.startswith("git itself refuses the tree"):
            if fscked.get(bad) is Verdict.ACCEPTED:
                yield f"{oid} is refused: {reason}"
        elif not any(
            reason.startswith(words) and has(made.drawn[bad], entries, paths)
            for words, has in REASONS.items()
        ):
            yield f"{oid} is refused: {reason}"


def problems_of(
    history: Sequence[Step], mode: Mode, place: Path, client: Path = HG
) -> tuple[roundtrip.Returned, list[str]]:
    """Let a history travel, and say what is wrong."""
    made, _oids = grown(place / "drawn.git", history)
    found = roundtrip.travel(place, made.path, made.oids, *mode.options, client=client)
    verdicts = {} if mode.is_lossless else judge(made)
    return found, [*wrongs(made, found, mode, verdicts)]


# the smallest example


def _without(history: History, first: int, end: int) -> History:
    """Leave out steps: those above stand on what these stood on, if anything."""
    places: dict[int, int | None] = {}
    found: History = []
    for at, step in enumerate(history):
        if first <= at < end:
            places[at] = places[step.parents[0]] if step.parents else None
            continue
        kept = (places[parent] for parent in step.parents)
        places[at] = len(found)
        parents = tuple(parent for parent in kept if parent is not None)
        found.append(Step(step.drawn, parents))
    return found


def _simpler(step: Step) -> Iterator[Step]:
    plain = Drawn()
    for field in dataclasses.fields(Drawn):
        if field.name == "parents":
            for at in range(len(step.parents)):
                yield Step(step.drawn, step.parents[:at] + step.parents[at + 1 :])
            continue
        value = getattr(step.drawn, field.name)
        if value == getattr(plain, field.name):
            continue
        default = getattr(plain, field.name)
        yield Step(
            dataclasses.replace(step.drawn, **{field.name: default}), step.parents
        )
        for at in range(len(value) if isinstance(value, tuple) else 0):
            less: Any = value[:at] + value[at + 1 :]
            drawn = dataclasses.replace(step.drawn, **{field.name: less})
            yield Step(drawn, step.parents)


def script(source: Path, oids: Sequence[str]) -> str:
    """Return a shell script that makes commits with git; a branch each."""
    lines = [
        "#!/bin/bash",
        "# usage: SCRIPT DIR",
        "set -e",
        'git init -q --bare "$1"; cd "$1"',
    ]
    lines.append(
        "object() { base64 -d | git hash-object -t $1 -w --literally --stdin; }"
    )
    listed = git(source, "rev-list", "--objects", "--reverse", "--topo-order", *oids)
    names = [
        line.split(" ")[0] for line in listed.decode(errors="replace").splitlines()
    ]
    for oid in names:
        kind = git(source, "cat-file", "-t", oid).decode().strip()
        content = git(source, "cat-file", kind, oid)
        shown = content.decode("ascii", "backslashreplace").replace("\0", "\\0")
        lines += [f"# {kind} {oid}", *(f"#   {it!r}" for it in shown.splitlines())]
        command = ["base64", "-w0"]
        coded = captured(command, input=content, check=True).stdout.decode()
        lines.append(f"echo {shlex.quote(coded)} | object {kind}")
    lines += [f"git update-ref refs/heads/c{at} {oid}" for at, oid in enumerate(oids)]
    return "\n".join(lines) + "\n"


class _Run:
    """One run of the oracle."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self._options = options
        self._scratch = scratch
        self.counts: dict[str, Counter[str]] = {}
        self.wrong: list[str] = []

    @contextlib.contextmanager
    def _place(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self._scratch) as name:
            yield Path(name)

    def all(self) -> None:
        """Let each mode have each history, and print a line about it."""
        options = self._options
        accepted = (
            (kind, history)
            for kind, count in (
                ("accepted", options.commits),
                ("warned of", options.commits // 5),
            )
            for history in histories(
                *(options.first_seed, count, options.batch, self._scratch),
                _KINDS[kind],
            )
        )
        for at, (kind, history) in enumerate(accepted):
            self._check_git(history, kind)
            for name in options.mode:
                client = options.client[at % len(options.client)]
                self._one(name, kind, history, client)

    def _check_git(self, history: History, kind: str) -> None:
        """Let git itself receive a history: else nothing is to be asked of ours."""
        with self._place() as place:
            made, _oids = grown(place / "drawn.git", history)
            git(place, "init", "-q", "--bare", "there.git")
            there = place / "there.git"
            if kind == "accepted":
                git(there, "config", "transfer.fsckObjects", "true")
            done = captured(["git", "push", "-q", str(there), "--all"], made.path)
        if done.returncode:
            text = done.stderr.decode(errors="replace")
            self.wrong.append(f"the grammar: git refuses what it accepts: {text}")
            print(f"  {self.wrong[-1]}", flush=True)

    def _one(self, name: str, kind: str, history: History, client: Path) -> None:
        mode = MODES[name]
        if not mode.is_lossless:
            with self._place() as place:
                history = flat(history, mode, place, _KINDS[kind])
        with self._place() as place:
            found, wrong = problems_of(history, mode, place, client)
        counts = self.counts.setdefault(f"{name}, {kind}", Counter())
        counts["commits"] += found.accepted + len(found.refused)
        counts["accepted"] += found.accepted
        counts["wrong"] += bool(wrong)
        for said in found.refused.values():
            match = _SUBJECT.search(said)
            counts[match[2].split(";")[0][:40] if match else said[:40]] += 1
        print(f"  {name:<15} {kind:<10} {found.accepted} of", end=" ")
        print(found.accepted + len(found.refused), "accepted", *wrong[:3], flush=True)
        if wrong:
            self.wrong += [f"{name}: {it}" for it in wrong]
            if len(self.wrong) <= _SHRUNK * len(wrong) and self._options.keep:
                self._keep(name, mode, history, client)

    def _keep(self, name: str, mode: Mode, history: History, client: Path) -> None:
        def is_bad(trial: History) -> bool:
            with self._place() as place:
                return bool(problems_of(trial, mode, place, client)[1])

        small = smallest(history, is_bad, _simpler, _without, _TRIALS)
        with self._place() as place:
            wrong = problems_of(small, mode, place, client)[1]
            oids = grown(place / "again.git", small)[0].oids
            text = script(place / "drawn.git", oids)
        said = "".join(f"# {line}\n" for it in wrong for line in it.splitlines())
        self._options.keep.mkdir(parents=True, exist_ok=True)
        path = self._options.keep / f"{name}-{len(self.wrong)}.sh"
        path.write_text(f"{text}# {name}:\n{said}")
        print(f"    kept in {path}: {len(small)} commits", *wrong, sep="\n    ")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=_BATCH)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--mode", action="append", choices=MODES)
    parser.add_argument("--client", type=Path, action="append", help="a stock hg")
    parser.add_argument("--keep", type=Path, help="directory for scripts")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    options.mode = options.mode or [*MODES]
    options.client = [it.absolute() for it in options.client or [HG]]
    return options


def main() -> int:
    """Compare; 1 if anything is wrong."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="amalgam-drawn-") as name:
        run = _Run(options, Path(name))
        run.all()
    report = {"drawn": run.counts, "wrong": run.wrong}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({**report, "wrong": len(run.wrong)}))
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
