"""The dialect of a repository, where ``amalgam.git.dialect`` is not set.

hg-git's dialect goes on where hg-git has left its map: its users know these ids. And
where commits were imported in it, as in a clone that was made with ``--config``. A
repository that was exported with git-cinnabar's ids before keeps them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mercurial.utils import stringutil

from ..config import setting
from ..configitems import HGGIT_DIALECT, METADATA_DIALECT
from ..files import Directory
from . import gitignore
from .mapfile import NAME

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

_ITEM = (b"amalgam", b"git.dialect")


def choose(repo: RepoT) -> None:
    """Set the dialect, if hg-git's goes on; then ``.gitignore`` counts."""
    _set(repo)
    # none of a peer
    if setting(repo.ui, *_ITEM) == HGGIT_DIALECT and hasattr(repo, "_makedirstate"):
        gitignore.read_in(repo)


def _set(repo: RepoT) -> None:
    if setting(repo.ui, *_ITEM) is not None:
        return
    directory = Directory(repo.sharedpath, (b"amalgam",))
    if directory.exists(b"map/%s.docket" % METADATA_DIALECT):
        return
    if directory.exists(b"imported/%s.docket" % METADATA_DIALECT):
        return
    has_map = os.path.exists(os.path.join(repo.sharedpath, NAME))
    if has_map or directory.exists(b"imported/%s.docket" % HGGIT_DIALECT):
        repo.ui.setconfig(*_ITEM, HGGIT_DIALECT, NAME)


def goes_on(repo: RepoT) -> bool:
    """Return whether the user has come from hg-git, and wants to be able to go back.

    So if its files are kept. Then pushes, too, are as with hg-git.
    """
    if setting(repo.ui, *_ITEM) != HGGIT_DIALECT:
        return False
    given = setting(repo.ui, b"amalgam", b"git.hggit-files")
    if given is not None:
        return stringutil.parsebool(given) is True
    return os.path.exists(os.path.join(repo.sharedpath, NAME))
