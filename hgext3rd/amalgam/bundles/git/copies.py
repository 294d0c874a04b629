"""Whether a pack of the store can be in a bundle as it is, and what then is missing.

A first export of many changesets makes a pack of all that git clients need of them,
and no more. If a bundle has nearly all of that, copying it takes a tenth of the time
that git needs to look at each object. Reads maps and indexes of packs.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING

from ...gitstore.git import idx
from ...gitstore.state.oidmap import ID_LEN, Table
from ...records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Set as AbstractSet

    from ...gitstore.state.docket import Docket
    from ...gitstore.state.oidmap import OidMap
    from ...gitstore.state.selection import Selection
    from ...gitstore.store import GitStore
    from ...placement import Directory
    from .packs import PackRequest

# Of a bundle's changesets, so many may be added that no name leads to: heads of
# branches that are not their tips. They are shown to all that may have the bundle.
_UNNAMED_SHARE = 0.04
# and so many must be in the pack, or it is better to let git do all
_LEAST_SHARE = 0.5
_PAIR_LEN = 2 * ID_LEN


class Copy(Record):
    """A pack that is to be copied. It has all that its commits lead to."""

    packs: Directory
    """Where it is."""
    pack: str
    """Its name, without suffix."""
    heads: tuple[bytes, ...]
    """Those of its commits that are no parents of others: all that they lead to need
    not be packed again."""
    is_all: bool
    """Whether it has all commits that are wanted."""

    def rest(self, wanted: PackRequest) -> PackRequest:
        """Return what of ``wanted`` is to follow the copy."""
        name = os.fsencode(self.pack) + b".pack"
        return wanted._replace(known=self.heads, kept_packs=(name,))

    def followed_by(self, rest: Iterator[bytes]) -> Iterator[bytes]:
        """Return the pieces of ``rest``, once git has decided what is in it.

        ``FileNotFoundError`` if a roll-up has removed the copied pack before that: then
        git may have packed objects of it again.
        """
        first = next(rest, b"")
        self.packs.stat(os.fsencode(self.pack) + b".idx")
        return itertools.chain([first], rest)


def find(
    store: GitStore, docket: Docket, revs: AbstractSet[int], may_add: Selection | None
) -> Copy | None:
    """Return the pack to copy for a bundle of ``revs``, if there is one.

    Few changesets besides may be in it, if they are of ``may_add``.
    """
    repository = store.repository
    complete = docket.base.complete or docket.drafts.complete
    if not complete:
        return None
    packs = repository.packs_directory
    changelog = store.repo.unfiltered().changelog
    rev_of = changelog.index.get_rev
    with contextlib.closing(store.open_map(docket)) as oidmap:
        with idx.opened(packs, complete) as index:
            there = {rev_of(node) for node, oid in _commits(oidmap) if index.has(oid)}
        parents = {
            parent
            for rev in there
            if rev is not None
            for parent in changelog.parentrevs(rev)
        }
        heads = [rev for rev in there - parents if rev is not None]
        oids = oidmap.oids([changelog.node(rev) for rev in heads])
    unnamed = there - revs
    if len(there) - len(unnamed) < _LEAST_SHARE * len(revs):
        return None
    if len(unnamed) > _UNNAMED_SHARE * len(revs):
        return None
    for rev in unnamed:
        # one that is gone has no revision
        if rev is None or may_add is None or rev in may_add.excluded:
            return None
    repository.git.check()
    found = tuple(sorted(filter(None, oids)))
    return Copy(packs, complete, found, is_all=there >= revs)


def _commits(oidmap: OidMap) -> Iterator[tuple[bytes, bytes]]:
    """Yield the node of each changeset, and the oid of its commit."""
    for pairs, _count in oidmap.pairs(Table.CHANGESETS):
        for at in range(0, len(pairs), _PAIR_LEN):
            yield pairs[at : at + ID_LEN], pairs[at + ID_LEN : at + _PAIR_LEN]
