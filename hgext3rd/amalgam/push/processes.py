"""The git processes whose pipes the core reads and writes.

They end with their owner. What they said is the cause of whatever else fails.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
from typing import IO, TYPE_CHECKING, Any

from ..gitstore.git.gitprocess import last_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from subprocess import Popen
    from types import TracebackType

    from ..gitstore.git.gitprocess import Git

# parents are what commits say, and not what a cache says of them
_CONFIG = {"core.commitGraph": "false"}
_PARENTS_FIRST = ("--topo-order", "--full-history", "--reverse")


class GitProcesses:
    """Runs of ``git``, until the end of the context."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._stack = contextlib.ExitStack()
        self._started: list[tuple[Popen[bytes], IO[bytes]]] = []

    def __enter__(self) -> GitProcesses:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End all processes."""
        self._stack.close()

    def start(self, *args: str, stdin: Any) -> Popen[bytes]:
        """Start git with a pipe for what it writes."""
        errors = self.temporary_file()
        process = self._git.start(
            *args, config=_CONFIG, stdin=stdin, stdout=-1, stderr=errors
        )
        self._stack.callback(_end, process)
        self._started.append((process, errors))
        return process

    def listed(self, asked: IO[bytes], order: Sequence[bytes]) -> IO[bytes]:
        """List commits, parents first; return where their ids are read.

        ``asked`` has the arguments of ``git rev-list``. If the commits are those of
        ``order``, they come in that order.
        """
        process = self.start("rev-list", *_PARENTS_FIRST, "--stdin", stdin=asked)
        assert process.stdout is not None
        if not order:
            return process.stdout
        found = process.stdout.read().split()
        file = self.temporary_file()
        file.writelines(
            b"%s\n" % oid for oid in (order if {*found} == {*order} else found)
        )
        file.seek(0)
        return file

    def temporary_file(self) -> IO[bytes]:
        """Return a file without a name."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the stack
        return self._stack.enter_context(file)

    def kill(self) -> None:
        """End what the core may wait for."""
        for process, _errors in self._started:
            process.kill()

    def wait(self) -> None:
        """Wait until all have ended."""
        for process, _errors in self._started:
            process.wait()

    def failure(self) -> bytes:
        """Return what the first process that has failed said; empty if none has.

        All end before, since a process closes its pipes before it has ended. One that
        ends because nobody reads from it has not failed.
        """
        for process, _errors in self._started:
            _close(process)
        self.wait()
        for process, errors in self._started:
            if process.returncode not in (0, -signal.SIGPIPE):
                return last_words(process, errors)
        return b""


def _end(process: Popen[bytes]) -> None:
    _close(process)
    process.kill()
    process.wait()


def _close(process: Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            # git may have ended before it was closed
            with contextlib.suppress(OSError):
                pipe.close()
