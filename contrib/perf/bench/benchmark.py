"""What a benchmark is: a small class with ``setup`` and ``run``.

``setup`` makes all that ``run`` needs and is not measured; ``run`` only says which
command is. ``answer`` is what a subject made of it: subjects that answer differently
are not compared. How to add one is in ``contrib/perf/README.rst``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .repository import Repository
    from .server import Server
    from .subject import Subject

Answer = dict[str, object]


class CommandError(Exception):
    """A command failed, so there is nothing to measure."""


class InputError(ValueError):
    """The command line, or a file that it names, is not as it has to be."""


@dataclass(frozen=True)
class Command:
    """What is measured: a process and its descendants."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """What is added to the environment."""
    directory: Path | None = None
    server: Server | None = None
    """Whose processor time is measured instead. It is stopped after the run."""

    def full_environment(self) -> dict[str, str]:
        """Return the environment: that of this process, sealed against its user."""
        # an hg that is built in place would compile its modules at each start
        not_kept = ("GIT_", "HG", "PYTHONDONTWRITEBYTECODE")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(not_kept)}
        fixed = {
            "HGRCPATH": "",
            "HGPLAIN": "1",
            "HGUSER": "bench",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "PYTHONHASHSEED": "0",  # or the count of instructions varies
        }
        return kept | fixed | dict(self.environment)

    def output(self, limit_seconds: float | None = None) -> str:
        """Run it without measuring, and return what it writes to stdout.

        ``CommandError`` if it fails, or takes longer than the limit.
        """
        words = " ".join(self.arguments)
        process = subprocess.Popen(
            self.arguments,
            cwd=self.directory,
            env=self.full_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=limit_seconds)
        except subprocess.TimeoutExpired as err:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise CommandError(f"more than {limit_seconds} s: {words}") from err
        finally:
            if self.server:
                self.server.stop()
        if process.returncode:
            raise CommandError(f"exit {process.returncode}: {words}\n{stderr[-2000:]}")
        return stdout


@dataclass(frozen=True)
class Job:
    """One subject with one benchmark on one repository."""

    subject: Subject
    repository: Repository
    work: Path
    """A directory of the job's own, kept from run to run."""

    def fresh(self, name: str) -> Path:
        """Return a path in ``work`` where there is nothing."""
        path = self.work / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        return path

    def copy(self) -> Path:
        """Return a copy of the repository, made once, for who writes to it."""
        copy = self.work / "repository"
        if not copy.exists():
            shutil.copytree(self.repository.path, copy, symlinks=True)
            shutil.rmtree(copy / ".hg" / "amalgam", ignore_errors=True)
        return copy


class Benchmark:
    """Something that several subjects can do. Subclasses say what, and whose work."""

    name: ClassVar[str]
    title: ClassVar[str] = ""
    """What it is called on pages; if that is not its name."""
    kinds: ClassVar[tuple[str, ...]]
    """The kinds of subjects that can; see ``subject.KINDS``."""

    def setup(self, job: Job) -> None:
        """Make what ``run`` needs, before each run. Not measured."""

    def run(self, job: Job) -> Command:
        """Return what is measured."""
        raise NotImplementedError

    def answer(self, job: Job) -> Answer:
        """Return what the run made. A key counts between those who have it."""
        return {}
