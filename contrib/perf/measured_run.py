"""One run of a shell command: its time, and the memory of its process tree.

Time is wall time. Memory is two figures: the sum of the proportional set sizes of all
processes at its largest, seen ten times a second by proc(5), and the largest resident
set of any one process, as the kernel has it, which is never below that of the caller
(some 18 MB).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_SAMPLING_SECONDS = 0.1
_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Sample:
    """One run. ``tree_pss_bytes`` is 0 where the system does not tell."""

    seconds: float
    tree_pss_bytes: int
    process_rss_bytes: int


class CommandError(Exception):
    """A command did not succeed, so there is nothing to compare."""


def run(command: str, environment: dict[str, str]) -> Sample:
    """Run a shell command to its end and measure it.

    Raises ``CommandError`` with the end of its stderr if it fails.
    """
    with tempfile.TemporaryFile() as stderr:
        start = time.perf_counter()
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        memory = _TreeMemory(process.pid)
        memory.start()
        _pid, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        memory.stop()
        if process.returncode:
            stderr.seek(0)
            tail = stderr.read().decode(errors="replace")[-2000:].rstrip()
            raise CommandError(f"exit {process.returncode}: {command}\n{tail}")
    return Sample(seconds, memory.peak_bytes, usage.ru_maxrss * _RSS_UNIT_BYTES)


class _TreeMemory(threading.Thread):
    """Watches the memory of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._pid = pid
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            self.peak_bytes = max(self.peak_bytes, _tree_pss_bytes(self._pid))
            self._over.wait(_SAMPLING_SECONDS)

    def stop(self) -> None:
        self._over.set()
        self.join()


def _tree_pss_bytes(root: int) -> int:
    """Memory of a process tree by proc(5); what has ended meanwhile counts nothing."""
    total, pending = 0, [str(root)]
    while pending:
        process = Path("/proc", pending.pop())
        try:
            for children in process.glob("task/*/children"):
                pending += children.read_text().split()
            for line in (process / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += 1024 * int(line.split()[1])
        except OSError:
            continue
    return total
