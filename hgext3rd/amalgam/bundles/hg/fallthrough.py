"""Which changegroups Mercurial writes itself, and why.

Each reason is a row of the table in docs/decisions/changegroups.rst. What is not known
to be right is a reason: a changegroup cannot change hands once it has begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import changegroup
from mercurial.revlogutils import flagutil

from ...config import wants_native_bundles
from ...gitstore.state import requirements
from .writer import VERSIONS

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

_NEEDED = frozenset({b"store", b"revlogv1"})
# censored, ellipsis, stored elsewhere, and those that leave texts as they are
_FLAGS_OF_MERCURIAL = 0xFFC0
# The core reads the index of the changelog and of the manifest, and Mercurial has them
# in memory: about as long as it takes Mercurial to write one of so many changesets.
_REVS_A_CHANGESET = 2000


def reason(packer: Any, changesets: int, *, has_changelog: bool) -> bytes:
    """Return why the core does not write what ``packer`` is asked for.

    That are ``changesets``, and the manifests and files that belong to them.
    Empty: it does.
    """
    repo = packer._repo
    if not wants_native_bundles(repo.ui):
        return b"amalgam.bundles.native"
    return (
        _reason_of_packer(packer, has_changelog=has_changelog)
        or _reason_of_repository(repo)
        or _reason_of_display(repo)
        or _reason_of_size(repo, changesets)
    )


def _reason_of_packer(packer: Any, *, has_changelog: bool) -> bytes:
    if type(packer).__module__ != changegroup.__name__:
        return b"packer of another extension"
    if packer.version not in VERSIONS:
        return b"version %s" % packer.version
    if not has_changelog:
        return b"no changesets"
    if packer._ellipses or packer._isshallow or packer._fullclnodes:
        return b"ellipses"
    if packer._forcedeltaparentprev:
        return b"deltas against the previous revision"
    if not packer._matcher.always() or packer._oldmatcher.visitdir(b""):
        return b"narrow"
    return b""


def _reason_of_repository(repo: RepoT) -> bytes:
    if not repo.url().startswith(b"file:"):
        return b"repository that is no directory"
    known = requirements.ORDINARY | requirements.ELSEWHERE
    unknown = repo.requirements - known | _NEEDED - repo.requirements
    if unknown:
        return b"requirement %s" % b", ".join(sorted(unknown))
    if any(flag & ~_FLAGS_OF_MERCURIAL for flag in flagutil.flagprocessors):
        return b"flags of another extension"
    if repo.currenttransaction() is not None:
        return b"transaction"
    return b""


def _reason_of_display(repo: RepoT) -> bytes:
    ui = repo.ui
    if ui.verbose and not ui.debugflag:
        return b"sizes are shown"
    if ui.configbool(b"debug", b"bundling-stats") or ui.config(
        b"devel", b"bundle.delta"
    ):
        return b"debugging"
    return b""


def _reason_of_size(repo: RepoT, changesets: int) -> bytes:
    if changesets * _REVS_A_CHANGESET < len(repo.unfiltered().changelog):
        return b"few changesets"
    return b""
