"""Directories for intermediate files: private, and removed after a kill."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from testlib.environment import ENVIRONMENT, ROOT
from testlib.exported import Exported

from hgext3rd.amalgam.scratch import scratch
from hgext3rd.amalgam.trust import Trust

HOLD = """
import sys
from mercurial import hg, ui
from hgext3rd.amalgam.scratch import scratch
with scratch(hg.repository(ui.ui.load(), sys.argv[1].encode())) as path:
    print(path.decode(), flush=True)
    sys.stdin.read()
"""


def left(store: Exported) -> set[str]:
    return {path.name for path in (store.root / ".hg/amalgam").glob("tmp-*")}


def test_directory_is_private_and_goes_with_the_context(empty: Exported) -> None:
    with scratch(empty.open()) as path:
        assert os.path.dirname(path) == bytes(empty.root / ".hg/amalgam")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
        Path(os.fsdecode(path), "file").touch()
    assert not os.path.exists(path)


def test_directory_of_a_killed_process_is_removed_by_the_next(empty: Exported) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(empty.root)],
        env=ENVIRONMENT | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    (path,) = process.stdout.readline().decode().splitlines()
    (Path(path) / "file").touch()
    with scratch(empty.open()):
        assert Path(path).exists()  # it is in use
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert left(empty) == {Path(path).name}
    with scratch(empty.open()):
        assert not Path(path).exists()
    assert not left(empty)


def test_link_of_that_name_is_not_followed(empty: Exported, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").touch()
    (empty.root / ".hg/amalgam").mkdir()
    link = empty.root / ".hg/amalgam" / ("tmp-scratch-" + 16 * "0")
    link.symlink_to(victim)
    with scratch(empty.open()):
        pass
    assert (victim / "file").exists()


@pytest.mark.parametrize("obstacle", ["trust", "link"])
def test_who_cannot_work_there_works_elsewhere(
    empty: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    repo: Any = empty.open()
    if obstacle == "trust":
        nothing = Trust(False, 0, None)
        monkeypatch.setattr(Trust, "of", lambda *_args: nothing)
    else:
        (tmp_path / "victim").mkdir()
        (empty.root / ".hg/amalgam").symlink_to(tmp_path / "victim")
    with scratch(repo) as path:
        assert not path.startswith(bytes(empty.root))
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    assert not os.path.exists(path)
    assert not left(empty)
