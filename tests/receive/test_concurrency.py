"""Pushes of git at the same time as others, strips, exports, and a server's end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG
from testlib.pushing import ON, Clone, PushServer, pushable
from testlib.webserver import serving, until

pytestmark = pytest.mark.slow

Running = subprocess.Popen[bytes]


def started(clone: Clone, *args: str) -> Running:
    """Start a push."""
    command = ["git", "push", "origin", *args]
    return subprocess.Popen(
        command, cwd=clone.root, env=ENVIRONMENT, stderr=subprocess.PIPE
    )


def is_there(server: PushServer, oid: str) -> bool:
    """Tell whether a commit can be fetched."""
    command = ["git", "cat-file", "-e", oid]
    done = subprocess.run(
        command, cwd=server.store, env=ENVIRONMENT, stderr=subprocess.DEVNULL
    )
    return not done.returncode


def test_of_pushes_to_one_branch_one_wins(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        clones = [server.clone(f"clone{number}") for number in range(4)]
        oids = [clone.commit(f"by {at}") for at, clone in enumerate(clones)]
        pushes = [started(clone, "default") for clone in clones]
        said = [push.communicate()[1] for push in pushes]
        won = [not push.returncode for push in pushes]
        assert won.count(True) == 1, said
        assert [is_there(server, oid) for oid in oids] == won
        for is_winner, text in zip(won, said, strict=True):
            assert is_winner or b"(fetch first)" in text, text
        assert len(server.log()) == 3
        server.check()


@pytest.mark.torture
def test_pushes_to_several_branches_all_win(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        clones = [server.clone(f"clone{number}") for number in range(4)]
        pushes = []
        for at, clone in enumerate(clones):
            clone.commit(f"by {at}")
            pushes.append(started(clone, f"HEAD:refs/heads/work{at}"))
        for push in pushes:
            text = push.communicate()[1]
            assert not push.returncode, text
        assert len(server.log()) == 6
        server.check()


@pytest.mark.torture
def test_strips_and_exports_meanwhile_change_no_answer(tmp_path: Path) -> None:
    """Whatever else happens, what git says of a push is so."""
    with pushable(tmp_path) as server:
        clone = server.clone()
        base = clone.head()
        (server.root / "other").write_text("other\n")
        strip = "hg strip -q -r 'last(desc(other))' --no-backup -f"
        script = (
            "while :; do hg update -q 1; echo $$ >> other; hg commit -qAm other; "
            f"hg git::export -q; {strip}; hg git::export -q; done"
        ).replace(
            "hg ", f"'{HG}' --config extensions.amalgam= --config extensions.strip= "
        )
        others = subprocess.Popen(
            ["sh", "-c", script],
            cwd=server.root,
            env=ENVIRONMENT,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        pushed: list[str] = []
        try:
            for number in range(8):
                clone.git("checkout", "-q", "--detach", base)
                oid = clone.commit(f"work {number}")
                done = clone.push(f"HEAD:refs/heads/work{number}")
                listed = server.hg("bookmarks", "-T", "{bookmark} ")
                assert (f"work{number}" in listed) == (not done.returncode), done
                pushed += [oid] * (not done.returncode)
        finally:
            os.killpg(others.pid, signal.SIGKILL)
            others.wait()
        assert pushed
        if (server.root / ".hg" / "store" / "journal").exists():
            server.hg("recover", "-q")
        server.hg("git::export")
        assert server.hg("bookmarks", "-T", "{bookmark}\n").count("work") == len(pushed)
        assert all(map(server.node, pushed))


@pytest.mark.torture
def test_killed_server_has_all_or_nothing(tmp_path: Path) -> None:
    """And the client knows, or can find out by a fetch."""
    chance = random.Random(7)
    with pushable(tmp_path) as server:
        clone = server.clone()
    for number in range(8):
        oid = clone.commit(f"new {number}", {f"dir/{number}": f"{number}\n" * 500})
        with serving(server.root, *ON) as web:
            clone.git("remote", "set-url", "origin", web.url)
            push = started(clone, "default", f"default:refs/heads/b{number}")
            time.sleep(chance.uniform(0.05, 1.2))
            web.process.send_signal(signal.SIGKILL)
            web.process.wait()
            push.communicate()
        until(lambda: not web.children())
        if (server.root / ".hg" / "store" / "journal").exists():
            server.hg("recover", "-q")
        tips = [
            line.rpartition("|")[2]
            for line in server.log()
            if line.startswith(f"default|b{number}|")
        ]
        has_all = tips == [f"new {number}"]
        assert has_all or f"new {number}" not in "".join(server.log())
        if not push.returncode:
            assert has_all
        server.hg("git::export")
        assert is_there(server, oid) == has_all
        if not has_all:
            clone.git("reset", "-q", "--hard", "HEAD~1")
    with serving(server.root, *ON) as web:
        clone.git("remote", "set-url", "origin", web.url)
        clone.commit("last")
        clone.pushed("default")
        assert not server.leftovers()
    server.hg("verify", "-q")
    server.hg("git::verify", "--full")
