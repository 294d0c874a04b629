"""Names of branches that are pushed: which Mercurial takes, and in which encoding."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from testlib.pushing import NOTHING, pushable

pytestmark = pytest.mark.slow

UTF8 = ("--encoding", "utf-8")
BOOKMARKS = ("bookmarks", "-T", "{bookmark}\n", *UTF8)


def test_name_that_mercurial_refuses_is_refused_alone(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        clone = server.clone()
        clone.commit("two")
        latin1 = os.fsdecode("caf\xe9".encode("latin-1"))
        names = ("good", "mine@work", latin1, "@", "work@")
        done = clone.push(*(f"HEAD:refs/heads/{name}" for name in names))
        said = done.stderr.decode(errors="replace")
        assert done.returncode == 1, said
        assert "mine@work (no bookmark: Mercurial uses '@' within" in said
        assert "the name of a branch has to be UTF-8" in said
        assert server.hg(*BOOKMARKS).split() == ["@", "good", "work@"]
        server.check()


def test_bookmark_of_a_divergence_stays(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        server.hg("bookmark", "-r", "0", "mine@work")
        clone = server.clone()
        said = clone.refused("+HEAD:mine@work", "HEAD:refs/heads/good")
        assert "mine@work (no bookmark: Mercurial uses '@'" in said
        assert "bookmarks that diverge" in clone.refused(":mine@work")
        assert server.hg(*BOOKMARKS).split() == ["good", "mine@work"]


def test_names_that_exclude_each_other_are_refused_alone(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        server.hg("bookmark", "--force", "-r", "0", "default")
        clone = server.clone()
        names = ("good", "x", "x/y", "z/a", "z", "branches/default/y")
        said = clone.refused(":default", *(f"HEAD:refs/heads/{it}" for it in names))
        assert "x/y (the name clashes with the branch 'x'; choose another" in said
        assert "z (the name clashes with the branch 'z/a'" in said
        assert said.count("the name clashes with the branch") == 3
        assert "(git has no branches of that name; " in clone.refused(
            "HEAD:refs/heads/HEAD"
        )
        # in the place of a branch that the same push deletes
        clone.pushed(":x", "HEAD:refs/heads/x/y", ":z/a", "HEAD:refs/heads/z")
        assert server.hg(*BOOKMARKS).split() == ["default", "good", "x/y", "z"]
        clone.git("fetch", "-q", "--prune")
        clone.pushed("--atomic", ":x/y", "HEAD:refs/heads/x")
        assert "'refs/heads/default' cannot be deleted: it is a Mercurial" in said
        assert server.hg(*BOOKMARKS).split() == ["default", "good", "x", "z"]
        server.check()


def test_closed_branch_is_opened_by_new_commits_only(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        server.hg("branch", "-q", "old")
        server.hg("commit", "-qm", "on old", "-d", "3 0")
        server.hg("bookmark", "-r", ".", "kept")
        server.hg("commit", "-qm", "closed", "--close-branch", "-d", "4 0")
        clone = server.clone()
        clone.git("checkout", "-q", "kept")
        said = clone.refused("HEAD:refs/heads/old")
        assert "it is the Mercurial branch 'old', which is closed" in said
        clone.commit("again")
        clone.pushed("HEAD:refs/heads/old")
        assert server.log()[-1] == "old||public|again"
        server.check()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_names_are_utf8_whatever_the_server_has(tmp_path: Path, encoding: str) -> None:
    options = ("--config=amalgam.git.push-branches=yes", "--encoding", encoding)
    with pushable(tmp_path, *options) as server:
        clone = server.clone()
        clone.commit("two")
        clone.pushed("-o", "branch=z\xfcrich", "HEAD:refs/heads/z\xfcrich")
        clone.commit("three")
        clone.pushed("HEAD:z\xfcrich")
        tips = server.hg("branches", "-T", "{branch} {rev}\n", *UTF8).splitlines()
        assert tips[0] == "z\xfcrich 3"

        push = clone.refused if encoding == "ascii" else clone.pushed
        said = push("HEAD:refs/heads/caf\xe9", "HEAD:refs/heads/good")
        there = ["good"]
        if encoding == "ascii":
            assert "caf\xe9 (no bookmark: the server's encoding lacks char" in said
        else:
            there.insert(0, "caf\xe9")
            assert "parent is on 'z\xfcrich'; push" in clone.refused("HEAD:default")
        assert server.hg(*BOOKMARKS).split() == there
        for name in there:
            clone.pushed(f"HEAD~1:refs/heads/{name}", "--force")
            clone.pushed(f":{name}")
        server.check()


def test_name_that_clones_cannot_have_is_refused_alone(tmp_path: Path) -> None:
    options = ("branches", "tags")
    configured = [f"--config=amalgam.git.push-{it}=yes" for it in options]
    with pushable(tmp_path, *configured) as server:
        server.hg("bookmark", "-r", "0", "there" * 51)
        clone = server.clone()
        clone.commit("two")
        sentence = "(the name is too long for clones; choose one with at most 250 bytes"
        good = ("a" * 250, "b" * 250 + "/b", "/".join(["c" * 200] * 10))
        bad = ("a" * 251, "b" * 251 + "/b", "/".join(["c" * 200] * 11), "there" * 51)
        refs = [f"HEAD:refs/heads/{name}" for name in (*good, *bad)]
        said = clone.refused(*refs, f"HEAD:refs/tags/{'t' * 251}")
        for name in (*bad, "t" * 251):
            assert f"HEAD -> {name} {sentence}" in said
        assert said.count("[remote rejected]") == len(bad) + 1
        shown = server.hg(*BOOKMARKS).split()
        assert shown == sorted([*good, "there" * 51])
        clone.commit("three")
        said = clone.refused("-o", f"branch={'n' * 251}", "HEAD:refs/heads/new")
        assert sentence in said
        again = server.clone("again")
        again.git("fetch", "-q", "origin", "+refs/heads/*:refs/remotes/copy/*")
        server.check()


@pytest.mark.parametrize("ref", ["refs/heads/", "refs/tags/", "refs/"])
def test_ref_without_a_name_is_refused(tmp_path: Path, ref: str) -> None:
    """As a client sends it that is not git: no client could read such a ref."""
    with pushable(tmp_path, "--config=amalgam.git.push-tags=yes") as server:
        clone = server.clone()
        answer = server.push_raw(clone, NOTHING, clone.head(), ref)
        sentence = "the name is empty" if ref != "refs/" else "only branches and"
        assert f"ng {ref} {sentence}".encode() in answer
        assert len(server.log()) == 2
        server.clone("again")
        assert not (server.root / ".hg" / "bookmarks").exists()
        server.check()


def test_branch_that_is_not_shown_is_refused_alone(tmp_path: Path) -> None:
    with pushable(tmp_path, hgrc="[amalgam]\ngit.refs = bookmarks\n") as server:
        server.hg("bookmark", "-r", "tip", "@")
        clone = server.clone()
        clone.git("checkout", "-q", "-b", "default")
        clone.commit("on default")
        clone.git("checkout", "-q", "-b", "work")
        clone.commit("above")
        said = clone.refused("default", "work")
        assert "default -> default (it is the Mercurial branch 'default', which" in said
        assert said.count("[remote rejected]") == 1
        assert server.log()[-1] == "default|work|public|above"
        server.check()
