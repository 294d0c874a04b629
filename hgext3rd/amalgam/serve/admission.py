"""Admission: everything that a client passes before git is started for it.

The same for all transports: the switch and the configuration, trust in the repository's
owner, the view that Mercurial would show, freshness, hooks, and a slot.
"""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _
from mercurial.utils import stringutil

from ..config import GitConfig, ServeConfig, wants_serve
from ..gitstore.store import GitStore
from ..records import Record
from . import permissions, pktlines, slots
from .economy.verdicts import look
from .freshness import Freshness
from .refusal import RefusedError, unavailable, unavailable_since
from .replicas import wants
from .slots import Pool

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from .slots import Slot

# Commands that list refs end soon, whatever is in a store. They have slots of their
# own, so that those who make packs are never in their way.
_QUERIES_PER_FETCH = 4
_WAITING = b"waiting"
"""The lane of those who wait for objects."""
# a mistake, a stranger's repository, or a share whose source cannot be opened
_UNUSABLE = (error.ConfigError, error.SecurityError, error.RepoError, OSError)
_OFF = (
    b"this server does not serve git from this repository; "
    b"its operator enables that with amalgam.git.serve = yes"
)


def pools(config: ServeConfig) -> tuple[Pool, Pool, Pool, Pool]:
    """Return the pools of a configuration.

    To make packs, to list refs, to wait, and to receive pushes.
    """
    count = config.max_fetches
    return (
        Pool(b"fetch", count),
        Pool(b"query", _QUERIES_PER_FETCH * count),
        Pool(_WAITING, count),
        Pool(b"push", count),
    )


class Seen(Record):
    """What a git process may have open that was started after this was seen."""

    removals: bytes
    """``GitStore.removals_mark``."""
    packs: frozenset[str]


class Admission:
    """A client of one repository that may be answered, once its store is fresh."""

    def __init__(self, repo: RepoT, proto: Any) -> None:
        """``RefusedError`` if the client may not be answered.

        ``proto`` is how it would speak Mercurial's protocol. That it may pull has been
        checked.
        """
        if not wants_serve(repo.ui):
            raise RefusedError(403, _OFF)
        self._repo = repo
        try:
            self.config = ServeConfig.from_ui(repo.ui)
            self.store = GitStore(repo, GitConfig.from_ui(repo.ui))
            self.store.require_trust()
            permissions.check_view(repo, self.store, proto)
        except _UNUSABLE as exc:
            raise unavailable_since(exc) from None

    def make_fresh(self, *, now: bool = False, seconds: float | None = None) -> None:
        """See that the store may be read, and is as fresh as it has to be.

        ``now``: the client wants all that is served. ``RefusedError`` if that cannot
        be, or not in time: in ``seconds``, by default as configured.
        """
        config = self.config
        if seconds is None:
            seconds = config.queue_seconds
        Freshness(self.store, config.freshness, seconds).ensure(now=now)

    def await_objects(self, body: IO[bytes]) -> None:
        """Wait for objects that a request wants and that are not here yet."""
        wants.wait(
            self.store,
            lambda: pktlines.wants(body),
            self.config.queue_seconds,
            take_slot=lambda: self._slot(pools(self.config)[2], 0),
            make_fresh=lambda seconds: self.make_fresh(seconds=seconds),
        )

    def seen(self) -> Seen:
        """Return what a git process finds that starts now."""
        return Seen(self._removals(), frozenset(self.store.docket().packs))

    def is_safe(self, seen: Seen | None = None) -> bool:
        """Tell whether the store may be read now, and no pack has gone since ``seen``.

        Else an export has removed it, maybe since something in it is hidden, and maybe
        after it had come since. A git process that has it open may not answer.
        """
        known = look(self.store)
        if seen is None or not known.is_safe:
            return known.is_safe
        # after the look: an export may end at any time
        is_as_seen = self._removals() == seen.removals
        return is_as_seen and seen.packs.issubset(known.docket.packs)

    def _removals(self) -> bytes:
        try:
            return self.store.removals_mark()
        except (OSError, error.StorageError) as exc:
            raise unavailable_since(exc) from None

    def take_slot(self, *, is_fetch: bool) -> Slot:
        """Wait for a slot and take it; ``RefusedError`` if there is none in time."""
        fetch, query, *_others = pools(self.config)
        return self._take(fetch if is_fetch else query)

    def take_push_slot(self) -> Slot:
        """Wait for a slot to receive a push, as ``take_slot`` does."""
        return self._take(pools(self.config)[3])

    def _take(self, pool: Pool) -> Slot:
        slot = self._slot(pool, self.config.queue_seconds)
        if slot is None:
            raise RefusedError.later(b"this server is busy; try again later")
        return slot

    def _slot(self, pool: Pool, seconds: float) -> Slot | None:
        try:
            return slots.take(self.config.run_directory, pool, seconds)
        except (OSError, error.StorageError) as exc:
            problem = stringutil.forcebytestr(exc)
            text = _(b"cannot use amalgam.serve.run-directory: %s") % problem
            raise unavailable(text) from None

    def ask_hooks(self) -> None:
        """Let hooks refuse a fetch."""
        permissions.ask_hooks(self._repo)

    def tell_hooks(self, oid: bytes) -> None:
        """Let hooks know of a fetch; ``oid``: the first object that is wanted."""
        if permissions.are_hooks_told(self._repo):
            permissions.tell_hooks(self._repo, self._changeset(oid))

    def _changeset(self, oid: bytes) -> bytes | None:
        """Return the changeset of an object, if it is a commit."""
        if not oid:
            return None
        try:
            with contextlib.closing(self.store.open_map()) as oidmap:
                return oidmap.changesets([oid])[0]
        except (OSError, error.StorageError):
            return None
