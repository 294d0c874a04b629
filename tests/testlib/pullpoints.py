"""Disturb a first pull at its steps, as ``python3 -m testlib.pullpoints``.

The arguments are TEMPLATE SCRATCH HOW [STRIDE].

TEMPLATE is an empty repository whose default path is a git repository. For each step
that ``hg pull`` takes in the file system, or for one of STRIDE, a copy in SCRATCH is
pulled into, and disturbed at that step: HOW is ``kill``, or ``full`` for a disk without
space. Then it is pulled into again, and must be as if nothing had happened. Prints the
number of disturbed pulls. Forks, hence a program.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mercurial import util

from .environment import ENVIRONMENT
from .killpoints import in_child

_STEPS = ("rename", "link", "unlink", "symlink", "fsync", "mkdir", "rmdir")
# and Mercurial has no way out if it cannot open its journal
_NEEDS_NO_SPACE = ("unlink", "rmdir", "posixfile")
_SHOWN = "{node} {phase} {bookmarks} {gitbranches} {gittags} {gitnode}\n"


def at_some(template: Path, scratch: Path, how: str, stride: int) -> int:
    """Run this program, which must find nothing wrong; return how often it pulled."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(template), str(scratch), how, str(stride)],
        cwd=Path(__file__).parents[1],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return int(done.stdout.splitlines()[-1])


def hg(repo: Path, *args: str, left: int | None = None, how: str = "") -> int:
    """Run hg in a child, disturbed after ``left`` steps; return its exit code.

    Its output goes to a file beside the repository.
    """

    def prepare() -> None:
        out = os.open(repo.parent / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        if left is not None:
            disturb(left, how)

    return in_child(repo, args, prepare)


def disturb(left: int, how: str) -> None:
    """Die before the step that comes after ``left`` others, or fail from then on."""
    remaining = left

    def counted(orig: Callable[..., Any], name: str) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal remaining
            mode = str(args[1:2] or kwargs.get("mode", "r"))
            if name == "posixfile" and not {*mode} & {*"wa+"}:
                return orig(*args, **kwargs)
            remaining -= 1
            if remaining < 0 and how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if remaining < 0 and name not in _NEEDS_NO_SPACE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *args[:1])
            return orig(*args, **kwargs)

        return step

    for name in _STEPS:
        setattr(os, name, counted(getattr(os, name), name))
    # Mercurial has names of its own for them
    for name in ("rename", "unlink", "posixfile"):
        setattr(util, name, counted(getattr(util, name), name))


def state(repo: Path) -> tuple[str, set[str]]:
    """Return all that a user sees, and files that should not be there."""
    assert hg(repo, "log", "-r", "sort(all(), node)", "-T", _SHOWN) == 0
    shown = (repo.parent / "output").read_text()
    assert hg(repo, "verify", "-q") == 0
    objects = str(repo / ".hg/amalgam/fetched/objects.git")
    command = ["git", "-C", objects, "fsck", "--full", "--no-dangling"]
    subprocess.run(command, check=True, stderr=subprocess.PIPE)
    files = {path.name for path in (repo / ".hg").rglob("*")}
    odd = {it for it in files if "tmp" in it or ".lock" in it or "fetch-" in it}
    return shown, odd | ({"journal", "lock"} & files)


def main(template: str, scratch: str, how: str, stride: str = "1") -> None:
    repo = Path(scratch, "repo")
    shutil.copytree(template, repo, symlinks=True)
    assert hg(repo, "pull", "-q") == 0
    expected = state(repo)
    for number, left in enumerate(range(0, 1000, int(stride))):
        shutil.rmtree(repo)
        shutil.copytree(template, repo, symlinks=True)
        code = hg(repo, "pull", "-q", left=left, how=how)
        said = (repo.parent / "output").read_text()
        # Mercurial fails as it forgets a transaction that had no journal
        assert "Traceback" not in said.partition("Exception ignored in")[0], said
        if code == 0:
            assert state(repo) == expected, left
            print(number)
            return
        if (repo / ".hg/store/journal").exists():
            assert hg(repo, "recover", "-q") == 0, said
        assert hg(repo, "pull", "-q") == 0, (repo.parent / "output").read_text()
        found = state(repo)
        assert found == expected, (left, said, found, expected)


if __name__ == "__main__":
    main(*sys.argv[1:])
