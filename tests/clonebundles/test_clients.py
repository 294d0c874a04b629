"""Bundles over HTTP, and the clients that start from them."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.bundled import FORMATS, Bundled, Served
from testlib.environment import HG, add_config, captured, git
from testlib.hgserver import HgServer

# servers and generators are processes of their own
pytestmark = pytest.mark.slow

LARGE = 300_000


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Bundled:
    """A repository with bundles, one of them large."""
    made = Bundled.init(tmp_path_factory.mktemp("bundled") / "repo", server)
    made.commit(os.urandom(LARGE // 2).hex())
    made.refresh()
    return made


@pytest.fixture(scope="module")
def served(published: Bundled) -> Iterator[Served]:
    with published.served() as found:
        yield found


@pytest.fixture
def large(published: Bundled) -> Path:
    """A file of more than one chunk, as it is on disk."""
    path = published.live("git-v2")
    assert path.stat().st_size > LARGE // 2
    return path


def ask(
    served: Served, path: str, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    host = served.url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, "/" + path, headers=sent)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def at(path: Path) -> str:
    return f"amalgam/bundles/{path.name}"


def test_file_is_sent_with_length_and_validator(served: Served, large: Path) -> None:
    response, body = ask(served, at(large))
    assert response.status == 200
    assert body == large.read_bytes()
    headers = dict(response.getheaders())
    assert headers["Content-Length"] == str(len(body))
    assert headers["ETag"] == f'"{large.stem}"'
    assert headers["Accept-Ranges"] == "bytes"
    assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
    response, body = ask(served, at(large), "HEAD")
    assert (response.status, body) == (200, b"")
    assert response.getheader("Content-Length") == headers["Content-Length"]


def test_head_has_no_body_whatever_is_asked(served: Served, large: Path) -> None:
    host = served.url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host)  # one, so that a body would be seen
    for path, status in (("bundles.list", 200), ("x", 404), (large.name, 200)):
        connection.request("HEAD", f"/amalgam/bundles/{path}")
        response = connection.getresponse()
        assert (response.status, response.read()) == (status, b"")
        assert int(response.getheader("Content-Length") or 0) > 0
    connection.close()


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [
        ("bytes=0-", 0, None),
        ("bytes=0-0", 0, 1),
        ("bytes=131071-131073", 131071, 131074),
        ("bytes=5-", 5, None),
        ("bytes=-7", -7, None),
        ("bytes=100-999999999", 100, None),
        pytest.param("bytes=100-" + "9" * 5000, 100, None, id="thousands of digits"),
        pytest.param("bytes=" + "0" * 5000 + "-9", 0, 10, id="thousands of zeros"),
    ],
)
def test_range_is_sent(
    served: Served, large: Path, wanted: str, start: int, end: int | None
) -> None:
    response, body = ask(served, at(large), Range=wanted)
    content = large.read_bytes()
    assert response.status == 206
    assert body == content[start:end]
    first = start % len(content)
    said = f"bytes {first}-{first + len(body) - 1}/{len(content)}"
    assert response.getheader("Content-Range") == said
    assert response.getheader("Content-Length") == str(len(body))


def test_what_is_no_single_range_is_answered_with_all(
    served: Served, large: Path
) -> None:
    for wanted in ("bytes=1-2,4-5", "bytes=-", "lines=1-2", "bytes=9-3"):
        response, body = ask(served, at(large), Range=wanted)
        assert (response.status, body) == (200, large.read_bytes()), wanted


def test_range_behind_the_end_is_refused(served: Served, large: Path) -> None:
    size = large.stat().st_size
    response, _body = ask(served, at(large), Range=f"bytes={size}-")
    assert response.status == 416
    assert response.getheader("Content-Range") == f"bytes */{size}"
    # caches keep what says so under the address alone, whatever was asked for
    assert response.getheader("Cache-Control") == "no-store"


def test_range_of_another_file_is_answered_with_all(
    served: Served, large: Path
) -> None:
    response, body = ask(served, at(large), Range="bytes=5-", If_Range='"other"')
    assert (response.status, len(body)) == (200, large.stat().st_size)
    tag = f'"{large.stem}"'
    response, body = ask(served, at(large), Range="bytes=5-", If_Range=tag)
    assert (response.status, len(body)) == (206, large.stat().st_size - 5)
    response, body = ask(served, at(large), If_None_Match=tag)
    assert (response.status, body) == (304, b"")


def test_directory_is_not_listed(served: Served) -> None:
    for path in ("amalgam/bundles", "amalgam/bundles/"):
        response, body = ask(served, path)
        assert (response.status, body) == (404, b"Not Found\n")


def test_nothing_can_be_sent_there(served: Served, large: Path) -> None:
    response, _body = ask(served, at(large), "POST")
    assert response.status == 405
    assert response.getheader("Allow") == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("rule", ["deny_read", "allow_pull"])
def test_who_may_not_pull_gets_no_bundle(
    published: Bundled, large: Path, rule: str
) -> None:
    rules = {"deny_read": "*", "allow_pull": "no"}
    with published.served(**{rule: rules[rule]}) as served:
        for path in (at(large), "amalgam/bundles/bundles.list", "amalgam/bundles/x"):
            response, body = ask(served, path)
            assert response.status == 401, path
            assert b"not authorized" in body


def test_what_must_not_leave_is_not_for_shared_caches(
    published: Bundled, large: Path
) -> None:
    # permissions that a web server in front checks
    with published.served_by("--config=amalgam.bundles.external=no") as served:
        response, _body = ask(served, at(large))
        said = response.getheader("Cache-Control")
        assert said == "private, max-age=31536000, immutable"


def test_symbolic_link_is_not_followed(published: Bundled, large: Path) -> None:
    moved = large.with_suffix(".moved")
    large.rename(moved)
    try:
        large.symlink_to(moved)
        with published.served() as served:
            assert ask(served, at(large))[0].status == 404
    finally:
        large.unlink()
        moved.rename(large)


@pytest.mark.needs("curl")
def test_interrupted_download_goes_on_where_it_was(
    published: Bundled, large: Path, tmp_path: Path
) -> None:
    target = tmp_path / "bundle"
    with published.served() as served:  # its log is that of the last one that began
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(f"GET /{at(large)} HTTP/1.0\r\n\r\n".encode())
            received = b""
            while len(received) < 100_000:
                received += connection.recv(10_000)
        target.write_bytes(received.partition(b"\r\n\r\n")[2])
        command = ["curl", "-sSf", "-C", "-", "-o", str(target), served.url + at(large)]
        subprocess.run(command, check=True)
        assert served.requests()[-1].endswith(" 206 -")
    assert target.read_bytes() == large.read_bytes()


def test_addresses_are_those_that_the_client_uses(published: Bundled) -> None:
    with published.served() as served:
        port = served.url.rpartition(":")[2]
        for host in ("localhost", "127.0.0.1"):
            there = Served(f"http://{host}:{port}", served.log, served.sent)
            text = b"".join(
                there.get(path)
                for path in (
                    "?cmd=cinnabarclone",
                    "?cmd=clonebundles",
                    "amalgam/bundles/bundles.list",
                )
            )
            assert text.count(f"http://{host}:{port}amalgam/bundles/".encode()) == 3


def test_addresses_below_a_prefix(published: Bundled, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"[paths]\ngroup/repo = {published.root}\n")
    options = ["--webdir-conf", str(config), "--prefix", "hg"]
    with published.served_by(*options) as served:
        text = served.get("hg/group/repo?cmd=cinnabarclone").decode().strip()
        name = published.live("cinnabar-v1").name
        assert text == f"{served.url}hg/group/repo/amalgam/bundles/{name}"
        assert ask(served, text.removeprefix(served.url))[0].status == 200


@pytest.mark.parametrize(
    ("configured", "root"),
    [
        ("https://hg.example.org", "https://hg.example.org/"),
        ("https://hg.example.org:8443/x", "https://hg.example.org:8443/"),
        ("/x", None),
    ],
)
def test_configured_address_of_the_server_is_used(
    published: Bundled, configured: str, root: str | None
) -> None:
    with published.served(baseurl=configured) as served:
        text = served.get("?cmd=cinnabarclone").decode()
        assert text.startswith((root or served.url) + "amalgam/bundles/")


def test_configured_address_of_several_repositories_is_used(
    published: Bundled, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    web = "[web]\nbaseurl = https://hg.example.org/all\n"
    config.write_text(f"[paths]\nrepo = {published.root}\n{web}")
    with published.served_by("--webdir-conf", str(config)) as served:
        text = served.get("repo?cmd=cinnabarclone").decode()
        assert text.startswith("https://hg.example.org/all/repo/amalgam/bundles/")


def test_clients_without_http_are_told_of_no_address(published: Bundled) -> None:
    talk = captured(
        [str(HG), "-R", str(published.root), "serve", "--stdio"],
        input=b"hello\ncinnabarclone\nclonebundles\n",
        check=True,
    )
    capabilities, _newline, rest = talk.stdout.partition(b"\n0\n")
    assert b"getbundle" in capabilities
    assert b"clone" not in capabilities.replace(b"streamreqs", b"")
    assert b"bundle" not in rest


def stock(cwd: Path, *args: str) -> str:
    """Run hg without amalgam."""
    command = [str(HG), *args]
    done = captured(command, cwd, text=True)
    assert done.returncode == 0, (args, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def growing(published: Bundled, tmp_path: Path) -> Bundled:
    """A copy of what is published, to be changed."""
    return published.copied(tmp_path)


def test_copied_repository_has_its_own_files(
    published: Bundled, growing: Bundled
) -> None:
    kept = published.bundles()
    assert kept == growing.bundles()
    growing.hg("admin::clone-bundles-clear")
    assert not growing.bundles()
    assert published.bundles() == kept


def test_hg_starts_from_a_bundle_and_goes_on(growing: Bundled, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    with growing.served() as served:
        said = stock(tmp_path, "clone", served.url, "clone")
        assert f"applying clone bundle from {served.url}amalgam/" in said
        assert (clone / "file3").read_text() == (growing.root / "file3").read_text()
        node = growing.commit()
        stock(clone, "pull", "-q", "-u")
        served.check_offloaded(growing)
    assert stock(clone, "log", "-r", ".", "-T", "{node}") == node
    stock(clone, "verify", "-q")


def test_history_that_mercurial_sends_itself_is_noticed(
    growing: Bundled, tmp_path: Path
) -> None:
    with growing.served() as served:
        stock(tmp_path, "clone", "--config", "ui.clonebundles=no", served.url, "clone")
        with pytest.raises(AssertionError):
            served.check_offloaded(growing)
        for path in (served.log, served.sent):
            path.write_text("")
        served.check_offloaded(growing)


def test_hg_refuses_a_bundle_that_was_changed(growing: Bundled, tmp_path: Path) -> None:
    path = growing.live("gzip-v2")
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.unlink()
    path.write_bytes(content)
    with growing.served() as served:
        command = [str(HG), "clone", served.url, "clone"]
        done = captured(command, tmp_path)
    assert done.returncode
    assert b"abort: file with digest " in done.stderr


def test_git_starts_from_a_list_and_goes_on(growing: Bundled, tmp_path: Path) -> None:
    growing.configure("clone-bundles", trigger__revs="0")
    growing.commit()
    growing.refresh()
    assert growing.tokens() == [("base", 1), ("increment", 2)]
    origin = growing.dot_hg / "amalgam" / "git" / "cinnabar.git"
    clone = tmp_path / "clone"
    with growing.served() as served:
        uri = served.url + "amalgam/bundles/bundles.list"
        git(tmp_path, "clone", "-q", f"--bundle-uri={uri}", f"file://{origin}", "clone")
        asked = "".join(served.requests())
    assert all(name in asked for name in growing.named() if in_list(growing, name))
    # what came by bundles is all there was: the tips of both are known from them
    refs = git(clone, "for-each-ref", "--format=%(objectname)", "refs/bundles").split()
    assert growing.hg("log", "-r", "tip", "-T", "{gitnode}").encode() in refs
    growing.commit()
    growing.hg("git::export")
    git(clone, "pull", "-q")
    git(clone, "fsck", "--full", "--strict")
    assert (clone / "file5").exists()


def in_list(bundled: Bundled, name: str) -> bool:
    return name in bundled.read("amalgam/bundles/bundles.list")


def test_directory_behind_a_web_server(growing: Bundled, tmp_path: Path) -> None:
    # python's server stands in for a web server: it knows no ranges, and needs none
    directory = tmp_path / "www"
    directory.mkdir()
    command = ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]
    process = subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout
        port = process.stdout.readline().split(b" port ")[1].split()[0].decode()
        url = f"http://127.0.0.1:{port}"
        growing.configure("amalgam", bundles__directory=str(directory))
        growing.configure("amalgam", bundles__url=url)
        growing.commit()
        growing.configure("clone-bundles", trigger__revs="0")
        growing.hg("admin::clone-bundles-clear")
        growing.refresh()
        assert {path.name for path in directory.iterdir()} >= growing.live_names()
        assert growing.manifests_of_clients().count(f"{url}/") == 2
        assert f"uri = {url}/" in (directory / "bundles.list").read_text()
        with growing.served() as served:
            said = stock(tmp_path, "clone", served.url, "clone")
            assert f"applying clone bundle from {url}/" in said
            served.check_offloaded(growing)
            assert "amalgam/bundles" not in "".join(served.requests())
        growing.hg("admin::clone-bundles-clear")
        assert {path.name for path in directory.iterdir()} == {"bundles.list"}
    finally:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()


def test_address_that_answers_with_something_else_is_not_advertised(
    growing: Bundled, tmp_path: Path
) -> None:
    before = growing.manifests()
    with growing.served() as served:
        growing.configure("amalgam", bundles__url=served.url + "elsewhere")
        growing.configure("clone-bundles", trigger__revs="0")
        growing.commit()
        done = growing.run("admin::clone-bundles-refresh")
    assert done.code == 255
    assert done.err.startswith(b"abort: cannot read published bundle: ")
    assert growing.manifests() == before
    assert not growing.debris()


def test_all_formats_are_there(published: Bundled) -> None:
    assert {row["format"] for row in published.rows("live")} == {"gzip-v2", *FORMATS}


@pytest.mark.parametrize(
    "mistake", ["git.export = pubic", "git.exports = public", "git.refs = tip"]
)
def test_git_gets_nothing_where_it_is_not_known_what_it_may_have(
    tmp_path: Path, server: HgServer, mistake: str
) -> None:
    bundled = Bundled.init(tmp_path / "repo", server)
    bundled.refresh()
    paths = {kind: at(bundled.live(kind)) for kind in ("git-v2", "cinnabar-v1")}
    (for_hg,) = (row["name"] for row in bundled.rows("live") if ".hg" in row["name"])
    with bundled.served() as served:
        assert "cinnabarclone" in served.capabilities()
        assert served.get("?cmd=cinnabarclone")
        assert served.status("amalgam/bundles/bundles.list") == 200
    add_config(bundled.root, f"[amalgam]\n{mistake}\n")
    with bundled.served() as served:
        capabilities = served.capabilities()
        assert "cinnabarclone" not in capabilities
        assert served.get("?cmd=cinnabarclone") == b""
        assert served.status("amalgam/bundles/bundles.list") == 404
        for path in paths.values():
            assert served.status(path) == 404
        assert "clonebundles" in capabilities
        assert for_hg.encode() in served.get("?cmd=clonebundles")
        assert served.status(f"amalgam/bundles/{for_hg}") == 200
        server.hg(tmp_path, "clone", "-q", served.url, "clone")
    assert bundled.problems()
    bundled.hg("commit", "-qm", "more", "--config", "ui.allowemptycommit=yes")
