"""Who gets to a repository, for files that lie outside of its ``.hg``.

The mode of ``.hg/store`` says who may read it, once they are there. A directory above
may keep them out, as a home directory of mode 0700 does. Where amalgam is told to put
files elsewhere, nothing above protects those.
"""

from __future__ import annotations

import os
import stat

from .placement import Placement


def elsewhere(store_path: bytes, owner_path: bytes) -> Placement:
    """Return how files are placed that lie outside of ``.hg``.

    As ``Placement.at``, but for those whom a directory above the store keeps out: they
    get no permission.
    """
    placement = Placement.at(store_path, owner_path)
    mode = placement.mode & ~_kept_out(store_path, placement.gid)
    return placement._replace(mode=mode)


def _kept_out(path: bytes, gid: int) -> int:
    """Return the bits of those who cannot get to ``path``: group ``gid``, or others.

    A member of another group counts as denied what that group is denied. Access control
    lists are not looked at.
    """
    bits = 0
    above = os.path.dirname(os.path.realpath(path))
    while True:
        found = os.stat(above)
        others = stat.S_IXOTH | stat.S_IXGRP
        if found.st_mode & others != others:
            bits |= stat.S_IRWXO
        needed = stat.S_IXGRP if found.st_gid == gid else others
        if found.st_mode & needed != needed:
            bits |= stat.S_IRWXG
        if above == os.path.dirname(above):
            return bits
        above = os.path.dirname(above)
