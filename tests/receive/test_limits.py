"""Who may push with git, how much, and what is left of pushes that end early."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import captured, git
from testlib.pushing import NOTHING, ON, PushServer, pushable, request
from testlib.webserver import serving, until

from hgext3rd.amalgam.serve import pktlines

pytestmark = pytest.mark.slow

ADVERTISEMENT = "info/refs?service=git-receive-pack"
KIND = "application/x-git-receive-pack-request"
DENIED = {
    "nobody": ("--config=web.allow-push=", 401, b"push not authorized"),
    "deny": ("--config=web.deny_push=*", 401, b"push not authorized"),
    "reading": ("--config=web.deny_read=*", 401, b"read not authorized"),
    "pulling": ("--config=web.allow-pull=no", 401, b"pull not authorized"),
    "tls": ("--config=web.push_ssl=yes", 403, b"ssl required"),
    "off": ("--config=amalgam.git.push=no", 403, b"read-only for git; push with"),
    "mistake": ("--config=amalgam.git.push=on", 403, b"read-only for git; push with"),
    "git": ("--config=amalgam.git.serve=no", 403, b"does not serve git"),
    "locked": ("--config=amalgam.git.push=locked", 403, b"takes no pushes at the"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("option", "status", "sentence"), DENIED.values(), ids=DENIED)
def test_push_needs_what_an_hg_push_needs(
    tmp_path: Path, option: str, status: int, sentence: bytes
) -> None:
    with pushable(tmp_path, option) as server:
        found, _headers, body = server.web.ask(ADVERTISEMENT)
        assert (found, sentence in body) == (status, True), body
        posted = server.web.ask("git-receive-pack", "POST", b"0000", Content_Type=KIND)
        assert (posted[0], sentence in posted[2]) == (status, True), posted
        for method, path in (("POST", ADVERTISEMENT), ("GET", "git-receive-pack")):
            assert server.web.ask(path, method)[0] in (401, 403, 405)
        assert not server.leftovers()


def test_locked_repository_says_why(tmp_path: Path) -> None:
    message = "read-only until Monday"
    hgrc = f"[amalgam]\ngit.push = locked\ngit.push-message = {message}\n"
    on = [it for it in ON if "git.push" not in it]
    assert len(on) < len(ON)
    with pushable(tmp_path, "--config=amalgam.git.push=locked", hgrc=hgrc) as server:
        clone = server.clone()
        clone.commit("new")
        done = clone.push("default")
        assert f"remote: {message}".encode() in done.stderr
        assert server.log()[-1] == "default||public|number 1"


def test_push_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pushable(tmp_path, "--config=amalgam.serve.max-push=100 KB") as server:
        clone = server.clone()
        clone.commit("large", {"large": os.urandom(150_000).hex()})
        said = clone.refused("default")
        assert "remote: the request is longer than 100 KB; push older" in said
        clone.git("reset", "-q", "--hard", "HEAD~1")
        clone.commit("small")
        clone.pushed("default")
        server.check()


def test_push_of_too_much_says_what_to_do(tmp_path: Path) -> None:
    hgrc = (
        "[amalgam]\nserve.max-push-commits = 3\nserve.max-push-objects = 20\n"
        "serve.max-push-file = 10 KB\n"
    )
    with pushable(tmp_path, hgrc=hgrc) as server:
        clone = server.clone()
        for number in range(4):
            clone.commit(f"small {number}")
        said = clone.refused("default", "default:refs/heads/work")
        assert "the push has more than 3 new commits; push older ones first: " in said
        assert said.count("remote rejected") == 2
        clone.pushed("HEAD~1:default")
        clone.pushed("default")
        clone.commit("many", {f"{number}": f"{number}\n" for number in range(20)})
        said = clone.refused("default")
        assert "the push has more than 20 objects; push older commits first: " in said
        clone.git("reset", "-q", "--hard", "HEAD~1")
        clone.commit("most", {"dir/file": "x" * 10240, "other": "y" * 10240})
        clone.pushed("default")
        before = server.log()
        bad = clone.commit("large", {"dir/file": "x" * 10241})
        clone.commit("above", {"other": "small"})
        said = clone.refused("default")
        assert f"remote: commit {bad[:12]}: a file is larger than 10.0 KB: dir/" in said
        assert "; take the file out of that commit, or ask the operator" in said
        assert "2 commits cannot be pushed; the first is" in said
        for side in "ab":
            clone.git("checkout", "-q", "-B", side, "origin/default")
            clone.commit(f"on {side}", {"dir/file": side})
        clone.run("merge", "-q", "a")
        (clone.root / "dir" / "file").write_text("merged" * 2000)
        clone.git("commit", "-qam", "merge")
        assert "a file is larger than 10.0 KB" in clone.refused("HEAD:refs/heads/m")
        assert server.log() == before
        server.check()


def test_push_of_too_many_refs_says_what_to_do(server: PushServer) -> None:
    clone = server.clone()
    oid = clone.commit("new")
    # git's client takes minutes for 20,001 short ones, over HTTP
    long = "/".join(["x" * 240] * 64)
    lines = [f"{oid} refs/tags/{long}/{number}\n" for number in range(300)]
    (clone.root / ".git/packed-refs").write_text("".join(lines))
    said = clone.refused("--tags")
    assert "remote: the push has more than 20000 refs or options" in said
    assert said.count("[remote rejected]") == len(lines)
    assert len(server.log()) == 2
    server.check()


def test_no_more_bodies_are_received_than_there_are_slots(tmp_path: Path) -> None:
    settings = ("max-fetches=1", "queue-timeout=1")
    options = [f"--config=amalgam.serve.{setting}" for setting in settings]
    with pushable(tmp_path, *options) as server:
        head = f"POST /git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: {KIND}\r\n"
        head += "Content-Length: 1000\r\n\r\n0000"
        with socket.create_connection(("127.0.0.1", server.web.port)) as connection:
            connection.sendall(head.encode())
            until(server.leftovers)
            answer = server.web.ask(
                "git-receive-pack", "POST", b"0000", Content_Type=KIND
            )
            assert answer[0] == 503, answer
            assert len(server.leftovers()) == 1
        until(lambda: not server.leftovers())
        clone = server.clone()
        clone.commit("new")
        clone.pushed("default")
        server.check()


def test_damaged_objects_are_refused(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        clone = server.clone()
        before = clone.head()
        new = clone.commit("new")
        body = bytearray(request(clone, before, new, "refs/heads/default"))
        body[-30] ^= 1
        status, _headers, answer = server.web.ask(
            "git-receive-pack", "POST", bytes(body), Content_Type=KIND
        )
        assert status == 200
        assert b"unpack index-pack abnormal exit" in answer
        # a pack that lacks what its commit needs
        missing = request(clone, new, new, "refs/heads/default")
        body = bytearray(missing.replace(new.encode(), before.encode(), 1))
        answer = server.web.ask(
            "git-receive-pack", "POST", bytes(body), Content_Type=KIND
        )[2]
        assert b"ng refs/heads/default" in answer
        assert b"unpack ok" in answer
        assert server.log()[-1] == "default||public|number 1"
        server.check()


@pytest.mark.parametrize("ref", ["refs/heads/default", "refs/heads/new"])
def test_pack_that_lacks_an_object_is_refused(tmp_path: Path, ref: str) -> None:
    """git sees no refs of the store, and still finds each object that is missing."""
    with pushable(tmp_path) as server:
        clone = server.clone()
        before = clone.head()
        between = clone.commit("between", {"one": "1", "dir/two": "2"})
        new = clone.commit("new", {"three": "3"})
        listed = clone.git("rev-list", "--objects", f"{before}..{new}").splitlines()
        oids = [line.split()[0] for line in listed]
        assert {between, new} < {*oids}
        old = before if ref.endswith("default") else NOTHING
        head = request(clone, old, NOTHING, ref)
        head = head.replace(f" {NOTHING} {ref}".encode(), f" {new} {ref}".encode())
        for missing in oids:
            there = "".join(f"{oid}\n" for oid in oids if oid != missing)
            command = ["git", "pack-objects", "--stdout", "-q"]
            done = captured(command, clone.root, input=there.encode(), check=True)
            answer = server.web.ask(
                "git-receive-pack", "POST", head + done.stdout, Content_Type=KIND
            )[2]
            assert f"ng {ref}".encode() in answer, (missing, answer)
        assert server.log()[-1] == "default||public|number 1"
        clone.pushed(f"{new}:{ref}")
        server.check()


def test_push_that_makes_git_crash_is_malformed(tmp_path: Path) -> None:
    """As a tree that stands for a commit does; found by torture/requests.py."""
    with pushable(tmp_path) as server:
        clone = server.clone()
        before = clone.head()
        tree = clone.git("rev-parse", "HEAD^{tree}")
        body = request(clone, before, clone.commit("new"), "refs/heads/default")
        body = pktlines.line(f"shallow {tree}".encode()) + body
        asked = server.web.ask("git-receive-pack", "POST", body, Content_Type=KIND)
        assert asked[0] == 400
        assert not server.leftovers()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    with pushable(tmp_path) as served:
        yield served


def test_client_that_leaves_has_pushed_nothing(server: PushServer) -> None:
    clone = server.clone()
    before = clone.head()
    new = clone.commit("new", {"noise": os.urandom(50_000).hex()})
    body = request(clone, before, new, "refs/heads/default")
    head = f"POST /git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: {KIND}\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    for count in (0, 4, 100, len(body) // 2, len(body) - 1):
        with socket.create_connection(("127.0.0.1", server.web.port)) as connection:
            connection.sendall(head.encode() + body[:count])
    until(lambda: not server.leftovers())
    assert server.log()[-1] == "default||public|number 1"
    clone.pushed("default")
    server.check()


def test_nothing_is_left_of_a_server_that_is_killed(tmp_path: Path) -> None:
    started = tmp_path / "started"
    held = f"while test -e {tmp_path}/wait; do sleep 0.05; done"
    wait = f"touch {started}; {held}; rm {started}"
    hgrc = f"[hooks]\npretxnclose = test ! -e {tmp_path}/wait || {{ {wait}; }}\n"
    with pushable(tmp_path, hgrc=hgrc) as server:
        clone = server.clone()
        new = clone.commit("new")
        (tmp_path / "wait").touch()
        pid = server.web.process.pid
        child = os.fork()
        if not child:
            try:
                clone.push("default")
            finally:
                os._exit(0)
        until(started.exists)
        children = server.web.children()
        assert any("receive-pack" in it for it in children), children
        os.kill(pid, signal.SIGKILL)
        os.waitpid(child, 0)
        server.web.process.wait()
        (tmp_path / "wait").unlink()
        until(lambda: not started.exists())
        assert server.leftovers()
    server.hg("recover", "-q")
    assert server.log()[-1] == "default||public|number 1"
    listing = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    assert new not in git(server.store, *listing).decode()
    # what pushes next removes what is left
    with serving(server.root, *ON) as web:
        clone.git("remote", "set-url", "origin", web.url)
        clone.pushed("default")
        assert not server.leftovers()
        assert server.log()[-1] == "default||public|new"


def test_what_is_not_offered_is_said_by_git(server: PushServer) -> None:
    clone = server.clone()
    clone.commit("new")
    done = clone.push("--signed", "default")
    assert b"the receiving end does not support --signed push" in done.stderr
    assert server.log()[-1] == "default||public|number 1"
    clone.pushed("--signed=if-asked", "default")
    assert server.log()[-1] == "default||public|new"


@pytest.mark.torture
def test_hook_that_prints_much_takes_no_memory(tmp_path: Path) -> None:
    """Nobody is told more than some kilobytes of it."""
    words = "yes cafe | head -c 20000000"
    with pushable(tmp_path, hgrc=f"[hooks]\npretxnclose = {words}\n") as server:
        clone = server.clone()
        clone.commit("new")
        said = clone.pushed("HEAD:refs/heads/work")
        status = Path(f"/proc/{server.web.process.pid}/status").read_text()
        (peak,) = re.findall(r"VmHWM:\s*([0-9]+) kB", status)
        assert int(peak) < 150_000  # 60,000 when it has done nothing
        assert 1000 < said.count("cafe") < 10_000
        assert "MB more were printed)" in said
        # what comes after it is told all the same
        assert "'refs/heads/default' has changed, too" in said
        server.check()


@pytest.mark.torture
def test_each_ref_of_a_push_costs_the_same(tmp_path: Path) -> None:
    """However many bookmarks there are."""
    with pushable(tmp_path) as server:
        node = server.hg("log", "-r", "0", "-T", "{node}")
        lines = "".join(f"{node} there{number}\n" for number in range(5000))
        (server.root / ".hg" / "bookmarks").write_text(lines)
        clone = server.clone()
        clone.commit("new")
        before = core_seconds(server)
        clone.pushed(*(f"HEAD:refs/heads/new{number}" for number in range(200)))
        assert core_seconds(server) - before < 2.5  # 0.5; it was 4.6
        server.check()


def core_seconds(server: PushServer) -> float:
    """Return the processor time of the server, without its children."""
    stat = Path(f"/proc/{server.web.process.pid}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
