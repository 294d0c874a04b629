"""The guide for operators: its files and commands as they are printed, and clients."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from testlib.environment import HG, ROOT

GUIDE = ROOT / "contrib" / "hosting" / "guide.py"
#: What each guide says once, when it does its work.
STARTED = {
    "hosting": "web server: ",
    "serving-git": "gunicorn: clones, ",
    "public-servers": "web server: ",
    "adopting": "migration: ",
}


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("page", STARTED)
def test_guide_works_as_it_is_printed(page: str) -> None:
    # programs that are not installed are left out; the output says so
    done = subprocess.run(
        [sys.executable, str(GUIDE), "--hg", str(HG), "--only", page],
        env=os.environ,
        capture_output=True,
        text=True,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stdout.count(STARTED[page]) == 1
    assert done.stdout.splitlines()[-1] == "all is as the guides say"
