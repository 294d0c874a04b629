"""Which program is taken for git, and that its own defaults do not matter."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mercurial import error
from testlib.environment import executable, git, hg

from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore.git.process import Git

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("script", "message", "hint"),
    [
        ("echo git version 2.38.1", b"git 2.38.1 is too old", b"install git 2.39"),
        ("echo hello", b"is not git: hello", b"set amalgam.git.program"),
        ("echo no >&2; exit 1", b"is not git: no", b"set amalgam.git.program"),
    ],
)
def test_program_that_is_no_or_an_old_git_is_refused(
    tmp_path: Path, script: str, message: bytes, hint: bytes
) -> None:
    program = executable(tmp_path / "git", f"#!/bin/sh\n{script}\n")
    with pytest.raises(error.Abort) as caught:
        Git(bytes(program), Directory(bytes(tmp_path))).run("rev-parse", "main")
    assert message in caught.value.message
    assert caught.value.hint.startswith(hint)


def test_repository_is_as_amalgam_fills_it_whatever_git_prefers(tmp_path: Path) -> None:
    program = executable(
        tmp_path / "git",
        '#!/bin/sh\n: "${GIT_DEFAULT_HASH:=sha256}"\nexport GIT_DEFAULT_HASH\n'
        f'exec {shutil.which("git")} "$@"\n',
    )
    hg(tmp_path, "init", "repo")
    hg(tmp_path / "repo", "debugbuilddag", "+1")
    hg(tmp_path / "repo", "git::export", "--config", f"amalgam.git.program={program}")
    made = tmp_path / "repo/.hg/amalgam/git/cinnabar.git"
    git(tmp_path, "clone", "-q", str(made), "clone")


def test_program_that_is_missing_is_named() -> None:
    with pytest.raises(error.Abort) as caught:
        Git(b"/nonexistent/git").run("version")
    assert caught.value.message == (
        b"cannot run git program '/nonexistent/git': No such file or directory"
    )
