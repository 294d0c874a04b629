"""Repositories of contrib/perf/generate.py, small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .environment import ENVIRONMENT, ROOT

_GENERATE = ROOT / "contrib" / "perf" / "generate.py"


def generate(path: Path, profile: str, *options: str) -> Path:
    """Write a repository; the same options give the same nodes."""
    command = [sys.executable, str(_GENERATE), profile, str(path), *options]
    subprocess.run(command, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    return path
