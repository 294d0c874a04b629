"""Whatever is written for a store is there as a whole, or is not there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from mercurial import error
from testlib import killpoints
from testlib.environment import ENVIRONMENT, hg

from hgext3rd.amalgam.placement import Placement, forget


@pytest.fixture
def placement() -> Placement:
    return Placement(0o2750, os.geteuid(), os.getegid())


def test_replaced_file_has_its_mode_and_no_traces(
    tmp_path: Path, placement: Placement
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    placement.replace(bytes(path), b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_directory_is_made_with_those_above_it(
    tmp_path: Path, placement: Placement
) -> None:
    placement.make_directory(bytes(tmp_path / "a/b"))
    for name in ("a", "a/b"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o2750
    (tmp_path / "a").chmod(0o755)
    placement.make_directory(bytes(tmp_path / "a"))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755


def test_lock_of_a_git_process_is_respected(
    tmp_path: Path, placement: Placement
) -> None:
    path = tmp_path / "packed-refs"
    lock = tmp_path / "packed-refs.lock"
    lock.write_text("")
    with pytest.raises(error.StateError, match="git store is locked"):
        placement.replace_of_git(bytes(path), b"new")
    assert list(tmp_path.iterdir()) == [lock]
    forget(bytes(path))
    lock.unlink()
    placement.replace_of_git(bytes(path), b"new")
    assert list(tmp_path.iterdir()) == [path]


def test_lock_of_a_dead_export_is_not(tmp_path: Path, placement: Placement) -> None:
    path = tmp_path / "packed-refs"
    staged = tmp_path / "packed-refs.amalgam"
    staged.write_text("half")
    os.link(staged, tmp_path / "packed-refs.lock")
    placement.replace_of_git(bytes(path), b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["first", "next", "rebuild", "configured anew"])
def test_killed_export_can_be_run_again(tmp_path: Path, case: str) -> None:
    template = tmp_path / "template"
    hg(tmp_path, "init", str(template))
    for name in ("one", "two"):
        (template / name).write_text(name)
        hg(template, "commit", "-qAm", name, "-d", "0 0")
        if case != "first" and name == "one":
            hg(template, "git::export")
    if case == "configured anew":
        (template / ".hg/store").chmod(0o770)
    args = ["git::export", *(["--rebuild"] if case == "rebuild" else [])]
    done = subprocess.run(
        [sys.executable, killpoints.__file__, str(template), str(tmp_path), *args],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    assert int(done.stdout.splitlines()[-1]) > 8
