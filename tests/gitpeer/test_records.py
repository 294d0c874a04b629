"""What a repository concludes from the refs that its remotes had at the last pull."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from testlib.environment import git
from testlib.gitclone import Clone
from testlib.webserver import until

pytestmark = pytest.mark.slow


class Remote:
    """A repository with the branches ``main`` and ``dev``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        git(path.parent, "init", "-q", "--bare", "-b", "main", path.name)
        self.commit("main", "one")
        self.commit("dev", "theirs", "main")

    def git(self, *args: str) -> str:
        return git(self.path, *args).decode().strip()

    def commit(self, branch: str, message: str, onto: str = "") -> str:
        """Commit onto a branch, or onto another one."""
        names = self.git("for-each-ref", "--format=%(refname:short)").split()
        parents = [it for it in (onto or branch,) if it in names]
        tree = self.git("mktree", "--missing", "--batch") or self.git("write-tree")
        options = [option for it in parents for option in ("-p", it)]
        oid = self.git("commit-tree", tree, *options, "-m", message)
        self.git("update-ref", f"refs/heads/{branch}", oid)
        return oid

    def subject(self, branch: str) -> str:
        return self.git("log", "-1", "--format=%s", branch)


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path / "upstream.git")


@pytest.fixture(params=["cinnabar", "hggit"])
def clone(request: pytest.FixtureRequest, remote: Remote) -> Iterator[Clone]:
    made = Clone(remote.path.parent / "clone")
    dialect = f"--config=amalgam.git.dialect={request.param}"
    made.hg("clone", dialect, "-q", f"git+file://{remote.path}", str(made.root))
    write(made, "[amalgam]", f"git.dialect = {request.param}")
    yield made
    assert "nothing is wrong" in made.hg("admin::amalgam")


def write(clone: Clone, *lines: str) -> None:
    with (clone.root / ".hg" / "hgrc").open("a") as file:
        file.write("\n".join(lines) + "\n")


def commit(clone: Clone, message: str, onto: str) -> None:
    clone.hg("update", "-q", onto)
    (clone.root / "mine").write_text(message)
    clone.hg("commit", "-q", "-A", "-m", message)


def test_a_fork_that_is_pushed_to_says_nothing_of_upstream(
    remote: Remote, clone: Clone
) -> None:
    """Also if the fork was the remote until now."""
    fork = remote.path.parent / "fork.git"
    git(remote.path.parent, "clone", "-q", "--bare", str(remote.path), str(fork))
    write(clone, "[paths]", f"default:pushurl = git+file://{fork}")
    write(clone, "[experimental]", "evolution = all")
    commit(clone, "mine", "dev")
    clone.hg("bookmark", "feature")
    clone.hg("push", "-q", "-B", "dev", "-B", "feature")
    remote.commit("dev", "theirs again")
    for url in ("", f"file://{fork}", f"file://{remote.path}"):
        if url:
            write(clone, "[paths]", f"default = git+{url}")
        output = clone.hg("pull")
        assert "rewritten" not in output
        assert "deleted" not in output
        assert clone.hg("log", "-r", "dev+feature", "-T", "{desc}\n") == "mine\n"
        clone.run("push")
        assert git(fork, "log", "-1", "--format=%s", "dev") == b"mine\n"


def test_a_pull_by_name_forgets_no_rewrite(remote: Remote, clone: Clone) -> None:
    remote.git("update-ref", "refs/heads/dev", "main")
    remote.commit("main", "two")
    clone.hg("pull", "-q", "-r", "main")
    clone.hg("pull", "-q")
    clone.run("push", "-q")
    assert remote.subject("dev") == "one"


def test_a_pull_sees_what_ended_meanwhile(remote: Remote, clone: Clone) -> None:
    """Its listing is from before a push, which adds a branch and moves one."""
    program = remote.path.parent / "slow-git"
    begun, done = (remote.path.parent / name for name in ("begun", "done"))
    program.write_text(
        '#!/bin/sh\ncase " $* " in *" ls-remote "*)\n'
        f'  [ -e {begun} ] && exec git "$@"\n'
        f'  git "$@" || exit\n  : > {begun}\n'
        f"  while [ ! -e {done} ]; do sleep 0.05; done; exit 0\n"
        'esac\nexec git "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    commit(clone, "mine", "dev")
    clone.hg("bookmark", "feature")
    with ThreadPoolExecutor() as pool:
        pull = pool.submit(clone.hg, "pull", f"--config=amalgam.git.program={program}")
        until(lambda: begun.exists() or pull.done())
        clone.hg("push", "-q", "-B", "dev", "-B", "feature")
        done.touch()
        output = pull.result()
    assert "rewritten" not in output
    assert "deleting" not in output
    assert clone.hg("log", "-r", "dev+feature", "-T", "{desc}\n") == "mine\n"
    assert "no changes found" in clone.run("push")[1]
    assert remote.subject("dev") == remote.subject("feature") == "mine"


def test_a_tag_of_another_remote_takes_no_name(remote: Remote, clone: Clone) -> None:
    other = Remote(remote.path.parent / "contributor.git")
    remote.git("tag", "v1", "main")
    clone.hg("pull", "-q")
    other.git("tag", "v1", other.commit("feature", "feature"))
    clone.hg("pull", "-q", "-r", "feature", f"git+file://{other.path}")
    for _turn in range(2):
        assert clone.hg("log", "-r", "v1", "-T", "{desc}") == "one"
        clone.hg("pull", "-q")


def test_shares_have_bookmarks_of_their_own(remote: Remote, clone: Clone) -> None:
    clone.hg("pull", "-q")
    clone.hg("pull", "-q")
    share = Clone(remote.path.parent / "share")
    config = "--config=extensions.share="
    clone.hg("share", config, "-q", "-U", str(clone.root), str(share.root))
    share.hg("pull", "-q")
    assert share.hg("bookmarks", "-T", "{bookmark} ") == "dev main "


def test_ids_of_sha256_are_no_empty_remote(remote: Remote, clone: Clone) -> None:
    remote.path.rename(remote.path.with_name("before.git"))
    form = "--object-format=sha256"
    git(remote.path.parent, "init", "-q", "--bare", form, remote.path.name)
    tree = git(remote.path, "hash-object", "-w", "-t", "tree", "/dev/null")
    oid = git(remote.path, "commit-tree", tree.decode().strip(), "-m", "one")
    git(remote.path, "update-ref", "refs/heads/main", oid.decode().strip())
    for command in ("pull", "push", "incoming", "outgoing"):
        code, output = clone.run(command)
        assert code == 255
        assert "it has ids of sha256" in output
    assert clone.hg("bookmarks", "-T", "{bookmark} ") == "dev main "


def test_branches_that_move_hide_nothing_that_is_there(
    remote: Remote, clone: Clone
) -> None:
    remote.commit("main", "two")
    remote.commit("dev", "theirs again")
    commit(clone, "mine", "main")
    assert clone.hg("outgoing", "-q", "-T", "{desc}\n") == "mine\n"
