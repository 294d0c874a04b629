"""The docket of a snapshot: the small file that makes its bytes count.

``docs/formats/index-snapshot.rst`` describes ``.hg/amalgam/index/<name>.docket``. Knows
nothing of how a snapshot comes to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import docketfile
from ..docketfile import Field, numbers, rows
from ..placement import Unusable
from ..records import Record

if TYPE_CHECKING:
    import os

    from ..placement import Directory, Placement

_LARGEST = 4096  # a docket is about 300 bytes, and the name of an index


class FileStat(Record):
    """What the file system says of a file; another whenever somebody wrote to it."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> FileStat:
        """Return the state that ``stat`` tells of."""
        return cls(
            stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
        )

    def is_same_file(self, other: FileStat) -> bool:
        """Tell whether both are states of one file."""
        return (self.device, self.inode) == (other.device, other.inode)


class SnapshotDocket(Record):
    """A snapshot, and the file of which it was found to be a beginning."""

    path: bytes
    """Path of the index below ``.hg/store``."""
    uid: bytes
    """16 hexadecimal digits, which name the data file."""
    length_bytes: int
    """How much of the data file counts; greater than 0."""
    state: FileStat
    """The index, when its first ``length_bytes`` were those of the data file."""
    data: FileStat
    """The data file then."""

    @classmethod
    def read(cls, directory: Directory, name: bytes) -> SnapshotDocket | None:
        """Read a docket; ``None`` if there is none, or none that is whole and ours."""
        try:
            return cls.parse(directory.read(name, _LARGEST))
        except (OSError, Unusable):
            return None

    @classmethod
    def parse(cls, content: bytes) -> SnapshotDocket | None:
        """Return what ``format`` made ``content`` of; ``None`` if it did not."""
        try:
            docket = cls(**_FORM.values_in(content))
        except ValueError:
            return None
        return docket if 0 < docket.length_bytes <= docket.data.size_bytes else None

    def format(self) -> bytes:
        """Return the content of the file."""
        return _FORM.content_of(self)

    def write(self, directory: Directory, name: bytes, placement: Placement) -> None:
        """Replace the docket.

        It may be lost in a crash of the machine: then the one before it, or none, is
        looked at, and found not to fit the index, or to fit.
        """
        directory.replace(name, self.format(), placement, durable=False)


_FORM = docketfile.Form(
    b"amalgam index snapshot 2",
    {
        "path": Field(b"index", bytes, bytes),
        "uid": Field(b"uid", docketfile.uid, bytes),
        "length_bytes": numbers(b"length"),
        "state": rows(b"file", FileStat),
        "data": rows(b"data", FileStat),
    },
)
