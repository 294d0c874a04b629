"""What is in a bundle that is being made: one file, generated and then described."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mercurial.node import hex as hex_node, nullrev

from ..configitems import GitConfig
from . import gitbundle, hgmanifest, live
from .formats import GIT_V2, is_increment, kind_of
from .register import Entry, Register

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT


def public_heads(repo: RepoT) -> frozenset[str]:
    """Return the heads of all that may be in a bundle."""
    changelog = repo.filtered(b"immutable").changelog
    revs = (rev for rev in changelog.headrevs() if rev != nullrev)
    return frozenset(hex_node(changelog.node(rev)).decode() for rev in revs)


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
        heads=[hex_node(node).decode() for node in nodes],
        made=time.time(),
    )
    if not kind:
        orig(request, repo, path)
        entry.changesets = len(public.revs(b"::%ld", request.head_revs))
        entry.window_bytes = hgmanifest.window_bytes(path)
        return entry
    base: tuple[bytes, ...] = ()
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
    return entry


def _place_in_chain(repo: RepoT, entry: Entry) -> tuple[bytes, ...]:
    """Give ``entry`` its token, and return the nodes that it builds upon."""
    register = Register.read(repo)
    chain = [link.entry for link in live.chain(repo)]
    if is_increment(entry.type.encode()):
        entry.token = register.last_token + 1
        entry.follows = chain[-1].token
        heads = chain[-1].heads
    else:
        # that of the last one it replaces; or of what clients may have from before
        replaced = [other.token for other in chain if other.heads == entry.heads]
        entry.token = max(replaced or [1, register.last_token])
        heads = []
    register.last_token = max(register.last_token, entry.token)
    register.write(repo)
    return tuple(bytes.fromhex(head) for head in heads)
