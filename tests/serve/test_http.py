"""Requests to the git routes of hgweb: malformed, hostile, and refused."""

from __future__ import annotations

import array
import fcntl
import gzip
import os
import random
import shutil
import socket
import subprocess
import tempfile
import termios
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, captured, executable
from testlib.exported import Exported
from testlib.hiding import fetch_of
from testlib.webserver import (
    GIT_TYPE,
    LS_REFS,
    ON,
    SERVICE,
    WebServer,
    answer_of,
    serving,
    until,
)

from hgext3rd.amalgam.serve.uploadpack import UploadPack

pytestmark = pytest.mark.slow

# the same in each process that collects tests
NOISE = random.Random(0).randbytes(200_000)
LIMIT = "--config=amalgam.serve.max-body=100 KB"
SHORT = "--config=amalgam.serve.queue-timeout=1"


@pytest.fixture(scope="module")
def web(exported_template: Exported) -> Iterator[WebServer]:
    # nobody reads what it logs of each request
    quiet = ("-A", os.devnull)
    with serving(exported_template.root, *ON, LIMIT, SHORT, *quiet) as server:
        yield server
        until(lambda: not server.children())


def compressed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def post(
    web: WebServer, body: bytes, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    headers.setdefault("Git_Protocol", "version=2")
    return web.ask("git-upload-pack", "POST", body, **headers)


def test_answer_is_not_for_caches(web: WebServer) -> None:
    for status, headers, _body in (
        web.ask(SERVICE, Git_Protocol="version=2"),
        web.ask(SERVICE),
        post(web, LS_REFS),
    ):
        assert status == 200
        assert headers["Cache-Control"] == "no-cache, max-age=0, must-revalidate"
        assert headers["Content-Type"].startswith("application/x-git-upload-pack-")
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "method", "expected"),
    [
        ("info/refs", "GET", 403),
        ("info/refs?service=", "GET", 403),
        ("info/refs?service=git-receive-pack", "GET", 403),
        ("info/refs?service=git-upload-archive", "GET", 403),
        ("info/refs?service=git-upload-pack&service=git-upload-pack", "GET", 403),
        ("info/refs?service=git-upload-pack%00", "GET", 403),
        ("info/refs?service=../../bin/sh", "GET", 403),
        (SERVICE, "POST", 405),
        ("info/refs/?service=git-upload-pack", "GET", 404),
        ("git-upload-pack", "GET", 405),
        ("git-upload-pack", "PUT", 405),
        ("git-upload-pack/", "POST", 404),
        ("git-receive-pack", "POST", 403),
        ("git-upload-archive", "POST", 403),
        ("HEAD", "GET", 404),
        ("objects/info/packs", "GET", 404),
        ("objects/pack/../../config", "GET", 404),
        ("%2e%2e/info/refs?service=git-upload-pack", "GET", 400),
        ("x/../info/refs?service=git-upload-pack", "GET", 400),
        ("x/info/refs?service=git-upload-pack", "GET", 400),
    ],
)
def test_all_else_is_refused(
    web: WebServer, path: str, method: str, expected: int
) -> None:
    status, headers, body = web.ask(path, method)
    assert status == expected
    if expected != 400:
        assert headers["Content-Type"] == "text/plain; charset=utf-8"
        assert bool(body.strip()) == (method != "HEAD")


@pytest.mark.parametrize(
    "value",
    [
        "version=3",
        "version=2:version=1",
        "side=x:version=2:version=3",
        "version=1:x",
        "version=2\tx",
        "version=2 ",
        "$(id)",
        "version=" + "2" * 5000,
    ],
)
def test_other_protocols_are_not_passed_on(web: WebServer, value: str) -> None:
    status, _headers, body = web.ask(SERVICE, Git_Protocol=value)
    # HTTP takes spaces at the ends away; git(1), GIT_PROTOCOL: unknown keys are ignored
    is_v2 = "version=2" in value.strip().split(":")
    assert (status, body.startswith(b"000eversion 2\n")) == (200, is_v2)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"0",
        b"zzzz",
        b"0003",
        b"0014command=ls-refs",
        b"ffffcommand=ls-refs\n",
        b"0014command=ls-refs\n0014command=ls-refs\n0000",
        b"0016command=push-all\n0000",
        b"0018command=object-info\n00010009size\n0000",
        b"0017command=../ls-refs\n0000",
        b"0012command=fetch\n0001000ewant zzzz\n0000",
        b"0012command=fetch\n0001" + b"0032want " + b"0" * 40 + b"\n",
        b"0032want " + b"0" * 40 + b"\n0000",
        b"\x00" * 1000,
        NOISE[:1000],
    ],
    ids=lambda body: repr(body[:24]),
)
def test_malformed_request_has_a_status(web: WebServer, body: bytes) -> None:
    status, _headers, said = post(web, body)
    assert status == 400 or (status == 200 and b"ERR " in said)
    assert web.ask(SERVICE)[0] == 200


@pytest.mark.parametrize("protocol", ["version=0", "version=1", "version=2"])
def test_request_to_which_git_writes_nothing_is_answered(
    web: WebServer, protocol: str
) -> None:
    want = b"0032want " + b"0" * 40 + b"\n"
    bodies = (b"0000", b"00000000", b"0001", b"00010000", b"0009done\n", want)
    for body in bodies:
        status, _headers, said = post(web, body, Git_Protocol=protocol)
        assert status in (200, 400), body
        assert b"Internal" not in said, body


def test_object_that_is_not_there_is_an_error_of_git(web: WebServer) -> None:
    body = b"0012command=fetch\n00010032want " + b"1" * 40 + b"\n0009done\n0000"
    status, _headers, said = post(web, body)
    assert status == 200
    assert b"ERR upload-pack: not our ref " + b"1" * 40 in said


def test_log_tells_that_git_broke_off(
    exported_template: Exported, tmp_path: Path
) -> None:
    program = executable(
        tmp_path / "git-program",
        f"#!{shutil.which('sh')}\n"
        'case " $* " in *" upload-pack "*) ;; *) exec git "$@";; esac\n'
        'git "$@" | head -c 300; echo "out of memory" >&2; exit 128\n',
    )
    option = f"--config=amalgam.git.program={program}"
    with serving(exported_template.root, *ON, option) as web:
        oid = exported_template.git("rev-parse", "refs/heads/default").strip()
        status, _headers, said = post(web, fetch_of(oid, 2))
        assert (status, len(said)) == (200, 300)
        until(web.logged)
        (line,) = web.logged()
    assert ": git ended with 128: out of memory, 300 bytes in " in line


def test_empty_request_is_answered_with_nothing(web: WebServer) -> None:
    # git asks in this way whether it needs a password, before it sends much
    assert post(web, b"0000")[::2] == (200, b"")
    assert post(web, b"0000", Git_Protocol="")[::2] == (200, b"")


@pytest.mark.parametrize("kind", ["text/plain", "", GIT_TYPE + "x"])
def test_other_content_type_is_refused(web: WebServer, kind: str) -> None:
    assert post(web, LS_REFS, Content_Type=kind)[0] == 415


def test_compressed_body_is_inflated(web: WebServer) -> None:
    plain = post(web, LS_REFS)
    assert plain[0] == 200
    for name in ("gzip", "x-gzip", "GZIP"):
        found = post(web, compressed(LS_REFS), Content_Encoding=name)
        assert found[::2] == plain[::2]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (compressed(b"\0" * 10_000_000), 413),
        (compressed(compressed(b"\0" * 10_000_000)), 400),
        (compressed(LS_REFS)[:-1], 400),
        (compressed(LS_REFS)[:5], 400),
        (compressed(LS_REFS) + b"x", 400),
        (compressed(LS_REFS) * 2, 400),
        (zlib.compress(LS_REFS), 400),
        (LS_REFS, 400),
        (b"", 400),
        (NOISE[:5000], 400),
        (NOISE, 400),
    ],
    ids=lambda value: repr(value[:6]) if isinstance(value, bytes) else str(value),
)
def test_bad_compression_is_refused(web: WebServer, body: bytes, expected: int) -> None:
    assert post(web, body, Content_Encoding="gzip")[0] == expected


def test_bomb_takes_no_memory(web: WebServer) -> None:
    bomb = compressed(b"\0" * 200_000_000)[:90_000]
    before = peak_kib(web)
    for _number in range(3):
        assert post(web, bomb, Content_Encoding="gzip")[0] == 413
    assert peak_kib(web) - before < 20_000


def peak_kib(web: WebServer) -> int:
    lines = Path(f"/proc/{web.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def test_body_is_bounded(web: WebServer) -> None:
    assert post(web, b"0" * 102_401)[0] == 413
    assert post(web, LS_REFS, Content_Encoding="br")[0] == 415


def test_client_that_sends_too_much_reads_why(web: WebServer) -> None:
    """It gets to that when it has sent all."""
    chunk = b"10000\r\n" + b"0" * (1 << 16) + b"\r\n"
    with socket.create_connection(("127.0.0.1", web.port)) as connection:
        connection.sendall(IN_CHUNKS + chunk * 512 + b"0\r\n\r\n")
        with connection.makefile("rb") as file:
            status, _headers, body = answer_of(file.read())
    assert status == 413
    assert b"the request is longer than" in body


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(it), it) for it in chunks) + end


HEAD = (
    "POST /git-upload-pack HTTP/1.1\r\nHost: x\r\n"
    f"Content-Type: {GIT_TYPE}\r\nGit-Protocol: version=2\r\n"
).encode()
IN_CHUNKS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"GET /HEAD HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "body",
    [
        chunked(LS_REFS),
        chunked(LS_REFS[:1], LS_REFS[1:7], LS_REFS[7:]),
        chunked(LS_REFS, end=b"0;x=y\r\nTrailer: x\r\nAnother: y\r\n\r\n"),
        b"%X;a=b\r\n%s\r\n0\r\n\r\n" % (len(LS_REFS), LS_REFS),
        b"000%x\r\n%s\r\n0\r\n\r\n" % (len(LS_REFS), LS_REFS),
    ],
)
def test_chunks_are_decoded_and_the_connection_goes_on(
    web: WebServer, body: bytes
) -> None:
    found = web.exchange(IN_CHUNKS + body + LAST)
    assert found.count(b"HTTP/1.1 ") == 2
    assert found.startswith(b"HTTP/1.1 200 ")
    assert b"refs/heads/stable" in found
    assert b"HTTP/1.1 404 Not Found" in found


def get(*headers: bytes, path: bytes = SERVICE.encode()) -> bytes:
    lines = (b"GET /%s HTTP/1.1" % path, b"Host: x", *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n"


SMUGGLED = get(b"Connection: close", path=b"SMUGGLED")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(IN_CHUNKS + b"x\r\n" + SMUGGLED, 400, id="no size"),
        pytest.param(IN_CHUNKS + b"-4\r\n" + SMUGGLED, 400, id="negative"),
        pytest.param(IN_CHUNKS + b"\r\n" + SMUGGLED, 400, id="empty size"),
        pytest.param(IN_CHUNKS + b"9" * 2000 + SMUGGLED, 400, id="long size"),
        pytest.param(IN_CHUNKS + b"1" * 16 + b"\r\n" + SMUGGLED, 400, id="huge"),
        pytest.param(IN_CHUNKS + b"4\r\n0000x\r\n" + SMUGGLED, 400, id="no end"),
        pytest.param(
            IN_CHUNKS + b"0\r\n" + b"a: b\r\n" * 100 + SMUGGLED, 400, id="trailers"
        ),
        pytest.param(IN_CHUNKS + chunked(b"0" * 200_000) + SMUGGLED, 413, id="long"),
        pytest.param(
            HEAD
            + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"
            + b"0000"
            + SMUGGLED,
            400,
            id="two lengths",
        ),
        pytest.param(
            HEAD + b"Content-Length: 4\r\nContent-Length: 40\r\n\r\n0000" + SMUGGLED,
            400,
            id="length twice",
        ),
        pytest.param(
            HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + SMUGGLED,
            501,
            id="unknown coding",
        ),
        pytest.param(HEAD + b"\r\n" + SMUGGLED, 411, id="no length"),
        pytest.param(get(b"Content-Length: 40") + SMUGGLED, 400, id="body of GET"),
        pytest.param(
            get(b"Content-Length: 0", b"Content-Length: 40") + SMUGGLED,
            400,
            id="GET with two lengths",
        ),
        pytest.param(
            IN_CHUNKS.replace(b"Transfer-", b"Transfer_") + chunked(LS_REFS) + SMUGGLED,
            400,
            id="coding in CGI's spelling",
        ),
        pytest.param(
            get(b"X : y", b"Content-Length: 40") + SMUGGLED,
            400,
            id="headers end for Python",
        ),
        pytest.param(
            get(b"Content-Length: 40", path=b"amalgam/bundles/x") + SMUGGLED,
            400,
            id="body of GET of a bundle",
        ),
        pytest.param(
            IN_CHUNKS.replace(b"HTTP/1.1", b"HTTP/1.0").replace(
                b"Host", b"Connection: keep-alive\r\nHost"
            )
            + chunked(LS_REFS)
            + SMUGGLED,
            400,
            id="chunks in HTTP/1.0",
        ),
        pytest.param(
            IN_CHUNKS + b"4\n0000\r\n0\r\n\r\n" + SMUGGLED, 400, id="bare line feed"
        ),
        pytest.param(
            IN_CHUNKS.replace(b"git-upload-pack", b"git-receive-pack")
            + chunked(b"0000")
            + SMUGGLED,
            403,
            id="refused route",
        ),
    ],
)
def test_nothing_is_smuggled(web: WebServer, request_: bytes, expected: int) -> None:
    found = web.exchange(request_)
    assert answer_of(found)[0] == expected
    assert found.count(b"HTTP/1.1 ") == 1, found


def test_body_that_does_not_come_ends(exported_template: Exported) -> None:
    options = (
        # enough for the other request on a busy machine
        "--config=amalgam.serve.timeout=5",
        "--config=amalgam.serve.max-fetches=1",
    )
    with serving(exported_template.root, *ON, *options) as web:
        with contextless(web.port) as slow:
            slow.sendall(HEAD + b"Content-Length: 1000\r\n\r\n0014")
            # it holds nothing that others need
            assert post(web, LS_REFS)[0] == 200
            until(lambda: not web.children())
            assert slow.recv(1 << 16) == b""
        until(lambda: any("refused with 408" in line for line in web.logged()))


def contextless(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 600)


def test_switched_off_it_says_how_to_switch_it_on(
    exported_template: Exported, tmp_path: Path
) -> None:
    with serving(exported_template.root, ON[0]) as web:
        done = captured(["git", "clone", web.url, "clone"], tmp_path)
        assert b"remote: this server does not serve git from this" in done.stderr
        assert b"amalgam.git.serve = yes" in done.stderr
        assert web.ask("info/refs?service=git-receive-pack")[0] == 403
        assert web.ask("git-upload-pack", "POST", LS_REFS)[0] == 403
        assert web.ask("?cmd=capabilities")[0] == 200


def test_repository_without_amalgam_is_left_to_mercurial(
    exported_template: Exported,
) -> None:
    option = "--config=extensions.amalgam=!"
    with serving(exported_template.root, option) as web:
        assert web.ask(SERVICE)[0] == 400


def test_push_says_where_to_push(web: WebServer, tmp_path: Path) -> None:
    run = {"cwd": tmp_path, "env": ENVIRONMENT, "capture_output": True}
    subprocess.run(["git", "clone", "-q", web.url, "clone"], check=True, **run)  # type: ignore[call-overload]
    done = subprocess.run(["git", "-C", "clone", "push", "origin", "HEAD:x"], **run)  # type: ignore[call-overload]
    assert b"remote: this repository is read-only for git" in done.stderr
    assert b"403" in done.stderr


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(b"/info/refs%00?service=git-upload-pack", (400, 404), id="NUL"),
        pytest.param(b"//info/refs?service=git-upload-pack", (200, 400), id="slashes"),
        pytest.param(b"/%2e%2e/%2e%2e/HEAD", (400, 404), id="dots"),
        pytest.param(b"/objects/%2e%2e/%2e%2e/config", (404,), id="in objects"),
        pytest.param(b"/objects/\xff\xfe", (404,), id="not UTF-8"),
        pytest.param(b"/git-upload-pack/../HEAD", (400, 404), id="below a route"),
        pytest.param(b"/HEAD?" + b"x" * 60_000, (404,), id="long query"),
        pytest.param(b"/objects/" + b"x" * 60_000, (404,), id="long path"),
        pytest.param(b"/" + b"x" * 70_000, (414,), id="too long"),
    ],
)
def test_odd_paths_have_a_status(
    web: WebServer, path: bytes, expected: tuple[int, ...]
) -> None:
    request_ = b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path
    assert answer_of(web.exchange(request_))[0] in expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [("PUT", 405), ("DELETE", 501), ("TRACE", 501)],
)
@pytest.mark.parametrize("path", [SERVICE, "git-upload-pack"])
def test_other_methods_are_refused(
    web: WebServer, path: str, method: str, expected: int
) -> None:
    assert web.ask(path, method)[0] == expected


@pytest.mark.parametrize("spoken", ["", "version=2"])
def test_head_is_answered_as_get_without_a_body(web: WebServer, spoken: str) -> None:
    for path, status in ((SERVICE, 200), ("git-upload-pack", 405), ("info/refs", 403)):
        asked = web.ask(path, Git_Protocol=spoken)
        found = web.ask(path, "HEAD", Git_Protocol=spoken)
        assert (found[0], found[2]) == (status, b"")
        assert asked[0] == status
        kind = "Content-Type"
        assert found[1][kind] == asked[1][kind]
    until(lambda: not web.children())


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (SERVICE, "GET, HEAD, OPTIONS"),
        ("git-upload-pack", "POST, OPTIONS"),
        ("info/lfs/objects/batch", "POST, OPTIONS"),
        ("amalgam/id/tip", "GET, HEAD, OPTIONS"),
        ("amalgam/bundles/x", "GET, HEAD, OPTIONS"),
    ],
)
def test_options_are_the_methods_of_a_route(
    web: WebServer, path: str, allowed: str
) -> None:
    found = web.ask(path, "OPTIONS")
    assert (found[0], found[1]["Allow"], found[2]) == (200, allowed, b"")


def test_options_of_other_routes_are_mercurials(web: WebServer) -> None:
    assert web.ask("file/tip", "OPTIONS")[0] == 501


def test_client_of_http_1_0_is_answered_without_chunks(web: WebServer) -> None:
    length = b"Content-Length: %d\r\n\r\n" % len(LS_REFS)
    found = web.exchange(HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + length + LS_REFS)
    head, _empty, body = found.partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0]
    assert b"chunked" not in head
    assert body.endswith(b"0000")
    assert b"refs/heads/stable" in body


@pytest.mark.needs("continue")
@pytest.mark.parametrize("is_chunked", [False, True])
def test_client_that_waits_to_continue_is_told_to(
    web: WebServer, is_chunked: bool
) -> None:
    length = b"Content-Length: %d\r\n" % len(LS_REFS)
    body = chunked(LS_REFS) if is_chunked else LS_REFS
    how = b"Transfer-Encoding: chunked\r\n" if is_chunked else length
    with contextless(web.port) as client:
        client.sendall(
            HEAD + how + b"Connection: close\r\nExpect: 100-continue\r\n\r\n"
        )
        said = client.recv(1 << 16)
        assert said.startswith(b"HTTP/1.1 100 ")
        client.sendall(body)
        while piece := client.recv(1 << 16):
            said += piece
    # Python and Mercurial each say so; more than once is allowed
    interim = said.count(b"HTTP/1.1 100 ")
    assert said.count(b"HTTP/1.1 ") == interim + 1
    assert said.count(b"HTTP/1.1 200 ") == 1
    assert b"refs/heads/stable" in said


def test_requests_sent_at_once_are_answered_in_turn(web: WebServer) -> None:
    length = b"Content-Length: %d\r\n\r\n" % len(LS_REFS)
    found = web.exchange((HEAD + length + LS_REFS) * 5 + LAST)
    assert found.count(b"HTTP/1.1 200 ") == 5
    assert found.count(b"HTTP/1.1 404 ") == 1
    assert found.count(b"refs/heads/stable") == 5


def test_what_follows_a_refused_request_is_not_answered(web: WebServer) -> None:
    wrong = HEAD.replace(GIT_TYPE.encode(), b"text/plain")
    found = web.exchange(wrong + b"Content-Length: 4\r\n\r\n0000" + SMUGGLED)
    assert answer_of(found)[0] == 415
    assert found.count(b"HTTP/1.1 ") == 1


def test_small_pieces_are_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # git writes packs in pieces of 8 KiB, and takes a while for each
    process = subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    running = UploadPack(process, tempfile.TemporaryFile())  # noqa: SIM115
    _output, fed = running.descriptors()

    def write(kib: int) -> None:
        os.write(fed, bytes(kib << 10))
        until(lambda: unread_bytes(running.output) == kib << 10)

    class Pause:
        """What comes while it waits: something, then the end."""

        count = 0

        def poll(self, _milliseconds: int) -> None:
            self.count += 1
            write(24) if self.count == 1 else running.hang_up()

    pause = Pause()
    monkeypatch.setattr(running, "_end", pause)
    write(64)
    assert len(running.read()) == 64 << 10
    write(16)
    assert len(running.read()) == 16 << 10
    assert pause.count == 0  # not after a whole piece
    assert len(running.read()) == 24 << 10
    assert running.read() == b""
    assert pause.count == 2
    assert (running.close(kill=False), running.said()) == (0, b"")


def unread_bytes(descriptor: int) -> int:
    """Return how much is in a pipe."""
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]
