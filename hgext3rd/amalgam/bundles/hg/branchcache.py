"""The part ``cache:rev-branch-cache`` of bundles, the branch of each changeset.

Mercurial makes a set of the nodes of each branch before the first byte is written, and
keeps all of them until the last one. Here they are places in a list that is there. The
bytes are the same. Does not know who asks for the part.
"""

from __future__ import annotations

import array
from typing import TYPE_CHECKING, Any

from mercurial import bundle2, encoding, extensions

from ...configitems import wants_native_bundles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mercurial.interfaces.types import RepoT

# of one branch: places of changesets that are open, and of those that close it
_Places = tuple["array.array[int]", "array.array[int]"]


def install() -> None:
    """Wrap what adds the part."""
    extensions.wrapfunction(bundle2, "addpartrevbranchcache", _add)


def _add(orig: Callable[..., None], repo: RepoT, bundler: Any, outgoing: Any) -> None:
    if not wants_native_bundles(repo.ui):
        orig(repo, bundler, outgoing)
        return
    nodes = outgoing.missing
    revs = map(repo.unfiltered().changelog.rev, nodes)
    branches = _branches(repo.revbranchcache(), revs)
    content = _content(branches, nodes)
    bundler.newpart(b"cache:rev-branch-cache", data=content, mandatory=False)


def _branches(cache: Any, revs: Iterable[int]) -> dict[bytes, _Places]:
    found: dict[bytes, _Places] = {}
    for place, rev in enumerate(revs):
        branch, closes = cache.branchinfo(rev)
        if branch not in found:
            found[branch] = array.array("I"), array.array("I")
        found[branch][closes].append(place)
    return found


def _content(branches: dict[bytes, _Places], nodes: Sequence[bytes]) -> Iterator[bytes]:
    for branch, (places, closing) in sorted(branches.items()):
        name = encoding.fromlocal(branch)
        yield bundle2.rbcstruct.pack(len(name), len(places), len(closing))
        yield name
        for some in (places, closing):
            # no index is read again, which would bring its pages back
            yield from sorted(map(nodes.__getitem__, some))
