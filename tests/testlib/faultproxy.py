"""A proxy on the loopback that lets requests to a server fail as its owner says."""

from __future__ import annotations

import contextlib
import enum
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PIECE_BYTES = 1 << 16
_SLOW_BYTES = 2 << 20  # a second


class Fault(enum.Enum):
    """What becomes of a request."""

    NONE = 0
    FORBIDDEN = 403
    UNAVAILABLE = 503
    FULL = 507
    CUT = 1
    """The connection ends in the middle of the body."""
    SLOW = 2


#: Told method and path with query; requests are answered in threads.
Rule = Callable[[str, str], Fault]


class FaultProxy:
    """Forwards to ``port``, and follows ``rule``."""

    def __init__(self, port: int) -> None:
        self.rule: Rule = lambda _method, _path: Fault.NONE
        self.requests: list[str] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                proxy.forward(self, port)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815

            def log_message(self, *_args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def forward(self, request: BaseHTTPRequestHandler, port: int) -> None:
        self.requests.append(f"{request.command} {request.path}")
        fault = self.rule(request.command, request.path)
        length = int(request.headers.get("Content-Length", 0))
        request.close_connection = True
        body = b""
        while len(body) < length:
            piece = request.rfile.read(min(_PIECE_BYTES, length - len(body)))
            if not piece or (fault is Fault.CUT and len(body) >= length // 2):
                return
            body += piece
            if fault is Fault.SLOW:
                time.sleep(len(piece) / _SLOW_BYTES)
        if fault in (Fault.FORBIDDEN, Fault.UNAVAILABLE, Fault.FULL):
            request.send_error(fault.value)
            return
        server = http.client.HTTPConnection("127.0.0.1", port)
        with contextlib.closing(server):
            server.request(
                request.command, request.path, body, dict(request.headers.items())
            )
            answer = server.getresponse()
            content = answer.read()
            request.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "date"):
                    request.send_header(name, value)
            if answer.getheader("Content-Length") is None:
                request.send_header("Content-Length", str(len(content)))
            request.send_header("Connection", "close")
            request.end_headers()
            with contextlib.suppress(OSError):
                request.wfile.write(content)

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def fault_proxy(port: int) -> Iterator[FaultProxy]:
    proxy = FaultProxy(port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()
