"""Git repositories that a repository follows: by hand, and by a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from testlib.environment import HG, git
from testlib.gitclone import Clone
from testlib.githost import Behaviour, GitHost, HostedRepository
from testlib.sshaccount import ON, Account
from testlib.webserver import serving, until

pytestmark = pytest.mark.slow


@pytest.fixture
def leader(host: GitHost) -> HostedRepository:
    made = host.add("leader.git")
    for name in ("one", "two"):
        made.edit("refs/heads/main", name)
    made.git("branch", "release/1", "main~1")
    made.git("branch", "wip/x", "main~1")
    made.git("tag", "-a", "-m", "annotated", "v1", "main~1")
    return made


def follower(tmp_path: Path, leader: HostedRepository, *items: str) -> Clone:
    made = Clone(tmp_path / "follower")
    made.hg("init", str(made.root))
    lines = ["[extensions]", "amalgam =", "[amalgam]", "git.serve = yes"]
    lines += [f"follow.up = {leader.url}", *items]
    (made.root / ".hg" / "hgrc").write_text("\n".join(lines) + "\n")
    return made


def bookmarks(clone: Clone) -> dict[str, str]:
    """Return bookmarks, and the ids of their commits as the git store has them."""
    lines = clone.hg("bookmarks", "-T", "{bookmark} {node}\n").split("\n")
    nodes = dict(line.split() for line in lines if line)
    return {
        name: clone.hg("log", "-r", node, "-T", "{gitnode}")
        for name, node in nodes.items()
    }


def heads(leader: HostedRepository) -> dict[str, str]:
    found = leader.refs().items()
    return {
        name.removeprefix("refs/heads/"): oid
        for name, oid in found
        if name.startswith("refs/heads/")
    }


def test_branches_lead_bookmarks(tmp_path: Path, leader: HostedRepository) -> None:
    clone = follower(tmp_path, leader, "follow.up.refs = * refs/tags/* !wip/*")
    assert clone.hg("git::follow") == "up: 2 new changesets\n"
    wanted = heads(leader)
    del wanted["wip/x"]
    assert bookmarks(clone) == wanted
    assert clone.hg("log", "-r", "v1", "-T", "{desc}") == "one"
    assert clone.hg("git::follow", "up") == "up: no new changesets\n"
    # a rewritten branch, a deleted one, and one that somebody has moved here
    leader.git("update-ref", "refs/heads/moved", "main~1")
    clone.hg("git::follow", "-q")
    clone.hg("bookmark", "-q", "-f", "-r", "main", "moved")
    leader.git("update-ref", "refs/heads/main", "main~1")
    leader.edit("refs/heads/main", "instead")
    leader.git("update-ref", "-d", "refs/heads/release/1")
    code, output = clone.run("git::follow")
    assert (code, output.splitlines()) == (
        0,
        [
            "up: 1 new changeset",
            "bookmark 'moved' is not where up has the branch",
            "(hg bookmark -f -r up/moved moved)",
        ],
    )
    _code, output = clone.run("admin::amalgam")
    assert "bookmark 'moved' is not where 'up' has the branch" in output
    clone.hg("bookmark", "-q", "-f", "-r", "up/moved", "moved")
    wanted = heads(leader)
    del wanted["wip/x"]
    assert bookmarks(clone) == wanted
    found = json.loads(clone.hg("git::follow", "-T", "json"))
    assert [(it["name"], it["changesets"], it["moved"]) for it in found] == [
        ("up", 0, [])
    ]


def test_git_clients_get_what_the_leader_has(
    tmp_path: Path, leader: HostedRepository
) -> None:
    # the newest head, which is default in Mercurial
    leader.edit("refs/heads/wip/x", "newest")
    clone = follower(tmp_path, leader, "git.refs = bookmarks, tags")
    clone.hg("git::follow", "-q")
    with serving(clone.root) as server:
        git(tmp_path, "clone", "-q", "--bare", server.url, "clone")
    got = HostedRepository(tmp_path / "clone", server.url)
    assert got.refs() == leader.refs()
    assert got.git("symbolic-ref", "HEAD") == "refs/heads/main"


def test_git_clients_check_out_what_the_leader_does(
    tmp_path: Path, leader: HostedRepository
) -> None:
    leader.edit("refs/heads/trunk", "trunk")
    leader.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    items = ("git.refs = bookmarks, tags", "follow.up.refs = * refs/tags/* !wip/*")
    clone = follower(tmp_path, leader, *items)

    def head() -> str:
        clone.hg("git::follow", "-q")
        clone.hg("git::verify")
        with serving(clone.root) as server:
            listed = git(tmp_path, "ls-remote", "--symref", server.url, "HEAD")
        symref: str = listed.decode().split()[1]
        return symref

    assert head() == "refs/heads/trunk"
    bundle = str(tmp_path / "bundle")
    clone.hg("git::bundle", "-q", bundle)
    listed = git(tmp_path, "bundle", "list-heads", bundle).decode().splitlines()
    oid = leader.refs()["refs/heads/trunk"]
    assert f"{oid} HEAD" in listed
    # another branch, while no ref moves, and one that is not followed
    leader.git("symbolic-ref", "HEAD", "refs/heads/release/1")
    assert head() == "refs/heads/release/1"
    leader.git("symbolic-ref", "HEAD", "refs/heads/wip/x")
    assert head() == "refs/heads/main"
    # none, and again one
    leader.git("symbolic-ref", "HEAD", "refs/heads/gone")
    assert head() == "refs/heads/main"
    leader.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    assert head() == "refs/heads/trunk"
    # a damaged record counts as none
    (name,) = (clone.root / ".hg" / "amalgam" / "fetched").glob("*.head")
    good = name.read_bytes()
    for content in (b"", good.replace(b"trunk", b"\xff"), b"trunk\n", bytes(1 << 17)):
        name.write_bytes(content)
        clone.hg("git::export", "-q")
        clone.hg("git::verify")
        (written,) = (clone.root / ".hg" / "amalgam" / "git").glob("*/HEAD")
        assert written.read_text() == "ref: refs/heads/main\n"


def test_names_that_the_locale_lacks_are_kept(
    tmp_path: Path, leader: HostedRepository
) -> None:
    def change(text: str) -> None:
        for name in ("é", "ü", "日/本"):
            leader.edit(f"refs/heads/{name}", text)

    change("one")
    leader.git("symbolic-ref", "HEAD", "refs/heads/ü")
    clone = follower(tmp_path, leader, "git.refs = bookmarks, tags")
    for text in ("two", "three"):
        clone.hg("git::follow", "-q", HGENCODING="ascii")
        assert bookmarks(clone) == heads(leader)
        with serving(clone.root) as server:
            git(tmp_path, "clone", "-q", "--bare", server.url, text)
        got = HostedRepository(tmp_path / text, server.url)
        assert got.refs() == leader.refs()
        assert got.git("symbolic-ref", "HEAD") == "refs/heads/ü"
        change(text)
    leader.git("update-ref", "-d", "refs/heads/é")
    clone.hg("git::follow", "-q", HGENCODING="latin-1")
    assert bookmarks(clone) == heads(leader)


def test_failures_are_told_and_hold_back_nothing(
    tmp_path: Path, host: GitHost, leader: HostedRepository
) -> None:
    other = host.add("other.git")
    other.edit("refs/heads/other", "other")
    clone = follower(tmp_path, leader, f"follow.other = {other.url}")
    leader.behaviour = Behaviour(status=503)
    for _look in range(3):
        code, output = clone.run("git::follow")
        assert code == 1
        assert "following up failed: git cannot read" in output
    assert clone.hg("log", "-T", "{desc}") == "other"
    code, output = clone.run("admin::amalgam")
    assert code == 1
    assert "following 'up' failed 3 times" in output
    metrics = clone.hg("admin::amalgam", "--metrics")
    assert 'remote="up"} 3\n' in metrics.partition("follow_failures")[2]
    leader.behaviour = Behaviour()
    assert "up: 2 new changesets" in clone.hg("git::follow", "up")
    assert "nothing is wrong" in clone.hg("admin::amalgam")


def test_mistakes_are_named(tmp_path: Path, leader: HostedRepository) -> None:
    clone = follower(tmp_path, leader, "follow.up.refs = main:trunk")
    assert clone.run("git::follow") == (
        1,
        "following up failed: amalgam.follow.up.refs cannot rename"
        " (leave out the colon, and the name after it)\n",
    )
    assert clone.run("git::follow", "down") == (
        255,
        "abort: unknown git repository 'down'\n(known names: up)\n",
    )
    off = ("--config", "amalgam.follow.up=")
    assert clone.run("git::follow", *off) == (
        255,
        "config error: no git repository is followed\n(set amalgam.follow.NAME)\n",
    )


def test_a_server_looks_when_it_is_time(
    tmp_path: Path, leader: HostedRepository
) -> None:
    clone = follower(tmp_path, leader, "follow.up.interval = 1")
    with serving(clone.root) as server:

        def has(name: str) -> bool:
            server.ask("/?cmd=capabilities")
            shown = git(tmp_path, "ls-remote", server.url)
            return heads(leader)[name].encode() in shown

        until(lambda: has("main"))
        leader.edit("refs/heads/main", "later")
        until(lambda: has("main"))
    look = (clone.root / ".hg/amalgam/follow/up/last").read_text()
    assert "looks" in look


@pytest.mark.parametrize(
    "command",
    [
        [str(HG), "identify", "ssh://host/follower"],
        ["git", "ls-remote", "host:follower"],
    ],
)
def test_clients_over_ssh_let_it_look(
    tmp_path: Path, leader: HostedRepository, command: list[str]
) -> None:
    clone = follower(tmp_path, leader, "follow.up.interval = 1")
    account = Account(tmp_path, "follower")
    (tmp_path / "hgrc").write_text(ON + f"[ui]\nssh = {account.ssh}\n")

    def has_followed() -> bool:
        account.client(command, HGRCPATH=str(tmp_path / "hgrc"))
        return clone.hg("log", "-T", "{desc} ") == "two one "

    until(has_followed)
