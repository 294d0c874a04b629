"""The repository that a git store comes from.

``hg share`` makes repositories with a common store, and bookmarks of their own unless
they share them. The git store is in the common store. So it shows the bookmarks of one
repository: the one that owns the store. An export from a share is an export of that
repository, with its configuration.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

from mercurial import bookmarks, extensions

from .. import compat

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

_sources: weakref.WeakKeyDictionary[RepoT, RepoT] = weakref.WeakKeyDictionary()
"""Of shares; the object of a repository is opened once for each."""


def source_of(repo: RepoT) -> RepoT:
    """Return the repository that owns the store of ``repo``; often ``repo`` itself."""
    if not repo.shared():
        return repo
    unfiltered = repo.unfiltered()
    if unfiltered not in _sources:
        # the configuration of a share stays out of it: hence baseui
        path = os.path.dirname(repo.sharedpath)
        _sources[unfiltered] = compat.open_repository(repo.baseui, path)
    return _sources[unfiltered]


def has_own_bookmarks(repo: RepoT) -> bool:
    """Return whether ``repo`` is a share with bookmarks of its own.

    Mercurial's extension share makes bookmarks common (``hg share --bookmarks``). A
    server without that extension reads the share's own.
    """
    if not repo.shared() or bookmarks.bookmarksinstore(repo):
        return False
    try:
        share = extensions.find(b"share")
    except KeyError:
        return True
    return not share._hassharedbookmarks(repo)


def configuration_of_source(repo: RepoT) -> UiT:
    """Return the configuration of ``source_of(repo)``, without opening that."""
    ui: UiT = repo.baseui.copy()
    root = os.path.dirname(repo.sharedpath)
    for name in (b"hgrc", b"hgrc-not-shared"):
        ui.readconfig(os.path.join(repo.sharedpath, name), root)
    return ui
