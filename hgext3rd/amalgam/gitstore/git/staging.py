"""Directories of a git repository in which git writes packs that do not count yet.

Beside the objects, so that a rename brings a pack there, and where no reader of the
repository looks. A directory has a lock (``flock``), which the kernel releases when the
process ends, and a list of the packs that the new one is made of. If one of these goes
from the store, the directory goes, too: so what was dropped does not come back.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from mercurial import error

from ... import scratch
from ...placement import Unusable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...placement import Directory, Placement

_PREFIX = b"roll-up-"
_NAME = re.compile(re.escape(_PREFIX) + rb"[0-9a-f]{16}")
_SOURCES = b"sources"
# the names of all packs that there could be
_SOURCES_BYTES = 1 << 24
# where git makes a directory of its own for packs
_OBJECTS = b"objects"


@contextlib.contextmanager
def area(
    repository: Directory, placement: Placement, sources: Iterable[str]
) -> Iterator[Directory]:
    """Make a directory that lasts as long as the context, which yields it.

    ``sources``: the packs that a new pack is made of. ``FileNotFoundError`` if somebody
    has removed the directory before its lock was taken.
    """
    name = _PREFIX + os.urandom(8).hex().encode()
    directory = repository.sub(name)
    content = "".join(f"{source}\n" for source in sources)
    directory.sub(_OBJECTS + b"/pack").make(placement)
    directory.replace(_SOURCES, content.encode("ascii"), placement, durable=False)
    fd = scratch.hold(repository, name)
    try:
        yield directory
    finally:
        with contextlib.suppress(OSError, error.StorageError):
            repository.remove(name)
        os.close(fd)


def objects(directory: Directory) -> Directory:
    """Return where git is to write objects."""
    return directory.sub(_OBJECTS)


def names(repository: Directory) -> list[bytes]:
    """Return the names of all such directories in ``repository``."""
    return [*filter(_NAME.fullmatch, repository.names())]


def sweep(repository: Directory) -> bool:
    """Remove the directories of processes that have ended; tell whether others stay."""
    return scratch.sweep(repository, _NAME)


def remove_outdated(repository: Directory, packs: Iterable[str]) -> None:
    """Remove the directories, in use or not, that were made of other than ``packs``."""
    known = frozenset(packs)
    for name in names(repository):
        directory = repository.sub(name)
        try:
            content = directory.tryread(_SOURCES, _SOURCES_BYTES)
        except Unusable:
            content = b""
        sources = content.decode("ascii", "replace").split()
        if not sources or not known.issuperset(sources):
            with contextlib.suppress(OSError, error.StorageError):
                repository.remove(name)
