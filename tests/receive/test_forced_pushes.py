"""Commits that a forced push takes off a branch, and named branches that stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.pushing import Clone, PushServer, pushable

pytestmark = pytest.mark.slow

AT = "refs/heads/@"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    with pushable(tmp_path) as served:
        yield served
        served.check()


@pytest.fixture
def clone(server: PushServer) -> Clone:
    return server.clone()


def start(clone: Clone, name: str, at: str, commit: str) -> str:
    """Begin a branch with a commit; its id."""
    clone.git("checkout", "-q", "-b", name, at)
    return clone.commit(commit)


def amended(clone: Clone, commit: str) -> str:
    """Replace the last commit by another one."""
    clone.git("reset", "-q", "--hard", "HEAD~1")
    return clone.commit(commit)


def shown(clone: Clone, *names: str) -> list[str]:
    """Return the commits of branches of the server."""
    clone.git("fetch", "-q", "--prune")
    return clone.git("rev-parse", *(f"origin/{name}" for name in names)).split()


def leaves(oid: str, branch: str = "default") -> str:
    return (
        f"('refs/heads/{branch}' would leave commit {oid[:12]}, which would be on no "
        f"branch; git fetch, and rebase onto it, or make a branch for the main line: "
        f"git push origin COMMIT:{AT})"
    )


def left(oid: str, branch: str) -> str:
    return (
        f"remote: warning: {oid[:12]}, which 'refs/heads/{branch}' led to, is on no "
        "branch now, but public: everybody can fetch it by its id"
    )


def test_replaced_head_of_a_named_branch_stays(
    server: PushServer, clone: Clone
) -> None:
    """Also if its branch is deleted and made anew."""
    old = start(clone, "work", "default", "one")
    said = clone.pushed("work")
    assert "remote: 'refs/heads/default' has changed, too: fetch it" in said
    amended(clone, "two")
    before = server.log()
    assert f"work -> work {leaves(old)}" in clone.refused("--force", "work")
    assert server.log() == before
    assert shown(clone, "default", "work") == [old, old]
    clone.pushed(":work")
    assert leaves(old) in clone.refused("work")
    # the first way out
    clone.git("rebase", "-q", old)
    clone.pushed("work")
    assert shown(clone, "default", "work") == [clone.head(), clone.head()]


def test_replaced_head_stays_if_it_keeps_a_branch(
    server: PushServer, clone: Clone
) -> None:
    old = start(clone, "work", "default", "one")
    clone.pushed("work")
    new = amended(clone, "two")
    said = clone.pushed("--force", "work", f"{old}:refs/heads/before")
    assert (
        f"remote: warning: 'refs/heads/default' has left its commit for {new[:12]}"
        in said
    )
    assert "is on no branch now" not in said
    assert shown(clone, "default", "work", "before") == [new, new, old]


def test_named_branch_is_not_left_for_an_older_start(
    server: PushServer, clone: Clone
) -> None:
    main = clone.commit("main")
    clone.pushed("default")
    beside = start(clone, "work", "default~1", "beside")
    above = start(clone, "next", "default", "above")
    assert leaves(main) in clone.refused("work")
    # together with a branch above the tip, which is stored last
    said = clone.pushed("next", "work")
    assert "remote: 'refs/heads/default' has changed, too: fetch it" in said
    assert shown(clone, "default", "next", "work") == [above, above, beside]
    # the tip has a name now: named branches go where the newest head is
    last = start(clone, "last", "default~1", "last")
    said = clone.pushed("last")
    assert (
        f"remote: warning: 'refs/heads/default' has left its commit for {last[:12]}"
        in said
    )
    assert server.hg("log", "-r", "default", "-T", "{desc}") == "last"


def test_main_line_with_a_name_lets_branches_start_anywhere(
    server: PushServer, clone: Clone
) -> None:
    """The second way out."""
    main = clone.commit("main")
    clone.pushed("default")
    clone.pushed(f"origin/default:{AT}")
    old = start(clone, "work", "default~1", "one")
    said = clone.pushed("work")
    assert (
        f"remote: warning: 'refs/heads/default' has left its commit for {old[:12]}"
        in said
    )
    new = amended(clone, "two")
    assert left(old, "work") in clone.pushed("--force", "work")
    other = server.clone("other")
    assert shown(other, "@", "work") == [main, new]
    other.git("fetch", "-q", "origin", old)
    assert "is on no branch now" not in clone.pushed(":work")
    assert shown(other, "default", "@") == [new, main]


def test_stale_main_line_does_not_free_the_branch(
    server: PushServer, clone: Clone
) -> None:
    """The second way out, by who has not fetched."""
    stale = server.clone("stale")
    main = clone.commit("main")
    clone.pushed("default")
    start(stale, "work", "default", "beside")
    assert leaves(main) in stale.refused("work")
    for refs in (["origin/default:refs/heads/@"], ["work", "HEAD:refs/heads/main"]):
        said = stale.refused(*refs)
        assert f"without commit {main[:12]} of 'refs/heads/default'" in said
    assert shown(clone, "default") == [main]
    # nor does one that the same push takes away
    clone.pushed(f"origin/default:{AT}")
    stale.git("fetch", "-q")
    assert "would leave" in stale.refused("work", f":{AT}")
    assert shown(clone, "default", "@") == [main, main]


def test_drafts_that_become_obsolete_are_left_and_others_are_not(
    tmp_path: Path,
) -> None:
    hgrc = "[phases]\npublish = no\n[experimental]\nevolution = all\n"
    with pushable(tmp_path, hgrc=hgrc) as server:
        clone = server.clone()
        main = clone.commit("main")
        clone.pushed("default")
        before = server.log()
        start(clone, "beside", "default~1", "beside")
        assert leaves(main) in clone.refused("beside")
        assert server.log() == before
        start(clone, "work", "default", "one")
        clone.pushed("work")
        new = amended(clone, "two")
        said = clone.pushed("--force", "work")
        assert f"'refs/heads/default' has left its commit for {new[:12]}" in said
        assert "is on no branch now" not in said
        assert shown(clone, "default", "work") == [new, new]
        server.check()
