"""The files that a measurement reads, and the copy of the repository it works on."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..files import Directory
from ..scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT

_NOT_COPIED = frozenset({"amalgam", "wlock", "lock", "journal"})
_FILELOGS = ("data", "dh")


def beside_revisions(root: bytes) -> list[bytes]:
    """Return the files of a repository without a share, except for its filelogs."""
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
    """Yield the root of a copy, without working directory and amalgam's files.

    ``revisions``: with filelogs, too. It is below ``.hg/amalgam``, so that filelogs can
    be hard links; or, for users who may not write there, among temporary files. At the
    end it is removed, and so is a new ``.hg/amalgam``. Writers are kept out of the
    repository during the copy, unless this user cannot do that. ``StateError`` if a
    file cannot be copied.
    """
    place = Directory(repo.sharedpath, (b"amalgam",))
    was_there = place.exists()
    writable = os.access(repo.sharedpath, os.W_OK)
    try:
        with scratch(repo) as root:
            with repo.lock() if writable else contextlib.nullcontext():
                _copy(repo.sharedpath, os.path.join(root, b".hg"), revisions=revisions)
            yield root
    finally:
        if not was_there:
            with contextlib.suppress(OSError):  # another process has files in it
                os.rmdir(place.path)


def _is_copied(path: str) -> bool:
    """Return whether it is neither gone nor the socket of a program."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
    return kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)


def _copy(source: bytes, target: bytes, *, revisions: bool) -> None:
    hg = os.fsdecode(source)
    store = os.path.join(hg, "store")
    filelogs = tuple(os.path.join(store, name) for name in _FILELOGS)

    def ignore(place: str, names: list[str]) -> set[str]:
        # a tracked file may have any name
        left_out = _NOT_COPIED if place in (hg, store) else frozenset()
        paths = {name: os.path.join(place, name) for name in names}
        return {
            name
            for name, path in paths.items()
            if name in left_out
            or (not revisions and path in filelogs)
            or not _is_copied(path)
        }

    def link_or_copy(source: str, target: str) -> None:
        # a link changes the ctime, by which snapshots of indexes are current
        if source.startswith(filelogs):
            with contextlib.suppress(OSError):
                os.link(source, target)
                return
        shutil.copy2(source, target)

    try:
        shutil.copytree(
            hg,
            os.fsdecode(target),
            symlinks=True,
            ignore=ignore,
            copy_function=link_or_copy,
        )
    except shutil.Error as exc:
        path, _target, problem = exc.args[0][0]
        raise error.StateError(
            _(b"cannot copy '%s' to measure with it: %s")
            % (os.fsencode(path), os.fsencode(problem)),
            hint=_(b"make it readable, or make room for a copy of '.hg'"),
        ) from None
