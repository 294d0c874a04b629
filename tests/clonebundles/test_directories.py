"""How a finished file gets into a directory elsewhere."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from hgext3rd.amalgam.clonebundles import locations
from hgext3rd.amalgam.files import Directory, Placement, Unusable

PLACEMENT = Placement(0o2750, os.geteuid(), os.getegid())


@pytest.fixture
def source(tmp_path: Path) -> Directory:
    """A directory with a file that is finished."""
    source = Directory(bytes(tmp_path), (b"source",))
    source.make(PLACEMENT)
    source.replace(b"NAME", b"text", PLACEMENT)
    return source


@pytest.fixture
def target(tmp_path: Path) -> Directory:
    target = Directory(bytes(tmp_path), (b"target",))
    target.make(PLACEMENT)
    return target


@pytest.mark.parametrize("way", ["rename", "copy", "two names"])
def test_file_arrives_whole_and_read_only(
    source: Directory,
    target: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    other, victim = tmp_path / "other", tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "target" / "NAME").symlink_to(victim)
    if way == "two names":
        os.link(tmp_path / "source" / "NAME", other)
    if way == "copy":

        def rename(*args: object, **kwargs: object) -> None:
            if args[0] == args[1]:  # the file keeps its name
                raise OSError(errno.EXDEV, "cross-device link")
            orig(*args, **kwargs)

        orig: Any = os.rename
        monkeypatch.setattr(os, "rename", rename)
    locations.move_file(source, b"NAME", target, PLACEMENT)
    assert (source.names(), target.names()) == ([], [b"NAME"])
    assert target.read(b"NAME", 10) == b"text"
    assert stat.S_IMODE(target.stat(b"NAME").st_mode) == 0o440
    assert victim.read_text() == "precious"
    if way == "two names":
        assert stat.S_IMODE(other.stat().st_mode) == 0o640


def test_half_of_a_copy_is_removed(
    source: Directory,
    target: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_args: object) -> None:
        raise OSError("full")

    os.link(tmp_path / "source" / "NAME", tmp_path / "other")
    monkeypatch.setattr(shutil, "copyfileobj", fail)
    with pytest.raises(OSError, match="full"):
        locations.move_file(source, b"NAME", target, PLACEMENT)
    assert target.names() == []
    assert source.read(b"NAME", 10) == b"text"


def test_link_is_not_moved(source: Directory, target: Directory) -> None:
    source.remove(b"NAME")
    os.symlink("/etc/passwd", source.join(b"NAME"))
    with pytest.raises(Unusable, match="is not a regular file"):
        locations.move_file(source, b"NAME", target, PLACEMENT)
    assert target.names() == []
