"""Changes while an export converts: shell commands before or after the conversion."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .environment import ENVIRONMENT, HG
from .small import DETAILED

#: An extension; WHEN is ``before`` or ``after``.
MEANWHILE = """
import os, subprocess
from mercurial import extensions
from hgext3rd.amalgam.gitstore.export import conversion

def extsetup(ui):
    left = [int(os.environ.get("TIMES", "1"))]

    def run(orig, *args, **kwargs):
        when = os.environ["WHEN"]
        def happen():
            if left[0]:
                left[0] -= 1
                subprocess.run(os.environ["WHAT"], shell=True, check=True)
        if when == "before":
            happen()
        converted = orig(*args, **kwargs)
        if when == "after":
            happen()
        return converted

    orig = conversion.ExportConversion.run
    conversion.ExportConversion.run = lambda *args, **kwargs: run(orig, *args, **kwargs)
"""


def export_while(
    repo: Path, what: str, when: str, times: int = 1
) -> subprocess.CompletedProcess[bytes]:
    """Export, and have the shell run ``what`` meanwhile."""
    meanwhile = repo.parent / "meanwhile.py"
    meanwhile.write_text(MEANWHILE)
    environment = ENVIRONMENT | {
        "WHAT": what,
        "WHEN": when,
        "TIMES": str(times),
        "PATH": f"{HG.parent}:{ENVIRONMENT['PATH']}",
    }
    command = [str(HG), "--config", "extensions.amalgam=", "--config", DETAILED]
    command += ["--config", f"extensions.meanwhile={meanwhile}", "git::export"]
    return subprocess.run(command, cwd=repo, env=environment, capture_output=True)
