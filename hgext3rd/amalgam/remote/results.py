"""Results of a replication: of each ref, and of the remote as a whole."""

from __future__ import annotations

from ..records import Choice, Record
from .transport import FailureKind, RemoteFailureError


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
