"""Rules for the names of a remote: bookmarks of its branches, and public refs.

As with hg-git, a branch is the bookmark of its name, followed by the value of
``git.branch_bookmark_suffix``. ``amalgam.bookmarks``, a sub-option of a path, has
patterns of branches that become bookmarks. Without it, all branches do; of a remote
with many branches, only those that somebody asked for, and the one that it checks out.

The checked-out branch and all tags are public, unless hg-git's items for that say
otherwise: ``hg-git.publish`` of a path, ``git.public`` and ``hggit.usephases``. In its
dialect, remotes on this machine publish nothing without such an item.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING

from mercurial import encoding, error, obsutil, scmutil
from mercurial.i18n import _
from mercurial.utils import stringutil, urlutil

from ..config import setting
from ..configitems import HGGIT_DIALECT
from ..terminal import one_line
from .source import HEAD, HEADS, TAGS, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.fetchedrefs import RefLines

MOST = 100
"""Branches that all become bookmarks."""


def name_of(ui: UiT, ref: bytes) -> bytes:
    """Return the bookmark of a branch."""
    return shown(ref.removeprefix(HEADS) + encoding.fromlocal(_suffix(ui)))


def by_name(ui: UiT, refs: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the branches among ``refs`` by their bookmarks."""
    suffix = encoding.fromlocal(_suffix(ui))
    return {
        shown(ref.removeprefix(HEADS) + suffix): ref
        for ref in refs
        if ref.startswith(HEADS)
    }


def ref_of(ui: UiT, bookmark: bytes) -> bytes:
    """Return the branch of a bookmark."""
    name: bytes = encoding.fromlocal(bookmark)
    return HEADS + name.removesuffix(encoding.fromlocal(_suffix(ui)))


def _suffix(ui: UiT) -> bytes:
    return setting(ui, b"git", b"branch_bookmark_suffix") or b""


def has_suffix(ui: UiT) -> bool:
    """Return whether bookmarks have other names than their branches."""
    return bool(_suffix(ui))


def wants_pruning(ui: UiT) -> bool:
    """Return whether bookmarks go with their branches, as hg-git's item says."""
    given = setting(ui, b"git", b"pull-prune-bookmarks") or b""
    return stringutil.parsebool(given) is not False


def wants_pruning_of_names(ui: UiT) -> bool:
    """Return whether ``default/NAME`` goes with its branch, as hg-git's item says."""
    given = setting(ui, b"git", b"pull-prune-remote-branches") or b""
    return stringutil.parsebool(given) is not False


def _option(ui: UiT, remote: bytes, name: bytes) -> bytes | None:
    """Return the value of a sub-option of the path ``remote``, or of all paths."""
    for path in (remote, b"*"):
        value = setting(ui, b"paths", b"%s:%s" % (path, name))
        if value is not None:
            return value
    return None


def wanted(
    repo: RepoT,
    remote: bytes,
    nodes: Mapping[bytes, bytes],
    asked: Collection[bytes],
    count: int,
) -> dict[bytes, bytes]:
    """Return nodes of bookmarks for the branches ``nodes`` of a path ``remote``.

    ``asked`` are branches that become bookmarks in any case, ``count`` how many the
    remote has. Names that no bookmark can have are left out.
    """
    usual, bookmarks, found = UsualBranches(repo.ui, remote, count), repo._bookmarks, {}
    for ref, node in nodes.items():
        name = name_of(repo.ui, ref)
        if ref in asked or ref in usual or name in bookmarks:
            try:
                scmutil.checknewlabel(repo, name, b"bookmark")
            except error.InputError:
                continue
            found[name] = node
    return found


class UsualBranches:
    """The branches of a remote that become bookmarks though nobody asks for them."""

    def __init__(self, ui: UiT, remote: bytes, count: int) -> None:
        """``count``: how many branches the remote has."""
        chosen = _option(ui, remote, b"amalgam.bookmarks")
        self.are_all = chosen is None and count <= MOST
        parts = [
            fnmatch.translate(it.decode("latin-1"))
            for it in stringutil.parselist(chosen or b"")
        ]
        self._pattern = re.compile("|".join(parts).encode("latin-1")) if parts else None
        self.are_none = not self.are_all and self._pattern is None

    def __contains__(self, ref: bytes) -> bool:
        """Return whether ``ref``, a branch, is one of them."""
        if self._pattern is None:
            return self.are_all
        return self._pattern.match(shown(ref.removeprefix(HEADS))) is not None


def is_of_hggit(ui: UiT) -> bool:
    """Return whether remotes are to look as with hg-git."""
    return setting(ui, b"amalgam", b"git.dialect") == HGGIT_DIALECT


def _is_local(ui: UiT, remote: bytes) -> bool:
    """Return whether a remote is on this machine, or has no name."""
    location = setting(ui, b"paths", remote)
    return not location or bool(urlutil.url(location).islocal())


def follow(
    repo: RepoT,
    wanted: Mapping[bytes, bytes],
    get_transaction: Callable[[], Any],
    *,
    tells: bool,
) -> None:
    """Let bookmarks follow the branches ``wanted`` as with hg-git.

    Forward, and to successors; others stay. ``get_transaction`` begins one. ``tells``
    of each.
    """
    unfiltered, changes = repo.unfiltered(), []
    is_below = unfiltered.changelog.isancestor
    for name, node in sorted(wanted.items()):
        here = repo._bookmarks.get(name)
        if here == node:
            continue
        text = _(b"updating bookmark %s")
        if here is None:
            text = _(b"adding bookmark %s")
        elif not is_below(here, node) and node not in obsutil.foreground(
            unfiltered, [here]
        ):
            repo.ui.status(one_line(_(b"not updating diverged bookmark %s") % name))
            continue
        if tells:
            repo.ui.status(one_line(text % name))
        changes.append((name, node))
    if changes:
        repo._bookmarks.applychanges(repo, get_transaction(), changes)


def require_one_rule(ui: UiT, remotes: Sequence[bytes]) -> None:
    """Abort if names of one remote have different rules for public refs."""
    rules = set()
    for name in remotes:
        given = _option(ui, name, b"hg-git.publish")
        switch = stringutil.parsebool(given) if given else None
        names = stringutil.parselist(given) if given and switch is None else ()
        rules.add((given is None, switch, frozenset(names)))
    if len(rules) > 1:
        raise error.Abort(
            _(b"different publishing configurations for the same remote location"),
            hint=_(b"conflicting paths: %s") % b", ".join(sorted(remotes)),
        )


class PublicRefs:
    """The refs of a remote whose changesets are public."""

    def __init__(self, ui: UiT, remote: bytes, head: bytes) -> None:
        """``remote``: its name in ``[paths]``; ``head``: the checked-out ref."""
        given = _option(ui, remote, b"hg-git.publish")
        listed = stringutil.parselist(given) if given else []
        switch = stringutil.parsebool(given) if given else None
        if given is None:
            listed = stringutil.parselist(setting(ui, b"git", b"public") or b"")
            switch = None if listed else True
            uses = setting(ui, b"hggit", b"usephases")
            if uses is None and is_of_hggit(ui) and _is_local(ui, remote):
                uses = b"no"
            if stringutil.parsebool(uses or b"") is False:
                listed, switch = [], False
        self._is_usual = switch is True
        names = listed if switch is None else []
        self._names = {*names, *(it.removeprefix(remote + b"/") for it in names)}
        self._head = head or HEAD

    def among(self, refs: RefLines) -> tuple[list[bytes], set[bytes]]:
        """Return the names of public refs that are not tags, and nodes of the others.

        Either may name refs that are not in ``refs``.
        """
        if self._is_usual:
            return [self._head], refs.nodes(TAGS)
        names = [bytes(encoding.fromlocal(it)) for it in self._names]
        return [prefix + it for prefix in (HEADS, TAGS) for it in names], set()

    def text(self, ref: bytes) -> bytes:
        """Return the words of hg-git about a public ref."""
        if ref.startswith(TAGS):
            return bytes(_(b"publishing tag %s") % shown(ref.removeprefix(TAGS)))
        if self._is_usual:
            return bytes(_(b"publishing remote HEAD"))
        return bytes(_(b"publishing branch %s") % shown(ref.removeprefix(HEADS)))

    def __contains__(self, ref: bytes) -> bool:
        """Return whether ``ref`` is public."""
        if self._is_usual:
            return ref == self._head or ref.startswith(TAGS)
        for prefix in (HEADS, TAGS):
            if ref.startswith(prefix):
                return shown(ref.removeprefix(prefix)) in self._names
        return False
