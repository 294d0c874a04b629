"""Everything in one file, for git and for hg."""

from __future__ import annotations

import hashlib
import re

from ..benchmark import Answer, Benchmark, Command, Job

_NODE = re.compile(r"^ +([0-9a-f]{40})$", re.MULTILINE)


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
        return {"refs": hashlib.sha1(refs.encode()).hexdigest()}


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
            "nodes": hashlib.sha1(" ".join(nodes).encode()).hexdigest(),
        }
