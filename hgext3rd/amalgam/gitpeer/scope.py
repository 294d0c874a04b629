"""The refs that a pull of everything looks at.

A remote may have 100,000 refs, and few of them change from pull to pull. So the
listing of the last pull is kept beside the refs that it had. A ref whose lines are the
same in both listings needs a look only for a reason that is here: a changeset is lost,
a bookmark or a phase is to follow. All others are left alone, and none of their lines
is parsed. Owns which refs these are; pulls treat them like all refs of a small remote.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mercurial import phases
from mercurial.node import bin as bin_node, hex as hex_node

from ..records import Record
from ..remote import storerefs
from ..remote.transport import Advertised
from . import bookmarks as marks
from .source import HEAD, HEADS, NOTES, TAGS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mercurial.interfaces.types import RepoT

    from ..gitstore.fetchedrefs import FetchedRef, RefLines
    from .fetched import Fetched
    from .source import GitSource

PULLED = (HEADS, TAGS, NOTES)
"""Where the refs are that a pull of everything has."""
_MOST = 2000
"""Refs that are looked at one by one; if more would be, all are."""
_PEELED = b"^{}"
_OF_HEAD = re.compile(rb"^.*\tHEAD$", re.MULTILINE)


class Scope(Record):
    """Refs of a remote: as they are now, and as they were at the last pull."""

    advertised: Advertised
    before: dict[bytes, FetchedRef]
    branches: int
    """How many branches the remote has, with those that are left out."""
    lines: RefLines | None = None
    """All refs of the last pull; ``None`` if none is left out."""

    @classmethod
    def whole(cls, source: GitSource, fetched: Fetched, remote: bytes) -> Scope:
        """Return all refs."""
        advertised = source.advertised
        count = sum(it.startswith(HEADS) for it in advertised.oids)
        return cls(advertised, fetched.refs(remote), count)

    @classmethod
    def of(
        cls,
        repo: RepoT,
        source: GitSource,
        fetched: Fetched,
        remote: bytes,
        asked: Collection[bytes] = (),
        *,
        leads: bool = False,
    ) -> Scope:
        """Return the refs that need a look, and refs ``asked`` for by name.

        ``leads``: all branches become bookmarks.
        """
        listing, head = fetched.listing(remote), _of_head(source.listing)
        if not listing or (not head and b"\tHEAD\n" in source.listing):
            return cls.whole(source, fetched, remote)
        old, new = _differing(listing, source.listing)
        added = new - old
        changed = {name for it in (added, old - new) for name in _names(it)}
        if len(changed) > _MOST:
            return cls.whole(source, fetched, remote)
        told = Advertised.parsed(
            b"\n".join((*head, *(it.replace(b" ", b"\t") for it in added)))
        )
        lines, count = fetched.lines(remote), source.listing.count(b"\t" + HEADS)
        names = changed.union(asked, _needed(repo, remote, lines, told.head))
        names.update(_with_bookmarks(repo, remote, lines, count, leads=leads))
        if len(names) > _MOST:
            return cls.whole(source, fetched, remote)
        before = lines.find(names)
        for name in before.keys() - changed:
            told.oids[name] = before[name].oid
            if before[name].commit != before[name].oid:
                told.peeled[name] = before[name].commit
        for name in before.keys() & changed:
            # another tag object for the same commit
            if b"\n%s\t%s^{}\n" % (before[name].commit, name) in source.listing:
                told.peeled[name] = before[name].commit
        oids = {
            name: oid
            for name, oid in told.oids.items()
            if name == HEAD or name.startswith(PULLED)
        }
        for name in asked:  # perhaps one that pulls of everything leave out
            if name in source.advertised.oids:
                oids[name] = source.advertised.oids[name]
                told.peeled[name] = source.advertised.commit(name)
        return cls(told._replace(oids=oids), before, count, lines)

    def is_met(self, refs: Mapping[bytes, FetchedRef]) -> bool:
        """Return whether ``refs`` are exactly those that are advertised.

        The remote may have changed one meanwhile.
        """
        oids = self.advertised.oids
        names = {it for it in oids if it.startswith(PULLED)}
        return names == refs.keys() and all(
            oids[name] == it.oid for name, it in refs.items()
        )


def _differing(old: bytes, new: bytes) -> tuple[set[bytes], set[bytes]]:
    """Return the lines of two listings, without most of those that both have."""
    was, now = set[bytes](), set[bytes]()
    given = (it.replace(b"\t", b" ") for it in (old, new))
    for before, after in storerefs.pieces(*given):
        was.update(before.splitlines())
        now.update(after.splitlines())
    return was, now


def _names(lines: Iterable[bytes]) -> Iterable[bytes]:
    """Return the refs in lines of a listing that pulls have."""
    names = (line.partition(b" ")[2].removesuffix(_PEELED) for line in lines)
    return (it for it in names if it.startswith(PULLED))


def _of_head(listing: bytes) -> list[bytes]:
    """Return the lines of ``HEAD``, which are the first ones, if any."""
    return _OF_HEAD.findall(listing[: listing.find(b"\trefs/")])


def _needed(repo: RepoT, remote: bytes, lines: RefLines, head: bytes) -> set[bytes]:
    """Return refs of ``lines`` that need a look since changesets here have changed."""
    unfiltered = repo.unfiltered()
    has, rev_of = unfiltered.changelog.hasnode, unfiltered.changelog.rev
    nodes = lines.nodes()
    wanted = {it for it in nodes if not has(bin_node(it))}
    hidden = unfiltered._phasecache.getrevset(unfiltered, phases.remotehiddenphases)
    node_of = unfiltered.changelog.node
    wanted |= nodes.intersection(hex_node(node_of(rev)) for rev in hidden)
    public, tagged = marks.PublicRefs(repo.ui, remote, head).among(lines)
    drafts = {*unfiltered._phasecache.getrevset(unfiltered, [phases.draft])}
    if drafts:
        wanted |= {it for it in tagged - wanted if rev_of(bin_node(it)) in drafts}
    return {head, *public, *(lines.with_nodes(wanted) if wanted else ())}


def _with_bookmarks(
    repo: RepoT, remote: bytes, lines: RefLines, count: int, *, leads: bool
) -> Iterable[bytes]:
    """Return branches whose bookmarks may be other ones than at the last pull."""
    here = repo._bookmarks
    if leads:
        nodes = dict(lines.pairs(HEADS))
        for name, ref in marks.by_name(repo.ui, nodes).items():
            if name not in here or hex_node(here[name]) != nodes[ref]:
                yield ref
        return
    usual = marks.UsualBranches(repo.ui, remote, count)
    yield from (marks.ref_of(repo.ui, it) for it in here)
    if not usual.are_none:
        yield from (it for it in lines.below(HEADS) if it in usual)
