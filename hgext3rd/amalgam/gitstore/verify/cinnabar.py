"""Verification of git-cinnabar's metadata: present, complete, up to date."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from mercurial.i18n import _

from ...placement import Unusable
from ..git.refs import METADATA
from ..state.docket import STATE_BYTES
from ..state.oidmap import Table
from .findings import Difference, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...placement import Directory
    from ..git.gitprocess import Git
    from ..state.docket import Docket
    from ..state.oidmap import OidMap

# what a table's nodes are, and the kind of object that is kept for them
KINDS = {
    Table.CHANGESETS: (b"commit", b"blob"),
    Table.MANIFESTS: (b"manifest", b"commit"),
    Table.FILES: (b"metadata of file revision", b"blob"),
}

_STATE_MAGIC = b"AMALGMET"
_SUM_LEN = 20


def check_presence(maps: Directory, docket: Docket, deep: bool) -> Iterator[Difference]:
    """Yield what ``docket`` lacks, or the state it names if that is not whole."""
    metadata = docket.metadata
    if not docket.segments:
        return
    if not metadata.segments:
        yield Difference(
            b"metadata",
            METADATA,
            _(b"nothing"),
            _(b"what git-cinnabar knows of the repository"),
            Remedy.REBUILD,
        )
        return
    name = os.fsencode(metadata.state)
    found = b""
    if not (name and maps.exists(name)):
        found = _(b"nothing")
    elif deep and not _is_whole(maps, name):
        found = _(b"a damaged file")
    if found:
        whole = _(b"a whole file")
        yield Difference(b"metadata state", name, found, whole, Remedy.REBUILD)


def _is_whole(maps: Directory, name: bytes) -> bool:
    try:
        content = maps.read(name, STATE_BYTES)
    except Unusable:
        return False
    body, own = content[:-_SUM_LEN], content[-_SUM_LEN:]
    digest = hashlib.sha1(body, usedforsecurity=False).digest()
    return content.startswith(_STATE_MAGIC) and digest == own


def check_counts(oidmap: OidMap, metadata_map: OidMap) -> Iterator[Difference]:
    """Yield a difference if the maps are not of the same changesets and manifests."""
    names = {Table.CHANGESETS: b"changesets", Table.MANIFESTS: b"manifests"}
    for table, name in names.items():
        found, expected = metadata_map.count(table), oidmap.count(table)
        if found != expected:
            counts = b"%d" % found, b"%d" % expected
            yield Difference(b"metadata of", name, *counts, Remedy.REBUILD)


def check_commit(git: Git, docket: Docket) -> Iterator[Difference]:
    """Yield a difference if git cannot read the commit, or trees that it leads to.

    Those of commits and manifests apart, which the maps lead to.
    """
    commit = docket.metadata.commit
    args = (
        "rev-list",
        "--objects",
        "--no-walk=unsorted",
        "--quiet",
        "--end-of-options",
    )
    done = git.run(*args, commit, f"{commit}^@", check=False)
    if done.returncode:
        said = done.stderr.strip().rpartition(b"\n")[2]
        whole = _(b"a metadata commit that it can read")
        yield Difference(b"git", commit.encode(), said, whole, Remedy.REBUILD)
