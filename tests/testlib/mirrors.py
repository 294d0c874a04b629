"""Mirrors: git repositories of the same history, with other commits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from .environment import captured, git, hg
from .small import STORE

#: Changes the content of a commit.
Change = Callable[[bytes], bytes]


def by_another(content: bytes) -> bytes:
    """Let somebody else be author and committer, and end the text with a line feed."""
    return content.replace(b" <> ", b" <mapped@example.org> ", 2) + b"\n"


def ids(repo: Path) -> dict[str, str]:
    """Return the commits of changesets that have one."""
    log = hg(repo, "log", "-r", "all()", "-T", "{node} {gitnode}\n").decode()
    return dict(line.split(" ") for line in log.splitlines() if line[-1] != " ")


def write_object(store: Path, kind: str, content: bytes) -> str:
    """Add an object to a git repository."""
    done = captured(
        ["git", "hash-object", "-t", kind, "-w", "--stdin", "--literally"],
        store,
        input=content,
        check=True,
    )
    return done.stdout.decode().strip()


def make(repo: Path, path: Path, change: Change = by_another) -> dict[str, str]:
    """Make a bare mirror of ``repo`` at ``path``; return its commits by changesets."""
    copy = path.with_name(f"{path.name}-source")
    shutil.copytree(repo, copy, symlinks=True)
    shutil.rmtree(copy / ".hg/amalgam", ignore_errors=True)
    hg(copy, "git::export")
    original = ids(copy)
    git(path.parent, "clone", "-q", "--mirror", str(copy / STORE), str(path))
    for ref in git(path, "for-each-ref", "--format=%(refname)").decode().split():
        git(path, "update-ref", "-d", ref)
    made: dict[str, str] = {}
    nodes = hg(copy, "log", "-r", "sort(all())", "-T", "{node}\n").decode().split()
    for node in filter(original.__contains__, nodes):
        content = git(path, "cat-file", "commit", original[node])
        for other, oid in made.items():
            old = b"parent %s\n" % original[other].encode()
            content = content.replace(old, b"parent %s\n" % oid.encode())
        made[node] = write_object(path, "commit", change(content))
        git(path, "update-ref", f"refs/heads/{node[:12]}", made[node])
    shutil.rmtree(copy)
    return made


def write_map(path: Path, commits: dict[str, str]) -> Path:
    """Write a file for --map."""
    path.write_text("".join(f"{node} {oid}\n" for node, oid in commits.items()))
    return path


def without_tags(store: Path) -> Change:
    """Change commits as hg-fast-export would: ``.hgtags`` is left out."""

    def change(content: bytes) -> bytes:
        tree = content[5:45].decode()
        lines = git(store, "ls-tree", "-z", tree).split(b"\0")
        kept = [line for line in lines if line and not line.endswith(b"\t.hgtags")]
        made = captured(
            ["git", "mktree", "-z"],
            store,
            input=b"".join(line + b"\0" for line in kept),
            check=True,
        )
        return by_another(b"tree " + made.stdout.strip() + content[45:])

    return change


def write_marks(store: Path, repo: Path, commits: dict[str, str]) -> None:
    """Write the files that hg-fast-export leaves in its repository."""
    log = hg(repo, "log", "--hidden", "-r", "all()", "-T", "{rev} {node}\n").decode()
    revs = [line.split() for line in log.splitlines()]
    mapping = "".join(f":{node} {rev}\n" for rev, node in revs)
    (store / "hg2git-mapping").write_text(mapping)
    marks = [
        f":{int(rev) + 1} {commits[node]}\n" for rev, node in revs if node in commits
    ]
    (store / "hg2git-marks").write_text("".join(marks))
