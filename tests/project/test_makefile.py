"""The Makefile in trees with names that need quoting. Nothing is built."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, ROOT, executable

# Stands in for python3: it logs its arguments. Its venv has itself, pip and hg.
PYTHON = """\
#!/bin/sh
case "$1" in
-m) test "$2" != venv || {
  mkdir -p "$4/bin" && cp "$0" "$4/bin/python3"
  printf '#!%s\\n' "$PWD/$4/bin/python3" > "$4/bin/hg"
  printf '#!/bin/sh\\n' > "$4/bin/pip"
  chmod +x "$4/bin/hg" "$4/bin/pip"
} ;;
-c) dirname "$0" ;;
*/hg) echo "started as $1" ;;
esac
printf '%s\\n' "$*" >> "$LOG"
"""
NAMES = ("amalgam", "hg-amalgam", "it's a tree", 'a "tree" & $HOME')


class Tree:
    """A copy of the Makefile and of what it looks at."""

    def __init__(self, place: Path, name: str) -> None:
        self.root = place / name
        self.log = place / "log"
        for file in ("tests/requirements.txt", "contrib/perf/requirements.txt"):
            (self.root / file).parent.mkdir(parents=True)
            (self.root / file).touch()
        shutil.copy(ROOT / "Makefile", self.root)
        runner = place / "cache/hg-amalgam/mercurial-1/tests/run-tests.py"
        runner.parent.mkdir(parents=True)
        runner.touch()
        os.utime(runner, (2**32, 2**32))
        self.python = executable(place / "python3", PYTHON)
        self.environment = ENVIRONMENT | {
            "LOG": str(self.log),
            "XDG_CACHE_HOME": str(place / "cache"),
        }

    def make(self, *targets: str, cwd: Path | None = None) -> list[str]:
        """Make ``targets`` and return what was run."""
        self.log.write_text("")
        command = ["make", "HG=1", f"PYTHON={self.python}", *targets]
        done = subprocess.run(
            command,
            cwd=cwd or self.root,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return self.log.read_text().splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_tree_may_have_any_name(tmp_path: Path, name: str) -> None:
    tree = Tree(tmp_path, name)
    report = tree.root / "build" / "t-1" / "report.json"
    ran = tree.make("pytest", "t", "torture")
    venv = tree.root / "build" / "venv-1"
    assert "-m pytest -m not torture -n 2 --dist worksteal" in ran
    (tests,) = (line for line in ran if "run-tests.py" in line)
    assert f"--with-hg={venv}/bin/hg" in tests
    assert f"--outputdir {report.parent}" in tests
    assert f"-m torture --json {tree.root}/build/torture.json" in ran
    assert (venv / "bin/amalgam-tree.pth").read_text() == f"{tree.root}\n"


@pytest.mark.parametrize("name", ["amalgam", "it's a tree"])
def test_hg_of_the_venv_can_be_started(tmp_path: Path, name: str) -> None:
    tree = Tree(tmp_path, name)
    tree.make("local")
    hg = tree.root / "build" / "venv-1" / "bin" / "hg"
    done = subprocess.run([hg], env=tree.environment, capture_output=True, text=True)
    assert done.stdout == f"started as {hg}\n"


def test_tree_that_cannot_be_written_is_made_in_a_copy(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "tree")
    before = sorted(tree.root.rglob("*"))
    copy = tmp_path / "it's a copy"
    for _turn in range(2):
        (tests,) = (line for line in tree.make("t", f"BUILD={copy}") if "-j2" in line)
        assert f"--with-hg={copy}/build/venv-1/bin/hg" in tests
    assert sorted(tree.root.rglob("*")) == before


def test_venv_is_made_once_for_a_place(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "tree")
    made = ["-m venv --clear build/venv-1"]
    assert tree.make("local")[: len(made)] == made
    assert not set(made) & set(tree.make("local"))
    link = tmp_path / "link"
    link.symlink_to(tree.root)
    assert not set(made) & set(tree.make("local", cwd=link))
    tree.root = tree.root.rename(tmp_path / "moved")
    assert tree.make("local")[: len(made)] == made
