"""A repository as hg-git leaves it: with a map, tags, and a git repository."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from .environment import git
from .gitclone import Clone

_PAIR = re.compile("([0-9a-f]{40}) ([0-9a-f]{40})")
_DIALECT = ("--config", "amalgam.git.dialect=hggit")


class Moved(Clone):
    """A clone of a git repository that hg-git made, and amalgam goes on with."""

    def __init__(self, root: Path, upstream: Path) -> None:
        """Clone ``upstream``, with the nodes that hg-git gives."""
        super().__init__(root)
        self.upstream = upstream
        self.files = root / ".hg"
        self.hg("clone", "-q", *_DIALECT, f"git+{upstream.as_uri()}", str(root))
        template = "{gitnode} {node}\n"
        log = self.hg("log", "-r", "all()", "-T", template, *_DIALECT)
        template = "{gittags % '{node} {gittag}\n'}"
        tags = self.hg("log", "-r", "all()", "-T", template, *_DIALECT)
        shutil.rmtree(self.files / "amalgam")
        self.map.write_text(log)
        (self.files / "git-tags").write_text(
            "".join(sorted(tags.splitlines(True), key=lambda it: it.split()[1:]))
        )
        git(root, "clone", "-q", "--bare", str(upstream), str(self.git))
        for branch in self.refs("refs/heads/"):
            remote = branch.replace("refs/heads/", "refs/remotes/default/")
            git(self.git, "update-ref", remote, branch)
        git(self.git, "repack", "-adq")
        git(self.git, "pack-refs", "--all")

    @property
    def map(self) -> Path:
        return self.files / "git-mapfile"

    @property
    def git(self) -> Path:
        in_tree = self.root / ".git"
        return in_tree if in_tree.exists() else self.files / "git"

    def move_into_tree(self) -> None:
        """Let the git repository be in the working directory (``git.intree``)."""
        self.git.rename(self.root / ".git")
        with (self.files / "hgrc").open("a") as file:
            file.write("[git]\nintree = yes\n")

    def refs(self, below: str = "refs/") -> list[str]:
        form = "--format=%(refname)"
        return git(self.git, "for-each-ref", form, below).decode().split()

    def ref(self, name: str) -> str:
        return git(self.git, "rev-parse", name).decode().strip()

    def content(self) -> dict[str, bytes]:
        """Return the files that hg-git has left, with their content."""
        found = [self.map, self.files / "git-tags", *self.git.rglob("*")]
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in found
            if path.is_file()
        }

    def pairs(self) -> dict[str, str]:
        """Return changesets by commits, as the map has them."""
        lines = self.map.read_text().splitlines()
        return {line[:40]: line[41:] for line in lines}

    def ids(self) -> dict[str, str]:
        """Return changesets by commits, as amalgam has them."""
        log = self.hg("log", "--hidden", "-r", "all()", "-T", "{gitnode} {node}\n")
        pairs = (_PAIR.fullmatch(line) for line in log.splitlines())
        return {it[1]: it[2] for it in pairs if it}
