"""The repository that a git store stands for.

``hg share`` makes repositories that have one store and several working copies, and, if
they do not share them, bookmarks of their own. The git store lies with the shared
store, so it shows one set of bookmarks: those of the repository that owns the store.
An export from any share is an export of that repository, with its configuration.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mercurial import hg

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT


def source_of(repo: RepoT) -> RepoT:
    """Return the repository that owns the store of ``repo``; often ``repo`` itself."""
    if not repo.shared():
        return repo
    unfiltered = repo.unfiltered()
    if not hasattr(unfiltered, "_amalgam_source"):
        # the configuration of a share stays out of it: hence baseui
        path = os.path.dirname(repo.sharedpath)
        unfiltered._amalgam_source = hg.repository(repo.baseui, path)
    return unfiltered._amalgam_source
