"""A process and its descendants, while they run: their memory over time.

Memory is the sum of proportional set sizes, which counts each page once however many
processes share it. proc(5) tells it for a whole process at once.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

_INTERVAL_SECONDS = 0.02


class MemoryOverTime(threading.Thread):
    """Samples the memory of a process tree until it is stopped."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.series: dict[str, list[float]] = {
            "seconds": [],
            "pss_bytes": [],
            "anonymous_bytes": [],
            "processes": [],
        }
        self._pid = pid
        self._over = threading.Event()
        self._start = time.perf_counter()

    def run(self) -> None:
        """Sample, less often the longer it takes to."""
        while not self._over.is_set():
            before = time.perf_counter()
            pss, anonymous, count = _tree_memory(self._pid)
            if count:
                row = (round(before - self._start, 4), pss, anonymous, count)
                for column, number in zip(self.series.values(), row, strict=True):
                    column.append(number)
            took = time.perf_counter() - before
            self._over.wait(max(_INTERVAL_SECONDS, 4 * took))

    def stop(self) -> None:
        """Let it end."""
        self._over.set()
        self.join()


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


def listen(
    process: subprocess.Popen[bytes], each: Callable[[float, bytes], None]
) -> threading.Thread:
    """Pass what a process writes to stderr on, piece by piece with its time."""
    start = time.perf_counter()
    stderr = process.stderr
    assert stderr is not None

    def read() -> None:
        with stderr:
            while piece := os.read(stderr.fileno(), 1 << 16):
                each(time.perf_counter() - start, piece)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread
