"""Following: the git repositories of ``amalgam.follow.NAME``, which lead this one.

A look pulls their branches, which become bookmarks, and their tags, and brings the git
store up to date. ``hg git::follow`` looks at once. A server looks in the background
when a client asks and the last look is older than ``.interval``: nobody waits for it.

``.hg/amalgam/follow/NAME`` has the last look and failures since then
(docs/formats/imported.rst). Without them, the next look is the first one.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.node import hex as hex_node
from mercurial.utils import stringutil

from .. import background, docketfile
from ..config import (
    FollowConfig,
    followed,
    remote_of,
    wants_export_on_change,
    wants_serve,
)
from ..damage import blamed
from ..files import Directory, Unusable
from ..gitstore import failures
from ..gitstore.export import export, request
from ..gitstore.failures import Failure
from ..gitstore.source import source_of
from ..records import Record
from ..remote.refmap import RefMap
from ..remote.transport import FailureKind, kind_of
from . import bookmarks as marks, pulling
from .fetched import Fetched
from .peer import GitPeer
from .source import HEADS, address_of

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from ..gitstore.store import GitStore

COMMAND = b"debug::amalgam-follow"
"""The command of the background process."""
FAILURES = (error.Error, error.RepoError, OSError)
"""Errors that a look may end with."""
_LAST, _FAILURE = b"last", b"failure"
# failures in a row that a person should know of
_MANY = 3
_LAST_BYTES = 1 << 10
_LONGEST_WAIT_SECONDS = 3600
# a server asks the file system no more often
_CHECK_SECONDS = 1
_ALL = (b"refs/heads/*", b"refs/tags/*", b"refs/notes/*")
"""The refs that are followed unless some are named."""
_next_check: dict[bytes, float] = {}


class Look(Record):
    """The last look that succeeded, and the sums of all."""

    ended: int
    """In seconds since the epoch."""
    milliseconds: int
    """Wall time of the last one."""
    looks: int
    changesets: int
    """Changesets that all looks have pulled."""

    @classmethod
    def read(cls, directory: Directory) -> Look | None:
        """Return it; ``None`` if it is missing or cannot be read."""
        try:
            content = directory.tryread(_LAST, _LAST_BYTES)
            return cls(**_FORM.values_in(content)) if content else None
        except (OSError, Unusable, ValueError):
            return None


_FORM = docketfile.Form(
    b"amalgam last look 1",
    {
        "ended": docketfile.numbers(b"ended"),
        "milliseconds": docketfile.numbers(b"milliseconds"),
        "looks": docketfile.numbers(b"looks"),
        "changesets": docketfile.numbers(b"changesets"),
    },
)


class Leader(Record):
    """A git repository that is followed: its configuration, and its last look."""

    name: bytes
    url: bytes = b""
    """Safe to show."""
    interval_seconds: int = 0
    look: Look | None = None
    failure: Failure | None = None
    moved: tuple[bytes, ...] = ()
    """Bookmarks that are not where the last look found their branches."""

    @property
    def lag_seconds(self) -> int:
        """Since when its state is unknown: 0 if the last look succeeded."""
        if self.failure is None or self.look is None:
            return 0
        return max(0, int(time.time()) - self.look.ended)

    def is_due(self) -> bool:
        """Return whether it is time for a look in the background."""
        if not self.interval_seconds:
            return False
        now = time.time()
        # a clock may have been set back
        if self.failure and 0 < self.failure.retry - now <= _LONGEST_WAIT_SECONDS:
            return False
        return not self.look or not 0 <= now - self.look.ended < self.interval_seconds

    def problem(self) -> tuple[bytes, bytes] | None:
        """Return a problem that needs a person, with the next thing to type."""
        if self.failure and self._needs_person():
            text = self.failure.explain(_(b"following '%s' failed") % self.name)
            return text, _(b"run 'hg git::follow %s'") % self.name
        if self.moved:
            text = _(b"bookmark '%s' is not where '%s' has the branch")
            first = self.moved[0]
            hint = _(b"hg bookmark -f -r %s/%s %s") % (self.name, first, first)
            return text % (first, self.name), hint
        return None

    def _needs_person(self) -> bool:
        assert self.failure is not None
        if not self.failure.retry or self.failure.attempts >= _MANY:
            return True
        reason = os.fsencode(self.failure.reason)
        return kind_of(reason, FailureKind.TRANSIENT) is FailureKind.LOGIN


def leaders(repo: RepoT) -> list[Leader]:
    """Return the git repositories that are followed. Asks none of them."""
    repo = source_of(repo)
    found = (_leader(repo, name) for name in followed(repo.ui))
    return [it._replace(moved=_moved(repo, it.name)) for it in found]


def _leader(repo: RepoT, name: bytes) -> Leader:
    directory = _directory(repo, name)
    try:
        config = FollowConfig.from_ui(repo.ui, name)
        url = address_of(config.url, repo.root).shown
    except error.Abort as exc:
        reason = failures.short(failures.reason_of(exc))
        return Leader(name, failure=Failure(reason, 1))
    look, failure = Look.read(directory), Failure.read(directory, _FAILURE)
    return Leader(name, url, config.interval_seconds, look, failure)


def _moved(repo: RepoT, name: bytes) -> tuple[bytes, ...]:
    nodes = dict(Fetched(pulling.opened(repo)).lines(name).pairs(HEADS))
    names, here = marks.by_name(repo.ui, nodes), repo._bookmarks
    moved = (
        it
        for it, ref in names.items()
        if it in here and hex_node(here[it]) != nodes[ref]
    )
    return tuple(sorted(moved))


def _directory(repo: RepoT, name: bytes) -> Directory:
    return Directory(repo.sharedpath, (b"amalgam", b"follow", name))


def follow(repo: RepoT, name: bytes) -> int:
    """Look at a git repository; return how many changesets are new.

    One of ``FAILURES`` if that fails, as of ``hg pull`` and ``git::export``. It is
    noted.
    """
    repo, store = source_of(repo), pulling.opened(source_of(repo))
    store.require_trust()
    directory = _directory(repo, name)
    try:
        with blamed():
            return _look(repo, store, name, directory)
    except FAILURES as exc:
        before = Failure.read(directory, _FAILURE)
        attempts = before.attempts if before else 0
        retry = int(time.time()) + min(2 << min(attempts, 16), _LONGEST_WAIT_SECONDS)
        reason = failures.short(failures.reason_of(exc))
        with contextlib.suppress(OSError, error.StorageError):
            directory.make(store.placement)
        Failure(reason, attempts + 1, retry).write(directory, _FAILURE, store.placement)
        raise


def _look(repo: RepoT, store: GitStore, name: bytes, directory: Directory) -> int:
    started, ui = time.monotonic(), repo.ui
    config = FollowConfig.from_ui(ui, name)
    with remote_of(b"amalgam.follow.%s" % name, config.url):
        given = tuple(config.patterns)
        if all(it.startswith(b"!") for it in given):
            given += _ALL
        location, patterns = address_of(config.url, repo.root), RefMap(given)
        covers = None if given == _ALL else lambda ref: bool(patterns.target(ref))
    if not patterns.is_plain:
        raise error.ConfigError(
            _(b"amalgam.follow.%s.refs cannot rename") % name,
            hint=_(b"leave out the colon, and the name after it"),
        )
    before, peer = len(repo.unfiltered().changelog), GitPeer(ui, location.url, name)
    op = pulling.pull(repo, peer, covers=covers, leads=True)
    # without a result, others have added them meanwhile
    new = len(repo.unfiltered().changelog) - before
    count = max(0, new) if op.cgresult else 0
    is_wanted = wants_serve(ui) or wants_export_on_change(ui)
    if is_wanted or store.repository.exists():
        export.export(store)
    last = Look.read(directory)
    look = Look(
        ended=int(time.time()),
        milliseconds=int((time.monotonic() - started) * 1000),
        looks=last.looks + 1 if last else 1,
        changesets=last.changesets + count if last else count,
    )
    directory.make(store.placement)
    content = _FORM.content_of(look)
    directory.replace(_LAST, content, store.placement, durable=False)
    with contextlib.suppress(FileNotFoundError):
        directory.remove(_FAILURE)
    return count


def run(repo: RepoT) -> None:
    """Run as the background process: look at all that is due, unless one does."""
    repo = source_of(repo)
    background.begin(repo, COMMAND)
    directory = _directory(repo, request.WORKER)
    lock = request.take_exporter_lock(directory, pulling.opened(repo).placement)
    if lock is None:
        return
    for leader in leaders(repo):
        if leader.is_due():
            try:
                count = follow(repo, leader.name)
                repo.ui.log(
                    b"amalgam",
                    b"followed %s: %d changesets\n",
                    *(leader.name, count),
                )
            except FAILURES as exc:
                problem = failures.reason_of(exc)
                text = b"following %s failed: %s\n"
                repo.ui.log(b"amalgam", text, leader.name, problem)
    os.close(lock)


def start_if_due(repo: RepoT) -> None:
    """Start a look in the background, if it is time and none is at work."""
    names, path, now = followed(repo.ui), repo.sharedpath, time.monotonic()
    if not names or now < _next_check.get(path, 0):
        return
    _next_check[path] = now + _CHECK_SECONDS
    try:
        repo = source_of(repo)
        if not any(_leader(repo, name).is_due() for name in names):
            return
        pulling.opened(repo).require_trust()
        request.start(repo, _directory(repo, request.WORKER), COMMAND)
    except (OSError, error.Abort, error.StorageError) as exc:
        problem = stringutil.forcebytestr(exc)
        repo.ui.log(b"amalgam", b"nothing is followed: %s\n", problem)
