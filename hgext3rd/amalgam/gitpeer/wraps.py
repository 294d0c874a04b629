"""Replacements for functions of Mercurial, for remotes that are git repositories.

Each calls the original if the remote is none.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from mercurial import error, extensions
from mercurial.i18n import _
from mercurial.utils import urlutil

from ..scratch import sweep_left
from ..terminal import one_line
from . import (
    addresses,
    hggitfiles,
    incoming as incomings,
    names,
    peer as peers,
    pulling,
    pushing,
    source as sources,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        sweep_left(repo)  # a pull of nothing makes no directory of its own
        hggitfiles.make_again(repo)
        if repo.names.get(names.GIT_TAGS) is None:  # a clone checks out a tag
            names.add_namespaces(repo.unfiltered())
        return pulling.pull(repo, remote, *args, **kwargs)
    return orig(repo, remote, *args, **kwargs)


def push(
    orig: Callable[..., Any], repo: RepoT, remote: Any, *args: Any, **kwargs: Any
) -> Any:
    """Replace ``exchange.push``."""
    if isinstance(remote, peers.GitPeer):
        sweep_left(repo)  # as in a pull
        hggitfiles.make_again(repo)
        return pushing.push(repo, remote, *args, **kwargs)
    return orig(repo, remote, *args, **kwargs)


def command(
    orig: Callable[..., Any], ui: UiT, repo: RepoT, *given: bytes, **opts: Any
) -> Any:
    """Replace ``hg pull``, which looks up revisions first, and ``hg push``.

    The latter knows named branches only.
    """
    is_push = "new_branch" in opts
    default = b"default-push" if is_push else b"default"
    if _is_left_to_hggit(ui, given, default):
        return orig(ui, repo, *given, **opts)
    try:
        with peers.importing():
            return orig(ui, repo, *given, **opts)
    except error.RepoLookupError as exc:
        if not (is_push and opts["branch"] and _is_git(ui, given, default)):
            raise
        hint = _(b"branches of git are bookmarks here: hg push -B %s")
        raise error.RepoLookupError(exc.args[0], hint=hint % opts["branch"][0]) from exc


def _is_left_to_hggit(ui: UiT, given: Sequence[bytes], default: bytes) -> bool:
    """Return whether hg-git is loaded; if the remote is one of its, say so."""
    try:
        extensions.find(b"hggit")
    except KeyError:
        return False
    if _is_git(ui, given, default):
        ui.status(
            _(b"(git remotes are those of the extension hggit, not of amalgam)\n")
        )
    return True


def _is_git(ui: UiT, given: Sequence[bytes], default: bytes) -> bool:
    """Return whether the remote of a command is a git repository."""
    name = given[0] if given else default
    paths = dict(ui.configitems(b"paths"))
    if not given and not paths.get(name):
        name = b"default"
    return addresses.is_git(paths.get(name, name).partition(b"#")[0])


def clone_command(orig: Callable[..., Any], ui: UiT, *given: bytes, **opts: Any) -> Any:
    """Replace ``hg clone``, which makes a name of its source."""
    if not 1 <= len(given) <= 2:
        return orig(ui, *given, **opts)  # says how it is used
    source, dest = given[0], given[1] if len(given) > 1 else None
    if _is_left_to_hggit(ui, [source], b""):
        return orig(ui, source, dest, **opts)
    if dest is None and addresses.is_git(source):
        dest = sources.name_of(source)
        ui.status(one_line(_(b"destination directory: %s") % dest))
    clone = pulling.Clone(not opts.get("noupdate"), opts.get("updaterev") or None)
    with pulling.cloning(clone):
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
        if "ancestorsof" in kwargs:  # asked for what is outgoing
            pushing.require_pulled(repo, remote.source)
        return incomings.common(repo, remote.source)
    return orig(repo, remote, *args, **kwargs)
