"""What ``git push -o`` asks for: new named branches, and phases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import hg
from testlib.pushing import PushServer, pushable

pytestmark = pytest.mark.slow

UNCHANGED = "default||public|number 1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushServer]:
    """For pushes that are refused."""
    root = tmp_path_factory.mktemp("refusing")
    with pushable(root, "--config=amalgam.git.push-branches=yes") as served:
        served.hg("bookmark", "-r", "0", "kept")
        clone = served.clone()
        clone.commit("new")
        yield served
        served.check()


REFUSED = {
    "misspelt": ("brnch=a", "unknown push option 'brnch' (did you mean 'branch'?)"),
    "plural": ("Topics=a", "unknown push option 'Topics' (did you mean 'topic'?)"),
    "another": ("branch=stabel", "no branch 'stabel' is pushed; push HEAD:stabel, or"),
    "topic": ("topic=x", "the server has no topics; push without"),
    "invalid": ("publish=nein", "invalid push option publish=nein (expected yes or"),
    "publishing": ("publish=no", "this server publishes all that is pushed"),
    "tip": ("branch=tip", "no Mercurial branch: the name 'tip' is reserved"),
    "null": ("branch=null", "no Mercurial branch: the name 'null' is reserved"),
    "number": ("branch=12", "no Mercurial branch: cannot use an integer as a name"),
    "colon": ("branch=a:b", "no Mercurial branch: ':' cannot be used in a name"),
    "spaces": ("branch= a", "no Mercurial branch: leading or trailing whitespace"),
    "empty": ("branch=", "no Mercurial branch can have the name ''"),
    "control": ("branch=a\x1bb", "no Mercurial branch can have the name 'a"),
    "taken": ("branch=default", "'default' is a Mercurial branch already; start"),
    "bookmark": ("branch=kept", "'kept' is a bookmark already; choose another name"),
}


@pytest.mark.parametrize(("option", "sentence"), REFUSED.values(), ids=REFUSED)
def test_option_that_cannot_be_is_refused(
    server: PushServer, option: str, sentence: str
) -> None:
    clone = server.existing("clone")
    said = clone.refused("-o", option, "HEAD:refs/heads/work")
    assert sentence in said
    assert "\x1b" not in said
    assert server.log()[-1] == UNCHANGED


def test_option_that_cannot_be_refuses_deletions_too(server: PushServer) -> None:
    """Also of a missing ref, which would be a success."""
    clone = server.existing("clone")
    said = clone.refused("-o", "branch=new", ":refs/heads/gone")
    assert "gone (no new commits for the Mercurial branch 'new'; " in said


def test_option_that_is_given_twice_is_refused(server: PushServer) -> None:
    clone = server.existing("clone")
    said = clone.refused("-o", "branch=a", "-o", "branch=b", "HEAD:refs/heads/work")
    assert "push option 'branch' is given twice" in said
    said = clone.refused("-o", "branch=a", "HEAD~1:refs/heads/a", "HEAD:refs/heads/y")
    assert "no branch 'a' is pushed" in said
    said = clone.refused("-o", "branch=a", "HEAD~1:refs/heads/work")
    assert "no new commits for the Mercurial branch 'a'" in said
    said = clone.refused("-o", "branch=a", "HEAD:refs/heads/default")
    assert "it is the Mercurial branch 'default'; push 'a' to a new branch" in said
    assert server.log()[-1] == UNCHANGED


def test_option_with_a_line_feed_is_refused(server: PushServer) -> None:
    """git itself does not send such; others may."""
    clone = server.existing("clone")
    before, new = clone.git("rev-parse", "HEAD~1", "HEAD").split()
    for option in ("branch=a\nb", "branch=a\0b", "publish=no\n", "branch=a\r"):
        answer = server.push_raw(
            clone, before, new, "refs/heads/default", options=(option.encode(),)
        )
        assert b"ng refs/heads/default " in answer, answer
    assert server.log()[-1] == UNCHANGED


def test_named_branches_are_made_only_if_the_operator_allows(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        clone = server.clone()
        clone.commit("new")
        said = clone.refused("-o", "branch=stable", "HEAD:stable")
        assert "operator for amalgam.git.push-branches = yes" in said
        assert server.log()[-1] == UNCHANGED


def test_new_named_branch_comes_back_and_goes_on(tmp_path: Path) -> None:
    with pushable(tmp_path, hgrc="[amalgam]\ngit.push-branches = yes\n") as server:
        clone = server.clone()
        clone.git("checkout", "-q", "-b", "stable")
        clone.commit("one")
        clone.git("checkout", "-q", "-b", "side")
        clone.commit("side")
        clone.git("checkout", "-q", "stable")
        clone.git("merge", "-q", "--no-ff", "-m", "merge", "side")
        tip = clone.head()
        clone.pushed("-o", "branch=stable", "stable")
        by_branch = [it for it in server.log() if it.startswith("stable||public|")]
        assert len(by_branch) == 3
        assert len(server.log()) == 5
        clone.git("fetch", "-q", "--prune")
        assert clone.git("rev-parse", "origin/stable") == tip
        assert server.clone("again").git("rev-parse", "origin/stable") == tip
        clone.commit("two")
        clone.pushed("stable")
        assert server.log()[-1] == "stable||public|two"
        server.check()


def test_name_of_a_branch_is_stored_as_mercurial_does(tmp_path: Path) -> None:
    """A commit of Mercurial's own on such a branch has the same extra."""
    names = ["größe", "a\\b", "with space"]
    with pushable(tmp_path, "--config=amalgam.git.push-branches=yes") as server:
        clone = server.clone()
        for at, name in enumerate(names):
            oid = clone.commit(f"by git {at}")
            option = ("-o", f"branch={name}")
            ref = name.replace("\\", "%5C").replace(" ", "%20")
            said = clone.refused(*option, f"HEAD:refs/heads/work{at}")
            assert f"no branch '{ref}' is pushed; push HEAD:{ref}, or correct" in said
            clone.pushed(*option, f"HEAD:refs/heads/{ref}")
            clone.git("fetch", "-q")
            assert clone.git("rev-parse", f"origin/{ref}") == oid
            server.hg("update", "-q", "tip")
            empty = "--config=ui.allowemptycommit=yes"
            server.hg("commit", "-qm", "by hg", "-d", "9 0", empty)
            shown = ("-r", "tip^+tip", "-T", "{branch}|{extras}\n")
            by_git, by_hg = server.hg("log", *shown, "--encoding=utf-8").splitlines()
            assert by_git == by_hg
            assert by_git.startswith(f"{name}|branch=")
        server.hg("git::export")
        server.check()


def test_option_of_another_server_is_ignored(tmp_path: Path) -> None:
    """As users have it in ``push.pushOption``."""
    with pushable(tmp_path) as server:
        clone = server.clone()
        clone.commit("new")
        options = ("-o", "ci.skip", "-o", "merge_request.create")
        said = clone.pushed(*options, "default")
        for name in ("ci.skip", "merge_request.create"):
            line = f"remote: warning: push option '{name}' has no meaning on this"
            assert line in said
        assert server.log()[-1] == "default||public|new"


def test_drafts_are_published_if_the_pusher_asks(tmp_path: Path) -> None:
    with pushable(tmp_path, hgrc="[phases]\npublish = no\n") as server:
        clone = server.clone()
        clone.commit("one")
        clone.pushed("-o", "publish=no", "HEAD:refs/heads/work")
        assert server.log()[-1] == "default|work|draft|one"
        clone.commit("two")
        clone.pushed("-o", "publish=yes", "HEAD:refs/heads/work")
        assert server.log()[-2:] == ["default||public|one", "default|work|public|two"]
        clone.commit("three")
        clone.pushed("HEAD:refs/heads/work")
        assert server.log()[-1] == "default|work|draft|three"
        clone.pushed("-o", "publish=yes", "HEAD:refs/heads/other")
        assert server.log()[-1] == "default|other work|public|three"
        server.check()


def test_topics_would_not_come_back(tmp_path: Path) -> None:
    with pushable(tmp_path, "--config=extensions.topic=") as server:
        clone = server.clone()
        clone.commit("new")
        said = clone.refused("-o", "topic=x", "HEAD:refs/heads/work")
        assert "git users do not see drafts with a topic; push to a new branch" in said
        clone.pushed("HEAD:refs/heads/work")
        hg(server.root, "verify", "-q")


def test_signed_pushes_are_not_offered(tmp_path: Path) -> None:
    """git itself says so. ``if-asked`` pushes without a signature."""
    with pushable(tmp_path) as server:
        clone = server.clone()
        clone.commit("new")
        done = clone.push("--signed", "default")
        assert done.returncode
        assert b"the receiving end does not support --signed push" in done.stderr
        assert server.log()[-1] == UNCHANGED
        clone.pushed("--signed=if-asked", "default")
        assert server.log()[-1] == "default||public|new"
        server.check()
