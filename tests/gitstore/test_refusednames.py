"""Names that git refuses: which these are, and clones in spite of them."""

from __future__ import annotations

import html
from pathlib import Path

import pytest
from testlib.environment import ROOT, add_config, captured, git
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.webserver import ON, serving

from hgext3rd.amalgam.gitstore import refusednames

REFUSED = (".git", "a/.GIT/b", "git~1/x", "a/.git. .", ".git:x/y", "a\\.git", ".git\\x")
TAKEN = (
    "\\x",
    "a\\b",
    ".gitx",
    ".git~1",
    "git~2",
    ".gitmodules",
    "...",
    "a/..b",
    "nul",
)


def test_git_refuses_just_these_names(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").touch()
    blob = git(tmp_path, "hash-object", "-w", "file").decode().strip()
    for name in (*REFUSED, *TAKEN):
        done = captured(
            ["git", "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}"],
            tmp_path,
        )
        assert (done.returncode != 0) is refusednames.is_refused(name.encode()), name


@pytest.fixture
def repo(tmp_path: Path, server: HgServer) -> Exported:
    made = Exported.init(tmp_path / "repo", server)
    add_config(made.root, "[amalgam]\ngit.serve = yes\n")
    commit(made, "file")
    return made


def commit(repo: Exported, name: str) -> None:
    (repo.root / name).parent.mkdir(parents=True, exist_ok=True)
    (repo.root / name).write_text("text\n")
    repo.hg("commit", "-qAm", name, "-d", "0 0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_written"),
    [(".gIt/x", False), ("a/.GIT", False), ("git~1/x", True), ("a/.git./x", True)],
)
def test_clone_that_git_refuses_has_a_way_out(
    repo: Exported, tmp_path: Path, name: str, is_written: bool
) -> None:
    commit(repo, name)
    repo.hg("git::export")
    with serving(repo.root, *ON) as web:
        done = captured(["git", "clone", web.url, "plain"], tmp_path)
        assert b"error: invalid path" in done.stderr
        assert not (tmp_path / "plain" / "file").exists()
        first, hint = repo.run("git::clone-command", web.url).err.decode().splitlines()
        assert f"'{name}'" in first
        command = hint.partition("type: ")[2].removesuffix(")")
        page = html.unescape(web.ask("shortlog")[2].decode())
        assert command.replace(web.url, "http://x/") in page
        where = "" if "--no-checkout" in command else " clone"
        done = captured(["sh", "-ec", command + where], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "clone" / "file").read_text() == "text\n"
    assert (tmp_path / "clone" / name).exists() is is_written


@pytest.mark.parametrize("name", [b".gIt/x", b"git~1/x"])
def test_page_for_users_has_the_same_commands(name: bytes) -> None:
    page = (ROOT / "docs" / "git-view.rst").read_text()
    url = b"https://hg.example.org/project"
    for command in refusednames.clone_command(name, url).decode().split(" && "):
        assert f"$ {command}" in page


def test_files_that_hg_git_leaves_out_are_named(repo: Exported) -> None:
    for name in ("a/.git/x", "GITx~1", ".GIT/y"):
        commit(repo, name)
    said = repo.run("git::export", "--dialect", "hggit").err.decode()
    assert "warning: 2 files left out, as hg-git does, because of the names: " in said
    assert "commits with 1 file, because of the names: .GIT/y\n" in said
    store = repo.root / ".hg/amalgam/git/hggit.git"
    names = git(store, "ls-tree", "-r", "--name-only", "HEAD").decode().split()
    assert names == [".GIT/y", "file"]


def test_only_the_branch_of_a_clone_counts(repo: Exported) -> None:
    commit(repo, ".GIT/x")
    repo.hg("bookmark", "-i", "old")
    repo.hg("rename", ".GIT/x", "x")
    commit(repo, "more")
    assert refusednames.in_clone(repo.open()) == b""
    repo.hg("bookmark", "-r", "old", "@")
    assert refusednames.in_clone(repo.open()) == b".GIT/x"
