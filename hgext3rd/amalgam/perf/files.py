"""The files that a measurement reads, and the copy of the repository it works on."""

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
_FILELOGS = ("data", "dh")


def beside_revisions(root: bytes) -> list[bytes]:
    """Return the files of a repository that has no share, but those of its filelogs."""
    hg = os.path.join(root, b".hg")
    found = []
    for place in (b"", b"cache", b"store", b"amalgam/index"):
        with contextlib.suppress(FileNotFoundError):
            found += [
                entry.path
                for entry in os.scandir(os.path.join(hg, place))
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
def scratch_copy(repo: RepoT, *, revisions: bool) -> Iterator[bytes]:
    """Yield the root of a copy, without working directory and without amalgam's files.

    ``revisions``: with filelogs, too. It is below ``.hg/amalgam``, so that those can be
    hard links; or, for a user who may not write there, among temporary files. In the
    end it goes, and so does ``.hg/amalgam`` if there was none. Nobody may write to the
    repository while it is made, unless this user cannot keep them from it.
    """
    place = Directory(repo.sharedpath, (b"amalgam",))
    writable = os.access(repo.sharedpath, os.W_OK)
    was_there = place.exists()
    if writable:
        place.make(Placement.of(repo))
    root = tempfile.mkdtemp(prefix=b"perf-", dir=place.path if writable else None)
    copied = os.fsdecode(repo.sharedpath)
    filelogs = tuple(os.path.join(copied, "store", name) for name in _FILELOGS)

    def ignore(place: str, names: list[str]) -> set[str]:
        inner = os.path.join(place, "")
        return {
            name
            for name in names
            if name in _NOT_COPIED or (not revisions and inner + name in filelogs)
        }

    def link_or_copy(source: str, target: str) -> None:
        # a link changes the ctime, by which snapshots of indexes are current
        if source.startswith(filelogs):
            with contextlib.suppress(OSError):
                os.link(source, target)
                return
        shutil.copy2(source, target)

    try:
        with repo.lock() if writable else contextlib.nullcontext():
            shutil.copytree(
                copied,
                os.fsdecode(os.path.join(root, b".hg")),
                symlinks=True,
                ignore=ignore,
                copy_function=link_or_copy,
            )
        yield root
    finally:
        shutil.rmtree(root)
        if writable and not was_there:
            with contextlib.suppress(OSError):  # another process has files in it
                os.rmdir(place.path)
