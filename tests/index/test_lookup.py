"""Node maps in real repositories: whose is used, and what hg writes with ours."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from mercurial import error, hg as hgmod, policy
from testlib.environment import hg

from hgext3rd.amalgam.index import nodemapfile
from hgext3rd.amalgam.index.decision import Reason
from hgext3rd.amalgam.index.nodemap import MappedIndex
from hgext3rd.amalgam.index.opening import opened_index
from hgext3rd.amalgam.trust import Trust

parsers = policy.importmod("parsers")

pytestmark = [pytest.mark.slow, pytest.mark.needs("c-index")]

REVS = 150
STOCK = ["--config", "extensions.amalgam=!"]
ALLOW = [*STOCK, "--config", "storage.revlog.persistent-nodemap.slow-path=allow"]
REQUIRED = ["--config", "format.use-persistent-nodemap=yes", *ALLOW]


@pytest.fixture
def ui(mapping_ui: Any) -> Any:
    mapping_ui.setconfig(b"ui", b"username", b"test")
    return mapping_ui


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with Mercurial's own node map, written by hg without amalgam."""
    path = tmp_path_factory.mktemp("made") / "repo"
    hg(path.parent, "init", path.name, *REQUIRED)
    hg(path, "debugbuilddag", f"+{REVS}", *ALLOW)
    hg(path, "debugupdatecaches", *ALLOW)
    assert (path / ".hg/store/00changelog.n").exists()
    return path


@pytest.fixture
def path(tmp_path: Path, made: Path) -> Path:
    return shutil.copytree(made, tmp_path / "repo")


def changelog(ui: Any, path: Path) -> Any:
    return hgmod.repository(ui, str(path).encode()).unfiltered().changelog


def check(log: Any) -> None:
    """Ask about every node, against the entries."""
    for rev in range(len(log)):
        node = log.index[rev][7]
        assert log.rev(node) == rev
        shortest = log.index.shortest(node)
        assert log.index.partialmatch(node.hex()[:shortest].encode()) == node
        if shortest > 1:
            with pytest.raises(error.RevlogError):
                log.index.partialmatch(node.hex()[: shortest - 1].encode())
    assert log.index.get_rev(b"\x12" * 20) is None


def check_hits(log: Any) -> None:
    """Look every node up, in a map."""
    for rev in range(len(log)):
        assert log.rev(log.index[rev][7]) == rev
    assert log.index._map


def test_ours_is_used_first(ui: Any, path: Path) -> None:
    log = changelog(ui, path)
    check(log)
    assert type(log.index) is MappedIndex
    assert type(log._inner.index) is parsers.index
    assert vars(log.index)["_source"].is_ours


def without_ours(ui: Any, path: Path) -> Any:
    log = changelog(ui, path)
    how = opened_index(log)
    assert how is not None
    assert how.snapshot is not None
    nodemapfile.forget(how.snapshot)
    return log


def test_mercurials_is_read_where_ours_is_missing(ui: Any, path: Path) -> None:
    before = (path / ".hg/store/00changelog.n").read_bytes()
    log = without_ours(ui, path)
    check_hits(log)
    assert not vars(log.index)["_source"].is_ours
    check(log)
    assert not log.index._map, "only the index can tell what is not there"
    assert (path / ".hg/store/00changelog.n").read_bytes() == before


def test_mercurials_that_lags_behind_is_completed(ui: Any, path: Path) -> None:
    docket = (path / ".hg/store/00changelog.n").read_bytes()
    data = {old.name: old.read_bytes() for old in (path / ".hg/store").glob("*.nd")}
    for message in ("one more", "another"):
        hg(
            path,
            "commit",
            "-qm",
            message,
            "--config",
            "ui.allowemptycommit=yes",
            *ALLOW,
        )
    (path / ".hg/store/00changelog.n").write_bytes(docket)
    for name, content in data.items():
        (path / ".hg/store" / name).write_bytes(content)
    log = without_ours(ui, path)
    check_hits(log)
    check(log)
    assert len(log) == REVS + 2


@pytest.mark.parametrize("bit", [0, 6])
def test_a_bit_that_flipped_in_mercurials_changes_no_answer(
    ui: Any, path: Path, bit: int
) -> None:
    (data,) = (path / ".hg/store").glob("00changelog-*.nd")
    content = data.read_bytes()
    for at in range(bit, len(content), 97):
        flipped = bytearray(content)
        flipped[at] ^= 1 << bit
        data.write_bytes(flipped)
        check(without_ours(ui, path))


@pytest.mark.parametrize("name", ["docket", "data"])
@pytest.mark.parametrize("kind", ["fifo", "directory", "large"])
def test_mercurials_is_not_awaited(ui: Any, path: Path, name: str, kind: str) -> None:
    store = path / ".hg/store"
    (data,) = store.glob("00changelog-*.nd")
    file = store / "00changelog.n" if name == "docket" else data
    if kind == "large":
        os.truncate(file, 1 << 30)
    else:
        file.unlink()
        os.mkfifo(file) if kind == "fifo" else file.mkdir()
    check(without_ours(ui, path))


def test_mercurials_is_not_mapped_in_a_repository_of_a_stranger(
    ui: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trust, "of", lambda *_where: Trust(False, 20001, None))
    log = changelog(ui, path)
    check(log)
    how = opened_index(log)
    assert how is not None
    assert how.decision.reason is Reason.UNTRUSTED
    assert not log.index._map


@pytest.mark.parametrize("what", ["docket", "tip", "data", "short"])
def test_mercurials_is_not_believed_if_it_does_not_fit(
    ui: Any, path: Path, what: str
) -> None:
    store = path / ".hg/store"
    docket = store / "00changelog.n"
    content = bytearray(docket.read_bytes())
    (data,) = store.glob("00changelog-*.nd")
    if what == "docket":
        docket.write_bytes(content[:20])
    elif what == "tip":
        content[-1] ^= 1
        docket.write_bytes(content)
    elif what == "data":
        data.write_bytes(bytes(data.stat().st_size))
    else:
        data.write_bytes(data.read_bytes()[:-64])
    log = without_ours(ui, path)
    check(log)


def test_what_mercurial_writes_with_our_content_is_right(ui: Any, path: Path) -> None:
    options = ["experimental.mmapindexthreshold=0", "ui.allowemptycommit=yes"]
    configured = [word for option in options for word in ("--config", option)]
    hg(path, "commit", "-qm", "one more", *configured)
    checked = hg(path, "debugnodemap", "--check", *ALLOW)
    assert b"revisions in nodemap:" in checked
    counts = [line.rsplit(b" ", 1)[1] for line in checked.splitlines()]
    assert counts[0] == counts[1]


def test_a_map_of_mercurials_made_with_its_repository_is_right(tmp_path: Path) -> None:
    options = ["--config", "experimental.mmapindexthreshold=0"]
    hg(tmp_path, "init", "repo", "--config", "format.use-persistent-nodemap=yes")
    repo = tmp_path / "repo"
    hg(repo, "debugbuilddag", "+300", *options)  # in one transaction
    ours = hg(repo, "debugnodemap", "--dump-disk", *ALLOW)
    assert hg(repo, "debugnodemap", "--dump-new", *ALLOW) == ours
    hg(repo, "debugnodemap", "--check", *ALLOW)


def test_a_repository_that_needs_mercurials_opens_without_rust(path: Path) -> None:
    with pytest.raises(Exception, match="persistent-nodemap"):
        hg(path, "log", "-r", "tip", *STOCK)
    assert hg(path, "log", "-r", "tip", "-T", "{rev}") == b"%d" % (REVS - 1)


def test_filelogs_and_other_repositories_are_left_alone(ui: Any, path: Path) -> None:
    plain = ui.copy()
    plain.setconfig(b"amalgam", b"index.node-map", b"no")
    plain.setconfig(b"storage", b"revlog.persistent-nodemap.slow-path", b"allow")
    assert type(changelog(plain, path).index) is parsers.index
    repo = hgmod.repository(ui, str(path).encode())
    assert not isinstance(repo.file(b"none")._revlog.index, MappedIndex)
