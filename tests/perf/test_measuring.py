"""The parts that measure and judge, for hg perf::amalgam-* and contrib/perf alike."""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mercurial import error
from mercurial.ui import ui as Ui  # noqa: N812
from testlib.environment import ROOT

from hgext3rd.amalgam.perf import commands, judgement, passes, samples, table
from hgext3rd.amalgam.perf.passes import Cache, Cell, Limits
from hgext3rd.amalgam.perf.samples import Sample
from hgext3rd.amalgam.perf.subjects import AGAIN, MAPPED, READ, SNAPSHOTS, Subject

# `sleep 0.05` twice and `sleep 0.1`, seven rounds on a machine with two busy cores
FIRST = [0.0532, 0.0541, 0.0529, 0.0587, 0.0533, 0.0530, 0.0561]
SECOND = [0.0531, 0.0535, 0.0602, 0.0528, 0.0540, 0.0533, 0.0529]
LONGER = [0.1033, 0.1029, 0.1041, 0.1180, 0.1030, 0.1036, 0.1032]
QUIET = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]
ONCE = Limits([(0.0, 1)])
WITHOUT = """
import sys
sys.modules["mercurial"] = None  # importing it is an ImportError
import bench
from hgext3rd.amalgam.perf import judgement, passes, samples
assert not any(name.startswith("mercurial.") for name in sys.modules)
print(samples.run(["true"])[0].wall > 0, judgement.__file__)
"""


def test_contrib_measures_with_the_same_parts_without_mercurial() -> None:
    command = [sys.executable, "-c", WITHOUT]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "contrib" / "perf")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == f"True {judgement.__file__}\n", done.stderr


def judge(
    first: list[float], again: list[float], other: list[float], value: str = "seconds"
) -> judgement.Judgement:
    band = judgement.noise_band(first, again)
    return judgement.compare(first, other, value, band, again)


def test_the_band_covers_the_halves_and_is_reproducible() -> None:
    band = judgement.noise_band(FIRST, SECOND)
    assert 1 < band < 1.15
    assert judgement.noise_band(FIRST, SECOND) == band
    assert judgement.noise_band([1.0] * 3, [1.5] * 3) == pytest.approx(1.5)


def test_equal_subjects_show_no_difference_and_longer_ones_do() -> None:
    assert judge(FIRST, SECOND, SECOND).words == "no difference"
    verdict = judge(FIRST, SECOND, LONGER)
    assert verdict.words == "93.8 % more"
    assert verdict.chance is not None
    assert verdict.chance < 0.01
    assert judge(LONGER, LONGER, FIRST).words == "48.4 % less"


def test_a_noisy_first_subject_hides_a_small_difference() -> None:
    first, again = [1.0, 1.4, 0.9, 1.2, 1.1], [1.3, 0.9, 1.0, 1.5, 1.2]
    assert not judge(first, again, [1.15, 1.25, 1.2]).differs


@pytest.mark.parametrize("seed", range(10))
def test_fifteen_per_cent_of_instructions_are_always_seen(seed: int) -> None:
    noise = random.Random(seed)
    first, again, same, more = (
        [count * noise.gauss(1, 0.001) for _sample in range(3)]
        for count in (2e9, 2e9, 2e9, 2.3e9)
    )
    assert judge(first, again, more, "instructions").differs
    assert not judge(first, again, same, "instructions").differs


@pytest.mark.parametrize("seed", range(20))
def test_three_samples_of_the_same_do_not_differ(seed: int) -> None:
    draw = random.Random(seed).gauss
    first, again, other = ([draw(1, 0.05) for _ in range(3)] for _ in range(3))
    assert not judge(first, again, other).differs


def test_two_samples_prove_nothing() -> None:
    verdict = judge([1.0, 1.0], [1.0, 1.0], [9.0, 9.0])
    assert not verdict.differs
    assert verdict.words == "too few samples"


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_found(exponent: float) -> None:
    sizes = [1e3, 1e4, 1e5, 1e6]
    fit = judgement.growth(sizes, [3 * size**exponent for size in sizes])
    assert fit.exponent == pytest.approx(exponent)
    assert fit.factor == pytest.approx(3)
    assert fit.error == pytest.approx(0, abs=1e-6)


def test_pages_that_are_mapped_elsewhere_are_not_called_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "_DROP_CACHES", os.devnull)
    file = tmp_path / "file"
    file.write_bytes(os.urandom(3 * mmap.PAGESIZE))
    with file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)
        assert mapped[-1:]
        with pytest.raises(samples.Unsuitable, match="of 3 pages stay in memory"):
            samples.make_cold([os.fsencode(file)])
        mapped.close()


def test_warm_files_are_in_memory(tmp_path: Path) -> None:
    file, empty = tmp_path / "file", tmp_path / "empty"
    file.write_bytes(os.urandom(3 * mmap.PAGESIZE + 1))
    empty.touch()
    paths = [os.fsencode(file), os.fsencode(empty)]
    samples.make_warm(paths)
    assert samples.residency(paths) == (4, 4)


def test_a_sample_has_what_the_command_said_and_took() -> None:
    code = "x = input(); s = bytearray(30_000_000); print(x[::-1])"
    sample, output = samples.run([sys.executable, "-c", code], b"abc\n")
    assert output == b"cba\n"
    assert sample.wall > 0 < sample.comb
    assert sample.rss_bytes > 30_000_000
    with pytest.raises(samples.Failed, match="Error: what is wrong"):
        samples.run([sys.executable, "-c", "raise ValueError('what is wrong')"])


def taken(wall: float) -> Sample:
    return Sample(wall, wall, 0.0, 0, 1, 0)


class Clock:
    """Time that passes only while samples are taken: a second for each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.told: list[tuple[int, bytes, int | None]] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)

    def measure(
        self, rows: Sequence[Subject], limits: Limits, caches: Sequence[Cache] = ()
    ) -> passes.Table:
        def take(_row: Subject) -> tuple[Sample, Any]:
            self.seconds += 1
            return taken(1.0), None

        def tell(*words: Any) -> None:
            self.told.append(words)

        return passes.measure(rows, caches or [Cache.WARM], list, take, limits, tell)


def test_different_answers_are_no_comparison() -> None:
    answers = {READ.name: 1, SNAPSHOTS[0].name: 2}
    with pytest.raises(passes.Disagreement, match="2, but 1 of read") as caught:
        passes.measure(
            [READ, SNAPSHOTS[0]],
            [Cache.WARM],
            list,
            lambda row: (taken(1.0), answers[row.name]),
            ONCE,
            lambda *_: None,
        )
    assert caught.value.names == ("snapshot, none", "read")


def test_no_sample_is_taken_where_the_cache_is_not_cold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(paths: Sequence[bytes]) -> None:
        raise samples.Unsuitable("1 of 2 pages stay in memory")

    monkeypatch.setattr(samples, "make_cold", refuse)
    filled = Clock(monkeypatch).measure([READ], ONCE, list(Cache))
    assert filled[READ, Cache.COLD].samples == []
    assert filled[READ, Cache.COLD].reason == "not cold: 1 of 2 pages stay in memory"
    assert len(filled[READ, Cache.WARM].samples) == 1


def test_a_limit_counts_when_both_its_halves_are_reached() -> None:
    limits = Limits([(3.0, 10), (10.0, 3)])
    assert not limits.are_reached(5.0, 9)
    assert limits.are_reached(5.0, 10)
    assert not limits.are_reached(10.0, 2)
    assert limits.are_reached(10.0, 3)
    assert limits.passes(2.0) == 5
    assert limits.passes(60.0) == 3
    ui = Ui()
    ui.setconfig(b"perf", b"run-limits", b"x")
    with pytest.raises(error.ConfigError, match="invalid value 'x'"):
        commands.limits(ui)


def test_seconds_count_from_the_first_process_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    # three seconds to compare answers, three for each pass: enough in the second one
    filled = clock.measure([READ, *SNAPSHOTS[:2]], Limits([(7.0, 1)]))
    assert clock.seconds == 7.0
    assert sorted(len(cell.samples) for cell in filled.values()) == [1, 1, 2]


def test_progress_knows_the_end_after_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    clock.measure([READ, SNAPSHOTS[0]], Limits([(9.0, 4)]))
    assert clock.told[:2] == [(0, b"read", None), (1, b"snapshot, none", None)]
    assert clock.told[2][2] is None
    assert clock.told[4][2] == 2 + 5 * 2  # five passes take nine seconds
    assert [ended for ended, _words, _total in clock.told] == list(range(10))


class Shown:
    """A formatter that keeps what is for people, and the data."""

    def __init__(self) -> None:
        self.text = ""
        self.rows: list[dict[str, Any]] = []

    def plain(self, text: bytes) -> None:
        self.text += text.decode()

    def startitem(self) -> None:
        self.rows.append({})

    def data(self, **fields: Any) -> None:
        self.rows[-1] |= fields


def shown(*walls: list[float]) -> tuple[list[str], list[dict[str, Any]]]:
    filled = {
        (row, Cache.WARM): Cell([taken(wall) for wall in some], "" if some else "why")
        for row, some in zip((READ, AGAIN, MAPPED), walls, strict=True)
    }
    fm = Shown()
    table.show(fm, "t", filled, remark=b"small")
    return fm.text.splitlines(), fm.rows


def test_a_table_ends_with_what_it_means() -> None:
    lines, rows = shown(QUIET, QUIET[::-1], [0.5, 0.51, 0.49, 0.5, 0.5, 0.5])
    assert lines[:2] == ["! t; median of 6", "! small"]
    assert lines[3].split()[1] == "ms"
    assert lines[6].split()[:4] == ["!", "mmap", "500", "-50.0%"]
    assert lines[7:] == [
        "! warm: noise is low; changes of up to 3.0% mean nothing",
        "! warm: the fastest is 'mmap': 500 ms in place of 1000 ms of 'read', 2.0 "
        "times as fast",
    ]
    assert [row.get("differs") for row in rows] == [None, False, True]
    assert rows[2]["change_percent"] == -50
    assert rows[2]["noise_percent"] == 3


def test_changes_within_the_noise_are_in_parentheses() -> None:
    lines, _rows = shown(QUIET, QUIET, [0.99, 1.0, 0.98, 1.01, 1.0, 1.0])
    assert lines[6].split()[:4] == ["!", "mmap", "1000", "(+0.0%)"]
    assert lines[-1] == "! warm: no row differs from 'read' by more than the noise"
    loud = [1.0, 1.5, 0.7, 1.2, 0.9, 1.1], [1.4, 0.8, 1.0, 1.3, 0.6, 1.2]
    lines, _rows = shown(*loud, [0.8, 0.82, 0.79, 0.81, 0.8, 0.78])
    assert lines[-2].startswith("! warm: noise is high (a quieter machine or more ")


def test_short_times_are_in_microseconds() -> None:
    lines, _rows = shown([5e-5] * 3, [5e-5] * 3, [2e-5] * 3)
    assert lines[3].split()[1] in ("\N{MICRO SIGN}s", "us")
    assert lines[4].split()[2] == "50"


def test_a_row_without_samples_has_its_reason_and_no_verdict() -> None:
    lines, rows = shown([1.0, 1.0], [1.0, 1.0], [])
    assert lines[6] == "! mmap                  why"
    assert rows[2]["reason"] == b"why"
    assert lines[-1] == (
        "! warm: no verdict with fewer than 3 samples (see perf.run-limits)"
    )
