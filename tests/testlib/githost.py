"""A git host on the loopback, whose repositories refuse and fail as their owner says.

It runs ``git http-backend`` for smart HTTP. What becomes of requests is a
``Behaviour``, of which each field is one switch.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

from .environment import ENVIRONMENT, executable, git

_PIECE_BYTES = 1 << 14
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_COMMANDS = "commands-of-pushes"
_PRE_RECEIVE = f"""#!/bin/sh
echo push >> {_COMMANDS}
commands=$(tee -a {_COMMANDS})
if [ "$HOST_DECLINES" ]; then echo "$HOST_DECLINES" >&2; exit 1; fi
for word in $commands; do case "$word" in
  refs/heads/*|refs/tags/*) ;;
  refs/*) [ -z "$HOST_BRANCHES_AND_TAGS" ] || {{
    echo "only branches and tags may be pushed, found $word" >&2; exit 1; }}
esac; done
"""
_UPDATE = """#!/bin/sh
case " $HOST_PROTECTED " in
*" $1 "*) echo "GH006: Protected branch update failed for $1." >&2; exit 1;;
esac
case "$3" in *[!0]*) ;; *) exit 0;; esac
if [ "$HOST_MOST_COMMITS" ]; then
  count=$(git rev-list --count "$3" --not --all)
  [ "$count" -le "$HOST_MOST_COMMITS" ] ||
    { echo "more than $HOST_MOST_COMMITS commits" >&2; exit 1; }
fi
"""


@dataclass(frozen=True)
class Behaviour:
    """What a repository does that a plain one does not."""

    password: str = ""
    """Of the user ``mirror``, without which nobody reads or writes."""
    status: int = 0
    """Answers every request so: 403 for a token that has expired, or 503."""
    protected: tuple[str, ...] = ()
    """Refs that its ``update`` hook refuses."""
    declines: str = ""
    """Its ``pre-receive`` hook declines each push with this message."""
    only_branches_and_tags: bool = False
    """Its ``pre-receive`` hook declines each push that has another ref."""
    hidden: tuple[str, ...] = ()
    """Prefixes of refs that it neither shows nor lets anybody update."""
    is_force_denied: bool = False
    most_commits: int = 0
    """For one ref in one push."""
    most_pack_bytes: int = 0
    file_bytes: int = 0
    """No file of it can be larger, as on a full disk."""
    cut_after_bytes: int = 0
    """The connection of a push ends after so many bytes of its body."""
    piece_seconds: float = 0
    """Waits before each piece of an answer, and after each of a body."""
    stalls: bool = False
    """A push is never answered, until the host is killed or closed."""
    loses_answer: bool = False
    """A push is done, and its connection ends before the answer."""
    alters: Callable[[bytes], bytes] | None = None
    """Changes each answer to a fetch."""


@dataclass
class HostedRepository:
    """A bare repository of the host; ``behaviour`` may be changed at any time."""

    path: Path
    url: str
    behaviour: Behaviour = field(default_factory=Behaviour)

    def git(self, *args: str) -> str:
        """Run git in it, as the host itself or as somebody else."""
        return git(self.path, *args).decode().strip()

    def refs(self, *prefixes: str) -> dict[str, str]:
        """Return its refs, or those below prefixes: names with oids."""
        form = "--format=%(refname) %(objectname)"
        lines = self.git("for-each-ref", form, *prefixes).splitlines()
        return dict(line.split(" ") for line in lines)

    def edit(self, ref: str, message: str = "from elsewhere") -> str:
        """Commit onto a ref, as somebody who pushes there; return the oid.

        A ref that is not there yet gets a commit without parents.
        """
        parent = self.refs(ref).get(ref)
        parents = ["-p", parent] if parent else []
        tree = self.git("rev-parse", f"{parent}^{{tree}}") if parent else _EMPTY_TREE
        oid = self.git("commit-tree", tree, *parents, "-m", message)
        self.git("update-ref", ref, oid)
        return oid

    def rewind(self, ref: str) -> str:
        """Set a ref to the first parent of its commit, and return that."""
        oid = self.git("rev-parse", f"{ref}^")
        self.git("update-ref", ref, oid)
        return oid

    def pushes(self) -> list[dict[str, tuple[str, str]]]:
        """Return what each push asked for: refs with their old and new oids."""
        found: list[dict[str, tuple[str, str]]] = []
        file = self.path / _COMMANDS
        for line in file.read_text().splitlines() if file.exists() else ():
            if line == "push":
                found.append({})
            else:
                old, new, ref = line.split(" ", 2)
                found[-1][ref] = (old, new)
        return found


class GitHost:
    """A host with any number of repositories below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.requests: list[str] = []
        self.port = 0
        self._repositories: dict[str, HostedRepository] = {}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._connections: set[socket.socket] = set()
        self._starts = 0
        self._server: ThreadingHTTPServer | None = None

    def add(self, name: str, behaviour: Behaviour | None = None) -> HostedRepository:
        """Make an empty repository that takes pushes."""
        path = self.root / name
        git(self.root, "init", "-q", "--bare", "-b", "default", str(path))
        git(path, "config", "http.receivepack", "true")
        (path / "hooks").mkdir(exist_ok=True)
        executable(path / "hooks/pre-receive", _PRE_RECEIVE)
        executable(path / "hooks/update", _UPDATE)
        url = f"http://127.0.0.1:{self.port}/{name}"
        made = HostedRepository(path, url, behaviour or Behaviour())
        self._repositories[name] = made
        return made

    def start(self) -> None:
        """Listen, on the same port as before."""
        host = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.close_connection = True
                host._connections.add(self.connection)
                with contextlib.suppress(OSError):
                    host._answer(self)
                host._connections.discard(self.connection)

            do_GET = do_POST = answer  # noqa: N815

            def log_message(self, *_args: object) -> None:
                return

        self._starts += 1
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def kill(self) -> None:
        """End all connections, and kill every git that runs for a request."""
        self._starts += 1
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for process in list(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        start = self._starts
        path, _mark, query = request.path.partition("?")
        self.requests.append(f"{request.command} {request.path}")
        repository = self._repositories.get(path.strip("/").partition("/")[0])
        behaviour = repository.behaviour if repository else Behaviour(status=404)
        # before a large body, git asks with an empty request of four bytes
        is_push = (
            path.endswith("/git-receive-pack")
            and request.headers.get("Content-Length") != "4"
        )
        with tempfile.TemporaryFile() as body:
            for piece in _body(request):
                body.write(piece)
                cut = is_push and behaviour.cut_after_bytes
                if (cut and body.tell() > cut) or self._starts != start:
                    return
                time.sleep(behaviour.piece_seconds)
            status = behaviour.status
            if not status and not _is_admitted(request, behaviour.password):
                status = 401
            if status:
                request.send_response(status)
                if status == 401:
                    request.send_header("WWW-Authenticate", 'Basic realm="host"')
                request.send_header("Content-Length", "0")
                request.end_headers()
                return
            while is_push and behaviour.stalls and self._starts == start:
                time.sleep(0.02)
            length, _place = body.tell(), body.seek(0)
            environment = _environment(request, behaviour, self.root)
            environment |= {"PATH_INFO": path, "QUERY_STRING": query}
            if request.command == "POST":
                environment["CONTENT_LENGTH"] = str(length)
            limit = behaviour.file_bytes // 512 if is_push else 0
            output = self._run(start, body, environment, limit)
        if behaviour.alters and path.endswith("/git-upload-pack"):
            head, gap, content = output.partition(b"\r\n\r\n")
            output = head + gap + behaviour.alters(content)
        if self._starts == start and not (is_push and behaviour.loses_answer):
            _send(request, output, behaviour.piece_seconds)

    def _run(
        self, start: int, body: IO[bytes], environment: dict[str, str], blocks: int
    ) -> bytes:
        """Return the output of git's CGI program, if the host is not killed."""
        limited = f"ulimit -f {blocks or 'unlimited'}; exec git http-backend"
        if self._starts != start:
            return b""
        process = subprocess.Popen(
            ["sh", "-c", limited],
            env=environment,
            stdin=body,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with process:
            self._running.add(process)
            if self._starts != start:
                os.killpg(process.pid, signal.SIGKILL)
            output, _none = process.communicate()
            self._running.discard(process)
        return output


def _body(request: BaseHTTPRequestHandler) -> Iterator[bytes]:
    """Yield the body of a request in pieces."""
    if request.headers.get("Transfer-Encoding", "").lower() == "chunked":
        while size := int(request.rfile.readline() or b"0", 16):
            yield request.rfile.read(size)
            request.rfile.readline()
        request.rfile.readline()
        return
    left = int(request.headers.get("Content-Length", 0))
    while left and (piece := request.rfile.read(min(left, _PIECE_BYTES))):
        left -= len(piece)
        yield piece


def _is_admitted(request: BaseHTTPRequestHandler, password: str) -> bool:
    expected = base64.b64encode(f"mirror:{password}".encode()).decode()
    return not password or request.headers.get("Authorization") == f"Basic {expected}"


def _environment(
    request: BaseHTTPRequestHandler, behaviour: Behaviour, root: Path
) -> dict[str, str]:
    """Return what CGI, git and the hooks of the host are told."""
    config = [("receive.hideRefs", prefix) for prefix in behaviour.hidden]
    config += [("uploadpack.hideRefs", prefix) for prefix in behaviour.hidden]
    config += [("receive.maxInputSize", str(behaviour.most_pack_bytes))]
    denied = str(behaviour.is_force_denied).lower()
    config += [("receive.denyNonFastForwards", denied), ("receive.autogc", "false")]
    pairs = {"GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config):
        pairs[f"GIT_CONFIG_KEY_{number}"] = key
        pairs[f"GIT_CONFIG_VALUE_{number}"] = value
    headers = request.headers
    return {
        **ENVIRONMENT,
        **pairs,
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": request.command,
        "CONTENT_TYPE": headers.get("Content-Type", ""),
        "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
        "REMOTE_USER": "mirror" if behaviour.password else "",
        "REMOTE_ADDR": "127.0.0.1",
        "HOST_DECLINES": behaviour.declines,
        "HOST_BRANCHES_AND_TAGS": "1" if behaviour.only_branches_and_tags else "",
        "HOST_PROTECTED": " ".join(behaviour.protected),
        "HOST_MOST_COMMITS": str(behaviour.most_commits or ""),
    }


def _send(request: BaseHTTPRequestHandler, output: bytes, seconds: float) -> None:
    """Send what a CGI program wrote, and wait before each piece of it."""
    head, _gap, content = output.partition(b"\r\n\r\n")
    lines = [line.split(": ", 1) for line in head.decode().splitlines()]
    headers = dict(line for line in lines if len(line) == 2)
    request.send_response(int(headers.pop("Status", "200").split()[0]))
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    for start in range(0, len(content), _PIECE_BYTES):
        time.sleep(seconds)
        request.wfile.write(content[start : start + _PIECE_BYTES])


@contextlib.contextmanager
def git_host(root: Path) -> Iterator[GitHost]:
    """Run a host with its repositories below ``root``."""
    root.mkdir(parents=True, exist_ok=True)
    host = GitHost(root)
    host.start()
    try:
        yield host
    finally:
        host.kill()
