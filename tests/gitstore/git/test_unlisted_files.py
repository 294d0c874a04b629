"""What others put into a git store: never answered from, and gone after an export."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.planted import traces

from hgext3rd.amalgam.gitstore.export.export import export

pytestmark = pytest.mark.slow

WORD = b"planted7f3a"


@pytest.fixture(scope="module")
def stripped_template(
    tmp_path_factory: pytest.TempPathFactory, server: HgServer
) -> Exported:
    """An exported store that once had a secret, and a copy of when it had."""
    root = tmp_path_factory.mktemp("stripped") / "repo"
    store = Exported.init(root, server)
    (root / "file").write_text("public\n")
    store.hg("commit", "-qAm", "public", "-d", "0 0")
    (root / "file").write_text(f"{WORD.decode()}\n" * 50)
    store.hg("commit", "-qm", WORD.decode(), "-d", "0 0")
    store.hg("git::export")
    store.git("commit-graph", "write", "--reachable")
    shutil.copytree(store.git_dir, root.parent / "before")
    store.hg("--config", "extensions.strip=", "strip", "-q", "--no-backup", "tip")
    store.hg("git::export")
    assert not traces(store.amalgam, WORD)
    return store


@pytest.fixture
def store(stripped_template: Exported, tmp_path: Path) -> Exported:
    shutil.copytree(before(stripped_template), tmp_path / "before")
    return stripped_template.copied(tmp_path)


def before(store: Exported) -> Path:
    """The git store as it was when it had the secret."""
    return store.root.parent / "before"


def late_repack(store: Exported) -> None:
    for path in (before(store) / "objects/pack").iterdir():
        shutil.copy(path, store.packs_dir)


def other_name(store: Exported) -> None:
    for path in (before(store) / "objects/pack").iterdir():
        shutil.copy(path, store.packs_dir / f"other{path.name}")


def restored_backup(store: Exported) -> None:
    shutil.copytree(before(store), store.git_dir, dirs_exist_ok=True)


def replaced_by_backup(store: Exported) -> None:
    shutil.rmtree(store.git_dir)
    shutil.copytree(before(store), store.git_dir)


def late_repack_that_deletes(store: Exported) -> None:
    late_repack(store)
    store.git("repack", "-q", "-a", "-d", "-k")


def loose(store: Exported) -> None:
    (store.root / "content").write_bytes(WORD)
    store.git("hash-object", "-w", str(store.root / "content"))


def alternates(store: Exported) -> None:
    (store.git_dir / "objects/info/alternates").write_text(f"{before(store)}/objects\n")


HOLDERS = [
    late_repack,
    other_name,
    restored_backup,
    replaced_by_backup,
    late_repack_that_deletes,
    loose,
    alternates,
]


@pytest.mark.parametrize("habit", HOLDERS, ids=lambda habit: habit.__name__)
def test_what_brings_a_secret_back_is_not_answered_and_goes(
    store: Exported, habit: Callable[[Exported], None]
) -> None:
    assert store.answers()
    refs = store.git("for-each-ref")
    habit(store)
    if habit is not alternates:  # no reader that amalgam starts obeys them
        assert not store.answers()
    store.hg("git::export")
    assert not traces(store.amalgam, WORD)
    assert store.answers()
    assert store.git("for-each-ref") == refs
    store.git("fsck", "--strict", "--full")
    assert store.run("git::verify", "--full").code == 0
    assert store.hg("git::export") == "nothing new to export\n"


@pytest.mark.parametrize(
    "name",
    ["logs/HEAD", "ORIG_HEAD", "FETCH_HEAD", "index", "objects/pack/pack-1.promisor"],
)
def test_what_names_a_secret_goes(store: Exported, name: str) -> None:
    path = store.git_dir / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(WORD)
    store.hg("git::export")
    assert not path.exists()
    assert not traces(store.amalgam, WORD)


def test_summary_of_what_is_gone_goes_and_others_stay(store: Exported) -> None:
    graph = store.git_dir / "objects/info/commit-graph"
    graph.parent.mkdir(exist_ok=True)
    shutil.copy(before(store) / "objects/info/commit-graph", graph)
    store.hg("git::export")
    assert not graph.exists()
    store.git("commit-graph", "write", "--reachable")
    store.git("multi-pack-index", "write")
    for _export in range(2):
        store.hg("git::export")
        assert graph.exists()
        assert (store.packs_dir / "multi-pack-index").exists()
    assert store.answers()


@pytest.mark.parametrize("lock", ["packed-refs.lock", "HEAD.lock", "config.lock"])
def test_lock_that_git_left_keeps_no_secret(
    stripped_template: Exported, tmp_path: Path, server: HgServer, lock: str
) -> None:
    store = stripped_template.copied(tmp_path)
    (store.root / "file").write_text(f"{WORD.decode()}\n" * 50)
    store.hg("commit", "-qm", WORD.decode(), "-d", "0 0")
    store.hg("git::export")
    store.hg("phase", "--force", "--secret", "tip")
    (store.git_dir / lock).write_text("")
    (store.git_dir / "config").write_text("[core]\n\tbare = true\n")
    if lock == "HEAD.lock":  # it is written if it changes
        (store.git_dir / "HEAD").write_text("ref: refs/heads/other\n")
    done = store.run("git::export")
    assert done.code == 20, done
    assert f"{lock}'"[:-1].encode() in done.err
    assert not store.answers()
    assert not traces(store.packs_dir, WORD)
    (store.git_dir / lock).unlink()
    store.hg("git::export")
    assert store.answers()
    assert not traces(store.amalgam, WORD)
    store.git("fsck", "--strict", "--full")


def test_pack_without_its_index_or_the_other_way_is_made_again(
    stripped_template: Exported, tmp_path: Path, server: HgServer
) -> None:
    for suffix in (".pack", ".idx"):
        shutil.rmtree(tmp_path / "repo", ignore_errors=True)
        store = stripped_template.copied(tmp_path)
        store.packs()[0].with_suffix(suffix).unlink()
        done = store.run("git::export")
        assert done.err == b"warning: git store is incomplete: exporting everything\n"
        store.git("fsck", "--strict", "--full")


def test_git_is_not_asked_when_there_is_nothing(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    gitstore = store.git_store(git__program="/nonexistent/git")
    assert gitstore.may_answer()
    assert export(gitstore).changesets == 0
