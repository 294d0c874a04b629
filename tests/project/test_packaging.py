"""Building the package: what a machine may lack is named in one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, ROOT, executable

TOOLS = {
    "cc": "#!/bin/sh\n",
    "cargo": "#!/bin/sh\n",
    "rustc": "#!/bin/sh\necho 'rustc 1.95.0 (59807616e 2026-04-14)'\n",
}


def build(tmp_path: Path, **tools: str | None) -> tuple[int, list[str]]:
    """Build with only ``tools`` on PATH; answer exit code and stderr by lines."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for name, script in (TOOLS | tools).items():
        if script is not None:
            executable(bin_dir / name, script)
    command = [sys.executable, "setup.py", "-q", "build_ext"]
    command += ["--build-temp", str(tmp_path / "temp")]
    command += ["--build-lib", str(tmp_path / "lib")]
    env = ENVIRONMENT | {"PATH": f"{bin_dir}:/nowhere", "CC": "cc"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ({"cc": None}, "no C compiler: 'cc' is not on PATH; install one (apt install"),
        (
            {"cargo": None},
            "no Rust: 'cargo' is not on PATH; install it (https://rustup",
        ),
        ({"rustc": None}, "no Rust: 'rustc --version' fails; install it (https://rust"),
        (
            {"rustc": "#!/bin/sh\necho 'rustc 1.88.9'\n"},
            "rustc 1.88.9 is too old: 1.89 or later is needed; update it (rust",
        ),
    ],
)
def test_missing_tool_is_named_in_one_line(
    tmp_path: Path, tools: dict[str, str | None], expected: str
) -> None:
    code, lines = build(tmp_path, **tools)
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith(f"error: cannot build hg-amalgam: {expected}")


def test_an_address_for_reports_is_in_the_package_or_nowhere() -> None:
    """SECURITY.rst has other ways as long as the package names nobody."""
    project = (ROOT / "pyproject.toml").read_text().partition("[tool.")[0]
    has_address = re.search(r"(?m)^(?:authors|maintainers|\[project\.urls\])", project)
    security = " ".join((ROOT / "SECURITY.rst").read_text().split())
    assert bool(has_address) != ("has no address of its own yet" in security)
    assert bool(has_address) != ("``pip show hg-amalgam`` names none" in security)
