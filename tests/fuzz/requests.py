"""Parsers of what clients of a server send: one function for each.

A request is read, or refused with a status and a sentence.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from mercurial import ui as uimod
from mercurial.hgweb import request, server

from hgext3rd.amalgam.receive.commands import PushResult, RefCommand
from hgext3rd.amalgam.serve import (
    http,
    httprequest,
    lfs,
    limits,
    pktlines,
    receivepack,
    ssh,
)
from hgext3rd.amalgam.serve.errors import HttpError
from hgext3rd.amalgam.serve.httprequest import ChunkedReader, Connection

_MOST_BYTES = 1 << 16
_WANT = re.compile(rb"want ([0-9a-f]{40})[ \n]?.*", re.DOTALL)
_ALLOWED = ["/srv/hg/one", "two", "~/three"]
_DIRECTORY = "/srv/hg"


def pkt_lines(content: bytes) -> None:
    """The lines of a request, and what the first of them say."""
    with contextlib.suppress(ValueError):
        found = [*pktlines.lines(io.BytesIO(content))]
        marks = (pktlines.FLUSH, pktlines.DELIMITER)
        again = b"".join(it if it in marks else pktlines.line(it) for it in found)
        assert again.lower() == content.lower()  # lengths may be in capitals
    with contextlib.suppress(ValueError):
        head = pktlines.head_of(io.BytesIO(content))
        assert len(head.want) in (0, 20)
        assert not head.is_flush or content.startswith(pktlines.FLUSH)
    assert [*pktlines.wants(io.BytesIO(content))] == _wants(content)


def _wants(content: bytes) -> list[bytes]:
    """Return what ``pktlines.wants`` is to yield, line by line."""
    found = []
    with contextlib.suppress(ValueError):
        for line in pktlines.lines(io.BytesIO(content)):
            if line == pktlines.FLUSH:
                break
            if want := _WANT.fullmatch(line):
                found.append(bytes.fromhex(want[1].decode()))
    return found


def proc_receive(content: bytes) -> None:
    """What git asks about a push, and an answer that refuses every second ref."""
    with open(os.devnull, "wb") as file:
        try:
            asked = receivepack.read_request(io.BytesIO(content), file.fileno())
        except ValueError:
            return
        for command in asked.commands if asked else ():
            again = b"%s %s %s\n" % (command.old, command.new, command.ref)
            assert RefCommand.parse(again) == command
            assert len(command.old) == len(command.new) == 40
        if asked:
            refused = dict.fromkeys([it.ref for it in asked.commands[::2]], b"no" * 999)
            receivepack.write_result(asked, PushResult(refused), file.fileno())


def chunked_body(content: bytes) -> None:
    """A chunked body, and what stands after it on the connection."""
    file = io.BytesIO(content)
    reader = ChunkedReader(file)
    found = b""
    with contextlib.suppress(HttpError):
        while piece := reader.read(7):
            found += piece
        assert not reader.read(7)
        assert len(found) < file.tell() <= len(content)
        assert content[: file.tell()].endswith(b"\n")


def gzip_body(content: bytes) -> None:
    """A compressed body in two pieces; it is what Python's own reader has of it."""
    pieces = iter((content[:20], content[20:])) if content[20:] else iter((content,))
    found = b""
    try:
        for piece in httprequest._inflated(pieces):
            found += piece
            if len(found) > _MOST_BYTES:
                return
    except HttpError:
        return
    with contextlib.suppress(OSError, EOFError, zlib.error):
        assert gzip.decompress(content) == found


def http_head(content: bytes) -> None:
    """A request as ``hg serve`` reads it: its route, its length, its protocol."""
    handler = _handler(content)
    if handler is None:
        return
    try:
        req = _request(handler)
    except UnicodeDecodeError:
        return  # Mercurial reads no query that is not ASCII, whoever is to answer
    assert http._is_ours(req, req.dispatchpath or b"") in (False, True)
    spoken = http._UploadPackRequest._spoken.fget(types.SimpleNamespace(req=req))  # type: ignore[attr-defined]
    assert spoken in (b"", b"version=0", b"version=1", b"version=2")
    connection = Connection(req)
    with contextlib.suppress(HttpError):
        limit, moved = _MOST_BYTES, limits.Watchdog(600, lambda: None).moved
        with httprequest.received_body(req, connection, limit, moved) as body:
            assert len(body.read()) <= limit
        lengths = handler.headers.get_all("Content-Length", [])
        lengths += handler.headers.get_all("Transfer-Encoding", [])
        assert len(lengths) == 1, "two readers could see two ends"


def lfs_batch(content: bytes) -> None:
    """A batch request of git-lfs, and the answer to it."""
    try:
        wanted = lfs.parse_batch(content)
    except HttpError:
        return
    offered = {item for item in wanted if item.size % 2}
    answer = lfs.batch_answer(wanted, offered.__contains__, lambda oid: b"x:" + oid, {})
    found = json.loads(answer)["objects"]
    assert [item["oid"].encode() for item in found] == [item.oid for item in wanted]
    assert all(len(item.pointer_oid) == 20 for item in wanted)


def lfs_route(content: bytes) -> None:
    """The path of a request to ``hgwebdir``, which has the repository ``in/a``."""
    directory = types.SimpleNamespace(
        ui=_UI, refresh=lambda: None, repos=[(b"in/a", b"/srv/hg/a")]
    )
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "SERVER_NAME": "x",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "PATH_INFO": content.decode("latin-1"),
        "SCRIPT_NAME": "",
    }
    req = request.parserequestfromenv(environ, bodyfh=io.BytesIO())
    seen: list[Any] = []

    def answer(_directory: Any, req: Any, _res: Any) -> Iterator[bytes]:
        seen.append(req)
        return iter(())

    http.route(answer, directory, req, None)
    [found] = seen
    if found is not req:
        assert found.rawenv[b"PATH_INFO"] == b"/in/a/.git/info/lfs/objects/batch"
        assert content.strip(b"/") == b"in/a.git/info/lfs/objects/batch"


def ssh_command(content: bytes) -> None:
    """What an ssh client asks for."""
    text = os.fsdecode(content)
    with contextlib.suppress(ValueError):
        found = ssh.Command.parse(text)
        assert found.path
        assert not found.path.startswith("-")
        path = ssh.allowed(found.path, _ALLOWED, _DIRECTORY)
        home = os.path.expanduser("~/three")
        assert path in (None, "/srv/hg/one", "/srv/hg/two", home)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "pkt_lines": pkt_lines,
    "proc_receive": proc_receive,
    "chunked_body": chunked_body,
    "gzip_body": gzip_body,
    "http_head": http_head,
    "lfs_batch": lfs_batch,
    "lfs_route": lfs_route,
    "ssh_command": ssh_command,
}

_UI = uimod.ui()
_UI.setconfig(b"extensions", b"amalgam", b"")


class _Socket:
    """A connection by which a request has come."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.answer = io.BytesIO()

    def makefile(self, *_args: object, **_options: object) -> io.BytesIO:
        return io.BytesIO(self._content)

    def sendall(self, content: bytes) -> None:
        self.answer.write(content)


class _Handler(server._httprequesthandler):
    """The one of ``hg serve``, which stops before hgweb."""

    environ: dict[str, Any] | None = None

    def handle(self) -> None:
        self.handle_one_request()

    def finish(self) -> None:
        """Let what has come be read."""

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""

    log_error = log_message

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Write no log."""


def _handler(content: bytes) -> _Handler | None:
    """Return what has read the head of a request; ``None`` if hgweb does not see it."""

    def note(environ: dict[str, Any], _start: object) -> list[bytes]:
        handler.environ = environ
        raise _SeenError

    web = types.SimpleNamespace(
        prefix=b"", server_name="x", server_port=80, serverheader=b"", application=note
    )
    handler = object.__new__(_Handler)
    with contextlib.suppress(_SeenError):
        handler.__init__(_Socket(content), ("127.0.0.1", 1), web)  # type: ignore[misc]
    return handler if handler.environ else None


class _SeenError(BaseException):
    """hgweb would see the request now."""


def _request(handler: _Handler) -> Any:
    assert handler.environ
    return request.parserequestfromenv(
        handler.environ, bodyfh=handler.environ["wsgi.input"]
    )
