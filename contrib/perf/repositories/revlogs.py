"""One revlog v1, written in one pass.

Owns nodes, delta chains, chunks, and the choice of one inline file or two files. Knows
neither what the texts mean nor where files live: the caller names the files. Format:
`hg help internals.revlogs`.
"""

from __future__ import annotations

import struct
from array import array
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha1
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NULL_REV = -1
NULL_NODE = b"\0" * 20

_FORMAT_V1 = 1
_INLINE = 1 << 16
_GENERALDELTA = 1 << 17
_pack_entry = struct.Struct(">Qiiiiii20s12x").pack
_pack_header = struct.Struct(">I").pack

# Mercurial's own limits: revlog._maxinline, format.maxchainlen of sparse-revlog, and
# LIMIT_DELTA2TEXT of revlogutils.deltas.
_MAX_INLINE_BYTES = 131072
_MAX_CHAIN_REVS = 1000
_MAX_CHAIN_TEXTS = 2


class Revlog:
    """An append-only revlog: ``add`` its revisions in order, then ``close`` it.

    Chunks go to disk as they accumulate; what stays in memory is 34 bytes a revision,
    or about 200 with ``repeats``.
    """

    __slots__ = (
        "_chain_bytes",
        "_chain_revs",
        "_chunks",
        "_compress",
        "_deltas",
        "_end",
        "_entries",
        "_known",
        "_nodes",
        "_parents",
        "_path",
        "_pending_bytes",
        "_spilled",
    )
    _spill_bytes = 1 << 16

    def __init__(
        self,
        path: Callable[[bytes], bytes],
        compress: Callable[[bytes], bytes | None],
        *,
        deltas: bool = True,
        repeats: bool = False,
    ) -> None:
        """Prepare to write ``path(b".i")`` and ``path(b".d")``; create neither yet.

        ``compress`` answers None where it does not pay. Without ``deltas`` each chunk
        is a full text, as in a changelog. Without ``repeats`` the caller promises never
        to add the same text on the same parents twice.
        """
        self._path = path
        self._compress = compress
        self._deltas = deltas
        self._nodes = bytearray()
        self._parents = array("i")
        self._chain_revs = array("H")
        self._chain_bytes = array("I")
        self._known: dict[bytes, int] | None = {} if repeats else None
        self._entries: list[bytes] = []
        self._chunks: list[bytes] = []
        self._end = 0
        self._pending_bytes = 0
        self._spilled = False

    def __len__(self) -> int:
        """How many revisions there are, so the next one's number."""
        return len(self._nodes) // 20

    def node(self, rev: int) -> bytes:
        """The 20 bytes of a revision, those of the null revision included."""
        return bytes(self._nodes[20 * rev : 20 * rev + 20]) if rev >= 0 else NULL_NODE

    def parents(self, rev: int) -> tuple[int, int]:
        """Both parents of an existing revision, ``NULL_REV`` for an absent one."""
        return self._parents[2 * rev], self._parents[2 * rev + 1]

    def add(
        self, text: bytes, p1: int, p2: int, link_rev: int, delta: bytes | None
    ) -> int:
        """Append a revision and return its number, or that of its first appearance.

        ``delta`` makes ``text`` from the text of ``p1``, in the form of bdiff; None
        stores the full text, as does a chain that has become too long.
        """
        low, high = sorted((self.node(p1), self.node(p2)))
        node = sha1(low + high + text).digest()
        rev = len(self)
        if self._known is not None and self._known.setdefault(node, rev) != rev:
            return self._known[node]
        return self._append(node, text, p1, p2, link_rev, delta)

    def _append(
        self,
        node: bytes,
        text: bytes | bytearray,
        p1: int,
        p2: int,
        link_rev: int,
        delta: bytes | None,
    ) -> int:
        """Append a revision whose node is known, or is set later."""
        if self._end > _MAX_INLINE_BYTES and self._pending_bytes > self._spill_bytes:
            self._spill()
        rev = len(self)
        base, chain_revs, chain_bytes, chunk = rev, 0, 0, b""
        if delta is not None and self._deltas and p1 >= 0:
            chain_revs = self._chain_revs[p1] + 1
            chunk = self._chunk(delta)
            chain_bytes = self._chain_bytes[p1] + len(chunk)
            if chain_revs < _MAX_CHAIN_REVS and chain_bytes <= (
                _MAX_CHAIN_TEXTS * len(text)
            ):
                base = p1
        if base == rev:
            chunk = self._chunk(bytes(text))
            chain_revs, chain_bytes = 0, len(chunk)
        entry = _pack_entry(
            self._end << 16, len(chunk), len(text), base, link_rev, p1, p2, node
        )
        self._entries.append(entry)
        self._chunks.append(chunk)
        self._nodes += node
        self._parents.extend((p1, p2))
        self._chain_revs.append(chain_revs)
        self._chain_bytes.append(chain_bytes)
        self._end += len(chunk)
        self._pending_bytes += len(chunk) + len(entry)
        return rev

    def is_ancestor(self, rev: int, other: int) -> bool:
        """Whether ``rev`` is ``other`` or one of its ancestors.

        Looks at no more than the revisions between the two.
        """
        pending, seen = [other], {other}
        while pending:
            current = pending.pop()
            if current == rev:
                return True
            for parent in self.parents(current):
                if parent >= rev and parent not in seen:
                    seen.add(parent)
                    pending.append(parent)
        return False

    def close(self) -> list[bytes]:
        """Write what is left and return the suffixes of the files of this revlog."""
        if self._spilled or self._end > _MAX_INLINE_BYTES:
            self._spill()
            return [b".i", b".d"]
        self._entries[:1] = [self._first_entry(_INLINE)]
        with open(self._path(b".i"), "wb") as file:
            for pair in zip(self._entries, self._chunks, strict=True):
                file.writelines(pair)
        return [b".i"]

    def _chunk(self, content: bytes) -> bytes:
        """Return ``content`` with the header that tells its encoding."""
        if not content:
            return content
        compressed = self._compress(content)
        if compressed is not None:
            return compressed
        return content if content[:1] == b"\0" else b"u" + content

    def _first_entry(self, flags: int) -> bytes:
        """The entry of revision 0, its offset overlaid with the revlog's header."""
        if self._deltas:  # Mercurial writes its changelog without this flag
            flags |= _GENERALDELTA
        return _pack_header(_FORMAT_V1 | flags) + self._entries[0][4:]

    def _spill(self) -> None:
        """Append pending entries and chunks to the two files."""
        mode = "ab" if self._spilled else "wb"
        if not self._spilled:
            self._entries[0] = self._first_entry(0)
        with open(self._path(b".i"), mode) as index:
            index.write(b"".join(self._entries))
        with open(self._path(b".d"), mode) as data:
            data.write(b"".join(self._chunks))
        self._spilled = True
        self._pending_bytes = 0
        self._entries.clear()
        self._chunks.clear()


class LateRevlog(Revlog):
    """A revlog of large texts, which threads hash while the next ones are made."""

    __slots__ = ("_spare", "_unhashed", "_workers")
    _spill_bytes = 1 << 22  # to write waits for all nodes

    def __init__(
        self, path: Callable[[bytes], bytes], compress: Callable[[bytes], bytes | None]
    ) -> None:
        super().__init__(path, compress)
        self._workers = [ThreadPoolExecutor(1) for _ in range(2)]
        self._spare: list[bytearray] = []  # new memory takes longer than a copy
        self._unhashed: dict[int, tuple[Future[None], ThreadPoolExecutor]] = {}

    def add_late(
        self, text: bytearray, p1: int, p2: int, link_rev: int, delta: bytes | None
    ) -> tuple[int, Future[None]]:
        """Like ``add``. Before the result is there, the revision has no node."""
        rev = self._append(NULL_NODE, text, p1, p2, link_rev, delta)
        copy = self._spare.pop() if self._spare else bytearray()
        copy[:] = text
        waiting = {at: one for at, one in self._unhashed.items() if not one[0].done()}
        # a line stays with its thread, and does not wait for another one
        busy = [worker for _hashed, worker in waiting.values()]
        free = min(self._workers, key=busy.count)
        worker = waiting[p1][1] if p1 in waiting else free
        waits = [waiting[parent][0] for parent in (p1, p2) if parent in waiting]
        hashed = worker.submit(self._hash, rev, copy, waits)
        self._unhashed = {**waiting, rev: (hashed, worker)}
        return rev, hashed

    def close(self) -> list[bytes]:
        """Write what is left, with the last nodes."""
        self._set_nodes()
        for worker in self._workers:
            worker.shutdown()
        return super().close()

    def _hash(self, rev: int, text: bytearray, waits: list[Future[None]]) -> None:
        for parent in waits:  # of those that wait, the oldest has its parents
            parent.result()
        p1, p2 = self.parents(rev)
        hashed = sha1(b"".join(sorted((self.node(p1), self.node(p2)))))
        hashed.update(text)
        self._nodes[20 * rev : 20 * rev + 20] = hashed.digest()
        self._spare.append(text)

    def _spill(self) -> None:
        self._set_nodes()
        super()._spill()

    def _set_nodes(self) -> None:
        """Wait for all nodes, and put them into the entries that are not written."""
        for hashed, _worker in self._unhashed.values():
            hashed.result()
        self._unhashed = {}
        first = len(self) - len(self._entries)
        for place, entry in enumerate(self._entries):
            self._entries[place] = entry[:32] + self.node(first + place) + entry[52:]
