"""Replacements for functions of Mercurial, for remotes that are git repositories.

Each calls the original if the remote is none.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _
from mercurial.utils import urlutil

from ..terminal import one_line
from . import (
    addresses,
    incoming as incomings,
    peer as peers,
    pulling,
    pushing,
    source as sources,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT, UiT


def make_peer(
    ui: UiT, path: Any, create: bool = False, *_args: Any, **_kwargs: Any
) -> peers.GitPeer:
    """Return the peer for a git repository."""
    if create:
        raise error.InputError(
            _(b"cannot create a git repository there"),
            hint=_(b"make it with git, or on the pages of its host"),
        )
    return peers.GitPeer(ui, path)


def make_peer_of_both(
    factory: Any, ui: UiT, path: Any, *args: Any, **kwargs: Any
) -> Any:
    """Return the peer for a URL whose scheme Mercurial has, too."""
    location = getattr(path, "loc", path)
    if addresses.is_git(location):
        return make_peer(ui, path, *args, **kwargs)
    return factory.make_peer(ui, path, *args, **kwargs)


def instance(not_found: error.RepoError, ui: UiT, path: bytes) -> peers.GitPeer:
    """Return the peer for a path at which Mercurial has no repository."""
    local = urlutil.urllocalpath(path)
    if addresses.is_scp(path):
        return peers.GitPeer(ui, path)
    if addresses.is_repository(local):
        return peers.GitPeer(ui, os.path.abspath(local))
    raise not_found


def remote_ui(orig: Callable[..., UiT], source: Any, *args: Any) -> UiT:
    """Let a peer know for which repository it is made."""
    ui = orig(source, *args)
    if hasattr(source, "baseui"):
        sources.repositories[ui] = weakref.ref(source)
    return ui


def pull(
    orig: Callable[..., Any], repo: RepoT, remote: Any, *args: Any, **kwargs: Any
) -> Any:
    """Replace ``exchange.pull``."""
    if isinstance(remote, peers.GitPeer):
        return pulling.pull(repo, remote, *args, **kwargs)
    return orig(repo, remote, *args, **kwargs)


def push(
    orig: Callable[..., Any], repo: RepoT, remote: Any, *args: Any, **kwargs: Any
) -> Any:
    """Replace ``exchange.push``."""
    if isinstance(remote, peers.GitPeer):
        return pushing.push(repo, remote, *args, **kwargs)
    return orig(repo, remote, *args, **kwargs)


def pull_command(orig: Callable[..., Any], ui: UiT, *args: Any, **opts: Any) -> Any:
    """Replace ``hg pull``, which looks up revisions before it pulls them."""
    with peers.importing():
        return orig(ui, *args, **opts)


def clone_command(
    orig: Callable[..., Any], ui: UiT, source: bytes, dest: Any = None, **opts: Any
) -> Any:
    """Replace ``hg clone``, which makes a name of its source."""
    if dest is None and addresses.is_git(source):
        dest = sources.name_of(source)
        ui.status(one_line(_(b"destination directory: %s") % dest))
    is_free = not opts.get("noupdate") and not opts.get("updaterev")
    with pulling.cloning(activates=is_free):
        return orig(ui, source, dest, **opts)


def incoming(
    orig: Callable[..., Any], ui: UiT, repo: RepoT, peer: Any, *args: Any, **kwargs: Any
) -> Any:
    """Replace ``bundlerepo.getremotechanges``."""
    if isinstance(peer, peers.GitPeer):
        return incomings.changes(ui, repo, peer.source, *args, **kwargs)
    return orig(ui, repo, peer, *args, **kwargs)


def common(
    orig: Callable[..., Any], repo: RepoT, remote: Any, *args: Any, **kwargs: Any
) -> Any:
    """Replace ``discovery.findcommonincoming``, also for outgoing changesets."""
    if isinstance(remote, peers.GitPeer):
        return incomings.common(repo, remote.source)
    return orig(repo, remote, *args, **kwargs)
