"""Git bundles that are, for the most part, a pack of the store as it is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from testlib.bundles import (
    check_metadata,
    command,
    complete_pack,
    pack_of,
    reached,
    written,
)
from testlib.environment import git
from testlib.exported import Exported, edit, replace


def all_heads(store: Exported) -> list[str]:
    return store.hg("log", "-r", "head()", "-T", "{gitnode} ").split()


@pytest.mark.slow
def test_a_pack_for_git_alone_is_copied(large: Exported, tmp_path: Path) -> None:
    bundle = command(large)
    assert bundle.pack == complete_pack(large).read_bytes()
    there = set(bundle.objects(tmp_path / "objects.git"))
    assert there >= reached(large.git_dir, *bundle.refs.values())
    # other heads of branches have no name, but clients may have them
    assert there == reached(large.git_dir, *all_heads(large))
    heads = large.open().heads()
    assert written(large, nodes=heads)[0] == bundle
    command_ = ("bundle", "create", "-q", "-", "--branches", "--tags", "HEAD")
    of_git = git(large.git_dir, *command_)
    assert len(bundle.pack) <= 1.05 * len(of_git)


@pytest.mark.slow
def test_the_first_pack_of_hg_gits_dialect_is_copied(
    large: Exported, tmp_path: Path
) -> None:
    """It has no metadata beside it."""
    dialect, bundle = ("--config", "amalgam.git.dialect=hggit"), tmp_path / "x.bundle"
    large.hg("git::export", *dialect)
    large.hg("git::bundle", *dialect, str(bundle))
    (pack,) = (large.root / ".hg/amalgam/git/hggit.git/objects/pack").glob("*.pack")
    assert bundle.read_bytes().endswith(b"\n\n" + pack.read_bytes())


@pytest.mark.slow
def test_progress_of_a_copy_has_a_total(large: Exported, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    shown = ("--debug", "--config", "progress.debug=yes")
    done = large.run("git::bundle", *shown, str(path))
    assert done.code == 0, done.err
    size = path.stat().st_size
    last = re.findall(rb"bundling: (\d+)/(\d+) bytes", done.out)[-1]
    assert tuple(map(int, last)) == (size, size)
    # more than is copied: it does not end before its end
    large.hg("update", "-q", "tip")
    large.commit("new")
    done = large.run("git::bundle", *shown, str(path))
    assert done.code == 0, done.err
    steps = re.findall(rb"bundling: (\d+)/(\d+) bytes", done.out)
    assert all(int(at) <= int(total) for at, total in steps)
    assert int(steps[-1][1]) == path.stat().st_size > size


@pytest.mark.slow
def test_what_came_later_follows_the_copy(large: Exported, tmp_path: Path) -> None:
    copied = complete_pack(large).read_bytes()
    large.hg("update", "-q", "tip")
    for number in range(3):
        large.commit(f"new{number}")
        large.hg("git::export")
    # what was there before comes again, which is no reason to pack it again
    large.hg("revert", "-q", "-r", "500", "--all")
    large.hg("commit", "-qm", "back", "-d", "20 0")
    bundle = command(large)
    assert bundle.pack[12:].startswith(copied[12:-20])
    expected = reached(large.git_dir, *all_heads(large))
    assert set(bundle.objects(tmp_path / "objects.git")) == expected
    assert complete_pack(large).read_bytes() == copied
    bundle = command(large, "-t", "cinnabar-v1")
    assert bundle.pack[12:].startswith(copied[12:-20])
    check_metadata(bundle, large.git_dir, tmp_path / "metadata.git")


@pytest.mark.slow
def test_git_gc_leaves_the_pack_that_is_copied(large: Exported) -> None:
    kinds = ("git-v2", "cinnabar-v1")
    before = [command(large, "-t", kind).pack for kind in kinds]
    large.git("gc", "-q")
    assert [command(large, "-t", kind).pack for kind in kinds] == before
    assert before[0] == complete_pack(large).read_bytes()
    assert large.run("git::verify", "--full").code == 0


@pytest.mark.slow
def test_a_part_has_nothing_of_the_rest(large: Exported, tmp_path: Path) -> None:
    bundle = command(large, "-r", "1000")
    oid = large.ids("1000")[1]
    assert set(bundle.refs.values()) == {oid}
    assert set(bundle.objects(tmp_path / "objects.git")) == reached(large.git_dir, oid)


@pytest.mark.slow
def test_drafts_are_not_copied(large: Exported, tmp_path: Path) -> None:
    large.hg("phase", "--force", "--draft", "all()")
    shutil.rmtree(large.amalgam)
    large.hg("git::export")
    assert large.docket()["drafts"]["complete"]
    assert command(large).pack == pack_of(large, "drafts").read_bytes()
    large.hg("phase", "--public", "1080")
    bundle, report = written(large, public_only=True)
    there = bundle.objects(tmp_path / "objects.git")
    public = large.hg("log", "-r", "public()", "-T", "{gitnode} ").split()
    drafts = large.hg("log", "-r", "draft()", "-T", "{gitnode} ").split()
    assert len(public) > 1000 <= report.changesets
    assert len(drafts) >= 19
    assert there.keys().isdisjoint(drafts)
    assert there.keys() >= reached(large.git_dir, large.ids("1080")[1])


@pytest.mark.slow
def test_a_damaged_pack_is_not_copied(large: Exported) -> None:
    edit(complete_pack(large), 5000)
    path = large.root.with_name("x.bundle")
    path.write_bytes(b"as it was")
    for kind in ("git-v2", "cinnabar-v1"):
        done = large.run("git::bundle", "-t", kind, str(path))
        assert (done.code, done.out) == (50, b"")
        assert done.err.startswith(b"abort: a pack of the git store is damaged\n(run ")
    assert path.read_bytes() == b"as it was"
    assert sorted(large.root.parent.iterdir()) == [large.root, path]


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, 500, 2000])
def test_a_cut_index_is_named(large: Exported, length: int) -> None:
    idx = complete_pack(large).with_suffix(".idx")
    replace(idx, idx.read_bytes()[:length])
    path = large.root.with_name("x.bundle")
    for kind in ("git-v2", "cinnabar-v1"):
        done = large.run("git::bundle", "-t", kind, str(path))
        assert done.code == 50
        assert done.err.startswith(f"abort: '{idx}' is not a pack index\n".encode())
        assert not path.exists()
