"""Requests that nobody planned for: odd, slow, at once, and while files go."""

from __future__ import annotations

import http.client
import os
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.bundled import Bundled, Served
from testlib.hgserver import HgServer
from testlib.slowclients import connected, endless_bytes

# servers and generators are processes of their own
pytestmark = pytest.mark.slow

BUNDLE_LIST = "bundles.list"
LARGE = max(12 << 20, endless_bytes())


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Bundled:
    """A repository with one large bundle."""
    root = tmp_path_factory.mktemp("large") / "repo"
    made = Bundled.init(root, server, git=["git-v2"], hg=[], changesets=1)
    made.configure("clone-bundles", trigger__revs="0")
    (made.root / "large").write_bytes(os.urandom(LARGE))
    made.hg("commit", "-qAm", "large")
    made.refresh()
    return made


@pytest.fixture(scope="module")
def served(template: Bundled) -> Iterator[Served]:
    with template.served() as found:
        yield found


@pytest.fixture
def large(template: Bundled) -> Path:
    return max(
        template.directory.glob("*.bundle"), key=lambda path: path.stat().st_size
    )


def asking(served: Served, request: bytes, method: str = "GET") -> tuple[int, bytes]:
    """Send bytes as they are; return status and body, which may be cut."""
    with connected(served.port) as connection:
        connection.sendall(request)
        with http.client.HTTPResponse(connection, method=method) as response:
            response.begin()
            return response.status, response.read()


def get(path: str, *lines: str, method: str = "GET") -> bytes:
    head = [f"{method} /amalgam/bundles/{path} HTTP/1.0", *lines, "", ""]
    return "\r\n".join(head).encode("latin-1")


@pytest.mark.parametrize(
    "path",
    [
        f"{'0' * 64}.bundle",
        f"{'0' * 64}.hg",
        "../hgrc",
        "%2e%2e/hgrc",
        "../../../hgrc",
        "..%2f..%2fhgrc",
        "%2e%2e/%2e%2e/hgrc",
        "..\\..\\hgrc",
        "NAME%00",
        "%00NAME",
        "NAME%0a",
        "NAME%0d%0aX-Header:%20x",
        "NAME%20",
        "NAME.tmp",
        "NAME/",
        "NAME/HEAD",
        "NAME/info/refs",
        "NAME/info/refs?service=git-upload-pack",
        "NAME/..",
        "./NAME/../register",
        "NAME;x",
        "UPPER",
        "%ff%fe",
        "%",
        "%zz",
        "x" * 5000,
        "x/" * 2000,
        "tmp-0123456789abcdef/bundle",
        "register",
        "lock",
        "HEADS",
    ],
    ids=lambda path: path[-20:],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_odd_names_are_not_found(
    served: Served, template: Bundled, large: Path, path: str, method: str
) -> None:
    heads = next(template.directory.glob("*.heads")).name
    path = path.replace("NAME", large.name).replace("HEADS", heads)
    path = path.replace("UPPER", large.name.upper())
    status, body = asking(served, get(path, method=method), method)
    assert status == 404
    assert body == (b"Not Found\n" if method == "GET" else b"")


@pytest.mark.parametrize(
    "lines",
    [
        ["Range: bytes=" + ",".join(f"{n}-{n}" for n in range(300))],
        ["Range: bytes=0-0" + "," * 3000],
        ["Range: bytes=-"],
        ["Range: bytes=--1"],
        ["Range: bytes=1-0"],
        ["Range: bytes=+1-2"],
        ["Range: bytes=1_0-20"],
        ["Range: bytes=\xb2-\xb3"],
        ["Range: "],
        ["Range: BYTES 0-5"],
        ["Range: bytes=0-5", "If-Range: Tue, 15 Nov 1994 08:12:31 GMT"],
        ["Range: bytes=0-5", "If-Range: W/"],
        ["Range: bytes=0-5", 'If-Range: "'],
        ["Range: bytes=0-5", "If-Range: \xff"],
        ["If-None-Match: \xff, W/"],
        ["If-None-Match: "],
        ["If-Modified-Since: yesterday"],
    ],
    ids=lambda lines: lines[-1][:30],
)
def test_odd_headers_are_answered_with_all(
    served: Served, large: Path, lines: list[str]
) -> None:
    size = large.stat().st_size
    with connected(served.port) as connection:
        connection.sendall(get(large.name, *lines))
        response = http.client.HTTPResponse(connection)
        with response:  # it has the socket, too
            response.begin()
            assert response.status == 200
            assert response.getheader("Content-Length") == str(size)
            assert response.read(10) == b"# v2 git b"
    status, body = asking(served, get(large.name, *lines, method="HEAD"), "HEAD")
    assert (status, body) == (200, b"")


def test_other_methods_are_refused(served: Served, large: Path) -> None:
    for method in ("PUT", "DELETE", "POST"):
        request = get(large.name, "Content-Length: 0", method=method)
        # hgweb's own server knows no PUT and DELETE
        assert asking(served, request)[0] in (405, 501)


class Slow:
    """A client that has got the beginning of a file and reads no further."""

    def __init__(self, served: Served, path: Path) -> None:
        self._connection = connected(served.port)
        self._connection.sendall(get(path.name))
        self._response = http.client.HTTPResponse(self._connection)
        self._response.begin()
        assert self._response.status == 200
        self._content = self._response.read(1000)

    def rest(self) -> bytes:
        """Read on to the end, and return all."""
        with self._connection, self._response:
            return self._content + self._response.read()


def test_slow_clients_get_the_file_that_they_began_with(
    template: Bundled, large: Path
) -> None:
    content = large.read_bytes()
    with template.served() as served:
        clients = [Slow(served, large) for _number in range(4)]
        # nobody who reads holds a lock: all of this goes on at once
        template.commit()
        template.refresh()
        template.hg("admin::clone-bundles-clear")
        assert not large.exists()
        assert served.status(f"amalgam/bundles/{large.name}") == 404
        template.refresh()
        assert "getbundle" in served.capabilities()
        results: list[bytes] = []
        threads = [
            threading.Thread(target=lambda client=client: results.append(client.rest()))
            for client in clients
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == len(clients)
        assert all(found == content for found in results)


def test_file_that_is_cut_ends_the_answer(template: Bundled) -> None:
    large = max(template.directory.glob("*.bundle"), key=lambda p: p.stat().st_size)
    content = large.read_bytes()
    with template.served() as served:
        client = Slow(served, large)
        large.chmod(0o644)
        os.truncate(large, LARGE * 3 // 4)
        with pytest.raises(http.client.IncompleteRead):
            client.rest()
        # and is not begun with any more
        assert served.status(f"amalgam/bundles/{large.name}") == 404
        assert "getbundle" in served.capabilities()
    large.write_bytes(content)


def test_memory_does_not_follow_the_size_of_files(template: Bundled) -> None:
    large = max(template.directory.glob("*.bundle"), key=lambda p: p.stat().st_size)
    with template.served() as served:
        served.capabilities()  # all is loaded
        before = resident_bytes(served)
        clients = [Slow(served, large) for _number in range(8)]
        held = resident_bytes(served) - before
        assert held < LARGE
        for client in clients:
            client.rest()


def resident_bytes(served: Served) -> int:
    """Return the anonymous memory of a server."""
    text = Path(f"/proc/{served.pid}/status").read_text()
    return int(text.split("RssAnon:")[1].split()[0]) * 1024


def test_requests_during_generations_never_fail(template: Bundled) -> None:
    stop = threading.Event()
    answers: list[tuple[str, int]] = []

    def ask(served: Served, path: str) -> None:
        while not stop.is_set():
            answers.append((path, served.status(path)))

    paths = ["amalgam/bundles/bundles.list", "?cmd=capabilities", "?cmd=clonebundles"]
    paths += ["?cmd=cinnabarclone", "amalgam/bundles/register"]
    with template.served() as served:
        for path in paths:
            # before 3.11.9, Python finds lazy modules of Mercurial empty if several
            # threads are the first to use them
            served.status(path)
        threads = [threading.Thread(target=ask, args=(served, path)) for path in paths]
        for thread in threads:
            thread.start()
        try:
            for number in range(3):
                template.commit(f"number {number}")
                template.refresh()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    seen = {path: {s for p, s in answers if p == path} for path in paths}
    assert seen.pop("amalgam/bundles/register") == {404}
    assert seen.pop("amalgam/bundles/bundles.list") == {200}
    assert set.union(*seen.values()) == {200}


def test_hooks_that_refuse_a_pull_refuse_bundles(published: Bundled) -> None:
    published.configure("amalgam", git__serve="yes")
    names = sorted(published.live_names())
    for hook, refuses in (
        ("preoutgoing", lambda name: True),
        ("prelistkeys", lambda name: name.endswith(".bundle") or name == BUNDLE_LIST),
    ):
        with published.served_by(f"--config=hooks.{hook}.no=false") as served:
            for name in (*names, BUNDLE_LIST):
                status, body = asking(served, get(name))
                assert status == (403 if refuses(name) else 200), (hook, name)
                assert (b"a hook of this server refuses" in body) == refuses(name)
            told = urllib.request.urlopen(f"{served.url}?cmd=clonebundles").read()
            assert bool(told) == (hook != "preoutgoing")
