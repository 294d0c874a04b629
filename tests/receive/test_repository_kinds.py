"""Pushes into kinds of repositories that few have: they are refused, or come back."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib.environment import hg, publish_commits
from testlib.pushing import ON, PushServer, pushable
from testlib.webserver import serving

HINT = "(a repository without it can have them; this one takes changesets)"

pytestmark = pytest.mark.slow


def served_kind(home: Path, *options: str) -> Path:
    """Make a repository with ``options``, and two changesets."""
    root = home / "server"
    hg(home, "init", *options, "server")
    publish_commits(root)
    for number in range(2):
        (root / "dir").mkdir(exist_ok=True)
        (root / "dir" / f"file{number}").write_text(f"text {number}\n" * 100)
        hg(root, *options, "commit", "-qAm", f"number {number}", "-d", f"{number} 0")
    return root


def test_tree_manifests_are_refused(tmp_path: Path) -> None:
    root = served_kind(tmp_path, "--config=experimental.treemanifest=yes")
    with serving(root, *ON) as web:
        server = PushServer(root, web)
        clone = server.clone()
        new = clone.commit("new")
        said = clone.refused("default")
        sentence = "cannot add git commits to a repository that requires: treemanifest "
        assert f"{sentence}{HINT}" in said
        assert server.log()[-1] == "default||public|number 1"
        clone.pushed("HEAD~1:refs/heads/work")
        assert server.log()[-1] == "default|work|public|number 1"
        again = server.clone("again")
        assert new not in again.git("rev-list", "--all")
        server.hg("verify", "-q")


def test_lfs_is_refused(tmp_path: Path) -> None:
    lfs = ("--config=extensions.lfs=", "--config=lfs.track=size('>100B')")
    root = served_kind(tmp_path, *lfs)
    assert (
        "lfs"
        in (root / ".hg" / "requires").read_text()
        + (root / ".hg" / "store" / "requires").read_text()
    )
    with serving(root, *ON, *lfs) as web:
        server = PushServer(root, web)
        clone = server.clone()
        clone.commit("new")
        said = clone.refused("default")
        sentence = "cannot add git commits to a repository that requires: lfs "
        assert f"{sentence}{HINT}" in said
        assert server.log()[-1] == "default||public|number 1"
        # what is there already needs no conversion
        clone.pushed("HEAD~1:refs/heads/work")
        assert server.log()[-1] == "default|work|public|number 1"
        server.hg(*lfs, "verify", "-q")


def test_narrow_clones_are_not_served(tmp_path: Path) -> None:
    narrow = "--config=extensions.narrow="
    served_kind(tmp_path)
    source = f"file://{tmp_path}/server"
    hg(tmp_path, narrow, "clone", "-q", "--narrow", source, "--include", "dir", "part")
    with serving(tmp_path / "part", *ON, narrow) as web:
        status, _headers, body = web.ask("info/refs?service=git-receive-pack")
        assert status == 503
        assert b"cannot be made up to date" in body
        assert "narrow" in web.said()


def test_pointers_of_git_lfs_are_files_as_any(tmp_path: Path) -> None:
    """In a repository without Mercurial's LFS, which would mark them by a flag."""
    pointer = (
        "version https://git-lfs.github.com/spec/v1\n"
        f"oid sha256:{'1' * 64}\nsize 12345\n"
    )
    with pushable(tmp_path) as server:
        clone = server.clone()
        clone.commit("pointer", {"large": pointer})
        clone.pushed("default")
        again = server.clone("again")
        assert again.head() == clone.head()
        shown = server.hg("cat", "-r", "tip", str(server.root / "large"))
        assert shown == pointer
        server.check()


def test_old_clients_of_repositories_with_other_changegroups(tmp_path: Path) -> None:
    """A server that offers version 03 takes version 02 of a push."""
    options = ("--config=experimental.changegroup3=yes",)
    with pushable(tmp_path, *options) as server:
        clone = server.clone()
        new = clone.commit("new")
        clone.pushed("default")
        hg(tmp_path, *options, "clone", "-q", server.web.url, "by-hg")
        hg(tmp_path / "by-hg", "verify", "-q")
        log = ("log", "-r", "tip", "-T", "{node}")
        assert hg(tmp_path / "by-hg", *log).decode() == server.node(new)
        server.check()
