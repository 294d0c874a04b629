"""``hg serve`` as a fork of a process that has imported all that it needs.

A start takes a tenth of the CPU time of one that begins with an interpreter. The
server itself runs as always: dispatch, extensions and configuration are its own.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn

from .environment import ENVIRONMENT, HG
from .forkserver import become_hg, import_hg

_PACKAGES = ("mercurial.hgweb", "hgext3rd.amalgam")


class ForkedServer:
    """A server that runs, as ``subprocess.Popen`` has it, but for its exit status."""

    def __init__(self, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = stdout
        self._descriptor: int | None = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return 0 if it has ended, else ``None``."""
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended."""
        code = self._ended_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("hg serve", timeout or 0)
        return code

    def _ended_within(self, seconds: float | None) -> int | None:
        if self._descriptor is not None:
            if not select.select([self._descriptor], [], [], seconds)[0]:
                return None
            os.close(self._descriptor)
            self._descriptor = None
        return 0

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None and self._descriptor is not None:
            signal.pidfd_send_signal(self._descriptor, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(args: Sequence[str], cwd: Path, errors: IO[bytes]) -> ForkedServer:
    """Start hg with ``args`` in the sealed environment; it writes to ``errors``."""
    out, its_out = os.pipe()
    try:
        request = json.dumps([str(cwd), *args]).encode()
        socket.send_fds(_parent(), [request], [its_out, errors.fileno()])
    finally:
        os.close(its_out)
    return ForkedServer(int(_parent().recv(100)), os.fdopen(out, "rb"))


@functools.cache
def _parent() -> socket.socket:
    """Return the connection to the process that forks; it ends with ours."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(
            [sys.executable, "-m", "testlib.forkedserver"],
            cwd="/",
            env=ENVIRONMENT | {"PYTHONPATH": str(Path(__file__).parents[1])},
            stdin=its.fileno(),
            stdout=subprocess.PIPE,  # as that of each server: Python looks only once
        )

    def end() -> None:
        ours.close()
        process.communicate()

    atexit.register(end)
    return ours


def _become(args: Sequence[str], cwd: str, out: int, errors: int) -> NoReturn:
    """Run hg in this process."""
    from mercurial import dispatch
    from mercurial.utils import procutil

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(errors, 2)
    os.closerange(3, max(out, errors) + 1)
    os.chdir(cwd)
    del os.environ["PYTHONPATH"]
    become_hg(args)
    procutil._hgexecutable = os.fsencode(HG)
    dispatch.run()
    os._exit(0)


def main() -> None:
    """Fork for each request until there are no more."""
    import_hg(_PACKAGES)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = socket.socket(fileno=os.dup(0))
    while True:
        request, given, _flags, _address = socket.recv_fds(requests, 1 << 20, 2)
        if not request:
            return
        cwd, *args = json.loads(request)
        child = os.fork()
        if not child:
            _become(args, cwd, *given)
        for descriptor in given:
            os.close(descriptor)
        requests.send(b"%d" % child)


if __name__ == "__main__":
    main()
