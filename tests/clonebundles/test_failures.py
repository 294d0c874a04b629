"""Bundles where something fails, dies, is damaged, or happens at the same time."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
from pathlib import Path

import pytest
from testlib.bundled import CLEAR, REFRESH, Bundled, uploading
from testlib.environment import HG

# servers and generators are processes of their own
pytestmark = pytest.mark.slow


def test_dead_generator_is_swept(published: Bundled) -> None:
    plant_pending(published, process_that_is_gone())
    assert {row["state"] for row in published.rows()} == {"live", "dead"}
    published.refresh()
    assert not published.debris()
    assert {row["state"] for row in published.rows()} == {"live"}


def test_dead_generator_does_not_keep_others_from_working(published: Bundled) -> None:
    for _number in range(3):
        published.commit()
    plant_pending(published, process_that_is_gone(), revs=6, rev=5)
    published.refresh()
    (row,) = (
        row
        for row in published.rows()
        if row["format"] == "cinnabar-v1"
        and row["state"] == "live"
        and row["changesets"] == 6
    )
    assert row["name"] in published.named()


def test_generator_of_another_host_is_left_alone(published: Bundled) -> None:
    plant_pending(published, 1, host="elsewhere")
    published.refresh()
    assert "elsewhere" in published.read("clonebundles.auto-gen")
    assert (published.dot_hg / "tmp-bundles" / "planted").exists()


def process_that_is_gone() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def plant_pending(
    bundled: Bundled, pid: int, host: str = "", revs: int = 3, rev: int = 2
) -> None:
    """Leave what a generator leaves that is killed."""
    node = bundled.hg("log", "-r", str(rev), "-T", "{node}")
    if not host:
        command = "from mercurial import lock; print(lock._getlockprefix().decode())"
        python = HG.with_name("python3")
        host = subprocess.check_output([python, "-c", command], text=True).strip()
    path = bundled.dot_hg / "tmp-bundles" / "planted"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"half of it")
    with (bundled.dot_hg / "clonebundles.auto-gen").open("a") as file:
        line = f"PENDING-v1 cinnabar-v1 {revs} {rev} {node} {host} {pid} {path}\n"
        file.write(line)


@pytest.mark.parametrize(
    "command",
    ["false", 'head -c 100 "$HGCB_BUNDLE_PATH" > "HOST/$HGCB_BUNDLE_BASENAME"', "true"],
)
def test_failed_upload_changes_nothing(fresh: Bundled, command: str) -> None:
    host = uploading(fresh)
    fresh.refresh()
    before = fresh.manifests(), fresh.rows(), {path.name for path in host.iterdir()}
    fresh.commit()
    uploading(fresh, command.replace("HOST", str(host)))
    fresh.configure("clone-bundles", trigger__revs="0")
    done = fresh.run(REFRESH)
    assert done.code == 255
    assert done.err.startswith(b"abort: ")
    assert not fresh.debris()
    after = fresh.manifests(), fresh.rows(), {path.name for path in host.iterdir()}
    assert [row["name"] for row in after[1]] == [row["name"] for row in before[1]]
    assert (after[0], after[2]) == (before[0], before[2])
    uploading(fresh)
    fresh.refresh()
    assert len(fresh.tokens()) == 2


def test_failure_in_the_background_is_told(fresh: Bundled) -> None:
    uploading(fresh, "exit 3")
    fresh.configure("clone-bundles", auto_generate__on_change="yes")
    fresh.commit()
    fresh.wait()
    (problem,) = fresh.problems()
    assert problem["text"].startswith(
        "bundles could not be generated: command returned"
    )
    assert problem["hint"] == "run 'hg admin::clone-bundles-refresh'"
    assert not fresh.debris()
    uploading(fresh)
    fresh.refresh()
    assert not fresh.problems()
    assert fresh.tokens() == [("base", 1)]


def test_change_while_bundles_are_made_is_not_missed(
    fresh: Bundled, tmp_path: Path
) -> None:
    fresh.configure("clone-bundles", auto_generate__on_change="yes", trigger__revs="0")
    once = tmp_path / "once"
    commit = f'"{HG}" -R "{fresh.root}" commit --cwd "{fresh.root}" -Aqm late'
    host = uploading(fresh)
    uploading(
        fresh,
        f'cp "$HGCB_BUNDLE_PATH" "{host}/$HGCB_BUNDLE_BASENAME";'
        f'test -e "{once}" || {{ touch "{once}" "{fresh.root}/late"; {commit}; }}',
    )
    fresh.refresh()
    fresh.wait()
    assert fresh.tokens() == [("base", 1), ("increment", 2)]
    assert not fresh.debris()


def test_server_that_does_not_answer_is_not_waited_for(fresh: Bundled) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        fresh.configure("amalgam", bundles__url=f"http://127.0.0.1:{port}/bundles")
        fresh.configure("http", timeout="0.2")
        done = fresh.run(REFRESH)
    assert done.code == 255
    assert b"abort: cannot read published bundle: timed out" in done.err
    assert not fresh.manifests()
    assert not fresh.bundles()


def test_failed_deletion_is_a_warning_and_tried_again(fresh: Bundled) -> None:
    host = uploading(fresh)
    fresh.refresh()
    fresh.configure("amalgam", bundles__retention="0")
    fresh.configure("clone-bundles", delete_command="false", git__formats="cinnabar-v1")
    old = {path.name for path in host.iterdir()} - {"bundles.list"}
    done = fresh.run(REFRESH)
    assert done.code == 0
    (name,) = old
    assert done.err.startswith(f"warning: cannot delete bundle {name}: ".encode())
    assert name not in fresh.named()
    assert (host / name).exists()
    uploading(fresh)
    fresh.refresh()
    assert not (host / name).exists()


def test_lost_file_is_told_and_made_again(published: Bundled) -> None:
    path = published.live("cinnabar-v1")
    path.unlink()
    (problem,) = published.problems()
    assert problem["text"] == f"bundle file is missing: {path}"
    with published.served() as served:
        assert "cinnabarclone" in served.capabilities()
    published.refresh()
    assert path.exists()
    assert not published.problems()


@pytest.mark.parametrize("length", [0, 3])
def test_damaged_set_of_heads_is_noticed_and_made_again(
    published: Bundled, length: int
) -> None:
    live = published.live_names()
    for path in published.directory.glob("*.heads"):
        os.truncate(path, length)
    with published.served() as served:
        assert "cinnabarclone" not in served.capabilities()
        assert not published.live_names()
        published.refresh()
        assert "cinnabarclone" in served.capabilities()
    assert published.live_names() == live


def test_part_of_a_set_of_heads_says_nothing_of_the_rest(published: Bundled) -> None:
    published.hg("update", "-q", "0")
    published.commit("another head")
    published.hg("admin::clone-bundles-clear")
    published.refresh()
    sets = published.directory.glob("*.heads")
    (path,) = (path for path in sets if path.stat().st_size == 40)
    os.truncate(path, 20)
    assert not published.live_names()


def test_damaged_register_keeps_nobody_from_pulling(published: Bundled) -> None:
    (published.directory / "register").write_text("{")
    with published.served() as served:
        said = served.capabilities()
        assert "getbundle" in said
        assert not said & {"cinnabarclone", "clonebundles"}
        assert served.get("?cmd=clonebundles") == b""
        assert served.get("?cmd=cinnabarclone") == b""


def test_full_disk_leaves_the_last_manifests(published: Bundled) -> None:
    before = published.manifests()
    published.commit(os.urandom(30_000).hex())
    for limit in (0, 1000, 3000, 8000, 20_000):
        process = published.start_refresh(
            preexec_fn=lambda limit=limit: resource.setrlimit(
                resource.RLIMIT_FSIZE, (limit, limit)
            )
        )
        _out, err = process.communicate()
        assert process.returncode, limit
        assert b"Traceback" not in err, err
        check_good(published)
    assert published.manifests() == before
    published.refresh()
    assert not published.debris()
    assert published.manifests() != before


def check_good(bundled: Bundled) -> None:
    """See that what is named is there, and is what its name says."""
    for name in bundled.named():
        path = bundled.directory / name
        said = subprocess.run(["sha256sum", path], capture_output=True, check=True)
        assert said.stdout.decode().startswith(name.partition(".")[0])


def test_two_generators_at_once_are_refused(published: Bundled) -> None:
    prefix = subprocess.check_output(
        [
            HG.with_name("python3"),
            "-c",
            "from mercurial import lock; print(lock._getlockprefix().decode())",
        ],
        text=True,
    ).strip()
    (published.directory / "lock").symlink_to(f"{prefix}:{os.getpid()}")
    done = published.run(REFRESH)
    assert done.code == 20
    assert done.err.startswith(b"abort: bundles are being generated by process ")
    assert published.run(CLEAR).code == 20


def test_damaged_history_is_one_line(published: Bundled) -> None:
    published.commit()
    path = published.dot_hg / "store" / "00changelog.i"
    content = bytearray(path.read_bytes())
    content[64 + 24 : 64 + 28] = b"\x7f\xff\xff\xff"  # a parent that cannot be
    path.write_bytes(content)
    for command in (REFRESH, CLEAR):
        done = published.run(command)
        assert b"Traceback" not in done.err
        assert done.code in (0, 20, 50, 255), done
        assert len(done.err.splitlines()) <= 3
