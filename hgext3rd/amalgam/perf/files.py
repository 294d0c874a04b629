"""The files that a measurement reads, and a copy of the repository to export from."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from ..placement import Directory, Placement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT

_NOT_COPIED = {"amalgam", "wlock", "lock", "journal"}


def beside_revisions(repo: RepoT) -> list[bytes]:
    """Return the files of a repository but those of its filelogs."""
    places = [repo.path, repo.vfs.join(b"cache")]
    if repo.sharedpath != repo.path:
        places += [repo.sharedpath, os.path.join(repo.sharedpath, b"cache")]
    places += [repo.svfs.join(b""), os.path.join(repo.sharedpath, b"amalgam", b"index")]
    found = []
    for place in places:
        with contextlib.suppress(FileNotFoundError):
            found += [
                entry.path
                for entry in os.scandir(place)
                if entry.is_file(follow_symlinks=False)
            ]
    return found


def below(directory: bytes) -> list[bytes]:
    """Return all files below a directory."""
    return [
        os.path.join(place, name)
        for place, _directories, names in os.walk(directory)
        for name in names
        if not os.path.islink(os.path.join(place, name))
    ]


@contextlib.contextmanager
def scratch_copy(repo: RepoT) -> Iterator[bytes]:
    """Yield the root of a copy that shares the files of the store, without amalgam's.

    It is below ``.hg/amalgam``, so that files can be hard links, and goes in the end.
    Nobody may write to the repository while it is made.
    """
    place = Directory(repo.sharedpath, (b"amalgam",))
    place.make(Placement.of(repo))
    root = tempfile.mkdtemp(prefix=b"perf-", dir=place.path)
    try:
        with repo.lock():
            shutil.copytree(
                os.fsdecode(repo.sharedpath),
                os.fsdecode(os.path.join(root, b".hg")),
                symlinks=True,
                ignore=lambda _place, names: _NOT_COPIED.intersection(names),
                copy_function=os.link,
            )
        yield root
    finally:
        shutil.rmtree(root)
