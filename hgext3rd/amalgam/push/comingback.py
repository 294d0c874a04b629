"""Whether pushed commits come back: an export makes the same ones again.

Changesets that git users may not see are refused before a push is applied. The
conversion has checked all else. So what is looked for afterwards is what no check
should leave over; the operator and the person who pushes are told. Changes nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.node import bin as bin_node

from .refs.refcommands import PushRefusedError
from .refs.refstate import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercurial.interfaces.types import RepoT

    from ..gitstore.store import GitStore

_SHORT = 12


def check_hidden(
    repo: RepoT, store: GitStore, changesets: Sequence[tuple[bytes, bytes]]
) -> None:
    """Refuse commits that are changesets which the pusher may not see."""
    is_there = repo.unfiltered().changelog.hasnode
    is_seen = view_of(repo, store).changelog.hasnode
    for oid, node in changesets:
        if is_there(bin_node(node)) and not is_seen(bin_node(node)):
            raise PushRefusedError(
                _(b"commit %s is a changeset here that is secret or obsolete")
                % oid[:_SHORT]
            )


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
