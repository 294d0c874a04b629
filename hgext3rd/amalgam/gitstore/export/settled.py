"""The state of all files after an export that left nothing to do.

While each file of the repository and of the store has the stats that it had then, and
the configuration is the same, another export would write nothing. So a command, or a
server that has just started, computes nothing at all.

Owns ``<dialect>.settled``, described in ``docs/formats/map.rst``: a cache that any
change of any of these files makes void.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from typing import TYPE_CHECKING

from mercurial import error

from ... import __version__, docketfile
from ...config import followed
from ...docketfile import Field
from ...files import TICK_NS
from ...records import Record
from .. import selection
from ..imported import ImportedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...files import Directory
    from ..selection import FilesState
    from ..store import GitStore

_LONGEST_BYTES = 16 << 20
_UNREADABLE = (OSError, error.StorageError, error.ConfigError)


class Settled(Record):
    """Findings of an export that left nothing to do."""

    files: str
    """Digest of configuration and file stats."""
    too_long: tuple[bytes, ...]
    """Names that have no ref, since they are too long; in UTF-8."""

    @classmethod
    def now(cls, store: GitStore) -> Settled | None:
        """Return the record if nothing has changed since; otherwise ``None``.

        Takes some system calls for each file of the store, and reads no other.
        """
        try:
            content = store.maps.directory.tryread(_name(store), _LONGEST_BYTES)
            known = cls(**_FORM.values_in(content)) if content else None
            if known and known.files == _digest(store, selection.state_of(store.repo)):
                return known
        except (*_UNREADABLE, ValueError):
            pass
        return None


_FORM = docketfile.Form(
    b"amalgam settled 1",
    {
        "files": docketfile.texts(b"files", re.compile("[0-9a-f]{40}")),
        "too_long": Field(b"too-long", bytes, bytes, many=True),
    },
)


def note(store: GitStore, state: FilesState, too_long: tuple[bytes, ...]) -> None:
    """Record that an export of everything has ended, if files still are as they were.

    ``state`` is that of the repository's files before they were read.
    """
    newest = max((stamp[-1] for stamp in state if stamp), default=0)
    with contextlib.suppress(*_UNREADABLE):
        if not store.docket().named or time.time_ns() - newest <= TICK_NS:
            return
        content = _FORM.content_of(Settled(_digest(store, state), too_long))
        directory, name = store.maps.directory, _name(store)
        is_new = directory.tryread(name, _LONGEST_BYTES) != content
        if is_new and selection.state_of(store.repo) == state:
            directory.replace(name, content, store.placement, durable=False)


def _digest(store: GitStore, state: FilesState) -> str:
    view = selection.view_of(store.repo, store.config.export)
    leaders = followed(store.repo.ui)
    place = (__version__, store.config, leaders, view.filtername, state)
    others = (store.adopted.directory, ImportedFiles.directory(store))
    directories = (store.repository.directory, store.maps.directory, *others)
    digest = hashlib.sha1(repr(place).encode())
    for directory in directories:
        for stamp in sorted(_stamps(directory, _name(store))):
            digest.update(repr(stamp).encode())
    return digest.hexdigest()


def _stamps(
    directory: Directory, but: bytes
) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """Yield the names below a directory, with file stats of files."""
    for name, entry in directory.walk():
        if name == but:
            continue
        it: os.stat_result | None = None
        if not entry.is_dir(follow_symlinks=False):
            it = entry.stat(follow_symlinks=False)
        yield (
            name,
            (it.st_mode, it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns)
            if it
            else (),
        )


def _name(store: GitStore) -> bytes:
    return store.config.dialect + b".settled"
