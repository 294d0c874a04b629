"""State and problems of all bundles, and their repair in an object store.

Asks nobody on the network but the object store, for its list. Repair withdraws lost
bundles and removes orphans. In directories, the next generator removes leftovers by
itself.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING, Any

from hgext import clonebundles
from mercurial import error, util
from mercurial.i18n import _

from .. import background
from ..gitstore.status import Problem
from ..locking import LockState, holder
from ..records import Record
from ..terminal import counted, one_line, printable
from . import (
    extension,
    formats,
    generator,
    gitbundle,
    locations,
    objectstore,
    policy,
    publish,
    validity,
)
from .register import Register, directory_of

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from ..locking import Holder
    from .register import Entry


_REFRESH = _(b"run 'hg admin::clone-bundles-refresh'")
_CLEAR = _(
    b"run 'hg admin::clone-bundles-clear', then 'hg admin::clone-bundles-refresh'"
)
_REPAIR = _(b"run 'hg admin::amalgam --repair'")
_DELETE = _(b"delete it there; amalgam is not told how")


class Row(Record):
    """A bundle."""

    format: bytes
    state: bytes
    """``live``, ``kept`` (replaced, during its retention), ``generating``, ``stale``
    (history changed below it, or its file is lost) or ``dead`` (its generator
    ended)."""
    name: bytes = b""
    url: bytes = b""
    """Relative to the repository's, if it serves the bundle itself."""
    next: bytes = b""
    """The increment that continues it, if it is live."""
    changesets: int = 0
    bytes: int = 0
    made: float = 0
    """Seconds since the epoch."""
    token: int = 0
    missing: int = 0
    """Public changesets that are newer, if it is live."""

    @property
    def age_seconds(self) -> int:
        """Return how old it is."""
        return max(0, int(time.time() - self.made)) if self.made else 0


class BundlesStatus:
    """The bundles of a repository at a glance."""

    public: int = 0
    """Changesets that a bundle made today would have."""
    lock: Holder | None = None
    has_failed: bool = False
    """Whether the last generator failed, and none is at work."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.problems: list[Problem] = []

    @classmethod
    def of(cls, repo: RepoT) -> BundlesStatus:
        """Look at ``repo``; nothing to tell if it has nothing to do with bundles."""
        status = cls()
        try:
            formats.check_formats(repo)
            for kind in formats.git_formats(repo.ui):
                gitbundle.check(repo, kind)
        except error.Abort as exc:
            status.problems.append(Problem(exc.message, exc.hint or _REFRESH))
        if problem := background.failure(repo, generator.COMMAND):
            status.problems.append(Problem(problem, _REFRESH))
        try:
            register = Register.read(repo)
            bundles = clonebundles.read_auto_gen(repo)
        except error.StorageError as exc:
            status.problems.append(Problem(exc.message, exc.hint or _REFRESH))
            return status
        if not bundles and not register.entries and not register.failure:
            return status
        status.public = len(repo.unfiltered().revs(b"public()"))
        status.lock = holder(directory_of(repo))
        status._list(repo, register, bundles)
        status._compare(repo)
        if status.lock and status.lock.needs_person:
            text = _(b"lock of bundle generators is not a lock file")
            path = printable(directory_of(repo).join(b"lock"))
            status.problems.append(Problem(text, _(b"remove '%s'") % path))
        status.has_failed = bool(register.failure) and not status.is_running
        if status.has_failed:
            text = _(b"bundles could not be generated: %s")
            text %= printable(os.fsencode(register.failure))
            status.problems.append(Problem(text, _REFRESH))
        return status

    @property
    def is_running(self) -> bool:
        """Return whether a process is known to generate."""
        return self.lock is not None and self.lock.state is LockState.RUNNING

    def _list(self, repo: RepoT, register: Register, bundles: list[Any]) -> None:
        ready = [bundle for bundle in bundles if bundle.ready]
        links = [link.entry for link in validity.published_chain(repo)]
        following = {
            entry.name: after.type.encode()
            for entry, after in itertools.pairwise(links)
        }
        for bundle in sorted(ready, key=lambda b: (b.bundle_type, b.revs)):
            name, url = bundle.basename, bundle.file_url
            state = b"live" if bundle.valid_for(repo) else b"stale"
            entry = bundle.entry
            missing = policy.missing_names(repo, bundle) if state == b"live" else 0
            if entry is None:
                if bundle.is_lost:
                    text = _(b"register entry of a bundle was removed: %s")
                    self.problems.append(Problem(text % printable(name), _REFRESH))
                row = Row(bundle.bundle_type, state, name, url, changesets=bundle.revs)
                self.rows.append(row._replace(missing=missing))
                continue
            after = following.get(entry.name, b"")
            row = _row(entry, state)._replace(missing=missing, next=after)
            self.rows.append(row)
            if not validity.is_there(repo, entry) and validity.may_be_named(
                repo, entry
            ):
                path = _path(repo, entry)
                self.problems.append(
                    Problem(_(b"bundle file is missing: %s") % path, _REFRESH)
                )
        names = {os.fsdecode(bundle.basename) for bundle in ready}
        kept = register.entries.values()
        for entry in sorted(kept, key=lambda e: (e.type, e.revs)):
            if entry.name not in names:
                self.rows.append(_row(entry, b"kept"))
            if validity.is_exposed(repo, entry):
                self.problems.append(_exposed(repo, entry))
        for bundle in bundles:
            if not bundle.ready:
                state = b"dead" if generator.is_dead(bundle) else b"generating"
                self.rows.append(Row(bundle.bundle_type, state))

    def _compare(self, repo: RepoT) -> None:
        """Compare the object store with the register."""
        try:
            found = publish.compare_store(repo)
        except (error.Abort, error.StorageError) as exc:
            self.problems.append(Problem(exc.message, exc.hint or _REPAIR))
            return
        if found is None:
            return
        for name in sorted(found.lost):
            text = _(b"bundle is gone from the object store: %s") % name.encode()
            self.problems.append(Problem(text, _REFRESH))
        if found.orphans:
            text = _(b"the object store has %s that no bundle needs, %s")
            text %= (
                counted(len(found.orphans), b"object"),
                util.bytecount(found.orphan_bytes),
            )
            self.problems.append(Problem(text, _REPAIR))


def _exposed(repo: RepoT, entry: Entry) -> Problem:
    text = _(b"bundle is where hgweb's permissions do not hold: %s")
    is_ours: Any
    if entry.key:
        where, is_ours = _path(repo, entry), objectstore.is_in_store(repo, entry)
    elif entry.path:
        where, is_ours = _path(repo, entry), locations.directory_at(repo, entry.path)
    else:
        where = printable(os.fsencode(entry.url))
        is_ours = repo.ui.config(b"clone-bundles", b"delete-command")
    return Problem(text % where, _CLEAR if is_ours else _DELETE)


def _path(repo: RepoT, entry: Entry) -> bytes:
    if entry.key:
        return f"{entry.path}/{entry.key}".encode()
    directory = locations.directory_at(repo, entry.path)
    name = entry.name.encode()
    if directory is not None:
        return directory.join(name)
    return printable(os.path.join(os.fsencode(entry.path), name))


def _row(entry: Entry, state: bytes) -> Row:
    return Row(
        format=entry.type.encode(),
        state=state,
        name=entry.name.encode(),
        url=os.fsencode(entry.url),
        changesets=entry.changesets,
        bytes=entry.bytes,
        made=entry.made,
        token=entry.token,
    )


def repair(repo: RepoT) -> None:
    """Compare the object store with the register, and let them agree.

    ``StateError`` if bundles are being generated.
    """
    if not formats.is_enabled(repo.ui) or not objectstore.chosen_store(repo.ui):
        return
    locations.directory_trust(repo).require(repo.path)
    try:
        with generator.exclusive(repo):
            found = publish.compare_store(repo)
            if found is None:
                return
            publish.remove_orphans(repo, found)
            if found.orphans:
                text = _(b"removed %s that no bundle needs")
                repo.ui.status(one_line(text % counted(len(found.orphans), b"object")))
            publish.withdraw_lost(repo, found)
            extension.advertise_live(repo)
    except error.LockHeld as exc:
        raise generator.refuse(exc) from None
