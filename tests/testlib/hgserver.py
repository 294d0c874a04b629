"""Many hg commands, one process: Mercurial's command server (`hg help -k cmdserver`).

A command costs milliseconds instead of the start of an interpreter. It runs as always:
dispatch, exit code, stderr. A crash of the process is told from an error.
"""

from __future__ import annotations

import dataclasses
import os
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from .environment import ENVIRONMENT, HG

_OPTIONS = ["--config", "extensions.amalgam=", "--config", "ui.detailed-exit-code=yes"]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: bytes
    err: bytes


class HgServer:
    """A command server without a repository; each command names its own."""

    def __init__(self, environment: Mapping[str, str] = ENVIRONMENT) -> None:
        self.environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        # what dispatch lets through ends here: a pipe that nobody reads would block
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115

    def run(self, repo: Path | None, *args: str) -> Outcome:
        """Run a command in ``repo``, if one is given, whatever comes of it.

        ``AssertionError`` if the process does not survive it; the next command gets a
        new one.
        """
        process = self._process or self._start()
        options = [*_OPTIONS, *(("--cwd", str(repo), "-R", str(repo)) if repo else ())]
        command = b"\0".join(os.fsencode(arg) for arg in [*options, *args])
        pipe = _pipe(process.stdin)
        pipe.write(b"runcommand\n" + struct.pack(">I", len(command)) + command)
        pipe.flush()
        said = {b"o": b"", b"e": b""}
        while True:
            channel, data = self._read()
            if channel == b"r":
                (code,) = struct.unpack(">i", data)
                return Outcome(code, said[b"o"], said[b"e"])
            assert channel in said, f"hg asks for input: {args}"
            said[channel] += data

    def hg(self, repo: Path | None, *args: str) -> bytes:
        """Run a command that succeeds, and return its stdout."""
        done = self.run(repo, *args)
        assert done.code == 0, f"{args}: {done}"
        return done.out

    def close(self) -> None:
        """End the process."""
        if self._process:
            _pipe(self._process.stdin).close()
            self._process.wait()
            _pipe(self._process.stdout).close()
        self._process = None
        self._errors.close()

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors.truncate(0)
        self._process = subprocess.Popen(
            [str(HG), "serve", "--cmdserver", "pipe", *_OPTIONS],
            cwd="/",
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._read()  # hello
        return self._process

    def _read(self) -> tuple[bytes, bytes]:
        process = self._process
        assert process
        pipe = _pipe(process.stdout)
        head = pipe.read(5)
        if len(head) < 5:
            pipe.close()
            self._process = None
            code = process.wait()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace")
            raise AssertionError(f"hg ended with {code} and said\n{said}")
        channel, length = struct.unpack(">cI", head)
        return channel, b"" if channel in b"IL" else pipe.read(length)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe
    return pipe
