"""Whole commands that read an index and little more."""

from __future__ import annotations

import hashlib

from ..benchmark import Answer, Benchmark, Command, Job


class Log(Benchmark):
    """``hg log -l 5``."""

    name = "log"
    kinds = ("amalgam", "hg")

    def run(self, job: Job) -> Command:
        """Show the last five changesets."""
        return self._with_repository(job, "log", "-l", "5")

    def answer(self, job: Job) -> Answer:
        """What it prints."""
        return {"output": hashlib.sha1(self.run(job).output().encode()).hexdigest()}

    def _with_repository(self, job: Job, *words: str) -> Command:
        return job.subject.command("-R", str(job.copy()), *words)


class Lookup(Log):
    """``hg log -r PREFIX``, which has to know whether it is unambiguous."""

    name = "lookup"

    def run(self, job: Job) -> Command:
        """Show the changeset that ten digits name."""
        return self._with_repository(job, "log", "-r", job.repository.tip[:10])
