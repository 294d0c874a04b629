"""The changesets of a bundle, its refs, and its prerequisites.

The refs are those of a clone of these changesets. Branches that leave a chosen part of
the history end where the part ends. Knows Mercurial only, no git objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.node import nullid, nullrev, short

from ..gitstore import selection
from ..gitstore.git.refs import HEADS, TAGS, NamedNodes
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from mercurial.interfaces.types import RepoT


_SHOWN = (HEADS, TAGS)


def refs_of(
    view: RepoT, kinds: Iterable[bytes], main_line: bytes, revs: Collection[int] | None
) -> tuple[dict[bytes, bytes], bytes]:
    """Return refs, name to node, and the name that HEAD leads to, or would.

    ``kinds`` is the value of ``amalgam.git.refs``, ``main_line`` as for ``NamedNodes``;
    ``revs`` are changesets of ``view`` and all their ancestors, ``None`` for all.
    """
    kinds = frozenset(kinds)
    if revs is None:
        names = NamedNodes.of(view, kinds, main_line)
    else:
        names = _of_part(view, kinds, main_line, revs)
    refs, head = names.refs()
    return {name: node for name, node in refs.items() if name.startswith(_SHOWN)}, head


def _of_part(
    view: RepoT, kinds: frozenset[bytes], main_line: bytes, revs: Collection[int]
) -> NamedNodes:
    """Return the names in a part of the history."""
    names = NamedNodes.of(view, kinds - {b"tips", b"heads"}, main_line)
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
        shows_tips=b"tips" in kinds,
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


HEAD = b"HEAD"


class NothingToBundleError(error.InputError):
    """No changeset is left to put into a bundle."""

    def __init__(self) -> None:
        super().__init__(_(b"no changesets to bundle"))


class Part(Record):
    """Some changesets."""

    revs: frozenset[int]
    """The changesets."""
    refs: dict[bytes, bytes]
    """Names of some of them, from which all are reached."""
    is_all: bool
    """Whether it is all that may leave and has a name."""
    boundary: tuple[bytes, ...]
    """Parents of them that are not among them."""
    heads: tuple[bytes, ...]
    """Those, and of those that they are based on, which have no children there."""


def check(repo: RepoT, export: bytes, nodes: Iterable[bytes]) -> None:
    """``InputError`` if one of ``nodes`` may not leave (``amalgam.git.export``)."""
    _revs(selection.view_of(repo, export), nodes)


def named(
    repo: RepoT,
    export: bytes,
    kinds: Iterable[bytes],
    main_line: bytes,
    nodes: Sequence[bytes] | None,
    base: Sequence[bytes],
    *,
    tips_only: bool,
) -> Part:
    """Return the part of the history for git clients: names and their ancestors.

    ``export``: the selection (``amalgam.git.export``). ``kinds``: the kinds of names
    (``amalgam.git.refs``); ``main_line``: as for ``NamedNodes``. ``nodes``: only these
    and their ancestors; ``base``: without these and theirs. ``tips_only``: only
    branches that no other branch contains.
    ``InputError`` if a node is not allowed, or no changeset is left.
    """
    view = selection.view_of(repo, export)
    changelog = view.changelog
    revs = None
    if nodes is not None:
        tips = _revs(view, nodes)
        revs = {*changelog.ancestors(tips, inclusive=True)} - {nullrev}
        if len(revs) == len(changelog) - len(changelog.filteredrevs):
            revs = None  # these are all
    refs, head = refs_of(view, kinds, main_line, revs)
    if tips_only:
        refs = _tips_only(view, refs)
    known = {*changelog.ancestors(_revs(view, base), inclusive=True)}
    named_revs = {*map(changelog.rev, refs.values())}
    fresh = {*changelog.ancestors(named_revs, inclusive=True)} - known
    if not fresh:
        raise NothingToBundleError
    refs = {name: node for name, node in refs.items() if changelog.rev(node) in fresh}
    if head in refs and not tips_only:
        refs = {HEAD: refs[head], **refs}
    parents = {parent for rev in fresh for parent in changelog.parentrevs(rev)}
    boundary = sorted(parents - fresh - {nullrev})
    heads = _heads(view, {*named_revs, *_revs(view, base)})
    node = changelog.node
    return Part(
        revs=frozenset(fresh),
        refs=refs,
        is_all=revs is None and not known,
        boundary=tuple(map(node, boundary)),
        heads=tuple(map(node, heads)),
    )


def _revs(view: RepoT, nodes: Iterable[bytes]) -> list[int]:
    """Return the revisions of ``nodes``, in their order, but the null revision."""
    changelog = view.changelog
    revs = []
    for node in nodes:
        if node == nullid:
            continue
        if not changelog.hasnode(node):
            raise error.InputError(
                _(b"changeset %s may not be bundled") % short(node),
                hint=_(b"bundles contain no secret or hidden changesets"),
            )
        revs.append(changelog.rev(node))
    return revs


def _heads(view: RepoT, revs: Collection[int]) -> list[int]:
    """Return the heads of ``revs``, ascending."""
    ancestors = view.changelog.ancestors(revs)
    return [rev for rev in sorted(revs) if rev not in ancestors]


def _tips_only(view: RepoT, refs: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return one name, of a branch, for each commit that no other branch has in it."""
    branches = {
        node: name for name, node in sorted(refs.items()) if name.startswith(HEADS)
    }
    rev = view.changelog.rev
    heads = _heads(view, {rev(node) for node in branches})
    return {branches[node]: node for node in map(view.changelog.node, heads)}
