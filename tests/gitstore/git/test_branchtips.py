"""Tips of branches that are followed, compared with those that Mercurial finds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from testlib.changing import Repo
from testlib.exported import Exported
from testlib.hgserver import HgServer

from hgext3rd.amalgam.files import Directory, Placement
from hgext3rd.amalgam.gitstore import selection
from hgext3rd.amalgam.gitstore.git import lastnames
from hgext3rd.amalgam.gitstore.git.branchtips import BranchTips

DIALECT = b"cinnabar"
STEPS = 120
TIPS = ".hg/amalgam/map/cinnabar.tips"


def truth(view: Any) -> dict[bytes, bytes]:
    """Return what Mercurial says of open branches, without any cache."""
    for name in view.cachevfs.listdir():
        if name.startswith(b"branch"):
            view.cachevfs.unlink(name)
    branches = view.branchmap()
    return {
        branch: branches.branchtip(branch)
        for branch in branches
        if branches.branchheads(branch)
    }


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("export", [b"served", b"public"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("SEEDS", "2"))))
def test_tips_are_those_that_mercurial_finds(
    tmp_path: Path, server: HgServer, seed: int, export: bytes
) -> None:
    changing = Repo(Exported.init(tmp_path / "repo", server), seed)
    directory = Directory(os.fsencode(tmp_path))
    placement = Placement.of(changing.open())
    followed = asked = 0
    for _step in range(STEPS):
        changing.step()
        repo = changing.open()
        view = selection.view_of(repo, export)
        selected = selection.select(repo, export)
        known = BranchTips.read(directory, DIALECT)
        tips = known.followed(view, selected) if known else None
        wanted = truth(selection.view_of(changing.open(), export))
        assert tips in (None, wanted)
        if tips is None:
            asked += 1
        else:
            followed += 1
        now = BranchTips.of(view, selected, wanted)
        if now is not None:
            now.write(directory, DIALECT, placement)
            assert BranchTips.read(directory, DIALECT) == now
    assert asked
    assert followed > STEPS // 4


@pytest.mark.slow
def test_refs_follow_branches_through_exports(tmp_path: Path, server: HgServer) -> None:
    store = Exported.init(tmp_path / "repo", server)
    changing = Repo(store, 7)
    for _step in range(STEPS // 4):
        changing.step()
        store.hg("git::export")
        truth(store.open())
        done = store.run("git::verify")
        assert done.code == 0, done
    assert (store.root / TIPS).exists()


def test_closed_branch_falls_back_to_its_other_head(
    tmp_path: Path, server: HgServer
) -> None:
    store = Exported.make(tmp_path / "repo", server)
    other = store.ids("tip")[1]
    store.hg("update", "-q", "-r", "tip^")
    store.commit_nothing("another head")
    store.hg("git::export")
    assert store.git("rev-parse", "refs/heads/default") != other
    store.hg("commit", "-q", "--close-branch", "-m", "closed")
    store.hg("git::export")
    assert store.git("rev-parse", "refs/heads/default") == other


def test_obsolete_tip_that_is_still_shown_is_no_head(
    tmp_path: Path, server: HgServer
) -> None:
    store = Exported.make(tmp_path / "repo", server)
    before = store.git("rev-parse", "refs/heads/default")
    drafts = (
        "--config",
        "phases.new-commit=draft",
        "--config",
        "experimental.evolution=all",
    )
    empty = ("--config", "ui.allowemptycommit=yes")
    store.hg(*drafts, *empty, "commit", "-qm", "will be obsolete")
    store.hg("branch", "-q", "other")
    store.hg(*drafts, *empty, "commit", "-qm", "keeps it")
    store.hg("git::export")
    assert store.git("rev-parse", "refs/heads/default") != before
    store.hg(*drafts, "debugobsolete", store.ids("tip^")[0])
    store.hg("git::export")
    assert store.git("rev-parse", "refs/heads/default") == before


def test_wrong_tips_are_mended_by_repair(tmp_path: Path, server: HgServer) -> None:
    store = Exported.make(tmp_path / "repo", server)
    right = store.git("show-ref", "--heads")
    repo = store.open()
    view = selection.view_of(repo, b"served")
    wrong = dict.fromkeys(truth(view), repo[0].node())
    made = BranchTips.of(view, selection.select(repo, b"served"), wrong)
    assert made is not None
    directory = Directory(os.fsencode(store.map_dir))
    made.write(directory, DIALECT, Placement.of(repo))
    lastnames.forget(directory, DIALECT)
    store.hg("git::export")
    assert store.git("show-ref", "--heads") != right

    assert store.run("git::verify").code
    store.run("admin::amalgam", "--repair")
    assert store.git("show-ref", "--heads") == right
    assert store.run("git::verify").code == 0


@pytest.mark.parametrize("content", [b"", b"torn", b"amalgam branch tips 1\nsum 0\n"])
def test_damaged_tips_count_as_lost(
    tmp_path: Path, server: HgServer, content: bytes
) -> None:
    store = Exported.make(tmp_path / "repo", server)
    (store.root / TIPS).write_bytes(content)
    store.commit_nothing("one more")
    store.hg("git::export")
    assert store.ids("tip")[1] == store.git("rev-parse", "refs/heads/default")
