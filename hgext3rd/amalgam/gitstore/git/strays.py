"""Stray files: contents of a git store that its docket does not name.

They come from a git-repack(1) or git-gc(1) that ended late, or from an older copy of
the store. They may contain what must not be read. So nothing is answered from the store
while there are any, and an export removes them. Owns the list of such files. Finding
them takes the same few system calls for stores of any size.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from . import staging, summaries
from .skeleton import PACKS

if TYPE_CHECKING:
    from ..state.docket import Docket
    from .repository import Repository

_OF_PACKS = (b".pack", b".idx", b".rev", b".keep", b".bitmap")
# what a process of git that runs may yet need
_TEMPORARY = summaries.TEMPORARY
_ABANDONED_SECONDS = 3600
_LOOSE = re.compile(rb"[0-9a-f]{2}")
# what git remembers of refs, or of a working copy that there should not be
_TRACES = re.compile(
    rb"logs|index|AUTO_MERGE|COMMIT_EDITMSG|gc\.log|rr-cache|sequencer|[A-Z_]+_HEAD"
)


def holders(repository: Repository, docket: Docket) -> list[bytes]:
    """Return the files that have objects, and that ``docket`` does not name."""
    named = frozenset(map(os.fsencode, docket.packs))
    found = [
        PACKS + b"/" + file
        for file in repository.packs_directory.names()
        # any name will do for git
        if file.endswith((b".idx", b".pack")) and _stem(file) not in named
    ]
    return found + [
        directory
        for directory in repository.loose_object_directories()
        if repository.directory.sub(directory).names()
    ]


def _stem(file: bytes) -> bytes:
    return os.path.splitext(file)[0]


def remove(repository: Repository, docket: Docket) -> None:
    """Remove all that ``docket`` does not name. Indexes of packs go first."""
    directory, packs = repository.directory, repository.packs_directory
    named = frozenset(map(os.fsencode, docket.packs))
    files = sorted(packs.names(), key=lambda file: not file.endswith(b".idx"))
    for file in files:
        stem, suffix = os.path.splitext(file)
        if (stem not in named or suffix not in _OF_PACKS) and not (
            summaries.of_packs(file) or _is_in_use(repository, PACKS, file)
        ):
            packs.remove(file)
    for name in directory.sub(b"objects").names():
        if _LOOSE.fullmatch(name) or (
            name.startswith(_TEMPORARY) and not _is_in_use(repository, b"objects", name)
        ):
            _remove_all(repository, b"objects/" + name)
    for name in directory.names():
        if _TRACES.fullmatch(name):
            _remove_all(repository, name)
    staging.remove_outdated(directory, docket.packs)


def _is_in_use(repository: Repository, directory: bytes, name: bytes) -> bool:
    """Tell whether a file that is not whole may be that of a process that runs."""
    if not name.startswith(_TEMPORARY):
        return False
    try:
        found = repository.directory.sub(directory).stat(name)
    except FileNotFoundError:
        return False
    return time.time() - found.st_mtime < _ABANDONED_SECONDS


def _remove_all(repository: Repository, name: bytes) -> None:
    # a process of git may be filling a directory: then the next export removes it
    with contextlib.suppress(OSError):
        repository.directory.remove(name)
