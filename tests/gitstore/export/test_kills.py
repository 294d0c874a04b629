"""Whatever is written for a store is there as a whole, or is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib import killpoints
from testlib.environment import hg


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.parametrize("case", ["first", "next", "rebuild", "configured anew"])
def test_killed_export_can_be_run_again(tmp_path: Path, case: str) -> None:
    template = tmp_path / "template"
    hg(tmp_path, "init", str(template))
    for name in ("one", "two"):
        (template / name).write_text(name)
        hg(template, "commit", "-qAm", name, "-d", "0 0")
        if case != "first" and name == "one":
            hg(template, "git::export")
    if case == "configured anew":
        (template / ".hg/store").chmod(0o770)
    args = ["git::export", "--metadata"]
    args += ["--rebuild"] if case == "rebuild" else []
    taken = killpoints.at_each(template, tmp_path, *args)
    assert sum(taken.values()) > 8
    if case == "configured anew":
        assert taken.keys() == {*killpoints.STEPS, *killpoints.SELDOM}
