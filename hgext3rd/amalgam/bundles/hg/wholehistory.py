"""Bundles of all changesets, of which Mercurial need not ask twice what they are.

``hg bundle`` lists the changesets that are missing, and then makes an ``outgoing`` of
that list. Mercurial looks for the descendants of all of them, the heads of those, and
makes a second list. If the list has every changeset, it is the answer.

Does not decide which changesets leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import discovery, extensions

from ...configitems import wants_native_bundles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from mercurial.interfaces.types import RepoT


def install() -> None:
    """Wrap how an ``outgoing`` is made."""
    extensions.wrapfunction(discovery.outgoing, "__init__", _init)


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


def _are_all(
    repo: RepoT,
    ancestorsof: Collection[bytes] | None,
    missingroots: Collection[bytes] | None,
) -> bool:
    """Tell whether roots are all changesets in order, and heads are all heads."""
    if not isinstance(missingroots, list) or not wants_native_bundles(repo.ui):
        return False
    changelog = repo.changelog
    node = repo.unfiltered().changelog.node
    count = len(changelog) - len(changelog.filteredrevs)
    return (
        0 < count == len(missingroots)
        and (ancestorsof is None or {*ancestorsof} == {*changelog.heads()})
        and all(map(bytes.__eq__, missingroots, map(node, changelog)))
    )
