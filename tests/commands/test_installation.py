"""What a build knows of itself: its commit, its core, and the git that it finds."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from testlib.environment import HG, ROOT, captured
from testlib.hgserver import HgServer

from hgext3rd import amalgam

#: The parts of the tree that setup.py reads when it copies modules.
BUILDER = """
import cffi
ffi_builder = cffi.FFI()
ffi_builder.set_source("_x", "")
"""
WITHOUT_CORE = """
import runpy, sys
sys.modules["hgext3rd.amalgam.core._core"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(cwd: Path, *command: str) -> str:
    done = captured(command, cwd, text=True)
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A checkout with as much of the tree as copying modules takes."""
    root = tmp_path / "tree"
    package = root / "hgext3rd" / "amalgam"
    (package / "core").mkdir(parents=True)
    shutil.copy(ROOT / "setup.py", root)
    for name in ("__init__.py", "commands/__init__.py", "configitems.py", "hooks.py"):
        (package / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "hgext3rd" / "amalgam" / name, package / name)
    (package / "core" / "_build.py").write_text(BUILDER)
    run(root, "git", "init", "-q")
    run(root, "git", "add", ".")
    run(root, "git", "commit", "-qm", "all")
    return root


def built(root: Path) -> bytes:
    """Return what a build of ``root`` says that it is of."""
    where = root.parent / "built"
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(where)]
    run(root, *command)
    program = "import amalgam; print(amalgam.getversion().decode())"
    said = run(where / "hgext3rd", sys.executable, "-c", program)
    shutil.rmtree(where)
    return said.strip().encode()


def test_build_names_the_commit_and_whether_files_were_changed(sources: Path) -> None:
    commit = run(sources, "git", "rev-parse", "HEAD").encode()[:12]
    assert built(sources) == b"%s+%s" % (amalgam.__version__, commit)
    with (sources / "setup.py").open("a") as file:
        file.write("# changed\n")
    assert built(sources) == b"%s+%s+" % (amalgam.__version__, commit)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"703ac2012345\n", b"+703ac2012345"),
        (b"703ac2012345+\n", b"+703ac2012345+"),
        (b"\x1b[31m\n", b""),
        (b"", b""),
        (None, b""),
    ],
)
def test_build_of_a_source_distribution_names_its_commit(
    sources: Path, content: bytes | None, expected: bytes
) -> None:
    shutil.rmtree(sources / ".git")
    if content is not None:
        (sources / "hgext3rd" / "amalgam" / "COMMIT").write_bytes(content)
    assert built(sources) == amalgam.__version__ + expected


def test_version_has_no_more_than_a_commit() -> None:
    version = amalgam.__version__ + rb"(\+[0-9a-f]{12}\+?)?"
    assert re.fullmatch(version, amalgam.getversion())


def checked(server: HgServer, tmp_path: Path, *options: str) -> tuple[int, Any]:
    """Return how many problems ``hg debuginstall`` finds, and all that it tells."""
    server.hg(tmp_path, "init", "repo")
    name = ("--config", "ui.username=test", "--config", "ui.editor=true")
    done = server.run(tmp_path / "repo", "debuginstall", "-T", "json", *name, *options)
    (found,) = json.loads(done.out)
    return done.code, found


def test_debuginstall_finds_core_and_git(server: HgServer, tmp_path: Path) -> None:
    code, found = checked(server, tmp_path)
    assert (code, found["problems"]) == (0, 0)
    assert found["amalgamcore"] == amalgam.__version__.decode()
    assert run(tmp_path, "git", "version").split()[2] == found["amalgamgit"]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("git.program=/bin/true", "'/bin/true' is not git: exited with status 0"),
        ("git.program=/nowhere/git", "cannot run git program '/nowhere/git'"),
        ("git.dialect=hgg", "invalid value 'hgg' for amalgam.git.dialect"),
    ],
)
def test_debuginstall_tells_why_git_cannot_be_used(
    server: HgServer, tmp_path: Path, option: str, expected: str
) -> None:
    code, found = checked(server, tmp_path, "--config", f"amalgam.{option}")
    assert (code, found["problems"]) == (1, 1)
    assert found["amalgamgiterror"].startswith(expected)


def test_debuginstall_tells_that_there_is_no_core(tmp_path: Path) -> None:
    options = ["--config", "extensions.amalgam=", "--config", "ui.username=test"]
    command = [sys.executable, "-c", WITHOUT_CORE, str(HG), *options, "debuginstall"]
    done = captured(command, tmp_path)
    assert b" native core of amalgam cannot be loaded: " in done.stdout
    assert b"1 problems detected" in done.stdout
    assert done.returncode == 1, done.stderr
