"""Names of changesets by refs of git remotes: ``default/BRANCH``, and git's tags.

They are namespaces of Mercurial beside its own tags and bookmarks. The refs that the
last pulls have recorded are read when a name is first needed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mercurial import error, namespaces, repoview
from mercurial.i18n import _
from mercurial.node import bin as bin_node, hex as hex_node
from mercurial.utils import stringutil

from ..config import GitConfig, warn_once
from ..gitstore.store import GitStore
from . import pulling
from .bookmarks import is_of_hggit
from .fetched import Fetched
from .source import HEADS, TAGS, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mercurial.interfaces.types import RepoT

REMOTES, GIT_TAGS = b"gitbranches", b"gittags"


class _Names:
    """Names of one namespace with their nodes, as the files have them now."""

    def __init__(
        self,
        repo: RepoT,
        name_of: Callable[[bytes, bytes], bytes],
        *,
        is_single: bool = False,
    ) -> None:
        """``name_of`` makes names of a remote and a ref; others are empty.

        ``is_single``: of equal names, that of the first remote counts (``ranked``).
        """
        self._is_single = is_single
        self._path = os.path.join(repo.sharedpath, b"amalgam", b"fetched")
        self._name_of = name_of
        self._seen: int | None = None
        self._nodes: dict[bytes, list[bytes]] = {}
        self._names: dict[bytes, list[bytes]] = {}

    def nodes(self, repo: RepoT, name: bytes) -> list[bytes]:
        """Return the changesets of ``name`` that ``repo`` shows."""
        self._read(repo)
        has = repo.changelog.hasnode
        return [node for node in self._nodes.get(name, ()) if has(node)]

    def names(self, repo: RepoT, node: bytes) -> list[bytes]:
        """Return the names of a changeset."""
        self._read(repo)
        return self._names.get(node, [])

    def all(self, repo: RepoT) -> Iterable[bytes]:
        """Return all names."""
        self._read(repo)
        return self._nodes

    def _read(self, repo: RepoT) -> None:
        if self._seen is None:
            try:
                pulling.opened(repo)
            except (error.Abort, error.StorageError) as exc:
                # log and other commands go on
                warn_once(repo.ui, stringutil.forcebytestr(exc), exc.hint)
        try:
            seen = os.stat(self._path).st_mtime_ns
        except FileNotFoundError:
            seen = 0
        if seen == self._seen:
            return
        found: dict[bytes, dict[bytes, None]] = {}
        for name, node in self._found(repo):
            those = found.setdefault(name, {})
            if not (those and self._is_single):
                those[node] = None
        self._seen = seen
        self._nodes = {name: [*nodes] for name, nodes in found.items()}
        self._names = {}
        for name, nodes in sorted(self._nodes.items()):
            for node in nodes:
                self._names.setdefault(node, []).append(name)

    def _found(self, repo: RepoT) -> Iterable[tuple[bytes, bytes]]:
        fetched = Fetched(GitStore(repo, GitConfig.from_ui(repo.ui)))
        for remote in fetched.ranked():
            refs, names = fetched.refs(remote), [remote]
            if is_of_hggit(repo.ui):
                names = pulling.names_of(repo, remote)
            for known_as in names:
                for ref, it in refs.items():
                    if it.node and (name := self._name_of(known_as, ref)):
                        yield name, bin_node(it.node)


def _remote_name(remote: bytes, ref: bytes) -> bytes:
    if not ref.startswith(HEADS) or remote.startswith(b"url-"):
        return b""
    return remote + b"/" + shown(ref.removeprefix(HEADS))


def _tag_name(_remote: bytes, ref: bytes) -> bytes:
    return shown(ref.removeprefix(TAGS)) if ref.startswith(TAGS) else b""


def add_namespaces(repo: RepoT) -> None:
    """Add the namespaces to a repository.

    In the dialect of hg-git, names are tags, too.
    """
    is_hggit, made_names = is_of_hggit(repo.ui), {}
    rows: Mapping[bytes, tuple[bytes, bytes, Callable[[bytes, bytes], bytes]]] = {
        REMOTES: (b"gitbranch", _(b"git branch"), _remote_name),
        GIT_TAGS: (b"gittag", _(b"git tag"), _tag_name),
    }
    for name, (template, shown_as, name_of) in rows.items():
        is_single = name == GIT_TAGS
        names = made_names[name] = _Names(repo, name_of, is_single=is_single)
        made = namespaces.namespace(
            name,
            templatename=template,
            logname=shown_as,
            logfmt=b"%.0s" if is_hggit else None,
            colorname=b"tag",
            listnames=names.all,
            namemap=names.nodes,
            nodemap=names.names,
        )
        repo.names.addnamespace(made)
    if is_hggit:
        _add_tags(repo, made_names[GIT_TAGS], made_names[REMOTES])


def pinned(orig: Callable[[RepoT], set[int]], repo: RepoT) -> set[int]:
    """Replace ``repoview.pinnedrevs``: with hg-git, names are like bookmarks.

    They are read as they were recorded: names of hg-git are taken over later.
    """
    revs = orig(repo)
    if is_of_hggit(repo.ui) and repo.names.get(REMOTES) is not None:
        node = repo.unfiltered().changelog.node
        fetched = Fetched(GitStore(repo, GitConfig.from_ui(repo.ui)))
        named = set().union(*(fetched.lines(it).nodes() for it in fetched.remotes()))
        # no others can be hidden
        hideable = repoview.hideablerevs(repo.unfiltered())
        revs.update(it for it in hideable if hex_node(node(it)) in named)
    return revs


def _add_tags(repo: RepoT, git_tags: _Names, remotes: _Names) -> None:
    """Let names be tags of Mercurial, of the kinds that hg-git has."""

    class taggedrepo(repo.__class__):  # noqa: N801
        """Has names of git among its tags."""

        def _findtags(self) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
            tags, kinds = super()._findtags()
            for names, kind in ((git_tags, b"git"), (remotes, b"git-remote")):
                for name in names.all(self):
                    nodes = names.nodes(self, name)
                    if nodes and name not in tags:
                        tags[name], kinds[name] = nodes[0], kind
            return tags, kinds

    repo.__class__ = taggedrepo
