"""What is known of a snapshot: the small file that makes its bytes count.

Owns the format of ``.hg/amalgam/index/<name>.docket``, which is written down in
``docs/formats/index-snapshot.rst``, and what dockets have in common: numbers, uids and
states of files. Knows nothing of how a snapshot comes to be.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from ..placement import Unusable
from ..records import Record

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from ..placement import Directory, Placement

_MAGIC = b"amalgam index snapshot 2"
_KEYS = [b"index", b"uid", b"length", b"file", b"data"]
_LARGEST = 4096  # a docket is about 300 bytes, and the name of an index
_LONGEST = 19  # digits of a number of 63 bits
_UID_DIGITS = 16


def sealed(magic: bytes, lines: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the content of a docket: keys, with their values, and a checksum."""
    body = b"".join([b"%s\n" % magic, *(b"%s %s\n" % line for line in lines)])
    return b"%ssum %08x\n" % (body, zlib.crc32(body))


def unsealed(content: bytes, magic: bytes) -> list[tuple[bytes, bytes]]:
    """Return what ``sealed`` made ``content`` of; ``ValueError`` if it did not."""
    body, _sum, stated = content.rpartition(b"sum ")
    first, *lines = body.split(b"\n")
    if stated != b"%08x\n" % zlib.crc32(body) or first != magic:
        raise ValueError("damaged, or of another version")
    if not lines or lines.pop():
        raise ValueError("the last line is cut")
    parts = (line.partition(b" ") for line in lines)
    return [(key, value) for key, _space, value in parts]


def number(text: bytes) -> int:
    """Return a number of 63 bits; ``ValueError`` if it is none."""
    if not text.isdigit() or len(text) > _LONGEST or int(text) >> 63:
        raise ValueError("not a number")
    return int(text)


def is_uid(text: bytes) -> bool:
    """Tell whether it is 16 hexadecimal digits, and so may be in the name of a file."""
    return len(text) == _UID_DIGITS and not text.strip(b"0123456789abcdef")


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

    @classmethod
    def parse(cls, content: bytes) -> FileStat:
        """Return what ``format`` made ``content`` of; ``ValueError`` if it did not."""
        device, inode, size_bytes, mtime_ns, ctime_ns = map(number, content.split(b" "))
        return cls(device, inode, size_bytes, mtime_ns, ctime_ns)

    def format(self) -> bytes:
        """Return it as text."""
        return b"%d %d %d %d %d" % self

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
            lines = unsealed(content, _MAGIC)
            if [key for key, _value in lines] != _KEYS:
                return None
            path, uid, length, state, data = (value for _key, value in lines)
            docket = cls(
                path, uid, number(length), FileStat.parse(state), FileStat.parse(data)
            )
        except ValueError:
            return None
        fits = 0 < docket.length_bytes <= docket.data.size_bytes
        return docket if fits and is_uid(uid) else None

    def format(self) -> bytes:
        """Return the content of the file."""
        values = (
            self.path,
            self.uid,
            b"%d" % self.length_bytes,
            self.state.format(),
            self.data.format(),
        )
        return sealed(_MAGIC, zip(_KEYS, values, strict=True))

    def write(self, directory: Directory, name: bytes, placement: Placement) -> None:
        """Replace the docket.

        It may be lost in a crash of the machine: then the one before it, or none, is
        looked at, and found not to fit the index, or to fit.
        """
        directory.replace(name, self.format(), placement, durable=False)
