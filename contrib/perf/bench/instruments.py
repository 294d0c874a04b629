"""Instruments: each measures a run of its own, so that none disturbs another.

An instrument says what it cannot work without, and which values it has; subjects are
compared by one of them.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import psutil

from hgext3rd.amalgam.perf import samples

from .benchmark import Command, CommandError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hgext3rd.amalgam.perf.samples import Sample

_INTERVAL_SECONDS = 0.02


@dataclass(frozen=True)
class Measured:
    """What an instrument saw in one run."""

    values: dict[str, float]
    series: dict[str, list[float]] = field(default_factory=dict)
    """Values over time, and ``seconds``, of equal length."""
    phases: list[tuple[float, str]] = field(default_factory=list)
    """When which phase began."""
    files: list[str] = field(default_factory=list)
    """What an external tool wrote, to be looked at with that tool."""


class Instrument:
    """Measures a command."""

    name: ClassVar[str]
    measures: ClassVar[str]
    """The value that subjects are compared by."""
    program: ClassVar[str] = ""
    """What it cannot work without."""

    def missing(self) -> str:
        """Return why it cannot be used here, or nothing."""
        if self.program and not shutil.which(self.program):
            return f"there is no {self.program}"
        return ""

    def measure(self, command: Command, directory: Path) -> Measured:
        """Run ``command`` once. ``directory`` is for files that are kept."""
        raise NotImplementedError


class Time(Instrument):
    """Wall and processor time, page faults, bytes read from disk.

    Processor time is that of the server, if there is one.
    """

    name = "time"
    measures = "seconds"

    def measure(self, command: Command, directory: Path) -> Measured:
        """Let it run; the kernel counts."""
        sample = _run(command)
        if command.server:
            used = command.server.used_seconds()
            return Measured({"seconds": sample.wall, "cpu_seconds": used})
        return Measured(
            {
                "seconds": sample.wall,
                "cpu_seconds": sample.comb,
                "user_seconds": sample.user,
                "sys_seconds": sample.sys,
                "minor_faults": sample.minor_faults,
                "major_faults": sample.major_faults,
                "read_bytes": sample.read_bytes,
            }
        )


class Processor(Time):
    """Processor time, for a machine that others use as well."""

    name = "cpu"
    measures = "cpu_seconds"


class Written(Instrument):
    """Bytes that its processes write: to files, and the few to pipes."""

    name = "written"
    measures = "written_bytes"

    def missing(self) -> str:
        """Linux counts them."""
        return "" if Path("/proc/self/io").exists() else "there is no /proc/PID/io"

    def measure(self, command: Command, directory: Path) -> Measured:
        """Let it run; a process that nobody has awaited yet has its sums."""
        with subprocess.Popen(
            command.arguments,
            cwd=command.directory,
            env=command.full_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            counts = Path(f"/proc/{process.pid}/io").read_text()
        if process.returncode:
            raise CommandError(f"exit {process.returncode}: {command.arguments}")
        written = counts.split("wchar: ")[1].split()[0]
        return Measured({"written_bytes": int(written)})


class Memory(Instrument):
    """PSS of all processes over time, by the phases that hg's progress bars name.

    Proportional set sizes count each page once, however many processes share it.
    """

    name = "memory"
    measures = "peak_pss_bytes"

    def measure(self, command: Command, directory: Path) -> Measured:
        """Sample while it runs, less often the longer a sample takes."""
        names = ("seconds", "pss_bytes", "anonymous_bytes", "processes")
        series: dict[str, list[float]] = {name: [] for name in names}
        phases: list[tuple[float, str]] = []
        over, start = threading.Event(), time.perf_counter()
        shown = _with_progress(command)
        process = subprocess.Popen(
            shown.arguments,
            cwd=shown.directory,
            env=shown.full_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

        def watch() -> None:
            while not over.is_set():
                before = time.perf_counter()
                row = (round(before - start, 4), *_tree_memory(process.pid))
                if row[-1]:
                    for name, number in zip(names, row, strict=True):
                        series[name].append(number)
                took = time.perf_counter() - before
                over.wait(max(_INTERVAL_SECONDS, 4 * took))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        stderr = process.stderr
        assert stderr is not None
        with stderr:
            while piece := os.read(stderr.fileno(), 1 << 16):
                seconds = round(time.perf_counter() - start, 3)
                for topic in re.findall(rb"\r([a-z][a-z ]*[a-z])\b", piece):
                    if not phases or phases[-1][1] != topic.decode():
                        phases.append((seconds, topic.decode()))
        failed = process.wait()
        over.set()
        watcher.join()
        if failed:
            words = " ".join(command.arguments)
            raise CommandError(f"exit {process.returncode}: {words}")
        peaks = ("pss_bytes", "anonymous_bytes")
        values = {f"peak_{name}": max(series[name], default=0.0) for name in peaks}
        return Measured(values, series, phases)


class Instructions(Instrument):
    """Instructions in user space, counted by the processor: hardly any noise."""

    name = "instructions"
    measures = "instructions"
    program = "perf"

    def missing(self) -> str:
        """Return why the processor does not count here; virtual ones may not."""
        reason = super().missing()
        if reason:
            return reason
        try:
            self._count(Command(["true"]))
        except CommandError as err:
            return str(err).splitlines()[0]
        return ""

    def measure(self, command: Command, directory: Path) -> Measured:
        """Count in all processes."""
        return Measured({"instructions": self._count(command)})

    def _count(self, command: Command) -> float:
        with tempfile.NamedTemporaryFile("r") as output:
            words = ["perf", "stat", "-x,", "-e", "instructions:u", "-o", output.name]
            _run(command, [*words, "--"])
            for line in csv.reader(output):
                if len(line) > 2 and line[2].startswith("instructions"):
                    if not line[0].isdigit():
                        break
                    return float(line[0])
        raise CommandError("the processor counts no instructions here")


class Callgrind(Instrument):
    """Instructions by function, counted by Valgrind: exact, and fifty times slower."""

    name = "callgrind"
    measures = "instructions"
    program = "valgrind"

    def measure(self, command: Command, directory: Path) -> Measured:
        """Simulate it."""
        output = directory / "callgrind.out.%p"
        words = ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes"]
        _run(command, [*words, f"--callgrind-out-file={output}"])
        found = sorted(directory.glob("callgrind.out.*"))
        counts = [
            int(count)
            for path in found
            for count in re.findall(
                r"(?m)^(?:summary|totals): (\d+)", path.read_text()
            )[:1]
        ]
        return Measured({"instructions": sum(counts)}, files=list(map(str, found)))


INSTRUMENTS: dict[str, Instrument] = {
    kind.name: kind()
    for kind in (Time, Processor, Written, Memory, Instructions, Callgrind)
}


def _run(command: Command, wrapper: Sequence[str] = ()) -> Sample:
    """Run a command, below ``wrapper``; ``CommandError`` if it fails."""
    words = [*wrapper, *command.arguments]
    environment = command.full_environment()
    try:
        return samples.run(words, b"", environment, command.directory)[0]
    except samples.Failed as err:
        raise CommandError(f"{' '.join(words)}: {err}") from err


def _with_progress(command: Command) -> Command:
    """Have hg draw its progress bars, of the topic alone, though there is no screen."""
    if Path(command.arguments[0]).name != "hg":
        return command
    first, *others = command.arguments
    items = ["assume-tty=yes", "delay=0", "refresh=0.01", "format=topic"]
    words = [word for item in items for word in ("--config", f"progress.{item}")]
    except_progress = {**command.environment, "HGPLAINEXCEPT": "progress"}
    return Command([first, *words, *others], except_progress, command.directory)


def _tree_memory(root: int) -> tuple[int, int, int]:
    """Return PSS, its anonymous part, and the number of processes of a tree."""
    try:
        parent = psutil.Process(root)
        pids = [root, *(child.pid for child in parent.children(recursive=True))]
    except psutil.Error:
        return 0, 0, 0
    pss = anonymous = count = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended meanwhile
            continue
        sizes = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
        pss += 1024 * int(sizes.get("Pss", 0))
        anonymous += 1024 * int(sizes.get("Pss_Anon", 0))
        count += 1
    return pss, anonymous, count
