"""Whether pushed commits have come back: an export has made the same ones again.

The conversion has checked that before. So this finds what no check should leave over,
and tells the operator and the person who pushes. Changes nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.node import bin as bin_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..gitstore.store import GitStore

_SHORT = 12


def warnings(store: GitStore, changesets: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    """Return lines for the pusher; ``changesets``: commits and nodes, in hex."""
    nodes = [bin_node(node) for _oid, node in changesets]
    try:
        with contextlib.closing(store.open_map()) as oidmap:
            oids = oidmap.oids(nodes)
    except (OSError, error.StorageError):
        return []  # the next export tells
    for (oid, node), there in zip(changesets, oids, strict=True):
        if there is None:
            return [_(b"it can be fetched in a moment, not yet")]
        if there.hex().encode() != oid:
            text = b"commit %s became %s in git\n"
            store.repo.ui.log(b"amalgam", text, oid, there.hex().encode())
            line = _(b"warning: commit %s is another one on the server: changeset %s")
            return [line % (oid[:_SHORT], node[:_SHORT])]
    return []
