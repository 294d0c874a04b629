"""Changegroups of a repository whose indexes are mapped, and its part of branches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mercurial import hg
from testlib.changegroups import LOG, STOCK, took
from testlib.environment import add_config
from testlib.exported import STRIP
from testlib.generated import generate
from testlib.hgserver import HgServer

from hgext3rd.amalgam.changegroup.native import NativeChangegroup
from hgext3rd.amalgam.core.errors import Moved
from hgext3rd.amalgam.index import opening

pytestmark = pytest.mark.slow

CHANGESETS = 1000  # fewer, and the indexes are inline


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of which every index is mapped."""
    path = generate(tmp_path / "repo", "merges", f"--changesets={CHANGESETS}")
    add_config(path, "[experimental]\nmmapindexthreshold = 0\n")
    return path


def manifest_of(repo: Any) -> Any:
    return repo.manifestlog.getstorage(b"").get_revlog()


def mapped(ui: Any, root: Path) -> Any:
    """The repository, both of whose indexes the core can use."""
    repo = hg.repository(ui, os.fsencode(root))
    assert opening.mapped_index(repo.unfiltered().changelog) is not None
    assert opening.mapped_index(manifest_of(repo)) is not None
    return repo


def begun(repo: Any) -> NativeChangegroup:
    """A changegroup of all changesets."""
    changelog = repo.unfiltered().changelog
    nodes = [*map(changelog.node, changelog)]
    return NativeChangegroup(repo, b"02", nodes, (), trusts_links=True)


def written(server: HgServer, repo: Path, name: str, *options: str) -> bytes:
    path = repo.parent / name
    server.hg(repo, "bundle", "-q", "-t", "none-v2", *options, str(path))
    return path.read_bytes()


@pytest.mark.parametrize("args", [["--all"], ["-r", "900", "--base", "300"]])
def test_bytes_are_those_of_mercurial(
    root: Path, mapping_ui: Any, server: HgServer, args: list[str]
) -> None:
    mapped(mapping_ui, root)  # and makes the snapshots
    native = written(server, root, "native.hg", *args, *LOG)
    assert took(root) == ["native"]
    assert native == written(server, root, "stock.hg", *args, *STOCK)


def test_manifest_mapped_before_the_last_changeset_is_read(
    root: Path, mapping_ui: Any, server: HgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opening.mapped_index(manifest_of(mapped(mapping_ui, root)))
    (root / "new").write_text("text\n")
    server.hg(root, "commit", "-qAm", "new", "-d", "0 0", "-u", "me")
    repo = mapped(mapping_ui, root)
    expected = b"".join(begun(repo).chunks(mapping_ui))
    after = opening.mapped_index
    manifest = manifest_of(repo)
    monkeypatch.setattr(
        opening, "mapped_index", lambda log: before if log is manifest else after(log)
    )
    assert b"".join(begun(repo).chunks(mapping_ui)) == expected


def test_strip_is_noticed_before_and_meanwhile(
    root: Path, mapping_ui: Any, server: HgServer
) -> None:
    repo = mapped(mapping_ui, root)
    changegroup = begun(repo)
    server.hg(root, *STRIP, "-r", "990")
    with pytest.raises(Moved):
        b"".join(changegroup.chunks(mapping_ui))
    with pytest.raises(Moved):
        begun(repo)


def test_branches_are_those_of_mercurial(tmp_path: Path, server: HgServer) -> None:
    repo = tmp_path / "repo"
    server.hg(tmp_path, "init", str(repo))
    for number, branch in enumerate(("default", "b", "b", "a", "\u00e9t\u00e9")):
        server.hg(repo, "branch", "-qf", branch)
        (repo / f"file{number}").write_text("text\n")
        server.hg(repo, "commit", "-qAm", branch, "-d", "0 0", "-u", "me")
    server.hg(repo, "update", "-q", "b")
    server.hg(
        repo, "commit", "-q", "--close-branch", "-m", "x", "-d", "0 0", "-u", "me"
    )
    native = written(server, repo, "native.hg", "--all", *LOG)
    assert took(repo) == ["native"]
    assert b"cache:rev-branch-cache" in native.lower()
    assert native == written(server, repo, "stock.hg", "--all", *STOCK)
