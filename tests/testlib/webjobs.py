"""What hgweb answers, in the process that asks: jobs of ``forkserver``."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

_ENVIRON = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "",
    "SERVER_NAME": "localhost",
    "SERVER_PORT": "80",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "REMOTE_ADDR": "127.0.0.1",
    "wsgi.url_scheme": "http",
    "wsgi.version": (1, 0),
    "wsgi.multithread": True,
    "wsgi.multiprocess": False,
    "wsgi.run_once": False,
}
_OPTIONS = ("allow-push=*", "push_ssl=no")


def requests(args: list[str]) -> int:
    """Ask hgweb for each route; print status, type and the digest of the answer.

    ``--show`` before a route prints the answer itself. ``--truncate DIRECTORY`` makes
    the files there empty: their owner may do so while a server has them mapped.
    """
    application = _application(".")
    shown = False
    while args:
        route = args.pop(0)
        if route == "--truncate":
            _truncate(args.pop(0))
            continue
        if route == "--show":
            shown = True
            continue
        status, kind, body = _get(application, route)
        said = body if shown else hashlib.sha1(body).hexdigest().encode()
        line = f"{route} {status} {kind} {len(body)} ".encode()
        os.write(1, line + said + b"\n")
        shown = False
    return 0


def clone(args: list[str]) -> int:
    """Clone the repository here by HTTP, with the arguments of ``hg clone``."""
    from mercurial import dispatch, ui as uimod
    from mercurial.hgweb import server

    from .forkserver import become_hg

    ui = uimod.ui.load()
    for name, value in ((b"port", b"0"), (b"address", b"127.0.0.1")):
        ui.setconfig(b"web", name, value)
    ui.setconfig(b"web", b"accesslog", os.fsencode(os.devnull))
    httpd = server.create_server(ui, _application("."))
    client = os.fork()
    if not client:
        httpd.socket.close()
        address = f"http://127.0.0.1:{httpd.port}/"
        become_hg(["clone", address, *args])
        dispatch.run()
    httpd.timeout = 0.02
    while True:
        ended, status = os.waitpid(client, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        httpd.handle_request()


def _application(path: str) -> Any:
    from mercurial import extensions, ui as uimod
    from mercurial.hgweb import hgweb

    ui = uimod.ui.load()
    for option in _OPTIONS:
        name, _equals, value = option.partition("=")
        ui.setconfig(b"web", name.encode(), value.encode())
    extensions.loadall(ui)
    extensions.populateui(ui)
    return hgweb(os.fsencode(path), baseui=ui)


def _get(application: Any, route: str) -> tuple[str, str, bytes]:
    path, _mark, query = route.partition("?")
    environ: dict[str, Any] = {
        **_ENVIRON,
        "PATH_INFO": "/" + path,
        "QUERY_STRING": query,
        "wsgi.input": open(os.devnull, "rb"),  # noqa: SIM115
        "wsgi.errors": sys.stderr,
    }
    started: list[tuple[str, dict[str, str]]] = []

    def start(
        status: str, headers: Iterable[tuple[str, str]], _info: Any = None
    ) -> Callable[[bytes], object]:
        started[:] = [(status, {name.lower(): value for name, value in headers})]
        return written.append

    written: list[bytes] = []
    answer = application(environ, start)
    body = b"".join(answer)
    if hasattr(answer, "close"):
        answer.close()
    status, headers = started[0]
    return status, headers.get("content-type", "-"), b"".join(written) + body


def _truncate(directory: str) -> None:
    # it may be missing, or no directory
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            regular = entry.is_file(follow_symlinks=False)
            if regular and os.access(entry.path, os.W_OK):
                os.truncate(entry.path, 0)
