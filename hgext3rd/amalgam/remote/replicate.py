"""One replication: bring the refs of a git remote up to date with the git store.

Only refs that differ from the ledger are pushed, each with a lease on the oid that the
ledger has. So a remote is never asked without need, and a wrong ledger leads to a
refusal, not to a loss. Refs that somebody else wrote are never moved or deleted, unless
somebody names them (``force``).

A ``Replication`` needs no Mercurial repository: several run at the same time, each in a
thread of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import time
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..gitstore import failures
from ..gitstore.export.request import take_exporter_lock
from ..gitstore.failures import Failure
from ..gitstore.git.refs import HEADS, TAGS
from ..records import Choice, Record
from ..terminal import counted, printable
from .ledger import Ledger, LedgerLostError, RefRefusal, read_only
from .slices import sliced
from .staging import Change, staged
from .storerefs import StoreRefs
from .transport import NO_OID, Answer, FailureKind, RemoteFailureError, Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from ..config import ReplicaConfig
    from ..files import Directory, Placement
    from ..gitstore.git.process import Access
    from ..gitstore.git.repository import Repository
    from .refmap import RefMap
    from .urls import RemoteUrl

FAILURE = b"failure"
"""The file that says why the remote did not answer the last time."""
_MOST_REFS = 5000
_MOST_DELETED = 500
"""Refs of one push. Deletions are arguments of git."""
_MOST_HALVINGS = 64
"""Pushes to find the refs for which a hook declines all; the others wait."""
_MOST_BYTES = 1 << 30
"""Hosts refuse more than 2 GB in a push."""
_MOST_SHOWN = 100
"""Refs that fit a command line, for a remote that hides others."""
_MOST_IN_VAIN = 24
"""As many if the remote has not taken a single one meanwhile."""
_ROUNDS = 20
_TRIES = 20
_LONGEST_WAIT_SECONDS = 300
_LOGIN_WAIT_SECONDS = 3600
_WAIT_FOR_LOCK_SECONDS = 0.2


class Action(Choice):
    """Result for a ref. Values are for JSON."""

    CREATED = "created"
    MOVED = "moved"
    FORCED = "forced"
    """Moved to a commit that is no descendant."""
    DELETED = "deleted"
    REFUSED = "refused"
    KEPT = "kept"
    """Gone here, and not there: ``prune`` would delete it."""
    DIFFERENT = "different"
    """Of a comparison."""


class Outcome(Record):
    """Result for one ref of the remote."""

    ref: bytes
    action: Action
    old: bytes
    new: bytes
    reason: bytes = b""
    kind: FailureKind | None = None
    is_unreadable: bool = False
    """Whether the remote still has a commit that nobody may read any more."""


class Status(Choice):
    """Result of a replication. Values are for JSON; the order is of exit codes."""

    EQUAL = "equal"
    REFUSED = "refused"
    """Some refs were refused."""
    FAILED = "failed"
    """Nothing could be done, or it was not finished."""
    BUSY = "busy"
    """Another process replicates to this remote."""


EXIT_CODES = {
    Status.EQUAL: 0,
    Status.REFUSED: 1,
    Status.FAILED: 2,
    Status.BUSY: 3,
}


class Result(Record):
    """Result of a replication."""

    status: Status
    outcomes: tuple[Outcome, ...] = ()
    pushes: int = 0
    failure: RemoteFailureError | None = None
    hint: bytes = b""
    """The next thing to type after a failure."""
    seconds: float = 0.0


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


class Target(Record):
    """A remote, with all that a replication needs to know of it."""

    name: bytes
    """As in the configuration; ``RemoteUrl.key`` for others."""
    remote: RemoteUrl
    config: ReplicaConfig
    map: RefMap
    access: Access
    directory: Directory
    """Of its ledger."""
    placement: Placement


class ReplicaSource(Record):
    """The refs to replicate, read once for all remotes."""

    repository: Repository
    refs: StoreRefs
    names_state: object
    """State of the files that they were read from."""
    files_state: object
    """State of the Mercurial repository that has these refs; None if not known."""
    scratch: bytes
    """A directory for staging repositories."""

    def look(self, target: Target) -> bytes:
        """Return the state that ``Ledger.look`` has if nothing is to do."""
        return look_of(self.names_state, self.files_state, target)

    @classmethod
    def read(
        cls, repository: Repository, files_state: object, scratch: bytes
    ) -> ReplicaSource:
        """Read the refs of ``repository`` as they are at one moment.

        ``StateError`` if they keep changing.
        """
        for _try in range(_TRIES):
            state = repository.names_state()
            refs = StoreRefs(repository.packed_refs())
            if repository.names_state() == state:
                return cls(repository, refs, state, files_state, scratch)
        raise error.StateError(
            _(b"refs kept changing while they were read"),
            hint=_(b"run 'hg git::push' again"),
        )


def look_of(names_state: object, files_state: object, target: Target) -> bytes:
    """Return a digest of names and configuration, and one of the repository's files."""
    names = (names_state, target.map.text, target.config.prune)
    digests = (
        hashlib.sha1(repr(it).encode()).hexdigest().encode()
        for it in (names, files_state)
    )
    return b"-".join(digests)


def is_settled(target: Target, look: bytes, *, is_exact: bool = True) -> bool:
    """Return whether nothing is to do, and no ref is refused.

    Without ``is_exact``, only names have to be the same.
    """
    ledger = read_only(target.directory, target.placement)
    if ledger is None or ledger.intents or ledger.refused:
        return False
    if Ledger.url(target.directory) != target.remote.url:
        return False
    if is_exact:
        return ledger.look == look
    return ledger.look.partition(b"-")[0] == look.partition(b"-")[0]


class _ForeignError(Exception):
    """The remote has refs that we did not write."""

    def __init__(self, refs: Sequence[bytes]) -> None:
        super().__init__()
        self.refs = refs


class Replication:
    """One replication to one remote."""

    def __init__(
        self,
        target: Target,
        source: ReplicaSource,
        options: Options,
        progress: Callable[[bytes, int, int], None] | None = None,
    ) -> None:
        self._target = target
        self._source = source
        self._options = options
        self._git = source.repository.git
        self._transport = Transport(
            self._git,
            target.remote,
            target.access,
            target.config.quiet_seconds,
            progress,
        )
        self._ledger = Ledger(target.directory, target.placement)
        self._outcomes: dict[bytes, Outcome] = {}
        self._pushes = 0
        self._written = 0
        self._listed: dict[bytes, bytes] | None = None
        self._leases: dict[bytes, bytes] = {}
        """Oids that somebody else wrote, of refs that are forced."""
        self._tried: set[bytes] = set()
        """Refs that the remote has refused in this run."""
        self._commits = 0
        """Commits that the last plan sends, if they are too many for one push."""
        self._unreadable: set[bytes] = set()
        self._earlier: dict[bytes, list[bytes]] = {}
        """Intents of processes that died, whose git may still be at work."""
        self._pushed: dict[bytes, Change] = {}
        """The last change of each ref that this run has sent."""

    def run(self) -> Result:
        """Replicate; takes the lock of the remote."""
        started = time.monotonic()
        if self._options.is_dry:
            return self._replicate()
        directory, placement = self._target.directory, self._target.placement
        lock = take_exporter_lock(directory, placement)
        while lock is None and self._options.waits:
            time.sleep(_WAIT_FOR_LOCK_SECONDS)
            lock = take_exporter_lock(directory, placement)
        if lock is None:
            return Result(Status.BUSY)
        try:
            result = self._replicate()
        finally:
            self._ledger.close()
            os.close(lock)
        return result._replace(pushes=self._pushes, seconds=time.monotonic() - started)

    def compare(self) -> Result:
        """Compare the remote with the store; write nothing."""
        with contextlib.suppress(LedgerLostError):
            self._ledger.read()
        try:
            there = self._asked()
        except RemoteFailureError as exc:
            return Result(Status.FAILED, failure=exc)
        wanted = self._all_wanted()
        written = self._ledger.all_known().keys()
        names = {ref for ref, oid in wanted.items() if oid != there.get(ref, NO_OID)}
        names |= {ref for ref in written - wanted.keys() if ref in there}
        outcomes = (
            Outcome(
                ref,
                Action.DIFFERENT,
                there.get(ref, NO_OID),
                wanted.get(ref, NO_OID),
                self._reason(ref),
            )
            for ref in sorted(names)
        )
        return Result(Status.REFUSED if names else Status.EQUAL, tuple(outcomes))

    def _reason(self, ref: bytes) -> bytes:
        refusal = self._ledger.refused.get(ref)
        return refusal.reason if refusal else b""

    def _replicate(self) -> Result:
        failure: RemoteFailureError | None = None
        hint = b""
        try:
            self._open()
            self._push_everything()
        except _ForeignError as exc:
            shown = b", ".join(map(printable, exc.refs[:3]))
            more = b", ..." if len(exc.refs) > 3 else b""
            text = _(b"the remote has %s that this repository did not write: %s%s")
            text %= (counted(len(exc.refs), b"ref"), shown, more)
            failure = RemoteFailureError(FailureKind.MOVED, text)
            target = self._target
            is_named = target.name != target.remote.key
            hint = _(
                b"run 'hg git::push --adopt %s' to take over those that are equal or "
                b"behind, if nobody else writes them"
            ) % (target.name if is_named else target.remote.shown)
        except RemoteFailureError as exc:
            failure = exc
        outcomes = tuple(self._outcomes[ref] for ref in sorted(self._outcomes))
        if failure is not None:
            if not self._options.is_dry:
                self._note_failure(failure)
            return Result(Status.FAILED, outcomes, failure=failure, hint=hint)
        is_refused = any(it.action is Action.REFUSED for it in outcomes)
        return Result(Status.REFUSED if is_refused else Status.EQUAL, outcomes)

    def _note_failure(self, failure: RemoteFailureError) -> None:
        """Note a failure of the remote as a whole, and when to try again."""
        directory, placement = self._target.directory, self._target.placement
        before = Failure.read(directory, FAILURE)
        tries = 1 + (before.attempts if before else 0)
        retry = _next_try(failure.kind, tries)
        it = Failure(failures.short(failure.reason), tries, retry)
        it.write(directory, FAILURE, placement)

    def _open(self) -> None:
        """Read the ledger; without one, compare the remote with the store."""
        directory, url = self._target.directory, self._target.remote.url
        is_known = Ledger.url(directory) == url
        is_read = False
        if is_known:
            with contextlib.suppress(LedgerLostError):
                self._ledger.read()
                is_read = True
        if not is_read:
            self._meet(url, is_known=is_known)
        elif self._options.adopts:
            ours = self._ours(self._there())
            if self._options.is_dry:
                self._ledger.has.update(ours)
            else:
                self._ledger.wrote(ours.items())
        if self._options.forced:
            there = self._there()
            for name in self._options.forced:
                ref = self._target.map.target(name)
                oid = there.get(ref, NO_OID)
                if oid != self._wanted(ref):
                    self._leases[ref] = oid
                elif not self._options.is_dry:
                    self._ledger.wrote([(ref, oid)])
        self._settle()

    def _meet(self, url: bytes, *, is_known: bool) -> None:
        """Begin a ledger, for a new remote or one whose ledger is lost."""
        there = {
            ref: oid
            for ref, oid in self._there().items()
            if self._target.map.covers(ref)
        }
        if there and not (self._options.adopts or is_known):
            raise _ForeignError(sorted(there))
        self._ledger = Ledger(self._target.directory, self._target.placement)
        ours = self._ours(there)
        if self._options.is_dry:
            self._ledger.has.update(ours)
        else:
            self._ledger.begin(url, self._target.map, ours)

    def _ours(self, there: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Return the refs of the remote that are equal to ours or behind."""
        wanted = self._all_wanted()
        found = {}
        for ref, oid in there.items():
            new = wanted.get(ref)
            if new is None or self._ledger.known(ref) == oid:
                continue
            if new == oid or self._is_below(oid, new):
                found[ref] = oid
        return found

    def _is_below(self, oid: bytes, new: bytes) -> bool:
        done = self._git.run("merge-base", "--is-ancestor", oid, new, check=False)
        return done.returncode == 0

    def _there(self) -> dict[bytes, bytes]:
        """Ask the remote for its refs, once."""
        if self._listed is None:
            self._listed = self._asked()
        return self._listed

    def _asked(self, refs: Collection[bytes] = ()) -> dict[bytes, bytes]:
        """Ask the remote for ``refs``, or for all that may be ours, and maybe more."""
        ledger = self._ledger
        names = refs or [*ledger.has, *ledger.intents, *ledger.refused]
        is_usual = all(name.startswith((HEADS, TAGS)) for name in names)
        if not refs:
            is_usual &= self._target.map.is_usual and ledger.map.is_usual
        hides = self._target.config.hides_refs and len(refs) <= _MOST_SHOWN
        return self._transport.refs(is_usual=is_usual, shown=refs if hides else ())

    def _settle(self) -> None:
        """Ask the remote which of the intents without an answer it has carried out."""
        if not self._ledger.intents or self._options.is_dry:
            return
        intents = self._ledger.intents
        there = self._asked(intents.keys())
        self._earlier.update((ref, [*oids]) for ref, oids in intents.items())
        written, foreign = [], []
        for ref, oids in intents.items():
            oid = there.get(ref, NO_OID)
            if oid in oids or oid == self._ledger.known(ref):
                written.append((ref, oid))
                change = self._pushed.get(ref)
                if change and oid == change.new:
                    self._note(change, _action(change))
            else:
                foreign.append((ref, self._refusal(ref, _moved(oid))))
        self._tried |= {ref for ref, _it in foreign} - self._leases.keys()
        self._ledger.saw(written)
        self._ledger.refuse(foreign)

    def _refusal(
        self, ref: bytes, reason: bytes, kind: FailureKind = FailureKind.MOVED
    ) -> RefRefusal:
        before = self._ledger.refused.get(ref)
        tries = 1 + (before.tries if before else 0)
        return RefRefusal(
            self._wanted(ref), kind, tries, _next_try(kind, tries), reason
        )

    def _all_wanted(self) -> dict[bytes, bytes]:
        """Return all refs that the remote should have."""
        target = self._target.map.target
        return {
            ref: oid
            for name, oid in self._source.refs.table().items()
            if (ref := target(name))
        }

    def _wanted(self, ref: bytes) -> bytes:
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
        ledger, mapping = self._ledger, self._target.map
        if ledger.map.text == mapping.text:
            names = self._source.refs.differing(ledger.base)
            refs = {ref for name in names if (ref := mapping.target(name))}
            refs |= ledger.has.keys() | ledger.refused.keys()
        else:
            refs = self._all_wanted().keys() | ledger.all_known().keys()
            refs |= ledger.refused.keys()
        refs |= self._leases.keys()
        if self._options.only is None:
            return refs
        sources = mapping.sources
        return {ref for ref in refs if any(map(self._options.only, sources(ref)))}

    def _plan(self) -> list[Change]:
        """Return the refs to write now."""
        changes, gone, forgotten, waiting = [], [], [], []
        now = time.time()
        for ref in sorted(self._candidates()):
            new, old = self._wanted(ref), self._ledger.known(ref)
            if ref in self._leases:
                old = self._leases[ref]
            refusal = self._ledger.refused.get(ref)
            change = Change(ref, old, new)
            clash = self._clash(ref)
            if clash and ref not in self._tried:
                self._refuse_here(change, _clashing(clash))
            elif new == old and not clash:
                if refusal:
                    forgotten.append(ref)
            elif refusal and not self._is_tried_again(ref, refusal, new, now):
                waiting.append((change, refusal))
            elif new == NO_OID:
                gone.append(change)
            else:
                changes.append(change)
        old_oids = [it.old for it in gone] + [it.old for it, _refusal in waiting]
        self._unreadable = self._unread(old_oids)
        prunes = self._options.prunes or self._target.config.prune
        for change in gone:
            if prunes or change.old in self._unreadable:
                changes.append(change)
            else:
                self._note(change, Action.KEPT)
        for change, refusal in waiting:
            self._note(change, Action.REFUSED, refusal.reason, refusal.kind)
        if not self._options.is_dry:
            self._ledger.forget(forgotten)
        return changes

    def _is_tried_again(
        self, ref: bytes, refusal: RefRefusal, new: bytes, now: float
    ) -> bool:
        if ref in self._tried:
            return False
        is_asked = self._options.is_asked or ref in self._leases
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

    def _note(
        self,
        change: Change,
        action: Action,
        reason: bytes = b"",
        kind: FailureKind | None = None,
    ) -> None:
        """Note the result for a ref."""
        before = self._outcomes.get(change.ref)
        is_done = action not in (Action.REFUSED, Action.KEPT)
        old = before.old if before and is_done else change.old
        if before and before.action is Action.CREATED and action is Action.MOVED:
            action = Action.CREATED
        is_unreadable = not is_done and change.old in self._unreadable
        self._outcomes[change.ref] = Outcome(
            change.ref, action, old, change.new, reason, kind, is_unreadable
        )

    def _refuse_here(self, change: Change, reason: bytes) -> None:
        """Refuse a ref without asking the remote."""
        self._tried.add(change.ref)
        self._note(change, Action.REFUSED, reason, FailureKind.RULE)
        if not self._options.is_dry:
            refusal = self._refusal(change.ref, reason, FailureKind.RULE)
            self._ledger.refuse([(change.ref, refusal)])

    def _push_everything(self) -> None:
        for _round in range(_ROUNDS):
            changes = self._plan()
            if self._options.is_dry:
                for change in changes:
                    self._note(change, _action(change))
                return
            if not changes:
                break
            try:
                is_too_much = self._push(changes)
            except RemoteFailureError as exc:
                self._settle_after(exc)
                if exc.kind is FailureKind.LIMIT and self._lower():
                    continue
                left = self._plan()
                if left == changes:
                    raise
                continue  # only an answer was lost, or others deleted a ref as well
            is_too_much = is_too_much and self._lower()
            if not (self._explain_moved() or is_too_much):
                break
        if self._options.only is None:
            look = self._source.look(self._target)
            if look != self._ledger.look or self._ledger.since:
                self._ledger.end(look, self._source.refs, self._target.map)
        failures.forget(self._target.directory, FAILURE)

    def _settle_after(self, failure: RemoteFailureError) -> None:
        """Ask the remote after a failure; raise ``failure`` if it does not answer."""
        if failure.kind is FailureKind.LOGIN:
            raise failure
        try:
            self._settle()
        except RemoteFailureError:
            raise failure from None

    def _lower(self) -> bool:
        """Push fewer commits at once from now on; return whether that is possible."""
        most = min(self._most_commits(), self._commits) // 2
        if most < 1:
            return False
        self._ledger.lower(most)
        self._tried.clear()
        return True

    def _most_commits(self) -> int:
        """Return how many commits may be pushed at once."""
        most = self._target.config.most_commits
        return min(most, self._ledger.most_commits or most)

    def _push(self, changes: Sequence[Change]) -> bool:
        """Push; return whether the remote refused commits for their number or size."""
        deleted = [it for it in changes if it.new == NO_OID]
        moved = {it.ref: it.new for it in changes if it.new != NO_OID}
        # a name that is a directory of a new one has to go first
        directories = {it for ref in moved for it in _directories(ref)}
        below = {it for change in deleted for it in _directories(change.ref)}
        first = [
            it
            for it in deleted
            if it.ref in directories or (below and _has_new_above(it.ref, moved))
        ]
        is_too_much = False
        for batch in _batches([it.ref for it in first], _MOST_DELETED):
            is_too_much |= self._write(dict.fromkeys(batch, NO_OID))
        for step in self._steps(moved):
            most_tags = self._target.config.most_tags
            tags = [ref for ref in step if most_tags and ref.startswith(TAGS)]
            others = [ref for ref in step if not (most_tags and ref.startswith(TAGS))]
            for batch in itertools.chain(
                _batches(others, _MOST_REFS), _batches(tags, most_tags or 1)
            ):
                is_too_much |= self._write({ref: step[ref] for ref in batch})
            if is_too_much:
                return True
        last = [it.ref for it in deleted if it not in first]
        for batch in _batches(last, _MOST_DELETED):
            is_too_much |= self._write(dict.fromkeys(batch, NO_OID))
        return is_too_much

    def _steps(self, moved: dict[bytes, bytes]) -> Iterator[dict[bytes, bytes]]:
        """Yield refs to write one after another, so that no push is too large."""
        self._commits = 0
        if not moved:
            return
        most = self._most_commits()
        most = min(most, self._most_by_size(most))
        olds = {self._ledger.known(ref) for ref in moved} - {NO_OID}
        count = ("--count", f"--max-count={most + 1}")
        self._commits = int(self._rev_list(count, moved.values(), olds) or 0)
        if self._commits > most:
            olds = {*self._ledger.all_known().values()}
            args = ("--topo-order", "--reverse", "--parents")
            listed = self._rev_list(args, moved.values(), olds).splitlines()
            self._commits = len(listed)
            if self._commits > most:
                commits = (line.split(b" ") for line in listed)
                yield from sliced(commits, moved, most)
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
        commits = int(self._rev_list(("--count",), self._all_wanted().values(), ()))
        return max(1, commits * _MOST_BYTES // size)

    def _write(self, values: dict[bytes, bytes]) -> bool:
        """Push refs in one go; return whether they were too much for the remote."""
        changes = []
        for ref, new in values.items():
            old = self._leases.get(ref, self._ledger.known(ref))
            if old != new and ref not in self._tried:
                changes.append(Change(ref, old, new))
        halvings = 0
        is_too_much = False
        pending = [changes] if changes else []
        while pending:
            batch = pending.pop()
            # a remote that declines everything is not asked for each ref
            most = _MOST_HALVINGS if self._written else _MOST_IN_VAIN
            may_halve = len(batch) > 1 and halvings < most
            is_declined, too_much = self._push_batch(batch, may_halve=may_halve)
            is_too_much |= too_much
            if is_declined:
                halvings += 1
                middle = len(batch) // 2
                pending += [batch[middle:], batch[:middle]]
        return is_too_much

    def _push_batch(
        self, changes: Sequence[Change], *, may_halve: bool
    ) -> tuple[bool, bool]:
        """Push refs; return whether a hook declined all, and whether it was too much.

        Refs that were declined together are not noted if that ``may_halve``.
        """
        changes = [it for it in changes if it.ref not in self._tried]
        if not changes:
            return False, False
        self._ledger.intend(changes)
        self._pushed.update((change.ref, change) for change in changes)
        scratch, program = self._source.scratch, self._git.program
        with staged(program, scratch, changes) as (git, specs, leases):
            self._pushes += 1
            options = self._target.config.options
            shown = self._shown(changes)
            answers = self._transport.push(git, specs, leases, options, shown)
        is_declined = answers.was_declined and may_halve
        written, refused, open_refs = [], [], []
        is_too_much = False
        for change in changes:
            answer = answers.refs.get(change.ref)
            if answer is None:
                open_refs.append(change)
            elif answer.was_equal and not self._is_ours(change):
                text = _(b"somebody else made it already (--adopt takes it over)")
                answer = Answer(False, text, FailureKind.MOVED)
                self._note(change, Action.REFUSED, answer.reason, answer.kind)
                refused.append((change, answer, True))
            elif answer.is_done:
                written.append((change.ref, change.new))
                action = Action.FORCED if answer.is_forced else _action(change)
                self._note(change, action)
                self._leases.pop(change.ref, None)
            elif is_declined and answer.kind is FailureKind.RULE:
                # the remote has answered: nothing was written
                refused.append((change, answer, False))
            else:
                is_too_much |= answer.kind is FailureKind.LIMIT
                self._note(change, Action.REFUSED, answer.reason, answer.kind)
                refused.append((change, answer, True))
        self._written += len(written)
        self._ledger.wrote(written, pushes=1)
        self._ledger.refuse(
            (change.ref, self._refusal(change.ref, answer.reason, answer.kind))
            for change, answer, _is_last in refused
        )
        self._tried |= {change.ref for change, _answer, is_last in refused if is_last}
        if open_refs:
            text = _(b"the remote did not report what it did")
            lost = RemoteFailureError(FailureKind.TRANSIENT, text)
            raise answers.failure or lost
        if answers.failure and not refused:
            raise answers.failure
        return is_declined, is_too_much

    def _is_ours(self, change: Change) -> bool:
        """Return whether we wrote a ref that has its new value already, or may have."""
        intended = self._earlier.get(change.ref, ())
        return change.old != NO_OID or change.new in intended

    def _shown(self, changes: Sequence[Change]) -> list[bytes]:
        """Return the refs that the remote should advertise; empty for all.

        What git sends is based on these. So a new ref needs all.
        """
        is_small = len(changes) <= _MOST_SHOWN and all(
            it.old != NO_OID for it in changes
        )
        hides = self._target.config.hides_refs and is_small
        return [change.ref for change in changes] if hides else []

    def _explain_moved(self) -> bool:
        """Say which oid somebody else wrote, of each ref with a stale lease.

        Return whether some were written by processes of ours that died.
        """
        moved = [
            it
            for it in self._outcomes.values()
            if it.kind is FailureKind.MOVED and b"stale info" in it.reason
        ]
        if not moved:
            return False
        try:
            there = self._asked([it.ref for it in moved])
        except RemoteFailureError:
            return False
        refusals, ours = [], []
        for outcome in moved:
            oid = there.get(outcome.ref, NO_OID)
            is_gone = oid == outcome.new == NO_OID  # others have deleted it, too
            if is_gone or oid in self._earlier.get(outcome.ref, ()):
                ours.append((outcome.ref, oid))
                continue
            reason = _moved(oid)
            self._outcomes[outcome.ref] = outcome._replace(reason=reason)
            refusals.append((outcome.ref, self._refusal(outcome.ref, reason)))
        self._ledger.refuse(refusals)
        self._ledger.wrote(ours)
        self._tried -= {ref for ref, _oid in ours}
        for ref, _oid in ours:
            del self._outcomes[ref]
        return bool(ours)


def _next_try(kind: FailureKind, tries: int) -> int:
    """Return when to try again by itself; 0 if only a change or a person can help."""
    if kind is FailureKind.LOGIN:
        return int(time.time()) + _LOGIN_WAIT_SECONDS
    if kind is not FailureKind.TRANSIENT:
        return 0
    return int(time.time()) + min(2 << min(tries - 1, 16), _LONGEST_WAIT_SECONDS)


def _action(change: Change) -> Action:
    if change.new == NO_OID:
        return Action.DELETED
    return Action.CREATED if change.old == NO_OID else Action.MOVED


def _moved(oid: bytes) -> bytes:
    if oid == NO_OID:
        return _(b"somebody else deleted it")
    return _(b"somebody else moved it to %s") % oid[:12]


def _clashing(names: Sequence[bytes]) -> bytes:
    return _(b"it would be made of %s") % printable(b" and ".join(names))


def _directories(ref: bytes) -> Iterator[bytes]:
    parts = ref.split(b"/")
    return (b"/".join(parts[:count]) for count in range(3, len(parts)))


def _has_new_above(ref: bytes, moved: dict[bytes, bytes]) -> bool:
    return any(it in moved for it in _directories(ref))


def _batches(refs: Sequence[bytes], most: int) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(refs), most):
        yield refs[start : start + most]
