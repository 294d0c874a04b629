"""What a server shows of a history that changes, as ids of git objects.

The ids are calculated here from what each changeset says, without amalgam. So the ids
of what was never served are known, too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import time
from collections.abc import Collection, Iterable, Iterator

_NULL = "0" * 40
#: For ``hg log``: what ``Objects.learn`` reads.
TEMPLATE = "{node} {p1node} {desc} {join(file_adds, ',')} {join(file_dels, ',')}\n"


def text_of(word: str) -> str:
    """Return the text of the file that a changeset adds."""
    return f"{word}text\n" * 9


@dataclasses.dataclass(frozen=True)
class Planted:
    """A changeset that adds one file, which its description names."""

    node: str
    parent: str
    word: str
    removed: str
    """The file that it removes, if any."""


@dataclasses.dataclass(frozen=True)
class GitIds:
    """The objects that only one changeset brings."""

    commit: str
    tree: str
    blob: str
    """The text of its file; empty if that is censored."""

    @property
    def all(self) -> set[str]:
        """All of them."""
        return {self.commit, self.tree, self.blob} - {""}


class Objects:
    """The git objects of planted changesets, which stand on one of a base."""

    def __init__(self, base: str, commit: str, tree: bytes) -> None:
        """``base``: a node, in git ``commit``; ``tree``: its tree as git stores it."""
        self._base = {base: (commit, dict(_entries(tree))), _NULL: ("", {})}
        self._planted: dict[str, Planted] = {}

    def learn(self, log: str) -> None:
        """Note changesets, parents first."""
        for line in log.splitlines():
            node, parent, word, added, removed = line.split(" ")
            assert added == word, line
            self._planted.setdefault(node, Planted(node, parent, word, removed))

    def ids(self, censored: Collection[str]) -> dict[str, GitIds]:
        """Return the ids of all by node, if the files ``censored`` are empty."""
        known = dict(self._base)
        found = {}
        for one in self._planted.values():
            parent, entries = known[one.parent]
            word, text = one.word.encode(), text_of(one.word).encode()
            if one.word in censored:
                text = b""
            blob = _oid(b"blob", text)
            entries = entries | {word: b"100644 %s\0%s" % (word, bytes.fromhex(blob))}
            entries.pop(one.removed.encode(), None)
            tree = _oid(b"tree", b"".join(entries[key] for key in sorted(entries)))
            lines = [f"tree {tree}"]
            lines += [f"parent {parent}"] if parent else []
            lines += [
                f"{role} {one.word} <> 0 +0000" for role in ("author", "committer")
            ]
            commit = _oid(b"commit", "\n".join([*lines, "", one.word]).encode())
            known[one.node] = commit, entries
            found[one.node] = GitIds(commit, tree, blob if text else "")
        return found


def _oid(kind: bytes, content: bytes) -> str:
    return hashlib.sha1(b"%s %d\0%s" % (kind, len(content), content)).hexdigest()


def _entries(tree: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a tree by what git sorts them by."""
    while tree:
        mode, _space, rest = tree.partition(b" ")
        name, _nul, rest = rest.partition(b"\0")
        is_tree = mode == b"40000"
        yield name + b"/" * is_tree, b"%s %s\0%s" % (mode, name, rest[:20])
        tree = rest[20:]


@dataclasses.dataclass(frozen=True)
class State:
    """What is served from the end of one change to the end of the next."""

    change: str
    began: float
    """When the change began that led to it."""
    ended: float
    commits: frozenset[str]
    """What was planted and is in a whole clone."""
    hidden: frozenset[str]
    """The ids of all planted objects that may not be read."""


class Timeline:
    """All states since the beginning; one thread adds, others read."""

    def __init__(self) -> None:
        self._states: list[State] = []
        self._learned: set[str] = set()
        self.in_progress: tuple[str, float] | None = None

    @property
    def last(self) -> State:
        """The state that is, unless a change is in progress."""
        return self._states[-1]

    def begin(self, change: str) -> None:
        """Note that a change begins."""
        self.in_progress = change, time.monotonic()

    def end(
        self,
        ids: Iterable[GitIds],
        served: Iterable[GitIds],
        named: Iterable[GitIds],
    ) -> None:
        """Note that it has ended, and what there is now.

        ``served`` may be read of it. Refs lead to ``named``.
        """
        assert self.in_progress
        change, began = self.in_progress
        readable = set[str]()
        for one in ids:
            self._learned |= one.all
        for one in served:
            readable |= one.all
        commits = frozenset(one.commit for one in named)
        hidden = frozenset(self._learned - readable)
        state = State(change, began, time.monotonic(), commits, hidden)
        self._states.append(state)
        self.in_progress = None

    def wait(self, moment: float) -> None:
        """Wait for the end of the change that is in progress, if it began before."""
        while (current := self.in_progress) and current[1] <= moment:
            time.sleep(0.05)

    def during(self, began: float, ended: float) -> list[State]:
        """Return the states that there were between two moments."""
        self.wait(ended)
        states = [*self._states]
        ends = [state.ended for state in states[1:]] + [float("inf")]
        return [
            state
            for state, end in zip(states, ends, strict=True)
            if state.began <= ended and end >= began
        ]

    def explains(
        self, commits: frozenset[str], began: float, ended: float, *, whole: bool
    ) -> bool:
        """Tell whether a clone may have ``commits`` that was made between two moments.

        ``whole``: it has all that there was.
        """
        states = self.during(began, ended)
        for before, state in zip([None, *states], states, strict=False):
            if commits == state.commits or (not whole and commits <= state.commits):
                return True
            # others that were added later are gone until a strip ends
            if before and state.change == "strip" and commits <= before.commits:
                return True
        return False

    def hidden_during(self, began: float, ended: float) -> frozenset[str]:
        """Return what was hidden all the time between two moments."""
        return frozenset.intersection(
            *(state.hidden for state in self.during(began, ended))
        )

    def withdrawn_during(self, began: float, ended: float) -> frozenset[str]:
        """Return the commits that stopped being served, be it for a while."""
        states = self.during(began, ended)
        found = set[str]()
        for before, after in itertools.pairwise(states):
            # others that were added later are gone until a strip ends
            is_strip = after.change == "strip"
            found |= before.commits if is_strip else before.commits & after.hidden
        return frozenset(found)
