"""Runs benchmarks: first for their answers, then in passes of random order.

Owns the order, and that nothing is measured whose answer is wrong. The first subject is
measured twice in each pass, under two names: what these differ by is noise.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hgext3rd.amalgam.perf.passes import agree, shuffled

from .benchmark import Answer, CommandError, Job
from .results import Results, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .benchmark import Benchmark
    from .instruments import Instrument
    from .repository import Repository
    from .subject import Subject


@dataclass(frozen=True)
class Plan:
    """What is to be run."""

    benchmarks: Sequence[Benchmark]
    repositories: Sequence[Repository]
    subjects: Sequence[Subject]
    instruments: Sequence[Instrument]
    passes: int
    directory: Path
    """For what is made on the way; kept are only files of external tools."""
    limit_seconds: float
    """Who takes longer, the first time, is not measured."""


@dataclass(frozen=True)
class _Cell:
    benchmark: Benchmark
    job: Job
    instrument: Instrument

    @property
    def label(self) -> str:
        names = (self.job.repository.name, self.job.subject.name)
        return " ".join([self.benchmark.name, *names, self.instrument.name])


def run(plan: Plan, results: Results, say: Callable[[str], None]) -> None:
    """Add samples to ``results``; ``say`` what is done meanwhile."""
    cells = []
    for benchmark in plan.benchmarks:
        for repository in plan.repositories:
            jobs = _checked_jobs(plan, benchmark, repository, results, say)
            cells += [
                _Cell(benchmark, job, instrument)
                for job in jobs
                for instrument in plan.instruments
            ]
    for number, cell in shuffled(cells, range(1, plan.passes + 1)):
        sample = _take(plan, cell, number)
        results.samples.append(sample)
        value = sample.values[cell.instrument.measures]
        say(f"pass {number}: {cell.label}: {cell.instrument.measures} {value:.6g}")


def _checked_jobs(
    plan: Plan,
    benchmark: Benchmark,
    repository: Repository,
    results: Results,
    say: Callable[[str], None],
) -> list[Job]:
    """Run each subject once and return the jobs of those that can be measured.

    ``Disagreement`` if they answer differently.
    """
    jobs: list[Job] = []
    answers: dict[str, Answer] = {}
    for subject in plan.subjects:
        if subject.kind not in benchmark.kinds:
            continue
        for twin in [subject] if answers else [subject, subject.again()]:
            job = _job(plan, benchmark, repository, twin)
            label = f"{benchmark.name} {repository.name} {twin.name}"
            say(f"check: {label}")
            try:
                benchmark.setup(job)
                benchmark.run(job).output(plan.limit_seconds)
                answer = benchmark.answer(job)
            except CommandError as err:
                first = str(err).splitlines()
                results.skipped.append(f"{label}: {' '.join(first[:2])}")
                say(f"skipped: {results.skipped[-1]}")
                break
            agree(label, answer, answers)
            answers[twin.name] = answer
            jobs.append(job)
    return jobs


def _job(
    plan: Plan, benchmark: Benchmark, repository: Repository, subject: Subject
) -> Job:
    names = (benchmark.name, repository.name, subject.name)
    work = plan.directory / _file_name("-".join(names))
    if work.exists():
        shutil.rmtree(work)
    work.mkdir(parents=True)
    return Job(subject, repository, work)


def _take(plan: Plan, cell: _Cell, number: int) -> Sample:
    files = plan.directory / "files" / f"{_file_name(cell.label)}-{number}"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir(parents=True)
    cell.benchmark.setup(cell.job)
    command = cell.benchmark.run(cell.job)
    try:
        measured = cell.instrument.measure(command, files)
    finally:
        if command.server:
            command.server.stop()
    return Sample(
        benchmark=cell.benchmark.name,
        repository=cell.job.repository.name,
        subject=cell.job.subject.name,
        instrument=cell.instrument.name,
        number=number,
        **vars(measured),
    )


def _file_name(label: str) -> str:
    """Return a name that means nothing to a shell, nor to LD_PRELOAD."""
    return re.sub(r"[^\w.-]+", "-", label).strip("-")
