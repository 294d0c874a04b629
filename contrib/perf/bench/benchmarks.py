"""The benchmarks, by name: exports, bundles, and commands that read little.

Those of many names are in ``names``.

An export's commits differ with the subject's dialect, but not their contents: all have
to have the same number of commits and the same tree at the tip. Those of amalgam and
git-cinnabar have to have the same ids.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from pathlib import Path
from typing import ClassVar

from . import names
from .benchmark import Answer, Benchmark, Command, Job

_AMALGAM_GIT = Path(".hg", "amalgam", "git", "cinnabar.git")
_NODE = re.compile(r"^ +([0-9a-f]{40})$", re.MULTILINE)


class Export(Benchmark):
    """The whole history, from nothing."""

    name = "export"
    title = "first export"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam", "cinnabar", "hg-git", "fast-export")

    def setup(self, job: Job) -> None:
        """Remove the output of the last run."""
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
            found["ids"] = _digest(ids)
        found["commits"] = _git(git, "rev-list", "--count", tip).strip()
        found["tree"] = _git(git, "rev-parse", f"{tip}^{{tree}}").strip()
        return dict(found)


class ExportNothing(Export):
    """Another run when nothing has changed."""

    name = "export-nothing"
    title = "export of nothing new"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam", "cinnabar", "hg-git")

    def setup(self, job: Job) -> None:
        """Export everything, the first time."""
        if not _git_directory(job).exists():
            super().setup(job)
            super().run(job).output()

    def run(self, job: Job) -> Command:
        """Ask for new changesets."""
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


class GitBundle(Benchmark):
    """A git bundle, when everything has been exported: amalgam's, and git's own."""

    name = "git-bundle"
    title = "bundle for git"
    kinds = ("amalgam", "git")

    def setup(self, job: Job) -> None:
        """Export everything, the first time."""
        if not (job.copy() / ".hg" / "amalgam").exists():
            hg, words = str(job.subject.hg), ["--config", "extensions.amalgam="]
            Command([hg, *words, "-R", str(job.copy()), "git::export"]).output()
        job.fresh("bundle")

    def run(self, job: Job) -> Command:
        """Write it."""
        copy, bundle = str(job.copy()), str(job.work / "bundle")
        if job.subject.kind == "amalgam":
            return job.subject.command("-R", copy, "git::bundle", bundle)
        git = f"{copy}/.hg/amalgam/git/cinnabar.git"
        refs = ["--branches", "--tags", "HEAD"]
        return job.subject.command("-C", git, "bundle", "create", "-q", bundle, *refs)

    def answer(self, job: Job) -> Answer:
        """The refs in it, after git has verified it."""
        bundle = str(job.work / "bundle")
        repository = str(job.fresh("verified"))
        Command(["git", "clone", "-q", "--mirror", bundle, repository]).output()
        Command(["git", "-C", repository, "fsck", "--connectivity-only"]).output()
        refs = Command(["git", "-C", repository, "show-ref", "--head"]).output()
        return {"refs": _digest(refs)}


class HgBundle(Benchmark):
    """``hg bundle --all``, not compressed: as it is, and with amalgam."""

    name = "hg-bundle"
    title = "bundle for hg"
    kinds = ("amalgam", "hg")

    def setup(self, job: Job) -> None:
        """Remove the last one."""
        job.fresh("bundle")

    def run(self, job: Job) -> Command:
        """Write it."""
        words = ["bundle", "-q", "--all", "-t", "none-v2", str(job.work / "bundle")]
        return job.subject.command("-R", str(job.copy()), *words)

    def answer(self, job: Job) -> Answer:
        """The changesets in it."""
        words = ["debugbundle", str(job.work / "bundle")]
        listed = Command([str(job.subject.hg), *words]).output()
        nodes = _NODE.findall(listed)
        return {
            "changesets": len(nodes),
            "nodes": _digest(" ".join(nodes)),
        }


class Log(Benchmark):
    """``hg log -l 5``."""

    name = "log"
    kinds = ("amalgam", "hg")

    def run(self, job: Job) -> Command:
        """Show the last five changesets."""
        return self._with_repository(job, "log", "-l", "5")

    def answer(self, job: Job) -> Answer:
        """Its output."""
        return {"output": _digest(self.run(job).output())}

    def _with_repository(self, job: Job, *words: str) -> Command:
        return job.subject.command("-R", str(job.copy()), *words)


class Lookup(Log):
    """``hg log -r PREFIX``, which has to know whether it is unambiguous."""

    name = "lookup"

    def run(self, job: Job) -> Command:
        """Show the changeset that ten digits name."""
        return self._with_repository(job, "log", "-r", job.repository.tip[:10])


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


BENCHMARKS: dict[str, Benchmark] = {
    kind.name: kind()
    for kind in (
        *(Export, ExportNothing, GitBundle, HgBundle, Log, Lookup),
        *(names.Start, names.ExportOne, names.ExportDeletion),
        *(names.FetchOne, names.FetchFirst),
        *(names.PushOne, names.Replicate, names.ReplicateNothing),
        *(
            names.ReplicateMany,
            names.ReplicateSeven,
            names.ReplicateHidden,
            names.ReplicateSevenHidden,
        ),
        *(names.ReplicatePulled, names.ReplicatePulledHidden),
    )
}
