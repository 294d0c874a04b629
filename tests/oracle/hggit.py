"""Both directions of the dialect hggit, compared with hg-git 1.2.0.

    python3 -m oracle.hggit --hggit HG [--exports N] [--imports N] [--renamed N]...

Random histories of Mercurial (``testlib.hggithistories``) and given repositories are
exported by hg-git and by amalgam: each changeset has to have the same commit. Random
histories of git, and given ones, are imported by both: each commit has to have the same
changeset, also where renames are found. Such histories are pulled by amalgam, and
exported with the ids that its list keeps. hg-git and amalgam take turns on one
repository, and move no id: with exports, and with pulls and pushes. Ends with 1 if
anything differs. What ends a conversion of hg-git has no id, and is counted.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from types import MappingProxyType

from testlib import oddstore
from testlib.converted import Target
from testlib.environment import ENVIRONMENT, HG, git, hg
from testlib.hggithistories import (
    RENAMES,
    GitHistory,
    RenamedHistory,
    grown_for_import,
    steps,
)
from testlib.oddstore import Step

from .moves import SHAPES, THREE, Moves, Shape, grown
from .shrinking import shrink
from .sides import SERVED, Ids

_OURS = ("--config=extensions.amalgam=", "--config=amalgam.git.dialect=hggit")
#: What hg-git loses in an export, and amalgam does not.
_REPAIRED = "extra('gpgsig') or extra('encoding')"
_APART = Path(__file__).with_name("hggitruns.py")
_GEXPORT = ("gexport", f"--config=extensions.apart={_APART}")
_STORE = Path(".hg/amalgam/git/hggit.git")
_COMMITS = 40
_TURNS = 5
#: Changesets that come with each.
_GROWTH = 7
_SHOWN = 3
#: Paths that only hg-git imports: docs/decisions/hggit-import.rst.
_LEFT_OUT = re.compile(r'(^|[/"])[.][.]?(["/]|$)', re.MULTILINE)


@dataclass(frozen=True)
class Peer:
    """A Mercurial with hg-git, whose answers are kept: it takes its time."""

    program: Path
    answers: Path | None = None

    def exported(self, repository: Path) -> tuple[str, Ids]:
        """Return its message if an export fails, and its map."""
        key = hg(repository, "log", "-r", "all()", "-T", "{node} {phase}\n")

        def export() -> Path:
            copy = self._fresh(repository)
            shutil.copytree(repository, copy, symlinks=True)
            return copy

        return self._answer(key, export, *_GEXPORT)

    def imported(self, source: Path, *options: str) -> tuple[str, Ids]:
        """Return its message if an import fails, and its map."""
        key = git(source, "for-each-ref", "--format=%(objectname) %(refname)")
        key += "".join(f"{option}\n" for option in options).encode()
        target = self._fresh(source)
        clone = ("clone", "-qU", str(source), str(target), *options)
        return self._answer(key, lambda: target, *clone)

    @staticmethod
    def _fresh(path: Path) -> Path:
        fresh = path.with_name(f"{path.name}-theirs")
        shutil.rmtree(fresh, ignore_errors=True)
        return fresh

    def _answer(
        self, key: bytes, prepare: Callable[[], Path], *command: str
    ) -> tuple[str, Ids]:
        kind = (command[0] + _APART.name * (command[0] == "gexport")).encode()
        name = hashlib.sha1(b"\0".join((kind, key))).hexdigest()
        path = self.answers / name if self.answers else None
        if path and path.exists():
            said, ids = json.loads(path.read_text())
            return said, ids
        repository = prepare()
        cwd = repository if repository.exists() else repository.parent
        said, ids = self.run(cwd, *command), self.ids(repository)
        if path:
            path.write_text(json.dumps([said, ids]))
        return said, ids

    def run(self, cwd: Path, *args: str) -> str:
        """Run a command; return its message if that fails."""
        user = "--config=ui.username=Lab <lab@example.org>"
        command = [self.program, "--config=extensions.hggit=", user, *args]
        environment = {**ENVIRONMENT, "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            [str(it) for it in command], cwd=cwd, env=environment, capture_output=True
        )
        text = (done.stdout + done.stderr).decode(errors="replace")
        return text or "it failed" if done.returncode else ""

    @staticmethod
    def ids(repository: Path) -> Ids:
        """Return its map: commit by changeset."""
        path = repository / ".hg" / "git-mapfile"
        if not path.exists():
            return {}
        pairs = (line.split(" ") for line in path.read_text().splitlines())
        return {node: oid for oid, node in pairs}


def our_ids(repository: Path) -> Ids:
    """Export, and return the commit of each changeset that hg-git keeps as it is."""
    hg(repository, *_OURS[1:], "git::export")
    template = "{node} {gitnode}\n"
    revs = f"{SERVED} - descendants({_REPAIRED})"
    log = hg(repository, *_OURS[1:], "log", "-r", revs, "-T", template).decode()
    return dict(line.split(" ") for line in log.splitlines())


@dataclass
class Outcome:
    """What the comparison of one history gave."""

    name: str
    compared: int = 0
    stopped: str = ""
    """What hg-git said where it ended."""
    problems: list[str] = field(default_factory=list)


def differences(ours: Ids, theirs: Ids, outcome: Outcome, *, is_whole: bool) -> None:
    """Compare the two sides; ``is_whole``: whether theirs has all that it gets."""
    for node, oid in ours.items():
        expected = theirs.get(node, "")
        if not expected and not is_whole:
            continue
        outcome.compared += 1
        if oid != expected:
            outcome.problems.append(f"{node}: ours is {oid or 0}, not {expected or 0}")


def exported(peer: Peer, repository: Path, outcome: Outcome) -> Outcome:
    """Export a repository with both."""
    outcome.stopped, theirs = peer.exported(repository)
    try:
        ours = our_ids(repository)
    except AssertionError as err:
        outcome.problems.append(str(err))
        return outcome
    differences(ours, theirs, outcome, is_whole=not outcome.stopped)
    if outcome.problems:
        first = outcome.problems[0].partition(":")[0]
        Peer(peer.program).exported(repository)
        theirs_path = repository.with_name(f"{repository.name}-theirs")
        stores = (repository / _STORE, theirs_path / ".hg" / "git")
        ids = (ours[first], theirs.get(first, ""))
        outcome.problems.insert(0, _explained(stores, ids))
    return outcome


def _explained(stores: tuple[Path, Path], oids: tuple[str, str]) -> str:
    """Show where two commits differ."""
    texts = []
    for store, oid in zip(stores, oids, strict=True):
        found = b""
        if oid:
            found = git(store, "cat-file", "commit", oid)
            found += b"\n" + git(store, "ls-tree", "-rt", oid)
        lines = found.decode("utf-8", "backslashreplace").split("\n")
        texts.append([repr(line) for line in lines])
    ours, theirs = texts
    return "\n      ".join(difflib.unified_diff(ours, theirs, lineterm="", n=0))


def export_of(seed: int, scratch: Path, peer: Peer) -> Outcome:
    """Compare exports of a random history."""
    return _export_of_steps(f"export {seed}", steps(seed), scratch, peer)


def _export_of_steps(
    name: str, history: list[Step], scratch: Path, peer: Peer
) -> Outcome:
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        repository = Path(place) / "repository"
        oddstore.write(repository, history)
        return exported(peer, repository, Outcome(name))


def import_of(seed: int, scratch: Path, peer: Peer) -> Outcome:
    """Compare imports of a random history."""
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        path = Path(place) / "project.git"
        return imported(peer, path, _random_git(path, seed), Outcome(f"import {seed}"))


def renamed_of(seed: int, scratch: Path, peer: Peer) -> Outcome:
    """Compare imports of a random history with renames that are found."""
    renames = RENAMES[seed % len(RENAMES)]
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        path = Path(place) / "project.git"
        history = RenamedHistory(path, seed, _COMMITS)
        history.grow_all()
        outcome = Outcome(f"renamed {seed} {renames}")
        return imported(peer, path, history.heads(), outcome, renames)


def _random_git(path: Path, seed: int) -> list[str]:
    """Make a random history; return its heads."""
    if seed % 3 == 0:
        return grown_for_import(path, seed, _COMMITS).heads()
    history = GitHistory(path, seed, _COMMITS)
    history.grow_all()
    return history.heads()


def listed_of(seed: int, scratch: Path, _peer: Peer) -> Outcome:
    """Pull a random history and export it: all commits come back, but for twins."""
    outcome = Outcome(f"listed {seed}")
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        place = Path(name)
        path, copy = place / "project.git", place / "copy"
        heads = _random_git(path, seed)
        for number, oid in enumerate(heads):
            git(path, "update-ref", f"refs/heads/h{number}", oid)
        there = set(git(path, "rev-list", *heads).decode().split())
        hg(place, "init", str(copy))
        try:
            hg(copy, *_OURS[1:], "pull", "-q", f"git+{path.as_uri()}")
            hg(copy, *_OURS[1:], "git::export")
            hg(copy, *_OURS[1:], "git::verify", "--full")
            git(copy / _STORE, "fsck", "--connectivity-only")
            stored = set(git(copy / _STORE, "rev-list", "--all").decode().split())
            log = hg(copy, *_OURS[1:], "log", "-r", "all()", "-T", "{node} {gitnode}\n")
            back = dict(line.split(" ") for line in log.decode().splitlines())
            # of two commits with one changeset, one comes back
            twins = sorted(there - {*back.values()})
            asked = hg(copy, *_OURS[1:], "git::id", *twins) if twins else b""
        except AssertionError as err:
            outcome.problems.append(str(err))
            return outcome
    outcome.compared = len(there)
    exported = {*back.values()} - {""}
    lost = ({*asked.decode().split()} - back.keys()) | (exported - stored)
    outcome.problems += (f"{it} does not come back" for it in lost)
    outcome.problems += (f"{it} comes from nowhere" for it in exported - there)
    return outcome


def _with_less_files(repository: Path) -> set[str]:
    """Return the commits that have, or had, a file which only hg-git imports."""
    walk = ("log", "--all", "--topo-order", "--reverse", "-m", "--no-renames")
    log = git(repository, *walk, "--format=%x00%H %P", "--name-only").decode()
    found: set[str] = set()
    for entry in log.split("\0")[1:]:
        ids, _, paths = entry.partition("\n")
        oid, *parents = ids.split()
        if _LEFT_OUT.search(paths) or found.intersection(parents):
            found.add(oid)
    return found


def imported(
    peer: Peer,
    source: Path,
    heads: list[str],
    outcome: Outcome,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Outcome:
    """Import a git repository with both, into repositories beside it.

    ``settings``: those of the section ``git``.
    """
    place = source.parent
    options = (f"--config=git.{name}={value}" for name, value in settings.items())
    outcome.stopped, ids = peer.imported(source, *options)
    theirs = {oid: node for node, oid in ids.items()}
    left_out = _with_less_files(source)
    hg(place, "init", "ours")
    lines = (f"{name} = {value}\n" for name, value in settings.items())
    (place / "ours" / ".hg" / "hgrc").write_text("[git]\n" + "".join(lines))
    target = Target(place / "ours", dialect=b"hggit")
    try:
        target.push(source, *heads)
        if said := target.hg("verify", "-q"):
            outcome.problems.append(said)
    except Exception as err:
        # a bug of the conversion is one difference, and not the end of the others
        outcome.problems.append(f"{type(err).__name__}: {err}")
    for oid, node in theirs.items():
        if oid in left_out:
            continue
        outcome.compared += 1
        if target.known.get(oid) != node:
            outcome.problems.append(
                f"{oid}: ours is {target.known.get(oid)}, not {node}"
            )
    return outcome


def alternation(seed: int, scratch: Path, peer: Peer) -> Outcome:
    """Let both take turns on one repository; neither may move an id.

    Each turn: changesets come by pull and by commit, and one is amended after an
    export. A commit of git on an exported one is pulled by both, in either order. Then
    both export, in either order.
    """
    outcome = Outcome(f"alternation {seed}")
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        place = Path(name)
        hg(place, "init", "repository")
        repository, upstream = place / "repository", place / "upstream.git"
        git(place, "init", "-q", "--bare", str(upstream))
        known: Ids = {}
        for turn in range(_TURNS):
            more = place / f"more{turn}"
            oddstore.write(more, steps(seed)[: _GROWTH * (turn + 1)])
            _stock(repository, "pull", "-qf", str(more))
            _stock(
                repository,
                "update",
                "-qC",
                f"desc('turn {turn - 1}')" if turn else "null",
            )
            (repository / "turn").write_text(f"{turn}\n")
            date = ("-d", f"{turn} 0")
            _stock(repository, "commit", "-qAm", f"to amend {turn}", *date)
            our_ids(repository)
            _stock(repository, "commit", "--amend", "-qm", f"turn {turn}", *date)
            outcome.stopped = outcome.stopped or _taken_in(
                (repository, upstream), known, peer, draw
            )
            ours = our_ids(repository) if draw.random() < 0.5 else {}
            outcome.stopped = outcome.stopped or peer.run(repository, *_GEXPORT)
            ours = ours or our_ids(repository)
            theirs = peer.ids(repository)
            differences(ours, theirs, outcome, is_whole=not outcome.stopped)
            log = hg(repository, "log", "-r", "all()", "-T", "{node}\n").decode()
            for node in known.keys() & set(log.split()):
                if ours.get(node) != known[node]:
                    problem = (
                        f"turn {turn}: {node} was {known[node]}, is {ours.get(node)}"
                    )
                    outcome.problems.append(problem)
            known = ours
    return outcome


def moving(seed: int, turns: int, scratch: Path, peer: Peer) -> Outcome:
    """Let both work in a repository that hg-git has cloned."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        upstream = Path(name) / "upstream.git"
        GitHistory(upstream, seed, _COMMITS // 2).grow_all()
        shape = SHAPES[seed % len(SHAPES)]
        return moved(upstream, shape, turns, peer, seed)


def moved(
    upstream: Path, shape: Shape, turns: int, peer: Peer, seed: int = 0
) -> Outcome:
    """Let both work in a clone of ``upstream``, which is changed."""
    outcome = Outcome(f"moving {seed} ({shape})")
    moves = Moves(upstream.parent, upstream, peer.program, shape, seed)
    outcome.stopped = moves.clone()
    if not outcome.stopped:
        for turn in range(turns):
            moves.round(turn)
        moves.compare()
        outcome.compared = len(moves.ids())
        outcome.problems = moves.problems
    return outcome


def _taken_in(
    where: tuple[Path, Path], known: Ids, peer: Peer, draw: random.Random
) -> str:
    """Pull a commit of git; return the message of hg-git if that fails."""
    repository, upstream = where
    if not known:
        return ""
    objects = (repository / ".hg/git/objects", upstream / "objects")
    shutil.copytree(*objects, dirs_exist_ok=True)
    _node, parent = draw.choice(sorted(known.items()))
    oid = grown(upstream, parent, b"of git %d" % len(known), len(known))
    git(upstream, "update-ref", f"refs/heads/g{len(known)}", oid)
    ours_first, said = draw.random() < 0.5, ""
    for is_ours in (ours_first, not ours_first):
        if is_ours:
            hg(repository, *_OURS[1:], "pull", "-q", f"git+{upstream.as_uri()}")
        else:
            said = peer.run(repository, "pull", "-q", str(upstream))
    return said


def _stock(repository: Path, *command: str) -> None:
    user = ("--config", "ui.username=T <t@x>", "--config", "phases.publish=no")
    args = [str(HG), *user, *command]
    subprocess.run(args, cwd=repository, env=ENVIRONMENT, check=True)


def _shrink(seed: int, scratch: Path, peer: Peer) -> list[Step]:
    def is_bad(some: list[Step]) -> bool:
        return bool(_export_of_steps("", some, scratch, peer).problems)

    return shrink(steps(seed), is_bad, 60)


def _all(
    pool: ProcessPoolExecutor, options: argparse.Namespace, scratch: Path
) -> Iterator[tuple[str, Outcome]]:
    peer = Peer(options.hggit.absolute(), options.answers)
    first = options.first_seed

    def each(work: Callable[..., Outcome], count: int) -> Iterator[Outcome]:
        seeds = range(first, first + count)
        yield from pool.map(work, seeds, repeat(scratch), repeat(peer))

    for outcome in each(export_of, options.exports):
        yield "exports", outcome
    for outcome in each(import_of, options.imports):
        yield "imports", outcome
    for outcome in each(renamed_of, options.renamed):
        yield "renamed", outcome
    for outcome in each(listed_of, options.listed):
        yield "listed", outcome
    for outcome in each(alternation, options.alternations):
        yield "alternations", outcome
    seeds = range(first, first + options.moves)
    turns = repeat(options.turns)
    for outcome in pool.map(moving, seeds, turns, repeat(scratch), repeat(peer)):
        yield "moves", outcome
    for number, source in enumerate(options.hg):
        place = scratch / f"given{number}"
        place.mkdir()
        shutil.copytree(source / ".hg", place / "repository" / ".hg", symlinks=True)
        repository = place / "repository"
        yield "given", exported(peer, repository, Outcome(str(source)))
    for number, source in enumerate(options.git):
        place = scratch / f"git{number}"
        place.mkdir()
        bare = place / "project.git"
        git(place, "clone", "-q", "--mirror", str(source.absolute()), str(bare))
        heads = git(bare, "rev-list", "--no-walk", "--branches", "--tags").decode()
        outcome = Outcome(str(source))
        yield "given", imported(peer, bare, heads.split(), outcome)
        yield "given moves", moved(bare, Shape(THREE), options.turns, peer)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hggit", type=Path, required=True, metavar="HG")
    parser.add_argument("--exports", type=int, default=30, help="random histories")
    parser.add_argument("--imports", type=int, default=30, help="random histories")
    parser.add_argument("--renamed", type=int, default=30, help="random histories")
    parser.add_argument("--listed", type=int, default=30, help="random histories")
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--moves", type=int, default=5, help="random histories")
    parser.add_argument("--turns", type=int, default=_TURNS, help="of each move")
    parser.add_argument("--hg", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--git", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--answers", type=Path, help="where those of hg-git are kept")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", action="store_true", help="the first bad export")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.answers:
        options.answers.mkdir(parents=True, exist_ok=True)
    return options


def main() -> int:
    """Compare; 1 if anything differs."""
    options = _options()
    counts: dict[str, Counter[str]] = {}
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="amalgam-hggit-") as name,
        ProcessPoolExecutor(options.jobs) as pool,
    ):
        scratch = Path(name)
        for kind, outcome in _all(pool, options, scratch):
            of_kind = counts.setdefault(kind, Counter())
            of_kind["histories"] += 1
            of_kind["ids"] += outcome.compared
            of_kind["hg-git stopped"] += bool(outcome.stopped)
            if outcome.problems:
                print(f"  {outcome.name}:", *outcome.problems[:_SHOWN], sep="\n    ")
                if options.shrink and kind == "exports" and not wrong:
                    seed = int(outcome.name.split()[1])
                    small = _shrink(seed, scratch, Peer(options.hggit.absolute()))
                    print("    shrunk:", *small, sep="\n      ", flush=True)
            wrong += [f"{outcome.name}: {it}" for it in outcome.problems]
    report = {"compared": counts, "wrong": wrong}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({**report, "wrong": len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
