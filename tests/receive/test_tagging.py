"""Tags of a push: commits to ``.hgtags`` that the server makes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, git, hg
from testlib.pushing import NOTHING, Clone, PushServer, pushable
from testlib.webserver import until

pytestmark = pytest.mark.slow

ON = "--config=amalgam.git.push-tags=yes"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    with pushable(tmp_path, ON) as served:
        yield served
        served.check()


def tags(server: PushServer) -> dict[str, str]:
    """Return the summary of the changeset of each tag."""
    lines = server.hg("tags", "-T", "{tag} {rev}\n").splitlines()
    found = dict(line.split() for line in lines if not line.startswith("tip "))
    shown = ("-T", "{desc|firstline}")
    return {tag: server.hg("log", "-r", rev, *shown) for tag, rev in found.items()}


@pytest.mark.parametrize("how", ["--mirror", "--atomic"])
def test_first_push_may_have_tags(tmp_path: Path, how: str) -> None:
    """This is how people move a repository."""
    with pushable(tmp_path, ON) as server:
        server.hg("--config", "extensions.strip=", "strip", "-q", "0", "--no-backup")
        git(tmp_path, "init", "-q", "-b", "main", "new")
        clone = Clone(tmp_path / "new")
        clone.git("remote", "add", "origin", server.web.url)
        first = clone.commit("first")
        clone.git("tag", "v1")
        clone.git("checkout", "-q", "-b", "side")
        clone.commit("side")
        clone.git("checkout", "-q", "main")
        tip = clone.commit("second")
        said = clone.refused("v1")
        assert "its commit is new; push it to a branch, too" in said
        if how == "--atomic":
            said = clone.pushed(how, "main", "side", "v1")
        else:
            said = clone.pushed(*how.split())
        assert "on top of 'refs/heads/default': fetch it" in said
        clone.git("fetch", "-q", "--tags")
        shown = clone.git("rev-parse", "v1", "origin/main").split()
        assert shown == [first, tip]
        assert server.log()[-1].startswith("default||public|Added tag v1")
        server.check()


def test_first_push_goes_on_without_a_name_in_the_way(tmp_path: Path) -> None:
    with pushable(tmp_path, ON) as server:
        server.hg("--config", "extensions.strip=", "strip", "-q", "0", "--no-backup")
        git(tmp_path, "init", "-q", "-b", "main", "new")
        clone = Clone(tmp_path / "new")
        clone.git("remote", "add", "origin", server.web.url)
        clone.commit("first")
        clone.git("tag", "v1")
        said = clone.refused("main", "main:refs/heads/default/x", "v1")
        assert "default/x (the name clashes with the branch 'default'; choose" in said
        assert said.count("[remote rejected]") == 1
        clone.git("fetch", "-q", "--tags")
        shown = clone.git("rev-parse", "v1", "origin/main", "origin/default^").split()
        assert shown == [clone.head()] * 3
        server.check()


@pytest.mark.parametrize("more", [(), ("--atomic", ":t0")])
def test_tag_that_cannot_be_deleted_is_refused(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    """Its commit has a file that is too large; that is said once."""
    with pushable(tmp_path, ON, "--config=amalgam.serve.max-push-file=200") as server:
        for number in range(4):
            server.hg("tag", "-r", "0", f"t{number}", "-d", "5 0")
        clone = server.clone()
        before = server.log()
        said = clone.refused(*more, ":t1")
        assert "a file is larger than 200 bytes" in said
        assert server.log() == before
        server.check()


def test_tags_are_on_the_branch_of_a_clone_even_if_its_push_is_refused(
    tmp_path: Path,
) -> None:
    with pushable(tmp_path, ON) as server:
        server.hg("branch", "-q", "stable")
        server.hg("commit", "-qm", "stable", "-d", "5 0")
        server.hg("bookmark", "-r", "0", "@")
        clone = server.clone()
        first = clone.git("rev-parse", "origin/@")
        clone.git("checkout", "-q", "stable")
        clone.commit("new")
        refs = ("HEAD^{tree}:refs/heads/@", "stable", f"{first}:refs/tags/v1")
        said = clone.refused("-f", *refs)
        assert "only commits can be pushed to a branch" in said
        assert "on top of 'refs/heads/@': fetch it" in said
        assert server.log()[-1].startswith("default|@|public|Added tag v1")
        assert tags(server) == {"v1": "number 0"}
        server.check()


def test_first_tags_where_git_users_see_no_tips(tmp_path: Path) -> None:
    hgrc = "[amalgam]\ngit.refs = bookmarks tags\n"
    with pushable(tmp_path, ON, hgrc=hgrc) as server:
        server.hg("--config", "extensions.strip=", "strip", "-q", "0", "--no-backup")
        git(tmp_path, "init", "-q", "-b", "trunk", "new")
        clone = Clone(tmp_path / "new")
        clone.git("remote", "add", "origin", server.web.url)
        clone.commit("first")
        clone.git("tag", "v1")
        assert "on top of 'refs/heads/trunk': fetch it" in clone.pushed("trunk", "v1")
        clone.git("pull", "-q", "--ff-only", "origin", "trunk")
        clone.commit("second")
        said = clone.refused("trunk", "HEAD:refs/tags/v2")
        assert "there is no branch 'refs/heads/main' for tags" in said
        assert server.log()[-1] == "default|trunk|public|second"
        server.check()


def test_tag_is_a_commit_that_is_reported(server: PushServer, clone: Clone) -> None:
    old = clone.git("rev-parse", "HEAD~1")
    clone.git("tag", "v1", old)
    said = clone.pushed("v1")
    assert "remote: the tags are changeset " in said
    assert " on top of 'refs/heads/default': fetch it" in said
    assert tags(server) == {"v1": "number 0"}
    node = server.hg("log", "-r", "0", "-T", "{node|short}")
    shown = server.hg("log", "-r", "tip", "-T", "{author}|{desc}|{files}|{phase}")
    assert shown == (f"anonymous|Added tag v1 for changeset {node}|.hgtags|public")
    clone.git("fetch", "-q", "--tags")
    assert clone.git("rev-parse", "v1") == old
    assert clone.git("rev-parse", "origin/default~1") == clone.head()
    assert server.clone("again").git("rev-parse", "v1") == old
    # stock hg reads them
    hg(server.root.parent, "clone", "-q", server.web.url, "by-hg")
    listed = hg(server.root.parent / "by-hg", "log", "-r", "v1", "-T", "{rev}")
    assert listed == b"0"


@pytest.fixture
def clone(server: PushServer) -> Clone:
    return server.clone()


def test_tags_are_moved_and_deleted_as_hg_does(
    server: PushServer, clone: Clone
) -> None:
    clone.git("tag", "v1", "HEAD~1")
    clone.git("tag", "dir/v2", "HEAD")
    clone.pushed("v1", "dir/v2")
    assert tags(server) == {"v1": "number 0", "dir/v2": "number 1"}
    clone.git("tag", "-f", "v1", "HEAD")
    assert "already exists" in clone.refused("v1")
    clone.pushed("+v1", ":dir/v2")
    assert tags(server) == {"v1": "number 1"}
    first, second = (server.hg("log", "-r", it, "-T", "{node}") for it in "01")
    content = server.hg("cat", "-r", "tip", str(server.root / ".hgtags")).splitlines()
    assert sorted(content[:2]) == sorted([f"{first} v1", f"{second} dir/v2"])
    assert content[2:] == [
        *(f"{second} dir/v2", f"{'0' * 40} dir/v2"),
        *(f"{first} v1", f"{second} v1"),
    ]
    assert server.hg("log", "-r", "tip", "-T", "{desc}").splitlines() == [
        "Removed tag dir/v2",
        f"Added tag v1 for changeset {second[:12]}",
    ]


def test_tag_of_a_new_commit_needs_its_branch(server: PushServer, clone: Clone) -> None:
    clone.commit("new")
    clone.git("tag", "v1")
    before = server.log()
    assert "v1 (its commit is new; push it to a branch, too)" in clone.refused("v1")
    assert server.log() == before
    clone.pushed("--atomic", "default", "v1", "HEAD:refs/heads/work")
    assert tags(server) == {"v1": "new"}
    assert server.log()[-2:] == [
        "default|work|public|new",
        "default||public|Added tag v1 for changeset " + server.node(clone.head())[:12],
    ]


def test_tags_move_the_bookmark_that_a_clone_checks_out(server: PushServer) -> None:
    server.hg("bookmark", "-r", "0", "@")
    clone = server.clone()
    clone.git("tag", "v1", "origin/default")
    assert "on top of 'refs/heads/@'" in clone.pushed("v1")
    assert server.log()[-1].startswith("default|@|public|Added tag v1")


REFUSED = {
    "tip": ("HEAD:refs/tags/tip", "no tag: the name 'tip' is reserved"),
    "null": ("HEAD:refs/tags/null", "no tag: the name 'null' is reserved"),
    "number": ("HEAD:refs/tags/12", "no tag: cannot use an integer as a name"),
    "tree": ("HEAD^{tree}:refs/tags/tree", "only commits can be tagged"),
    "annotated": ("noted", "the message and the tagger of an annotated tag would be"),
    "escaped": ("HEAD:refs/tags/a/b", "'refs/tags/a/b' would not be shown to git"),
}


def test_tag_that_mercurial_cannot_have_is_refused(
    server: PushServer, clone: Clone
) -> None:
    clone.git("tag", "a")
    clone.pushed("a")
    clone.git("fetch", "-q")
    clone.git("tag", "-a", "-m", "notes", "noted")
    before = server.log()
    for refspec, sentence in REFUSED.values():
        assert sentence in clone.refused(refspec), refspec
    assert server.log() == before
    said = clone.refused("HEAD:refs/tags/tip", "HEAD:refs/tags/good")
    assert "[new tag]         HEAD -> good" in said
    assert tags(server) == {"a": "number 1", "good": "number 1"}


def test_file_of_tags_that_is_odd_is_left_alone(
    server: PushServer, clone: Clone
) -> None:
    (clone.root / ".hgtags").symlink_to("elsewhere")
    clone.git("add", ".hgtags")
    clone.git("commit", "-qm", "odd")
    clone.pushed("default")
    assert "'.hgtags' is no ordinary file" in clone.refused("HEAD:refs/tags/v1")
    assert server.log()[-1] == "default||public|odd"


def test_tags_of_another_head_do_not_win_unseen(
    server: PushServer, clone: Clone
) -> None:
    """Of several heads that tag, Mercurial decides; a push is what git users see."""
    server.hg("update", "-q", "0")
    server.hg("branch", "-q", "stable")
    server.hg("tag", "-r", "0", "v1", "-d", "5 0")
    clone.git("fetch", "-q", "--tags")
    clone.git("tag", "-f", "v1", "origin/default")
    clone.pushed("+v1")
    assert tags(server) == {"v1": "number 1"}
    clone.pushed(":v1")
    assert tags(server) == {}


def test_hooks_of_tags_and_of_pushes_decide(tmp_path: Path) -> None:
    hooks = (
        "pretag = echo no $HG_TAG; test $HG_TAG != v1\n"
        f"tag = echo $HG_TAG >> {tmp_path}/told\n"
    )
    acl = "[extensions]\nacl =\n[acl]\nsources = serve\n[acl.deny]\n.hgtags = *\n"
    hgrc = f"[hooks]\n{hooks}"
    with pushable(tmp_path, ON, hgrc=hgrc) as server:
        clone = server.clone()
        before = server.log()
        assert "remote: no v1" in clone.refused("HEAD:refs/tags/v1")
        assert server.log() == before
        clone.pushed("HEAD:refs/tags/v2")
        assert (tmp_path / "told").read_text() == "v2\n"
        before = server.log()
        with (server.root / ".hg" / "hgrc").open("a") as file:
            file.write(f"pretxnchangegroup.acl = python:hgext.acl.hook\n{acl}")
        assert 'denied on ".hgtags"' in clone.refused("HEAD:refs/tags/v3")
        assert server.log() == before
        server.check()


def test_tag_that_mercurial_has_made_meanwhile_stays(
    server: PushServer, clone: Clone
) -> None:
    """The client knew nothing of it."""
    server.hg("tag", "-r", "0", "v1", "-d", "5 0")
    before = server.log()
    answer = server.push_raw(clone, NOTHING, clone.head(), "refs/tags/v1")
    assert b"ng refs/tags/v1 fetch first" in answer
    assert server.log() == before
    # another tag goes on top of it
    answer = server.push_raw(clone, NOTHING, clone.head(), "refs/tags/v2")
    assert b"ok refs/tags/v2" in answer
    assert tags(server) == {"v1": "number 0", "v2": "number 1"}


def test_tag_of_mercurial_at_the_same_time_is_not_lost(tmp_path: Path) -> None:
    """``hg tag`` holds the lock; the push began before it, or begins after it."""
    held = tmp_path / "held"
    wait = f"touch {held}; while test -e {held}; do sleep 0.05; done"
    hold = ("--config", f"hooks.pretxnclose={wait}")
    with pushable(tmp_path, ON) as server:
        clone = server.clone()
        command = [str(HG), *hold, "tag", "-r", "0", "by-hg", "-d", "5 0"]
        by_hg = subprocess.Popen(command, cwd=server.root, env=ENVIRONMENT)
        until(held.exists)
        pushing = subprocess.Popen(
            ["git", "push", "origin", "HEAD:refs/tags/by-git"],
            cwd=clone.root,
            env=ENVIRONMENT,
            stderr=subprocess.PIPE,
        )
        until(lambda: any("receive-pack" in it for it in server.web.children()))
        held.unlink()
        assert not by_hg.wait()
        said = pushing.communicate()[1]
        if pushing.returncode:
            assert b"by-git (fetch first)" in said
            assert tags(server) == {"by-hg": "number 0"}
            clone.pushed("HEAD:refs/tags/by-git")
        assert tags(server) == {"by-hg": "number 0", "by-git": "number 1"}
        server.hg("git::export")
        server.check()
