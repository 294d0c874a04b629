"""When a snapshot counts, how it grows, and what becomes of it."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mercurial import error

from hgext3rd.amalgam.core.errors import Moved
from hgext3rd.amalgam.files import Directory, Placement
from hgext3rd.amalgam.index import buffer
from hgext3rd.amalgam.index.decision import Reason
from hgext3rd.amalgam.index.mapping import Site, Unavailable
from hgext3rd.amalgam.index.snapshot import (
    Busy,
    FileStat,
    IndexFile,
    Snapshot,
    SnapshotDocket,
    Snapshots,
)
from hgext3rd.amalgam.trust import Trust

ENTRY = 64


class Index:
    """A file that stands for an index, and the snapshots beside it."""

    def __init__(self, root: Path) -> None:
        self.path = root / "store" / "00changelog.i"
        self.path.parent.mkdir()
        self.directory = root / "amalgam" / "index"
        directory = Directory(bytes(root), (b"amalgam", b"index"))
        self.snapshots = Snapshots(directory, Trust(True, os.geteuid(), None))
        self.placement = Placement(0o2750, os.geteuid(), os.getegid())
        self.followed: list[tuple[Snapshot, bytes]] = []
        self.site = Site(
            self.snapshots,
            bytes(root / "store"),
            bytes(root),
            buffer.PREFAULTS[b"none"],
            lambda _placement, snapshot, data, _afresh: self.followed.append(
                (snapshot, bytes(data))
            ),
        )
        self.write(range(100))

    def write(self, numbers: range) -> None:
        """Replace the content, in place, by one entry for each number."""
        self.path.write_bytes(entries(numbers))

    def append(self, numbers: range) -> None:
        with self.path.open("ab") as file:
            file.write(entries(numbers))

    @contextlib.contextmanager
    def open(self) -> Iterator[IndexFile]:
        with self.path.open("rb") as file:
            yield IndexFile(file.fileno(), b"00changelog.i", b"00changelog", ENTRY)

    def renew(
        self, grown_from: FileStat | None = None, afresh: bool = False
    ) -> Snapshot:
        with self.open() as file, self.snapshots.writing(self.placement):
            renewed = self.snapshots.renew(
                file, self.placement, grown_from=grown_from, afresh=afresh
            )
            assert renewed
            return renewed

    def find(self) -> Snapshot | None:
        with self.open() as file:
            return self.snapshots.find(file, file.state())

    def state(self) -> FileStat:
        return FileStat.of(self.path.stat())

    def data_state(self) -> FileStat:
        """Return the state of the only data file."""
        (path,) = self.data_files()
        return FileStat.of(path.stat())

    def read(self, in_transaction: bool = False) -> bytes:
        with self.open() as file:
            return bytes(self.site.open(file, lambda: in_transaction)[0].data)

    def data_files(self) -> list[Path]:
        return sorted(self.directory.glob("*.snap"))


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path)


def entries(numbers: range) -> bytes:
    return b"".join(b"%064d" % number for number in numbers)


def test_new_snapshot_is_the_whole_index(index: Index) -> None:
    assert index.find() is None
    snapshot = index.renew()
    assert snapshot.length_bytes == 100 * ENTRY
    assert Path(os.fsdecode(snapshot.path)).read_bytes() == entries(range(100))
    assert index.find() == snapshot
    assert index.renew() == snapshot


def test_index_without_entries_has_none(index: Index) -> None:
    index.path.write_bytes(b"x" * (ENTRY - 1))
    with index.open() as file, index.snapshots.writing(index.placement):
        assert index.snapshots.renew(file, index.placement) is None
    assert index.data_files() == []


def test_last_entry_that_is_cut_is_left_out(index: Index) -> None:
    index.path.write_bytes(entries(range(3)) + b"x" * (ENTRY - 1))
    assert index.renew().length_bytes == 3 * ENTRY
    assert index.read() == index.path.read_bytes()


def test_any_write_ends_the_verdict(index: Index) -> None:
    index.renew()
    content = index.path.read_bytes()
    index.path.write_bytes(content)
    assert index.find() is None


def test_little_growth_is_read_and_much_is_appended(index: Index) -> None:
    first = index.renew()
    index.append(range(100, 104))
    little = index.renew()
    assert little == first
    assert index.read() == entries(range(104))
    index.append(range(104, 200))
    much = index.renew()
    assert much == first._replace(length_bytes=200 * ENTRY, data=index.data_state())
    assert index.read() == entries(range(200))
    assert len(index.data_files()) == 1


def test_index_that_was_cut_keeps_what_still_fits(index: Index) -> None:
    first = index.renew()
    index.write(range(60))
    assert index.renew() == first._replace(length_bytes=60 * ENTRY)
    assert index.read() == entries(range(60))
    # what a reader may have mapped is never written to
    index.append(range(1060, 1200))
    other = index.renew()
    assert other.uid != first.uid
    assert index.read() == entries(range(60)) + entries(range(1060, 1200))


def test_history_that_was_rewritten_takes_a_new_file(index: Index) -> None:
    first = index.renew()
    index.write(range(50, 150))
    assert index.renew().uid != first.uid
    assert index.read() == entries(range(50, 150))


def test_bytes_left_by_a_writer_that_died_do_not_count(index: Index) -> None:
    first = index.renew()
    with index.data_files()[0].open("ab") as file:
        file.write(b"torn")
    assert index.read() == entries(range(100))
    index.append(range(100, 200))
    assert index.renew().uid != first.uid
    assert index.read() == entries(range(200))


def test_growth_that_is_known_is_not_compared(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = index.renew()
    before = index.state()
    index.append(range(100, 102))

    def common_prefix(*_args: object) -> int:
        raise AssertionError("compared")

    monkeypatch.setattr(buffer, "common_prefix", common_prefix)
    assert index.renew(grown_from=before) == first
    monkeypatch.undo()
    # not so if the docket is of another state, or the file another one, or shorter
    for change in ("replace", "cut"):
        before = index.state()
        if change == "replace":
            index.path.with_name("new").write_bytes(entries(range(500, 700)))
            index.path.with_name("new").replace(index.path)
        else:
            index.write(range(600, 690))
        index.renew(grown_from=before)
        assert index.read() == index.path.read_bytes()


def test_reader_renews_what_does_not_fit(index: Index) -> None:
    assert index.read() == entries(range(100))
    snapshot = index.find()
    assert snapshot
    assert index.followed == [(snapshot, entries(range(100)))]
    index.write(range(1000, 1010))
    assert index.read() == entries(range(1000, 1010))
    assert index.followed[1:] == [(index.find(), entries(range(1000, 1010)))]
    assert index.read() == entries(range(1000, 1010))
    assert len(index.followed) == 2


def refusal(index: Index, in_transaction: bool = False) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        index.read(in_transaction)
    return caught.value


def test_reader_renews_nothing_during_a_transaction(index: Index) -> None:
    assert refusal(index, in_transaction=True).reason is Reason.TRANSACTION
    assert not index.directory.exists()
    index.renew()
    assert index.read(in_transaction=True) == entries(range(100))


def test_reader_does_not_wait_for_a_writer(index: Index) -> None:
    with index.snapshots.writing(index.placement):
        assert refusal(index).reason is Reason.BUSY
        with pytest.raises(Busy), index.snapshots.writing(index.placement):
            pass
    assert index.read() == entries(range(100))


def test_writer_that_died_is_in_nobody_s_way(index: Index) -> None:
    index.renew()
    code = "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDONLY);"
    code += "fcntl.flock(fd, fcntl.LOCK_EX); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, str(index.directory / "lock")])
    index.write(range(5))
    assert index.read() == entries(range(5))


def test_reader_that_cannot_write_says_why(index: Index) -> None:
    index.directory.parent.write_text("in the way")
    refused = refusal(index)
    assert refused.reason is Reason.NO_SNAPSHOT
    assert refused.detail == b"'%s' is not a directory" % bytes(index.directory.parent)


def test_index_that_keeps_changing_is_read(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.renew()
    mapped = buffer.mapped

    def changing(*args: object) -> buffer.Mapped:
        os.utime(index.path)
        return mapped(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(buffer, "mapped", changing)
    assert refusal(index).reason is Reason.CHANGING


def test_index_that_is_cut_while_it_is_copied_is_refused(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = os.copy_file_range

    def cutting(*args: int) -> int:
        copied = copy(*args)
        index.write(range(7))
        return copied

    monkeypatch.setattr(os, "copy_file_range", cutting)
    with pytest.raises(Moved):
        index.renew()
    assert index.find() is None
    monkeypatch.undo()
    assert index.read() == entries(range(7))


@pytest.mark.parametrize("damage", ["removed", "cut", "last entry", "docket"])
def test_damage_that_a_reader_sees_is_mended(index: Index, damage: str) -> None:
    index.renew()
    data = index.data_files()[0]
    if damage == "removed":
        data.unlink()
    elif damage == "cut":
        os.truncate(data, 99 * ENTRY)
    elif damage == "docket":
        docket = index.directory / "00changelog.docket"
        docket.write_bytes(docket.read_bytes().replace(b"length 6400", b"length 6336"))
    else:
        with data.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"!")
    assert index.read() == entries(range(100))
    assert index.find()
    with index.open() as file:
        snapshot = index.find()
        assert snapshot
        assert index.snapshots.difference(file, snapshot) is None


def test_difference_is_found(index: Index) -> None:
    snapshot = index.renew()
    with index.data_files()[0].open("r+b") as file:
        file.seek(70)
        file.write(b"!")
    with index.open() as opened:
        assert index.snapshots.difference(opened, snapshot) is None, "does not count"
        rotten = snapshot._replace(data=index.data_state())
        assert index.snapshots.difference(opened, rotten) == 70
    renewed = index.renew(afresh=True)
    with index.open() as opened:
        assert index.snapshots.difference(opened, renewed) is None


def test_copy_by_hand_is_the_same(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_args: int) -> int:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "copy_file_range", unsupported)
    index.renew()
    assert index.data_files()[0].read_bytes() == entries(range(100))
    monkeypatch.delattr(os, "copy_file_range")
    index.append(range(100, 200))
    index.renew()
    assert index.data_files()[0].read_bytes() == entries(range(200))


def test_data_files_that_are_not_named_are_removed(index: Index) -> None:
    index.renew()
    (first,) = index.data_files()
    others = [index.directory / name for name in ("tmp-leftover", "tmp-new", "other")]
    for path in others:
        path.touch()
    os.utime(others[0], (0, 0))
    index.renew(afresh=True)
    (second,) = index.data_files()
    assert second != first
    assert [path.exists() for path in others] == [False, True, True]


def test_files_have_the_mode_of_the_store(index: Index) -> None:
    index.renew()
    assert stat.S_IMODE(index.directory.stat().st_mode) == 0o2750
    assert {
        stat.S_IMODE(path.stat().st_mode) for path in index.directory.iterdir()
    } == {0o640}


def test_mapping_outlives_files_and_is_read_only(index: Index) -> None:
    with index.open() as file:
        data = index.site.open(file, lambda: False)[0].data
    for path in index.data_files():
        path.unlink()
    index.write(range(1))
    assert bytes(data) == entries(range(100))
    assert data.readonly
    with pytest.raises(TypeError):
        data[0] = 1


DOCKET = SnapshotDocket(
    b"meta/a b/00manifest.i",
    b"0" * 16,
    640,
    FileStat(1, 2, 700, 3, 4),
    FileStat(1, 5, 660, 6, 7),
)


def test_docket_is_what_was_written() -> None:
    assert SnapshotDocket.parse(DOCKET.format()) == DOCKET


@pytest.mark.parametrize("at", range(len(DOCKET.format())))
def test_docket_that_is_damaged_is_none(at: int) -> None:
    content = bytearray(DOCKET.format())
    content[at] ^= 1
    assert SnapshotDocket.parse(bytes(content)) is None
    assert SnapshotDocket.parse(DOCKET.format()[:at]) is None


def test_docket_of_another_index_does_not_count(index: Index) -> None:
    index.renew()
    with index.open() as file:
        other = file._replace(path=b"other.i")
        assert index.snapshots.find(other, other.state()) is None


def test_errors_are_those_of_mercurial() -> None:
    assert issubclass(Moved, error.StateError)
