"""The part ``cache:rev-branch-cache`` of bundles, the branch of each changeset.

Mercurial makes a set of the nodes of each branch before the first byte is written, and
keeps all of them until the last one. Here they are places in a list that is there, and
read from the records of the cache at once. The bytes are the same. Does not know who
asks for the part.
"""

from __future__ import annotations

import array
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from mercurial import bundle2, encoding, extensions

from ..config import wants_native_bundles
from . import wholehistory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mercurial.interfaces.types import RepoT

# of one branch: places of changesets that are open, and of those that close it
_Places = tuple["array.array[int]", "array.array[int]"]

# a record of the cache, in mercurial/branching/rev_cache.py: the beginning of the node,
# and the number of the branch with a flag for what closes it
_PREFIX_LEN, _RECORD_LEN, _CLOSES = 4, 8, 1 << 31
# nodes that are written at once
_BATCH = 4096


def install() -> None:
    """Wrap what adds the part."""
    extensions.wrapfunction(bundle2, "addpartrevbranchcache", _add)


def _add(orig: Callable[..., None], repo: RepoT, bundler: Any, outgoing: Any) -> None:
    if not wants_native_bundles(repo.ui):
        orig(repo, bundler, outgoing)
        return
    nodes = outgoing.missing
    revs = wholehistory.numbers(repo, nodes)
    cache = repo.revbranchcache()
    branches = _recorded(cache, revs, nodes) or _branches(cache, revs)
    content = _content(branches, nodes)
    bundler.newpart(b"cache:rev-branch-cache", data=content, mandatory=False)


def _branches(cache: Any, revs: Sequence[int]) -> dict[bytes, _Places]:
    found: dict[bytes, _Places] = {}
    for place, rev in enumerate(revs):
        branch, closes = cache.branchinfo(rev)
        _places(found, branch)[closes].append(place)
    return found


def _recorded(
    cache: Any, revs: Sequence[int], nodes: Sequence[bytes]
) -> dict[bytes, _Places] | None:
    """Return what the records of the cache say, or ``None`` if one is not right.

    Then Mercurial has to be asked for each, and mends the cache.
    """
    records, names = getattr(cache, "_rbcrevs", None), getattr(cache, "_names", None)
    if records is None or names is None:
        return None
    first, end = min(revs, default=0), max(revs, default=-1) + 1
    if first >= end or len(records) < end * _RECORD_LEN:
        return None
    part = bytes(records.slice(first * _RECORD_LEN, end * _RECORD_LEN))
    by_rev = array.array("Q", part)
    picked = array.array("Q", (by_rev[rev - first] for rev in revs))
    words = array.array("I", picked.tobytes())
    prefixes = b"".join([node[:_PREFIX_LEN] for node in nodes])
    if words[::2].tobytes() != prefixes or bytes(_PREFIX_LEN) in prefixes:
        return None
    numbers = words[1::2]
    if sys.byteorder == "little":
        numbers.byteswap()
    used = {*numbers}
    if any(number & ~_CLOSES >= len(names) for number in used):
        return None
    found: dict[bytes, _Places] = {}
    adders = {
        number: _places(found, names[number & ~_CLOSES])[number >= _CLOSES].append
        for number in used
    }
    for place, number in enumerate(numbers):
        adders[number](place)
    return found


def _places(found: dict[bytes, _Places], branch: bytes) -> _Places:
    return found.setdefault(branch, (array.array("I"), array.array("I")))


def _content(branches: dict[bytes, _Places], nodes: Sequence[bytes]) -> Iterator[bytes]:
    for branch, (places, closing) in sorted(branches.items()):
        name = encoding.fromlocal(branch)
        yield bundle2.rbcstruct.pack(len(name), len(places), len(closing))
        yield name
        for some in (places, closing):
            # no index is read again, which would bring its pages back
            ordered = iter(sorted(map(nodes.__getitem__, some)))
            while batch := b"".join(islice(ordered, _BATCH)):
                yield batch
