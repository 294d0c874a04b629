"""Results on disk: one JSON file, with the machine that they are worth nothing without.

It has ``date``, ``command``, ``machine``, ``subjects``, ``repositories``, and
``samples`` in the order in which they were taken; and ``tables``, what hg's own perf
commands printed.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from .benchmark import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

Facts = dict[str, object]


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

    def write(self, path: Path) -> None:
        """Write the JSON file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        partial.replace(path)

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read a JSON file; ``InputError`` if it is another one."""
        try:
            content = json.loads(path.read_text())
            samples = [Sample(**sample) for sample in content.pop("samples")]
            return cls(samples=samples, **content)
        except (OSError, ValueError, KeyError, TypeError) as err:
            raise InputError(f"{path}: no results: {err}") from err


def merge(several: Iterable[Results]) -> Results:
    """Return results as if they were of one run; facts are those of the first."""
    first, *others = several
    merged = replace(first)
    for other in others:
        merged.samples = merged.samples + other.samples
        merged.tables = merged.tables + other.tables
        merged.skipped = merged.skipped + other.skipped
        merged.subjects = merged.subjects | other.subjects
        merged.repositories = merged.repositories | other.repositories
    return merged


def machine_facts() -> Facts:
    """Describe this machine and its present load."""
    return {
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": list(os.getloadavg()),
        "python": platform.python_version(),
    }


def machine_name(facts: Facts) -> str:
    """Describe the kind of machine."""
    memory = facts["memory_bytes"]
    gigabytes = memory / 2**30 if isinstance(memory, int) else 0
    return f"{facts['cpu']}, {facts['cores']} cores, {gigabytes:.0f} GB"


def describe_machine(facts: Facts) -> str:
    """Return it in one line, with how busy it was."""
    load = facts["load_average"]
    first = load[0] if isinstance(load, list) else 0
    return f"{machine_name(facts)}, {facts['platform']}; load {first:.1f} at the start"


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [
        line.partition(": ")[2] for line in lines if line.startswith("model name")
    ]
    return models[0] if models else platform.processor()
