"""The directories that bundles are in: that of the register, or a configured one.

Nothing else is ever read, written or removed on the word of the register.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ... import audience
from ...configitems import BundlesConfig
from ...placement import Directory, Placement
from ...trust import Trust
from . import urls
from .register import HERE, directory_of

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT


def trust(repo: RepoT) -> Trust:
    """Return what this process may do with the bundles of ``repo``."""
    return Trust.of(repo.ui, repo.store.path, repo.path)


def chosen(repo: RepoT) -> str:
    """Return the path, as in the register, of where new bundles are put.

    The operator's directory is one that others than hgweb may serve, with a list of
    the bundles.
    """
    configured = _configured(repo)
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
        return audience.elsewhere(repo.store.path, repo.path)
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


def _existing(path: bytes) -> bytes:
    """Return the last directory on ``path`` that is there."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _configured(repo: RepoT) -> str | None:
    configured = BundlesConfig.from_ui(repo.ui).directory
    return os.fsdecode(configured) if configured else None
