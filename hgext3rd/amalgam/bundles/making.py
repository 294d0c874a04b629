"""What is in a bundle that is being made: one file, generated and then described."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..configitems import GitConfig
from . import gitbundle, headset, hgmanifest, live
from .formats import is_increment, kind_of
from .kinds import GIT_V2
from .register import Entry, Register

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT


def generate(
    orig: Callable[[Any, RepoT, bytes], None],
    request: Any,
    repo: RepoT,
    path: bytes,
) -> Entry:
    """Write what ``request`` asks for to ``path``, and return what it is.

    ``orig``: what writes a bundle for Mercurial.
    """
    kind = kind_of(request.bundle_type)
    public = repo.filtered(b"immutable")
    nodes = [public.changelog.node(rev) for rev in request.head_revs]
    entry = Entry(
        name="",
        type=request.bundle_type.decode(),
        url="",
        path="",
        bytes=0,
        changesets=0,
        revs=request.revs,
        tip_rev=request.tip_rev,
        tip_node=request.tip_node.decode(),
        heads=headset.write(repo, nodes),
        made=time.time(),
    )
    if not kind:
        orig(request, repo, path)
        entry.changesets = len(public.revs(b"::%ld", request.head_revs))
        entry.window_bytes = hgmanifest.window_bytes(path)
        return entry
    base: list[bytes] = []
    if kind == GIT_V2:
        base = _place_in_chain(repo, entry)
    config = GitConfig.from_ui(repo.ui)
    with open(path, "wb") as out:
        written = gitbundle.write(
            repo,
            config,
            out,
            kind,
            nodes=nodes,
            base=base,
            public_only=True,
            tips_only=kind == GIT_V2,
        )
    entry.changesets = written.changesets
    entry.reached = headset.write(repo, written.heads)
    return entry


def _place_in_chain(repo: RepoT, entry: Entry) -> list[bytes]:
    """Give ``entry`` its token, and return the nodes that it builds upon."""
    register = Register.read(repo)
    chain = [link.entry for link in live.chain(repo)]
    base: list[bytes] = []
    if is_increment(entry.type.encode()):
        entry.token = register.last_token + 1
        entry.follows = chain[-1].token
        base = headset.read(repo, chain[-1].reached)
    else:
        # that of the last one it replaces; or of what clients may have from before
        replaced = [other.token for other in chain if other.heads == entry.heads]
        entry.token = max(replaced or [1, register.last_token])
    register.last_token = max(register.last_token, entry.token)
    register.write(repo)
    return base
