"""Which node map an index is looked up in: ours, Mercurial's, or none.

Ours comes first: what it was made from is known exactly. Mercurial's is read where the
repository has the requirement and ours is not there, by the rules of
``mercurial.revlogutils.nodemap``, which trust the last revision that it names. It is
never written here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.revlogutils import nodemap as stock

from ..native import errors
from ..native._core import ffi, lib
from ..native.lent import lent
from . import nodefile

if TYPE_CHECKING:
    from mercurial.interfaces.types import VfsT

    from .snapshot import Snapshot

_MMAP = b"persistent-nodemap.mmap"
_NODE = 7  # in an entry


class NodeSource:
    """What may have a map of one index. It does not refer to the revlog."""

    def __init__(
        self,
        snapshot: Snapshot | None,
        opener: VfsT,
        docket: bytes | None,
        radix: bytes,
        index: Any,
    ) -> None:
        """Ours is of ``snapshot``, the part of the index that is never changed.

        The names of Mercurial's, below ``opener``, are ``docket``, ``None`` if the
        repository has none, and for its data file what begins with ``radix``. Its
        docket is compared with ``index``, the C index.
        """
        self.snapshot = snapshot
        self.opener = opener
        self.docket = docket
        self.radix = radix
        self.index = index
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
        content = self.docket and self.opener.tryread(self.docket)
        if not content:
            return None
        header_end = stock.S_VERSION.size + stock.S_HEADER.size
        if len(content) < header_end or content[0] != stock.ONDISK_VERSION:
            return None
        header = content[stock.S_VERSION.size : header_end]
        uid_len, tip, length, _unused, tip_len = stock.S_HEADER.unpack(header)
        uid = content[header_end : header_end + uid_len]
        tip_node = content[header_end + uid_len :][:tip_len]
        if tip >= len(self.index) or self.index[tip][_NODE] != tip_node:
            return None
        name = b"%s-%s.nd" % (self.radix, uid)
        may_map = self.opener.options.get(_MMAP) and self.opener.is_mmap_safe(name)
        out = ffi.new("amalgam_nodemap **")
        path = os.fsencode(self.opener.join(name))
        errors.call(
            lib.amalgam_nodemap_open_upstream,
            out,
            *lent(path),
            length,
            tip + 1,
            bool(may_map),
            data,
            len(data),
        )
        return ffi.gc(out[0], lib.amalgam_nodemap_free)
