"""Remotes that follow each change, in the background, each at its own pace."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from testlib.environment import captured, git
from testlib.exported import Exported
from testlib.githost import Behaviour, GitHost, HostedRepository

pytestmark = pytest.mark.slow


def follow(store: Exported, remotes: dict[str, HostedRepository]) -> None:
    with (store.root / ".hg" / "hgrc").open("a") as file:
        file.write("\n[amalgam]\n")
        for name, remote in remotes.items():
            file.write(f"replicate.{name} = {remote.url}\n")
            file.write(f"replicate.{name}.on-change = yes\n")


def wanted(store: Exported) -> dict[str, str]:
    form = "--format=%(refname) %(objectname)"
    listed = store.git("for-each-ref", form, "refs/heads", "refs/tags")
    return dict(line.split(" ") for line in listed.splitlines())


def has_tip(remote: HostedRepository, store: Exported) -> bool:
    return remote.refs().get("refs/heads/default") == store.ids("tip")[1]


def until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


def is_idle(store: Exported) -> bool:
    """Return whether no replicator holds the lock."""
    lock = store.amalgam / "replicate" / ".worker" / "lock"
    return captured(["flock", "-n", str(lock), "true"], store.root).returncode == 0


def test_all_remotes_follow_and_none_holds_back_the_others(
    store: Exported, host: GitHost
) -> None:
    one, two = "lock", "sleeper"  # any name may be chosen
    remotes = {name: host.add(name) for name in (one, two, "slow", "down")}
    follow(store, remotes)
    remotes["slow"].behaviour = Behaviour(piece_seconds=1)
    remotes["down"].behaviour = Behaviour(status=503)
    store.commit("more")
    until(lambda: all(remotes[it].refs() == wanted(store) for it in (one, two)))
    assert remotes["down"].refs() == {}
    until((store.amalgam / "replicate" / "down" / "failure").exists)
    shown = store.run("admin::amalgam").out.decode()
    assert re.search(r"down +failed, \d times? in a row", shown)
    # while others wait or work, a change reaches the first ones
    store.commit("even more")
    until(lambda: has_tip(remotes[one], store) and has_tip(remotes[two], store))
    # and the others get all of it, by themselves
    remotes["slow"].behaviour = remotes["down"].behaviour = Behaviour()
    until(lambda: all(it.refs() == wanted(store) for it in remotes.values()), 60)
    until(lambda: is_idle(store))
    assert "nothing is wrong" in store.run("admin::amalgam").out.decode()


def test_changes_in_a_row_are_pushed_together(store: Exported, host: GitHost) -> None:
    remote = host.add("mirror")
    store.hg("git::push", remote.url)
    follow(store, {"mirror": remote})  # with the same ledger
    before = len(remote.pushes())
    for number in range(6):
        store.hg("bookmark", "-f", "-r", str(number), "moving")
    moving, last = "refs/heads/moving", store.ids("5")[1]
    until(lambda: remote.refs().get(moving) == last and is_idle(store))
    assert len(remote.pushes()) - before < 5
    assert git(remote.path, "fsck") is not None


def test_a_login_that_fails_waits_for_a_person_and_is_tried_seldom(
    store: Exported, host: GitHost
) -> None:
    remote = host.add("mirror", Behaviour(status=403))
    follow(store, {"mirror": remote})
    store.commit("more")
    failure = store.amalgam / "replicate" / "mirror" / "failure"
    until(failure.exists)
    until(lambda: is_idle(store))
    first = failure.read_bytes()
    assert b"403" in first
    store.commit("even more")
    until(lambda: remote.refs() == {} and is_idle(store))
    time.sleep(3)
    assert failure.read_bytes() == first
    assert b"needs a person" in store.run("admin::amalgam").out
    remote.behaviour = Behaviour()
    assert store.run("git::push", "mirror").code == 0
    assert remote.refs() == wanted(store)
    sleepers = captured(["ps", "-eo", "pid,args"], store.root).stdout.decode()
    for line in sleepers.splitlines():
        if str(store.root) in line and "debug::amalgam-replicate" in line:
            captured(["kill", line.split()[0]], store.root)
