"""Capabilities: what git tells clients of protocol version 2 before they ask anything.

git is asked once, and its answer is kept in this process: it depends on git's program,
on our configuration, and on that of the store, but on no ref and no object. So most
first requests of clients start no git. It is asked again if the file of the program or
the configuration of the store is another one, and after a while, since the program may
be a script that runs another one.
"""

from __future__ import annotations

import io
import os
import shutil
import time
from typing import TYPE_CHECKING

from ...gitstore.git.gitprocess import CONFIG, CONFIG_BYTES
from ...placement import Unusable
from ...records import Record
from .. import pktlines
from ..refusal import RefusedError

if TYPE_CHECKING:
    from ...gitstore.store import GitStore

# git 2.39 offers the first, whatever its configuration says; amalgam answers the second
_NOT_OFFERED = (b"object-info", b"bundle-uri")
_KEPT_SECONDS = 60
_MOST_KEPT = 100


class Basis(Record):
    """What an answer of git depends on."""

    program: str
    """Where ``PATH`` leads to."""
    file: tuple[int, ...]
    """What the file system says of that."""
    settings: bytes
    """The configuration of the store."""


class _Kept(Record):
    told: bytes
    until: float
    """``time.monotonic()``."""


_kept: dict[Basis, _Kept] = {}


def basis_of(store: GitStore) -> Basis | None:
    """Return what the answer for a store depends on; ``None`` if it is not kept.

    Taken before git is asked.
    """
    git = store.repository.git
    try:
        program = shutil.which(os.fsdecode(git.program))
        if program is None:
            return None
        it = os.stat(program)
        settings = store.repository.directory.tryread(CONFIG, CONFIG_BYTES)
    except (OSError, Unusable):
        return None
    state = (it.st_dev, it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns)
    return Basis(program, state, settings)


def kept(basis: Basis | None) -> bytes:
    """Return what git said; nothing if it is to be asked."""
    found = _kept.get(basis) if basis else None
    return found.told if found and time.monotonic() < found.until else b""


def keep(basis: Basis | None, told: bytes) -> None:
    """Keep what git said."""
    if basis is None:
        return
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[basis] = _Kept(told, time.monotonic() + _KEPT_SECONDS)


def shown(told: bytes, *more: bytes) -> bytes:
    """Return what clients are told of what git said, and of ``more``.

    Without what is not answered here.
    """
    try:
        lines = [*pktlines.lines(io.BytesIO(told))]
    except ValueError:
        lines = []
    if lines[-1:] != [pktlines.FLUSH]:
        raise RefusedError(500, b"git failed on the server")
    kept = [line for line in lines[:-1] if line.rstrip(b"\n") not in _NOT_OFFERED]
    kept += [name + b"\n" for name in more]
    return b"".join(map(pktlines.line, kept)) + pktlines.FLUSH
