"""Data that another version of amalgam wrote: an earlier one, or a later one.

``tests/earlier`` has a small repository of each earlier version, with a git store,
metadata, an index snapshot, a node map and bundles; ``docs/releasing.rst`` adds to it.
"""

from __future__ import annotations

import re
import tarfile
import zlib
from pathlib import Path

import pytest
from testlib.environment import ROOT, git
from testlib.exported import Exported
from testlib.hgserver import HgServer

EARLIER = sorted((ROOT / "tests" / "earlier").glob("*.tar.gz"))
TIP = "d448c874e889f9ad0d3f3797c43491845345e739"
REGISTER = "bundles/register"


@pytest.fixture(params=EARLIER, ids=lambda path: str(path.name))
def store(request: pytest.FixtureRequest, tmp_path: Path, server: HgServer) -> Exported:
    """What an earlier version left."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path / "repo", filter="data")
    store = Exported(tmp_path / "repo", server)
    hgrc = tmp_path / "repo" / ".hg" / "hgrc"
    hgrc.write_text(hgrc.read_text() + "[experimental]\nmmapindexthreshold = 0\n")
    return store


@pytest.mark.slow
def test_data_of_an_earlier_version_is_used_and_continued(store: Exported) -> None:
    packs, refs = store.named("packs"), store.git("for-each-ref")
    kept = {path.name for path in (store.amalgam / "bundles").iterdir()}
    assert len(packs) == 2
    assert store.ids("tip")[1] == TIP
    assert store.hg("git::export") == "nothing new to export\n"
    assert store.git("for-each-ref") == refs
    assert store.run("git::verify", "--full").code == 0
    state = store.hg("admin::amalgam")
    assert "mapped: 448 bytes" in state
    assert state.endswith("nothing is wrong\n")
    assert "made" not in store.hg("admin::clone-bundles-refresh")
    assert kept == {path.name for path in (store.amalgam / "bundles").iterdir()}
    for bundle in (store.amalgam / "bundles").glob("*.bundle"):
        git(store.git_dir, "bundle", "verify", "-q", str(bundle))
    store.commit_nothing("more")
    assert "exported 1 changesets" in store.hg("git::export", "--metadata")
    assert set(packs) <= {path.stem for path in store.packs_dir.glob("*.pack")}
    assert store.run("git::verify", "--full").code == 0


@pytest.mark.slow
def test_store_of_a_later_version_is_made_again(store: Exported) -> None:
    refs = store.git("for-each-ref", "refs/heads", "refs/tags")
    for path in [store.docket_path, store.map_dir / "cinnabar.tips"]:
        make_later(path)
    assert store.hg("log", "-r", "tip", "-T", "{gitnode}") == ""
    assert store.run("admin::amalgam").code == 1
    done = store.run("git::export")
    assert done.code == 0, done
    assert b"exported 7 changesets" in done.out
    assert store.ids("tip")[1] == TIP
    assert store.git("for-each-ref", "refs/heads", "refs/tags") == refs
    assert store.run("git::verify", "--full").code == 0


@pytest.mark.slow
def test_snapshot_of_a_later_version_is_made_again(store: Exported) -> None:
    dockets = [store.amalgam / "index" / f"00changelog.{end}" for end in ("docket",)]
    dockets.append(store.amalgam / "index" / "00changelog.nodemap")
    for path in dockets:
        make_later(path)
    done = store.run("log", "-r", "c3cbe34dbf86", "-T", "{rev}\n")
    assert (done.code, done.out, done.err) == (0, b"1\n", b"")
    store.hg("debugupdatecaches")
    assert "mapped: 448 bytes" in store.hg("admin::amalgam")
    assert not [path for path in dockets if is_later(path)]


@pytest.mark.slow
def test_register_of_a_later_version_is_one_error(store: Exported) -> None:
    register = store.amalgam / REGISTER
    make_later(register)
    later = register.read_bytes()
    done = store.run("admin::clone-bundles-refresh")
    first, second = done.err.splitlines()
    assert done.code == 50
    assert first.startswith(b"abort: bundle register ")
    assert first.endswith(b" is damaged, or written by a later version of amalgam")
    assert second == b"(remove it, and run 'hg admin::clone-bundles-clear')"
    assert register.read_bytes() == later
    # Mercurial and exports go on
    store.commit_nothing("more")
    assert "exported 1 changesets" in store.hg("git::export")
    register.unlink()
    assert "made git-v2" in store.hg("admin::clone-bundles-refresh")


def make_later(path: Path) -> None:
    """Let a docket be of a version that nobody knows, with a checksum that is right."""
    body = re.sub(rb"\A(amalgam [a-z ]+) \d+\n", rb"\1 99\n", path.read_bytes())
    body = body[: body.rindex(b"sum ")]
    path.write_bytes(b"%ssum %08x\n" % (body, zlib.crc32(body)))
    assert is_later(path)


def is_later(path: Path) -> bool:
    return path.read_bytes().partition(b"\n")[0].endswith(b" 99")
