"""Files in LFS: the git repository has pointers of git-lfs.

Mercurial's pointers have additional keys, which git-lfs refuses.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from testlib import lfs
from testlib.contents import blob, check_stores, commits, raw_text
from testlib.environment import add_config, git
from testlib.exported import Exported
from testlib.hgserver import HgServer

# The example of git-lfs's specification: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
EXAMPLE = b"""\
version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 12345
"""
TEXTS = {
    "text": b"a line\n" * 100,
    "binary": bytes(range(256)) * 10,
    "metadata": b"\x01\nlooks like it\n\x01\n" * 10,
    "renamed": b"another line\n" * 100,
}


def pointer(content: bytes) -> bytes:
    """Return the example, as that of ``content``."""
    oid = hashlib.sha256(content).hexdigest().encode()
    made = re.sub(rb"sha256:[0-9a-f]+", b"sha256:" + oid, EXAMPLE)
    return made.replace(b"12345", b"%d" % len(content))


@pytest.fixture
def store(tmp_path: Path, own_server: HgServer) -> Exported:
    """Return a repository with some files in LFS, and no export."""
    store = lfs.init(tmp_path / "repo", own_server)
    for name, text in TEXTS.items():
        (store.root / name).write_bytes(text)
    store.commit("small", text=b"small\n", message="zero")
    store.hg("rename", "renamed", "after")
    store.commit("text", text=TEXTS["text"] + b"one more\n", message="one")
    return store


def exported_commits(store: Exported) -> dict[str, str]:
    """Return revision to commit, of those that have one."""
    log = store.hg("log", "-r", "all()", "-T", "{if(gitnode, '{rev} {gitnode}\n')}")
    return dict(line.split() for line in log.splitlines())


def test_blob_is_the_pointer_of_git_lfs(store: Exported) -> None:
    store.hg("git::export")
    for name, text in TEXTS.items():
        assert blob(store, "0", name) == pointer(text), name
    assert blob(store, "1", "after") == pointer(TEXTS["renamed"])
    assert blob(store, "1", "text") == pointer(TEXTS["text"] + b"one more\n")
    assert blob(store, "1", "small") == b"small\n"
    for name, rev in (("text", 0), ("after", 0)):
        assert raw_text(store, name, rev) != pointer(TEXTS.get(name, b""))
    check_stores(store)


def test_commits_of_hg_git_have_copies_of_files_in_lfs(store: Exported) -> None:
    """As hg-git 1.2.0 writes them. Mercurial keeps their sources in the pointers."""
    add_config(store.root, "[amalgam]\ngit.dialect = hggit\n")
    store.hg("git::export")
    oid = exported_commits(store)["1"]
    place = store.root / ".hg" / "amalgam" / "git" / "hggit.git"
    lines = git(place, "cat-file", "commit", oid).splitlines()
    assert [it for it in lines if it.startswith(b"HG:")] == [
        b"HG:rename renamed:after",
    ]
    assert "no differences" in store.hg("git::verify", "--full")


def test_empty_file_in_lfs_is_an_empty_blob(store: Exported) -> None:
    hgrc = "[lfs]\ntrack = all()\n"
    add_config(store.root, hgrc)
    (store.root / "empty").write_bytes(b"")
    store.hg("commit", "-qAm", "empty")
    store.hg("git::export")
    assert raw_text(store, "empty", 0).endswith(b"size 0\nx-is-binary 0\n")
    assert blob(store, "2", "empty") == b""
    check_stores(store)


@pytest.mark.needs("git-lfs")
@pytest.mark.parametrize("text", [*TEXTS.values(), b"", b"x" * 100])
def test_git_lfs_makes_the_same_pointer(
    tmp_path: Path, own_server: HgServer, text: bytes
) -> None:
    store = lfs.init(tmp_path / "repo", own_server)
    (store.root / "file").write_bytes(text)
    store.hg("commit", "-qAm", "zero", "--config", "lfs.track=all()")
    store.hg("git::export")
    assert raw_text(store, "file", 0).startswith(b"version ")
    assert blob(store, "0", "file") == lfs.git_lfs_pointer(store.root / "file")


@pytest.mark.parametrize(
    "text",
    [
        b"no pointer at all\n",
        b"",
        EXAMPLE.replace(b"sha256", b"sha1"),
        EXAMPLE.replace(b"12345", b"9" * 100_000),
        EXAMPLE + b"x-\x1b[31m 1\n",
        EXAMPLE + EXAMPLE,
        EXAMPLE + b"x-hg-copy",
    ],
)
def test_text_that_is_no_pointer_stops_the_export(store: Exported, text: bytes) -> None:
    store.hg("git::export")
    before = commits(store)
    (store.root / "hostile").write_bytes(text)
    store.hg("commit", "-qAm", "hostile", "--config", "lfs.track=none()")
    lfs.set_flags(store.root / ".hg/store/data/hostile.i", True, 0)
    done = store.run("git::export")
    assert done.code == 50
    expected = b"revision 0: its text is not an LFS pointer"
    assert done.err.startswith(b"abort: ")
    assert expected in done.err
    assert b"hostile" in done.err
    assert len(done.err) < 300
    assert exported_commits(store) == before


def test_keys_in_another_order_and_many_of_them_are_a_pointer(
    store: Exported,
) -> None:
    lines = EXAMPLE.splitlines(keepends=True)
    keys = [b"x-hg-key%d %s\n" % (number, b"x" * 100) for number in range(1000)]
    (store.root / "odd").write_bytes(b"".join([*keys, *reversed(lines)]))
    store.hg("commit", "-qAm", "odd", "--config", "lfs.track=none()")
    lfs.set_flags(store.root / ".hg/store/data/odd.i", True, 0)
    store.hg("git::export")
    assert blob(store, "2", "odd") == EXAMPLE


def test_store_without_lfs_goes_on_as_it_is(
    tmp_path: Path, own_server: HgServer
) -> None:
    own_server.hg(tmp_path, "init", "repo")
    store = Exported(tmp_path / "repo", own_server)
    store.commit("file", text=b"before\n" * 100, message="before")
    store.hg("git::export")
    before, packs = commits(store), store.named("packs")

    lfs.enable(store.root)
    store.commit("file", text=b"after\n" * 100, message="after")
    done = store.run("git::export")
    assert b"everything" not in done.err
    assert commits(store)["0"] == before["0"]
    assert set(packs) & set(store.named("packs"))
    assert blob(store, "0", "file") == b"before\n" * 100
    assert blob(store, "1", "file") == pointer(b"after\n" * 100)
    check_stores(store)


def test_censoring_keeps_the_pointers(store: Exported) -> None:
    store.hg("git::export")
    # Mercurial's censor refuses to work beside LFS; what amalgam notes of it
    (store.root / ".hg" / "amalgam-censored").write_text("0" * 32 + "\n")
    assert store.hg("git::export").startswith("exported 2 changesets")
    assert blob(store, "0", "text") == pointer(TEXTS["text"])
