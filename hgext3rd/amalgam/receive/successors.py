"""Obsolescence markers of a push that replaces drafts: an amend, a rebase, a squash.

git does not record successors of a commit. A forced branch shows them: commits that it
had before, and lacks now, are predecessors. Owns the pairing with new changesets. Knows
nothing of git.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import obsolete
from mercurial.i18n import _
from mercurial.node import short

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from mercurial.interfaces.types import RepoT

_OPERATION = b"push"
Relation = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Changesets, and those which replace them."""


def is_wanted(repo: RepoT) -> bool:
    """Return whether Mercurial would make markers here (``experimental.evolution``)."""
    return bool(obsolete.isenabled(repo, obsolete.createmarkersopt))


def replaced(repo: RepoT, old: bytes, new: bytes) -> list[Any]:
    """Return the drafts that a ref had at ``old`` and that ``new`` has not, by age."""
    found = repo.revs(b"only(%n, %n) and draft() and not obsolete()", old, new)
    return [repo[rev] for rev in sorted(found)]


def mark(
    repo: RepoT,
    moves: Iterable[tuple[bytes, bytes]],
    added: Collection[bytes],
    user: bytes,
) -> list[bytes]:
    """Make the markers of refs that move from a node to another, in a transaction.

    ``added``: nodes of this push. Return lines for the pusher.

    A branch may be on top of another one, and both may move. So the lower one is paired
    first, and its predecessors are not paired again. Allowed pairs are chosen at the
    end: changesets above one branch may be replaced by another.
    """
    repo = repo.unfiltered()
    relations: list[Relation] = []
    left: set[Any] = set()
    may_stay: set[Any] = set()
    paired: set[Any] = set()
    for old, new in sorted(moves, key=lambda move: repo[move[0]].rev()):
        gone = [ctx for ctx in replaced(repo, old, new) if ctx not in paired]
        gained = (repo[rev] for rev in sorted(repo.revs(b"only(%n, %n)", new, old)))
        brought = [ctx for ctx in gained if ctx.node() in added]
        found = _relations(gone, [ctx for ctx in brought if ctx not in paired])
        paired.update(ctx for it in found for side in it for ctx in side)
        relations += found
        left.update(gone)
        may_stay.update(gone if brought else ())
    relations = _allowed(repo, relations, left)
    if relations:
        metadata = {b"user": user} if user else None
        obsolete.createmarkers(repo, relations, metadata=metadata, operation=_OPERATION)
    kept = may_stay.difference(ctx for it in relations for ctx in it[0])
    if not kept:
        return []
    names = b", ".join(short(ctx.node()) for ctx in sorted(kept, key=_rev))
    return [_(b"warning: not replaced by the push, and still there for hg: %s") % names]


def _relations(left: Sequence[Any], brought: Sequence[Any]) -> list[Relation]:
    """Pair removed changesets with new ones.

    One new changeset replaces all. Of several, each replaces that of the same author
    and date: git keeps both when it amends or rebases. The last one on each side is a
    pair, too.
    """
    if not left or not brought:
        return []
    if len(brought) == 1:
        return [(tuple(left), (brought[0],))]
    old, new = _by_author(left), _by_author(brought)
    pairs = {
        was[0]: new[key][0]
        for key, was in old.items()
        if len(was) == 1 and len(new.get(key, ())) == 1
    }
    rest = [ctx for ctx in left if ctx not in pairs]
    others = [ctx for ctx in brought if ctx not in pairs.values()]
    if len(rest) == len(others) == 1:
        pairs[rest[0]] = others[0]
    return [((ctx,), (pairs[ctx],)) for ctx in left if ctx in pairs]


def _by_author(changesets: Iterable[Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for ctx in changesets:
        found.setdefault((ctx.user(), ctx.date()), []).append(ctx)
    return found


def _allowed(
    repo: RepoT, relations: list[Relation], left: Iterable[Any]
) -> list[Relation]:
    """Return the allowed pairs.

    Changesets of another bookmark stay. So do changesets with children that stay,
    unless Mercurial itself would leave these on an obsolete parent (``allowunstable``).
    """
    is_unstable = obsolete.isenabled(repo, obsolete.allowunstableopt)
    revs = [ctx.rev() for ctx in left]
    bookmarks = [*repo._bookmarks.values()]
    while True:
        marked = [ctx.rev() for it in relations for ctx in it[0]]
        alive = repo.revs(b"(%ld::) - %ld - obsolete()", revs, marked)
        if is_unstable:
            alive = []
        wanted = {*repo.revs(b"::%ln + ::%ld", bookmarks, alive)}
        allowed = [it for it in relations if wanted.isdisjoint(map(_rev, it[0]))]
        if len(allowed) == len(relations):
            return allowed
        relations = allowed  # one that stays may have paired ancestors


def _rev(ctx: Any) -> int:
    rev: int = ctx.rev()
    return rev
