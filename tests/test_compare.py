"""What compare.py makes of samples; recorded ones, so that no load can disturb it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "contrib" / "perf"))

from compare import compare, noise_band  # type: ignore[import-not-found,unused-ignore]

COMPARE = Path(__file__).parents[1] / "contrib" / "perf" / "compare.py"

# `sleep 0.05` twice and `sleep 0.1`, seven rounds on a machine with two busy cores
FIRST = [0.0532, 0.0541, 0.0529, 0.0587, 0.0533, 0.0530, 0.0561]
AGAIN = [0.0531, 0.0535, 0.0602, 0.0528, 0.0540, 0.0533, 0.0529]
LONGER = [0.1033, 0.1029, 0.1041, 0.1180, 0.1030, 0.1036, 0.1032]


def test_band_of_equal_subjects_is_narrow_and_reproducible() -> None:
    band = noise_band(FIRST, AGAIN)
    assert 1 < band < 1.1
    assert noise_band(FIRST, AGAIN) == band


def test_band_covers_what_the_halves_really_differ_by() -> None:
    assert noise_band([1.0, 1.0, 1.0], [1.5, 1.5, 1.5]) == pytest.approx(1.5)


def test_equal_subjects_show_no_difference() -> None:
    band = noise_band(FIRST, AGAIN)
    (again,) = compare({"sleep": FIRST, "sleep (again)": AGAIN}, band)
    assert again.verdict == "no difference"


def test_a_longer_sleep_is_told_apart() -> None:
    band = noise_band(FIRST, AGAIN)
    (longer,) = compare({"sleep": FIRST, "longer": LONGER}, band)
    assert longer.ratio == pytest.approx(1.94, abs=0.01)
    assert longer.verdict == "takes 1.94 times as long"
    (shorter,) = compare({"longer": LONGER, "sleep": FIRST}, band)
    assert shorter.verdict == "is 1.94 times as fast"


def test_a_noisy_first_subject_hides_a_small_difference() -> None:
    band = noise_band([1.0, 1.4, 0.9, 1.2, 1.1], [1.3, 0.9, 1.0, 1.5, 1.2])
    (other,) = compare({"noisy": [1.0, 1.2], "other": [1.15, 1.25]}, band)
    assert other.verdict == "no difference"


def test_a_failing_check_stops_before_any_round(tmp_path: Path) -> None:
    options = ["--subject", "one=true", "--check", "one=exit 3", "--rounds", "2"]
    command = [sys.executable, str(COMPARE), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "exit 3" in done.stderr
    assert "median" not in done.stdout


def test_results_name_machine_versions_and_corpus(tmp_path: Path) -> None:
    options = ["--subject", "one=true", "--subject", "two=echo $SUBJECT >> ran"]
    options += ["--prepare", "two=echo before >> ran", "--rounds", "2"]
    options += ["--corpus", "nothing", "--version-of", "sh=echo 1", "--json", "out"]
    command = [sys.executable, str(COMPARE), *options]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    ran = (tmp_path / "ran").read_text().split()
    assert ran == ["before", "two"] * 3  # one of them to warm up
    report = json.loads((tmp_path / "out").read_text())
    assert report["corpus"] == "nothing"
    assert report["versions"]["sh"] == "1"
    assert report["machine"]["cores"] == os.cpu_count()
    assert len(report["subjects"]["two"]["samples"]) == 2
    assert [one["subject"] for one in report["comparisons"]] == ["one (again)", "two"]
