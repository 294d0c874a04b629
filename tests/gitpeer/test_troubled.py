"""Clones, pulls and pushes while the host is slow, full, gone, rewound, or lies.

Whatever became of the first run, the next one leaves what a clone from scratch has.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, git
from testlib.gitclone import Clone
from testlib.githost import Behaviour, GitHost, HostedRepository, git_host

pytestmark = pytest.mark.slow

_MAIN, _SIDE = "refs/heads/main", "refs/heads/side"
_FORM = "{node} {phase} {bookmarks} {gitbranches} {gittags} {gitnode}\n"


@dataclass
class _Scene:
    """A host, a project there, and a clone of its past with a commit of its own."""

    root: Path
    host: GitHost
    project: HostedRepository
    clone: Clone

    def run(self, command: str) -> tuple[int, str]:
        """Run ``hg clone`` to a new place, or another command in the clone."""
        if command != "clone":
            return self.clone.run(command, "-q")
        return self.again.run("clone", "-q", self._url, str(self.again.root))

    @property
    def again(self) -> Clone:
        """The place of ``hg clone``."""
        return Clone(self.root / "again")

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """Start a command in the clone, which may never end."""
        given = [str(HG), "--config", "extensions.amalgam=", command, "-q"]
        return subprocess.Popen(
            given,
            cwd=self.clone.root,
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def _url(self) -> str:
        return f"git+{self.project.url}"

    def end_well(self, command: str) -> None:
        """Run the command again, publish, and compare with a clone from scratch.

        A clone that is there is not made again.
        """
        self.project.behaviour = Behaviour()
        clones = [self.clone]
        if command == "clone":
            clones.append(self.again)
            self.clone.hg("pull", "-q")
        if command != "clone" or not self.again.root.exists():
            code, output = self.run(command)
            assert code == 0 or (command == "push" and code == 1), output
        code, output = self.clone.run("push", "-q")
        assert code in (0, 1), output  # 1: nothing is left to push
        assert "mine" in self.project.git("log", "--format=%s", _SIDE)
        fresh = Clone(self.root / "fresh")
        fresh.hg("clone", "-q", "-U", self._url, str(fresh.root))
        for clone in clones:
            clone.hg("pull", "-q")
            assert self._state(clone) == self._state(fresh)
            assert "no changes found" in clone.hg("pull")

    def _state(self, clone: Clone) -> set[str]:
        """Return changesets that branches reach, with their names."""
        assert "warning" not in clone.hg("verify", "-q")
        git(clone.root / ".hg/amalgam/fetched/objects.git", "fsck", "--full")
        left = {it.name for it in (clone.root / ".hg").rglob("*")}
        assert not left & {"journal", "lock", "wlock"}
        return {*clone.hg("log", "-r", "::bookmark()", "-T", _FORM).splitlines()}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[_Scene]:
    with git_host(tmp_path / "host") as host:
        project = host.add("project.git")
        project.git("symbolic-ref", "HEAD", _MAIN)
        for number in range(5):
            project.edit(_MAIN, f"main {number}")
        project.git("update-ref", _SIDE, f"{_MAIN}~1")
        clone = Clone(tmp_path / "clone")
        url = f"git+{project.url}"
        clone.hg("clone", "-q", "-u", "side", url, str(clone.root))
        clone.hg("bookmark", "side")
        (clone.root / "mine").write_bytes(os.urandom(9000))
        clone.hg("commit", "-A", "-q", "-m", "mine")
        yield _Scene(tmp_path, host, project, clone)


def _news(scene: _Scene, command: str) -> None:
    """Let the host have something to pull, if the command is no push."""
    if command != "push":
        scene.project.edit(_MAIN, "news")
        scene.project.git("tag", "-m", "annotated", "v1", _MAIN)


@pytest.mark.parametrize("command", ["clone", "pull", "push"])
def test_a_slow_host_is_waited_for(scene: _Scene, command: str) -> None:
    _news(scene, command)
    scene.project.behaviour = Behaviour(piece_seconds=0.4)
    code, output = scene.run(command)
    assert code == 0, output
    scene.end_well(command)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", ["pull", "push", "clone"])
@pytest.mark.parametrize("how", ["refuses", "is busy", "is gone", "goes meanwhile"])
def test_a_host_may_come_back(scene: _Scene, command: str, how: str) -> None:
    _news(scene, command)
    timer = threading.Timer(1.0, scene.host.kill)
    if how in ("refuses", "is busy"):
        scene.project.behaviour = Behaviour(status=403 if how == "refuses" else 503)
    elif how == "is gone":
        scene.host.kill()
    else:
        scene.project.behaviour = Behaviour(piece_seconds=0.5)
        timer.start()
    code, output = scene.run(command)
    timer.cancel()
    if how != "goes meanwhile":
        assert (code, "abort: git cannot" in output) == (255, True), output
    assert "Traceback" not in output
    if how in ("is gone", "goes meanwhile"):
        scene.host.kill()
        scene.host.start()
    if command == "clone":
        assert (code == 0) == scene.again.root.exists()
    scene.end_well(command)


def test_a_host_may_have_lost_an_object(scene: _Scene) -> None:
    scene.clone.hg("push", "-q")
    lost = scene.project.git("rev-parse", f"{_SIDE}:mine")
    path = scene.project.path / "objects" / lost[:2] / lost[2:]
    content = path.read_bytes()
    path.unlink()
    code, output = scene.run("clone")
    assert (code, scene.again.root.exists()) == (255, False)
    assert "abort: git cannot read" in output
    assert "possible repository corruption on the remote side" in output
    assert "\\x00" not in output
    path.write_bytes(content)
    scene.end_well("clone")


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(file_bytes=512),
        Behaviour(cut_after_bytes=900),
        Behaviour(loses_answer=True),
        Behaviour(declines="the quota is used up"),
        Behaviour(most_pack_bytes=100),
    ],
    ids=["full", "cut", "answer lost", "declined", "too large"],
)
def test_a_push_that_failed_is_done_by_the_next_one(
    scene: _Scene, behaviour: Behaviour
) -> None:
    before = scene.project.refs()
    scene.project.behaviour = behaviour
    code, output = scene.run("push")
    assert code in (2, 255), output
    assert "Traceback" not in output
    assert (scene.project.refs() == before) != behaviour.loses_answer
    scene.end_well("push")


def test_a_push_that_is_never_answered_can_be_killed(scene: _Scene) -> None:
    scene.project.behaviour = Behaviour(stalls=True)
    with scene.start("push") as process:
        deadline = time.monotonic() + 60
        while not any("git-receive-pack" in it for it in scene.host.requests):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
    scene.host.kill()
    scene.host.start()
    scene.end_well("push")


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("command", ["pull", "push"])
def test_a_rewound_host_is_followed(scene: _Scene, command: str, when: str) -> None:
    """Also if it happens between the listing of refs and the fetch or push."""
    project, done = scene.project, list[str]()
    _news(scene, command)
    ref = _SIDE if command == "push" else _MAIN

    def rewind(answer: bytes = b"") -> bytes:
        if not done:
            done.append(project.rewind(ref))
        return answer

    if when == "before":
        rewind()
    else:
        project.behaviour = Behaviour(alters=rewind)
    code, output = scene.run(command)
    assert done, "no request was altered"
    # 2: the host refused the ref
    assert code in (0, 1, 255) or (code == 2 and "stale info" in output), output
    assert "Traceback" not in output
    project.behaviour = Behaviour()
    scene.clone.hg("pull", "-q")
    scene.end_well("pull")


def _named(oid: str, ref: str) -> Callable[[bytes], bytes]:
    """Return a function that puts ``oid`` in place of that of ``ref`` in listings."""

    def alter(answer: bytes) -> bytes:
        at = answer.find(b" " + ref.encode())
        return answer if at < 0 else answer[: at - 40] + oid.encode() + answer[at:]

    return alter


def _renamed(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """Return a function that renames a ref in listings to one of the same length."""
    assert len(old) == len(new)
    return lambda answer: answer if answer[:4] == b"PACK" else answer.replace(old, new)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", ["pull", "clone"])
@pytest.mark.parametrize(
    "lie",
    ["blob", "tree", "absent", "swapped", "hostile name", "no refs"],
)
def test_a_host_that_lied_about_refs_is_read_again(
    scene: _Scene, command: str, lie: str
) -> None:
    _news(scene, command)
    project = scene.project
    lies: dict[str, Callable[[bytes], bytes]] = {
        "blob": _named(project.git("hash-object", "-w", "HEAD"), _SIDE),
        "tree": _named(project.git("rev-parse", f"{_MAIN}^{{tree}}"), _SIDE),
        "absent": _named("1" * 40, _SIDE),
        "swapped": _named(project.git("rev-parse", f"{_MAIN}~3"), _MAIN),
        "hostile name": _renamed(_SIDE.encode(), b"refs/heads/../x"),
        "no refs": lambda answer: answer.replace(b" refs/heads/", b" refs/xxxxx/"),
    }
    told: list[bytes] = []

    def alter(answer: bytes) -> bytes:
        altered = lies[lie](answer)
        if altered != answer:
            told.append(altered)
        return altered

    project.behaviour = Behaviour(alters=alter)
    code, output = scene.run(command)
    assert told
    assert code in (0, 255), output
    assert "Traceback" not in output
    if command == "clone":
        assert (code == 0) == scene.again.root.exists()
    scene.end_well(command)
