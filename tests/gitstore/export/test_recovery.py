"""What an export makes of a store that is not as it left it, and of a full disk."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, add_config, captured, git, hg
from testlib.small import STORE, commit, refs, repository, run_hg, said
from testlib.users import in_namespace

pytestmark = pytest.mark.slow

WARNING = "warning: git store is incomplete: exporting everything\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.mark.parametrize(
    "limit", [pytest.param("tmpfs", marks=pytest.mark.needs("mounts")), "file size"]
)
def test_full_disk_is_one_line_and_leaves_nothing(
    repo: Path, tmp_path: Path, limit: str
) -> None:
    hg(repo, "git::export")
    (repo / "large").write_bytes(os.urandom(3_000_000))
    commit(repo, "two")
    before = sorted((repo / ".hg/amalgam").rglob("*"))
    export = [str(HG), "--config", "extensions.amalgam=", "git::export"]
    if limit == "tmpfs":
        data = repo / ".hg/amalgam"
        setup = f"""
            cp -a {data} {tmp_path}/kept
            mount -t tmpfs -o size=1m tmpfs {data}
            cp -a {tmp_path}/kept/. {data}
        """
        check = f"cd {data} && find . | sort && git -C git/cinnabar.git fsck --strict"
        script = f"{shlex.join(export)}; code=$?; {check}; exit $code"
        done = in_namespace(setup, ["sh", "-c", script], repo, ENVIRONMENT)
        listing = [line[2:] for line in done.stdout.decode().splitlines()[1:]]
        data_names = [str(path.relative_to(data)) for path in before]
        assert sorted(listing) == data_names
        reason = "No space left on device"
        hints = [
            "(see 'hg git::export --estimate'; "
            "set amalgam.git.path to a directory of a larger file system)"
        ]
    else:
        script = f"ulimit -f 2000; {shlex.join(export)}"  # blocks of 512 bytes
        done = captured(["sh", "-c", script], repo)
        reason, hints = "File too large", []
    assert done.returncode == 255
    line, *rest = done.stderr.decode().splitlines()
    assert line.startswith(f"abort: {reason}: '")
    assert rest == hints
    assert sorted((repo / ".hg/amalgam").rglob("*")) == before
    git(repo / STORE, "fsck", "--full", "--strict")
    assert b"exported 1 changeset" in hg(repo, "git::export")
    git(repo / STORE, "fsck", "--full", "--strict")


def files(repo: Path, pattern: str) -> list[Path]:
    return sorted((repo / ".hg/amalgam").rglob(pattern))


@pytest.fixture
def two_packs(repo: Path) -> Path:
    hg(repo, "git::export")
    commit(repo, "two")
    hg(repo, "git::export", "--metadata")
    assert len(files(repo, "*.pack")) == 3  # one an export, and that of the metadata
    return repo


@pytest.mark.parametrize("pattern", ["*.idx", "*.map"])
def test_lost_file_is_made_again(two_packs: Path, pattern: str) -> None:
    named = refs(two_packs)
    files(two_packs, pattern)[0].unlink()
    done = run_hg(two_packs, "git::export")
    assert "exported 2 changesets" in said(done)
    assert done.stderr.decode() == WARNING
    assert refs(two_packs) == named
    git(two_packs / STORE, "fsck", "--full", "--strict")
    assert len(files(two_packs, "*.pack")) == 2
    assert hg(two_packs, "git::export") == b"nothing new to export\n"


@pytest.fixture
def unnamed_head(two_packs: Path) -> Path:
    """A store with a head that no ref names: it is unreachable for git."""
    hg(two_packs, "update", "-q", "0")
    commit(two_packs, "head")
    add_config(two_packs, "[amalgam]\ngit.refs = bookmarks\n")
    hg(two_packs, "bookmark", "-r", "0", "mark")
    hg(two_packs, "git::export")
    assert refs(two_packs) == {"refs/heads/mark": "one"}
    return two_packs


@pytest.mark.sampled(1)
@pytest.mark.parametrize("option", ["-k", "-kb", "--write-midx"])
def test_store_that_git_would_pack_anew_stays(unnamed_head: Path, option: str) -> None:
    hg(unnamed_head, "git::export", "--metadata")
    before = files(unnamed_head, "*.pack")
    git(unnamed_head / STORE, "repack", "-adkq", option)
    # with a bitmap, git wants all in one pack, which the next export removes
    assert set(before) <= set(files(unnamed_head, "*.pack"))
    assert hg(unnamed_head, "git::export") == b"nothing new to export\n"
    assert not run_hg(unnamed_head, "git::verify").returncode
    assert files(unnamed_head, "*.pack") == before
    commit(unnamed_head, "three")
    assert b"exported 1 changeset" in hg(unnamed_head, "git::export")
    git(unnamed_head / STORE, "fsck", "--full", "--strict")


def test_git_gc_loses_nothing(unnamed_head: Path) -> None:
    git(unnamed_head / STORE, "gc", "-q")
    log = hg(unnamed_head, "log", "-T", "{gitnode}\n")
    for oid in log.decode().split():
        git(unnamed_head / STORE, "cat-file", "commit", oid)
    # what git finds unreachable it makes loose, or since 2.41 packs; either is fine
    hg(unnamed_head, "git::export")
    done = run_hg(unnamed_head, "git::verify")
    assert not done.returncode, said(done)
    assert hg(unnamed_head, "git::export") == b"nothing new to export\n"
    assert hg(unnamed_head, "log", "-T", "{gitnode}\n") == log


def test_git_gc_that_prunes_loses_no_head(two_packs: Path) -> None:
    """No ref leads to any of them."""
    hg(two_packs, "git::export", "--config", "amalgam.git.refs=bookmarks")
    assert refs(two_packs) == {}
    git(two_packs / STORE, "-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now")
    done = run_hg(two_packs, "git::export")
    assert said(done).startswith("1 ref changed\n")
    git(two_packs / STORE, "fsck", "--full", "--strict")
    assert refs(two_packs) == {"refs/heads/default": "two"}


def test_store_that_lost_objects_is_made_again(two_packs: Path) -> None:
    named = refs(two_packs)
    for path in files(two_packs, "*.keep"):
        path.unlink()
    for name in ("packed-refs", "packed-refs.old"):
        (two_packs / STORE / name).unlink(missing_ok=True)
    git(two_packs / STORE, "-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now")
    done = run_hg(two_packs, "git::export")
    assert "exported 2 changesets" in said(done), said(done)
    git(two_packs / STORE, "fsck", "--full", "--strict")
    assert refs(two_packs) == named


@pytest.mark.parametrize("name", ["HEAD", "refs", "config", "packed-refs"])
def test_lost_part_of_the_repository_is_made_again(repo: Path, name: str) -> None:
    hg(repo, "git::export")
    path = repo / STORE / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    hg(repo, "git::export")
    git(repo / STORE, "fsck", "--full", "--strict")
    assert refs(repo) == {"refs/heads/default": "one"}
    assert git(repo / STORE, "config", "gc.pruneExpire") == b"never\n"
    assert hg(repo, "git::export") == b"nothing new to export\n"


def test_what_dead_exports_left_is_removed_and_what_others_made_is_not(
    repo: Path,
) -> None:
    hg(repo, "git::export")
    store, packs = repo / STORE, repo / STORE / "objects/pack"
    debris = [
        packs / "tmp_amalgam_abcdef",
        repo / ".hg/amalgam/map/tmp-abcdef",
        repo / ".hg/amalgam/map/cinnabar-0123456789abcdef.map",
        store / "packed-refs.amalgam",
        store.with_name("cinnabar.git.tmp-1") / "HEAD",
    ]
    others = [packs / "tmp_pack_abcdef", store / "HEAD.lock"]
    store.with_name("cinnabar.git.tmp-1").mkdir()
    for path in debris + others:
        path.write_text("")
    os.link(store / "packed-refs.amalgam", store / "packed-refs.lock")
    hg(repo, "git::export")
    assert [path for path in debris if path.exists()] == []
    assert not (store / "packed-refs.lock").exists()
    assert not (store / "cinnabar.git.tmp-1").exists()
    assert [path for path in others if not path.exists()] == []


def test_setting_of_an_administrator_is_kept(repo: Path) -> None:
    hg(repo, "git::export")
    git(repo / STORE, "config", "pack.threads", "1")
    git(repo / STORE, "config", "--add", "transfer.hideRefs", "refs/mine")
    (repo / ".hg/store").chmod(0o770)
    hg(repo, "git::export")
    assert git(repo / STORE, "config", "pack.threads") == b"1\n"
    assert git(repo / STORE, "config", "core.sharedRepository") == b"0660\n"
    hidden = git(repo / STORE, "config", "--get-all", "transfer.hideRefs").split()
    assert hidden == [b"refs/cinnabar", b"refs/hg", b"refs/mine"]


def test_removing_everything_is_no_loss(two_packs: Path) -> None:
    named = refs(two_packs)
    shutil.rmtree(two_packs / ".hg/amalgam")
    assert b"exported 2 changesets" in hg(two_packs, "git::export")
    assert refs(two_packs) == named
