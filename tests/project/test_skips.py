"""A test that is skipped without being in tests/SKIPS fails the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from testlib.environment import ROOT

pytestmark = pytest.mark.slow

CONFTEST = """\
from testlib import needs
needs._NEEDS["nothing"] = lambda: ""
needs._NEEDS["magic"] = lambda: "no magic"

def pytest_configure(config):
    config.pluginmanager.register(needs.Skips())
"""


def run(directory: Path, **tests: str) -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text(CONFTEST)
    for name, body in tests.items():
        path = directory / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"import pytest\n\n{body}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    environment = {"PYTHONPATH": str(ROOT / "tests"), "PATH": ""}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("test", "problem"),
    [
        ("def test_it(): pass", ""),
        ("def test_it(): pytest.skip('tired')", "was skipped for another reason"),
        (
            "@pytest.mark.needs('magic')\ndef test_it(): pass",
            "test_new.py::test_it needs magic, and None is listed",
        ),
        (
            "@pytest.mark.needs('nothing')\ndef test_it(): pass",
            "test_new.py::test_it needs nothing, and None is listed",
        ),
    ],
)
def test_skips_are_those_that_are_listed(
    tmp_path: Path, test: str, problem: str
) -> None:
    done = run(tmp_path, test_new=test)
    assert problem in done.stdout
    assert done.returncode == (1 if problem else 0), done.stdout + done.stderr


def test_test_that_is_listed_has_to_say_what_it_needs(tmp_path: Path) -> None:
    done = run(tmp_path, **{"index/test_mapping": "def test_it(): pass"})
    problem = "index/test_mapping.py::test_it needs None, and maps is listed"
    assert problem in done.stdout
    assert done.returncode == 1
