"""A repository of git and a clone of hg's, whose owner comes from hg-git."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testlib.environment import ENVIRONMENT, git
from testlib.gitclone import Clone

SETTINGS = """\
[amalgam]
git.dialect = hggit
git.hggit-files = yes
[extensions]
amalgam =
rebase =
[experimental]
evolution = all
"""


class Project(Clone):
    """A repository of git with a clone of hg's, of whom hg-git's users own both."""

    def __init__(self, path: Path) -> None:
        super().__init__(path / "clone")
        (path / "hgrc").write_text(SETTINGS)
        self.environment = {"HGRCPATH": str(path / "hgrc")}
        self.upstream = path / "upstream"
        git(path, "init", "-q", "-b", "main", str(self.upstream))
        git(self.upstream, "config", "receive.denyCurrentBranch", "ignore")
        self.seconds = 1_000_000_000
        for name in ("one", "two", "three"):
            self.commit(name)
        git(self.upstream, "branch", "aside", "main~1")
        self.dated("tag", "-a", "-m", "annotated", "heavy", "main~1")
        git(self.upstream, "tag", "light", "main~2")

    def run(self, *args: str, **environment: str) -> tuple[int, str]:
        return super().run(*args, **self.environment, **environment)

    def commit(self, name: str, content: str = "", branch: str = "main") -> str:
        """Commit a file to a branch of upstream; return the id."""
        self.seconds += 100
        if branch != git(self.upstream, "branch", "--show-current").decode().strip():
            git(self.upstream, "checkout", "-q", branch)
        (self.upstream / name).write_text(content)
        git(self.upstream, "add", name)
        self.dated("commit", "-q", "-m", name)
        return git(self.upstream, "rev-parse", "HEAD").decode().strip()

    def dated(self, *args: str) -> None:
        """Run git in upstream at the time of the last commit."""
        date = f"@{self.seconds} +0000"
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@x", *args],
            cwd=self.upstream,
            env=ENVIRONMENT | dates,
            check=True,
        )

    def clone(self, *args: str) -> str:
        return self.hg("clone", *args, str(self.upstream), str(self.root))

    def rewrite(self) -> None:
        """Push a commit of a branch, and then make it obsolete."""
        self.clone("-u", "aside")
        (self.root / "mine").write_text("mine")
        self.hg("commit", "-A", "-q", "-m", "mine")
        self.hg("push")
        self.hg("rebase", "-q", "-d", "main")

    def names(self) -> set[str]:
        return {*self.hg("tags", "-T", "{tag}={rev}\n").split()} - {"tip=0"}

    def active(self) -> str:
        return self.hg("log", "-r", ".", "-T", "{desc} {activebookmark}")
