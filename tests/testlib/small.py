"""A small repository, and what an export makes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .environment import (
    HG,
    captured,
    git,
    hg,
    is_common,
    publish_commits,
    server,
)

STORE = ".hg/amalgam/git/cinnabar.git"
DETAILED = "ui.detailed-exit-code=yes"


def repository(path: Path, *, publishes: bool = True) -> Path:
    """Make a repository with one changeset, whose description is ``one``.

    Whatever is committed is public if it ``publishes``, else draft.
    """
    hg(path.parent, "init", str(path))
    if publishes:
        publish_commits(path)
    commit(path, "one")
    return path


def commit(repo: Path, name: str) -> None:
    """Add the file ``name`` in a changeset that has this description."""
    (repo / name).write_text(f"{name}\n")
    hg(repo, "commit", "-qAm", name, "-d", "0 0")


def run_hg(cwd: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    """Run hg with amalgam; it may fail."""
    if is_common(cwd, args):
        done = server().run(None, "--cwd", str(cwd), *args)
        return subprocess.CompletedProcess(args, done.code, done.out, done.err)
    options = ["--config", "extensions.amalgam=", "--config", DETAILED]
    command = [str(HG), *options, *args]
    return captured(command, cwd)


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return what a process wrote, errors last."""
    return (done.stdout + done.stderr).decode()


def refs(repo: Path) -> dict[str, str]:
    """Return the refs of the git store: name to description of the changeset.

    Without those that are for git-cinnabar.
    """
    lines = git(repo / STORE, "for-each-ref", "--format=%(objectname) %(refname)")
    pairs = [
        line.split() for line in lines.decode().splitlines() if "cinnabar" not in line
    ]
    log = hg(repo, "log", "--hidden", "-r", "all()", "-T", "{gitnode} {desc}\n")
    names = dict(line.split() for line in log.decode().splitlines() if line[0] != " ")
    return {name: names.get(oid, oid) for oid, name in pairs}
