"""The commands perf::amalgam-*: that each row is what it says. Times are not judged."""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mercurial import error
from testlib.environment import ENVIRONMENT, HG, ROOT
from testlib.generated import generate
from testlib.webserver import until

from hgext3rd.amalgam.perf import options, pagecache, passes, table
from hgext3rd.amalgam.perf.options import PerfConfig
from hgext3rd.amalgam.perf.passes import Cache, Cell
from hgext3rd.amalgam.perf.sample import Sample
from hgext3rd.amalgam.perf.subjects import AGAIN, MAPPED, READ, SNAPSHOTS, Subject
from hgext3rd.amalgam.perf.verdicts import Noise

ONCE = PerfConfig(
    all_timing=True,
    pre_run=0,
    presleep=0.0,
    profiled_passes=frozenset(),
    limits=((0.0, 1),),
)


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
    assert json.loads(done.stdout)["source"] == "snapshot"
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
        (["perf::amalgam-index"], "too small to be mapped by default (less than 1.00 "),
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
    assert len(found) == 6
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


def test_the_file_in_contrib_has_the_same_commands(repo: Path) -> None:
    contrib = ROOT / "contrib" / "perf" / "perfamalgam.py"
    command = [str(HG), "--config", f"extensions.perfamalgam={contrib}"]
    command += ["help", "perf::amalgam-index"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert "time how the index of the changelog gets into memory" in done.stdout


def test_pages_that_are_mapped_elsewhere_are_not_called_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagecache, "_DROP_CACHES", os.devnull)
    file = tmp_path / "file"
    file.write_bytes(os.urandom(3 * mmap.PAGESIZE))
    with file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)
        assert mapped[-1:]
        with pytest.raises(pagecache.Unsuitable, match="of 3 pages stay in memory"):
            pagecache.make_cold([os.fsencode(file)])
        mapped.close()


def test_warm_files_are_in_memory(tmp_path: Path) -> None:
    file, empty = tmp_path / "file", tmp_path / "empty"
    file.write_bytes(os.urandom(3 * mmap.PAGESIZE + 1))
    empty.touch()
    paths = [os.fsencode(file), os.fsencode(empty)]
    pagecache.make_warm(paths)
    assert pagecache.residency(paths) == (4, 4)


def sample(wall: float) -> Sample:
    return Sample(wall, wall, 0.0, 0, 1, 0)


def ignored(_ended: int, _words: bytes, _total: int | None) -> None:
    """Show no progress."""


def test_different_answers_are_no_comparison() -> None:
    answers = {READ.name: 1, SNAPSHOTS[0].name: 2}
    with pytest.raises(error.StorageError, match="and 'read' give different answers"):
        passes.measure(
            [READ, SNAPSHOTS[0]],
            [Cache.WARM],
            list,
            lambda subject, _profiled: (sample(1.0), answers[subject.name]),
            ONCE,
            ignored,
        )


def test_no_sample_is_taken_where_the_cache_is_not_cold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(paths: Sequence[bytes]) -> None:
        raise pagecache.Unsuitable("1 of 2 pages stay in memory")

    monkeypatch.setattr(pagecache, "make_cold", refuse)
    filled = passes.measure(
        [READ], list(Cache), list, lambda *_args: (sample(1.0), None), ONCE, ignored
    )
    assert filled[READ, Cache.COLD].samples == []
    assert filled[READ, Cache.COLD].reason == "not cold: 1 of 2 pages stay in memory"
    assert len(filled[READ, Cache.WARM].samples) == 1


def test_change_is_that_of_medians() -> None:
    first = Cell([sample(1.0), sample(2.0), sample(9.0)])
    other = Cell([sample(0.5), sample(1.0), sample(1.5)])
    assert table._percent(other, first) == pytest.approx(-50)
    assert table._percent(Cell(reason="none"), first) is None


def test_a_limit_counts_when_both_its_halves_are_reached() -> None:
    config = PerfConfig(True, 0, 0.0, frozenset(), ((3.0, 10), (10.0, 3)))
    assert not config.is_enough(5.0, 9)
    assert config.is_enough(5.0, 10)
    assert not config.is_enough(10.0, 2)
    assert config.is_enough(10.0, 3)
    assert config.passes(2.0) == 5
    assert config.passes(60.0) == 3
    with pytest.raises(error.ConfigError, match="invalid value 'x'"):
        options._limit(b"x")


class Clock:
    """Time that passes only while samples are taken: a second for each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)

    def take(self, _subject: Subject, _profiled: bool) -> tuple[Sample, Any]:
        self.seconds += 1
        return sample(1.0), None


def test_seconds_count_from_the_first_process_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    rows = [READ, SNAPSHOTS[0], SNAPSHOTS[1]]
    # three seconds to compare answers, three for each pass: enough in the second one
    limited = dataclasses.replace(ONCE, limits=((7.0, 1),))
    filled = passes.measure(rows, [Cache.WARM], list, clock.take, limited, ignored)
    assert clock.seconds == 7.0
    assert sorted(len(cell.samples) for cell in filled.values()) == [1, 1, 2]


def test_progress_knows_the_end_after_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = Clock(monkeypatch), []
    limited = dataclasses.replace(ONCE, limits=((9.0, 4),))
    passes.measure(
        [READ, SNAPSHOTS[0]],
        [Cache.WARM],
        list,
        clock.take,
        limited,
        lambda *words: told.append(words),
    )
    assert told[:2] == [(0, b"read", None), (1, b"snapshot, none", None)]
    assert told[2][2] is None
    assert told[4][2] == 2 + 5 * 2  # five passes take nine seconds
    assert [ended for ended, _words, _total in told] == list(range(10))


QUIET = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]


def test_a_row_differs_only_by_more_than_the_noise() -> None:
    noise = Noise.of(QUIET, [1.01, 0.99, 1.0, 1.0, 0.98, 1.02])
    assert noise
    assert noise.words == "low"
    assert noise.differs([0.8, 0.82, 0.79, 0.81, 0.8, 0.78])
    assert not noise.differs([0.99, 0.98, 1.0, 0.98, 0.97, 0.99])
    loud = Noise.of([1.0, 1.5, 0.7, 1.2, 0.9, 1.1], [1.4, 0.8, 1.0, 1.3, 0.6, 1.2])
    assert loud
    assert loud.words.startswith("high")
    assert not loud.differs([0.8, 0.82, 0.79, 0.81, 0.8, 0.78])
    assert Noise.of([1.0, 1.0], [1.0, 1.0]) is None


@pytest.mark.parametrize("seed", range(20))
def test_three_samples_of_the_same_do_not_differ(seed: int) -> None:
    draw = random.Random(seed).gauss
    first, again, other = ([draw(1, 0.05) for _ in range(3)] for _ in range(3))
    noise = Noise.of(first, again)
    assert noise
    assert not noise.differs(other)


class Shown:
    """A formatter that keeps what is for people."""

    def __init__(self) -> None:
        self.text = ""

    def plain(self, text: bytes) -> None:
        self.text += text.decode()

    def startitem(self) -> None:
        """Begin a row."""

    def data(self, **_fields: object) -> None:
        """Take what is not for people."""


def shown(read: list[float], again: list[float], mapped: list[float]) -> list[str]:
    names = dict(zip((READ, AGAIN, MAPPED), (read, again, mapped), strict=True))
    filled = {
        (who, Cache.WARM): Cell([sample(wall) for wall in walls])
        for who, walls in names.items()
    }
    fm = Shown()
    rows = list(names)
    table.show(fm, "t", rows, [Cache.WARM], filled, all_timing=True, remark=b"small")
    return fm.text.splitlines()


def test_a_table_ends_with_what_it_means() -> None:
    lines = shown(QUIET, QUIET[::-1], [0.5, 0.51, 0.49, 0.5, 0.5, 0.5])
    assert lines[:2] == ["! t; median of 6", "! small"]
    assert lines[3].split()[1] == "ms"
    assert lines[6].split()[:4] == ["!", "mmap", "500", "-50.0%"]
    assert lines[7:] == [
        "! warm: noise is low; changes of up to 3.0% mean nothing",
        "! warm: the fastest is 'mmap': 500 ms in place of 1000 ms of 'read', 2.0 "
        "times as fast",
    ]


def test_what_is_within_the_noise_is_in_parentheses() -> None:
    lines = shown(QUIET, QUIET, [0.99, 1.0, 0.98, 1.01, 1.0, 1.0])
    assert lines[6].split()[:4] == ["!", "mmap", "1000", "(+0.0%)"]
    assert lines[-1] == "! warm: no row differs from 'read' by more than the noise"


def test_short_times_are_in_microseconds() -> None:
    lines = shown([5e-5] * 3, [5e-5] * 3, [2e-5] * 3)
    assert lines[3].split()[1] in ("\N{MICRO SIGN}s", "us")
    assert lines[4].split()[2] == "50"


def test_two_samples_give_no_verdict() -> None:
    lines = shown([1.0, 1.0], [1.0, 1.0], [0.5, 0.5])
    assert lines[-1] == (
        "! warm: no verdict with fewer than 3 samples (see perf.run-limits)"
    )


@pytest.mark.needs("users")
def test_repository_of_a_stranger_is_not_measured(repo: Path) -> None:
    os.chown(repo / ".hg", 20001, -1)
    try:
        done = perf(repo, "perf::amalgam-startup")
        assert done.returncode
        assert "who is not trusted" in done.stderr
    finally:
        os.chown(repo / ".hg", os.getuid(), -1)
