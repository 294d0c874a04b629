"""Notes of a git remote: a history whose trees name the noted commits.

A ref of notes is a ref of the store if it has never had a note on a commit that is here
and is not exported (docs/decisions/git-remotes.rst).
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from mercurial.i18n import _
from mercurial.node import bin as bin_id, hex as hex_id

from .git.layout import PACKS
from .imported import ImportedCommits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set as AbstractSet

    from .docket import Docket
    from .git.process import Git
    from .store import GitStore

_MOST_COMMITS = 10_000  # of a history: all of them are read
_NOTED = re.compile(rb"[0-9a-f]{40}")


class Notes:
    """A ref of notes: its objects, and those that had a note at any time."""

    def __init__(
        self,
        reason: bytes,
        commits: Sequence[bytes] = (),
        objects: AbstractSet[bytes] = frozenset(),
        noted: AbstractSet[bytes] = frozenset(),
    ) -> None:
        self._reason = reason
        self._commits = commits
        self.objects = objects
        """Commits, trees and contents, in hex."""
        self._noted = sorted(noted)
        self.changesets: set[bytes] = set()
        """Those with notes, if all may leave."""
        self.awaited: set[bytes] = set()
        """Those with notes that may not leave."""

    @classmethod
    def read(cls, git: Git, oid: bytes) -> Notes | None:
        """Read the whole history; ``None`` if an object of it is lost."""
        if not (git.directory and git.directory.exists(PACKS)):
            return None
        limit = f"--max-count={_MOST_COMMITS + 1}"
        listed = git.run("rev-list", limit, oid, check=False)
        commits = listed.stdout.splitlines()
        if listed.returncode:
            return None
        if len(commits) > _MOST_COMMITS:
            return cls(_(b"its history is too long"))
        found = git.run("rev-list", "--objects", oid, check=False)
        if found.returncode:
            return None
        objects = {line[:40] for line in found.stdout.splitlines()}
        if _absent(git, objects):
            return None
        # each path is in the first commit that has it, and in its difference
        options = (
            "-m",
            "--root",
            "-r",
            "--no-commit-id",
            "--no-renames",
            "--name-only",
        )
        changed = git.run("diff-tree", "--stdin", *options, input=listed.stdout).stdout
        noted = {line.replace(b"/", b"") for line in changed.splitlines()}
        if commits[:1] != [oid] or not all(map(_NOTED.fullmatch, noted)):
            return cls(_(b"it has other files than notes"))
        return cls(b"", commits, objects, noted)

    def layer(
        self,
        store: GitStore,
        docket: Docket,
        git: Git,
        is_served: Callable[[bytes], bool],
    ) -> tuple[bytes, bool]:
        """Return the reason to leave them out, if any, and whether all is in the base.

        Ids that were never here tell nothing about this repository.
        """
        if self._reason:
            return self._reason, False
        ids = [bin_id(it) for it in self._noted]
        with (
            contextlib.closing(store.open_map(docket)) as oidmap,
            contextlib.closing(store.maps.open(docket.base.segments)) as base,
        ):
            nodes = oidmap.changesets(ids)
            exported = {node for node in nodes if node}
            is_base = all(base.has([*exported]))
        rest = {hex_id(oid) for oid, it in zip(ids, nodes, strict=True) if not it}
        pulled = rest - _absent(git, rest)
        with contextlib.closing(ImportedCommits(store.repo, store)) as imported:
            became = imported.changesets([bin_id(it) for it in pulled])
            if any(imported.changesets([bin_id(it) for it in self._commits])):
                return _(b"it has commits that are changesets"), False
        hidden = {it for it in (*exported, *filter(None, became)) if not is_served(it)}
        if hidden or pulled:
            self.awaited = hidden
            return _(b"a commit with notes is not exported"), False
        self.changesets = exported
        return b"", is_base


def _absent(git: Git, oids: AbstractSet[bytes]) -> set[bytes]:
    """Return those of ``oids`` whose objects were not fetched."""
    asked = b"".join(b"%s\n" % oid for oid in oids)
    args = ("cat-file", "--batch-check=%(objectname)", "--buffer")
    lines = git.run(*args, input=asked).stdout.splitlines()
    return {line.partition(b" ")[0] for line in lines if line.endswith(b" missing")}
