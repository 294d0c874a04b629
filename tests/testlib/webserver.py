"""A web server of Mercurial's on the loopback, and raw requests to it."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TypeAlias

from . import forkedserver
from .environment import ENVIRONMENT, HG
from .users import HOMELESS, User

GIT_TYPE = "application/x-git-upload-pack-request"
#: Serves git.
ON = ("--config=extensions.amalgam=", "--config=amalgam.git.serve=yes")
AT_ONCE = "--config=amalgam.serve.queue-timeout=0"
SERVICE = "info/refs?service=git-upload-pack"
LS_REFS = b"0014command=ls-refs\n00010009peel\n0000"
Process: TypeAlias = subprocess.Popen[bytes] | forkedserver.ForkedServer
# what does not come in this time never does, however busy the machine is
_LONGEST_SECONDS = 600
_LONGEST_PAUSE = 0.1


def until(condition: Callable[[], object]) -> None:
    """Wait for something that another process is going to do."""
    end = time.monotonic() + _LONGEST_SECONDS
    pause = 0.01
    while not condition():
        assert time.monotonic() < end, "what was waited for does not come"
        time.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_PAUSE)


class WebServer:
    """A server that runs."""

    def __init__(self, process: Process, port: int, said: Path) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}/"
        self._said = said

    def said(self) -> str:
        """Return what it has written to stderr: complaints and log."""
        return self._said.read_text(errors="replace")

    def logged(self) -> list[str]:
        """Return the lines about git, one for each request."""
        return [line for line in self.said().splitlines() if line.startswith("git ")]

    def children(self) -> list[str]:
        """Return the command lines of all processes that it has started."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            pid = int(process.name)
            if pid != self.process.pid and _descends(pid, self.process.pid):
                with contextlib.suppress(OSError):
                    command = (process / "cmdline").read_bytes()
                    found.append(command.replace(b"\0", b" ").decode())
        return found

    def descriptors(self) -> int:
        """Return how many files it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes = b"",
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one request and return status, headers and body of the answer."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if method == "POST":
            sent.setdefault("Content-Type", GIT_TYPE)
            sent.setdefault("Content-Length", str(len(body)))
        head = f"{method} /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
        return answer_of(self.exchange(head.encode() + b"\r\n" + body))

    def exchange(self, request: bytes) -> bytes:
        """Send bytes and return all that comes until the server closes."""
        address = ("127.0.0.1", self.port)
        with socket.create_connection(address, _LONGEST_SECONDS) as connection:
            with contextlib.suppress(OSError):  # it may be closed before it has all
                connection.sendall(request)
            found = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(1 << 16):
                    found += piece
            return found


def answer_of(found: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of the one answer that there is."""
    head, _empty, body = found.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    if headers.get("Transfer-Encoding") == "chunked":
        body = _dechunked(body)
    return int(first.split()[1]), headers, body


def _dechunked(body: bytes) -> bytes:
    found = b""
    while True:
        size, _line, body = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return found
        found, body = found + body[:length], body[length + 2 :]


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        pid = int(stat.rpartition(")")[2].split()[1])
    return False


@contextlib.contextmanager
def serving(
    cwd: Path, *options: str, environment: Mapping[str, str] = ENVIRONMENT
) -> Iterator[WebServer]:
    """Run ``hg serve`` in ``cwd`` with ``options``. It logs to its stderr."""
    if environment is not ENVIRONMENT:
        with started([str(HG), *_SERVE, *options], cwd, environment) as server:
            yield server
        return
    with _ended(
        lambda errors: forkedserver.start([*_SERVE, *options], cwd, errors)
    ) as (server):
        yield server


@contextlib.contextmanager
def serving_as(user: User, cwd: Path, *options: str) -> Iterator[WebServer]:
    """Run ``hg serve`` as another user, whom the configuration of nobody helps."""
    command = [sys.executable, str(HG), *_SERVE, *options]
    with started(user.started(command, cwd), cwd, HOMELESS) as server:
        yield server


@contextlib.contextmanager
def started(
    command: list[str], cwd: Path, environment: Mapping[str, str] = ENVIRONMENT
) -> Iterator[WebServer]:
    """Run a server that says where it listens."""

    def start(errors: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=errors
        )

    with _ended(start) as server:
        yield server


@contextlib.contextmanager
def _ended(start: Callable[[IO[bytes]], Process]) -> Iterator[WebServer]:
    """Start a server, and end it."""
    with tempfile.TemporaryDirectory() as directory:
        said = Path(directory) / "said"
        with said.open("wb") as errors:
            process = start(errors)
        assert process.stdout
        try:
            line = process.stdout.readline().decode()
            found = re.search(r":(\d+)", line.partition("//")[2])
            assert found, line + said.read_text()
            server = WebServer(process, int(found[1]), said)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()  # it waits for clients that do not read
                process.wait()
            process.stdout.close()
        check_stderr(server.said())


#: Mercurial's exception for SIGTERM, which may hit callbacks and accepted connections.
_ENDED = re.compile(r"^Traceback .*\n(?: .*\n|\n)*.*SignalInterrupt.*\n?", re.MULTILINE)
#: In tracebacks of Mercurial's own: clients that leave, transactions that cannot end.
_OWN = ("ConnectionResetError", "BrokenPipeError", "transaction.__del__")


def check_stderr(stderr: str) -> None:
    """Fail if an ended server has printed a traceback that it should not print."""
    rest = _ENDED.sub("", stderr)
    assert "Traceback" not in rest or any(name in rest for name in _OWN), stderr


_LOGGER = Path(__file__).with_name("logger.py")
_SERVE = [
    # nobody reads its log of requests, which would fill a pipe in the end
    *("serve", "-p", "0", "-a", "127.0.0.1", "-A", os.devnull),
    *("--config", f"extensions.tolog={_LOGGER}"),
]
