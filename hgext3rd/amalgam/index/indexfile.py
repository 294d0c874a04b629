"""The file of an index, when Mercurial is about to open it.

Owns the conclusions from its name, its size and its first bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from mercurial import vfs as vfsmod
from mercurial.revlogutils import constants

from ..records import Record
from . import snapshot
from .decision import Reason, reason_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mercurial.interfaces.types import VfsT

    from .mapping import Site
    from .snapshot import IndexFile

_ENTRY_BYTES = 64
_ENTRY_BYTES_WITH_DOCKET = 96  # of the formats whose index file is named by a docket


class IndexCandidate(Record):
    """A file that is to be opened as an index."""

    opener: VfsT
    path: bytes
    """Below ``.hg/store``."""
    size_bytes: int | None
    """``None`` if the file is missing, 0 for a docket."""
    descriptor: int = -1
    """Open as long as ``opened`` is."""
    limit_bytes: int | None = None
    """End of the index; bytes after it do not belong to it."""
    inline: bool = False
    """Whether revisions lie between the entries."""
    docket: bool = False
    """Whether it names the file of the index, and is none itself."""

    @property
    def file(self) -> IndexFile:
        """The file as ``snapshot`` wants it."""
        limited = self.limit_bytes is not None
        return snapshot.IndexFile(
            fd=self.descriptor,
            path=self.path,
            name=name_of(self.path),
            entry_bytes=_ENTRY_BYTES_WITH_DOCKET if limited else _ENTRY_BYTES,
            limit_bytes=self.limit_bytes,
        )

    def reason(
        self, threshold_bytes: int | None, find: Callable[[], Site | None]
    ) -> Reason:
        """Decide whether it is to be mapped from a snapshot at the site that is found.

        It is looked for only if all else speaks for mapping.
        """

        def is_mmap_safe() -> bool:
            site = find()
            if site is None or not self.opener.is_mmap_safe(self.path):
                return False
            directory = vfsmod.vfs(site.snapshots.directory.path)
            if not directory.exists():  # it will be where .hg is
                directory = vfsmod.vfs(site.owner_path)
            return directory.is_mmap_safe(b"")

        temporary = self.limit_bytes is None and not self.path.endswith(b".i")
        return reason_for(
            threshold_bytes,
            self.size_bytes,
            self.inline,
            temporary,
            is_mmap_safe,
        )


@contextlib.contextmanager
def open_candidate(
    opener: VfsT, path: bytes, limit_bytes: int | None = None
) -> Iterator[IndexCandidate]:
    """Open the file of an index and examine it.

    ``limit_bytes`` comes from the docket that names the file, if any.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(opener(path))
        except FileNotFoundError:
            yield IndexCandidate(opener, path, size_bytes=None)
            return
        size_bytes = opener.fstat(file).st_size
        is_index = limit_bytes is not None
        header = 0 if is_index else int.from_bytes(file.read(4), "big")
        version = header & 0xFFFF
        if version in (constants.REVLOGV2, constants.CHANGELOGV2):
            # The index that it names comes in a second call, unless that is empty.
            yield IndexCandidate(opener, path, size_bytes=0, docket=True)
            return
        inline = bool(header & constants.FLAG_INLINE_DATA)
        yield IndexCandidate(
            opener,
            path,
            size_bytes,
            descriptor=file.fileno() if hasattr(file, "fileno") else -1,
            limit_bytes=limit_bytes,
            inline=version == constants.REVLOGV1 and inline,
        )


def name_of(path: bytes) -> bytes:
    """Return how the names of the files that belong to a snapshot begin."""
    name = path.removesuffix(b".i")
    if b"/" not in name:
        return name
    return b"meta-" + hashlib.sha1(name).hexdigest()[:20].encode()
