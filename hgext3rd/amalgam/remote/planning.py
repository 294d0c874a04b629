"""Which refs of a remote to write, in which order, and how many commits at once.

Compares the ledger with the store, and asks no remote.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..gitstore.git.reffiles import peeled_in
from ..records import Record
from .slices import sliced
from .staging import Change
from .transport import NO_OID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .ledger import Ledger, RefRefusal
    from .source import ReplicaSource
    from .targets import Target

_MOST_BYTES = 1 << 30
"""Hosts refuse more than 2 GB in a push."""


class Options(Record):
    """Wishes for one replication, beside the configuration."""

    only: Callable[[bytes], bool] | None = None
    """Chooses refs of the store by name; ``None`` for all."""
    forced: frozenset[bytes] = frozenset()
    """Refs of the store to write over those of others."""
    prunes: bool = False
    adopts: bool = False
    is_dry: bool = False
    waits: bool = False
    """Whether to wait for another process with the lock."""
    is_asked: bool = True
    """Whether a person asks: refusals are tried again at once."""


class Plan:
    """Decisions on the refs that may differ."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        """Refs to write now."""
        self.kept: list[Change] = []
        """Refs that are gone here, and stay there."""
        self.waiting: list[tuple[Change, RefRefusal]] = []
        """Refused refs that are not tried now."""
        self.clashing: list[tuple[Change, list[bytes]]] = []
        """Refs that several refs of the store would be, with these."""
        self.forgotten: list[bytes] = []
        """Refs whose refusals are void."""
        self.unreadable: set[bytes] = set()
        """Oids at the remote that the store does not have any more."""


class Planner:
    """Plans for one remote, as its ledger changes."""

    def __init__(
        self, target: Target, source: ReplicaSource, ledger: Ledger, options: Options
    ) -> None:
        self._target = target
        self._source = source
        self._options = options
        self._git = source.repository.git
        self.ledger = ledger
        self.leases: dict[bytes, bytes] = {}
        """Oids that somebody else wrote, of refs that are forced."""
        self.tried: set[bytes] = set()
        """Refs that the remote has refused in this run."""
        self.commits = 0
        """Commits that the last steps send, if they are too many for one push."""

    def all_wanted(self) -> dict[bytes, bytes]:
        """Return all refs that the remote should have."""
        target = self._target.map.target
        return {
            ref: oid
            for name, oid in self._source.refs.table().items()
            if (ref := target(name))
        }

    def wanted(self, ref: bytes) -> bytes:
        """Return the oid that a ref of the remote should have, or ``NO_OID``."""
        found = map(self._source.refs.get, self._target.map.sources(ref))
        return next(filter(None, found), NO_OID)

    def _clash(self, ref: bytes) -> list[bytes]:
        """Return the refs of the store that would be ``ref``, if several would."""
        if self._target.map.is_plain:
            return []
        names = {*self._target.map.sources(ref)}
        names = {name for name in names if self._source.refs.get(name)}
        return sorted(names) if len(names) > 1 else []

    def _candidates(self) -> set[bytes]:
        """Return the refs of the remote that may differ from the store."""
        ledger, mapping = self.ledger, self._target.map
        if ledger.map.text == mapping.text:
            names = self._source.refs.differing(ledger.base)
            refs = {ref for name in names if (ref := mapping.target(name))}
            refs |= ledger.has.keys() | ledger.refused.keys()
        else:
            refs = self.all_wanted().keys() | ledger.all_known().keys()
            refs |= ledger.refused.keys()
        refs |= self.leases.keys()
        if self._options.only is None:
            return refs
        sources = mapping.sources
        return {ref for ref in refs if any(map(self._options.only, sources(ref)))}

    def plan(self) -> Plan:
        """Decide on each ref that may differ."""
        plan = Plan()
        gone: list[Change] = []
        now = time.time()
        for ref in sorted(self._candidates()):
            new, old = self.wanted(ref), self.ledger.known(ref)
            if ref in self.leases:
                old = self.leases[ref]
            refusal = self.ledger.refused.get(ref)
            change = Change(ref, old, new)
            clash = self._clash(ref)
            if clash and ref not in self.tried:
                plan.clashing.append((change, clash))
            elif new == old and not clash:
                if refusal:
                    plan.forgotten.append(ref)
            elif refusal and not self._is_tried_again(ref, refusal, new, now):
                plan.waiting.append((change, refusal))
            elif new == NO_OID:
                gone.append(change)
            else:
                plan.changes.append(change)
        old_oids = [it.old for it in gone] + [it.old for it, _refusal in plan.waiting]
        plan.unreadable.update(self._unread(old_oids))
        prunes = self._options.prunes or self._target.config.prune
        for change in gone:
            if prunes or change.old in plan.unreadable:
                plan.changes.append(change)
            else:
                plan.kept.append(change)
        return plan

    def _is_tried_again(
        self, ref: bytes, refusal: RefRefusal, new: bytes, now: float
    ) -> bool:
        if ref in self.tried:
            return False
        is_asked = self._options.is_asked or ref in self.leases
        return is_asked or refusal.wanted != new or refusal.is_due(now)

    def _unread(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return those of ``oids`` that are not in the store any more."""
        asked = sorted({*oids} - {NO_OID})
        if not asked:
            return set()
        listing = b"".join(b"%s\n" % oid for oid in asked)
        done = self._git.run("cat-file", "--batch-check", input=listing)
        answers = done.stdout.splitlines()
        return {
            oid
            for oid, answer in zip(asked, answers, strict=True)
            if answer.endswith(b" missing")
        }

    def most_commits(self) -> int:
        """Return how many commits may be pushed at once."""
        most = self._target.config.most_commits
        return min(most, self.ledger.most_commits or most)

    def steps(self, moved: dict[bytes, bytes]) -> Iterator[dict[bytes, bytes]]:
        """Yield refs to write one after another, so that no push is too large."""
        self.commits = 0
        if not moved:
            return
        most = self.most_commits()
        most = min(most, self._most_by_size(most))
        olds = {self.ledger.known(ref) for ref in moved} - {NO_OID}
        count = ("--count", f"--max-count={most + 1}")
        self.commits = int(self._rev_list(count, moved.values(), olds) or 0)
        if self.commits > most:
            olds = {*self.ledger.all_known().values()}
            args = ("--topo-order", "--reverse", "--parents")
            listed = self._rev_list(args, moved.values(), olds).splitlines()
            self.commits = len(listed)
            if self.commits > most:
                commits = (line.split(b" ") for line in listed)
                peeled = peeled_in(self._source.refs.lines)
                yield from sliced(commits, moved, most, peeled)
                return
        yield moved

    def _rev_list(
        self, args: Iterable[str], new: Iterable[bytes], old: Iterable[bytes]
    ) -> bytes:
        lines = [*(b"%s\n" % oid for oid in new), *(b"^%s\n" % oid for oid in old)]
        asked = ("rev-list", "--ignore-missing", *args, "--stdin")
        return self._git.run(*asked, input=b"".join(lines)).stdout

    def _most_by_size(self, most: int) -> int:
        """Return how many commits have ``_MOST_BYTES``, by their mean size."""
        packs = self._source.repository.packs()
        size = sum(map(self._source.repository.pack_bytes, packs))
        if size <= _MOST_BYTES:
            return most
        commits = int(self._rev_list(("--count",), self.all_wanted().values(), ()))
        return max(1, commits * _MOST_BYTES // size)


def ordered(
    changes: Sequence[Change],
) -> tuple[list[bytes], dict[bytes, bytes], list[bytes]]:
    """Return refs to delete first, those to write with their oids, and the rest.

    A name that is a directory of a new one, or below it, has to go first.
    """
    deleted = [it.ref for it in changes if it.new == NO_OID]
    moved = {it.ref: it.new for it in changes if it.new != NO_OID}
    directories = {it for ref in moved for it in _directories(ref)}
    first: list[bytes] = []
    last: list[bytes] = []
    for ref in deleted:
        is_first = ref in directories or any(it in moved for it in _directories(ref))
        (first if is_first else last).append(ref)
    return first, moved, last


def _directories(ref: bytes) -> Iterator[bytes]:
    parts = ref.split(b"/")
    return (b"/".join(parts[:count]) for count in range(3, len(parts)))
