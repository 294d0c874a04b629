"""Censored text is not answered any more, and leaves the git store."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from testlib import killpoints
from testlib.environment import ENVIRONMENT, HG, add_config
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.meanwhile import MEANWHILE
from testlib.planted import traces

pytestmark = pytest.mark.slow

WORD = b"planted7f3a"
CONFIG = "[extensions]\ncensor =\n[censor]\npolicy = ignore\n"


@pytest.fixture
def store(tmp_path: Path, server: HgServer) -> Exported:
    """A store that is not exported, with a secret in revision 1 of a file."""
    store = Exported.init(tmp_path / "repo", server)
    add_config(store.root, CONFIG)
    for text in ("public\n", f"{WORD.decode()}\n", "none\n"):
        store.commit("file", text=text, message="change")
    return store


def censor(store: Exported) -> None:
    store.hg("censor", "-r", "1", "file")


def check_gone(store: Exported) -> None:
    assert store.answers()
    assert not traces(store.amalgam, WORD)
    assert store.run("git::verify", "--full").code == 0
    assert store.hg("git::export") == "nothing new to export\n"


@pytest.mark.parametrize("when", ["before", "after"])
def test_censoring_during_the_first_export_is_noticed(
    store: Exported, tmp_path: Path, when: str
) -> None:
    (tmp_path / "meanwhile.py").write_text(MEANWHILE)
    environment = ENVIRONMENT | {
        "WHAT": "hg --config extensions.amalgam= censor -r 1 file",
        "WHEN": when,
        "PATH": f"{HG.parent}:{ENVIRONMENT['PATH']}",
    }
    command = [str(HG), "--config", "extensions.amalgam="]
    command += ["--config", f"extensions.meanwhile={tmp_path}/meanwhile.py"]
    subprocess.run(
        [*command, "git::export"], cwd=store.root, env=environment, check=True
    )
    check_gone(store)


def test_nothing_is_answered_until_the_next_export(store: Exported) -> None:
    store.hg("git::export")
    assert store.answers()
    censor(store)
    assert not store.answers()
    assert b"from before a censoring" in store.run("git::verify").out
    assert store.run("admin::amalgam").code == 1
    store.hg("git::export")
    check_gone(store)


def test_part_that_is_exported_after_it_has_no_censored_text(store: Exported) -> None:
    store.hg("git::export")
    censor(store)
    store.hg("git::export", "-r", "0")
    assert not traces(store.amalgam, WORD)
    store.hg("git::export")
    check_gone(store)


@pytest.mark.parametrize("what", ["git", "", "map"])
def test_backup_does_not_bring_the_text_back(store: Exported, what: str) -> None:
    store.hg("git::export")
    backup = store.root.parent / "backup"
    shutil.copytree(store.amalgam / what, backup)
    censor(store)
    store.hg("git::export")
    shutil.rmtree(store.amalgam / what)
    shutil.copytree(backup, store.amalgam / what)
    assert not (store.answers() and traces(store.amalgam, WORD))
    store.hg("git::export")
    check_gone(store)


def test_mark_that_cannot_be_written_is_told(store: Exported) -> None:
    store.hg("git::export")
    (store.root / ".hg/amalgam-censored/directory").mkdir(parents=True)
    done = store.run("censor", "-r", "1", "file")
    assert done.code == 0
    assert b"warning: cannot record the censoring: " in done.err
    assert b"(run 'hg git::export --rebuild')\n" in done.err
    assert not store.answers()
    done = store.run("git::export")
    assert done.code == 50
    assert b"amalgam-censored' is not a regular file" in done.err


@pytest.mark.torture
def test_export_killed_anywhere_answers_no_censored_text(
    store: Exported, tmp_path: Path
) -> None:
    store.hg("git::export")
    _node, oid = store.ids("1")
    blob = store.git("rev-parse", f"{oid}:file")
    censor(store)
    scratch = tmp_path / "scratch"
    killpoints.at_each(store.root, scratch, "git::export", gone=blob)
    assert not traces(scratch / "repo/.hg/amalgam", WORD)
