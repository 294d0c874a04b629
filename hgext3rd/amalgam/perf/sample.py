"""One sample: the cost of an operation, measured inside or around a process.

Bytes read are those from the disk (/proc/self/io). A child's count is added to its
parent's when the parent waits for it. Page faults are the kernel's count.
"""

from __future__ import annotations

import dataclasses
import os
import resource
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_IO = "/proc/self/io"


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Cost of one run."""

    wall: float
    user: float
    sys: float
    read_bytes: int
    """From disk; -1 where the system does not tell."""
    minor_faults: int
    """Page faults that needed no disk."""
    major_faults: int
    """Page faults that waited for it."""
    rss_bytes: int = 0
    """The largest resident set; 0 inside a process."""

    @property
    def comb(self) -> float:
        """Seconds of processor time."""
        return self.user + self.sys


class Failed(Exception):  # noqa: N818
    """A measured process failed; has the end of its stderr."""


class Meter:
    """Cost in this process since the meter was made."""

    def __init__(self) -> None:
        self._read_bytes = _read_bytes()
        self._before = resource.getrusage(resource.RUSAGE_SELF)
        self._start = time.perf_counter()

    def sample(self) -> Sample:
        """Return it; the meter goes on."""
        wall = time.perf_counter() - self._start
        now, before = resource.getrusage(resource.RUSAGE_SELF), self._before
        return Sample(
            wall=wall,
            user=now.ru_utime - before.ru_utime,
            sys=now.ru_stime - before.ru_stime,
            read_bytes=_since(self._read_bytes),
            minor_faults=now.ru_minflt - before.ru_minflt,
            major_faults=now.ru_majflt - before.ru_majflt,
        )


def run(
    command: Sequence[bytes], request: bytes, environment: Mapping[bytes, bytes]
) -> tuple[Sample, bytes, bytes]:
    """Run a command with ``request`` as its standard input.

    Return its cost, its output and its stderr. ``Failed`` if its exit code is not 0.
    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout:
        with tempfile.TemporaryFile() as stderr:
            stdin.write(request)
            stdin.seek(0)
            before, start = _read_bytes(), time.perf_counter()
            process = subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=stderr, env=environment
            )
            _pid, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            stderr.seek(0)
            problem = stderr.read()
        if process.returncode:
            raise Failed(problem.decode(errors="replace").strip()[-2000:])
        stdout.seek(0)
        sample = Sample(
            wall=wall,
            user=usage.ru_utime,
            sys=usage.ru_stime,
            read_bytes=_since(before),
            minor_faults=usage.ru_minflt,
            major_faults=usage.ru_majflt,
            rss_bytes=usage.ru_maxrss * 1024,
        )
        return sample, stdout.read(), problem


def _read_bytes() -> int:
    try:
        with open(_IO) as file:
            for line in file:
                if line.startswith("read_bytes:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return -1


def _since(before: int) -> int:
    return -1 if before < 0 else _read_bytes() - before
