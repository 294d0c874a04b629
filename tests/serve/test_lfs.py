"""What git-lfs gets from hgweb: contents that a served changeset names, no others."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testlib import lfs, passwords
from testlib.environment import ENVIRONMENT, HG, add_config, captured
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.slowgit import SlowGit
from testlib.webserver import ON, WebServer, serving

pytestmark = pytest.mark.slow

TYPE = "application/vnd.git-lfs+json"
GIT_LFS_TYPE = f"{TYPE}; charset=utf-8"
BATCH = ".git/info/lfs/objects/batch"
LARGE = b"a large line\n" * 1000
SECRET = b"password\n" * 100
AMENDED = b"amended away\n" * 100


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    """Return a repository with contents that are served, secret, and hidden."""
    server = HgServer()
    store = lfs.init(tmp_path_factory.mktemp("lfs") / "repo", server)
    add_config(store.root, "[experimental]\nevolution = all\n")
    (store.root / "large").write_bytes(LARGE)
    (store.root / "empty").write_bytes(b"")
    (store.root / "small").write_bytes(b"small\n")
    store.hg("commit", "-qAm", "zero", "--config", f"lfs.track={TRACK}")
    store.hg("rename", "large", "dir/renamed")
    (store.root / "binary").write_bytes(bytes(range(256)) * 10)
    store.hg("commit", "-qAm", "one")
    store.hg("phase", "--public", ".")
    (store.root / "hidden").write_bytes(AMENDED)
    store.hg("commit", "-qAm", "two")
    (store.root / "hidden").write_bytes(b"instead\n" * 100)
    store.hg("commit", "--amend", "-qm", "two")
    store.hg("git::export")
    (store.root / "secret").write_bytes(SECRET)
    store.hg("commit", "-qAm", "three", "--secret")
    yield store
    server.close()


TRACK = f"size('>={lfs.LARGE_BYTES}') | path:empty"


@pytest.fixture(scope="module")
def web(template: Exported) -> Iterator[WebServer]:
    with serving(template.root, *ON) as server:
        yield server


@pytest.fixture(scope="module")
def collection(template: Exported) -> Iterator[WebServer]:
    """Serve it as one of several, and ask for a password."""
    config = template.root.parent / "web.conf"
    config.write_text(f"[paths]\nin/a = {template.root}\n")
    extension = f"--config=extensions.passwords={passwords.__file__}"
    options = (f"--web-conf={config}", extension, *ON)
    with serving(template.root.parent, *options) as server:
        yield server


def wanted(*contents: bytes, **changes: Any) -> bytes:
    """Return a request as git-lfs 3.4 sends it."""
    objects = [
        {"oid": hashlib.sha256(content).hexdigest(), "size": len(content)}
        for content in contents
    ]
    request = {
        "operation": "download",
        "transfers": ["lfs-standalone-file", "basic", "ssh"],
        "ref": {"name": "refs/heads/default"},
        "objects": objects,
        "hash_algo": "sha256",
    }
    return json.dumps(request | changes).encode()


def ask(
    web: WebServer, body: bytes, path: str = BATCH, method: str = "POST", **headers: str
) -> tuple[int, Any]:
    headers = {"Content_Type": GIT_LFS_TYPE, "Accept": GIT_LFS_TYPE} | headers
    status, answered, content = web.ask(path, method, body, **headers)
    assert answered["Content-Type"] == TYPE, content
    return status, json.loads(content)


def git_lfs(cwd: Path, *args: str) -> None:
    done = subprocess.run(
        ["git", *args],
        cwd=cwd,
        env=lfs.environment() | {"GIT_LFS_SKIP_SMUDGE": "1"},
        capture_output=True,
    )
    assert not done.returncode, done.stderr.decode() + done.stdout.decode()


def pulled(clone: Path) -> None:
    """Do as the guide says."""
    git_lfs(clone, "lfs", "install", "--local", "--skip-repo")
    listing = subprocess.run(
        ["git", "lfs", "ls-files", "--name-only"],
        cwd=clone,
        env=lfs.environment(),
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert listing.splitlines()
    lines = [f"/{name} filter=lfs -text\n" for name in listing.splitlines()]
    (clone / ".git/info").mkdir(exist_ok=True)
    (clone / ".git/info/attributes").write_text("".join(lines))
    git_lfs(clone, "lfs", "pull")


def check(template: Exported, clone: Path) -> None:
    """Compare what git-lfs wrote with what hg has."""
    names = template.hg("files", "-r", "max(not secret())").split()
    assert len(names) == 5
    for name in names:
        expected = template.server.hg(
            template.root, "cat", "-r", "max(not secret())", name
        )
        assert (clone / name).read_bytes() == expected, name
    git_lfs(clone, "diff", "--exit-code", "HEAD")


def test_what_came_and_went_while_git_was_asked_is_not_offered(
    template: Exported, tmp_path: Path
) -> None:
    store = template.copied(tmp_path)
    slow = SlowGit(tmp_path, "started", "ready", command="cat-file")
    with serving(store.root, *ON, slow.option) as web:
        found: list[tuple[int, Any]] = []
        asking = threading.Thread(target=lambda: found.append(ask(web, wanted(SECRET))))
        asking.start()
        slow.wait("started")
        store.hg("phase", "--draft", "tip")
        store.hg("git::export")
        slow.go_on("started")
        slow.wait("ready")
        store.hg("phase", "--force", "--secret", "tip")
        store.hg("git::export")
        slow.go_on("ready")
        asking.join()
    ((status, answer),) = found
    assert status == 200
    assert [list(entry) for entry in answer["objects"]] == [["oid", "size", "error"]]


@pytest.mark.needs("git-lfs")
def test_git_lfs_pulls_what_hg_has(
    web: WebServer, template: Exported, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git_lfs(tmp_path, "clone", "-q", web.url, str(clone))
    git_lfs(clone, "config", "lfs.url", f"{web.url}.git/info/lfs")
    pulled(clone)
    check(template, clone)


@pytest.mark.needs("git-lfs")
@pytest.mark.parametrize("suffix", ["", "/"])
def test_git_lfs_finds_a_repository_of_several_and_sends_the_password(
    collection: WebServer, template: Exported, tmp_path: Path, suffix: str
) -> None:
    user = f"{passwords.USER}:{passwords.PASSWORD.replace(' ', '%20')}"
    url = collection.url.replace("//", f"//{user}@") + "in/a" + suffix
    clone = tmp_path / "clone"
    git_lfs(tmp_path, "clone", "-q", url, str(clone))
    pulled(clone)
    check(template, clone)


@pytest.mark.parametrize("path", ["in/a/.git", "in/a.git"])
def test_route_needs_the_permission_to_pull(collection: WebServer, path: str) -> None:
    path = f"{path}/info/lfs/objects/batch"
    status, found = ask(collection, wanted(LARGE), path)
    assert (status, found) == (401, {"message": "who"})
    allowed = passwords.EXPECTED.decode()
    status, found = ask(collection, wanted(LARGE), path, Authorization=allowed)
    assert status == 200
    link = found["objects"][0]["actions"]["download"]
    assert link["header"] == {"Authorization": allowed}
    there = link["href"].partition("x/")[2]
    assert there.startswith("in/a/.hg/lfs/objects/")
    status, _headers, content = collection.ask(there, Authorization=allowed)
    assert (status, content) == (200, LARGE)
    assert collection.ask(there)[0] == 401


def test_what_is_not_served_is_answered_as_what_does_not_exist(web: WebServer) -> None:
    contents = (LARGE, SECRET, AMENDED, b"nowhere")
    status, found = ask(web, wanted(*contents))
    assert status == 200
    assert found["transfer"] == "basic"
    first, *others = found["objects"]
    assert first["size"] == len(LARGE)
    assert "error" not in first
    nothing = {"code": 404, "message": "the content does not exist here"}
    for content, answered in zip(contents[1:], others, strict=True):
        oid = hashlib.sha256(content).hexdigest()
        assert answered == {"oid": oid, "size": len(content), "error": nothing}


def test_content_of_another_size_is_not_there(web: WebServer) -> None:
    other = [{"oid": hashlib.sha256(LARGE).hexdigest(), "size": len(LARGE) + 1}]
    _status, found = ask(web, wanted(objects=other))
    assert found["objects"][0]["error"]["code"] == 404


def test_what_becomes_secret_is_gone_at_once(
    tmp_path: Path, own_server: HgServer
) -> None:
    store = lfs.init(tmp_path / "repo", own_server)
    (store.root / "large").write_bytes(LARGE)
    store.hg("commit", "-qAm", "zero")
    with serving(store.root, *ON) as server:
        for phase, is_there in (("draft", True), ("secret", False), ("draft", True)):
            store.hg("phase", f"--{phase}", "--force", ".")
            status, found = ask(server, wanted(LARGE))
            assert status == 200
            assert ("actions" in found["objects"][0]) == is_there, phase


def test_content_that_the_server_lacks_is_not_there(
    tmp_path: Path, own_server: HgServer
) -> None:
    store = lfs.init(tmp_path / "repo", own_server)
    (store.root / "large").write_bytes(LARGE)
    store.hg("commit", "-qAm", "zero")
    oid = hashlib.sha256(LARGE).hexdigest()
    (store.root / ".hg/store/lfs/objects" / oid[:2] / oid[2:]).unlink()
    (tmp_path / "usercache" / oid[:2] / oid[2:]).unlink()
    with serving(store.root, *ON) as server:
        _status, found = ask(server, wanted(LARGE))
    assert found["objects"][0]["error"]["code"] == 404


OBJECT = {"oid": "0" * 64, "size": 1}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", 400),
        (b"null", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b"\xff", 400),
        (b"[" * 100_000, 400),
        (b'{"operation": ' + b"9" * 10_000, 400),
        (wanted(LARGE)[:-1], 400),
        (wanted(objects=None), 400),
        (wanted(objects={}), 200),
        (wanted(objects=[None]), 400),
        (wanted(objects=[OBJECT | {"oid": "0" * 63}]), 400),
        (wanted(objects=[OBJECT | {"oid": "../" * 22}]), 400),
        (wanted(objects=[OBJECT | {"oid": "0" * 64 + "\n"}]), 400),
        (wanted(objects=[OBJECT | {"oid": 7}]), 400),
        (wanted(objects=[OBJECT | {"size": -1}]), 400),
        (wanted(objects=[OBJECT | {"size": True}]), 400),
        (wanted(objects=[OBJECT | {"size": 1.0}]), 400),
        (wanted(objects=[OBJECT | {"size": 1 << 63}]), 400),
        (wanted(objects=[OBJECT | {"size": "1"}]), 400),
        (wanted(objects=[OBJECT] * 1001), 413),
        (wanted(operation="verify"), 400),
        (wanted(operation=["upload"]), 400),
        (wanted(transfers=["tus"]), 400),
        (wanted(transfers=7), 400),
        (wanted(hash_algo="sha512"), 409),
        (wanted() + b" " * (1 << 18), 413),
    ],
)
def test_malformed_requests_are_refused(
    web: WebServer, body: bytes, expected: int
) -> None:
    status, found = ask(web, body)
    assert status == expected
    assert (status == 200) or set(found) == {"message"}


def test_compressed_requests_are_bounded(web: WebServer) -> None:
    assert ask(web, gzip.compress(wanted(LARGE)), Content_Encoding="gzip")[0] == 200
    bomb = gzip.compress(b" " * (1 << 24))
    assert ask(web, bomb, Content_Encoding="gzip")[0] == 413


@pytest.mark.parametrize(
    ("method", "kind", "expected"),
    [
        ("GET", GIT_LFS_TYPE, 405),
        ("PUT", GIT_LFS_TYPE, 405),
        ("POST", "application/json", 415),
        ("POST", f"{TYPE}s", 415),
        ("POST", "", 415),
    ],
)
def test_other_requests_are_refused(
    web: WebServer, method: str, kind: str, expected: int
) -> None:
    assert ask(web, wanted(LARGE), method=method, Content_Type=kind)[0] == expected


def test_uploads_are_refused_with_a_sentence(web: WebServer) -> None:
    status, found = ask(web, wanted(b"new", operation="upload"))
    assert status == 403
    sentence = "this repository is read-only for git-lfs; push with Mercurial instead"
    assert found == {"message": sentence}


def test_refused_unless_git_is_served(template: Exported) -> None:
    with serving(template.root, ON[0]) as server:
        status, found = ask(server, wanted(LARGE))
        assert status == 403
        assert "amalgam.git.serve" in found["message"]
    off = "--config=experimental.lfs.serve=no"
    with serving(template.root, *ON, off) as server:
        assert ask(server, wanted(LARGE))[0] == 404


def test_request_of_hg_is_left_to_hg(web: WebServer) -> None:
    status, found = ask(web, wanted(LARGE), Content_Type=TYPE, Accept=TYPE)
    assert status == 200
    assert "expires_at" in found["objects"][0]["actions"]["download"]


def test_hg_gets_its_files_as_ever(template: Exported, tmp_path: Path) -> None:
    command = [str(HG), "serve", "-p", "0", "-a", "127.0.0.1", *ON]
    # it complains of the connections that hg leaves, which ``serving`` would not allow
    server = subprocess.Popen(
        command,
        cwd=template.root,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert server.stdout
    with server:
        try:
            url = server.stdout.readline().decode().split()[2]
            config = [
                "--config=extensions.lfs=",
                f"--config=lfs.usercache={tmp_path}/c",
            ]
            command = [str(HG), *config, "clone", "-q", url, str(tmp_path / "clone")]
            done = captured(command)
            assert not done.returncode, done.stderr
        finally:
            server.terminate()
    assert (tmp_path / "clone/dir/renamed").read_bytes() == LARGE
