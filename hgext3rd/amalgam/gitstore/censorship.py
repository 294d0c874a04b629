"""The mark of censorings, by which censored text leaves git stores and bundles.

Censoring replaces the text of a file revision. No changeset and no node changes. So a
process that censors writes a new random value to ``.hg/amalgam-censored``, the mark.
Exports and generators read the mark before they read texts, and record it with their
results. A result with another mark may contain the censored text. The mark is never
removed. It is outside of ``.hg/amalgam``, so that an older copy of that directory does
not bring back an older mark. A process without amalgam leaves no mark.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from mercurial import pycompat
from mercurial.i18n import _

from ..files import Directory, Placement, Unusable

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT

NAME = b"amalgam-censored"
"""The file, below the ``.hg`` that has the store."""
_LIMIT_BYTES = 100
_VALUE = re.compile(rb"[0-9a-f]{32}\n")


def mark_of(repo: RepoT) -> str:
    """Return the mark of ``repo``, or empty.

    ``StorageError`` if it is not one that ``censor`` wrote.
    """
    directory = Directory(repo.sharedpath)
    found = directory.tryread(NAME, _LIMIT_BYTES)
    if found and not _VALUE.fullmatch(found):
        raise Unusable(directory.join(NAME), _(b"is damaged"))
    return found.decode("ascii").rstrip("\n")


def censor(
    orig: Callable[..., Any], log: Any, transaction: Any, *args: Any, **kwargs: Any
) -> Any:
    """Do as ``revlog.censorrevision``, and leave marks."""
    # not every vfs has a base: Mercurial 6.9 wraps the one of filelogs
    store_path = os.path.normpath(log.opener.join(b""))

    def mark(_transaction: Any = None) -> None:
        _mark(store_path, transaction)

    # An export may begin at any time, and be killed. The text is replaced before the
    # transaction is finalized, and stays replaced from then on.
    mark()
    transaction.addfinalize(b"amalgam-censored", mark)
    transaction.addpostclose(b"amalgam-censored", mark)
    return orig(log, transaction, *args, **kwargs)


def _mark(store_path: bytes, transaction: Any) -> None:
    """Write a new value, or warn that it cannot be written."""
    hg_path = os.path.dirname(store_path)
    value = os.urandom(16).hex().encode() + b"\n"
    try:
        place = Placement.at(store_path, hg_path)
        Directory(hg_path).replace(NAME, value, place)
    except (OSError, Unusable) as exc:
        reason = getattr(exc, "strerror", None) or str(exc)
        transaction._report(
            _(b"warning: cannot record the censoring: %s: '%s'\n")
            % (pycompat.bytestr(reason), os.path.join(hg_path, NAME))
            + _(b"(the text may stay in the git store and in bundles)\n")
            + _(b"(run 'hg git::export --rebuild')\n")
            + _(b"(run 'hg admin::clone-bundles-clear')\n")
        )
