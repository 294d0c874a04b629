"""One sample: the page cache before it, and the cost of a process or a part of one.

Files are dropped from the page cache, and mincore(2) says whether they are gone. A page
stays if another process has mapped it, if it exists nowhere on disk (tmpfs), or if the
file system keeps it. Since Linux 5.2, the kernel reports every page as cached for files
that the caller may not write.

Bytes read are those from the disk (/proc/self/io). A child's count is added to its
parent's when the parent waits for it. Page faults are the kernel's count.

Knows nothing of Mercurial: ``contrib/perf`` takes its samples here, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_DROP_CACHES = "/proc/sys/vm/drop_caches"
_WARM_ENOUGH = 0.99
_READ_BYTES = 1 << 20
_IO = "/proc/self/io"


@dataclass(frozen=True, slots=True)
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


class Unsuitable(Exception):  # noqa: N818
    """There can be no such sample; says why."""


class Meter:
    """Cost in this process since the meter was made."""

    def __init__(self) -> None:
        self._read_bytes = _read_bytes()
        self._before = resource.getrusage(resource.RUSAGE_SELF)
        self._start = time.perf_counter()

    def sample(self) -> Sample:
        """Return it; the meter goes on."""
        wall = time.perf_counter() - self._start
        now = resource.getrusage(resource.RUSAGE_SELF)
        return _sample(wall, self._read_bytes, now, self._before)


def run(
    command: Sequence[bytes | str],
    request: bytes = b"",
    environment: Mapping[Any, Any] | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> tuple[Sample, bytes]:
    """Run a command with ``request`` as its standard input.

    Return its cost and its output. ``Failed`` if its exit code is not 0.
    """
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(request)
        stdin.seek(0)
        before, start = _read_bytes(), time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            cwd=directory,
        )
        _pid, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            stderr.seek(0)
            raise Failed(stderr.read().decode(errors="replace").strip()[-2000:])
        stdout.seek(0)
        return _sample(wall, before, usage), stdout.read()


def _sample(
    wall: float,
    read_before: int,
    now: resource.struct_rusage,
    before: resource.struct_rusage | None = None,
) -> Sample:
    """Return the counts of the kernel since ``before``, or for a whole process."""

    def since(name: str) -> Any:
        return getattr(now, name) - (getattr(before, name) if before else 0)

    return Sample(
        wall=wall,
        user=since("ru_utime"),
        sys=since("ru_stime"),
        read_bytes=-1 if read_before < 0 else _read_bytes() - read_before,
        minor_faults=since("ru_minflt"),
        major_faults=since("ru_majflt"),
        rss_bytes=0 if before else now.ru_maxrss * 1024,
    )


def _read_bytes() -> int:
    with contextlib.suppress(OSError), open(_IO) as file:
        for line in file:
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
    return -1


def make_cold(paths: Sequence[bytes]) -> None:
    """Drop all pages of the files from memory. ``Unsuitable`` if some are left.

    Only if posix_fadvise(2) does not suffice, all that the system has cached is
    dropped, where this user may.
    """
    if not hasattr(os, "posix_fadvise"):
        raise Unsuitable("this system has no posix_fadvise")
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)  # dirty pages are not dropped
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    pages, left = residency(paths)
    if left:
        with contextlib.suppress(OSError), open(_DROP_CACHES, "w") as file:
            file.write("1")
        pages, left = residency(paths)
    if left:
        raise Unsuitable(f"{left} of {pages} pages stay in memory")


def make_warm(paths: Sequence[bytes]) -> None:
    """Have all pages of the files in memory. ``Unsuitable`` if they are not."""
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass
    pages, found = residency(paths)
    if found < _WARM_ENOUGH * pages:
        raise Unsuitable(f"only {found} of {pages} pages are in memory")


def residency(paths: Sequence[bytes]) -> tuple[int, int]:
    """Return the number of pages of files, and of those that are in memory.

    By mincore(2); ``Unsuitable`` if it cannot tell.
    """
    libc = _libc()
    pages = resident = 0
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            states = _page_states(libc, fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)
        pages += len(states)
        resident += sum(state & 1 for state in states)
    return pages, resident


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "mincore"):
        raise Unsuitable("this system has no mincore")
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype = pointer
    libc.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
    libc.munmap.argtypes = [pointer, size]
    libc.mincore.argtypes = [pointer, size, ctypes.c_char_p]
    return libc


def _page_states(libc: Any, fd: int, size_bytes: int) -> bytes:
    """Return a byte a page, its lowest bit set for those in memory."""
    if not size_bytes:
        return b""
    # mapping a file brings none of it into memory
    start = libc.mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if start == ctypes.c_void_p(-1).value:
        raise Unsuitable(f"mmap: {os.strerror(ctypes.get_errno())}")
    try:
        states = ctypes.create_string_buffer(-(-size_bytes // mmap.PAGESIZE))
        if libc.mincore(start, size_bytes, states):
            raise Unsuitable(f"mincore: {os.strerror(ctypes.get_errno())}")
        return states.raw
    finally:
        libc.munmap(start, size_bytes)
