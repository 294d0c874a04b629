"""Indexes that are large, and read."""

from __future__ import annotations

import io
import mmap
import struct
from pathlib import Path
from typing import Any

import pytest
from mercurial import extensions, ui as uimod
from testlib.environment import hg
from testlib.indexmaps import open_repository

from hgext3rd.amalgam.index import opening
from hgext3rd.amalgam.index.decision import Reason

REVS = 20_000  # 1.3 MB
ENTRY = struct.Struct(">Qiiiiii20s12x")
HEADER = (1 | 1 << 17) << 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A repository with a long changelog, whose texts are not there."""
    hg(tmp_path, "init", "repo")
    entries = (
        ENTRY.pack(0 if rev else HEADER, 1, 1, rev, rev, rev - 1, -1, node_of(rev))
        for rev in range(REVS)
    )
    index = tmp_path / "repo/.hg/store/00changelog.i"
    index.write_bytes(b"".join(entries))
    return tmp_path / "repo"


def node_of(rev: int) -> bytes:
    return struct.pack(">Q", (rev + 1) * 0x9E3779B97F4A7C15 % 2**64) + b"n" * 12


def changelog(path: Path) -> Any:
    ui = uimod.ui.load()
    ui.setconfig(b"extensions", b"amalgam", b"")
    extensions.loadall(ui)
    return open_repository(ui, bytes(path)).unfiltered().changelog


@pytest.mark.parametrize("huge", [True, False])
def test_a_large_index_is_read_in_full(
    path: Path, monkeypatch: pytest.MonkeyPatch, huge: bool
) -> None:
    if not huge:  # as on systems that have no such pages
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    log = changelog(path)
    opened = opening.opened_index(log)
    assert opened is not None
    assert opened.decision.reason is Reason.BELOW_THRESHOLD
    assert opened.data == (path / ".hg/store/00changelog.i").read_bytes()
    assert isinstance(opened.data, memoryview if huge else bytes)
    assert [log.rev(node_of(rev)) for rev in (0, REVS // 2, REVS - 1)] == [
        0,
        REVS // 2,
        REVS - 1,
    ]
    assert log.headrevs() == [REVS - 1]


@pytest.mark.parametrize("size_bytes", [200_000, 1 << 20])
def test_an_index_that_is_cut_meanwhile_is_read_up_to_its_end(size_bytes: int) -> None:
    whole = b"e" * size_bytes
    for content in (whole, whole[:-64]):
        read = opening._read_all(io.BytesIO(content), size_bytes)
        assert read is None or bytes(read) == content


def test_what_was_read_stays_if_the_index_is_cut(path: Path) -> None:
    log = changelog(path)
    (path / ".hg/store/00changelog.i").write_bytes(b"")
    assert log.node(REVS - 1) == node_of(REVS - 1)
    assert log.rev(node_of(REVS // 2)) == REVS // 2
