"""The guide for operators: its files and commands as they are printed, and clients."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from testlib.environment import HG, ROOT

GUIDE = ROOT / "contrib" / "hosting" / "guide.py"


@pytest.mark.slow
def test_guide_works_as_it_is_printed() -> None:
    # nginx and git-cinnabar take part where they are installed; the output says so
    done = subprocess.run(
        [sys.executable, str(GUIDE), "--hg", str(HG)],
        env=os.environ,
        capture_output=True,
        text=True,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stdout.count("web server: ") == 1
    assert done.stdout.splitlines()[-1] == "all is as the guide says"
