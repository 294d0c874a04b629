"""The commands perf::amalgam-*: that each row is what it says. Times are not judged."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from testlib.environment import ENVIRONMENT, HG
from testlib.generated import generate
from testlib.webserver import until


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose changelog is large enough not to be inline."""
    path = tmp_path_factory.mktemp("perf") / "repo"
    return generate(path, "linear", "--changesets=1500", "--files=3")


def perf(repo: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [str(HG), "-R", str(repo), "--config", "perf.stub=yes"]
    command += ["--config", "ui.detailed-exit-code=yes"]
    command += ["--config", "extensions.hgext3rd.amalgam.perf=", *args]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)


def rows(repo: Path, *args: str) -> list[dict[str, Any]]:
    done = perf(repo, *args, "-T", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.torture
@pytest.mark.slow
def test_index_is_measured_in_every_way_it_can_be_had(repo: Path) -> None:
    found = rows(repo, "perf::amalgam-index", "--cache=warm")
    opened = [row for row in found if "the last entry" in row["title"]]
    assert [row["subject"] for row in opened] == [
        "read",
        "read, again",
        "mmap",
        "amalgam",
        "snapshot, none",
        "snapshot, willneed",
        "snapshot, populate",
    ]
    assert all(row["wall"] > 0 and row["count"] == 1 for row in found)
    assert "change_percent" not in opened[0]
    assert len(found) == 2 * len(opened)  # all heads, too


WATCH = """
import sys
from hgext3rd.amalgam.perf import probe

def loaded():
    return {n for n, m in sys.modules.items() if type(m).__name__ != "_LazyModule"}

class Meter(probe.Meter):
    def __init__(self):
        super().__init__()
        self.before = loaded()

    def sample(self):
        new = loaded() - self.before
        sys.stderr.write("loaded: %s" % sorted(n for n in new if "amalgam" in n))
        return super().sample()

probe.Meter = Meter
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["open", "tip", "prefix"])
def test_no_module_of_amalgam_is_loaded_while_it_is_timed(
    repo: Path, tmp_path: Path, step: str
) -> None:
    copy, watch = tmp_path / "copy", tmp_path / "watch.py"
    shutil.copytree(repo, copy)  # it gets a snapshot, and other tests have none
    watch.write_text(WATCH)
    command = [str(HG), "debugamalgamprobe", str(copy)]
    for item in (
        "extensions.amalgam=",
        "extensions.hgext3rd.amalgam.perf=",
        f"extensions.watch={watch}",
        "experimental.mmapindex=yes",
        "experimental.mmapindexthreshold=0",
    ):
        command += ["--config", item]
    request = {"step": step, "nodes": ["12" * 20], "manifest": False}
    done = subprocess.run(
        command,
        input=json.dumps(request),
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["source"] == "mapped from a snapshot"
    assert done.stderr == "loaded: []"


@pytest.mark.torture
@pytest.mark.slow
def test_a_cold_start_reads_from_disk_or_says_why_not(repo: Path) -> None:
    found = rows(repo, "perf::amalgam-node-lookup", "--lookup=tip", "--cache=cold")
    for row in found:
        if "reason" in row:
            assert "stay in memory" in row["reason"]
            assert "wall" not in row
        else:
            assert row["read_bytes"] > 0


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["perf::amalgam-index"], "too small to be mapped by default (less than 512 "),
        (["perf::amalgam-index", "-m"], "inline, so it is never mapped"),
        (["perf::amalgam-index", "--config=experimental.mmapindex=no"], "not mapped "),
        (["perf::amalgam-index", "--config=experimental.mmapindexthreshold=1"], ""),
    ],
)
def test_an_index_that_is_not_mapped_by_default_is_called_so(
    repo: Path, args: list[str], expected: str
) -> None:
    done = perf(repo, "--config=extensions.amalgam=", *args, "--cache=warm")
    second = done.stdout.splitlines()[1].removeprefix("! ")
    assert second.startswith(expected or " "), done.stdout


@pytest.mark.torture
@pytest.mark.slow
def test_an_inline_index_has_no_snapshot_to_measure(tmp_path: Path) -> None:
    small = generate(tmp_path / "small", "linear", "--changesets=5", "--files=1")
    found = rows(small, "perf::amalgam-index", "--cache=warm")
    reasons = {row["subject"]: row.get("reason") for row in found}
    assert reasons["read"] is None
    assert reasons["snapshot, none"] == "the index was read, not mapped"


def state(repo: Path) -> dict[str, tuple[int, ...]]:
    """Return what the file system says of all files of a repository.

    With ctime: by it, snapshots of indexes are current. Not for filelogs, which get
    another link for a while, nor for the directories that a lock is in.
    """
    found = {}
    for path in repo.rglob("*"):
        facts = path.lstat()
        times = (facts.st_mtime_ns, facts.st_ctime_ns)
        is_lent = "data" in path.parts
        known = () if path.is_dir() or is_lent else times
        found[str(path)] = (facts.st_ino, facts.st_size * path.is_file(), *known)
    return found


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.parametrize(
    ("exported", "command"),
    [
        (False, ["index"]),
        (False, ["startup", "log -l 5"]),
        (True, ["node-lookup", "--lookup=tip"]),
        (True, ["export"]),
        (True, ["bundle", "-t", "git-v2"]),
    ],
)
def test_the_repository_is_left_as_it_was(
    repo: Path, tmp_path: Path, exported: bool, command: list[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(repo, copy)
    mapped = ["--config=extensions.amalgam=", "--config=experimental.mmapindex=yes"]
    mapped += ["--config=experimental.mmapindexthreshold=0"]
    if exported:
        assert perf(copy, "git::export", *mapped).returncode == 0
    before = state(copy)
    assert any("00changelog-" in path for path in before) == exported
    name, *words = command
    found = rows(copy, f"perf::amalgam-{name}", "--cache=warm", *words, *mapped)
    assert any("wall" in row for row in found)
    assert state(copy) == before


@pytest.mark.torture
@pytest.mark.slow
def test_files_of_any_name_are_measured(tmp_path: Path) -> None:
    repo = generate(tmp_path / "repo", "linear", "--changesets=2", "--files=1")
    for name in ("amalgam", "lock"):
        (repo / name).mkdir()
        (repo / name / "journal").write_text(name)
    hg = [str(HG), "-R", str(repo)]
    commit = [*hg, "commit", "-qAm", "names of locks"]
    subprocess.run(commit, env=ENVIRONMENT, check=True, cwd=repo)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(repo / ".hg" / "socket"))
        found = rows(repo, "perf::amalgam-export", "--cache=warm")
    assert any("wall" in row for row in found)


@pytest.mark.torture
@pytest.mark.slow
def test_what_a_killed_run_leaves_is_removed(repo: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(repo, copy)
    command = [str(HG), "-R", str(copy), "--config", "perf.presleep=60"]
    command += ["--config", "extensions.hgext3rd.amalgam.perf="]
    command += ["perf::amalgam-index", "--cache=warm"]
    with subprocess.Popen(command, env=ENVIRONMENT) as process:
        until(lambda: [*copy.glob(".hg/amalgam/*/.hg/store/00changelog.i")])
        process.kill()
    rows(copy, "perf::amalgam-index", "--cache=warm")
    assert not os.listdir(copy / ".hg/amalgam")


@pytest.mark.torture
@pytest.mark.slow
def test_bundles_of_all_rows_hold_the_same(repo: Path) -> None:
    found = rows(repo, "perf::amalgam-bundle", "-t", "none-v2", "--cache=warm")
    assert len(found) == 7
    assert all(row["wall"] > 0 for row in found)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (
            ["perf::amalgam-index", "--cache=hot"],
            "abort: unknown state of the cache: 'hot'\n(allowed: warm, cold, both)\n",
        ),
        (
            ["perf::amalgam-node-lookup", "--lookup=x"],
            "abort: unknown lookup 'x'\n(allowed: tip, old, unknown, prefix, many)\n",
        ),
    ],
)
def test_bad_input_is_one_line_and_a_hint(
    repo: Path, args: list[str], expected: str
) -> None:
    done = perf(repo, *args)
    assert (done.returncode, done.stderr) == (10, expected)


def test_a_command_that_fails_is_named_and_not_timed(repo: Path) -> None:
    done = perf(repo, "perf::amalgam-startup", "log -r nowhere")
    assert done.returncode == 20
    assert done.stdout == ""
    assert "failed: unknown revision 'nowhere'" in done.stderr


@pytest.mark.torture
def test_hg_may_lie_below_any_name(repo: Path, tmp_path: Path) -> None:
    place = tmp_path / "it's a place"
    place.mkdir()
    (place / "hg").symlink_to(HG)
    command = [str(HG), "-R", str(repo), "--config", "perf.stub=yes"]
    command += ["--config", "extensions.hgext3rd.amalgam.perf="]
    command += ["perf::amalgam-startup", "version -q"]
    env = ENVIRONMENT | {"HG": str(place / "hg")}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("users")
def test_repository_of_a_stranger_is_not_measured(repo: Path) -> None:
    os.chown(repo / ".hg", 20001, -1)
    try:
        done = perf(repo, "perf::amalgam-startup")
        assert done.returncode
        assert "who is not trusted" in done.stderr
    finally:
        os.chown(repo / ".hg", os.getuid(), -1)
