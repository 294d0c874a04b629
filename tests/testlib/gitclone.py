"""A clone of a git repository by hg, and how tests work in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .environment import ENVIRONMENT, HG
from .githost import HostedRepository


class Clone:
    """A clone, and how to run hg there."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *args: str, **environment: str) -> tuple[int, str]:
        """Run hg in the clone, or beside it if there is none; exit code and output."""
        cwd = self.root if self.root.exists() else self.root.parent
        done = subprocess.run(
            [str(HG), "--config", "extensions.amalgam=", *args],
            cwd=cwd,
            env=ENVIRONMENT | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    def hg(self, *args: str, **environment: str) -> str:
        """Run hg, which does not fail."""
        code, output = self.run(*args, **environment)
        assert code == 0, output
        return output

    def commits(self) -> set[str]:
        """Export all changesets; return the ids of their commits."""
        self.hg("git::export", "-q", "--config", "amalgam.git.refs=heads,tips")
        return {*self.hg("log", "-T", "{gitnode}\n").split()}


def cloned(tmp_path: Path, project: HostedRepository, *args: str) -> Clone:
    clone = Clone(tmp_path / "clone")
    clone.hg("clone", "-q", *args, f"git+{project.url}", str(clone.root))
    return clone
