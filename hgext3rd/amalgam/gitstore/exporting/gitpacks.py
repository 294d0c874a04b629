"""Takeover of packs that git has made, after proof of what is in them.

git-repack(1) packs every object that it finds, also objects that should not be in the
store any more. The metadata commit leads to everything that an export has made, and its
id is known. So git is asked what the commit leads to. Packs with exactly as many
objects are as good as ours. Otherwise these objects, and no others, are packed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error

from ..git.idx import distinct_ids
from ..state.docket import PACK

if TYPE_CHECKING:
    from ..git.repository import Repository

_LINE_LEN = 41
# the store may have been left with any of them, of objects that are gone
_CONFIG = {"core.commitGraph": "false", "core.multiPackIndex": "false"}
# what has no delta yet is searched for one
_BOUNDS = {"pack.threads": "1", "pack.windowMemory": "64m"}


def adopt(repository: Repository, commit: str) -> tuple[str, ...] | None:
    """Return the packs that have all that ``commit`` (an oid) leads to, and no more.

    They may have to be made first. ``None`` if something is missing. Takes time in
    proportion to the history.
    """
    tip = commit.encode() + b"\n"
    arguments = ("rev-list", "--objects", "--no-object-names", "--stdin")
    try:
        with repository.git.pieces(*arguments, input=[tip], config=_CONFIG) as pieces:
            count = sum(map(len, pieces)) // _LINE_LEN
        names = sorted(repository.packs())
        if not repository.loose_objects() and _distinct(repository, names) == count:
            return tuple(names)
        return _packed(repository, tip, count)
    except error.Abort:
        return None


def _distinct(repository: Repository, names: list[str]) -> int:
    """Return how many different objects some packs have."""
    return sum(1 for _oid in distinct_ids(repository.packs_directory, names))


def _packed(repository: Repository, tip: bytes, count: int) -> tuple[str, ...] | None:
    """Let git write a pack of what ``tip`` leads to."""
    done = repository.git.run(
        *("pack-objects", "--quiet", "--revs", "--delta-base-offset"),
        repository.packs_directory.join(b"pack"),
        input=tip,
        config=_CONFIG | _BOUNDS,
    )
    name = "pack-" + done.stdout.decode("ascii", "replace").strip()
    if not PACK.fullmatch(name) or _distinct(repository, [name]) != count:
        return None
    return (name,)
