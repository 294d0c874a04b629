"""Names of files that are legal in Mercurial, but a problem for git or its users.

They are exported unchanged, because the ids depend on them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mercurial.i18n import _
from mercurial.utils import stringutil

from ..exporting.checkout import is_refused
from .findings import Note

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from mercurial.interfaces.types import RepoT

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def check_paths(repo: RepoT, excluded: Container[int]) -> Iterator[Note]:
    """Yield a note for each such file of a changeset that is not ``excluded``.

    Takes time in proportion to the number of files that ever were.
    """
    repo = repo.unfiltered()
    undecodable: list[bytes] = []  # Mercurial's own verify tells of these
    for entry in repo.store.data_entries(undecodable=undecodable):
        if not entry.is_filelog:
            continue
        path = entry.target_id
        complaint = _complaint(path)
        if complaint and _is_used(repo, path, excluded):
            yield Note(b"file", stringutil.escapestr(path), complaint)


def _complaint(path: bytes) -> bytes:
    if is_refused(path):
        return _(b"git refuses to check out this name")
    if _CONTROL.search(path):
        return _(b"its name has control characters")
    return b""


def _is_used(repo: RepoT, path: bytes, excluded: Container[int]) -> bool:
    filelog = repo.file(path)
    return any(filelog.linkrev(rev) not in excluded for rev in filelog)
