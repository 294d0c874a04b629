"""The commands perf::amalgam-*: that each row is what it says. Times are not judged."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mercurial import error
from testlib.environment import ENVIRONMENT, HG, ROOT
from testlib.generated import generate

from hgext3rd.amalgam.perf import options, pagecache, passes, table
from hgext3rd.amalgam.perf.options import PerfConfig
from hgext3rd.amalgam.perf.passes import Cache, Cell
from hgext3rd.amalgam.perf.sample import Sample
from hgext3rd.amalgam.perf.subjects import READ, SNAPSHOTS

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


@pytest.mark.slow
def test_a_cold_start_reads_from_disk_or_says_why_not(repo: Path) -> None:
    found = rows(repo, "perf::amalgam-node-lookup", "--lookup=tip", "--cache=cold")
    for row in found:
        if "reason" in row:
            assert "stay in memory" in row["reason"]
            assert "wall" not in row
        else:
            assert row["read_bytes"] > 0


@pytest.mark.slow
def test_an_inline_index_has_no_snapshot_to_measure(tmp_path: Path) -> None:
    small = generate(tmp_path / "small", "linear", "--changesets=5", "--files=1")
    found = rows(small, "perf::amalgam-index", "--cache=warm")
    reasons = {row["subject"]: row.get("reason") for row in found}
    assert reasons["read"] is None
    assert reasons["snapshot, none"] == "the index was read, not mapped"


@pytest.mark.slow
def test_export_leaves_the_repository_as_it_was(repo: Path) -> None:
    before = sorted(path.name for path in (repo / ".hg").iterdir())
    found = rows(repo, "perf::amalgam-export", "--cache=warm")
    assert {row["title"].split(", ")[1] for row in found} == {
        "everything",
        "nothing new",
    }
    assert not list((repo / ".hg" / "amalgam").glob("perf-*"))
    assert not (repo / ".hg" / "amalgam" / "git").exists()
    after = {path.name for path in (repo / ".hg").iterdir()}
    assert after - set(before) <= {"amalgam", "cache"}


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


def test_different_answers_are_no_comparison() -> None:
    answers = {READ.name: 1, SNAPSHOTS[0].name: 2}
    with pytest.raises(error.StorageError, match="and 'read' give different answers"):
        passes.measure(
            [READ, SNAPSHOTS[0]],
            [Cache.WARM],
            list,
            lambda subject, _profiled: (sample(1.0), answers[subject.name]),
            ONCE,
        )


def test_no_sample_is_taken_where_the_cache_is_not_cold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(paths: Sequence[bytes]) -> None:
        raise pagecache.Unsuitable("1 of 2 pages stay in memory")

    monkeypatch.setattr(pagecache, "make_cold", refuse)
    filled = passes.measure(
        [READ], list(Cache), list, lambda *_args: (sample(1.0), None), ONCE
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
    with pytest.raises(error.ConfigError, match="invalid value 'x'"):
        options._limit(b"x")


@pytest.mark.needs("users")
def test_repository_of_a_stranger_is_not_measured(repo: Path) -> None:
    os.chown(repo / ".hg", 20001, -1)
    try:
        done = perf(repo, "perf::amalgam-startup")
        assert done.returncode
        assert "who is not trusted" in done.stderr
    finally:
        os.chown(repo / ".hg", os.getuid(), -1)
