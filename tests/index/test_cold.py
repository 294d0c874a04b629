"""What is read of a large index that is not in memory."""

from __future__ import annotations

import gc
import random
import resource
import struct
from pathlib import Path
from typing import Any

import pytest
from mercurial import extensions, ui as uimod
from testlib.environment import hg
from testlib.indexmaps import open_repository
from testlib.residency import PAGE_BYTES, drop, resident

from hgext3rd.amalgam.index import buffer, opening

pytestmark = [pytest.mark.slow, pytest.mark.needs("cold")]

REVS = 1 << 16  # 1024 pages of entries
ENTRY = struct.Struct(">Qiiiiii20s12x")
HEADER = (1 | 1 << 17) << 32


def node_of(rev: int) -> bytes:
    return struct.pack(">Q", rev * 0x9E3779B97F4A7C15 % 2**64) + b"n" * 12


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a long changelog, whose texts are not there."""
    path = tmp_path_factory.mktemp("cold") / "repo"
    hg(path.parent, "init", path.name)
    (path / ".hg/store/00changelog.i").write_bytes(
        b"".join(
            ENTRY.pack(
                0 if rev else HEADER, 1, 1, rev, rev, rev - 1, -1, node_of(rev + 1)
            )
            for rev in range(REVS)
        )
    )
    assert len(changelog(path)) == REVS  # which makes snapshot and node map
    return path


def changelog(path: Path) -> Any:
    ui = uimod.ui.load()
    ui.setconfig(b"extensions", b"amalgam", b"")
    ui.setconfig(b"experimental", b"mmapindexthreshold", b"1 MB")
    extensions.loadall(ui)
    return open_repository(ui, bytes(path)).unfiltered().changelog


@pytest.fixture
def files(made: Path) -> tuple[Path, Path, Path]:
    """Index, snapshot and node map, none of it in memory."""
    kept = made / ".hg/amalgam/index"
    (snapshot,) = kept.glob("00changelog-*.snap")
    (nodes,) = kept.glob("00changelog-*.nodemap")
    found = (made / ".hg/store/00changelog.i", snapshot, nodes)
    gc.collect()  # who has it mapped keeps it
    for file in found:
        drop(file)
        assert not resident(file)
    return found


def test_look_ups_touch_few_pages(made: Path, files: tuple[Path, Path, Path]) -> None:
    index = changelog(made).index
    for rev in (REVS - 1, 10, REVS // 2):
        node = node_of(rev + 1)
        assert index.rev(node) == rev
        assert index.partialmatch(node.hex()[:10].encode()) == node
        assert index[rev][7] == node
    assert index.get_rev(b"\xfe" * 20) is None
    stored, snapshot, nodes = (resident(file) for file in files)
    # its ends, and the page of each revision
    pages = {rev * ENTRY.size // PAGE_BYTES for rev in (0, 10, REVS // 2, REVS - 1)}
    assert snapshot == pages
    assert len(nodes) <= 2 * 4  # a fence page and a block page each
    # its ends are read, and what the kernel reads ahead of them
    assert len(stored) <= 64


def test_the_last_page_answers_without_a_node_map(
    made: Path, files: tuple[Path, Path, Path]
) -> None:
    index = changelog(made).index
    for rev in (REVS - 1, REVS - 64):
        assert index.rev(node_of(rev + 1)) == rev
        assert index.has_node(node_of(rev + 1))
    assert index.get_rev(b"\0" * 20) == -1
    assert not resident(files[2])
    assert index.get_rev(node_of(REVS - 64)) == REVS - 65
    assert resident(files[2])


def test_many_look_ups_read_everything_in_order(
    made: Path, files: tuple[Path, Path, Path]
) -> None:
    index, revs = changelog(made).index, random.Random(0).sample(range(REVS), 1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    assert [index.rev(node_of(rev + 1)) for rev in revs] == revs
    waited = resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before
    for file in files[1:]:
        assert len(resident(file)) == -(-file.stat().st_size // PAGE_BYTES)
    # the beginning of each file page by page, of which each could wait for the disk
    assert waited < 100


def test_look_ups_in_few_pages_read_no_others(
    made: Path, files: tuple[Path, Path, Path]
) -> None:
    index = changelog(made).index
    for _time in range(1000):
        for rev in (10, REVS // 2):
            assert index.rev(node_of(rev + 1)) == rev
    assert len(resident(files[1])) <= 4


def test_walks_read_ahead(made: Path, files: tuple[Path, Path, Path]) -> None:
    log = changelog(made)
    for rev in range(1024):
        assert log.index[rev][5] == rev - 1
    assert resident(files[1]) > set(range(1024 * ENTRY.size // PAGE_BYTES))


def test_what_is_expected_in_full_is_in_memory_at_once(
    made: Path, files: tuple[Path, Path, Path]
) -> None:
    log = changelog(made)
    assert log.tiprev() == REVS - 1
    opened = opening.opened_index(log)
    assert opened is not None
    first, end = REVS // 4 * ENTRY.size, REVS // 2 * ENTRY.size
    opened.expect(buffer.EVERYTHING, first + 64, end)
    pages = set(range(first // PAGE_BYTES, end // PAGE_BYTES))
    assert resident(files[1]) >= pages


def test_heads_read_all(made: Path, files: tuple[Path, Path, Path]) -> None:
    log = changelog(made)
    assert log.headrevs() == [REVS - 1]
    assert len(resident(files[1])) == REVS * ENTRY.size // PAGE_BYTES
