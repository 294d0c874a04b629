"""All changesets at once, which Mercurial need not look for one by one.

``hg bundle`` walks the graph for the changesets that are missing, asks a revset whether
internal ones are among them, and makes an ``outgoing`` of the list. Mercurial then
looks for the descendants of all of them, the heads of those, and makes a second list.
If the list has every changeset, it is the answer.

Does not decide which changesets leave.
"""

from __future__ import annotations

import array
import operator
import weakref
from typing import TYPE_CHECKING, Any

from mercurial import discovery, extensions, localrepo

from ..config import wants_native_bundles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from mercurial.interfaces.types import RepoT

# what ``hg bundle`` asks about all that is missing
_INTERNAL_MISSING = b"%ln and _internal()"
_node = operator.itemgetter(7)

# every ``outgoing`` of a repository that wants native bundles
_native: weakref.WeakSet[Any] = weakref.WeakSet()


def install() -> None:
    """Wrap how an ``outgoing`` is made."""
    extensions.wrapfunction(discovery.outgoing, "__init__", _init)
    extensions.wrapfunction(
        discovery.outgoing, "_computecommonmissing", _compute_missing
    )
    extensions.wrapfunction(localrepo.localrepository, "revs", _revs)


def numbers(repo: RepoT, nodes: Sequence[bytes]) -> array.array[int]:
    """Return the revisions of changesets, 4 bytes each."""
    if _is_whole(repo, nodes):
        return array.array("I", repo.changelog)
    return array.array("I", map(repo.unfiltered().changelog.rev, nodes))


def _init(
    orig: Callable[..., None],
    outgoing: Any,
    repo: RepoT,
    commonheads: Collection[bytes] | None = None,
    ancestorsof: Collection[bytes] | None = None,
    missingroots: Collection[bytes] | None = None,
) -> None:
    if commonheads is None and _are_all(repo, ancestorsof, missingroots):
        orig(outgoing, repo, [repo.nullid], repo.changelog.heads())
        outgoing._common, outgoing._missing = set(), missingroots
        return
    orig(outgoing, repo, commonheads, ancestorsof, missingroots)
    if wants_native_bundles(repo.ui):
        _native.add(outgoing)


def _are_all(
    repo: RepoT,
    ancestorsof: Collection[bytes] | None,
    missingroots: Collection[bytes] | None,
) -> bool:
    """Tell whether roots are all changesets in order, and heads are all heads."""
    if not isinstance(missingroots, list) or not wants_native_bundles(repo.ui):
        return False
    changelog = repo.changelog
    return (
        len(missingroots) > 0
        and (ancestorsof is None or {*ancestorsof} == {*changelog.heads()})
        and _is_whole(repo, missingroots)
    )


def _compute_missing(orig: Callable[[Any], None], outgoing: Any) -> None:
    """Find what is missing: of an empty receiver, all changesets."""
    changelog = outgoing._revlog
    if (
        outgoing not in _native
        or outgoing.commonheads != [changelog.nullid]
        or {*outgoing.ancestorsof} != {*changelog.heads()}
    ):
        orig(outgoing)
        return
    outgoing._common, outgoing._missing = set(), [*_nodes(changelog)]


def _revs(orig: Callable[..., Any], repo: RepoT, expr: bytes, *args: Any) -> Any:
    """Return a revset; without internal changesets, no list has some."""
    if expr == _INTERNAL_MISSING:
        internal = orig(repo, b"_internal()")
        if not internal:
            return internal
    return orig(repo, expr, *args)


def _is_whole(repo: RepoT, nodes: Sequence[bytes]) -> bool:
    """Tell whether nodes are those of all visible changesets, in order."""
    changelog = repo.changelog
    return len(nodes) == len(changelog) - len(changelog.filteredrevs) and all(
        map(operator.eq, nodes, _nodes(changelog))
    )


def _nodes(changelog: Any) -> Iterator[bytes]:
    """Yield the nodes of all visible changesets, without the calls of ``node``."""
    return map(_node, map(changelog.index.__getitem__, changelog))
