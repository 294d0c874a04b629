"""The repositories that are compared: generated, odd, and real ones from bundles.

Owns which there are and how each is made; nothing here converts anything.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testlib import odd, oddnotes, oddstore
from testlib.environment import ENVIRONMENT, HG, ROOT
from testlib.oddstore import Step

_GENERATE = ROOT / "contrib" / "perf" / "generate.py"
#: Profile and its sizes, of contrib/perf/generate.py.
_PROFILES = (
    "realistic --changesets=300 --seed=1",
    "realistic --changesets=1200 --seed=2",
    "realistic --changesets=500 --seed=3 --draft=60",
    "realistic --changesets=400 --seed=4 --compression=zlib",
    "linear --changesets=3000 --files=5 --seed=1",
    "merges --changesets=300 --files=20 --seed=1",
    "merges --changesets=900 --files=60 --seed=2",
    "topics --changesets=700 --files=40 --topics=50 --seed=1",
    "wide-topics --changesets=800 --files=300 --lines=20 --topics=40 --seed=1",
    "criss-cross --changesets=600 --files=40 --pairs=20 --seed=1",
    "many-files --changesets=10 --files=2000 --seed=1",
    "deep-directories --changesets=150 --files=60 --seed=1",
    "deep-directories --changesets=60 --files=200 --depth=20 --seed=2",
    "many-heads --changesets=400 --heads=300 --seed=1",
    "large-files --changesets=8 --megabytes=1 --seed=1",
    "monorepo --changesets=800 --files=900 --directories=120 --topics=12 --seed=1",
)


@dataclass(frozen=True)
class Subject:
    """A repository that can be made."""

    name: str
    kind: str
    """``generated``, ``odd``, ``corpus`` or ``given``."""
    percent: int
    """How much is exported first when it is exported in two steps."""

    def make(self, path: Path) -> None:
        """Create the repository at ``path``."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Generated(Subject):
    arguments: tuple[str, ...]

    def make(self, path: Path) -> None:
        profile, *sizes = self.arguments
        command = [sys.executable, str(_GENERATE), profile, str(path), *sizes]
        _run(command)


@dataclass(frozen=True)
class Odd(Subject):
    """A history of ``testlib.odd``, or a part of one."""

    steps: tuple[Step, ...]

    def make(self, path: Path) -> None:
        """Create the repository at ``path``."""
        oddstore.write(path, self.steps)


@dataclass(frozen=True)
class _Notes(Subject):
    def make(self, path: Path) -> None:
        oddstore.write(path, oddnotes.steps())


@dataclass(frozen=True)
class _Corpus(Subject):
    bundle: Path

    def make(self, path: Path) -> None:
        _run([str(HG), "init", str(path)])
        _run([str(HG), "-R", str(path), "unbundle", "-q", str(self.bundle)])


@dataclass(frozen=True)
class _Given(Subject):
    repository: Path

    def make(self, path: Path) -> None:
        """Copy it: what is exported there already stays as it is."""
        ignored = shutil.ignore_patterns("amalgam")
        shutil.copytree(
            self.repository / ".hg", path / ".hg", symlinks=True, ignore=ignored
        )


def generated() -> Iterator[Subject]:
    """One repository for each profile and size, and one for all kinds of notes."""
    for line in _PROFILES:
        profile, *sizes = line.split()
        numbers = [size.split("=")[1] for size in sizes]
        name = "-".join([profile, *numbers])
        yield _Generated(name, "generated", 50, (profile, *sizes))
    yield _Notes("notes", "generated", 50)


def odd_ones(first_seed: int, count: int) -> Iterator[Odd]:
    """So many odd histories, by their seeds."""
    for seed in range(first_seed, first_seed + count):
        steps = tuple(odd.steps(seed))
        yield Odd(f"odd-{seed}", "odd", 10 + seed * 37 % 80, steps)


def corpora(directory: Path) -> Iterator[Subject]:
    """One repository for each ``*.hg`` bundle in ``directory``."""
    for bundle in sorted(directory.glob("*.hg")):
        yield _Corpus(bundle.stem, "corpus", 50, bundle)


def given(repository: Path) -> Subject:
    """A copy of an existing repository."""
    return _Given(repository.name, "given", 50, repository)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True)
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise OSError(f"{' '.join(command)}\n{said}")
