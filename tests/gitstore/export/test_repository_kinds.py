"""Repositories of every kind that Mercurial makes: all is converted, or named.

Each is made with stock hg, and compared file by file with what `hg cat` has.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from pathlib import Path

import pytest
from testlib.contents import blob, check, check_stores, commits, of_git, raw_text
from testlib.environment import hg
from testlib.exported import Exported
from testlib.hgserver import HgServer

pytestmark = pytest.mark.slow

SURE = "enable-unstable-format-and-corrupt-my-data"


def make(root: Path, server: HgServer, *config: str, hgrc: str = "") -> Exported:
    """Make an empty repository with ``config``, which then has ``hgrc``."""
    options = [part for item in config for part in ("--config", item)]
    server.hg(root.parent, "init", str(root), *options)
    (root / ".hg" / "hgrc").write_text(hgrc)
    return Exported(root, server)


def commit(store: Exported, **files: str) -> None:
    """Write ``files`` and commit everything."""
    for name, text in files.items():
        (store.root / name).write_text(text)
    store.hg("commit", "-qAm", "all", "-d", "0 0")


# censored revisions


@pytest.mark.parametrize(
    "config", ["format.sparse-revlog=yes", f"experimental.revlogv2={SURE}"]
)
def test_censored_revision_is_an_empty_file(
    tmp_path: Path, server: HgServer, config: str
) -> None:
    hgrc = "[extensions]\ncensor =\n[censor]\npolicy = ignore\n"
    slow = "storage.all-slow-path=allow"
    hgrc += "[storage]\nall-slow-path = allow\n"
    store = make(tmp_path / "repo", server, config, slow, hgrc=hgrc)
    lines = [f"line {number}\n" for number in range(300)]
    for number, secret in enumerate(["public", "password", "password 2", "none"]):
        lines[7] = f"{secret}\n"
        commit(store, file="".join(lines), other=f"{number}\n")
    store.hg("censor", "-r", "1", "file", "-t", "it was a password")
    store.hg("censor", "-r", "2", "file")
    store.hg("git::export")
    assert [blob(store, rev, "file") for rev in "12"] == [b"", b""]
    assert b"none\n" in blob(store, "3", "file")
    check(store)


def test_what_is_censored_after_an_export_leaves_the_git_store(
    tmp_path: Path, server: HgServer
) -> None:
    hgrc = "[extensions]\ncensor =\n[censor]\npolicy = ignore\n"
    store = make(tmp_path / "repo", server, hgrc=hgrc)
    for text in ("public", "password", "none"):
        commit(store, file=f"{text}\n")
        store.hg("git::export")
    before = commits(store)
    secret = store.git("rev-parse", f"{before['1']}:file")
    store.hg("censor", "-r", "1", "file")
    store.hg("git::export")

    after = commits(store)
    assert after["0"] == before["0"]
    assert blob(store, "1", "file") == b""
    assert store.git("cat-file", "--batch-all-objects", "--batch-check").count("blob")
    assert secret not in store.git(
        "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"
    )
    check(store)
    store.hg("git::export", "--rebuild")
    assert commits(store) == after
    assert store.hg("git::export").startswith("nothing")


# LFS


def test_lfs_pointer_is_exported_without_keys_of_mercurial(
    tmp_path: Path, own_server: HgServer
) -> None:
    hgrc = "[extensions]\nlfs =\n[lfs]\ntrack = size('>100B')\n"
    store = make(tmp_path / "repo", own_server, hgrc=hgrc)
    large = "large\n" * 100
    commit(store, small="small\n", large=large)
    store.hg("git::export")
    store.hg("rename", "large", "renamed")
    commit(store)
    (store.root / "renamed").write_bytes(b"\0" * 1000)
    (store.root / "small").write_text(large)
    commit(store)
    (store.root / "renamed").write_text("small again\n")
    commit(store)
    store.hg("git::export")

    pointer = blob(store, "0", "large")
    assert raw_text(store, "large", 0) == pointer + b"x-is-binary 0\n"
    assert hashlib.sha256(large.encode()).hexdigest().encode() in pointer
    assert blob(store, "1", "renamed") == pointer
    assert b"x-hg-copy large\n" in raw_text(store, "renamed", 0)
    assert blob(store, "2", "renamed") == raw_text(store, "renamed", 1)
    assert blob(store, "2", "small") == pointer
    assert blob(store, "3", "renamed") == b"small again\n"
    assert blob(store, "0", "small") == b"small\n"
    check_stores(store)


def test_converting_to_lfs_gives_each_file_as_it_is_stored(
    tmp_path: Path, own_server: HgServer
) -> None:
    store = make(tmp_path / "repo", own_server)
    commit(store, file="before\n" * 100)
    hgrc = "[extensions]\nlfs =\n[lfs]\ntrack = all()\n"
    (store.root / ".hg" / "hgrc").write_text(hgrc)
    commit(store, file="after\n" * 100)
    store.hg("git::export")
    assert blob(store, "0", "file") == b"before\n" * 100
    assert raw_text(store, "file", 1) == blob(store, "1", "file") + b"x-is-binary 0\n"
    assert blob(store, "1", "file").startswith(b"version https://git-lfs")


# largefiles and subrepositories


def test_largefile_is_exported_as_its_standin(
    tmp_path: Path, own_server: HgServer
) -> None:
    hgrc = "[extensions]\nlargefiles =\n"
    store = make(tmp_path / "repo", own_server, hgrc=hgrc)
    commit(store, small="small\n")
    for number in range(2):
        (store.root / "large").write_bytes(bytes([number]) * 5000)
        store.hg("add", "-q", *(["--large", "large"] if not number else []))
        commit(store)
    store.hg("git::export")
    digest = hashlib.sha1(b"\1" * 5000).hexdigest()
    files = of_git(store, commits(store)["2"])
    assert files[".hglf/large"] == ("100644", f"{digest}\n".encode())
    assert set(files) == {".hglf/large", "small"}
    check_stores(store)


def test_subrepository_is_two_plain_files(tmp_path: Path, server: HgServer) -> None:
    store = make(tmp_path / "repo", server)
    below = make(store.root / "below", server)
    commit(below, file="in the subrepository\n")
    commit(store, **{".hgsub": "below = below\n", "above": "above\n"})
    commit(below, file="changed\n")
    store.hg("commit", "-qSm", "moved on", "-d", "0 0")
    store.hg("git::export")
    files = of_git(store, commits(store)["1"])
    assert set(files) == {".hgsub", ".hgsubstate", "above"}
    assert files[".hgsubstate"][1].startswith(below.ids("1")[0].encode())
    check(store)


# tree manifests


def draw_trees(store: Exported, seed: int, count: int) -> None:
    """Commit random files in directories that come, go, and become files."""
    draw = random.Random(seed)
    names = ["a", "a.x", "a-y", "a/b", "a/b/c", "a/b.x", "b/c/d/e", "b/c.d/e", "b0"]
    for number in range(count):
        tip = int(store.hg("log", "-r", "tip", "-T", "{rev}"))
        if tip > 3 and draw.random() < 0.3:
            store.hg("update", "-qC", str(tip - draw.randrange(4)))
        elif tip > 3 and draw.random() < 0.4:  # merge, if there is another head
            store.run("merge", "-q", "--tool", ":local", "last(head() - .)")
        for name in draw.sample(names, 3):
            path = store.root / name
            if draw.random() < 0.3 and path.is_dir():
                shutil.rmtree(path)
            if any(parent.is_file() for parent in path.parents) or path.is_dir():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}\n" if draw.random() < 0.8 else "")
            path.chmod(0o755 if draw.random() < 0.2 else 0o644)
        for name in draw.sample(names, 1):
            if (store.root / name).is_file():
                (store.root / name).unlink()
        store.run("resolve", "-qam")
        store.hg("addremove", "-q", "-s", "0")
        store.run("commit", "-qm", f"{number}", "-d", f"{number} 0")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tree_manifests_give_the_ids_of_flat_ones(
    tmp_path: Path, server: HgServer, seed: int
) -> None:
    ids = []
    for tree in ("yes", "no"):
        config = f"experimental.treemanifest={tree}"
        store = make(tmp_path / tree, server, config)
        draw_trees(store, seed, 25)
        store.hg("git::export", "-r", "5")
        store.hg("git::export", "-r", "12")
        store.hg("git::export")
        oids = commits(store)
        check(store)
        store.hg("git::export", "--rebuild")
        assert commits(store) == oids
        assert store.hg("log", "-r", "merge()")
        ids.append(oids)
    assert len(ids[0]) > 15
    assert ids[0] == ids[1]


def test_damaged_directory_manifest_is_named(tmp_path: Path, server: HgServer) -> None:
    store = make(tmp_path / "repo", server, "experimental.treemanifest=yes")
    (store.root / "dir").mkdir()
    commit(store, **{"dir/file": "1\n"})
    index = store.root / ".hg/store/meta/dir/00manifest.i"
    content = index.read_bytes()
    index.write_bytes(content[:40] + bytes(12) + content[52:])
    done = store.run("git::export")
    assert done.code == 50
    assert b"manifest of dir" in done.err
    index.unlink()
    done = store.run("git::export")
    assert done.code == 50
    assert b"manifest of dir: there is no revision" in done.err


# what is refused


def test_narrow_clone_is_refused_by_name(tmp_path: Path, own_server: HgServer) -> None:
    source = make(tmp_path / "source", own_server)
    for name in ("one", "two"):
        (source.root / name).mkdir()
    commit(source, **{"one/file": "1\n", "two/file": "2\n"})
    narrow = tmp_path / "narrow"
    extension = ("--config", "extensions.narrow=")
    hg(
        tmp_path,
        "clone",
        *extension,
        "--narrow",
        "--include",
        "one",
        "source",
        "narrow",
    )
    (narrow / ".hg" / "hgrc").write_text("[extensions]\nnarrow =\n")
    store = Exported(narrow, own_server)
    done = store.run("git::export")
    assert done.code == 255
    assert b"narrowhg-experimental" in done.err
    assert not store.amalgam.exists()
