"""Verification of adopted commits: those that a store begins with are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from .findings import Difference, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..state.adopted import AdoptedFile
    from ..state.docket import Docket


def check(file: AdoptedFile, docket: Docket, deep: bool) -> Iterator[Difference]:
    """Yield a difference if ``file`` is lost, damaged, or not yet exported.

    A rebuild mends the last; of the others, it says so. ``deep``: read all of it.
    """
    path = file.directory.join(file.name)
    nothing, whole = _(b"nothing"), _(b"a whole file")
    try:
        mark = file.mark()
        if not mark and docket.adopted:
            found, expected = nothing, whole
        elif mark and deep and not file.is_sound():
            found, expected = _(b"a damaged file"), whole
        elif mark != docket.adopted:
            found = _(b"ids of %d changesets") % file.changesets()
            expected = _(b"an export that begins with them")
        else:
            return
    except error.StorageError:
        found, expected = _(b"something else"), whole
    yield Difference(b"adopted commits", path, found, expected, Remedy.REBUILD)
