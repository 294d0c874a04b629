"""Removal of ``.hg/amalgam`` where everything is in use: it is derived, and a state."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from testlib.bundled import Bundled, Served, uploading
from testlib.environment import git, hg

pytestmark = pytest.mark.slow

STATE_COMMANDS = (
    ("admin::amalgam",),
    ("admin::amalgam", "--repair"),
    ("admin::amalgam", "--metrics"),
    ("admin::amalgam", "-T", "json"),
)


def clone_all(served: Served, directory: Path, rev: str) -> None:
    """Clone with hg and git; both have the changeset ``rev``."""
    hg(directory, "clone", "-q", served.url, "by-hg")
    shown = hg(directory / "by-hg", "log", "-r", "tip", "-T", "{node}")
    assert shown.decode() == rev
    git(directory, "clone", "-q", served.url, "by-git")
    assert git(directory / "by-git", "rev-parse", "HEAD").strip()
    for name in ("by-hg", "by-git"):
        shutil.rmtree(directory / name)


@pytest.mark.parametrize("place", ["here", "uploaded"])
def test_everything_derived_may_be_removed_under_a_running_server(
    published: Bundled, tmp_path: Path, place: str
) -> None:
    if place == "uploaded":
        uploading(published)
        published.hg("admin::clone-bundles-clear")
        published.refresh()
    published.configure("amalgam", git__serve="yes", git__export_on_change="yes")
    published.configure("experimental", mmapindex="yes", mmapindexthreshold="0")
    # more than the state of the bundles, and nothing more
    tip = published.hg("log", "-r", "tip", "-T", "{node}")
    for is_newer in (False, True):
        if is_newer:
            tip = published.commit()
        with published.served() as served:
            clone_all(served, tmp_path, tip)
            published.hg("git::export")
            live = published.live_names()
            assert live
            assert (published.dot_hg / "amalgam/index").is_dir()
            shutil.rmtree(published.dot_hg / "amalgam")
            clone_all(served, tmp_path, tip)
            assert not served.capabilities() & {"clonebundles", "cinnabarclone"}
            for command in STATE_COMMANDS:
                done = published.run(*command)
                assert b"abort" not in done.err, (command, done.err)
            texts = {it["text"] for it in published.problems()}
            lost = [
                it for it in texts if "register entry of a bundle was removed" in it
            ]
            assert len(lost) == len(live)
            assert not published.rows("live")
            clone_all(served, tmp_path, tip)
            published.refresh()
            assert not published.problems()
            assert published.named()
            assert published.named() <= published.live_names()
            clone_all(served, tmp_path, tip)
            assert "clonebundles" in served.capabilities()
    # exports and bundles by changes come back by themselves
    shutil.rmtree(published.dot_hg / "amalgam")
    tip = published.commit()
    with published.served() as served:
        clone_all(served, tmp_path, tip)
        head = git(tmp_path, "ls-remote", served.url, "HEAD").split()[0]
    assert published.hg("log", "-r", "tip", "-T", "{gitnode}").encode() == head
    published.hg("git::verify")


def test_state_is_shown_of_bundles_from_before_amalgam(published: Bundled) -> None:
    """Mercurial's own, up to the last changeset: nothing is newer."""
    published.hg("admin::clone-bundles-clear")
    shutil.rmtree(published.dot_hg / "amalgam")
    inline = "clone-bundles.auto-generate.serve-inline=yes"
    stock = ("--config", "extensions.amalgam=!", "--config", inline)
    published.hg(*stock, "admin::clone-bundles-refresh")
    assert "revs-" in published.read("clonebundles.manifest")
    for command in STATE_COMMANDS:
        done = published.run(*command)
        assert done.code == 0, (command, done.err)
    (row,) = (row for row in published.rows() if row["format"] == "gzip-v2")
    assert (row["state"], row["missing"]) == ("live", 0)
    published.commit()
    (row,) = (row for row in published.rows() if row["format"] == "gzip-v2")
    assert row["missing"] == 1
    published.refresh()
    (shown,) = json.loads(published.run("admin::amalgam", "-T", "json").out)
    assert not shown["problems"]
