"""Wanted objects that are not here yet: another server has told the client of them.

A load balancer may send the requests of one fetch to several servers. A client that saw
a new commit in the refs of one server then wants it from another, which does not have
it yet. The second waits until Mercurial has it, and it is exported.

An id that nobody has looks the same. So requests wait in a lane of their own, where
there is room for few, and take no slot of those who fetch.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.node import hex as hex_oid

from ...gitstore.git import idx
from ..refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...gitstore.state.docket import Docket
    from ...gitstore.store import GitStore
    from ..slots import Slot

_PAUSE_SECONDS = 0.1
_AT_ONCE = 1000
_MOST_OTHERS = 16
"""How many trees and blobs are looked for: partial clones want thousands."""
_NOT_YET = b"this server does not have a commit yet that is asked for; try again"


def wait(
    store: GitStore,
    wanted: Callable[[], Iterable[bytes]],
    seconds: float,
    *,
    take_slot: Callable[[], Slot | None],
    make_fresh: Callable[[float], None],
) -> None:
    """Wait up to ``seconds`` until a store has all objects that are ``wanted``.

    Returns at once if it has them, and in the end if it does not get them: then git has
    the answer. ``take_slot`` takes a place in the lane; ``RefusedError`` if there is
    none. ``make_fresh`` exports what is missing within some seconds.
    """
    lacking = _first_lacking(store, wanted())
    if not lacking or seconds <= 0:
        return
    slot = take_slot()
    if slot is None:
        raise RefusedError.later(_NOT_YET)
    started = time.monotonic()
    end = started + seconds
    try:
        while lacking and (left := end - time.monotonic()) > 0:
            time.sleep(min(_PAUSE_SECONDS, left))
            make_fresh(max(0, end - time.monotonic()))
            if not _first_lacking(store, [lacking]):
                lacking = _first_lacking(store, wanted())
    finally:
        slot.release()
        store.repo.ui.log(
            b"amalgam",
            b"git fetch waited %.1f seconds for objects, %s\n",
            time.monotonic() - started,
            b"without " + hex_oid(lacking) if lacking else b"and has them",
        )


def _first_lacking(store: GitStore, wanted: Iterable[bytes]) -> bytes:
    """Return the first of the objects that a store lacks; nothing if it has all.

    Looks for all commits, and for some of the other objects. What it cannot read is
    left to git.
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
        return any(idx.has(packs, pack, oid) for pack in docket.packs)
    except FileNotFoundError:
        return False  # an export has just replaced the pack; it is looked for again
