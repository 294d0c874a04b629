"""Summaries: what git writes of objects that packs have, and can do without.

They are the commit-graph, the multi-pack-index with its bitmap, and lists for dumb
clients. They name objects without having them. Owns the list of such files.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from typing import TYPE_CHECKING

from ...placement import Unusable
from .skeleton import PACKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .repository import Repository

_GRAPHS = (b"objects/info/commit-graph", b"objects/info/commit-graphs")
_OF_PACKS = re.compile(rb"multi-pack-index.*")
_LISTINGS = (b"objects/info/packs", b"info/refs")
TEMPORARY = b"tmp_"
"""How unfinished files of git begin."""


def of_packs(file: bytes) -> bool:
    """Tell whether a file among packs is such a file."""
    return bool(_OF_PACKS.fullmatch(file))


def remove_those_of_packs(repository: Repository) -> None:
    """Remove what git wrote of packs, some of which are to go; their objects stay."""
    repository.directory.remove(_LISTINGS[0])
    for file in repository.packs_directory.names():
        if of_packs(file):
            repository.packs_directory.remove(file)


def remove(repository: Repository) -> None:
    """Remove what git wrote of objects, some of which are gone.

    Unfinished packs, too: a process of git that writes one has seen those objects.
    """
    for name in (*_GRAPHS, *_LISTINGS):
        repository.directory.remove(name)
    for file in repository.packs_directory.names():
        if of_packs(file) or file.startswith(TEMPORARY):
            repository.packs_directory.remove(file)


def digest(repository: Repository) -> str:
    """Return a digest of the files that name objects without having them.

    It is empty if there are none. It changes when one is written.
    """
    lines = [b"%s %r\n" % entry for entry in sorted(_files(repository))]
    return hashlib.sha1(b"".join(lines)).hexdigest() if lines else ""


def _files(repository: Repository) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    names = [
        PACKS + b"/" + file
        for file in repository.packs_directory.names()
        if of_packs(file)
    ]
    for name in _GRAPHS:
        names += [name]
        with contextlib.suppress(Unusable):
            inside = repository.directory.sub(name).names()
            names += [name + b"/" + file for file in inside]
    for name in names:
        with contextlib.suppress(FileNotFoundError, Unusable):
            found = repository.directory.stat(name)
            yield (
                name,
                (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns),
            )


def is_wrong(repository: Repository) -> bool:
    """Tell whether git finds that a summary names what the packs do not have."""
    run = repository.git.run
    return any(
        run(command, "verify", check=False).returncode
        for command in ("commit-graph", "multi-pack-index")
    )
