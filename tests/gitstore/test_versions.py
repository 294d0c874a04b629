"""Data written by a later version of amalgam."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest
from testlib.bundled import Bundled
from testlib.exported import Exported
from testlib.hgserver import HgServer


@pytest.fixture
def store(published: Bundled, server: HgServer) -> Exported:
    """An exported repository with bundles and a mapped index."""
    hgrc = published.root / ".hg" / "hgrc"
    hgrc.write_text(hgrc.read_text() + "[experimental]\nmmapindexthreshold = 0\n")
    store = Exported(published.root, server)
    store.hg("git::export", "--metadata")
    store.hg("debugupdatecaches")
    return store


@pytest.mark.slow
def test_store_of_a_later_version_is_made_again(store: Exported) -> None:
    refs = store.git("for-each-ref", "refs/heads", "refs/tags")
    count, ids = len(store.hg("log", "-T", ".")), store.ids("tip")
    for path in [store.docket_path, store.map_dir / "cinnabar.tips"]:
        make_later(path)
    assert store.hg("log", "-r", "tip", "-T", "{gitnode}") == ""
    assert store.run("admin::amalgam").code == 1
    done = store.run("git::export")
    assert done.code == 0, done
    assert b"exported %d changesets" % count in done.out
    assert store.ids("tip") == ids
    assert store.git("for-each-ref", "refs/heads", "refs/tags") == refs
    assert store.run("git::verify", "--full").code == 0


@pytest.mark.slow
def test_snapshot_of_a_later_version_is_made_again(store: Exported) -> None:
    dockets = [store.amalgam / "index" / f"00changelog.{end}" for end in ("docket",)]
    dockets.append(store.amalgam / "index" / "00changelog.nodemap")
    for path in dockets:
        make_later(path)
    node = store.hg("log", "-r", "1", "-T", "{node}")
    done = store.run("log", "-r", node, "-T", "{rev}\n")
    assert (done.code, done.out, done.err) == (0, b"1\n", b"")
    store.hg("debugupdatecaches")
    assert "  00changelog   mapped: " in store.hg("admin::amalgam")
    assert not [path for path in dockets if is_later(path)]


@pytest.mark.slow
def test_register_of_a_later_version_is_one_error(store: Exported) -> None:
    register = store.amalgam / "bundles" / "register"
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
    assert "exported 1 changeset" in store.hg("git::export")
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
