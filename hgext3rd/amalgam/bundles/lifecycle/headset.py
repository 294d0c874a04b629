"""The heads of what is in bundles: ``.hg/amalgam/bundles/SHA-256.heads``.

A file has 20 bytes for each node, sorted, and is named after its content. So bundles of
one moment share it, and the register stays small however many heads there are.
"""

from __future__ import annotations

import hashlib
import os
import re
import weakref
from typing import TYPE_CHECKING, Any

from mercurial import error, phases
from mercurial.node import nullrev

from ...gitstore.state import selection
from ...placement import Placement
from .register import directory_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT

_NODE_BYTES = 20
_SUFFIX = b".heads"
# by changelog, as it was read: the phases that were read with it, the state of files,
# and by the name of a set whether it is public; other objects may have read other files
_known: weakref.WeakKeyDictionary[Any, tuple[object, dict[str, bool]]] = (
    weakref.WeakKeyDictionary()
)
_FILE = re.compile(rb"[0-9a-f]{64}" + re.escape(_SUFFIX))


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
        directory, placement = directory_of(repo), Placement.of(repo)
        directory.make(placement)
        directory.replace(_file_of(name), content, placement)
    return name


def read(repo: RepoT, name: str) -> list[bytes]:
    """Return the nodes of a set; none if it is not there, or not whole."""
    # of more nodes than there are changesets, one must be missing here
    limit_bytes = len(repo.unfiltered().changelog) * _NODE_BYTES
    try:
        content = directory_of(repo).read(_file_of(name), limit_bytes)
    except (OSError, error.StorageError):
        return []
    is_whole = len(content) % _NODE_BYTES == 0
    if not is_whole or hashlib.sha256(content).hexdigest() != name:
        return []
    steps = range(0, len(content), _NODE_BYTES)
    return [content[start : start + _NODE_BYTES] for start in steps]


def _file_of(name: str) -> bytes:
    return name.encode("ascii") + _SUFFIX


def is_public(repo: RepoT, name: str) -> bool:
    """Tell whether all in a set, and so all below, may be read by who reads ``repo``.

    Takes time in proportion to their number, once for each state of the repository.
    """
    unfiltered = repo.unfiltered()
    state = (unfiltered._phasecache, selection.state_of(repo))
    known = _known.get(unfiltered.changelog)
    if known is None or known[0] != state:
        known = _known[unfiltered.changelog] = (state, {})
    verdicts = known[1]
    if name not in verdicts:
        nodes = read(repo, name)
        if not nodes:
            return False  # it may come yet
        verdicts[name] = _is_public(unfiltered, nodes)
    return verdicts[name]


def _is_public(unfiltered: RepoT, nodes: Iterable[bytes]) -> bool:
    get_rev = unfiltered.changelog.index.get_rev
    phase = unfiltered._phasecache.phase
    revs = [get_rev(node) for node in nodes]
    return all(
        rev is not None and phase(unfiltered, rev) == phases.public for rev in revs
    )


def sweep(repo: RepoT, used: frozenset[str]) -> None:
    """Remove the sets that no bundle has any more. Only for who generates."""
    directory = directory_of(repo)
    for name in directory.names():
        known = os.fsdecode(name.removesuffix(_SUFFIX)) in used
        if _FILE.fullmatch(name) and not known:
            directory.remove(name)
