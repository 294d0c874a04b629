"""File revisions in LFS: Mercurial stores a pointer, and the content elsewhere.

Their blobs are pointers as git-lfs writes them. Earlier versions exported them as
Mercurial stores them. The docket of a store made by this rule has a mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import revlog, store as storemod

from .oidmap import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT

    from .oidmap import OidMap


def is_used(repo: RepoT) -> bool:
    """Tell whether there may be revisions in LFS."""
    return b"lfs" in repo.requirements


def is_in_lfs(filelog: Any, rev: int) -> bool:
    """Tell whether the content of a revision of a revlog is in LFS."""
    return bool(filelog.flags(rev) & revlog.REVIDX_EXTSTORED)


def has_any(repo: RepoT, oidmap: OidMap) -> bool:
    """Tell whether a file revision of ``oidmap`` is in LFS. Looks at all filelogs."""
    for path in all_files(repo):
        filelog = repo.file(path).get_revlog()
        nodes = [filelog.node(rev) for rev in filelog if is_in_lfs(filelog, rev)]
        if any(oidmap.oids(nodes, Table.FILES)):
            return True
    return False


def all_files(repo: RepoT) -> Iterator[bytes]:
    """Yield the names of all files that ever were."""
    if b"fncache" not in repo.requirements:
        for entry in repo.store.data_entries(undecodable=[]):
            if entry.is_filelog:
                yield entry.target_id
        return
    content: bytes = repo.svfs.tryread(b"fncache")
    for line in content.splitlines():
        if line.startswith(b"data/") and line.endswith(b".i"):
            yield storemod.decodedir(line)[5:-2]
