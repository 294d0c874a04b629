"""A load balancer without affinity: each request goes to the next server."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
from collections.abc import Iterator

from .webserver import WebServer

_DROPPED = frozenset(["host", "connection", "transfer-encoding", "content-length"])


class Balancer(http.server.ThreadingHTTPServer):
    """The proxy; it ends with ``alternating``."""

    daemon_threads = True

    def __init__(self, servers: tuple[WebServer, ...]) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.servers = servers
        self.asked: list[tuple[int, str]] = []
        """Which server was asked for what: the path, or the command of version 2."""
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"

    def next(self, what: str) -> WebServer:
        with self.lock:
            number = len(self.asked) % len(self.servers)
            self.asked.append((number, what))
        return self.servers[number]


class _Exchange(http.server.BaseHTTPRequestHandler):
    def _forward(self) -> None:
        assert isinstance(self.server, Balancer)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        command = body.partition(b"command=")[2][:7].decode(errors="replace")
        server = self.server.next(command.strip() or self.path)
        sent = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("host", "connection")
        }
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        with contextlib.closing(connection):
            connection.request(self.command, self.path, body or None, sent)
            answer = connection.getresponse()
            found = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _DROPPED:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)

    do_GET = do_POST = _forward  # noqa: N815

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def alternating(*servers: WebServer) -> Iterator[Balancer]:
    """Run a proxy in front of some servers."""
    with Balancer(servers) as balancer:
        thread = threading.Thread(target=balancer.serve_forever)
        thread.start()
        try:
            yield balancer
        finally:
            balancer.shutdown()
            thread.join()
