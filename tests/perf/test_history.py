"""Results over commits: what is kept, and the steps that are found in a series."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from testlib.environment import ROOT

PERF = ROOT / "contrib" / "perf"
sys.path.insert(0, str(PERF))

from bench import (  # type: ignore[import-not-found,unused-ignore]  # noqa: E402
    __main__ as bench,
    history as kept,
    results,
)

MACHINE = {"cpu": "a cpu", "cores": 2, "memory_bytes": 2**34, "load_average": [0.5]}


def bounds(values: list[float], least_factor: float = 1.03) -> list[tuple[int, int]]:
    return [(level.start, level.end) for level in kept.levels(values, least_factor)]


def noisy(seed: int, *parts: tuple[int, float], by: float = 0.02) -> list[float]:
    draw = random.Random(seed).gauss
    return [mean * draw(1, by) for count, mean in parts for _number in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_a_step_is_found_where_it_is(seed: int) -> None:
    assert bounds(noisy(seed, (8, 1.0), (7, 1.25))) == [(0, 8), (8, 15)]


@pytest.mark.parametrize("seed", range(20))
def test_two_steps_are_found_where_they_are(seed: int) -> None:
    series = noisy(seed, (6, 1.0), (5, 2.0), (6, 0.8))
    assert bounds(series) == [(0, 6), (6, 11), (11, 17)]


@pytest.mark.parametrize("seed", range(40))
def test_noise_has_no_steps(seed: int) -> None:
    assert bounds(noisy(seed, (20, 3.0), by=0.05)) == [(0, 20)]


def test_one_outlier_is_no_step() -> None:
    series = noisy(1, (20, 1.0))
    series[9] *= 1.5
    assert bounds(series) == [(0, 20)]


def test_the_last_commits_may_be_a_level() -> None:
    assert bounds([1.0] * 8 + [1.5] * 2) == [(0, 8), (8, 10)]
    assert bounds([1.0] * 8 + [1.5]) == [(0, 9)]


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [1.0, 1.0, 2.0]])
def test_a_short_series_is_one_level(values: list[float]) -> None:
    assert bounds(values) == ([(0, len(values))] if values else [])


def test_a_step_below_the_least_is_none() -> None:
    assert bounds([1.0] * 10 + [1.02] * 10) == [(0, 20)]
    assert bounds([1.0] * 10 + [1.02] * 10, 1.01) == [(0, 10), (10, 20)]


def commit(number: int) -> kept.Revision:
    oid = f"{number:02d}" * 20
    return kept.Revision(f"2026-11-{number:02d}T00:00:00+00:00", False, oid, "why")


def run(seconds: list[float], cpu: str = "a cpu") -> results.Results:
    found = results.Results({**MACHINE, "cpu": cpu})
    found.subjects = {"amalgam": "this"}
    found.samples = [
        results.Sample("export", "r", "amalgam", "time", number, {"seconds": taken})
        for number, taken in enumerate(seconds, 1)
    ]
    return found


def keep(directory: Path, number: int, found: results.Results) -> None:
    found.date = f"2026-12-01T00:{number:02d}:00Z"
    kept.keep(found, commit(number), directory)


def test_the_page_marks_the_commit_where_it_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history, page = tmp_path / "history", tmp_path / "page.html"
    for number in range(10, 0, -1):  # the order of runs is not that of commits
        base = 1.0 if number < 6 else 0.5
        keep(history, number, run([base, 1.01 * base, 0.99 * base]))
    words = ["history", "--history", str(history), "-o", str(page)]
    assert bench.main(words) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "2026-11-06 0606060606 export of r: time: 2.0 times less, 1.000 s to 0.500 s",
        str(page),
    ]
    text = page.read_text()
    assert "<code>git log 0505050505..0606060606</code>" in text
    assert text.count("<img ") == 1


def test_runs_of_another_machine_are_left_out(tmp_path: Path) -> None:
    for number in range(1, 5):
        keep(tmp_path, number, run([1.0], "another" if number < 3 else "a cpu"))
    runs, others = kept.of_one_machine(kept.read(tmp_path))
    assert [one.oid[:2] for one, _several in runs] == ["03", "04"]
    assert others == 2


def test_runs_of_one_commit_are_one_point(tmp_path: Path) -> None:
    for minute, number in enumerate((1, 2, 2)):
        found = run([1.0, 2.0])
        found.date = f"2026-12-01T00:{minute:02d}:00Z"
        kept.keep(found, commit(number), tmp_path)
    (only,) = kept.trends(kept.read(tmp_path), "amalgam")
    assert list(map(len, only.samples)) == [2, 4]


@pytest.mark.parametrize("content", [None, "{}", '{"samples": [], "machine": {}}'])
def test_a_history_without_results_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    if content is not None:
        (tmp_path / "x.json").write_text(content)
    assert bench.main(["history", "--history", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"bench: {tmp_path}")
    assert told.count("\n") == 1


def test_results_are_kept_by_commit_in_the_order_of_commits(tmp_path: Path) -> None:
    tree, history, found = tmp_path / "tree", tmp_path / "history", tmp_path / "f.json"
    local = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_COMMITTER_DATE": "1767225600 +0100"}
    git = ["git", "-C", str(tree), "-c", "user.name=x", "-c", "user.email=x@y"]
    tree.mkdir()
    run([1.0]).write(found)
    words = ["keep", str(found), "--tree", str(tree), "--history", str(history)]

    def keep_another(*commands: list[str]) -> None:
        for command in commands:
            subprocess.run([*git, *command], check=True, env={**os.environ, **local})
        assert bench.main(words) == 0
        for path in history.glob("*-*.json"):  # runs of a commit have their own files
            path.rename(history / f"{len(list(history.iterdir()))}.json")

    (tree / "file").write_text("1")
    keep_another(["init", "-q"], ["add", "."], ["commit", "-qm", "0"])
    for number in range(1, 8):  # all in one second
        keep_another(["commit", "-q", "--allow-empty", "-m", str(number)])
    (tree / "file").write_text("2")
    keep_another()
    revisions = [one for one, _several in kept.read(history)]
    assert [one.summary for one in revisions] == [*map(str, range(8)), "7"]
    assert {one.date for one in revisions} == {"2026-01-01T00:00:00+00:00"}
    assert revisions[-1].name == revisions[-2].name + "+"


def test_the_latest_change_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(1, 13):
        found = run([0.5 if number < 5 else 1.0] * 3)
        found.samples += [
            dataclasses.replace(
                sample, benchmark="other", values={"seconds": 1.0 + (number > 8)}
            )
            for sample in found.samples
        ]
        keep(tmp_path, number, found)
    words = ["history", "--history", str(tmp_path), "-o", str(tmp_path / "page.html")]
    assert bench.main(words) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[1][:2] for line in told[:2]] == ["09", "05"]
