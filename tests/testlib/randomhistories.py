"""Random histories of commits in a git repository, all of which survive a push."""

from __future__ import annotations

import random
from pathlib import Path

from .environment import git
from .randomcommits import EMPTY_TREE, GitObjects, change, write_tree

Files = dict[bytes, tuple[bytes, bytes]]
"""Mode and content by path."""

MARK = b"\1\n"
"""What precedes metadata in a text of Mercurial's."""
_AUTHORS = (
    *(b"A U <a@x> 12 +0100", b"A U <a@x> 12 +0100", b"\xff <> 1 -9959"),
    *(b" <only@mail> 2147483648 +1400", b"name <> 0 +0000"),
    *(b"  two  spaces  <a@x> 99999999999 -0330", b"\\n \\ <b\\@x> 7 +0545"),
)
_COMMITTERS = (
    *(None, None, None, b"x:y <q:r> 1 +1345", b"A U <a@x> 12 +0200"),
    b" <> 1 -0001",
)
_MESSAGES = (b"", b"\n\n\xff\0", b"\r\n", b"\n\n", b"long " * 2000)
_MOST_SOURCES = 100
"""Sources with one content that git looks at."""


class History:
    """A random history in a bare git repository."""

    def __init__(
        self, path: Path, draw: random.Random, *, has_marks: bool = True
    ) -> None:
        """``has_marks``: whether contents begin with ``MARK``, too."""
        self.repo = GitObjects(path)
        self.draw = draw
        self.made: list[str] = []
        self.files: dict[str, Files] = {}
        self.parents: set[str] = set()
        self.roots: set[str] = set()
        self._has_marks = has_marks

    def learn(self, oids: list[str]) -> None:
        """Let commits that are there be parents."""
        for oid in oids:
            self.made.append(oid)
            self.files[oid] = read_tree(self.repo.path, oid)

    def grow(self, count: int) -> None:
        """Add commits."""
        for _time in range(count):
            parents = self._parents()
            files = self._files(parents)
            number = b"%d\n" % len(self.made)
            oid = self.repo.commit(
                *parents,
                tree=write_tree(self.repo, files) if files else EMPTY_TREE,
                author=self.draw.choice(_AUTHORS),
                committer=self.draw.choice(_COMMITTERS),
                message=number + self.draw.choice(_MESSAGES),
            )
            self.made.append(oid)
            self.parents |= {*parents}
            self.roots |= set() if parents else {oid}
            self.files[oid] = files
            self.repo.branch(f"b{len(self.made)}", oid)

    def heads(self) -> list[str]:
        """Return commits that no other has for a parent."""
        return [oid for oid in self.made if oid not in self.parents]

    def has_empty_root(self) -> bool:
        """Tell whether a commit without parents has no files, and a file no content."""
        contents = (it for files in self.files.values() for it in files.values())
        has_empty = any(content == b"" for _mode, content in contents)
        return has_empty and any(not self.files[oid] for oid in self.roots)

    def _parents(self) -> list[str]:
        recent = self.made[-8:]
        count = min(len(recent), self.draw.choice([0, 1, 1, 1, 1, 2, 2]))
        parents = self.draw.sample(recent, count)
        if len(self.made) > 3 and not parents and self.draw.random() < 0.7:
            parents = [self.made[-1]]
        return parents

    def _files(self, parents: list[str]) -> Files:
        draw = self.draw
        if len(parents) == 2 and draw.random() < 0.2:  # ours, or theirs
            return self.files[draw.choice(parents)]
        files = {
            path: it
            for parent in draw.sample(parents, len(parents))
            for path, it in self.files[parent].items()
            if len(parents) < 2 or draw.random() < 0.95
        }
        files = consistent(files)
        if draw.random() < 0.05:
            files = {}
        change(files, draw)
        if draw.random() < 0.01:  # more sources of a copy than are looked at
            many = range(_MOST_SOURCES - 3, _MOST_SOURCES + 3)
            for number in range(draw.choice(many)):
                files[b"many/%03d" % number] = b"100644", b"a\n"
        if not self._has_marks:
            files = {
                path: (mode, content.removeprefix(MARK).replace(MARK, b"\1 \n"))
                for path, (mode, content) in files.items()
            }
        return consistent(files)


def consistent(files: Files) -> Files:
    """Leave out files that have the name of a directory."""
    directories = {
        path[: at + 1]
        for path in files
        for at, byte in enumerate(path)
        if byte == ord("/")
    }
    return {path: it for path, it in files.items() if path + b"/" not in directories}


def read_tree(path: Path, oid: str) -> Files:
    """Return the files of a commit."""
    found = {}
    for line in git(path, "ls-tree", "-r", "-z", oid).split(b"\0")[:-1]:
        head, name = line.split(b"\t", 1)
        mode, _kind, blob = head.split()
        found[name] = mode, git(path, "cat-file", "blob", blob.decode())
    return found
