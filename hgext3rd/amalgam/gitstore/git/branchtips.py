"""Tips of open branches, followed from one export to the next.

Mercurial's cache of branches has a line for each head, and is read as a whole. But new
changesets tell which tips have moved. The newest one of a branch has no descendants. If
it is open, it is the tip. If it closes the branch, Mercurial's cache has to tell which
other head is the tip.

Owns ``<dialect>.tips``, described in ``docs/formats/map.rst``. It is a cache: it counts
only as long as its checkpoint holds.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING

from mercurial import encoding, obsolete

from ... import docketfile
from ...docketfile import Field
from ...files import Unusable
from ...records import Record
from .. import checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mercurial.interfaces.types import RepoT

    from ...files import Directory, Placement
    from ..checkpoint import Checkpoint
    from ..selection import Selection

# A tip takes more time here than a head in the cache of Mercurial. So nothing is gained
# unless each name has many heads.
_MOST_TIPS = 10_000
_MOST_NEW = 1000
_LONGEST_BYTES = 16 << 20
_TIP = re.compile(rb"([0-9a-f]{40}) (.*)", re.DOTALL)


class BranchTips(Record):
    """The tips of open branches at an export."""

    seen: Checkpoint
    """The selection at that moment."""
    tips: tuple[tuple[bytes, bytes], ...]
    """Names of branches in UTF-8, each with the node of its tip."""

    @classmethod
    def of(
        cls, view: RepoT, selected: Selection, tips: Mapping[bytes, bytes]
    ) -> BranchTips | None:
        """Return the tips for the next export; ``None`` if it cannot follow
        ``tips``."""
        seen = selected.seen(view)
        if seen is None or len(tips) > _MOST_TIPS or not _is_plain(view):
            return None
        pairs = [(encoding.fromlocal(branch), tips[branch]) for branch in tips]
        return cls(seen, tuple(sorted(pairs)))

    @classmethod
    def read(cls, directory: Directory, dialect: bytes) -> BranchTips | None:
        """Return the tips that the last export wrote; ``None`` if lost."""
        try:
            content = directory.tryread(_name(dialect), _LONGEST_BYTES)
            return cls(**_FORM.values_in(content))
        except (Unusable, ValueError):
            return None

    def write(self, directory: Directory, dialect: bytes, placement: Placement) -> None:
        """Replace the file, unless it is the same. A torn one will be refused."""
        content = _FORM.content_of(self)
        if directory.tryread(_name(dialect), _LONGEST_BYTES) != content:
            directory.replace(_name(dialect), content, placement, durable=False)

    def followed(self, view: RepoT, selected: Selection) -> dict[bytes, bytes] | None:
        """Return the tips of ``view`` now, branch to node.

        ``None`` if Mercurial's cache has to tell. ``selected`` are the changesets of
        ``view``. Takes time in proportion to tips and new changesets.
        """
        start = self.seen.len
        if (
            selected.len - start > _MOST_NEW
            or selected.known_below(view, [self.seen]) != start
            or not all(selected.has(view, node) for _branch, node in self.tips)
            or not _is_plain(view)
        ):
            return None
        tips = {encoding.tolocal(branch): node for branch, node in self.tips}
        changelog = view.unfiltered().changelog
        moved = set()
        for rev in range(selected.len - 1, start - 1, -1):
            if rev not in selected.excluded:
                branch, closes = changelog.branchinfo(rev)
                if branch in moved:
                    continue
                if closes:
                    return None
                tips[branch] = changelog.node(rev)
                moved.add(branch)
        return tips


def followed(
    directory: Directory, dialect: bytes, view: RepoT, selected: Selection
) -> dict[bytes, bytes] | None:
    """Return the tips of ``view``; ``None`` if Mercurial's cache has to tell."""
    known = BranchTips.read(directory, dialect)
    return known.followed(view, selected) if known else None


def forget(directory: Directory, dialect: bytes) -> None:
    """Let Mercurial's cache tell, at the next export."""
    directory.remove(_name(dialect))


def _is_plain(view: RepoT) -> bool:
    """Return whether each changeset of ``view`` may be a head of its branch.

    A visible obsolete one may not. The topic extension has more branches.
    """
    unfiltered = view.unfiltered()
    obsolete_revs = obsolete.getrevs(unfiltered, b"obsolete")
    return obsolete_revs <= view.changelog.filteredrevs and not getattr(
        unfiltered, "hastopicext", False
    )


def _name(dialect: bytes) -> bytes:
    return dialect + b".tips"


def _tip(value: bytes) -> tuple[bytes, bytes]:
    found = _TIP.fullmatch(value)
    if not found:
        raise ValueError("not a node and a name")
    return found[2], binascii.unhexlify(found[1])


def _tip_text(tip: tuple[bytes, bytes]) -> bytes:
    branch, node = tip
    return b"%s %s" % (binascii.hexlify(node), branch)


_FORM = docketfile.Form(
    b"amalgam branch tips 1",
    {
        "seen": checkpoint.field(many=False),
        "tips": Field(b"tip", _tip, _tip_text, many=True),
    },
)
