"""What a git user has to type to clone a repository from hgweb.

Owns the form of the addresses that are shown, and which of them there are. Does not
know who may see them, nor how the address of the repository is found out: ``base`` is
that, with a slash at its end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mercurial import error

from ...bundles.advertise import bundlelist
from ...bundles.lifecycle import eligibility, urls

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

_PLAIN = re.compile(rb"https?://[\w.:\[\]-]{1,255}(?:/[\w.~%/-]{0,2000})?", re.ASCII)
"""Addresses that need no quotes in a shell. The host is what the client called it."""


def of_repository(base: bytes) -> bytes:
    """Return the address for ``git clone``; empty if there is no plain one."""
    return _plain(base if base.count(b"/") < 4 else base.rstrip(b"/"))


def of_bundles(repo: RepoT, base: bytes) -> bytes:
    """Return the address for ``--bundle-uri``; empty if there are no bundles."""
    try:
        if not eligibility.may_reach_git(repo) or not eligibility.chain(repo):
            return b""
    except error.StorageError:
        return b""  # the operator is told elsewhere
    return _plain(base + urls.relative(bundlelist.NAME))


def _plain(url: bytes) -> bytes:
    return url if _PLAIN.fullmatch(url) else b""
