"""What ``git::export --estimate`` tells before there is a store."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from testlib.exported import Exported
from testlib.generated import generate
from testlib.hgserver import HgServer

from hgext3rd.amalgam.commands import export as estimates


def estimate(store: Exported, *options: str) -> dict[str, int]:
    """Return what it tells programs."""
    done = store.run("git::export", "--estimate", "-T", "json", *options)
    assert (done.code, done.err) == (0, b"")
    found: dict[str, int]
    (found,) = json.loads(done.out)
    return found


def files_of(root: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in root.rglob("*")}


def test_nothing_is_written(store: Exported) -> None:
    shutil.rmtree(store.amalgam)
    before = files_of(store.root)
    assert not estimate(store)["exists"]
    assert files_of(store.root) == before


def test_contents_are_what_hg_counts(store: Exported) -> None:
    found = estimate(store)
    assert found["exists"]
    assert found["changesets"] == int(store.hg("log", "-r", "tip", "-T", "{rev}")) + 1
    assert found["manifests"] == len(sizes(store, "-m"))
    names = {*store.hg("log", "-T", "{join(files, '\n')}\n").splitlines()} - {""}
    revisions = {name: sizes(store, name) for name in names}
    assert found["files"] == len(names)
    assert found["file_revisions"] == sum(map(len, revisions.values()))
    assert found["text_bytes"] == sum(map(sum, revisions.values()))
    levels = sum(name.count("/") * len(own) for name, own in revisions.items())
    assert found["levels"] == levels > 0


def sizes(store: Exported, revlog: str) -> list[int]:
    """Return how long the texts of a revlog are."""
    lines = store.hg("debugrevlogindex", "-f1", revlog).splitlines()[1:]
    return [int(line.split()[2]) for line in lines]


def test_secret_changesets_count(store: Exported) -> None:
    before = estimate(store)["changesets"]
    store.hg("phase", "--force", "--secret", "tip")
    assert estimate(store)["changesets"] == before


@pytest.mark.slow
def test_forecast_of_disk_holds_for_a_real_export(
    tmp_path: Path, server: HgServer
) -> None:
    root = generate(tmp_path / "generated", "realistic", "--changesets=1000")
    store = Exported(root, server)
    forecast = estimate(store)["disk_bytes"]
    store.hg("git::export")
    files = [path for path in store.amalgam.rglob("*") if path.is_file()]
    real = sum(path.stat().st_size for path in files)
    assert forecast == pytest.approx(real, rel=0.2)


@pytest.mark.parametrize("free", [1 << 10, 1 << 40])
def test_too_little_room_is_a_warning(
    store: Exported, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    monkeypatch.setattr(estimates, "free_bytes", lambda _store: free)
    repo = store.open()
    repo.ui.pushbuffer(error=True)
    estimates.show_estimate(repo.ui, repo, estimate=True, dialect=b"", template=b"json")
    said = repo.ui.popbuffer()
    assert (b"warning: too little disk space: " in said) == (free == 1 << 10)


def test_room_is_that_of_the_configured_directory(store: Exported) -> None:
    path = store.root.parent / "not" / "yet" / "there"
    option = f"--config=amalgam.git.path={path}"
    there = os.statvfs(store.root.parent)
    found = estimate(store, option)["free_bytes"]
    assert found == pytest.approx(there.f_bavail * there.f_frsize, rel=0.1)
    assert not path.exists()


@pytest.mark.parametrize("option", ["--rebuild", "--metadata", "--rev=0", "--full"])
def test_options_of_an_export_have_no_meaning(store: Exported, option: str) -> None:
    done = store.run("git::export", "--estimate", option)
    assert (done.code, done.out) == (10, b"")
    assert done.err.startswith(b"abort: cannot specify both --estimate and --")
