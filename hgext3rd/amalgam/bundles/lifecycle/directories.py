"""The directories that bundles are in: that of the register, or a configured one.

Owns how a bundle gets into one of them, and out. Nothing else is ever read, written or
removed on the word of the register.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from typing import TYPE_CHECKING, BinaryIO

from ...config import BundlesConfig
from ...placement import TEMPORARY, Directory, Placement
from ...trust import Trust
from . import urls
from .register import HERE, directory_of

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

_CHUNK_BYTES = 1 << 20


def trust(repo: RepoT) -> Trust:
    """Return what this process may do with the bundles of ``repo``."""
    return Trust.of(repo.ui, repo.store.path, repo.path)


def chosen(repo: RepoT) -> str:
    """Return the path, as in the register, of where new bundles are put.

    The operator's directory is one that others than hgweb may serve, with a list of
    the bundles.
    """
    configured = _configured(repo)
    if BundlesConfig.from_ui(repo.ui).store:
        return HERE  # for the list; bundles are in the store
    return configured if configured and urls.may_leave(repo.ui) else HERE


def directory_at(repo: RepoT, path: str) -> Directory | None:
    """Return the directory that is ``path`` in the register.

    ``None`` if the bundle was uploaded, or if it is no directory of ours: one that was
    configured before, or one that somebody wrote there.
    """
    if path == HERE:
        return directory_of(repo)
    if not path or path != _configured(repo) or not trust(repo).usable:
        return None
    return Directory(os.fsencode(path))


def placement_at(repo: RepoT, path: str) -> Placement:
    """Return how files come into the directory ``path``.

    In the directory of the register, as all that amalgam keeps. Elsewhere, for those
    who can read the repository; or, if bundles may leave its permissions, for those who
    can read that directory or the one above.
    """
    if path == HERE:
        return Placement.of(repo)
    if not BundlesConfig.from_ui(repo.ui).external:
        return Placement.elsewhere(repo.store.path, repo.path)
    directory = _existing(os.fsencode(path))
    return Placement.at(directory, directory)


def is_for_all(repo: RepoT, path: str) -> bool:
    """Tell whether every user may read the files in the directory ``path``."""
    return bool(placement_at(repo, path).file_mode & stat.S_IROTH)


def make(repo: RepoT, path: str) -> Directory:
    """Make the directory ``path``, one of ours, unless it is there."""
    directory, placement = directory_at(repo, path), placement_at(repo, path)
    assert directory is not None
    root = _existing(directory.root)
    missing = os.path.relpath(directory.root, root).split(b"/")
    above = () if missing == [b"."] else tuple(missing)
    Directory(root, (*above, *directory.below)).make(placement)
    return directory


def move(
    source: Directory, name: bytes, target: Directory, placement: Placement
) -> None:
    """Move the finished file ``name``, which this process has made, from ``source``.

    It gets a mode without write bits and is fsynced; what had the name in ``target`` is
    replaced. A file on another file system is copied, and so is one with other names:
    they must not change their mode.
    """
    fd = source.open(name)
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_nlink == 1:
            os.fsync(fd)
            placement.hand_over(fd, placement.file_mode & 0o444)
            try:
                source.rename(name, name, target)
                return
            except OSError as exc:
                if exc.errno != errno.EXDEV:
                    raise
        _copy(file, name, target, placement)
    source.remove(name)


def _copy(file: BinaryIO, name: bytes, target: Directory, placement: Placement) -> None:
    # named after what it becomes, so that ``remove`` finds it after a crash
    temporary = b"%s%s-%s" % (TEMPORARY, name, os.urandom(8).hex().encode())
    try:
        with os.fdopen(target.create(temporary, placement), "wb") as copy:
            shutil.copyfileobj(file, copy, _CHUNK_BYTES)
            copy.flush()
            os.fchmod(copy.fileno(), placement.file_mode & 0o444)
            os.fsync(copy.fileno())
        target.rename(temporary, name)
    except BaseException:
        target.remove(temporary)
        raise


def remove(directory: Directory, name: bytes) -> None:
    """Remove a bundle, and what is left of copying it there."""
    unfinished = re.compile(re.escape(TEMPORARY + name) + rb"-[0-9a-f]{16}")
    for there in directory.names():
        if there == name or unfinished.fullmatch(there):
            directory.remove(there)


def _existing(path: bytes) -> bytes:
    """Return the last directory on ``path`` that is there."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _configured(repo: RepoT) -> str | None:
    configured = BundlesConfig.from_ui(repo.ui).directory
    return os.fsdecode(configured) if configured else None
