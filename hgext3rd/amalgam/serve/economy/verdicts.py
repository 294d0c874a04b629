"""Verdicts: whether a git store may be read as it is now, and is up to date.

A verdict is kept as long as the files of repository and store are as they were, so most
requests cost a few system calls. Whether an export is writing into the store is not
part of it: that is asked on each call.

Does not know how a store is brought up to date, nor who waits for that.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from mercurial import error
from mercurial.i18n import _
from mercurial.utils import stringutil

from ...gitstore.exporting import export as exporting
from ...gitstore.git import idx
from ...gitstore.state import layers, selection
from ...placement import Unusable
from ...records import Record
from ..refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...gitstore.state.docket import Docket
    from ...gitstore.state.selection import FilesState
    from ...gitstore.store import GitStore

    _Key: TypeAlias = tuple[bytes, bytes, object]

_MOST_KNOWN = 10_000
_PAUSE_SECONDS = 0.02
_CUTTING_SECONDS = 1
_BROKEN = b"the git repository cannot be read; its operator finds the reason in the log"
UNREADABLE = (OSError, error.Abort, error.StorageError)
"""What may be raised by reading a repository or its store."""
_T = TypeVar("_T")


class Verdict(Record):
    """What was found out of a store, and in which state of the files."""

    state: FilesState
    names: tuple[object, ...]
    docket: Docket
    is_safe: bool
    is_current: bool
    damaged: bytes = b""
    """A pack that git cannot open."""


_known: dict[_Key, Verdict] = {}
_finding: dict[_Key, threading.Lock] = {}
_one_at_a_time = threading.Lock()


def look(store: GitStore) -> Verdict:
    """Return what is so now, as quickly as possible."""
    return patiently(store, functools.partial(_look, store))


def patiently(store: GitStore, ask: Callable[[], _T]) -> _T:
    """Return what ``ask`` returns; ``RefusedError`` if it cannot read something.

    Whoever strips cuts one file after the other. So it has some time to succeed.
    """
    end = time.monotonic() + _CUTTING_SECONDS
    while True:
        try:
            return ask()
        except FileNotFoundError:
            raise
        except UNREADABLE as exc:
            if time.monotonic() > end:
                raise _failure(exc) from None
        time.sleep(_PAUSE_SECONDS)
        with contextlib.suppress(*UNREADABLE):
            selection.read_again(store.repo)


def _look(store: GitStore) -> Verdict:
    shown = store.repo.ui.config(b"server", b"view")
    key = (store.repo.sharedpath, store.repository.path, (store.config, shown))
    state = selection.state_of(store.repo)
    names = store.repository.names_state()
    known, damaged = _known.get(key), b""
    with contextlib.suppress(FileNotFoundError):  # an export has just replaced a file
        if not _holds(known, store, state, names):
            known = _find(store, key)
        if known is not None and _is_whole(store, known.docket):
            damaged = _damaged(store, known.docket)
            if not damaged:
                return known
    docket = known.docket if known else store.docket()
    return Verdict(
        state, names, docket, is_safe=False, is_current=False, damaged=damaged
    )


def _find(store: GitStore, key: _Key) -> Verdict | None:
    """Find out what is so, and keep it; ``None`` if files come or go in the store.

    That need not show in what ``_holds`` compares. So what is found meanwhile is not
    kept: it would hold when it is over.
    """
    # the other threads would find out the same
    with _one_at_a_time:
        lock = _finding.setdefault(key, threading.Lock())
    with lock:
        state = selection.state_of(store.repo)
        names = store.repository.names_state()
        known = _known.get(key)
        if not _holds(known, store, state, names):
            places = _places(store)
            if not _is_whole(store, store.docket()):
                return None
            known = _found(store, state, names)
            # something may have come and gone: an export that was given up
            is_sure = known.is_current or _places(store) == places
            if not is_sure or not _is_whole(store, known.docket):
                return None
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[key] = known
        return known


def _is_whole(store: GitStore, docket: Docket) -> bool:
    return store.is_complete(docket) and not store.repository.loose_refs()


def _places(store: GitStore) -> tuple[object, ...]:
    """Return what the file system says of the directories that exports write into."""
    repository = store.repository
    loose = map(repository.directory.sub, repository.loose_object_directories())
    objects = repository.directory.sub(b"objects")
    written = (store.maps.directory, objects, repository.packs_directory)
    found = [directory.stat() for directory in (*written, *loose)]
    return tuple((it.st_dev, it.st_ino, it.st_mtime_ns, it.st_ctime_ns) for it in found)


def _holds(
    known: Verdict | None,
    store: GitStore,
    state: FilesState,
    names: tuple[object, ...],
) -> bool:
    """Tell whether what is known is of these files, and of the docket that is there."""
    if known is None or (known.state, known.names) != (state, names):
        return False
    return store.docket() == known.docket


def _damaged(store: GitStore, docket: Docket) -> bytes:
    """Return a pack that is named and that git cannot open, if there is one.

    ``FileNotFoundError`` if an export has just replaced packs.
    """
    found = idx.damaged(store.repository.packs_directory, docket.packs)
    if found and store.docket() != docket:
        raise FileNotFoundError
    return found


def _found(store: GitStore, state: FilesState, names: tuple[object, ...]) -> Verdict:
    """Find out what is so; ``state`` and ``names`` were taken before."""
    repo = store.repo
    selection.read_again(repo)
    docket = store.docket()
    is_named = bool(docket.named) and docket.named == store.repository.names_digest()
    is_safe = is_named and layers.is_safe(repo, store.config.export, docket, store.maps)
    is_current = is_safe and exporting.is_up_to_date(store)
    return Verdict(state, names, docket, is_safe, is_current)


def damage(store: GitStore, pack: bytes) -> RefusedError:
    """Return the refusal for a pack that git would pass over."""
    text = _(
        b"pack '%s' is missing or damaged; see 'hg git::verify', or make all packs "
        b"again with 'hg git::export --rebuild'"
    )
    path = store.repository.packs_directory.join(pack)
    return RefusedError.later(_BROKEN, logged=text % path)


def _failure(exc: BaseException) -> RefusedError:
    """Return the refusal for what keeps this repository from being exported."""
    problem = stringutil.forcebytestr(exc)
    if isinstance(exc, Unusable):
        problem = exc.message
    return RefusedError.later(
        _BROKEN,
        logged=_(b"git store cannot be read: %s") % problem,
    )
