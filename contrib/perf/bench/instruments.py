"""What a run is looked at with. Each instrument takes a run of its own.

So none disturbs another. An instrument says what it cannot work without, and which
values it has; the first of them is what subjects are compared by.
"""

from __future__ import annotations

import csv
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from .benchmark import Command, CommandError
from .processes import MemoryOverTime, listen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ALLOCATOR = Path(__file__).with_name("allocator.c")


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
    """Wall and processor time, page faults, bytes read from disk."""

    name = "time"
    measures = "seconds"

    def measure(self, command: Command, directory: Path) -> Measured:
        """Let it run; the kernel counts."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        read_before, start = _read_bytes(), time.perf_counter()
        _wait(_start(command))
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        user, system = (
            after.ru_utime - before.ru_utime,
            after.ru_stime - before.ru_stime,
        )
        return Measured(
            {
                "seconds": seconds,
                "cpu_seconds": user + system,
                "user_seconds": user,
                "sys_seconds": system,
                "minor_faults": after.ru_minflt - before.ru_minflt,
                "major_faults": after.ru_majflt - before.ru_majflt,
                "read_bytes": _read_bytes() - read_before,
            }
        )


class Memory(Instrument):
    """PSS of all processes over time, by the phases that hg's progress bars name."""

    name = "memory"
    measures = "peak_pss_bytes"

    def measure(self, command: Command, directory: Path) -> Measured:
        """Sample while it runs."""
        phases: list[tuple[float, str]] = []

        def note(seconds: float, piece: bytes) -> None:
            for topic in re.findall(rb"\r([a-z][a-z ]*[a-z])\b", piece):
                if not phases or phases[-1][1] != topic.decode():
                    phases.append((round(seconds, 3), topic.decode()))

        process = _start(_with_progress(command), stderr=subprocess.PIPE)
        memory = MemoryOverTime(process.pid)
        memory.start()
        reader = listen(process, note)
        try:
            _wait(process)
        finally:
            reader.join()
            memory.stop()
        values = {
            "peak_pss_bytes": max(memory.series["pss_bytes"], default=0.0),
            "peak_anonymous_bytes": max(memory.series["anonymous_bytes"], default=0.0),
        }
        return Measured(values, memory.series, phases)


class Instructions(Instrument):
    """Instructions in user space, counted by the processor: hardly any noise."""

    name = "instructions"
    measures = "instructions"
    program = "perf"

    def missing(self) -> str:
        """Tell whether the processor counts here; virtual ones may not."""
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
            _wait(_start(_wrapped(command, [*words, "--"])))
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
        _wait(_start(_wrapped(command, [*words, f"--callgrind-out-file={output}"])))
        found = sorted(directory.glob("callgrind.out.*"))
        totals = [
            int(match[1])
            for path in found
            if (
                match := re.search(
                    r"^(?:summary|totals): (\d+)", path.read_text(), re.M
                )
            )
        ]
        return Measured({"instructions": sum(totals)}, files=list(map(str, found)))


class Massif(Instrument):
    """What is on the heap, and who put it there, by Valgrind."""

    name = "massif"
    measures = "peak_heap_bytes"
    program = "valgrind"

    def measure(self, command: Command, directory: Path) -> Measured:
        """Simulate it; the peak is that of the largest process."""
        output = directory / "massif.out.%p"
        words = ["valgrind", "-q", "--tool=massif", "--trace-children=yes"]
        _wait(_start(_wrapped(command, [*words, f"--massif-out-file={output}"])))
        found = sorted(directory.glob("massif.out.*"))
        heaps = [
            int(size)
            for path in found
            for size in re.findall(r"^mem_heap_B=(\d+)", path.read_text(), re.M)
        ]
        peak = max(heaps, default=0)
        return Measured({"peak_heap_bytes": peak}, files=list(map(str, found)))


class Heaptrack(Instrument):
    """The same by heaptrack, which is quicker and follows one process."""

    name = "heaptrack"
    measures = "peak_heap_bytes"
    program = "heaptrack"

    def measure(self, command: Command, directory: Path) -> Measured:
        """Trace it."""
        output = directory / "heaptrack"
        _wait(_start(_wrapped(command, ["heaptrack", "-o", str(output)])))
        (found,) = directory.glob("heaptrack*")
        report = Command(["heaptrack_print", "-f", str(found)]).output()
        match = re.search(r"peak heap memory consumption: ([\d.]+)(\w)", report)
        units = {"B": 1, "K": 1e3, "M": 1e6, "G": 1e9}
        peak = float(match[1]) * units[match[2]] if match else 0.0
        return Measured({"peak_heap_bytes": peak}, files=[str(found)])


class Allocator(Instrument):
    """What the allocator of the C library has of the system, and lends, over time.

    Of the process that has the most. Programs with an allocator of their own show up
    with nothing.
    """

    name = "allocator"
    measures = "fragmentation"
    program = "cc"

    def measure(self, command: Command, directory: Path) -> Measured:
        """Ask it from within, by a library that is loaded first."""
        library = directory / "allocator.so"
        source = ["-shared", "-fPIC", "-O2", "-o", str(library), str(_ALLOCATOR)]
        Command(["cc", *source, "-lpthread"]).output()
        additions = {"LD_PRELOAD": str(library), "BENCH_ALLOCATOR": str(directory)}
        _wait(_start(_with_environment(command, additions)))
        series: dict[str, list[float]] = {"seconds": [], "system": [], "in_use": []}
        for path in directory.glob("allocator.*.csv"):
            lines = path.read_text().splitlines()
            rows = [list(map(float, line.split(","))) for line in lines]
            columns = [list(column) for column in zip(*rows, strict=True)]
            if rows and max(columns[1]) > max(series["system"], default=0):
                series = dict(zip(series, columns, strict=True))
        system, in_use = series["system"] or [0.0], series["in_use"] or [0.0]
        peak = system.index(max(system))
        lost = system[peak] - in_use[peak]
        values = {
            "fragmentation": lost / system[peak] if system[peak] else 0.0,
            "fragmentation_at_end": 1 - in_use[-1] / system[-1] if system[-1] else 0.0,
            "peak_system_bytes": system[peak],
            "peak_in_use_bytes": max(in_use),
        }
        return Measured(values, series)


INSTRUMENTS: dict[str, Instrument] = {
    kind.name: kind()
    for kind in (
        Time,
        Memory,
        Instructions,
        Callgrind,
        Massif,
        Heaptrack,
        Allocator,
    )
}


def _with_environment(command: Command, more: Mapping[str, str]) -> Command:
    environment = {**command.environment, **more}
    return Command(command.arguments, environment, command.directory)


def _wrapped(command: Command, words: Sequence[str]) -> Command:
    return Command([*words, *command.arguments], command.environment, command.directory)


def _with_progress(command: Command) -> Command:
    """Have hg draw its progress bars, of the topic alone, though there is no screen."""
    if Path(command.arguments[0]).name != "hg":
        return command
    first, *others = command.arguments
    items = ["assume-tty=yes", "delay=0", "refresh=0.01", "format=topic"]
    words = [word for item in items for word in ("--config", f"progress.{item}")]
    except_progress = {**command.environment, "HGPLAINEXCEPT": "progress"}
    return Command([first, *words, *others], except_progress, command.directory)


def _start(
    command: Command, stderr: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command.arguments,
        cwd=command.directory,
        env=command.full_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for its end; ``CommandError`` if it failed."""
    if process.wait():
        words = process.args if isinstance(process.args, list) else [process.args]
        text = " ".join(map(os.fsdecode, words))
        raise CommandError(f"exit {process.returncode}: {text}")


def _read_bytes() -> int:
    """Return what this process and those it waited for read from disk."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(x.split()[1]) for x in lines if x.startswith("read_bytes:"))
