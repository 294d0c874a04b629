"""What is censored must leave the git store, too.

Censoring replaces a file revision's text, and nothing else: no changeset, no node. So
whoever censors leaves a mark beside the map, and the next export begins from nothing,
which gives commits other ids from there on. A process without amalgam leaves no mark;
what it censored is found by `hg git::verify --full`.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import VfsT

_MARK = b".censored"


def is_marked(map_vfs: VfsT, dialect: bytes) -> bool:
    """Tell whether something was censored since the mark was removed."""
    return bool(map_vfs.exists(dialect + _MARK))


def unmark(map_vfs: VfsT, dialect: bytes) -> None:
    """Remove the mark; what was exported before does no longer count."""
    map_vfs.tryunlink(dialect + _MARK)


def censor(
    orig: Callable[..., Any], log: Any, transaction: Any, *args: Any, **kwargs: Any
) -> Any:
    """Do as ``revlog.censorrevision``, and leave marks."""
    # not every vfs has a base: Mercurial 6.9 wraps the one of filelogs
    store = log.opener.join(b"")
    map_path = os.path.join(os.path.dirname(store), b"amalgam", b"map")
    # before as well: an export may begin while the transaction ends
    transaction.addpostclose(b"amalgam-censored", lambda _: _mark(map_path))
    _mark(map_path)
    return orig(log, transaction, *args, **kwargs)


def _mark(map_path: bytes) -> None:
    """Leave a mark for each dialect that was exported."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(map_path):
            dialect, suffix = os.path.splitext(name)
            if suffix == b".docket":
                with open(os.path.join(map_path, dialect + _MARK), "wb"):
                    pass
