"""Pulls and pushes that end early, and remotes that fail, lie, or are hostile."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from testlib import pullpoints
from testlib.developers import Rounds
from testlib.environment import git
from testlib.gitclone import Clone, cloned
from testlib.githost import Behaviour, GitHost, HostedRepository, git_host
from testlib.killedclones import KilledClones

pytestmark = pytest.mark.slow

MAIN, SIDE = "refs/heads/main", "refs/heads/side"


def test_after_a_kill_the_next_run_ends_as_if_undisturbed(tmp_path: Path) -> None:
    """``testlib/killedclones.py`` takes more moments."""
    killed = KilledClones(tmp_path, seed=1)
    for _number in range(4):
        killed.pass_one()


@pytest.mark.parametrize(("how", "stride"), [("kill", 20), ("full", 16)])
def test_a_first_pull_may_end_anywhere(tmp_path: Path, how: str, stride: int) -> None:
    """By a kill, or since the disk is full. ``testlib/pullpoints.py`` takes all steps.

    The core writes the store.
    """
    host, template = tmp_path / "host", tmp_path / "template"
    git(tmp_path, "init", "-q", "-b", "main", str(host))
    for name in ("one", "two"):
        (host / name).write_text(name)
        git(host, "add", name)
        git(host, "commit", "-q", "-m", name)
    git(host, "tag", "-m", "annotated", "v1")
    git(host, "branch", "side", "main~1")
    Clone(template).hg("init", str(template))
    (template / ".hg/hgrc").write_text(f"[paths]\ndefault = {host}\n")
    (scratch := tmp_path / "scratch").mkdir()
    assert pullpoints.at_some(template, scratch, how, stride) > 5


def _spoiled(content: bytes) -> bytes:
    """Return an answer with another byte in the middle of its pack."""
    start = content.find(b"PACK")
    at = start + (len(content) - start) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _with_another_oid(content: bytes) -> bytes:
    """Return an answer that lists an oid that the remote does not have."""
    at = content.find(b" " + MAIN.encode())
    return content if at < 0 else content[: at - 40] + b"1" * 40 + content[at:]


def _with_another_name(content: bytes) -> bytes:
    return content.replace(SIDE.encode(), b"refs/heads/../x")


@pytest.mark.parametrize(
    ("alters", "said"),
    [
        (_spoiled, "git cannot read"),
        (_cut, "git cannot read"),
        (_with_another_oid, "not our ref"),
        (_with_another_name, ""),
        (lambda _content: b"", "git cannot read"),
        (lambda content: content * 2, ""),
    ],
)
def test_a_remote_that_lies_leaves_nothing(
    tmp_path: Path, alters: Callable[[bytes], bytes], said: str
) -> None:
    with git_host(tmp_path / "host") as host:
        project = host.add("project.git")
        project.git("symbolic-ref", "HEAD", MAIN)
        for number in range(3):
            project.edit(MAIN, f"main {number}")
        clone = cloned(tmp_path, project)
        project.edit(MAIN, "later")
        project.edit(SIDE, "aside")
        project.behaviour = Behaviour(alters=alters)
        before = clone.hg("log", "-T", "{node}\n"), clone.hg("bookmarks")
        code, output = clone.run("pull")
        if said:
            assert (code, said in output) == (255, True), output
            assert (clone.hg("log", "-T", "{node}\n"), clone.hg("bookmarks")) == before
        project.behaviour = Behaviour()
        clone.hg("pull", "-q")
        fresh = Clone(tmp_path / "fresh")
        fresh.hg("clone", "-q", f"git+{project.url}", str(fresh.root))
        shown = ("log", "-r", "sort(all(), node)", "-T", "{node} {phase} {bookmarks}\n")
        assert clone.hg(*shown) == fresh.hg(*shown)


def test_a_remote_that_fails_is_read_later(tmp_path: Path) -> None:
    """It is gone, full, refuses, or has gone back meanwhile."""
    with git_host(tmp_path / "host") as host:
        project = host.add("project.git")
        project.git("symbolic-ref", "HEAD", MAIN)
        project.edit(MAIN, "one")
        project.edit(MAIN, "two")
        clone = cloned(tmp_path, project)
        (clone.root / "mine").write_bytes(os.urandom(4000))
        clone.hg("commit", "-A", "-q", "-m", "mine")
        host.kill()
        for command in ("pull", "push", "incoming", "outgoing"):
            code, output = clone.run(command)
            assert code == 255
            assert f"(see whether 'git ls-remote {project.url}' works)" in output
        host.start()
        for behaviour in (
            Behaviour(file_bytes=512),
            Behaviour(declines="the quota is used up"),
            Behaviour(cut_after_bytes=900),
        ):
            before = project.refs()
            project.behaviour = behaviour
            code, output = clone.run("push")
            assert code in (2, 255), output
            assert project.refs() == before
        project.behaviour = Behaviour()
        project.rewind(MAIN)
        code, output = clone.run("push")
        assert code == 0, output
        assert project.git("log", "--format=%s", MAIN).split() == ["mine", "two", "one"]


def tree_of(project: HostedRepository, name: bytes) -> None:
    """Commit a tree with a file ``name``, which git itself would refuse, to main."""
    blob = project.git("hash-object", "-w", "HEAD")
    written = subprocess.run(
        ["git", "hash-object", "-w", "-t", "tree", "--literally", "--stdin"],
        cwd=project.path,
        input=b"100644 %s\0%s" % (name, bytes.fromhex(blob)),
        capture_output=True,
        check=True,
    )
    tree = written.stdout.decode().strip()
    commit = project.git("commit-tree", "-m", "hostile", "-p", MAIN, tree)
    project.git("update-ref", MAIN, commit)


@pytest.fixture
def hostile(tmp_path: Path, host: GitHost, name: bytes) -> tuple[str, Clone]:
    """A clone, and the URL of its remote, which then commits a file ``name``."""
    project = host.add("project.git")
    project.git("symbolic-ref", "HEAD", MAIN)
    project.edit(MAIN, "one")
    clone = cloned(tmp_path, project)
    tree_of(project, name)
    return f"git+{project.url}", clone


@pytest.mark.parametrize("name", [b"../../out", b"..", b".hg", b"/etc/passwd", b"a\nb"])
def test_hostile_trees_write_nothing(
    tmp_path: Path, hostile: tuple[str, Clone]
) -> None:
    _url, clone = hostile
    code, output = clone.run("pull", "-u")
    assert code == 255, output
    assert "Traceback" not in output
    assert clone.hg("log", "-T", "{desc}") == "one"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", [b".git", b"GIT~1"])
def test_no_update_makes_a_repository(
    tmp_path: Path, hostile: tuple[str, Clone], name: bytes
) -> None:
    """Such histories are pulled, since tests of other programs have such files."""
    url, clone = hostile
    path = clone.root / name.decode()
    code, output = clone.run("pull", "-u")
    assert code == 255, output
    assert f"makes a git repository: it has {name.decode()}" in output
    assert clone.hg("log", "-T", "{desc} ") == "hostile one "
    assert clone.hg("log", "-r", ".", "-T", "{desc}") == "one"
    assert not path.exists()
    clone.hg("update", "-q", "--config", "hooks.preupdate.amalgam=", "tip")
    assert path.is_file()
    clone.hg("update", "-q", "0")
    assert not path.exists()
    # a first pull is in the process that updates
    first = Clone(tmp_path / "first")
    code, output = first.run("clone", url, str(first.root))
    assert code == 255, output
    assert "makes a git repository" in output
    assert not (first.root / name.decode()).exists()


def test_damaged_objects_are_fetched_again_once_they_are_gone(tmp_path: Path) -> None:
    """As are those of the first pull, which commits of the second one need."""
    host, clone = tmp_path / "host", Clone(tmp_path / "clone")
    git(tmp_path, "init", "-q", "-b", "main", str(host))

    def commit(name: str) -> None:
        (host / name).write_text(name)
        git(host, "add", ".")
        git(host, "commit", "-q", "-m", name)

    commit("one")
    clone.hg("clone", "-q", str(host), str(clone.root))
    fetched = clone.root / ".hg/amalgam/fetched/objects.git"
    (first,) = fetched.glob("objects/pack/*.pack")
    commit("two")
    clone.hg("pull")
    first.chmod(0o600)
    first.write_bytes(first.read_bytes()[:60])
    commit("three")
    code, output = clone.run("pull")
    assert code == 255, output
    assert f"(if '{fetched}' is damaged, remove it, and the next pull" in output
    assert clone.hg("log", "-T", "{desc} ") == "two one "
    shutil.rmtree(fetched)
    clone.hg("pull")
    assert clone.hg("log", "-T", "{desc} ") == "three two one "


def test_a_repository_runs_nothing(tmp_path: Path) -> None:
    """Its own configuration and hooks, if it is a directory of somebody."""
    proof = tmp_path / "proof"
    source = tmp_path / "source"
    git(tmp_path, "init", "-q", "-b", "main", str(source))
    git(source, "commit", "-q", "--allow-empty", "-m", "one")
    for key in (
        *("core.fsmonitor", "core.sshCommand", "core.gitProxy", "core.hooksPath"),
        *("uploadpack.packObjectsHook", "credential.helper", "core.pager"),
        *("core.alternateRefsCommand", "remote.origin.uploadpack", "core.askPass"),
    ):
        git(source, "config", key, f"touch {proof}; false")
    for name in ("post-checkout", "reference-transaction", "pre-push", "pre-receive"):
        hook = source / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {proof}\n")
        hook.chmod(0o755)
    clone = Clone(tmp_path / "clone")
    clone.hg("clone", "-q", str(source), str(clone.root))
    assert clone.hg("log", "-T", "{desc}") == "one"
    clone.hg("pull")
    assert not proof.exists()


def test_developers_lose_nothing(tmp_path: Path) -> None:
    """``testlib/developers.py`` and ``make hosts`` have more rounds."""
    with git_host(tmp_path / "host") as host:
        project = host.add("project.git")
        project.git("symbolic-ref", "HEAD", MAIN)
        rounds = Rounds(tmp_path, project.url, seed=3)
        for _number in range(6):
            rounds.pass_one()
        rounds.compare()
