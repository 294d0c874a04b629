"""Strips and rollbacks under a server that is busy."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from testlib.environment import ENVIRONMENT, HG
from testlib.truncation import SERVER, cut_under_load

_COUNT = 3000  # changesets: 47 pages of entries
_KEPT = 300


def under_load(
    scratch: Path, cuts: int, config: Sequence[str] = SERVER
) -> Counter[str]:
    """Cut a repository that a server serves to four clients, and restore it."""
    repo, bundle = scratch / "served", scratch / "rest.hg"
    _hg(scratch, "init", str(repo))
    _hg(repo, "debugbuilddag", f"+{_COUNT}", "--overwritten-file", "-q")
    _hg(repo, "bundle", "-q", "--base", str(_KEPT - 1), "-r", "tip", str(bundle))
    return cut_under_load(repo, bundle, _KEPT, cuts, clients=4, config=config)


def _hg(cwd: Path, *arguments: str) -> None:
    subprocess.run([str(HG), *arguments], cwd=cwd, env=ENVIRONMENT, check=True)
