"""What scripts need that follow a page: its blocks, ports, and servers that run."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import signal
import socket
import subprocess
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

# servers are not in everybody's PATH
PATHS = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def blocks(text: str) -> Iterator[list[str]]:
    """Return the literal blocks of a page, in their order."""
    pattern = r"(?m)^(?!\.\.).*::\n\n((?:    .*\n|\n)+)"
    for found in re.finditer(pattern, text):
        yield textwrap.dedent(found[1]).strip("\n").split("\n")


def free_port() -> int:
    """Return the number of a port that nobody uses."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return the numbers of different ports that nobody uses.

    Below those that the kernel gives to connections, since it would give a free one to
    the next.
    """
    ports = range(10_000, _first_given())
    found: list[int] = []
    for port in random.sample(ports, len(ports)):
        if len(found) == count:
            return found
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    raise OSError(errno.EADDRINUSE, "no port is free")


def _first_given() -> int:
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(given.read_text().split()[0]) if given.exists() else 32_768
    return first if first > 11_000 else 65_536


@contextlib.contextmanager
def ended(pid_file: Path) -> Iterator[None]:
    """End the server whose number is in a file, unless it has ended."""
    try:
        yield
    finally:
        if pid_file.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid_file.read_text()), signal.SIGTERM)


class Servers:
    """The servers that a script has started, and what was found wrong."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.problems: list[str] = []
        self._environment = environment
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str], cwd: Path, log: Path) -> None:
        """Start one."""
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=cwd, stdout=out, stderr=out, env=self._environment
            )
        self._processes.append(process)

    def wait(self, port: int) -> None:
        """Wait until somebody listens."""
        for _try in range(300):
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port)),
            ):
                return
            time.sleep(0.1)
        self.problems.append(f"nothing answers at port {port}")

    def shell(self, command: str, cwd: Path, code: int = 0) -> str:
        """Run a command beside them; print and return what it says."""
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=cwd,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for line in done.stdout.splitlines():
            print(f"  {line}")
        if done.returncode != code:
            self.problems.append(f"'{command}' ended with {done.returncode}")
        return done.stdout

    def expect(self, what: str, found: object, expected: object) -> None:
        """Note what is not as it should be."""
        if found != expected:
            self.problems.append(f"{what}: {found!r}, not {expected!r}")

    def stop(self) -> None:
        """End them all."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
