"""Commits made of any bytes, and random changes of their files."""

from __future__ import annotations

import hashlib
import random
import zlib
from pathlib import Path

from .environment import git

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
GITLINK = b"160000"
PLAIN = b"A U <a@x> 12 +0100"


class GitObjects:
    """A bare git repository, object by object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            git(path.parent, "init", "-q", "--bare", str(path))
        self.blob = write_object(path, "blob", b"text\n")

    def tree(self, *entries: tuple[bytes, bytes] | tuple[bytes, bytes, str]) -> str:
        """Write a tree of mode, name and oid, in the order given."""
        content = b""
        for mode, name, *oid in entries:
            content += b"%s %s\0" % (mode, name)
            content += bytes.fromhex(oid[0] if oid else self.blob)
        return write_object(self.path, "tree", content)

    def commit(
        self,
        *parents: str,
        tree: str = EMPTY_TREE,
        author: bytes = PLAIN,
        committer: bytes | None = None,
        headers: bytes = b"",
        message: bytes = b"message\n",
    ) -> str:
        """Write a commit."""
        lines = [b"tree %s\n" % tree.encode()]
        lines += [b"parent %s\n" % parent.encode() for parent in parents]
        lines += [b"author %s\n" % author, b"committer %s\n" % (committer or author)]
        content = b"".join(lines) + headers + b"\n" + message
        return write_object(self.path, "commit", content)

    def branch(self, name: str, oid: str) -> None:
        """Let a branch be ``oid``, even if git would refuse the commit."""
        (self.path / "refs/heads" / name).write_text(f"{oid}\n")


def write_object(path: Path, kind: str, content: bytes) -> str:
    """Add an object to a bare repository, whatever git thinks of it."""
    whole = b"%s %d\0%s" % (kind.encode(), len(content), content)
    oid = hashlib.sha1(whole).hexdigest()
    loose = path / "objects" / oid[:2] / oid[2:]
    if not loose.exists():
        loose.parent.mkdir(exist_ok=True)
        loose.write_bytes(zlib.compress(whole, 1))
    return oid


def change(tree: dict[bytes, tuple[bytes, bytes]], draw: random.Random) -> None:
    """Change, add, copy, rename or remove some files."""
    modes = (b"100644", b"100644", b"100755", b"120000")
    contents = (b"", b"a\n", b"b\n", b"\1\n", b"\1\na: b\n\1\nc", b"\0", b"long\n" * 99)
    for _time in range(draw.randint(0, 4)):
        names = [b"f%d" % number for number in range(6)] + [b"x \xff", b"\x1b", b"\\"]
        path = b"".join(draw.choices([b"", b"d/", b"e-/", b"d/e/"])) + draw.choice(
            names
        )
        if tree and draw.random() < 0.3:
            source = draw.choice(sorted(tree))
            tree[path] = tree[source]
            if draw.random() < 0.5 and source != path:
                del tree[source]
        elif tree and draw.random() < 0.2:
            del tree[draw.choice(sorted(tree))]
        else:
            tree[path] = draw.choice(modes), draw.choice(contents)


def write_tree(repo: GitObjects, tree: dict[bytes, tuple[bytes, bytes]]) -> str:
    """Write the trees of files: mode and content by path; of gitlinks, the oid."""
    entries: dict[bytes, tuple[bytes, bytes, str]] = {}
    below: dict[bytes, dict[bytes, tuple[bytes, bytes]]] = {}
    for path, (mode, content) in tree.items():
        head, slash, rest = path.partition(b"/")
        if slash:
            below.setdefault(head, {})[rest] = mode, content
        else:
            is_link = mode == GITLINK
            oid = (
                content.decode()
                if is_link
                else write_object(repo.path, "blob", content)
            )
            entries[path] = mode, path, oid
    for name, inner in below.items():
        entries[name + b"/"] = b"40000", name, write_tree(repo, inner)
    return repo.tree(*(entries[name] for name in sorted(entries)))
