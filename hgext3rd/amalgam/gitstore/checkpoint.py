"""Checkpoints: digests of the beginning of a changelog.

For a changelog with a mapped index, only the entries after its snapshot are hashed:
bytes of a snapshot never change. Other digests are kept as long as the file of the
index has the same stats.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import weakref
from typing import Any

from mercurial.revlogutils import constants

from ..docketfile import Field, matching, number
from ..files import TICK_NS
from ..index import opening
from ..records import Record

# of an index that is not inline (mercurial.revlogutils.constants)
_PLAIN_HEADERS = (constants.REVLOGV1, constants.REVLOGV1 | constants.FLAG_GENERALDELTA)
# the form of ``changelog_digest``
_DIGEST = re.compile(r"(?:[0-9a-f]{16}-[0-9]{1,10}-)?[0-9a-f]{40}")
_EXCLUDED = re.compile(r"[0-9a-f]{40}")
_ENTRY_BYTES = 64
# a digest is kept after each piece: the one of a shorter beginning starts there
_PIECE_ENTRIES = 1 << 14
# by changelog: digests of its beginnings, by the number of changesets
_digests: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()
# by path: the stats of a file, and the same digests
_of_files: dict[bytes, tuple[tuple[int, ...], dict[int, Any]]] = {}
_MOST_FILES = 1000


class Checkpoint(Record):
    """Digests of a changelog and of its selection. Equal: nothing changed."""

    len: int
    """How many changesets there were, selected or not."""
    nodes: str
    """``changelog_digest`` of them."""
    excluded: str
    """Digest of the nodes that were not selected."""


def field(*, many: bool) -> Field:
    """Return how a checkpoint, or several, are written in a docket."""
    return Field(b"checkpoint", _parsed, _text, many=many)


def _parsed(value: bytes) -> Checkpoint:
    count, nodes, excluded = value.split(b" ")
    return Checkpoint(
        number(count), matching(_DIGEST)(nodes), matching(_EXCLUDED)(excluded)
    )


def _text(seen: Checkpoint) -> bytes:
    return f"{seen.len} {seen.nodes} {seen.excluded}".encode()


def changelog_digest(changelog: Any, count: int) -> str:
    """Return a digest of the first ``count`` changesets, and of their order.

    Their number and the last node would not do: after a strip, another changeset may
    come below the same last one. If the index is mapped, it is the uid of the snapshot,
    how many changesets that has, and a digest of the others; else one of all, which
    takes some 50 ns a changeset.
    """
    uid, covered = _snapshot_of(changelog)
    if uid:
        return _after_snapshot(changelog, uid, min(covered, count), count)
    return _digest_of_all(changelog, count)


def begins_with(changelog: Any, place: Checkpoint) -> bool:
    """Return whether the changelog is known to begin as at ``place``.

    False also if that cannot be known: it had another snapshot then, or the index is
    not mapped any more. Cost as of ``changelog_digest``.
    """
    if place.len > len(changelog):
        return False
    uid, *rest = place.nodes.split("-")
    if not rest:
        return _digest_of_all(changelog, place.len) == place.nodes
    own, covered = _snapshot_of(changelog)
    start = int(rest[0])
    if own != uid or start > min(covered, place.len):
        return False
    return _after_snapshot(changelog, uid, start, place.len) == place.nodes


def _snapshot_of(changelog: Any) -> tuple[str, int]:
    """Return the uid of the snapshot, and how many changesets it has; or nothing."""
    opened = opening.opened_index(changelog)
    if opened is None or opened.snapshot is None or not opening.is_plain(changelog):
        return "", 0
    snapshot = opened.snapshot
    return snapshot.uid.decode(), snapshot.length_bytes // _ENTRY_BYTES


def _after_snapshot(changelog: Any, uid: str, start: int, end: int) -> str:
    """Return the digest of a snapshot up to ``start``, and of the entries after it."""
    opened = opening.opened_index(changelog)
    assert opened is not None
    entries = opened.data[start * _ENTRY_BYTES : end * _ENTRY_BYTES]
    digest = hashlib.blake2b(entries, digest_size=20)
    return f"{uid}-{start}-{digest.hexdigest()}"


def _digest_of_all(changelog: Any, count: int) -> str:
    """Return the digest of changesets whose entries are read."""
    with changelog.opener(b"00changelog.i") as file:
        is_plain = int.from_bytes(file.read(4), "big") in _PLAIN_HEADERS
        kept = _kept(changelog, file) if is_plain else None
        if kept is None:
            kept = _digests.setdefault(changelog, {})
        if count not in kept:
            # other threads may add some
            known = max((place for place in [*kept] if place < count), default=0)
            digest = kept[known].copy() if known else hashlib.blake2b(digest_size=20)
            source = file if is_plain else None
            while known < count:
                end = min(known - known % _PIECE_ENTRIES + _PIECE_ENTRIES, count)
                digest.update(_piece(changelog, source, known, end))
                known = end
                kept[known] = digest.copy()
        return str(kept[count].hexdigest())


def _kept(changelog: Any, file: Any) -> dict[int, Any] | None:
    """Return the digests of a file with these stats.

    ``None`` if it may yet have another content with the same stats.
    """
    try:
        it = os.fstat(file.fileno())
    except AttributeError:  # a transaction has more than the file
        return None
    if time.time_ns() - max(it.st_mtime_ns, it.st_ctime_ns) <= TICK_NS:
        return None
    stats = (it.st_dev, it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns)
    path = changelog.opener.join(b"00changelog.i")
    known = _of_files.get(path)
    if known is None or known[0] != stats:
        if len(_of_files) >= _MOST_FILES:
            _of_files.clear()
        known = _of_files[path] = stats, {}
    return known[1]


def _piece(changelog: Any, file: Any, start: int, end: int) -> bytes:
    """Return bytes that identify some revisions and their order.

    With the ``file`` of an index of the usual format, these are its entries. Reading
    them takes a tenth of the time that it takes to ask for each node.
    """
    if file is not None:
        file.seek(max(start * _ENTRY_BYTES, 4))  # without the header
        return bytes(file.read(end * _ENTRY_BYTES - file.tell()))
    index = changelog.index
    return b"".join(index[rev][constants.ENTRY_NODE_ID] for rev in range(start, end))
