"""What every command of hg loads of amalgam, because it is enabled.

Mercurial puts off loading a module until something in it is used.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, hg

pytestmark = pytest.mark.slow

#: Runs hg as its script does, then prints which modules of ours were loaded.
RUN = """
import json, sys
import hgdemandimport
hgdemandimport.enable()
from mercurial import dispatch
sys.argv[0] = "hg"
try:
    dispatch.run()
except SystemExit as exc:
    assert not exc.code, exc.code
prefix = "hgext3rd.amalgam."
print("\\n" + json.dumps([
    name.removeprefix(prefix) for name, module in sys.modules.items()
    if name.startswith(prefix) and "lazy" not in type(module).__name__.lower()
]))
"""
#: Where Mercurial's functions are wrapped. Modules with commands are loaded, too.
ALWAYS = {"gitstore", "gitstore.censorship", "index", "index.lookup", "index.mapped"}


def loaded(cwd: Path, *arguments: str) -> set[str]:
    command = [sys.executable, "-c", RUN, "--config", "extensions.amalgam="]
    done = subprocess.run(
        [*command, *arguments], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return {name for name in names if name.startswith(("native", "gitstore", "index"))}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    hg(tmp_path, "init", "repo")
    hg(tmp_path / "repo", "debugbuilddag", "+9")
    return tmp_path / "repo"


def test_no_more_than_tables(tmp_path: Path) -> None:
    assert loaded(tmp_path, "version", "-q") == ALWAYS


def test_no_native_core_for_a_small_index(repo: Path) -> None:
    small = {"index.decision", "index.indexfile"}
    assert loaded(repo, "log", "-r", "tip") == ALWAYS | small


def test_nothing_that_writes_to_look_something_up(repo: Path) -> None:
    mapped = ["--config", "experimental.mmapindexthreshold=0"]
    hg(repo, "debugupdatecaches", *mapped)
    found = loaded(repo, "log", "-r", "tip", *mapped)
    assert "native._core" in found
    assert not found & {"placement", "index.renewal", "index.examination"}
