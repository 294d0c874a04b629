"""Branches of one push that are on one Mercurial branch, above or beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.pushing import Clone, PushServer, pushable

pytestmark = pytest.mark.slow

HGRC = "[amalgam]\ngit.push-branches = yes\ngit.push-tags = yes\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    with pushable(tmp_path, hgrc=HGRC) as served:
        yield served
        served.check()


@pytest.fixture
def clone(server: PushServer) -> Clone:
    return server.clone()


def on_new_branch(clone: Clone, name: str, start: str, *commits: str) -> str:
    """Make a branch of git with these commits; the id of the last."""
    clone.git("checkout", "-q", "-b", name, start)
    for commit in commits:
        clone.commit(commit)
    return clone.head()


def stack(clone: Clone, main: str = "default") -> dict[str, str]:
    """Make a commit on ``main``, and two branches above it; the ids of all three."""
    clone.git("checkout", "-q", main)
    tips = {main: clone.commit(f"on {main}")}
    for name in ("feature1", "feature2"):
        tips[name] = on_new_branch(clone, name, main, f"{name} a", f"{name} b")
    return tips


def fetched(clone: Clone, *names: str) -> list[str]:
    """Return what branches of the server are, after a fetch."""
    clone.git("fetch", "-q", "--prune")
    return clone.git("rev-parse", *(f"origin/{name}" for name in names)).split()


def leads_to(branch: str, ref: str) -> str:
    return (
        f"{branch} -> {branch} (the Mercurial branch '{branch}' will lead to "
        f"'refs/heads/{ref}', its newest head; fetch it after the push)"
    )


def test_stack_is_stored_and_its_lowest_branch_refused(
    server: PushServer, clone: Clone
) -> None:
    tips = stack(clone)
    said = clone.refused(*tips)
    assert said.count("[remote rejected]") == 1
    assert leads_to("default", "feature2") in said
    assert "remote: 'refs/heads/default' has changed, too: fetch it" in said
    shown = fetched(clone, *tips)
    assert shown == [tips["feature2"], tips["feature1"], tips["feature2"]]
    log = server.log()
    assert "default||public|on default" in log
    assert log[-1] == "default|feature2|public|feature2 b"
    assert len(log) == 7
    # what is to be done after that
    clone.git("checkout", "-q", "default")
    clone.git("pull", "-q", "--ff-only")
    clone.commit("more")
    clone.pushed("default")


def test_one_branch_above_is_enough(server: PushServer, clone: Clone) -> None:
    tip = on_new_branch(clone, "work", "default", "one", "two")
    said = clone.refused("work~1:default", "work")
    assert "'refs/heads/work', its newest head; fetch it after the push" in said
    assert fetched(clone, "work") == [tip]
    assert server.log()[-1] == "default|work|public|two"


@pytest.mark.parametrize("is_last", [False, True])
def test_branch_leads_to_its_commit_beside_others(
    server: PushServer, clone: Clone, *, is_last: bool
) -> None:
    """Whichever is the newest by its date."""
    for name in ("main", "side")[:: 1 if is_last else -1]:
        on_new_branch(clone, name, "origin/default", f"{name} a", f"{name} b")
    on_new_branch(clone, "later", "side~1", "later")
    refs = ("side", "main:default", "later")
    tips = [clone.git("rev-parse", it.partition(":")[0]) for it in refs]
    said = clone.pushed(*refs)
    assert "has changed, too" not in said
    assert fetched(clone, "side", "default", "later") == tips
    assert server.log()[-1] == "default||public|main b"
    assert len(server.log()) == 7
    clone.git("checkout", "-q", "main")
    clone.commit("more")
    clone.pushed("main:default")


def test_atomic_push_of_a_stack_says_what_to_push_first(
    server: PushServer, clone: Clone
) -> None:
    before = server.log()
    tips = stack(clone)
    said = clone.refused("--atomic", *tips)
    assert (
        "(the Mercurial branch 'default' would lead to 'refs/heads/feature2', its "
        "newest head; push that one later)"
    ) in said
    assert said.count("(another branch of the atomic push is refused; ") == 2
    assert server.log() == before
    clone.pushed("--atomic", "default")
    assert fetched(clone, "default") == [tips["default"]]
    clone.pushed("--atomic", "feature1", "feature2")
    assert len(server.log()) == 7


def test_atomic_push_of_branches_beside_each_other(
    server: PushServer, clone: Clone
) -> None:
    main = clone.commit("main")
    side = on_new_branch(clone, "side", "default~1", "side")
    clone.pushed("--atomic", "default", "side")
    assert fetched(clone, "default", "side") == [main, side]
    assert server.log()[-1] == "default||public|main"


def test_other_named_branches_are_alike(server: PushServer, clone: Clone) -> None:
    server.hg("branch", "-q", "stable")
    server.hg("commit", "-qm", "stable", "-d", "5 0")
    clone.git("fetch", "-q")
    main = clone.commit("main")
    clone.git("checkout", "-q", "stable")
    tips = stack(clone, "stable")
    said = clone.refused("default", *tips)
    assert leads_to("stable", "feature2") in said
    assert said.count("[remote rejected]") == 1
    assert fetched(clone, "default", "stable", "feature1") == [
        *(main, tips["feature2"], tips["feature1"])
    ]


def test_new_named_branch_is_the_newest_of_its_commits(
    server: PushServer, clone: Clone
) -> None:
    option = ("-o", "branch=stable")
    stable = on_new_branch(clone, "stable", "default", "s")
    above = on_new_branch(clone, "above", "stable", "t")
    said = clone.refused(*option, "stable", "above")
    assert leads_to("stable", "above") in said
    assert fetched(clone, "stable", "above") == [above, above]
    assert server.log()[-2:] == ["stable||public|s", "stable|above|public|t"]
    assert stable in clone.git("rev-list", "origin/stable")

    next_one = on_new_branch(clone, "next", "default", "n")
    beside = on_new_branch(clone, "beside", "default", "b")
    clone.pushed("-o", "branch=next", "next", "beside")
    assert fetched(clone, "next", "beside") == [next_one, beside]
    assert server.log()[-2:] == ["next|beside|public|b", "next||public|n"]


@pytest.mark.parametrize("ref", ["feature1@work", "tip"])
def test_branch_that_is_refused_is_in_nobodys_way(
    server: PushServer, clone: Clone, ref: str
) -> None:
    main = clone.commit("main")
    on_new_branch(clone, "work", "default", "above")
    said = clone.refused("default", f"work:refs/heads/{ref}")
    assert said.count("[remote rejected]") == 1
    assert "(no bookmark: " in said
    assert fetched(clone, "default") == [main]
    assert server.log()[-1] == "default||public|main"


def test_commit_that_is_refused_is_in_nobodys_way(
    server: PushServer, clone: Clone
) -> None:
    main = clone.commit("main")
    on_new_branch(clone, "work", "default")
    commit = clone.run("cat-file", "commit", "HEAD").stdout.decode()
    head, _empty, message = commit.partition("\n\n")
    (clone.root / "odd").write_text(f"{head}\nencoding koi8-r\n\n{message}above")
    odd = clone.git("hash-object", "-t", "commit", "-w", "odd")
    said = clone.refused("default", f"{odd}:refs/heads/work")
    assert said.count("[remote rejected]") == 1
    assert fetched(clone, "default") == [main]
    assert server.log()[-1] == "default||public|main"


def test_tags_are_on_top_of_a_stack_s_main_line(
    server: PushServer, clone: Clone
) -> None:
    """Their commit is a head beside the others, so it can be the newest."""
    tips = stack(clone)
    clone.git("tag", "v1", "default")
    clone.pushed(*tips, "v1")
    shown = fetched(clone, *tips, "default^")
    assert shown[1:] == [tips["feature1"], tips["feature2"], tips["default"]]
    assert server.log()[-1] == (
        f"default||public|Added tag v1 for changeset {server.node(shown[3])[:12]}"
    )


def test_commit_of_tags_is_the_newest_whatever_its_date(
    server: PushServer, clone: Clone
) -> None:
    clone.git("tag", "v1", "default")
    clone.git("checkout", "-q", "-b", "work")
    clone.commit("work")
    future = {"GIT_COMMITTER_DATE": "2090-01-01T00:00:00+0000"}
    assert not clone.run("commit", "-q", "--amend", "--no-edit", **future).returncode
    clone.pushed("work", "v1")
    assert fetched(clone, "work") == [clone.head()]
    assert server.log()[-1].startswith("default||public|Added tag v1")


def test_branches_that_wait_for_each_other(server: PushServer, clone: Clone) -> None:
    """Each has a merge of the other: only one of them can be the last."""
    server.hg("branch", "-q", "stable")
    server.hg("commit", "-qm", "stable", "-d", "5 0")
    clone.git("fetch", "-q")
    starts = {"default": "origin/default", "stable": "origin/stable"}
    new = {
        name: on_new_branch(clone, f"new-{name}", start, f"new {name}")
        for name, start in starts.items()
    }
    merges = {}
    for name, other in (("default", "stable"), ("stable", "default")):
        clone.git("checkout", "-q", "-b", f"merge-{name}", starts[name])
        clone.git("merge", "-q", "--no-ff", "-m", "merge", f"new-{other}")
        merges[f"merge-{name}"] = clone.head()
    said = clone.refused(*(f"new-{name}:{name}" for name in new), *merges)
    assert said.count("[remote rejected]") == 1
    refused = next(name for name in new if f"-> {name} (the Merc" in said)
    taken = next(name for name in new if name != refused)
    assert fetched(clone, *merges) == [*merges.values()]
    assert fetched(clone, taken, refused) == [new[taken], merges[f"merge-{refused}"]]
