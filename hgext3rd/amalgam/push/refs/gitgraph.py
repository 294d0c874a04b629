"""Questions to git about the commits of a push: what they are, and what leads to them.

Each is one process, however many commits it is about. Oids are in hex. Knows nothing of
Mercurial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ...gitstore.git.gitprocess import Git

_PARENTS_FIRST = ("--topo-order", "--reverse", "--parents")


class GitGraph:
    """The objects that a push has brought, and those that were there."""

    def __init__(self, git: Git) -> None:
        """``git`` is for the repository that the push was received into."""
        self._git = git

    def kinds(self, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the type of each object that is there."""
        args = ("cat-file", "--batch-check=%(objectname) %(objecttype)")
        lines = self._git.run(*args, input=_lines(oids)).stdout.splitlines()
        found = [line.split(b" ") for line in lines]
        return {oid: kind for oid, kind in found if kind != b"missing"}

    def is_below(self, oid: bytes, tip: bytes) -> bool:
        """Tell whether a commit is ``tip`` or an ancestor of it."""
        args = ("merge-base", "--is-ancestor", oid.decode(), tip.decode())
        return not self._git.run(*args, check=False).returncode

    def first_outside(self, oid: bytes, new: Collection[bytes]) -> bytes | None:
        """Return the first commit that is not ``new`` on the way of first parents."""
        args = ("rev-list", "--first-parent", f"--max-count={len(new) + 1}")
        listed = self._git.run(*args, oid.decode()).stdout.split()
        return next((it for it in listed if it not in new), None)

    def left_out(self, oids: Collection[bytes], tips: Iterable[bytes]) -> set[bytes]:
        """Return the commits that are not among the ancestors of ``tips``."""
        if not oids:
            return set()
        asked = [*sorted(oids), *(b"^" + tip for tip in tips)]
        listed = self._git.run("rev-list", "--stdin", input=_lines(asked)).stdout
        return {*oids}.intersection(listed.split())

    def parents(self, oids: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        """Return the parents of each commit."""
        args = ("rev-list", "--no-walk=unsorted", "--parents", "--stdin")
        listed = self._git.run(*args, input=_lines(oids)).stdout.splitlines()
        return {oid: its for oid, *its in map(bytes.split, listed)}

    def leading_to(
        self, oids: Iterable[bytes], tips: Iterable[bytes]
    ) -> dict[bytes, bytes]:
        """Return which of ``tips`` lead to new commits ``oids``, each with one."""
        found = {oid: oid for oid in oids}
        tips = {*tips}
        args = ("rev-list", *_PARENTS_FIRST, "--stdin", "--not", "--all")
        listed = self._git.run(*args, input=_lines(tips)).stdout
        for oid, *parents in map(bytes.split, listed.splitlines()):
            for parent in parents:
                if parent in found:
                    found.setdefault(oid, found[parent])
        return {tip: found[tip] for tip in tips if tip in found}


def _lines(oids: Iterable[bytes]) -> bytes:
    return b"".join(b"%s\n" % oid for oid in oids)
