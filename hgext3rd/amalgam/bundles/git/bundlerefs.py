"""Which names a bundle has: those that a clone of its changesets would have.

Names of what is not in the bundle are left out, and so are those that git clients are
not shown. Where a part of the history is chosen, its branches end where the part does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...gitstore.git.refs import HEADS, TAGS, NamedNodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mercurial.interfaces.types import RepoT

_SHOWN = (HEADS, TAGS)


def refs_of(
    view: RepoT, kinds: Iterable[bytes], revs: Collection[int] | None
) -> tuple[dict[bytes, bytes], bytes]:
    """Return refs, name to node, and the name that HEAD leads to, or would.

    ``kinds`` is the value of ``amalgam.git.refs``; ``revs`` are changesets of ``view``
    and all their ancestors, ``None`` for all that it has.
    """
    kinds = frozenset(kinds)
    if revs is None:
        refs, head = NamedNodes.of(view, kinds).refs()
    else:
        refs, head = _of_part(view, kinds, revs).refs()
    return {name: node for name, node in refs.items() if name.startswith(_SHOWN)}, head


def _of_part(view: RepoT, kinds: frozenset[bytes], revs: Collection[int]) -> NamedNodes:
    """Return what has a name in a part of the history."""
    names = NamedNodes.of(view, kinds - {b"tips", b"heads"})
    rev_of = view.changelog.rev
    node_of = view.changelog.node
    return names._replace(
        bookmarks={
            name: node for name, node in names.bookmarks.items() if rev_of(node) in revs
        },
        tags={name: node for name, node in names.tags.items() if rev_of(node) in revs},
        tips={
            branch: node_of(rev)
            for branch, rev in (_tips(view, revs) if b"tips" in kinds else {}).items()
        },
        tip_branch=view[max(revs, default=-1)].branch(),
    )


def _tips(view: RepoT, revs: Collection[int]) -> dict[bytes, int]:
    """Return the tip of each branch that is open in a part of the history.

    That is its last head which does not close it, as in ``mercurial.branchmap``.
    """
    changelog = view.changelog
    cache = view.revbranchcache()
    tips: dict[bytes, int] = {}
    closed: dict[bytes, list[int]] = {}
    for rev in sorted(revs, reverse=True):
        branch, closes = cache.branchinfo(rev)
        if branch in tips:
            continue
        heads = closed.get(branch, [])
        if heads and rev in changelog.ancestors(heads, stoprev=rev):
            continue
        if closes:
            closed.setdefault(branch, []).append(rev)
        else:
            tips[branch] = rev
    return tips
