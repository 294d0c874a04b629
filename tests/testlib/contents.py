"""Every file of every changeset on both sides: what Mercurial has, and what git has.

Owns how they are asked; what may differ is for the caller to say. Mercurial is asked
without amalgam's help: `hg files` and `hg cat`.
"""

from __future__ import annotations

from .environment import captured
from .exported import Exported

#: Path to mode and content.
Files = dict[str, tuple[str, bytes]]

_MODES = {"": "100644", "x": "100755", "l": "120000"}


def of_hg(store: Exported, rev: str) -> Files:
    """The files of a changeset as Mercurial has them."""
    listing = store.run("files", "-r", rev, "-T", "{flags} {path}\\0")
    assert listing.code in (0, 1), listing  # 1: there is none
    entries = (entry.split(" ", 1) for entry in listing.out.decode().split("\0"))
    return {
        entry[1]: (
            _MODES[entry[0]],
            store.server.hg(store.root, "cat", "-r", rev, f"path:{entry[1]}"),
        )
        for entry in entries
        if len(entry) == 2
    }


def of_git(store: Exported, oid: str) -> Files:
    """The files of a commit."""
    listing = store.git("ls-tree", "-r", "-z", oid).split("\0")
    entries = [entry.split("\t", 1) for entry in listing if entry]
    fields = [(path, *head.split()) for head, path in entries]
    asked = "".join(f"{oid}\n" for _path, _mode, _kind, oid in fields)
    done = captured(
        ["git", "cat-file", "--batch"], store.git_dir, input=asked.encode(), check=True
    )
    rest = done.stdout
    files: Files = {}
    for path, mode, kind, _oid in fields:
        head, rest = rest.split(b"\n", 1)
        assert (kind, head.split()[1]) == ("blob", b"blob"), path
        length = int(head.split()[2])
        files[path] = (mode, rest[:length])
        rest = rest[length + 1 :]
    return files


def commits(store: Exported) -> dict[str, str]:
    """Revision to commit, of all changesets."""
    log = store.hg("log", "-r", "all()", "-T", "{rev} {gitnode}\n")
    return dict(line.split() for line in log.splitlines())


def check(store: Exported) -> None:
    """Compare all files of all changesets, and let both sides check their own."""
    oids = commits(store)
    assert oids
    for rev, oid in oids.items():
        assert of_git(store, oid) == of_hg(store, rev), f"revision {rev}"
    check_stores(store)


def check_stores(store: Exported) -> None:
    """Let Mercurial, git and amalgam check what they have."""
    verified = store.run("verify")
    assert verified.code == 0, verified
    git_check = captured(["git", "fsck", "--full", "--strict"], store.git_dir)
    assert git_check.returncode == 0, git_check
    ours = store.run("git::verify", "--full")
    assert ours.code == 0, ours


def blob(store: Exported, rev: str, path: str) -> bytes:
    """One file of the commit of a changeset."""
    return of_git(store, commits(store)[rev])[path][1]


def raw_text(root: Exported, path: str, file_rev: int) -> bytes:
    """A file revision as the store has it."""
    return root.server.hg(root.root, "debugdata", path, str(file_rev))
