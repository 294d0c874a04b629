"""Seeds of the fuzz targets in Python, and inputs that failed once; see ``fuzz``."""

from __future__ import annotations

import pytest
from fuzz import targets
from testlib.environment import ROOT

PYTHON = ROOT / "tests" / "fuzz"
RUST = ROOT / "rust" / "fuzz"

MOST_BYTES = 20_000
MOST_BYTES_TOGETHER = 300_000


@pytest.mark.parametrize("name", targets.TARGETS)
def test_seeds_and_crashes_are_parsed_or_refused(name: str) -> None:
    seeds = list((PYTHON / "seeds" / name).iterdir())
    crashes = list((PYTHON / "crashes").glob(f"{name}/*"))
    assert seeds
    for path in sorted(seeds + crashes):
        targets.run(name, path.read_bytes())


def test_each_directory_is_of_a_target() -> None:
    kept = (*PYTHON.glob("seeds/*"), *PYTHON.glob("crashes/*"))
    assert {path.name for path in kept} == set(targets.TARGETS)


def test_committed_inputs_are_small() -> None:
    kinds = ("seeds", "crashes")
    kept = (
        path
        for root in (PYTHON, RUST)
        for kind in kinds
        for path in root.glob(f"{kind}/*/*")
    )
    sizes = [path.stat().st_size for path in kept]
    assert max(sizes) <= MOST_BYTES
    assert sum(sizes) <= MOST_BYTES_TOGETHER
