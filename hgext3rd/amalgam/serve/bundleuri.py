"""The command ``bundle-uri`` of git's protocol version 2, which amalgam answers itself.

git 2.39 cannot answer it, and later ones take the list from their configuration. A
malformed list ends a clone, so a list is advertised and sent only if all of it is as
git expects it (gitprotocol-v2(5), "bundle-uri").
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mercurial import error

from ..bundles.lifecycle import eligibility, urls
from ..bundles.lifecycle.objectstore import stored
from . import pktlines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercurial.interfaces.types import RepoT

    from ..bundles.lifecycle.register import Entry

COMMAND = b"bundle-uri"
_URL = re.compile(rb"https?://[\x21-\x7e]{1,8000}")
_MOST = 100


def answer_of(repo: RepoT, req: Any) -> bytes:
    """Return the answer to the command; empty if there is nothing to offer."""
    try:
        if not eligibility.may_reach_git(repo):
            return b""
        chain = [link.entry for link in eligibility.chain(repo)]
    except error.StorageError:
        return b""  # the operator is told elsewhere
    base = urls.base_of(repo.ui, req)
    return _answer(chain, lambda entry: stored.direct(repo, entry, base))


def _answer(chain: Iterable[Entry], address: Callable[[Entry], bytes]) -> bytes:
    lines = [b"bundle.version=1", b"bundle.mode=all"]
    lines.append(b"bundle.heuristic=creationToken")
    entries = [*chain]
    for entry in entries:
        url = address(entry)
        if not _URL.fullmatch(url):
            return b""
        kind = b"increment" if entry.follows else b"base"
        name = b"%s-%d" % (kind, entry.token)
        lines.append(b"bundle.%s.uri=%s" % (name, url))
        # git compares keys as it sends them, all in lower case
        lines.append(b"bundle.%s.creationtoken=%d" % (name, entry.token))
    if not 0 < len(entries) <= _MOST:
        return b""
    return b"".join(map(pktlines.line, lines)) + pktlines.FLUSH
