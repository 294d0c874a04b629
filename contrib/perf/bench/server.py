"""A server that runs while a client is measured, and whose processor time counts."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from .benchmark import Command, CommandError

if TYPE_CHECKING:
    from pathlib import Path

    from .subject import Subject


class Server:
    """``hg serve`` of a repository, with all processes below it."""

    def __init__(self, subject: Subject, repo: Path, *settings: str) -> None:
        config = [word for item in settings for word in ("--config", item)]
        words = [*config, "-R", str(repo), "serve", "-a", "127.0.0.1", "-p", "0"]
        command = subject.command(*words, "--print-url")
        with repo.with_name("server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command.arguments,
                env=command.full_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        port = re.search(r":(\d+)/", self._process.stdout.readline())
        if not port:
            self.stop()
            raise CommandError(f"the server did not start: see {log.name}")
        self.url = f"http://127.0.0.1:{port[1]}/"
        self._used_before = 0.0

    def measuring(self, command: Command) -> Command:
        """Return a client's command, which is measured by this server's time."""
        self._used_before = self._used()
        return replace(command, server=self)

    def used_seconds(self) -> float:
        """Return its processor seconds since ``measuring``."""
        return self._used() - self._used_before

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.communicate()

    def _used(self) -> float:
        """Return the processor seconds of its processes, also of those that ended."""
        own = psutil.Process(self._process.pid)
        # clock_getcpuclockid(3), since the rest is counted in hundredths of a second
        used = time.clock_gettime((~self._process.pid << 3) | 2)
        awaited = own.cpu_times()
        used += awaited.children_user + awaited.children_system
        for child in own.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                used += sum(child.cpu_times()[:4])
        return used
