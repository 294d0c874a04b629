"""Files that look different in a git checkout.

They are names that git refuses, and placeholders for contents elsewhere:
subrepositories, largefiles, LFS. Their history is exported unchanged, because ids
depend on it. Looks at names, and for LFS at flags.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...records import Choice, Record
from ..state import lfs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT

# of so many changesets the files are looked at, of more all that ever were
_FEW_CHANGESETS = 100
# so many filelogs may be opened
_MOST_OPENED = 2000

# code points that HFS+ ignores, in UTF-8 (git's utf8.c, next_hfs_char)
_IGNORED = re.compile(rb"\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf")
# what git's verify_path() and fsck refuse, on whatever file system
_REFUSED = re.compile(
    rb"(?i)(?:^|/)\.?\.?(?=/|$)"
    rb"|(?:^|[/\\])(?:\.git|git~1)[ .]*(?::[^/\\]*)?(?=[/\\]|$)",
)
_SUBREPOSITORIES = (b".hgsub", b".hgsubstate")
_STANDINS = b".hglf/"
# nearly all stores have none of these, and then need not be looked through
_SUSPICIOUS = (b".git", b"git~1", b"/.hgsub", b"/.hglf", b"/./", b"/../", b"//")


class Kind(Choice):
    """Why git shows something else."""

    REFUSED = "refused"
    """Git refuses to check the file out."""
    SUBREPOSITORIES = "subrepositories"
    """It names subrepositories, which git does not know."""
    LARGEFILES = "largefiles"
    """It stands for a file of the largefiles extension."""
    LFS = "lfs"
    """It is the pointer to content in LFS."""


class Different(Record):
    """Files of one kind."""

    kind: Kind
    files: int
    example: bytes


def is_refused(path: bytes) -> bool:
    """Tell whether git refuses to check out a file of this name."""
    return _REFUSED.search(_IGNORED.sub(b"", path)) is not None


def different(repo: RepoT, start: int, excluded: Iterable[int]) -> list[Different]:
    """Return what is new since revision ``start``, by kind.

    ``excluded``: revisions that are not exported. Cost follows the number of new
    changesets or, if these are many, that of all files, in nanoseconds each. Of LFS
    only so many files are looked at that it is quick.
    """
    repo = repo.unfiltered()
    skipped = frozenset(excluded)
    revs = [rev for rev in range(start, len(repo)) if rev not in skipped]
    has_lfs = lfs.is_used(repo)
    if len(revs) <= _FEW_CHANGESETS:
        readfiles = repo.changelog.readfiles
        paths = {path for rev in revs for path in readfiles(rev)}
    else:
        paths = set(lfs.all_files(repo)) if has_lfs or _may_differ(repo) else set()
    found: dict[Kind, list[bytes]] = {}
    opened = 0
    for path in sorted(paths):
        kind = _kind(path) or (Kind.LFS if has_lfs else None)
        if kind is None or (kind is Kind.LFS and opened >= _MOST_OPENED):
            continue
        if kind is Kind.LFS or start or skipped:
            opened += 1
            if opened < _MOST_OPENED and not _is_new(
                repo, path, start, skipped, in_lfs=kind is Kind.LFS
            ):
                continue
        found.setdefault(kind, []).append(path)
    return [
        Different(kind, len(found[kind]), found[kind][0])
        for kind in Kind
        if kind in found
    ]


def _kind(path: bytes) -> Kind | None:
    if path in _SUBREPOSITORIES:
        return Kind.SUBREPOSITORIES
    if path.startswith(_STANDINS):
        return Kind.LARGEFILES
    return Kind.REFUSED if is_refused(path) else None


def _is_new(
    repo: RepoT, path: bytes, start: int, excluded: frozenset[int], *, in_lfs: bool
) -> bool:
    """Tell whether the first revision of a file that is exported is a new one."""
    filelog = repo.file(path).get_revlog()
    for rev in range(len(filelog)):
        if in_lfs and not lfs.is_in_lfs(filelog, rev):
            continue
        linkrev = filelog.linkrev(rev)
        if linkrev not in excluded:
            return bool(linkrev >= start)
    return False


def _may_differ(repo: RepoT) -> bool:
    """Tell whether a name of any file may be one that git shows otherwise."""
    if b"fncache" not in repo.requirements:
        return True
    content: bytes = repo.svfs.tryread(b"fncache").lower()
    return any(part in content for part in _SUSPICIOUS)
