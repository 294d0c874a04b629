"""Results on disk: one JSON file with all there is, and a CSV of its values.

The JSON has ``date``, ``command``, ``machine``, ``subjects``, ``repositories``, and
``samples`` in the order in which they were taken; and ``tables``, what hg's own perf
commands printed.
"""

from __future__ import annotations

import csv
import json
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class UnreadableError(ValueError):
    """Not a file of results."""


@dataclass(frozen=True)
class Sample:
    """One run of a benchmark under an instrument."""

    benchmark: str
    repository: str
    subject: str
    instrument: str
    number: int
    """Which pass it was taken in, from 1."""
    values: dict[str, float]
    series: dict[str, list[float]] = field(default_factory=dict)
    phases: list[tuple[float, str]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


@dataclass
class Results:
    """Everything that one run of the harness found out."""

    machine: dict[str, object]
    command: str = ""
    date: str = field(
        default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    )
    subjects: dict[str, str] = field(default_factory=dict)
    """What each is: its kind and version."""
    repositories: dict[str, dict[str, object]] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """What was not measured, and why."""
    tables: list[dict[str, Any]] = field(default_factory=list)
    revision: dict[str, Any] = field(default_factory=dict)
    """What of the tree was measured, where results are kept by that."""

    def write(self, path: Path, *, with_csv: bool = True) -> None:
        """Write the JSON file, and a CSV beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        partial.replace(path)
        if self.samples and with_csv:
            self._write_csv(path.with_suffix(".csv"))

    def _write_csv(self, path: Path) -> None:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            names = ("benchmark", "repository", "subject", "instrument", "number")
            writer.writerow([*names, "value", "measured"])
            for sample in self.samples:
                place = [getattr(sample, name) for name in names]
                for name, value in sample.values.items():
                    writer.writerow([*place, name, value])

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read a JSON file; ``UnreadableError`` if it is another one."""
        try:
            content = json.loads(path.read_text())
            samples = [Sample(**sample) for sample in content.pop("samples")]
            return cls(samples=samples, **content)
        except (OSError, ValueError, KeyError, TypeError) as err:
            raise UnreadableError(f"{path}: no results: {err}") from err


def merge(several: Iterable[Results]) -> Results:
    """Return results as if they were of one run; facts are those of the first."""
    first, *others = several
    merged = Results(**{**vars(first)})
    merged.samples = list(first.samples)
    merged.tables, merged.skipped = list(first.tables), list(first.skipped)
    for other in others:
        merged.samples += other.samples
        merged.tables += other.tables
        merged.skipped += other.skipped
        merged.subjects = merged.subjects | other.subjects
        merged.repositories = merged.repositories | other.repositories
    return merged
