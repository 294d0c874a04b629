"""What others put below ``.hg/amalgam`` is never followed, awaited or written to."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from mercurial import error

from hgext3rd.amalgam.files import Directory, Placement, Unusable
from hgext3rd.amalgam.gitstore.git import layout

PLACEMENT = Placement(0o2750, os.geteuid(), os.getegid())


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    """A directory that exists, two levels below its root."""
    directory = Directory(bytes(tmp_path), (b"amalgam", b"map"))
    directory.make(PLACEMENT)
    return directory


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory of somebody who must not notice, with a file in it."""
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / "file").write_text("precious")
    (victim / "file").chmod(0o600)
    return victim


def at(directory: Directory, name: str = "") -> Path:
    return Path(os.fsdecode(directory.join(name.encode())))


def shot(victim: Path) -> list[tuple[str, int, bytes]]:
    """Return all that can be seen of a victim."""
    return [
        (str(path), path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in [victim, *sorted(victim.rglob("*"))]
    ]


def test_file_is_made_replaced_and_read(directory: Directory) -> None:
    assert directory.tryread(b"docket", 10) == b""
    directory.replace(b"docket", b"old", PLACEMENT)
    directory.replace(b"docket", b"new", PLACEMENT, durable=False)
    assert directory.read(b"docket", 10) == b"new"
    assert directory.names() == [b"docket"]
    assert stat.S_IMODE(at(directory, "docket").stat().st_mode) == 0o640
    for path in (at(directory), at(directory).parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o2750
    directory.remove(b"docket")
    directory.remove(b"docket")
    assert directory.names() == []


def test_directory_that_exists_keeps_its_mode(directory: Directory) -> None:
    at(directory).chmod(0o755)
    directory.make(PLACEMENT)
    assert stat.S_IMODE(at(directory).stat().st_mode) == 0o755


def test_missing_directory_has_no_names(tmp_path: Path) -> None:
    directory = Directory(bytes(tmp_path), (b"amalgam",))
    assert directory.names() == directory.directories() == []
    assert not directory.exists()
    with pytest.raises(FileNotFoundError) as raised:
        directory.read(b"file", 10)
    assert raised.value.filename == bytes(tmp_path / "amalgam")


@pytest.mark.parametrize("name", [b"", b"/etc", b"../x", b"a/../x", b"a//b", b"."])
def test_name_does_not_lead_out(directory: Directory, name: bytes) -> None:
    with pytest.raises(error.ProgrammingError):
        directory.read(name, 10)


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "directory", "large"])
def test_what_is_no_file_of_ours_is_refused(
    directory: Directory, victim: Path, kind: str
) -> None:
    path = at(directory, "docket")
    if kind == "link":
        path.symlink_to(victim / "file")
    elif kind == "dangling":
        path.symlink_to(victim / "new")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 1 << 30)
    before = shot(victim)
    with pytest.raises(Unusable, match="docket"):
        directory.tryread(b"docket", 1000)
    if kind != "large":
        with pytest.raises(Unusable):
            directory.open_to_append(b"docket")
    with pytest.raises(FileExistsError):
        directory.create(b"docket", PLACEMENT)
    if kind == "directory":
        with pytest.raises(Unusable, match="docket' is a directory"):
            directory.replace(b"docket", b"new", PLACEMENT)
        directory.remove(b"docket")
    else:
        directory.replace(b"docket", b"new", PLACEMENT)
        assert directory.read(b"docket", 10) == b"new"
        assert stat.S_ISREG(path.lstat().st_mode)
    assert shot(victim) == before


@pytest.mark.parametrize("level", ["amalgam", "amalgam/map"])
def test_directory_that_is_a_link_is_not_entered(
    tmp_path: Path, victim: Path, level: str
) -> None:
    directory = Directory(bytes(tmp_path), (b"amalgam", b"map"))
    path = tmp_path / level
    path.parent.mkdir(exist_ok=True)
    (victim / "map").mkdir()
    path.symlink_to(victim)
    before = shot(victim)
    for step in (
        lambda: directory.make(PLACEMENT),
        lambda: directory.replace(b"file", b"new", PLACEMENT),
        lambda: directory.create(b"new", PLACEMENT),
        lambda: directory.read(b"file", 100),
        lambda: directory.remove(b"file"),
        lambda: directory.names(),
    ):
        with pytest.raises(Unusable, match="is not a directory"):
            step()
    assert not directory.exists(b"file")
    assert shot(victim) == before


def test_removal_does_not_leave_the_directory(
    directory: Directory, victim: Path
) -> None:
    inner = at(directory, "inner/deep")
    inner.mkdir(parents=True)
    (inner / "link").symlink_to(victim)
    (inner / "file").touch()
    before = shot(victim)
    directory.remove(b"inner")
    assert directory.names() == []
    assert shot(victim) == before


def test_file_with_two_names_is_not_appended_to(directory: Directory) -> None:
    directory.replace(b"data", b"ours", PLACEMENT)
    fd = directory.open_to_append(b"data")
    assert fd is not None
    os.close(fd)
    os.link(at(directory, "data"), at(directory, "backup"))
    assert directory.open_to_append(b"data") is None
    assert directory.read(b"data", 10) == b"ours"


def test_file_of_git_is_replaced_under_its_lock(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout.replace_locked(directory, b"packed-refs", b"old", PLACEMENT)
    monkeypatch.setattr(layout, "LOCK_SECONDS", 0.0)
    at(directory, "packed-refs.lock").touch()
    with pytest.raises(error.StateError, match="git store is locked"):
        layout.replace_locked(directory, b"packed-refs", b"new", PLACEMENT)
    assert sorted(directory.names()) == [b"packed-refs", b"packed-refs.lock"]
    at(directory, "packed-refs.lock").unlink()

    # and what a process of ours left that died is no lock
    at(directory, "packed-refs.amalgam").write_text("half")
    os.link(at(directory, "packed-refs.amalgam"), at(directory, "packed-refs.lock"))
    layout.replace_locked(directory, b"packed-refs", b"new", PLACEMENT)
    assert directory.names() == [b"packed-refs"]
    assert directory.read(b"packed-refs", 10) == b"new"


def test_all_below_a_directory_is_named_and_links_are_not_entered(
    directory: Directory, victim: Path
) -> None:
    at(directory, "inner/deep").mkdir(parents=True)
    at(directory, "inner/deep/file").touch()
    at(directory, "inner/link").symlink_to(victim)
    os.mkfifo(at(directory, "fifo"))
    files = {
        name: entry.is_file(follow_symlinks=False) for name, entry in directory.walk()
    }
    assert files == {
        b"inner": False,
        b"inner/deep": False,
        b"inner/deep/file": True,
        b"inner/link": False,
        b"fifo": False,
    }
    assert list(directory.sub(b"missing").walk()) == []


def test_root_that_is_missing_is_made(tmp_path: Path) -> None:
    directory = Directory(bytes(tmp_path / "a/b"), (b"c",))
    directory.make(PLACEMENT)
    for name in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o2750


def test_error_names_the_file_that_is_replaced(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not a temporary one, or none."""
    taken, refused = directory.join(b"taken"), directory.join(b"refused")
    os.mkdir(taken)
    with pytest.raises(Unusable, match=f"'{os.fsdecode(taken)}' is a directory"):
        directory.replace(b"taken", b"new", PLACEMENT)
    assert directory.names() == [b"taken"]

    def refuse(_fd: int, _mode: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(OSError, match="refused") as caught:
        directory.replace(b"refused", b"new", PLACEMENT)
    assert caught.value.filename == refused
    assert directory.names() == [b"taken"]


def test_executable_file_is_for_those_who_may_enter(directory: Directory) -> None:
    directory.replace(b"hook", b"#!/bin/sh\n", PLACEMENT, executable=True)
    assert stat.S_IMODE(at(directory, "hook").stat().st_mode) == 0o750
