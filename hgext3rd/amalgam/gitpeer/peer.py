"""The peer: a git repository, as far as Mercurial asks its remotes.

Mercurial asks for names: ``lookup`` and ``listkeys``. The work is done in place of its
own functions (``wraps``), so the peer has no other capability. As long as a commit has
not become a changeset, its oid stands for the node.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from mercurial import encoding, error
from mercurial.i18n import _
from mercurial.interfaces import repository
from mercurial.node import bin as bin_node

from ..receive.importing import tell
from . import bookmarks, pulling
from .source import HEADS, TAGS, GitSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import UiT

_imports: list[bool] = []
_Peer: Any = getattr(repository, "IPeer", None) or repository.peer


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Let ``lookup`` pull commits as long as the context lasts.

    ``hg pull -r NAME`` updates to the node that it was told before.
    """
    _imports.append(True)
    try:
        yield
    finally:
        _imports.pop()


class GitPeer(_Peer):
    """A git repository, for Mercurial's commands."""

    limitedarguments = False

    def __init__(self, ui: UiT, path: Any, name: bytes = b"") -> None:
        """``path`` is a path object of Mercurial's, or the location itself.

        ``name``: as it is followed.
        """
        self.ui = ui
        self.path = path if hasattr(path, "loc") else None
        self.source = GitSource(ui, path, name)

    def lookup(self, key: bytes) -> bytes:
        """Return the node of the changeset ``key``, or the oid of its commit.

        The first one of a pattern. In a clone it may be ``key`` itself, which Mercurial
        looks up again after the pull: as with hg-git, and for tags.
        """
        source = self.source
        is_newest = key == b"tip" and source.is_of_hggit
        if is_newest and pulling.is_cloning() and source.repo is not None:
            return bytes(source.repo.changelog.tip())
        refs = source.refs(key)
        ref = refs[0]
        oid = source.advertised.commit(ref)
        source.looked_up.extend(refs)
        is_early = source.repo is None and pulling.is_cloning()
        if is_early and (source.is_of_hggit or ref.startswith(TAGS)):
            return key
        if source.repo is not None:
            commits = {source.advertised.commit(it) for it in refs}
            nodes = pulling.known(source.repo, commits)
            node = nodes.get(oid)
            if _imports and len(nodes) < len(commits):
                done = pulling.bring(source.repo, source, refs)
                node = done.nodes.get(ref)
                if node is None:
                    raise error.InputError(
                        _(b"'%s' is not a commit") % key,
                        hint=_(b"pull a branch, or a tag of a commit"),
                    )
            oid = node or oid
        return bytes(bin_node(oid))

    def listkeys(self, namespace: bytes) -> dict[bytes, bytes]:
        """Return nodes of bookmarks, in hex; nothing of other namespaces."""
        if namespace == b"namespaces":
            return {b"bookmarks": b"", b"namespaces": b""}
        if namespace != b"bookmarks":
            return {}
        advertised, repo = self.source.advertised, self.source.repo
        refs = bookmarks.by_name(self.source.chosen, advertised.oids)
        oids = {name: advertised.commit(ref) for name, ref in refs.items()}
        nodes = pulling.known(repo, oids.values()) if repo is not None else {}
        return {name: nodes.get(oid, oid) for name, oid in oids.items()}

    def heads(self) -> list[bytes]:
        """Return the oids of all branches."""
        oids = self.source.advertised.oids
        return [bytes(bin_node(oids[ref])) for ref in oids if ref.startswith(HEADS)]

    def url(self) -> bytes:
        """Return the location."""
        return self.source.location

    def local(self) -> None:
        """Return that it is no repository of Mercurial's."""

    def peer(self, *_args: Any, **_kwargs: Any) -> GitPeer:
        """Return itself: Mercurial makes peers of local repositories."""
        return self

    def filtered(self, _name: bytes, *_args: Any) -> GitPeer:
        """Return itself, as ``peer`` does."""
        return self

    def canpush(self) -> bool:
        """Return that ``hg push`` takes it."""
        return True

    def close(self) -> None:
        """End the progress bar, and print the messages that are left."""
        self.source.close()
        tell(self.source.told_later)

    def capabilities(self) -> set[bytes]:
        """Return all that Mercurial may ask."""
        return {b"lookup", b"branchmap"}

    _capabilities = capabilities

    def capable(self, name: bytes) -> bool:
        """Return whether Mercurial may ask for ``name``."""
        return name in self.capabilities()

    is_capable = capable

    def cap_value(self, _name: bytes) -> bytes:
        """Return the value of a capability: none has one."""
        return b""

    def requirecap(self, name: bytes, _purpose: bytes) -> None:
        """Abort if Mercurial may not ask for ``name``."""
        if not self.capable(name):
            self._refuse()

    def commandexecutor(self) -> _Executor:
        """Return an object that calls methods by names of commands."""
        return _Executor(self)

    def pushkey(self, *_args: Any) -> bool:
        """Return that nothing was changed."""
        return False

    def branchmap(self) -> _Branches:
        """Return the branches of git, for ``--branch``."""
        return _Branches(self.source)

    def _refuse(self, *_args: Any, **_kwargs: Any) -> Any:
        raise error.Abort(
            _(b"'%s' is a git repository, and does not answer this")
            % self.source.remote.shown,
            hint=_(b"pull from it first, and ask the local repository"),
        )

    known = clonebundles = clonebundles_manifest = debugwireargs = _refuse
    getbundle = stream_out = unbundle = get_cached_bundle_inline = _refuse


class _Branches:
    """The commits of branches by name, as a branch map of Mercurial."""

    def __init__(self, source: GitSource) -> None:
        self._source = source

    def __contains__(self, name: bytes) -> bool:
        return self._ref(name) in self._source.advertised.oids

    def __getitem__(self, name: bytes) -> list[bytes]:
        ref = self._ref(name)
        self._source.looked_up.append(ref)
        return [bytes(bin_node(self._source.advertised.oids[ref]))]

    def branchheads(self, name: bytes, *_args: Any, **_kwargs: Any) -> list[bytes]:
        """Return the commit of a branch."""
        return self[name]

    @staticmethod
    def _ref(name: bytes) -> bytes:
        return HEADS + bytes(encoding.fromlocal(name))


class _Executor:
    """Calls methods of a peer at once."""

    def __init__(self, peer: GitPeer) -> None:
        self._peer = peer

    def __enter__(self) -> _Executor:
        return self

    def __exit__(self, *_args: Any) -> None:
        pass

    def sendcommands(self) -> None:
        """Return, since all were sent."""

    def close(self) -> None:
        """Return, as ``sendcommands``."""

    def callcommand(self, name: bytes, args: dict[Any, Any]) -> Future[Any]:
        """Call the method ``name``."""
        made: Future[Any] = Future()
        named = {os.fsdecode(key): value for key, value in args.items()}
        try:
            made.set_result(getattr(self._peer, os.fsdecode(name))(**named))
        except BaseException as exc:
            made.set_exception(exc)
        return made
