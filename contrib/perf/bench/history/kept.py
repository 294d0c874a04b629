"""Results by revision, in a directory outside of the tree: a file for each run.

A file has the JSON of ``results``, without what was seen over time, and the revision.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ..results import Results, UnreadableError
from .revision import SHORT, Revision

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def keep(results: Results, revision: Revision, directory: Path) -> Path:
    """Write a file for a run and return its path."""
    samples = [
        dataclasses.replace(sample, series={}, phases=[], files=[])
        for sample in results.samples
    ]
    facts = dataclasses.asdict(revision)
    kept = dataclasses.replace(results, samples=samples, revision=facts)
    when = "".join(c for c in results.date if c.isalnum())
    path = directory / f"{revision.oid[:SHORT]}-{when}.json"
    kept.write(path, with_csv=False)
    return path


def read(directory: Path) -> list[tuple[Revision, list[Results]]]:
    """Return what is in a directory, by the date of the commit.

    ``UnreadableError`` if a file is none of these, or if there is none.
    """
    found: dict[Revision, list[Results]] = {}
    for path in sorted(directory.glob("*.json")):
        results = Results.read(path)
        try:
            revision = Revision(**results.revision)
        except TypeError as err:
            raise UnreadableError(f"{path}: no revision: {err}") from err
        found.setdefault(revision, []).append(results)
    if not found:
        raise UnreadableError(f"{directory}: nothing was kept there")
    return sorted(found.items(), key=lambda item: item[0].order)


def of_one_machine(
    kept: Sequence[tuple[Revision, list[Results]]],
) -> tuple[list[tuple[Revision, list[Results]]], int]:
    """Return what was measured on the machine of the last run, and the others' number.

    Numbers of two machines are no trend.
    """
    runs = [(revision, run) for revision, several in kept for run in several]
    last = _machine(max(runs, key=lambda item: item[1].date)[1])
    found = []
    for revision, several in kept:
        ours = [run for run in several if _machine(run) == last]
        if ours:
            found.append((revision, ours))
    return found, len(runs) - sum(len(ours) for _revision, ours in found)


def _machine(results: Results) -> tuple[object, ...]:
    # the memory of a virtual machine differs by some pages from start to start
    memory = results.machine.get("memory_bytes")
    gigabytes = round(memory / 2**30) if isinstance(memory, int) else 0
    return results.machine.get("cpu"), results.machine.get("cores"), gigabytes
