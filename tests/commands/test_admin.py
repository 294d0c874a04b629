"""The state of a git store at a glance: ``admin::amalgam``."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from mercurial import lock as lockmod
from testlib import faults
from testlib.environment import ENVIRONMENT, HG, captured, git
from testlib.exported import Exported

from hgext3rd.amalgam import locking
from hgext3rd.amalgam.gitstore.export.export import export
from hgext3rd.amalgam.gitstore.oidmap import Table
from hgext3rd.amalgam.gitstore.status import StoreStatus


def status_of(store: Exported, **config: str) -> StoreStatus:
    return StoreStatus.of(store.git_store(**config))


def problems(status: StoreStatus) -> list[str]:
    return [problem.text.decode() for problem in status.problems]


def admin(store: Exported, *args: str) -> tuple[int, dict[str, Any]]:
    """Run the command; return its exit code and what it said."""
    done = store.run("admin::amalgam", "-T", "json", *args)
    (said,) = json.loads(done.out)
    return done.code, said


def test_all_is_measured(store: Exported) -> None:
    status = status_of(store)
    assert problems(status) == []
    assert (status.served, status.behind, status.refs_behind) == (10, 0, 0)
    assert status.pairs[Table.CHANGESETS] == 10
    assert status.packs == len(store.packs())
    assert status.segments == len(store.segments())
    files = [*store.packs_dir.iterdir()]
    assert status.pack_bytes == sum(file.stat().st_size for file in files)
    listed = git(store.git_dir, "count-objects", "-v").decode()
    assert f"in-pack: {status.objects}\n" in listed
    assert status.lock is None


def test_behind_needs_nobody(store: Exported) -> None:
    for _number in range(2):
        store.commit_nothing("more")
    status = status_of(store)
    assert problems(status) == []
    assert (status.served, status.behind, status.refs_behind) == (12, 2, 1)
    assert admin(store)[0] == 0


def test_moved_bookmark_needs_nobody(store: Exported) -> None:
    store.hg("bookmark", "--force", "-r", "1", "feature/one")
    store.hg("bookmark", "-r", "1", "another")
    status = status_of(store)
    assert problems(status) == []
    assert (status.behind, status.refs_behind) == (0, 2)


@pytest.mark.parametrize(
    "fault",
    [
        faults.a_wrong_ref,
        faults.a_stale_ref,
        faults.a_missing_packed_refs,
        faults.a_truncated_packed_refs,
        faults.a_loose_ref_that_hides_ours,
        faults.a_wrong_head,
        faults.a_missing_segment,
        faults.a_cut_segment,
        faults.a_missing_docket,
        faults.a_damaged_docket,
        faults.a_docket_that_names_a_missing_pack,
        faults.a_missing_pack,
        faults.a_missing_rev,
        faults.a_foreign_pack,
        faults.a_foreign_object,
        faults.alternates,
        faults.a_commit_of_a_changeset_that_is_secret_now,
        faults.a_repository_without_head,
        faults.a_missing_repository,
    ],
    ids=lambda fault: fault.__name__,
)
def test_fault_needs_a_person(
    store: Exported, fault: Callable[[Exported], str]
) -> None:
    fault(store)
    status = status_of(store)
    assert problems(status)
    assert all(b"run 'hg " in problem.hint for problem in status.problems)


def test_repair_tells_what_it_mended_and_what_is_left(store: Exported) -> None:
    faults.a_corrupt_pack(store)
    assert admin(store)[0] == 0  # contents are not read at a glance
    code, said = admin(store, "--repair")
    assert code == 0
    assert [difference["what"] for difference in said["mended"]] == ["pack"]
    assert said["problems"] == []
    assert admin(store, "--repair")[1]["mended"] == []


def test_each_mistake_in_the_configuration_is_named(store: Exported) -> None:
    with (store.root / ".hg" / "hgrc").open("a") as file:
        file.write(
            "[amalgam]\ngit.exports = public\nindex.prefault = fast\nquux = 1\n"
            "[clone-bundles]\ngit.format = git-v2\n"
        )
    code, said = admin(store)
    assert code == 1
    assert [(it["text"], it["hint"]) for it in said["problems"]] == [
        (
            "unknown config item amalgam.git.exports",
            "did you mean amalgam.git.export?",
        ),
        (
            "unknown config item amalgam.quux",
            "see 'hg help config.amalgam' for all items",
        ),
        (
            "unknown config item clone-bundles.git.format",
            "did you mean clone-bundles.git.formats?",
        ),
        (
            "invalid value 'fast' for amalgam.index.prefault "
            "(expected none, willneed or populate)",
            "see 'hg help config.amalgam'",
        ),
    ]
    for command in (["git::export"], ["git::bundle", "x"], ["git::verify"]):
        done = store.run(*command)
        assert done.code == 30
        assert b"unknown config item amalgam.git.exports" in done.err
    for command in (["log", "-T", "{gitnode}"], ["commit", "-m", "x"], ["status"]):
        done = store.run(*command)
        assert done.code in (0, 1)
        assert b"abort" not in done.err
    assert not (store.root / "x").exists()


def test_requirement_that_is_not_known_is_a_problem(store: Exported) -> None:
    with (store.root / ".hg/store/requires").open("a") as file:
        file.write("exp-compression-zlib\n")
    assert problems(status_of(store))[0].endswith("that requires: exp-compression-zlib")


def test_kernel_that_gives_wrong_answers_is_a_problem(store: Exported) -> None:
    (store.root / "faulty.py").write_text(
        "from hgext3rd.amalgam.commands import installation\n"
        "installation.refused_kernels = lambda _ui: [b'avx512', b'portable']\n"
    )
    options = ["--config", "extensions.amalgam=", "--config"]
    command = [str(HG), *options, "extensions.faulty=faulty.py", "admin::amalgam"]
    done = captured(command, store.root, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    line = "SHA-1 kernel 'avx512' gives wrong answers on this machine, and is not used"
    assert line in done.stdout
    assert "  (do not export on it: no other kernel is left)\n" in done.stdout


def test_never_exported_is_not_wrong(empty: Exported) -> None:
    store = empty
    for repair in ([], ["--repair"]):
        code, said = admin(store, *repair)
        assert code == 0
        assert not said["exists"]
        assert not store.amalgam.exists()


def test_lock_tells_who_holds_it(store: Exported) -> None:
    path = store.amalgam / "lock"
    here = lockmod._getlockprefix().decode()
    with subprocess.Popen(["true"]) as ended:
        pass
    old = (0, time.time() - 2 * 24 * 3600)
    for locker, state, times, is_wrong in [
        (f"{here}:{os.getpid()}", locking.LockState.RUNNING, None, False),
        (f"{here}:{ended.pid}", locking.LockState.DEAD, None, False),
        ("elsewhere/f00:12", locking.LockState.ELSEWHERE, None, False),
        ("elsewhere/f00:12", locking.LockState.SILENT, old, False),
        ("nonsense", locking.LockState.NO_LOCK, None, True),
    ]:
        path.symlink_to(locker)
        if times:
            os.utime(path, times, follow_symlinks=False)
        status = status_of(store)
        assert status.lock
        assert status.lock.state is state
        if state is not locking.LockState.NO_LOCK:
            host = locker.partition("/")[0].partition(":")[0]
            assert status.lock.host.decode() == host
        assert bool(status.problems) == is_wrong
        path.unlink()


def test_export_under_way_does_not_look_wrong(store: Exported) -> None:
    faults.a_foreign_pack(store)
    (store.amalgam / "lock").symlink_to(
        f"{lockmod._getlockprefix().decode()}:{os.getpid()}"
    )
    assert problems(status_of(store)) == []


def test_lock_of_a_dead_process_does_not_stop_a_repair(store: Exported) -> None:
    faults.a_wrong_ref(store)
    with subprocess.Popen(["true"]) as ended:
        pass
    prefix = lockmod._getlockprefix().decode()
    (store.amalgam / "lock").symlink_to(f"{prefix}:{ended.pid}")
    code, said = admin(store, "--repair")
    assert (code, len(said["mended"]), said["lock"]) == (0, 1, "free")


def test_all_may_be_removed_while_a_repository_is_open(store: Exported) -> None:
    opened = store.git_store()
    node = opened.repo[b"tip"].node()
    with contextlib.closing(opened.open_map()) as oidmap:
        (oid,) = oidmap.oids([node])
        assert oid
        shutil.rmtree(store.amalgam)
        assert oidmap.oids([node]) == [oid]
    with contextlib.closing(opened.open_map()) as oidmap:
        assert oidmap.oids([node]) == [None]
    assert not StoreStatus.of(opened).exists
    export(opened)
    with contextlib.closing(opened.open_map()) as oidmap:
        assert oidmap.oids([node]) == [oid]
    assert problems(StoreStatus.of(opened)) == []


@pytest.mark.slow
def test_all_may_be_removed_while_an_export_runs(empty: Exported) -> None:
    store = empty
    store.hg("debugbuilddag", "-n", "+400")
    command = [str(HG), "--config", "extensions.amalgam=", "git::export", "--rebuild"]
    for tenths in range(8):
        with subprocess.Popen(
            command, cwd=store.root, env=ENVIRONMENT, stderr=subprocess.PIPE
        ) as process:
            time.sleep(0.1 * tenths)
            # what appears meanwhile is in the way of removing its directory
            with contextlib.suppress(OSError):
                shutil.rmtree(store.amalgam)
            assert process.stderr
            assert b"Traceback" not in process.stderr.read()
    store.hg("git::export")
    store.hg("git::verify", "--full")
