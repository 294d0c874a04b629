"""How Mercurial opens the indexes of real repositories, in this process."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mercurial import changelog, vfs
from testlib import indexmaps
from testlib.environment import hg
from testlib.indexmaps import mapped_files, open_indexes

from hgext3rd.amalgam.index import opening as index
from hgext3rd.amalgam.index.decision import Decision, Reason

pytestmark = [pytest.mark.slow, pytest.mark.needs("maps")]

SPLIT = ["--config", f"extensions.indexmaps={indexmaps.__file__}"]
SPLIT += ["--config", "indexmaps.split=yes"]
V2 = "format.exp-use-changelog-v2=enable-unstable-format-and-corrupt-my-data"


@pytest.fixture
def ui(mapping_ui: Any) -> Any:
    return mapping_ui


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three changesets, no revlog inline."""
    return make(tmp_path_factory.mktemp("made") / "repo")


@pytest.fixture
def path(tmp_path: Path, made: Path) -> Path:
    """That repository, for one test alone."""
    return shutil.copytree(made, tmp_path / "repo")


@pytest.fixture(autouse=True)
def _collected() -> None:
    """Nothing is left of the tests before."""
    gc.collect()


@pytest.fixture
def no_gc(_collected: None) -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def make(path: Path, *config: str) -> Path:
    options = [word for item in config for word in ("--config", item)]
    hg(path.parent, "init", path.name, *options)
    for name in ("one", "dir/two", "dir/three"):
        commit(path, name)
    return path


def commit(path: Path, name: str) -> None:
    file = path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(name)
    hg(path, "commit", "-q", "--addremove", "-m", name, *SPLIT)


def opened(ui: Any, path: Path) -> Any:
    return indexmaps.open_repository(ui, bytes(path)).unfiltered()


def snapshot_of(storage: Any) -> str:
    how = index.opened_index(storage.get_revlog())
    assert how
    assert how.snapshot
    return os.fsdecode(how.snapshot.path)


def reasons(repo: Any) -> dict[bytes, Reason]:
    return {found.name: found.reason for found in index.decisions(repo)}


def test_indexes_that_are_not_open_are_opened(ui: Any, path: Path) -> None:
    repo = opened(ui, path)
    assert not mapped_files()
    assert index.decisions(repo) == [
        Decision(
            name=name,
            path=bytes(path / ".hg/store" / os.fsdecode(name)) + b".i",
            size_bytes=192,
            reason=Reason.LARGE_ENOUGH,
            threshold_bytes=0,
            item=b"experimental.mmapindexthreshold",
        )
        for name in (b"00changelog", b"00manifest")
    ]
    assert len(mapped_files()) == 2
    assert open_indexes() == 0


def test_view_of_a_repository_answers_for_the_whole(ui: Any, path: Path) -> None:
    repo = opened(ui, path).filtered(b"served")
    assert len(repo.changelog) == 3
    assert set(reasons(repo).values()) == {Reason.LARGE_ENOUGH}
    assert len(mapped_files()) == 2


def test_index_that_grew_is_mapped_anew_and_the_old_one_let_go(
    ui: Any, path: Path
) -> None:
    repo = opened(ui, path)
    for count in (4, 5):
        index.decisions(repo)
        commit(path, f"{count}")
        repo.invalidate()
        assert len(repo.changelog) == count
        assert [found.size_bytes for found in index.decisions(repo)] == [count * 64] * 2
        gc.collect()
        assert len(mapped_files()) == 2


@pytest.mark.usefixtures("no_gc")
def test_dropped_index_is_unmapped_at_once(ui: Any, path: Path) -> None:
    repo = opened(ui, path)
    changes = repo.store.changelog(False)
    assert len(changes) == 3
    assert mapped_files() == [snapshot_of(changes)]
    assert open_indexes() == 0
    del changes
    assert not mapped_files()


def test_repositories_do_not_share_the_switch(ui: Any, path: Path) -> None:
    other = ui.copy()
    other.setconfig(b"extensions", b"amalgam", b"!")
    without = opened(other, path)
    assert len(without.changelog) == 3
    assert index.decisions(without) == []
    assert not mapped_files()
    assert len(index.decisions(opened(ui, path))) == 2
    assert index.decisions(opened(other, path)) == []


def test_each_file_system_is_asked(
    ui: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_mmap_safe(_vfs: Any, name: bytes) -> bool:
        return name != b"00changelog.i"

    monkeypatch.setattr(vfs.abstractvfs, "is_mmap_safe", is_mmap_safe)
    repo = opened(ui, path)
    assert reasons(repo) == {
        b"00changelog": Reason.UNSAFE_FILE_SYSTEM,
        b"00manifest": Reason.LARGE_ENOUGH,
    }
    assert mapped_files() == [snapshot_of(repo.manifestlog.getstorage(b""))]


def test_tree_manifests_are_told_once_they_are_open(ui: Any, tmp_path: Path) -> None:
    repo = opened(ui, make(tmp_path / "trees", "experimental.treemanifest=yes"))
    assert set(reasons(repo)) == {b"00changelog", b"00manifest"}
    assert b"dir/two" in repo[b"tip"].manifest()
    assert reasons(repo)[b"meta/dir/00manifest"] is Reason.LARGE_ENOUGH
    tree = repo.manifestlog.getstorage(b"dir/")
    assert snapshot_of(tree) in mapped_files()


def test_index_with_a_docket_is_told_and_not_the_docket(
    ui: Any, tmp_path: Path
) -> None:
    hg(tmp_path, "init", "empty", "--config", V2)
    assert reasons(opened(ui, tmp_path / "empty"))[b"00changelog"] is Reason.MISSING
    path = make(tmp_path / "v2", V2)
    repo = opened(ui, path)
    found = index.decisions(repo)[0]
    assert found.reason is Reason.LARGE_ENOUGH
    assert found.path.endswith(b".idx")
    assert found.size_bytes == 3 * 96
    assert snapshot_of(repo.changelog) in mapped_files()


class Curious:
    """A logger that looks at the repository, as that of blackbox does."""

    def __init__(self) -> None:
        self.repo: Any = None
        self.lines: list[bytes] = []

    def tracked(self, event: bytes) -> bool:
        return event == b"amalgam-index" and self.repo is not None

    def log(self, ui: Any, event: bytes, msg: bytes, opts: Any) -> None:
        self.lines.append(b"%d changesets; %s" % (len(self.repo.changelog), msg))


def test_each_decision_is_logged_once_and_opens_nothing_twice(
    ui: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = opened(ui, path)
    logger = Curious()
    repo.ui.setlogger(b"curious", logger)
    logger.repo = repo
    count = 0
    construct = changelog.changelog.__init__

    def counting(*args: Any, **kwargs: Any) -> None:
        nonlocal count
        count += 1
        construct(*args, **kwargs)

    monkeypatch.setattr(changelog.changelog, "__init__", counting)
    assert len(repo.changelog) == 3
    assert logger.lines == []
    index.decisions(repo)
    index.decisions(repo)
    repo.close()
    assert count == 1
    assert [line.split(b", ")[0] for line in logger.lines] == [
        b"3 changesets; 00changelog: mapped: 192 bytes",
        b"3 changesets; 00manifest: mapped: 192 bytes",
    ]


@pytest.mark.torture
def test_a_thousand_repository_objects(ui: Any, path: Path) -> None:
    kept = opened(ui, path)
    index.decisions(kept)
    for _turn in range(1000):
        index.decisions(opened(ui, path))
        assert open_indexes() == 0
    gc.collect()
    assert len(mapped_files()) == 2
