"""Verification of git-cinnabar's metadata: present, complete, readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial.i18n import _

from ..git.refs import METADATA
from ..oidmap import Table
from .findings import Difference, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..docket import Docket
    from ..git.process import Git
    from ..oidmap import OidMap

# for each table, the kinds of its nodes and of its objects
KINDS = {
    Table.CHANGESETS: (b"commit", b"blob"),
    Table.MANIFESTS: (b"manifest", b"commit"),
    Table.FILES: (b"metadata of file revision", b"blob"),
}


def check_presence(docket: Docket) -> Iterator[Difference]:
    """Yield a difference if ``docket`` names no map of the metadata."""
    if docket.segments and not docket.metadata_segments:
        yield Difference(
            b"metadata",
            METADATA,
            _(b"nothing"),
            _(b"what git-cinnabar knows of the repository"),
            Remedy.REBUILD,
        )


def check_counts(oidmap: OidMap, metadata_map: OidMap) -> Iterator[Difference]:
    """Yield a difference if the maps are not of the same changesets and manifests."""
    names = {Table.CHANGESETS: b"changesets", Table.MANIFESTS: b"manifests"}
    for table, name in names.items():
        found, expected = metadata_map.count(table), oidmap.count(table)
        if found != expected:
            counts = b"%d" % found, b"%d" % expected
            yield Difference(b"metadata of", name, *counts, Remedy.REBUILD)


def check_commits(git: Git, docket: Docket) -> Iterator[Difference]:
    """Yield a difference if git cannot read a commit, or trees reachable from it.

    Without those of commits and manifests, which are in the maps.
    """
    args = (
        "rev-list",
        "--objects",
        "--no-walk=unsorted",
        "--quiet",
        "--end-of-options",
    )
    for commit in (docket.base_commit.oid, docket.drafts_commit.oid):
        if not commit:
            continue
        done = git.run(*args, commit, f"{commit}^@", check=False)
        if done.returncode:
            said = done.stderr.strip().rpartition(b"\n")[2]
            whole = _(b"a metadata commit that it can read")
            yield Difference(b"git", commit.encode(), said, whole, Remedy.REBUILD)
