"""Which paths of Mercurial are those of git repositories.

Asked for every path in a configuration, so this imports nothing of amalgam.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMES = (b"git", b"git+ssh", b"git+http", b"git+https", b"git+file")
"""Schemes of URLs that only git has."""
SUFFIX = b".git"
_HG_SCHEMES = (b"http://", b"https://", b"ssh://")
# user and host as in scp; Mercurial has no such form
_SCP = re.compile(rb"[^/:@]+@[^/:@]+:(?!//).", re.DOTALL)
_PARTS = (b"HEAD", b"objects", b"refs")


def is_scp(path: bytes) -> bool:
    """Return whether it is ``USER@HOST:PATH``."""
    return _SCP.match(path) is not None


def is_repository(path: bytes) -> bool:
    """Return whether a directory is a git repository, and none of Mercurial's."""

    def has(name: bytes) -> bool:
        return os.path.exists(os.path.join(path, name))

    return bool(path) and not has(b".hg") and (has(b".git") or all(map(has, _PARTS)))


def is_git(path: bytes) -> bool:
    """Return whether it is the address of a git repository."""
    scheme, colon, _rest = path.partition(b"://")
    if colon and scheme in SCHEMES:
        return True
    if path.startswith(_HG_SCHEMES):
        return path.partition(b"#")[0].rstrip(b"/").endswith(SUFFIX)
    return is_scp(path) or is_repository(path)


def has_scheme(orig: Callable[[bytes], bool], path: bytes) -> bool:
    """Keep ``USER@HOST:PATH`` from being a path of files."""
    return orig(path) or is_scp(path)


def is_valid(orig: Callable[[Any, bytes], bool], location: Any, path: bytes) -> bool:
    """Let addresses of git repositories be arguments of commands."""
    return orig(location, path) or is_scp(path) or is_repository(path)
