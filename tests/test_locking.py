"""Locks of another host: renewed, or taken over when it is silent."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from mercurial import error, ui as uimod
from testlib.environment import git
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.webserver import until

from hgext3rd.amalgam import locking
from hgext3rd.amalgam.clonebundles import generator, publish
from hgext3rd.amalgam.clonebundles.register import Register
from hgext3rd.amalgam.config import GitConfig
from hgext3rd.amalgam.files import Directory, Placement
from hgext3rd.amalgam.gitstore.export import export as exporting
from hgext3rd.amalgam.gitstore.store import GitStore

ELSEWHERE = "elsewhere/f00:12"
PLACEMENT = Placement(0o700, os.geteuid(), os.getegid())


def lock_elsewhere(path: Path, age_seconds: float) -> None:
    path.symlink_to(ELSEWHERE)
    then = time.time() - age_seconds
    os.utime(path, (then, then), follow_symlinks=False)


def held(path: Path, timeout: int = 0) -> Any:
    directory = Directory(os.fsencode(path))
    ui = uimod.ui.load()
    return locking.held(ui, directory, PLACEMENT, b"the test", timeout=timeout)


def test_lock_is_taken_over_when_it_is_silent(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock_elsewhere(path, locking.SILENT_SECONDS - 60)
    with pytest.raises(error.LockHeld), held(tmp_path):
        pass
    assert os.readlink(path) == ELSEWHERE
    path.unlink()
    lock_elsewhere(path, locking.SILENT_SECONDS + 60)
    with held(tmp_path) as hold:
        assert os.readlink(path).endswith(f":{os.getpid()}")
        hold.require()
    assert not os.listdir(tmp_path)


def test_number_of_another_process_holds_no_lock(tmp_path: Path) -> None:
    """Its process died, and this host has given its number to another one."""
    path = tmp_path / "lock"
    with held(tmp_path):
        name = os.readlink(path).rpartition(":")[0]
    path.symlink_to(f"{name}:{os.getppid()}")
    with pytest.raises(error.LockHeld), held(tmp_path):
        pass
    then = time.time() - locking.SILENT_SECONDS - 60
    os.utime(path, (then, then), follow_symlinks=False)
    found = locking.holder(Directory(os.fsencode(tmp_path)))
    assert found
    assert found.state is locking.LockState.SILENT
    with held(tmp_path):
        pass
    assert not os.path.lexists(path)


def test_who_takes_a_lock_over_may_die(tmp_path: Path) -> None:
    lock_elsewhere(tmp_path / "lock", locking.SILENT_SECONDS + 60)
    lock_elsewhere(tmp_path / "lock.break", locking.SILENT_SECONDS - 60)
    with pytest.raises(error.LockHeld), held(tmp_path):
        pass
    (tmp_path / "lock.break").unlink()
    lock_elsewhere(tmp_path / "lock.break", locking.SILENT_SECONDS + 60)
    with held(tmp_path):
        pass
    assert not os.listdir(tmp_path)


def test_lock_that_nobody_came_to_write_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are no links, a lock is a file. It is made before it is written."""

    def no_links(*_args: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Directory, "symlink", no_links)
    path = tmp_path / "lock"
    path.touch()
    with pytest.raises(error.LockHeld), held(tmp_path):
        pass
    then = time.time() - locking.SILENT_SECONDS - 60
    os.utime(path, (then, then))
    with held(tmp_path) as hold:
        hold.require()
    assert not os.listdir(tmp_path)


def test_lock_without_room_for_it_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_args: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Directory, "symlink", no_links)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(error.LockUnavailable), held(tmp_path):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert not os.listdir(tmp_path)


def _count(path: str, times: int) -> None:
    counter = Path(path) / "counter"
    for _time in range(times):
        with held(Path(path), timeout=60):
            before = int(counter.read_text())
            time.sleep(0.001)
            counter.write_text(str(before + 1))
            other = Path(path) / f"by-{os.getpid()}"
            lock_elsewhere(other, locking.SILENT_SECONDS + 60)
            other.rename(Path(path) / "lock")  # at no moment is there none


def test_only_one_takes_it_over(tmp_path: Path) -> None:
    lock_elsewhere(tmp_path / "lock", locking.SILENT_SECONDS + 60)
    (tmp_path / "counter").write_text("0")
    context = multiprocessing.get_context("spawn")
    all_ = [context.Process(target=_count, args=(str(tmp_path), 20)) for _ in range(4)]
    for process in all_:
        process.start()
    for process in all_:
        process.join()
        assert process.exitcode == 0
    assert (tmp_path / "counter").read_text() == "80"


def test_holder_renews_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, has_own = [], locking._Files.has_own

    def counted(files: Any, name: bytes) -> bool:
        looks.append(name)
        return has_own(files, name)

    def let_it_look() -> None:
        before = len(looks)
        until(lambda: len(looks) >= before + 2)

    monkeypatch.setattr(locking._Files, "has_own", counted)
    monkeypatch.setattr(locking, "_RENEWAL_SECONDS", 0.01)
    path = tmp_path / "lock"
    with held(tmp_path):
        os.utime(path, (1, 1), follow_symlinks=False)
        until(lambda: path.lstat().st_mtime > 1)
        # but not that of somebody else
        path.unlink()
        lock_elsewhere(path, 100)
        let_it_look()  # it may have been about to touch its own
        before = path.lstat().st_mtime
        let_it_look()
        assert path.lstat().st_mtime == before
    assert os.readlink(path) == ELSEWHERE


def test_process_that_lost_its_lock_changes_nothing(
    tmp_path: Path, server: HgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step of an export that removes, adds and names."""
    store = Exported.init(tmp_path / "repo", server)
    lock = store.amalgam / "lock"
    for name in ("one", "gone"):
        store.commit_nothing(name)
    store.hg("phase", "--draft", "--force", "tip")
    require_lock = GitStore.require_lock
    left = [-1]

    def lose(self: GitStore) -> None:
        if self._hold:
            left[0] -= 1
            if left[0] == 0:
                lock.unlink()
                lock_elsewhere(lock, 0)
                left.append(1)
                lost.update(files_of(store))
        require_lock(self)

    monkeypatch.setattr(GitStore, "require_lock", lose)
    lost: dict[str, bytes] = {}
    for step in range(1, 100):
        store.hg("git::export")
        node = store.hg("log", "-r", "tip", "-T", "{node}")
        store.hg("debugobsolete", node, "--config", "experimental.evolution=all")
        store.hg("update", "-q", "0")
        store.commit_nothing(f"step {step}")
        store.hg("phase", "--draft", "--force", "tip")
        lost.clear()
        left[:] = [step]
        refusal = export(store)
        if not refusal:
            break
        assert b"taken over by another process" in refusal
        assert files_of(store) == lost
        assert os.readlink(lock) == ELSEWHERE
        lock.unlink()
        store.hg("git::export")
        assert store.run("git::verify", "--full").code == 0
        git(store.git_dir, "fsck", "--strict")
    assert len(left) == 1
    assert step > 5


def test_generator_that_lost_its_lock_changes_nothing(
    tmp_path: Path, server: HgServer
) -> None:
    store = Exported.init(tmp_path / "repo", server)
    repo = store.open()
    lock = store.amalgam / "bundles" / "lock"
    with generator.exclusive(repo):
        Register(last_token=1).write(repo)
        lock.unlink()
        lock_elsewhere(lock, 0)
        with pytest.raises(error.StateError, match="taken over"):
            Register(last_token=2).write(repo)
        with pytest.raises(error.StateError, match="taken over"):
            publish.sweep(repo, [], lambda _entry: None)
    assert os.readlink(lock) == ELSEWHERE
    assert Register.read(repo).last_token == 1


def export(store: Exported) -> bytes:
    """Export in this process; return why that was refused."""
    repo = store.open()
    try:
        exporting.export(GitStore(repo, GitConfig.from_ui(repo.ui)))
    except error.StateError as exc:
        return bytes(exc.message)
    return b""


def files_of(store: Exported) -> dict[str, bytes]:
    """Return what is there, without what roll-ups prepare: they have no lock yet."""
    return {
        str(path): path.read_bytes()
        for path in store.amalgam.rglob("*")
        if path.is_file() and "roll-up-" not in str(path)
    }
