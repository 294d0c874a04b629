"""The repository that a git store comes from.

``hg share`` makes repositories with a common store, and bookmarks of their own unless
they share them. The git store is in the common store. So it shows the bookmarks of one
repository: the one that owns the store. An export from a share is an export of that
repository, with its configuration.
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
