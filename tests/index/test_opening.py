"""Indexes that are mapped without a closer look, and when they get one."""

from __future__ import annotations

import itertools
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mercurial import extensions, ui as uimod
from testlib.environment import hg
from testlib.indexmaps import open_repository

from hgext3rd.amalgam.files import Directory, Placement
from hgext3rd.amalgam.index import current, opening
from hgext3rd.amalgam.index.decision import Reason
from hgext3rd.amalgam.index.snapshot import FileStat, SnapshotDocket

if TYPE_CHECKING:
    from collections.abc import Callable

REVS = 20_000  # 1.3 MB
ENTRY = struct.Struct(">Qiiiiii20s12x")
HEADER = (1 | 1 << 17) << 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A repository with a long changelog, whose texts are not there."""
    hg(tmp_path, "init", "repo")
    index(tmp_path / "repo").write_bytes(entries(0, REVS))
    return tmp_path / "repo"


def index(path: Path) -> Path:
    return path / ".hg/store/00changelog.i"


def entries(start: int, end: int) -> bytes:
    return b"".join(
        ENTRY.pack(0 if rev else HEADER, 1, 1, rev, rev, rev - 1, -1, node_of(rev))
        for rev in range(start, end)
    )


def node_of(rev: int) -> bytes:
    return struct.pack(">Q", (rev + 1) * 0x9E3779B97F4A7C15 % 2**64) + b"n" * 12


def changelog(path: Path, **config: str) -> Any:
    ui = uimod.ui.load()
    ui.setconfig(b"extensions", b"amalgam", b"")
    for name, value in config.items():
        ui.setconfig(b"experimental", name.encode(), value.encode())
    extensions.loadall(ui)
    return open_repository(ui, bytes(path)).unfiltered().changelog


@pytest.fixture(autouse=True)
def first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test begin as a process does."""
    monkeypatch.setattr(current, "_by_python", itertools.count())


def opened(log: Any) -> opening.Opened:
    how = opening.opened_index(log)
    assert how is not None
    return how


def snapshots(path: Path) -> Directory:
    return Directory(bytes(path / ".hg"), (b"amalgam", b"index"))


def docket(path: Path) -> SnapshotDocket:
    found = SnapshotDocket.read(snapshots(path), b"00changelog.docket")
    assert found is not None
    return found


def data_file(path: Path) -> Path:
    (found,) = (path / ".hg/amalgam/index").glob("00changelog-*.snap")
    return found


def check_answers(log: Any, revs: int) -> None:
    wanted = (0, revs // 2, revs - 1)
    assert [log.rev(node_of(rev)) for rev in wanted] == list(wanted)
    assert log.headrevs() == [revs - 1]


def test_the_docket_is_the_one_that_snapshots_have(path: Path) -> None:
    state, data = FileStat(1, 2, 1 << 40, 4, 5), FileStat(6, 7, 1 << 41, 9, 10)
    written = SnapshotDocket(b"00manifest.i", b"0123456789abcdef", 64, state, data)
    body = current._DOCKET % (b"00manifest.i", written.uid, 64, *state, *data)
    assert written.format().startswith(body + b"sum ")
    assert current._uid_and_length(written.format()) == (written.uid, 64)


def test_a_current_snapshot_is_mapped_by_python(path: Path) -> None:
    by_core = opened(changelog(path))
    log = changelog(path)
    found = opened(log)
    assert by_core.handle
    assert not found.handle
    assert found.decision.reason is by_core.decision.reason is Reason.LARGE_ENOUGH
    assert found.decision == by_core.decision
    assert found.snapshot == by_core.snapshot
    assert found.data == index(path).read_bytes()
    check_answers(log, REVS)


@pytest.mark.parametrize("config", [{"mmapindex": "yes"}, {"mmapindexthreshold": "9"}])
def test_who_asks_for_it_gets_the_core(path: Path, config: dict[str, str]) -> None:
    changelog(path)
    log = changelog(path, **config)
    assert opened(log).handle
    check_answers(log, REVS)


def test_entries_behind_the_snapshot_are_read_by_the_core(path: Path) -> None:
    changelog(path)
    with index(path).open("ab") as file:
        file.write(entries(REVS, REVS + 10))
    for _time in range(2):  # the first has a closer look
        log = changelog(path)
        assert opened(log).handle
        assert opened(log).data == entries(0, REVS + 10)
        assert type(log.index).__name__ != "MappedIndex"  # too small for a node map
        check_answers(log, REVS + 10)
    where = bytes(path / ".hg"), b"00changelog.i"
    with index(path).open("rb") as file:
        found = current.find(*where, file.fileno(), b"none", by_core=False)
    assert found is not None
    assert found.mapped is not None


def rewritten(repo: Path, /, **values: Any) -> None:
    """Write the docket anew, with other values."""
    placement = Placement.at(bytes(repo / ".hg/store"), bytes(repo / ".hg"))
    changed = docket(repo)._replace(**values)
    changed.write(snapshots(repo), b"00changelog.docket", placement)


def moved_away(path: Path) -> None:
    """Make the data file a link."""
    data = data_file(path)
    data.rename(path / "elsewhere")
    data.symlink_to(path / "elsewhere")
    rewritten(path, data=FileStat.of(data.stat()))


def other_end(path: Path) -> None:
    """Let the snapshot differ from the index at its end, and the docket fit both."""
    data = data_file(path)
    content = data.read_bytes()
    data.write_bytes(content[:-64] + content[-128:-64])
    rewritten(path, data=FileStat.of(data.stat()))


def writable(path: Path) -> None:
    """Let everybody write to the data file."""
    data_file(path).chmod(0o666)
    rewritten(path, data=FileStat.of(data_file(path).stat()))


#: What has been done to a repository whose snapshot was current.
HARMS: dict[str, Callable[[Path], object]] = {
    "the index was written to": lambda path: os.utime(index(path)),
    "the data file was written to": lambda path: os.utime(data_file(path)),
    "the data file is gone": lambda path: data_file(path).unlink(),
    "the data file is a link": moved_away,
    "the data file may be written by all": writable,
    "the end differs": other_end,
    "the docket is of another index": lambda path: rewritten(path, path=b"00x.i"),
    "the docket names another file": lambda path: rewritten(path, uid=b"0" * 16),
    "the docket says more than there is": lambda path: rewritten(
        path, length_bytes=REVS * 64 + 64
    ),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_all_else_gets_a_closer_look(
    path: Path, harm: Callable[[Path], object]
) -> None:
    changelog(path)
    harm(path)
    where = bytes(path / ".hg"), b"00changelog.i"
    with index(path).open("rb") as file:
        for by_core in (False, True):
            found = current.find(*where, file.fileno(), b"none", by_core=by_core)
            assert found is None
    log = changelog(path)
    assert opened(log).handle
    assert opened(log).data == index(path).read_bytes()
    check_answers(log, REVS)
    with index(path).open("rb") as file:
        assert current.find(*where, file.fileno(), b"none", by_core=True)


def test_a_directory_that_all_may_write_is_not_mapped_from(path: Path) -> None:
    changelog(path)
    (path / ".hg/amalgam/index").chmod(0o777)
    log = changelog(path)
    assert opened(log).decision.reason is Reason.NO_SNAPSHOT
    check_answers(log, REVS)


def test_mappings_of_python_and_their_descriptors_are_few(path: Path) -> None:
    changelog(path)
    logs = [changelog(path) for _time in range(4)]
    assert [bool(opened(log).handle) for log in logs] == [False, False, True, True]
    for log in logs:
        check_answers(log, REVS)


def test_small_indexes_of_others_are_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.geteuid()
    changelog(path)
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    log = changelog(path)
    decision = opened(log).decision
    assert decision.reason is Reason.BELOW_THRESHOLD
    assert decision.threshold_bytes == 8 << 20
    check_answers(log, REVS)


def test_what_was_opened_stays_if_the_index_is_cut(path: Path) -> None:
    for is_mapped in (False, True):
        log = changelog(path, **({} if is_mapped else {"mmapindex": "no"}))
        whole = index(path).read_bytes()
        index(path).write_bytes(b"")
        assert log.node(REVS - 1) == node_of(REVS - 1)
        assert log.rev(node_of(REVS // 2)) == REVS // 2
        index(path).write_bytes(whole)
