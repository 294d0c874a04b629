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
import itertools
import os
import time
from typing import TYPE_CHECKING

from mercurial.i18n import _

from ..gitstore import failures
from ..gitstore.export.request import take_exporter_lock
from ..gitstore.failures import Failure
from ..gitstore.git.refs import HEADS, TAGS
from ..terminal import counted, printable
from . import staging
from .ledger import Ledger, LedgerLostError, RefRefusal
from .planning import Planner, ordered
from .results import Action, Outcome, Result, Status
from .staging import Change
from .transport import NO_OID, Answer, FailureKind, RemoteFailureError, Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from .planning import Options
    from .source import ReplicaSource
    from .targets import Target

FAILURE = b"failure"
"""The file that says why the remote did not answer the last time."""
_MOST_DELETED = 500
"""Refs of one push: they are arguments of git."""
_MOST_HALVINGS = 64
"""Pushes to find the refs for which a hook declines all; the others wait."""
_MOST_SHOWN = 100
"""Refs that fit a command line, for a remote that hides others."""
_MOST_IN_VAIN = 24
"""As many if the remote has not taken a single one meanwhile."""
_ROUNDS = 20
_LONGEST_WAIT_SECONDS = 300
_LOGIN_WAIT_SECONDS = 3600
_WAIT_FOR_LOCK_SECONDS = 0.2


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
        self._planner = Planner(target, source, self._ledger, options)
        self._outcomes: dict[bytes, Outcome] = {}
        self._pushes = 0
        self._written = 0
        self._listed: dict[bytes, bytes] | None = None
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
        wanted = self._planner.all_wanted()
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
            hint = _(
                b"run 'hg git::push --adopt %s' to take over those that are equal or "
                b"behind, if nobody else writes them"
            )
            hint %= self._target.shown
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
                if oid != self._planner.wanted(ref):
                    self._planner.leases[ref] = oid
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
        self._planner = Planner(self._target, self._source, self._ledger, self._options)
        ours = self._ours(there)
        if self._options.is_dry:
            self._ledger.has.update(ours)
        else:
            self._ledger.begin(url, self._target.map, ours)

    def _ours(self, there: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Return the refs of the remote that are equal to ours or behind."""
        wanted = self._planner.all_wanted()
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
        leases = self._planner.leases
        self._planner.tried.update(ref for ref, _it in foreign if ref not in leases)
        self._ledger.saw(written)
        self._ledger.refuse(foreign)

    def _refusal(
        self, ref: bytes, reason: bytes, kind: FailureKind = FailureKind.MOVED
    ) -> RefRefusal:
        before = self._ledger.refused.get(ref)
        tries = 1 + (before.tries if before else 0)
        return RefRefusal(
            self._planner.wanted(ref), kind, tries, _next_try(kind, tries), reason
        )

    def _plan(self) -> list[Change]:
        """Return the refs to write now, and note the others."""
        plan = self._planner.plan()
        self._unreadable = plan.unreadable
        for change, names in plan.clashing:
            self._refuse_here(change, _clashing(names))
        for change in plan.kept:
            self._note(change, Action.KEPT)
        for change, refusal in plan.waiting:
            self._note(change, Action.REFUSED, refusal.reason, refusal.kind)
        if not self._options.is_dry:
            self._ledger.forget(plan.forgotten)
        return plan.changes

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
        self._planner.tried.add(change.ref)
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
        most = min(self._planner.most_commits(), self._planner.commits) // 2
        if most < 1:
            return False
        self._ledger.lower(most)
        self._planner.tried.clear()
        return True

    def _push(self, changes: Sequence[Change]) -> bool:
        """Push; return whether the remote refused commits for their number or size."""
        first, moved, last = ordered(changes)
        is_too_much = False
        most_refs = staging.most_refs(self._source.scratch)
        for batch in _batches(first, _MOST_DELETED):
            is_too_much |= self._write(dict.fromkeys(batch, NO_OID))
        for step in self._planner.steps(moved):
            most_tags = self._target.config.most_tags
            tags = [ref for ref in step if most_tags and ref.startswith(TAGS)]
            others = [ref for ref in step if not (most_tags and ref.startswith(TAGS))]
            for batch in itertools.chain(
                _batches(others, most_refs), _batches(tags, most_tags or 1)
            ):
                is_too_much |= self._write({ref: step[ref] for ref in batch})
            if is_too_much:
                return True
        for batch in _batches(last, _MOST_DELETED):
            is_too_much |= self._write(dict.fromkeys(batch, NO_OID))
        return is_too_much

    def _write(self, values: dict[bytes, bytes]) -> bool:
        """Push refs in one go; return whether they were too much for the remote."""
        changes = []
        for ref, new in values.items():
            old = self._planner.leases.get(ref, self._ledger.known(ref))
            if old != new and ref not in self._planner.tried:
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
        changes = [it for it in changes if it.ref not in self._planner.tried]
        if not changes:
            return False, False
        self._ledger.intend(changes)
        self._pushed.update((change.ref, change) for change in changes)
        self._pushes += 1
        answers = staging.push(
            self._transport,
            self._git.program,
            self._source.scratch,
            changes,
            self._target.config.options,
            self._shown(changes),
        )
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
                self._planner.leases.pop(change.ref, None)
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
        final = (change.ref for change, _answer, is_last in refused if is_last)
        self._planner.tried.update(final)
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
        self._planner.tried.difference_update({ref for ref, _oid in ours})
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


def _batches(refs: Sequence[bytes], most: int) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(refs), most):
        yield refs[start : start + most]
