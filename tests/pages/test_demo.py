"""The demo, and the commands that it ends with, for somebody who has only run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from page import Servers, free_port
from testlib.environment import HG, ROOT

DEMO = ROOT / "contrib" / "demo" / "demo.py"
NEXT = "This repository stays."


@pytest.mark.slow
def test_demo_ends_with_commands_that_work(tmp_path: Path) -> None:
    # git, and nothing of ours in PATH or in the home directory
    git = shutil.which("git") or ""
    environment = {"PATH": f"{Path(git).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    demo = [sys.executable, str(DEMO), "--hg", str(HG), "--changesets", "3000"]
    done = subprocess.run(
        [*demo, "--keep", str(tmp_path / "kept")],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    port = free_port()
    typed = [
        line.strip().replace("8000", str(port))
        for line in done.stdout.partition(NEXT)[2].splitlines()
        if line.startswith("    ")
    ]
    *steps, own = typed
    script = "\n".join(["set -e", *steps])
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "summary:     from git" in done.stdout

    mine = tmp_path / "mine"
    for words in (["init", "mine"], ["-R", "mine", "debugbuilddag", "+3"]):
        subprocess.run([HG, *words], cwd=tmp_path, env=environment, check=True)
    servers = Servers(environment)
    try:
        servers.start(["sh", "-c", f"exec {own} -p {port}"], mine, tmp_path / "log")
        servers.wait(port)
        servers.shell(f"git clone -q http://localhost:{port}/ clone", tmp_path)
    finally:
        servers.stop()
    assert servers.problems == []
