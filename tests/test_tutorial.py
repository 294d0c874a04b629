"""The tutorial: its commands and files as they are printed, and what they answer."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, ROOT

TUTORIAL = ROOT / "docs" / "tutorial.rst"
BLOCK = re.compile(r"(?m)^(?!\.\.).*::\n\n((?:    .*\n|\n)+)")


def blocks() -> Iterator[list[str]]:
    """Yield the literal blocks, in their order."""
    for found in BLOCK.findall(TUTORIAL.read_text()):
        yield textwrap.dedent(found).strip("\n").split("\n")


def masked(lines: list[str]) -> list[str]:
    """Return the lines without what differs from run to run."""
    text = re.sub(r"\b[0-9a-f]{7,40}\b", "ID", "\n".join(lines))
    text = re.sub(r"/\S+(?=/project/)", "HOME", text)
    return re.sub(r"\d+(\.\d+)?", "N", text).splitlines()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_tutorial_answers_as_it_is_printed(tmp_path: Path) -> None:
    port = str(free_port())
    environment = ENVIRONMENT | {
        "PATH": f"{HG.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
    }
    here = tmp_path
    steps = 0
    try:
        for block in blocks():
            if block[0].startswith("# "):
                (here / block[0][2:]).write_text("\n".join(block[1:]) + "\n")
                continue
            for step in re.split(r"(?m)^\$ ", "\n".join(block))[1:]:
                command, *expected = step.splitlines()
                if command.startswith("cd "):
                    here = here / command[3:]
                    continue
                done = subprocess.run(
                    ["sh", "-c", command.replace("8000", port)],
                    cwd=here,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                assert done.returncode == 0, f"{command}\n{done.stdout}"
                if expected:
                    assert masked(done.stdout.splitlines()) == masked(expected), command
                steps += 1
    finally:
        if (tmp_path / "hg.pid").exists():
            _end(int((tmp_path / "hg.pid").read_text()))
    assert steps > 15


def _end(pid: int) -> None:
    # the last step of serving ends it, too
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
