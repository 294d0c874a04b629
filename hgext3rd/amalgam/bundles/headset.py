"""The heads of what is in bundles: ``.hg/amalgam/bundles/SHA-256.heads``.

A file has 20 bytes for each node, sorted, and is named after its content. So bundles of
one moment share it, and the register stays small however many heads there are.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from mercurial import phases
from mercurial.node import nullrev

from ..placement import Placement
from .register import directory_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT

_NODE_BYTES = 20
_SUFFIX = b".heads"


def public_heads(repo: RepoT) -> list[bytes]:
    """Return the heads of all that may be in a bundle; none if that is nothing."""
    changelog = repo.filtered(b"immutable").changelog
    return [changelog.node(rev) for rev in changelog.headrevs() if rev != nullrev]


def name_of(nodes: Iterable[bytes]) -> str:
    """Return what the set of ``nodes`` is called."""
    return hashlib.sha256(b"".join(sorted(nodes))).hexdigest()


def write(repo: RepoT, nodes: Iterable[bytes]) -> str:
    """Put a set on disk, unless it is there, and return its name."""
    content = b"".join(sorted(nodes))
    name = hashlib.sha256(content).hexdigest()
    if not read(repo, name):
        path = directory_of(repo).join(os.fsencode(name) + _SUFFIX)
        Placement.of(repo).replace(path, content)
    return name


def read(repo: RepoT, name: str) -> list[bytes]:
    """Return the nodes of a set; none if it is not there, or not whole."""
    content = directory_of(repo).tryread(os.fsencode(name) + _SUFFIX)
    if hashlib.sha256(content).hexdigest() != name:
        return []
    steps = range(0, len(content), _NODE_BYTES)
    return [content[start : start + _NODE_BYTES] for start in steps]


def is_public(repo: RepoT, name: str) -> bool:
    """Tell whether all in a set, and so all below, may be read by who reads ``repo``.

    Takes time in proportion to their number.
    """
    unfiltered = repo.unfiltered()
    get_rev = unfiltered.changelog.index.get_rev
    phase = unfiltered._phasecache.phase
    revs = [get_rev(node) for node in read(repo, name)]
    return bool(revs) and all(
        rev is not None and phase(unfiltered, rev) == phases.public for rev in revs
    )


def sweep(repo: RepoT, used: frozenset[str]) -> None:
    """Remove the sets that no bundle has any more. Only for who generates."""
    vfs = directory_of(repo)
    for name in vfs.listdir():
        known = os.fsdecode(name.removesuffix(_SUFFIX)) in used
        if name.endswith(_SUFFIX) and not known:
            vfs.tryunlink(name)
