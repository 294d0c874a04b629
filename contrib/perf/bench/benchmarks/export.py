"""From Mercurial to git: everything, and nothing new.

A subject's commits differ with its dialect, but not what they contain: all have to have
the same number of commits and the same tree at the tip. Those of amalgam and
git-cinnabar have to have the same ids.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import ClassVar

from ..benchmark import Answer, Benchmark, Command, Job

_AMALGAM_GIT = Path(".hg", "amalgam", "git", "cinnabar.git")


class Export(Benchmark):
    """The whole history, from nothing."""

    name = "export"
    title = "first export"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam", "cinnabar", "hg-git", "fast-export")

    def setup(self, job: Job) -> None:
        """Remove what the last run made."""
        copy = job.copy()
        for made in (".hg/amalgam", ".hg/git", ".hg/git-mapfile"):
            Job(job.subject, job.repository, copy).fresh(made)
        job.fresh("git")

    def run(self, job: Job) -> Command:
        """Convert it."""
        subject, copy, git = job.subject, str(job.copy()), str(job.work / "git")
        if subject.kind == "amalgam":
            return subject.command("-R", copy, "git::export")
        if subject.kind == "cinnabar":
            return subject.command("clone", "-q", "--no-checkout", f"hg::{copy}", git)
        if subject.kind == "hg-git":
            return subject.command("-R", copy, "gexport")
        words = subject.command("-R", copy, "fastexport", "-q").arguments
        pipe = f"{shlex.join(words)} | git -C {shlex.quote(git)} fast-import --quiet"
        return Command(["sh", "-c", f"git init -q --bare {shlex.quote(git)} && {pipe}"])

    def answer(self, job: Job) -> Answer:
        """Commits, contents, and for two of them ids."""
        git = _git_directory(job)
        tip, found = _commit_of(job, git, job.repository.tip), {}
        if job.subject.kind in ("amalgam", "cinnabar"):
            ids = _git(git, "rev-list", tip)
            found["ids"] = hashlib.sha1(ids.encode()).hexdigest()
        found["commits"] = _git(git, "rev-list", "--count", tip).strip()
        found["tree"] = _git(git, "rev-parse", f"{tip}^{{tree}}").strip()
        return dict(found)


class ExportNothing(Export):
    """What there is to do when nothing has changed."""

    name = "export-nothing"
    title = "export of nothing new"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam", "cinnabar", "hg-git")

    def setup(self, job: Job) -> None:
        """Export everything, the first time."""
        if not _git_directory(job).exists():
            super().setup(job)
            super().run(job).output()

    def run(self, job: Job) -> Command:
        """Ask for what is new."""
        if job.subject.kind == "cinnabar":
            return job.subject.command("-C", str(job.work / "git"), "fetch", "-q")
        return super().run(job)


def _git_directory(job: Job) -> Path:
    if job.subject.kind == "amalgam":
        return job.copy() / _AMALGAM_GIT
    if job.subject.kind == "hg-git":
        return job.copy() / ".hg" / "git"
    return job.work / "git"


def _commit_of(job: Job, git: Path, node: str) -> str:
    """Return the commit of a changeset."""
    subject, copy = job.subject, str(job.copy())
    if subject.kind == "cinnabar":
        command = subject.command("-C", str(git), "cinnabar", "hg2git", node)
    elif subject.kind == "fast-export":
        template = ["log", "-r", node, "-T", "{branch}"]
        branch = Command([str(subject.hg), "-R", copy, *template]).output()
        command = Command(["git", "-C", str(git), "rev-parse", f"refs/heads/{branch}"])
    else:
        words = ["log", "-r", node, "-T", "{gitnode}"]
        command = subject.command("-R", copy, *words)
    return command.output().strip()


def _git(directory: Path, *words: str) -> str:
    return Command(["git", "-C", str(directory), *words]).output()
