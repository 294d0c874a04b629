"""The choice of a node map: ours, Mercurial's, or none.

Ours comes first, because we know exactly what it was made from. Mercurial's is used if
the repository has the requirement and ours is missing. Its rules are those of
``mercurial.revlogutils.nodemap``, which trusts the last revision that the docket names.
It is used to find nodes only, because nothing else in it can be verified. amalgam never
writes it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.revlogutils import nodemap as stock

from ..native import errors
from ..native._core import ffi, lib
from ..native.buffers import lent
from ..placement import Directory
from . import nodefile

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import VfsT

    from ..trust import Trust
    from .snapshot import Snapshot

_MMAP = b"persistent-nodemap.mmap"
_NODE = 7  # in an entry
_LARGEST = 4096  # a docket is about 80 bytes
_HEX = b"0123456789abcdef"
# Mercurial writes 24 bytes for a revision, and lets a tenth be garbage
_BYTES_PER_REV = 256


class NodeSource:
    """What may have a map of one index. It does not refer to the revlog."""

    def __init__(
        self,
        snapshot: Snapshot | None,
        opener: VfsT,
        docket: bytes | None,
        radix: bytes,
        index: Any,
        trust: Callable[[VfsT], Trust | None],
    ) -> None:
        """Ours is of ``snapshot``, the part of the index that is never changed.

        The names of Mercurial's, below ``opener``, are ``docket``, ``None`` if the
        repository has none, and for its data file what begins with ``radix``. Its
        docket is compared with ``index``, the C index. ``trust`` tells of ``opener``
        what may be mapped.
        """
        self.snapshot = snapshot
        self.opener = opener
        self.docket = docket
        self.radix = radix
        self.index = index
        self.trust = trust
        self.is_ours = False  # the map that was opened

    def open(self, data: Any) -> Any | None:
        """Return a handle on the first map that can be used, ``None`` if none can."""
        if self.snapshot is not None:
            try:
                ours = nodefile.open_map(self.snapshot, data)
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
        if self.is_ours and self.snapshot is not None:
            nodefile.forget(self.snapshot)

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
        if tip >= len(self.index) or self.index[tip][_NODE] != tip_node:
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

    def _placed(self, path: bytes) -> tuple[Directory, bytes]:
        """Return where a file of Mercurial's is: nothing but a regular file is opened.

        A FIFO would not let go.
        """
        directory, name = os.path.split(self.opener.join(path))
        return Directory(directory), name
