"""Answers to a push while Mercurial and its hooks work."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, ROOT, add_config, executable
from testlib.pushing import ON, PushServer, pushable, request
from testlib.webserver import started, until

pytestmark = pytest.mark.slow

KEEPALIVE = b"0005\1"
GUNICORN = """\
bind = "127.0.0.1:0"
worker_class = "gthread"
threads = 4


def when_ready(server):
    port = server.LISTENERS[0].sock.getsockname()[1]
    print(f"listening at http://127.0.0.1:{port}/", flush=True)
"""
WSGI = """\
from mercurial import demandimport
demandimport.enable()
from mercurial.hgweb import hgweb
application = hgweb(b"server")
"""


class Waiting:
    """A client that has pushed and reads the answer, or leaves."""

    def __init__(
        self,
        read: Callable[[], bytes],
        leave: Callable[[], object],
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        """``process``: the server, if it has no other client."""
        self._read = read
        self.leave = leave
        self.process = process

    def until_keepalive(self) -> bytes:
        """Return the answer up to a keepalive, or to its end."""
        found = b""
        while KEEPALIVE not in found and (piece := self._read()):
            found += piece
        return found

    def rest(self) -> bytes:
        """Return the rest of the answer."""
        return b"".join(iter(self._read, b""))


class Held:
    """A repository whose hook waits while a file is there, but only 20 seconds."""

    def __init__(self, server: PushServer) -> None:
        self.server = server
        clone = server.clone()
        base, new = clone.head(), clone.commit("new")
        features = "report-status side-band-64k"
        self.body = request(clone, base, new, "refs/heads/default", features=features)
        self._file = server.root.parent / "held"
        self._file.touch()

    def let_go(self) -> None:
        """Let the hook end."""
        self._file.unlink()

    def is_stored(self) -> bool:
        """Return whether the push is stored."""
        return self.server.log()[-1] == "default||public|new"

    def has_git(self) -> bool:
        """Return whether git receives the push still."""
        place = os.fsencode(self.server.root)
        found = []
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found.append(process.read_bytes())
        return any(b"receive-pack" in it and place in it for it in found)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of a server that lets everybody push."""
        file = self.server.root.parent / "hgrc"
        items = (it.removeprefix("--config=").partition("=") for it in ON)
        names = ((*name.split(".", 1), value) for name, _equals, value in items)
        file.write_text("".join("[{}]\n{} = {}\n".format(*name) for name in names))
        return ENVIRONMENT | {"HGRCPATH": str(file)}


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    git = executable(
        tmp_path / "git-program",
        f'#!/bin/sh\nexec {shutil.which("git")} -c receive.keepAlive=1 "$@"\n',
    )
    with pushable(tmp_path, f"--config=amalgam.git.program={git}") as server:
        add_config(
            server.root,
            f"[amalgam]\ngit.program = {git}\n[hooks]\npretxnclose = "
            f"at=0; while test -e {tmp_path}/held; do sleep 0.1; "
            "at=$((at + 1)); test $at -lt 200 || exit 1; done\n",
        )
        yield Held(server)
        server.check()


@contextlib.contextmanager
def over_http(port: int, body: bytes) -> Iterator[Waiting]:
    head = (
        "POST /git-receive-pack HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        "Content-Type: application/x-git-receive-pack-request\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.encode() + body)
        yield Waiting(lambda: connection.recv(1 << 16), connection.close)


@contextlib.contextmanager
def by_hg_serve(held: Held) -> Iterator[Waiting]:
    with over_http(held.server.web.port, held.body) as waiting:
        yield waiting


@contextlib.contextmanager
def by_gunicorn(held: Held) -> Iterator[Waiting]:
    directory = held.server.root.parent
    (directory / "conf.py").write_text(GUNICORN)
    (directory / "wsgi.py").write_text(WSGI)
    command = [sys.executable, "-m", "gunicorn.app.wsgiapp", "-c", "conf.py"]
    with (
        started([*command, "wsgi"], directory, held.environment) as web,
        over_http(web.port, held.body) as waiting,
    ):
        yield waiting


@contextlib.contextmanager
def by_ssh(held: Held) -> Iterator[Waiting]:
    environment = {
        **held.environment,
        "SSH_ORIGINAL_COMMAND": "git-receive-pack server",
        "PYTHONPATH": str(ROOT),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "hgext3rd.amalgam.serve.ssh", "server"],
        cwd=held.server.root.parent,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(held.body)
        process.stdin.flush()
        output = process.stdout.fileno()
        with contextlib.ExitStack() as stack:
            stack.callback(process.stdin.close)
            stack.callback(process.stdout.close)
            yield Waiting(lambda: os.read(output, 1 << 16), stack.close, process)


TRANSPORTS = (by_hg_serve, by_gunicorn, by_ssh)
Push = Callable[[Held], contextlib.AbstractContextManager[Waiting]]


@pytest.mark.parametrize("push", TRANSPORTS)
def test_keepalives_come_while_a_hook_runs(held: Held, push: Push) -> None:
    with push(held) as waiting:
        for _number in range(2):
            assert KEEPALIVE in waiting.until_keepalive()
            assert not held.is_stored()
        held.let_go()
        assert b"ok refs/heads/default" in waiting.rest()
    assert held.is_stored()


@pytest.mark.parametrize("push", TRANSPORTS)
def test_client_that_leaves_while_a_hook_runs_changes_nothing(
    held: Held, push: Push
) -> None:
    with push(held) as waiting:
        waiting.until_keepalive()
        waiting.leave()
        until(lambda: not held.has_git())  # the server has noticed
        assert not held.is_stored()
        held.let_go()
        until(held.is_stored)


def test_signal_over_ssh_undoes_the_push(held: Held) -> None:
    with by_ssh(held) as waiting:
        waiting.until_keepalive()
        assert waiting.process
        waiting.process.terminate()
        waiting.rest()
        waiting.process.wait()
    held.let_go()
    assert not held.is_stored()
    held.server.clone("again").git("push", "-q", "origin", "HEAD:refs/heads/work")
