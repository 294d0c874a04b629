"""Admission: all checks of a client before git is started for it.

They are the same for all transports: configuration, trust in the repository's owner,
the view that Mercurial would show, freshness, hooks, and a slot. A request waits for
an export, also for a first one, in ``freshness``.

A fetch of an id that is not in the store waits until everything that is served is
exported. Then a server that is alone knows that nobody has the id. Where there are
several (``amalgam.serve.replication-lag``), a load balancer may send the requests of
one fetch to different ones. A client that saw a new commit on one of them then wants it
from another, which waits until it has received and exported the commit. Requests that
wait have a small pool of their own, and take no slot of other fetches.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import IO, TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _
from mercurial.node import hex as hex_oid
from mercurial.utils import stringutil

from ..config import GitConfig, ServeConfig, wants_serve
from ..gitstore.git import packfiles
from ..gitstore.store import GitStore
from ..records import Record
from . import limits, permissions, pktlines
from .errors import HttpError, unavailable, unavailable_since
from .freshness import Freshness, look
from .limits import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercurial.interfaces.types import RepoT

    from ..gitstore.docket import Docket
    from .limits import Slot


_PAUSE_SECONDS = 0.1
_AT_ONCE = 1000
_MOST_OTHERS = 16
"""How many trees and blobs are looked for: partial clones want thousands."""
_NOT_YET = b"this server does not have a commit yet that is asked for; try again"


def _first_lacking(store: GitStore, wanted: Iterable[bytes]) -> bytes:
    """Return the first object missing in a store, or None.

    Looks for all commits, and for some of the other objects. Errors of reading are left
    to git.
    """
    wanted, others = iter(wanted), 0
    try:
        docket = store.docket()
        with contextlib.closing(store.open_map()) as oidmap:
            while some := [*itertools.islice(wanted, _AT_ONCE)]:
                nodes = oidmap.changesets(some)
                if None not in nodes:
                    continue
                for oid, node in zip(some, nodes, strict=True):
                    others += node is None
                    is_looked_for = node is None and others <= _MOST_OTHERS
                    if is_looked_for and not _has_object(store, docket, oid):
                        return oid
    except (OSError, error.StorageError):
        pass
    return b""


def _has_object(store: GitStore, docket: Docket, oid: bytes) -> bool:
    try:
        packs = store.repository.packs_directory
        return any(packfiles.has_object(packs, pack, oid) for pack in docket.packs)
    except FileNotFoundError:
        return False  # an export has just replaced the pack; it is looked for again


# Commands that list refs end soon, whatever is in a store. They have slots of their
# own, so that those who make packs are never in their way.
_QUERIES_PER_FETCH = 4
_WAITING = b"waiting"
"""The pool of requests that wait for objects."""
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
    """Packs that a git process started later may have open."""

    removals: bytes
    """``GitStore.removals_mark``."""
    packs: frozenset[str]


class Admission:
    """A client of one repository that may be answered, once its store is fresh."""

    def __init__(self, repo: RepoT, proto: Any) -> None:
        """``HttpError`` if the client may not be answered.

        ``proto`` is how it would speak Mercurial's protocol. That it may pull has been
        checked.
        """
        if not wants_serve(repo.ui):
            raise HttpError(403, _OFF)
        self._repo = repo
        self._client = permissions.client_of(proto)
        try:
            self.config = ServeConfig.from_ui(repo.ui)
            self.store = GitStore(repo, GitConfig.from_ui(repo.ui))
            self.store.require_trust()
            permissions.check_view(repo, self.store, proto)
        except _UNUSABLE as exc:
            raise unavailable_since(exc) from None

    def make_fresh(
        self,
        *,
        now: bool = False,
        seconds: float | None = None,
        waits_on: Callable[[], bool] | None = None,
    ) -> None:
        """See that the store may be read, and is as fresh as it has to be.

        ``now``: the client wants all that is served. ``HttpError`` if that cannot
        be, or not in time: in ``seconds``, by default as configured. ``waits_on``:
        whether the client waits longer for a first export.
        """
        config = self.config
        if seconds is None:
            seconds = config.queue_seconds
        freshness = Freshness(self.store, config.freshness, seconds, waits_on)
        freshness.ensure(now=now)

    def await_objects(self, body: IO[bytes]) -> None:
        """Wait for objects that a request wants and that are not here yet.

        Until all that is served is exported, and, after that, as long as another server
        may be ahead of this one. Then git answers. ``HttpError`` if it is too early for
        that, or no slot for waiting requests is free.
        """
        store, lag_seconds = self.store, self.config.lag_seconds
        lacking = _first_lacking(store, pktlines.wants(body))
        if not lacking or (not lag_seconds and self.is_current()):
            return
        slot = self._slot(pools(self.config)[2], 0)
        if slot is None:
            raise HttpError.later(_NOT_YET)
        started = time.monotonic()
        try:
            self.make_fresh(now=True)
            lacking = _first_lacking(store, pktlines.wants(body))
            end = time.monotonic() + lag_seconds
            while lacking and (left := end - time.monotonic()) > 0:
                time.sleep(min(_PAUSE_SECONDS, left))
                self.make_fresh(seconds=max(0, end - time.monotonic()))
                if not _first_lacking(store, [lacking]):
                    lacking = _first_lacking(store, pktlines.wants(body))
        finally:
            slot.release()
            store.repo.ui.log(
                b"amalgam",
                b"git fetch waited %.1f seconds for objects, %s\n",
                time.monotonic() - started,
                b"without " + hex_oid(lacking) if lacking else b"and has them",
            )

    def seen(self) -> Seen:
        """Return the packs that a git process finds now."""
        return Seen(self._removals(), frozenset(self.store.docket().packs))

    def is_safe(self, seen: Seen | None = None) -> bool:
        """Return whether the store may be read now, with all packs of ``seen``.

        Otherwise an export has removed a pack, perhaps since one of its changesets was
        hidden. A git process that has it open may not answer.
        """
        known = look(self.store)
        if seen is None or not known.is_safe:
            return known.is_safe
        # after the look: an export may end at any time
        is_as_seen = self._removals() == seen.removals
        return is_as_seen and seen.packs.issubset(known.docket.packs)

    def is_current(self) -> bool:
        """Return whether everything that is served is exported."""
        return look(self.store).is_current

    def _removals(self) -> bytes:
        try:
            return self.store.removals_mark()
        except (OSError, error.StorageError) as exc:
            raise unavailable_since(exc) from None

    def take_slot(self, *, is_fetch: bool) -> Slot:
        """Take a slot, waiting for it; ``HttpError`` after the time limit."""
        fetch, query, *_others = pools(self.config)
        return self._take(fetch if is_fetch else query)

    def take_push_slot(self) -> Slot:
        """Wait for a slot to receive a push, as ``take_slot`` does."""
        return self._take(pools(self.config)[3])

    def _take(self, pool: Pool) -> Slot:
        slot = self._slot(pool, self.config.queue_seconds)
        if slot is None:
            raise HttpError.later(b"this server is busy; try again later")
        return slot

    def _slot(self, pool: Pool, seconds: float) -> Slot | None:
        try:
            return limits.take_slot(
                self.config.run_directory, pool, seconds, self._client
            )
        except (OSError, error.StorageError) as exc:
            problem = stringutil.forcebytestr(exc)
            text = _(b"cannot use amalgam.serve.run-directory: %s") % problem
            raise unavailable(text) from None

    def ask_hooks(self, *, is_fetch: bool) -> None:
        """Let hooks refuse a fetch, or a list of refs."""
        permissions.ask_hooks(self._repo, contents=is_fetch, names=not is_fetch)

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
