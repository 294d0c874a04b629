"""The git host of these tests: what plain git is told by each of its behaviours."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from pathlib import Path

import pytest
from testlib.environment import captured, git
from testlib.githost import Behaviour, GitHost, HostedRepository

DEFAULT, OTHER = "refs/heads/default", "refs/heads/other"


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """A repository with three commits on ``default``, and ``other`` at the last."""
    client = tmp_path / "client"
    git(tmp_path, "init", "-q", "-b", "default", str(client))
    for number in range(3):
        git(client, "commit", "-q", "--allow-empty", "-m", f"number {number}")
    git(client, "branch", "other")
    return client


def push(
    client: Path, remote: HostedRepository, *refs: str, user: str = ""
) -> subprocess.CompletedProcess[bytes]:
    url = remote.url.replace("://", f"://{user}@") if user else remote.url
    return captured(["git", "push", "--porcelain", url, *(refs or ["--all"])], client)


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    return (done.stdout + done.stderr).decode()


def test_a_push_is_taken_and_its_commands_are_kept(host: GitHost, client: Path) -> None:
    remote = host.add("mirror", Behaviour(piece_seconds=0.001))
    assert push(client, remote).returncode == 0
    tip = git(client, "rev-parse", "default").decode().strip()
    assert remote.refs() == {DEFAULT: tip, OTHER: tip}
    assert remote.pushes() == [{DEFAULT: ("0" * 40, tip), OTHER: ("0" * 40, tip)}]
    assert remote.rewind(OTHER) == git(client, "rev-parse", "default^").decode().strip()
    assert remote.refs()[DEFAULT] == tip != remote.edit(DEFAULT)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (Behaviour(password="pw"), "could not read Username"),
        (Behaviour(status=403), "The requested URL returned error: 403"),
        (Behaviour(status=503), "The requested URL returned error: 503"),
        (Behaviour(declines="quota is used up"), "remote: quota is used up"),
        (Behaviour(declines="no"), "(pre-receive hook declined)"),
        (Behaviour(most_pack_bytes=20), "pack exceeds maximum allowed size"),
        (Behaviour(file_bytes=512), "(unpacker error)"),
        (Behaviour(cut_after_bytes=200), "the remote end hung up unexpectedly"),
        (Behaviour(hidden=("refs/heads",)), "(deny updating a hidden ref)"),
    ],
)
def test_a_push_is_refused_whole(
    host: GitHost, client: Path, behaviour: Behaviour, message: str
) -> None:
    (client / "large").write_bytes(random.Random(1).randbytes(1 << 14))
    git(client, "add", "large")
    git(client, "commit", "-qm", "large")
    remote = host.add("mirror", behaviour)
    done = push(client, remote)
    assert done.returncode
    assert message in said(done)
    assert not remote.refs()
    remote.behaviour = Behaviour()
    assert push(client, remote).returncode == 0


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (Behaviour(protected=(DEFAULT,)), "(hook declined)"),
        (Behaviour(hidden=(DEFAULT,)), "(deny updating a hidden ref)"),
        (Behaviour(most_commits=2), "more than 2 commits"),
    ],
)
def test_a_push_is_refused_in_part(
    host: GitHost, client: Path, behaviour: Behaviour, message: str
) -> None:
    git(client, "branch", "-f", "other", "default^")
    remote = host.add("mirror", behaviour)
    done = push(client, remote)
    assert done.returncode == 1
    assert message in said(done)
    assert list(remote.refs(OTHER)) == [OTHER]


def test_passwords_are_checked(host: GitHost, client: Path) -> None:
    remote = host.add("mirror", Behaviour(password="pw"))
    assert "Authentication failed" in said(push(client, remote, user="mirror:no"))
    assert push(client, remote, user="mirror:pw").returncode == 0


def test_force_and_other_refs_are_denied(host: GitHost, client: Path) -> None:
    remote = host.add("mirror")
    assert push(client, remote).returncode == 0
    remote.behaviour = Behaviour(is_force_denied=True, only_branches_and_tags=True)
    forced = push(client, remote, "+default^:default")
    assert "(non-fast-forward)" in said(forced)
    other = push(client, remote, "default:refs/meta/config", "default:new")
    assert "only branches and tags may be pushed, found refs/meta/config" in said(other)
    assert not remote.refs("refs/heads/new")


def test_an_answer_is_lost_after_the_work(host: GitHost, client: Path) -> None:
    remote = host.add("mirror", Behaviour(loses_answer=True))
    assert push(client, remote).returncode
    assert list(remote.refs()) == [DEFAULT, OTHER]


def test_a_push_with_a_large_body_is_chunked(host: GitHost, client: Path) -> None:
    (client / "large").write_bytes(random.Random(1).randbytes(2 << 20))
    git(client, "add", "large")
    git(client, "commit", "-qm", "large")
    remote = host.add("mirror")
    assert push(client, remote).returncode == 0
    assert sum("POST" in request for request in host.requests) == 2
    remote.behaviour = Behaviour(cut_after_bytes=1 << 19)
    remote.git("update-ref", "-d", DEFAULT)
    remote.git("update-ref", "-d", OTHER)
    remote.git("gc", "-q", "--prune=now")
    assert push(client, remote).returncode
    assert not remote.refs()


def test_a_killed_host_ends_its_connections(host: GitHost, client: Path) -> None:
    remote = host.add("mirror", Behaviour(stalls=True))
    killer = threading.Timer(0.5, host.kill)
    killer.start()
    start = time.monotonic()
    assert push(client, remote).returncode
    assert time.monotonic() - start < 30
    assert push(client, remote).returncode
    killer.join()
    host.start()
    remote.behaviour = Behaviour()
    assert push(client, remote).returncode == 0
