"""The bundles that a git client starts from and goes on with: a base and increments.

Each has a creation token (git-bundle-uri(5), "creationToken"): a client takes those
above the largest that it has, so tokens only grow, from 1. An increment needs all that
is below it. A new base takes over the largest token of what it replaces: were it given
a fresh one, every client would download the whole of it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...config import GIT_V2
from ...records import Record
from .formats import increment, is_increment, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .register import Entry

MOST_INCREMENTS = 7
KEPT_INCREMENTS = 4
"""Those that remain when the older ones become part of a new base. A client that is
behind by no more than these never takes the base again."""


class Link(Record):
    """A bundle in the chain."""

    bundle: Any
    """As in the state of Mercurial's extension."""
    entry: Entry


def chain_of(bundles: Iterable[Any], is_valid: Callable[[Any], bool]) -> list[Link]:
    """Return the base and what builds upon it, oldest first; nothing without a base."""
    links = [
        Link(bundle, bundle.entry)
        for bundle in bundles
        if bundle.ready and bundle.entry is not None
        if kind_of(bundle.bundle_type) == GIT_V2 and is_valid(bundle)
    ]
    bases = [link for link in links if not is_increment(link.bundle.bundle_type)]
    if not bases:
        return []
    found = [max(bases, key=lambda link: (link.entry.token, link.entry.revs))]
    increments = {
        link.entry.token: link
        for link in links
        if is_increment(link.bundle.bundle_type)
    }
    for token in sorted(increments):
        if increments[token].entry.follows == found[-1].entry.token < token:
            found.append(increments[token])
    return found


def outdated(bundles: Iterable[Any], chain: Sequence[Link]) -> list[Any]:
    """Return the bundles for git-v2 that are ready and not in ``chain``."""
    kept = [link.bundle for link in chain]
    return [
        bundle
        for bundle in bundles
        if bundle.ready and kind_of(bundle.bundle_type) == GIT_V2
        if not any(bundle is other for other in kept)
    ]


class BundleRequest(Record):
    """A bundle of git-v2 that is to be made."""

    type: bytes
    upto: Entry | None = None
    """It is to have what this one has; ``None``: all that there is today."""


def wanted(
    chain: Sequence[Link], heads: str, last_token: int, threshold: float
) -> list[BundleRequest]:
    """Return what to make, in this order.

    ``heads``: the set of what there is today. ``threshold``: the chain must have more
    revisions than that.
    """
    if not chain:
        return [BundleRequest(GIT_V2)]
    top = chain[-1].entry
    due = top.revs <= threshold and heads != top.heads
    found = [BundleRequest(increment(last_token + 1))] if due else []
    increments = chain[1:]
    if len(increments) + len(found) > MOST_INCREMENTS:
        swallowed = len(increments) + len(found) - KEPT_INCREMENTS
        found.append(BundleRequest(GIT_V2, increments[swallowed - 1].entry))
    return found
