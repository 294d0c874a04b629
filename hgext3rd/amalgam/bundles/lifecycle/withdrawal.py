"""Bundles that must not be read any more leave at once: manifests first, then files.

That is what was made before a censoring, or of changesets that are no longer public.
Clients are not told of it from the next request on (``eligibility``); here it is
deleted.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from hgext import clonebundles
from mercurial import error
from mercurial.i18n import _
from mercurial.utils import stringutil

from ...terminal import one_line
from . import directories, eligibility, formats, generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT

# after that of censorship, which sets the mark; they run in order of names
_CATEGORY = b"amalgam-withdrawn"


def watch(repo: RepoT, transaction: Any, advertise: Callable[[RepoT], None]) -> None:
    """Withdraw bundles after a transaction that censors, and has just begun.

    ``advertise`` writes all manifests anew, and deletes what nobody needs.
    """
    before = eligibility.mark_of(repo)
    reference = weakref.ref(repo)

    def check(_transaction: Any) -> None:
        repo = reference()
        if repo is not None and eligibility.mark_of(repo) != before:
            _withdraw_now(repo, advertise)

    transaction.addpostclose(_CATEGORY, check)


def _withdraw_now(repo: RepoT, advertise: Callable[[RepoT], None]) -> None:
    if not directories.trust(repo).usable:
        return
    try:
        if not eligibility.outlived(repo):
            return
        with generator.exclusive(repo):
            withdraw(repo)
            if formats.takes_part(repo):
                advertise(repo)
    except error.LockHeld:
        return  # whoever has it does this at the end
    except (OSError, error.Abort, error.StorageError) as exc:
        # the transaction is closed: there is nothing left to abort
        problem = stringutil.forcebytestr(exc)
        text = _(b"warning: bundles with censored text remain: %s") % problem
        repo.ui.warn(one_line(text))
        repo.ui.warn(_(b"(run 'hg admin::clone-bundles-clear')\n"))


def withdraw(repo: RepoT) -> None:
    """Let the state forget what must not be read. Only for generators."""
    with repo.clonebundles_lock():
        gone = eligibility.outlived(repo)
        if not gone:
            return
        clonebundles.update_ondisk_manifest(repo)  # it names only what is valid
        for bundle in gone:
            clonebundles.delete_bundle(repo, bundle)
        clonebundles.update_bundle_list(repo, del_bundles=gone)
