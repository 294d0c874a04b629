"""A hundred random moments of replications; ``testlib.moments`` has what must hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib.githost import git_host
from testlib.hgserver import HgServer
from testlib.moments import Moments


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(20))
def test_after_five_moments_the_mirror_is_equal_or_refusals_are_named(
    tmp_path: Path, server: HgServer, seed: int
) -> None:
    with git_host(tmp_path / "host") as host:
        moments = Moments(tmp_path / "repo", server, host, seed)
        try:
            for _number in range(5):
                moments.pass_one()
        except BaseException as exc:
            lines = "\n".join(moments.done)
            raise AssertionError(f"seed {seed}:\n{lines}\n{exc!r}") from exc
