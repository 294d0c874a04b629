"""Pushes that replace drafts: what Mercurial users see of an amend by git."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import hg
from testlib.pushing import Clone, PushServer, pushable

pytestmark = pytest.mark.slow

HGRC = "[phases]\npublish = no\n[experimental]\nevolution = all\n"
NO_UNSTABLE = "evolution = createmarkers, exchange"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    with pushable(tmp_path, hgrc=HGRC) as served:
        yield served
        served.check()


def amend(clone: Clone, message: str) -> str:
    """Change the message of what is checked out, as people do."""
    done = clone.run("commit", "-q", "--amend", "-m", message)
    assert not done.returncode
    return clone.head()


def markers(server: PushServer) -> set[tuple[str, str]]:
    """Return the markers as summaries of predecessor and successor."""

    def shown(revs: str, template: str) -> str:
        return server.hg("log", "--hidden", "-r", revs, "-T", template)

    summary = "{desc|firstline}"
    return {
        (shown(node, summary), shown(f"successors({node}) - {node}", summary))
        for node in shown("obsolete()", "{node}\n").split()
    }


def test_mercurial_users_follow_an_amend(server: PushServer, tmp_path: Path) -> None:
    clone = server.clone()
    clone.commit("one")
    old = clone.commit("two")
    clone.pushed("HEAD:refs/heads/work")
    on = ("--config", "experimental.evolution=all")
    for name in ("follows", "ignores"):
        hg(tmp_path, "clone", "-q", server.web.url, name, "-u", "work")
    new = amend(clone, "two, better")
    said = clone.pushed("+HEAD:work")
    assert "remote: obsoleted 1 changesets" in said
    assert markers(server) == {("two", "two, better")}
    assert server.log()[-1] == "default|work|draft|two, better"
    clone.git("fetch", "-q", "--prune")
    assert clone.git("rev-parse", "origin/work") == new
    objects = server.clone("again").git("rev-list", "--all").split()
    assert new in objects
    assert old not in objects

    def heads(name: str) -> str:
        return hg(tmp_path / name, "log", "-r", "head()", "-T", "{desc}|").decode()

    hg(tmp_path / "follows", "pull", "-q", "-u", *on)
    assert heads("follows") == "two, better|"
    shown = hg(tmp_path / "follows", "log", "-r", ".", "-T", "{desc}").decode()
    assert shown == "two, better"
    hg(tmp_path / "ignores", "pull", "-q")
    assert heads("ignores") == "two|two, better|"


def test_each_commit_of_a_rebase_replaces_its_own(server: PushServer) -> None:
    clone = server.clone()
    for name in "abc":
        clone.commit(name)
    clone.pushed("HEAD:refs/heads/work")
    clone.git("checkout", "-q", "default")
    clone.git("branch", "-q", "work", "HEAD")
    clone.git("reset", "-q", "--hard", "HEAD~3")
    clone.commit("below")
    clone.git("checkout", "-q", "work")
    clone.git("rebase", "-q", "default")
    clone.pushed("+work", "default:refs/heads/main")
    assert markers(server) == {(name, name) for name in "abc"}
    assert len(server.log()) == 6
    # the last two become one
    clone.git("reset", "-q", "--soft", "HEAD~2")
    clone.commit("b and c", {"c": "changed"})
    clone.pushed("+work")
    assert {("b", "b and c"), ("c", "b and c")} <= markers(server)
    assert server.log()[-1] == "default|work|draft|b and c"


def test_branches_on_top_of_each_other_are_replaced_together(tmp_path: Path) -> None:
    """Mercurial keeps the parents of what stays, and nothing stays here."""
    with pushable(
        tmp_path, hgrc=HGRC.replace("evolution = all", NO_UNSTABLE)
    ) as server:
        clone = server.clone()
        clone.git("checkout", "-q", "-b", "lower")
        clone.commit("a")
        clone.git("checkout", "-q", "-b", "upper")
        clone.commit("b")
        clone.commit("c")
        clone.pushed("lower", "upper")
        clone.git("checkout", "-q", "lower")
        amend(clone, "a, better")
        clone.git("checkout", "-q", "upper")
        clone.git("reset", "-q", "--soft", "lower")
        clone.commit("b and c")
        said = clone.pushed("--force", "lower", "upper")
        assert "still there for hg" not in said
        assert markers(server) == {
            *{("a", "a, better"), ("b", "b and c"), ("c", "b and c")}
        }
        server.check()


def test_what_others_have_stays(server: PushServer) -> None:
    clone = server.clone()
    clone.commit("one")
    clone.pushed("HEAD:refs/heads/work", "HEAD:refs/heads/other")
    amend(clone, "other words")
    said = clone.pushed("+HEAD:work")
    assert "remote: warning: not replaced by the push, and still there for hg: " in said
    assert not markers(server)
    # a branch that goes back, or is deleted, replaces nothing
    clone.pushed("+HEAD~1:work", ":other")
    assert not markers(server)


def test_children_of_others_stay_on_visible_parents(tmp_path: Path) -> None:
    hgrc = HGRC.replace("evolution = all", NO_UNSTABLE)
    with pushable(tmp_path, hgrc=hgrc) as server:
        server.hg("bookmark", "-r", "tip", "@")
        clone = server.clone()
        clone.commit("one")
        clone.commit("two")
        clone.pushed("HEAD:refs/heads/work")
        server.hg("update", "-q", "work^")
        (server.root / "theirs").write_text("theirs\n")
        server.hg("commit", "-qAm", "theirs", "-d", "8 0")
        clone.git("reset", "-q", "--soft", "HEAD~2")
        clone.commit("both")
        said = clone.pushed("+HEAD:work")
        assert "not replaced by the push, and still there for hg: " in said
        assert not markers(server)
        server.hg("log", "-r", "not public() and orphan()")
        server.hg("git::export")
        server.check()


def test_tip_of_a_named_branch_can_be_amended(server: PushServer) -> None:
    clone = server.clone()
    clone.commit("one")
    clone.pushed("default")
    new = amend(clone, "one, better")
    clone.pushed("+default")
    assert markers(server) == {("one", "one, better")}
    assert server.clone("again").head() == new
    # but not what others have, and not by nothing
    clone.pushed("default:refs/heads/kept")
    amend(clone, "one, best")
    before = server.log()
    assert "'default', which moves forward only" in clone.refused("+default")
    assert "'default', which moves forward only" in clone.refused("+HEAD~1:default")
    assert server.log() == before


def test_nothing_is_replaced_without_evolution(tmp_path: Path) -> None:
    with pushable(tmp_path, hgrc="[phases]\npublish = no\n") as server:
        server.hg("bookmark", "-r", "tip", "@")
        clone = server.clone()
        old = clone.commit("one")
        clone.pushed("HEAD:refs/heads/work")
        amend(clone, "one, better")
        said = clone.pushed("+HEAD:work")
        assert f"{old[:12]}, which 'refs/heads/work' led to, is on no branch" in said
        assert "but draft: everybody can fetch it by its id" in said
        assert not markers(server)
        assert server.log()[-2:] == [
            "default||draft|one",
            "default|work|draft|one, better",
        ]
        server.check()
