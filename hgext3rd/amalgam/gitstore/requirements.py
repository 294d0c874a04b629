"""Requirements of stores that the native core can read.

A requirement that is not listed may change the meaning of any byte in the store. So an
export stops before it reads one. The formats are in ``rust/revlog``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

# numbers of the field ``encoding`` of jobs
ESCAPED, HASHED, DOT_ENCODED, PLAIN = range(4)
_PLAIN = b"exp-very-fragile-and-unsafe-plain-store-encoding"
_TREES = b"treemanifest"

ORDINARY = frozenset(
    {
        b"revlogv1",
        b"store",
        b"fncache",
        b"dotencode",
        b"fileindex-v1",
        _PLAIN,
        b"generaldelta",
        b"sparserevlog",
        b"revlog-compression-zstd",
        b"exp-compression-none",
        b"persistent-nodemap",
    }
)
"""Requirements of revlogs of version 1 with texts as they were committed."""

_REVLOGS = frozenset({b"revlogv1", b"exp-revlogv2.2"})
_STORE = (
    ORDINARY
    | _REVLOGS
    | {
        b"delta-info-revlog",
        # hg 7.1 (names of delta-info-revlog before 7.2)
        b"exp-delta-info-revlog",
        b"exp-filelog-metaflag",
        b"exp-changelog-v2",
        b"exp-copies-sidedata-changeset",
        b"lfs",
        _TREES,
    }
)
ELSEWHERE = frozenset(
    {
        b"share-safe",
        b"shared",
        b"relshared",
        b"bookmarksinstore",
        b"dirstate-v2",
        b"dirstate-tracked-key-v1",
        b"exp-sparse",
        b"internal-phase",
        b"internal-phase-2",
        b"exp-archived-phase",
        b"largefiles",
    }
)
"""Of the working copy, of other files, or of phases that Mercurial reads."""


def check(repo: RepoT) -> None:
    """Abort if the repository has unknown requirements, and name them.

    Or if its changesets are not in a store, but in a bundle laid over one.
    """
    if repo.url().startswith((b"bundle:", b"union:")):
        raise error.InputError(
            _(b"cannot export a bundle repository: %s") % repo.url(),
            hint=_(b"unbundle or pull it first"),
        )
    unknown = repo.requirements - _STORE - ELSEWHERE
    missing = {b"store"} - repo.requirements
    if not _REVLOGS & repo.requirements:
        missing.add(b"revlogv1")
    if unknown:
        raise error.Abort(
            _(b"cannot export a repository that requires: %s")
            % b", ".join(sorted(unknown)),
            hint=_(b"amalgam does not support this format; nothing was written"),
        )
    if missing:
        raise error.Abort(
            _(b"cannot export a repository without: %s") % b", ".join(sorted(missing)),
            hint=_(b"'hg clone --pull' makes one that has it; nothing was written"),
        )


def encoding(repo: RepoT) -> int:
    """Return how names in the store are encoded, as the core numbers it."""
    if _PLAIN in repo.requirements:
        return PLAIN
    if b"fileindex-v1" in repo.requirements:
        return DOT_ENCODED
    if b"fncache" not in repo.requirements:
        return ESCAPED
    return DOT_ENCODED if b"dotencode" in repo.requirements else HASHED


def has_tree_manifests(repo: RepoT) -> bool:
    """Return whether each directory has a manifest of its own."""
    return _TREES in repo.requirements
