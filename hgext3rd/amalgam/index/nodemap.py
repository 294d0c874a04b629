"""The index object of a revlog, with node lookups answered by a node map.

``MappedIndex`` is composed over Mercurial's C index. The map answers questions about
nodes, and the C index everything else. The C index takes over without a map, or if the
map turns out to be unusable. Revlogs keep a ``MappedIndex`` as ``index``; code that
reads chunks and deltas uses the C index of ``_inner``, and so do C functions. A
Mercurial built with Rust keeps its own index.

``NodeSource`` chooses the map. Ours comes first, since its origin is known. Mercurial's
is used if the repository has the requirement and ours is missing, by the rules of
``mercurial.revlogutils.nodemap``, which trusts the last revision that the docket names.
It only finds nodes, because nothing else in it can be verified. amalgam never writes
it.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.revlogutils import nodemap as stock

from .. import files
from ..core import errors
from ..core._core import ffi, lib
from ..core.buffers import lent, taken
from . import buffer, nodemapfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from mercurial.interfaces.types import VfsT

    from ..core.buffers import Buffer
    from ..trust import Trust
    from .snapshot import Snapshot

    class NodeMapSource(Protocol):
        """Where a node map comes from."""

        def open(self, data: Any) -> Any | None:
            """Return a handle for the index ``data``; ``None`` without a map."""

        def discard(self) -> None:
            """Give up the map that was opened: it cannot be right."""


ENTRY_LEN = 64
_NODE = 7  # in an entry as Python has it
_NODE_END = 52  # in an entry as it is on disk
_FEW = 1024  # consecutive revisions, in 16 pages

# answers of the core, see amalgam.h
_UNKNOWN = -2
_FAILED = -3
_MANY = 2

_rev = lib.amalgam_nodemap_rev
_match = lib.amalgam_nodemap_match
_shortest = lib.amalgam_nodemap_shortest


def _walking_down(name: str) -> Callable[..., Any]:
    """Return a method of the C index that goes from revisions to common ancestors.

    Below the first of the revisions, nobody knows how far.
    """

    def walk(self: MappedIndex, *revs: Any) -> Any:
        self._walked()
        if revs:
            self._expect_all(min(revs), max(revs) + 1)
        return getattr(self._index, name)(*revs)

    return walk


#: Entries read by a look-up or a short log.
_FEW_ENTRIES = 1024


class MappedIndex:
    """Mercurial's C index, with nodes found by a node map.

    Few of its entries are expected to be read, until more are. The map is opened by the
    first lookup. The interface is ``pure.parsers.BaseIndexObject``, and the C index's
    additions.
    """

    def __init__(
        self,
        index: Any,
        data: Buffer,
        source: NodeMapSource,
        expect: Callable[[int, int, int], None],
    ) -> None:
        """Compose over ``index``, which was made of ``data``.

        ``expect`` is called with the range of bytes to be read.
        """
        self._index = index
        self._entry = index.__getitem__
        self._left = _FEW_ENTRIES  # before it is taken for a walk
        self._data = ffi.from_buffer("uint8_t[]", data)
        self._size = len(data)
        self._on_disk = self._kept = len(index)
        self._source = source
        self._map: Any = ffi.NULL
        self._tell = expect
        self._stretches = False  # whether they were told
        self._all = range(0)  # revisions whose use was announced
        for name in _delegated(index.__class__):
            setattr(self, name, getattr(index, name))

    ancestors = _walking_down("ancestors")
    commonancestorsheads = _walking_down("commonancestorsheads")

    def findsnapshots(self, cache: dict[int, set[int]], first: int, last: int) -> Any:
        """Add snapshot revisions and their bases to ``cache``."""
        self._walked()
        self._expect_all(first, last + 1)
        return self._index.findsnapshots(cache, first, last)

    def headrevs(self, *args: Any) -> Any:
        """Return the heads of the revisions before the second argument, or of all."""
        stop = args[1] if len(args) > 1 else None
        self._expect_all(0, self._on_disk if stop is None else stop)
        return self._index.headrevs(*args)

    def headrevsdiff(self, first: int, end: int) -> Any:
        """Return the heads that revisions add and remove; their parents may be far."""
        self._walked()
        self._expect_all(first, end)
        return self._index.headrevsdiff(first, end)

    def reachableroots2(self, first: int, heads: list[int], *args: Any) -> Any:
        """Return the roots that are ancestors of heads; looks at none before first."""
        self._expect_all(first, max(heads, default=-1) + 1)
        return self._index.reachableroots2(first, heads, *args)

    def computephasesmapsets(self, roots: dict[int, set[int]]) -> Any:
        """Return the revisions of each phase; those from the first root on are read."""
        revs = [rev for of_phase in roots.values() for rev in of_phase]
        if revs:
            self._expect_all(min(revs), self._on_disk)
        return self._index.computephasesmapsets(roots)

    def __len__(self) -> int:
        """Return the number of revisions."""
        return len(self._index)

    def __getitem__(self, key: Any) -> Any:
        """Return the entry of a revision."""
        if self._left:
            self._left -= 1
            if not self._left:
                self._walked()
        return self._entry(key)

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator of all revisions, which reads each entry."""
        self._walked()
        return iter(self._index)

    def __contains__(self, key: Any) -> bool:
        """Return whether the revision or node exists."""
        return self.has_node(key) if isinstance(key, bytes) else key in self._index

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return an attribute copied from the C index."""

    @property
    def nodemap(self) -> MappedIndex:
        """The index itself, as the C index has it for old extensions."""
        return self

    def get_rev(self, node: bytes) -> int | None:
        """Return the revision of ``node``; ``None`` if unknown."""
        rev: int = _rev(self._map, self._data, self._size, node, len(node))
        if rev > _UNKNOWN:
            return rev
        return None if rev == _UNKNOWN else self._other(rev).get_rev(node)

    get = get_rev

    def rev(self, node: bytes) -> int:
        """Return the revision of ``node``; ``RevlogError`` if unknown."""
        rev: int = _rev(self._map, self._data, self._size, node, len(node))
        if rev > _UNKNOWN:
            return rev
        if rev == _UNKNOWN:
            raise error.RevlogError(None)
        return self._other(rev).rev(node)

    def has_node(self, node: bytes) -> bool:
        """Return whether the node exists."""
        rev: int = _rev(self._map, self._data, self._size, node, len(node))
        return rev > _UNKNOWN if rev >= _UNKNOWN else self._other(rev).has_node(node)

    def partialmatch(self, digits: bytes) -> bytes | None:
        """Return the node that begins with ``digits``; ``None`` if none does.

        ``RevlogError`` if several do.
        """
        node = ffi.new("uint8_t[20]")
        data = (self._map, self._data, self._size)
        count = _match(node, 20, *data, digits, len(digits))
        if count == 1:
            return bytes(ffi.buffer(node))
        if count == _MANY:
            raise error.RevlogError(None)
        return self._other(count).partialmatch(digits) if count else None

    def shortest(self, node: bytes) -> int:
        """Return the number of digits that identify ``node``; ``RevlogError`` if
        unknown."""
        digits: int = _shortest(self._map, self._data, self._size, node, len(node))
        if digits > 0:
            return digits
        if digits == _UNKNOWN:
            raise error.RevlogError(None)
        return self._other(digits).shortest(node)

    def append(self, entry: tuple[Any, ...]) -> None:
        """Add a revision, in memory."""
        self._index.append(entry)
        if self._map:
            self._add(len(self._index) - 1, entry[_NODE])

    def __delitem__(self, key: slice) -> None:
        """Forget the last revisions: ``del index[rev:-1]``."""
        del self._index[key]
        self._kept = min(self._kept, len(self._index))
        if self._map:
            self._truncate(len(self._index))
        elif "rev" not in vars(self):
            # without a map, the last page of the index answers, and it does not shrink
            self._other(_FAILED)

    def nodemap_data_all(self) -> bytes:
        """Return the content of Mercurial's own node map.

        The Rust index has this method. Without it, Mercurial makes the content in
        Python, which takes 10 s for 1M revisions.
        """
        entries = bytearray(ffi.buffer(self._data)[: self._kept * ENTRY_LEN])
        for rev in range(self._kept, len(self._index)):
            # not the packed entry: that of revision 0 has no header
            entries += (
                self._index[rev][_NODE].rjust(_NODE_END, b"\0").ljust(ENTRY_LEN, b"\0")
            )
        answer = ffi.new("amalgam_answer *")
        errors.call(lib.amalgam_nodemap_content, answer, *lent(entries))
        return taken(answer)

    def _walked(self) -> None:
        """Expect reads of most entries from now on."""
        self._left = 0
        if not self._stretches:
            self._stretches = True
            self._tell(buffer.STRETCHES, 0, self._size)

    def _expect_all(self, first: int, end: int) -> None:
        """Have the entries of these revisions read at once, if they are not few."""
        first, end = max(first, 0), min(end, self._on_disk)
        told = self._all
        if end - first > _FEW and not (told.start <= first and end <= told.stop):
            self._all = range(first, end)
            self._tell(buffer.EVERYTHING, first * ENTRY_LEN, end * ENTRY_LEN)

    def _add(self, rev: int, node: bytes) -> None:
        errors.call(lib.amalgam_nodemap_append, self._map, rev, node, len(node))

    def _truncate(self, revs: int) -> None:
        errors.call(lib.amalgam_nodemap_truncate, self._map, revs)

    def _other(self, answer: int) -> Any:
        """Return the object that answers after the core failed: this one, or the C
        index."""
        if answer < _FAILED:
            return self._index  # and knows how to refuse
        if self._map:
            self._source.discard()
        elif opened := self._source.open(self._data):
            self._map = opened
            if self._kept < self._on_disk:
                self._truncate(self._kept)
            for rev in range(self._kept, len(self._index)):
                self._add(rev, self._index[rev][_NODE])
            return self
        # from now on as if there was nothing between; it looks entry by entry
        self._walked()
        for name in _ANSWERED:
            setattr(self, name, getattr(self._index, name))
        self._map = ffi.NULL
        return self._index


_ANSWERED = ("get", "get_rev", "has_node", "partialmatch", "rev", "shortest")


@functools.cache
def _delegated(kind: Any) -> tuple[str, ...]:
    """Return the methods and values of the C index that are passed on as they are."""
    return tuple(name for name in vars(kind) if not hasattr(MappedIndex, name))


_MMAP = b"persistent-nodemap.mmap"
_NODE_WORD = 7  # in an entry
_LARGEST = 4096  # a docket is about 80 bytes
_HEX = b"0123456789abcdef"
# Mercurial writes 24 bytes for a revision, and lets a tenth be garbage
_BYTES_PER_REV = 256


class NodeSource:
    """The candidates for the map of one index. Does not refer to the revlog."""

    def __init__(
        self,
        find: Callable[[], Snapshot | None] | None,
        opener: VfsT,
        docket: bytes | None,
        radix: bytes,
        index: Any,
        trust: Callable[[VfsT], Trust | None],
    ) -> None:
        """Take the candidates: ours, of the snapshot that is found, and Mercurial's.

        A snapshot is the immutable part of the index. Mercurial's map is below
        ``opener``: ``docket``, ``None`` without the requirement, and data files whose
        names begin with ``radix``. Its docket is compared with ``index``, the C index.
        ``trust`` returns the trust in files of ``opener``.
        """
        self.find = find
        self.opener = opener
        self.docket = docket
        self.radix = radix
        self.index = index
        self.trust = trust
        self.is_ours = False  # the map that was opened

    def open(self, data: Any) -> Any | None:
        """Return a handle on the first map that can be used, ``None`` if none can."""
        snapshot = self.snapshot
        if snapshot is not None:
            try:
                ours = nodemapfile.open_map(snapshot, data)
            except (OSError, error.StorageError):
                ours = None
            if ours is not None:
                self.is_ours = True
                return ours
        try:
            return self._open_stock(data)
        except (OSError, error.StorageError):
            return None

    def discard(self) -> None:
        """Have ours made anew by the next renewal."""
        if self.is_ours and (snapshot := self.snapshot) is not None:
            nodemapfile.forget(snapshot)

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot of the index, if it has one."""
        return self.find() if self.find else None

    def _open_stock(self, data: Any) -> Any | None:
        trust = self.docket and self.trust(self.opener)
        if not self.docket or not trust or not trust.usable:
            return None
        directory, name = self._placed(self.docket)
        content = directory.tryread(name, _LARGEST)
        header_end = stock.S_VERSION.size + stock.S_HEADER.size
        if len(content) < header_end or content[0] != stock.ONDISK_VERSION:
            return None
        header = content[stock.S_VERSION.size : header_end]
        uid_len, tip, length, _unused, tip_len = stock.S_HEADER.unpack(header)
        uid = content[header_end : header_end + uid_len]
        tip_node = content[header_end + uid_len :][:tip_len]
        if tip >= len(self.index) or self.index[tip][_NODE_WORD] != tip_node:
            return None
        if not uid or uid.strip(_HEX) or length > (tip + 1) * _BYTES_PER_REV:
            return None
        path = b"%s-%s.nd" % (self.radix, uid)
        may_map = self.opener.options.get(_MMAP) and self.opener.is_mmap_safe(path)
        directory, name = self._placed(path)
        fd, above = directory.open_to_map(name)
        try:
            if not trust.may_map(os.fstat(fd), above):
                return None
            out = ffi.new("amalgam_nodemap **")
            errors.call(
                lib.amalgam_nodemap_open_upstream,
                out,
                fd,
                *lent(directory.join(name)),
                length,
                tip + 1,
                bool(may_map),
                data,
                len(data),
            )
            return ffi.gc(out[0], lib.amalgam_nodemap_free)
        finally:
            os.close(fd)

    def _placed(self, path: bytes) -> tuple[files.Directory, bytes]:
        """Return where a file of Mercurial's is: nothing but a regular file is opened.

        A FIFO would not let go.
        """
        directory, name = os.path.split(self.opener.join(path))
        return files.Directory(directory), name
