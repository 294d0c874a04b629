"""A few of the random sequences of ``make torture``; SEEDS=N runs as many."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from testlib.hgserver import HgServer
from torture import sequences

pytestmark = pytest.mark.slow


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(int(os.environ.get("SEEDS", "3"))))
def test_nothing_is_readable_that_may_not_be(
    tmp_path: Path, server: HgServer, seed: int
) -> None:
    counts = sequences.run(tmp_path, server, 1, 30, seed)
    assert counts["steps"] == 30
