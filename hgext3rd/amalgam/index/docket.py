"""What is known of a snapshot: the small file that makes its bytes count.

Owns the format of ``.hg/amalgam/index/<name>.docket``, which is written down in
``docs/formats/index-snapshot.rst``. Knows nothing of how a snapshot comes to be.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

from ..records import Record

if TYPE_CHECKING:
    from ..placement import Placement

_MAGIC = b"amalgam index snapshot 1"
_KEYS = (b"index", b"uid", b"length", b"file")
_LARGEST = 4096  # a docket is about 200 bytes, and the name of an index


class State(Record):
    """What the file system says of a file; another whenever somebody wrote to it."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> State:
        """Return the state that ``stat`` tells of."""
        return cls(
            stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
        )

    def is_same_file(self, other: State) -> bool:
        """Tell whether both are states of one file."""
        return (self.device, self.inode) == (other.device, other.inode)


class Docket(Record):
    """A snapshot, and the file of which it was found to be a beginning."""

    path: bytes
    """Path of the index below ``.hg/store``."""
    uid: bytes
    """16 hexadecimal digits, which name the data file."""
    length_bytes: int
    """How much of the data file counts; greater than 0."""
    state: State
    """The index, when its first ``length_bytes`` were those of the data file."""

    @classmethod
    def read(cls, path: bytes) -> Docket | None:
        """Read a docket; ``None`` if there is none, or none that is whole and ours."""
        try:
            with open(path, "rb") as file:
                return cls.parse(file.read(_LARGEST))
        except OSError:
            return None

    @classmethod
    def parse(cls, content: bytes) -> Docket | None:
        """Return what ``format`` made ``content`` of; ``None`` if it did not."""
        body, separator, checksum = content.rpartition(b"sum ")
        if not separator or checksum != b"%08x\n" % zlib.crc32(body):
            return None
        magic, *lines = body.splitlines()
        if magic != _MAGIC:
            return None
        fields = dict(line.split(b" ", 1) for line in lines)
        path, uid, length, state = (fields[key] for key in _KEYS)
        return cls(path, uid, int(length), State(*map(int, state.split())))

    def format(self) -> bytes:
        """Return the content of the file."""
        lines = [
            _MAGIC,
            b"index " + self.path,
            b"uid " + self.uid,
            b"length %d" % self.length_bytes,
            b"file %d %d %d %d %d" % self.state,
        ]
        body = b"".join(line + b"\n" for line in lines)
        return body + b"sum %08x\n" % zlib.crc32(body)

    def write(self, path: bytes, placement: Placement) -> None:
        """Replace the docket at ``path``.

        It may be lost in a crash of the machine: then the one before it, or none, is
        looked at, and found not to fit the index, or to fit.
        """
        placement.replace(path, self.format(), durable=False)
