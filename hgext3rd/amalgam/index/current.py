"""The index whose snapshot is known to be current: mapped without a closer look.

Nearly every command finds such a snapshot: files of the user's own, and a docket from
when index and snapshot were in the states that they are in now. This loads next to
nothing. All else is left to ``mapping``: other owners, other states, links, manifests
of directories. It applies all rules of ``docs/formats/index-snapshot.rst``, makes a
snapshot if it may, and knows the reason if there is none.
"""

from __future__ import annotations

import itertools
import mmap
import os
import stat
import zlib
from typing import TYPE_CHECKING, Any

from mercurial import error

from ..loading import load, one_at_a_time

if TYPE_CHECKING:
    from .buffer import Mapped

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LARGEST = 4096  # a docket
# A mapping of Python's keeps a descriptor. A server that opens more uses the core.
_MOST = 2
_by_python = itertools.count()
_COMPARED = 4096  # bytes, whatever the docket says
_UID_DIGITS = 16
_DIGITS = b"0123456789abcdef"

# what ``snapshot.SnapshotDocket`` writes of names without escapes, before the checksum
_DOCKET = b"""amalgam index snapshot 2
index %s
uid %s
length %d
file %d %d %d %d %d
data %d %d %d %d %d
"""


class Current:
    """An index in memory, and the docket of its snapshot."""

    __slots__ = ("data", "docket", "mapped")

    def __init__(self, data: memoryview, mapped: Mapped | None, *docket: Any) -> None:
        self.data = data
        """All of the index, read-only. Owns the memory."""
        self.mapped = mapped
        """``None`` if Python mapped it, and not the core."""
        self.docket = docket
        """Name, uid, length in bytes, and file stat of the data file, a tuple."""


def find(
    owner_path: bytes, path: bytes, index: int, prefault: bytes, *, by_core: bool
) -> Current | None:
    """Map the index open as ``index``; ``None`` if that takes a closer look.

    ``path`` is its path below ``.hg/store``, and ``owner_path`` that of the ``.hg``
    that has the snapshots. The core maps it if the caller needs it, with ``prefault``,
    one of ``configitems.PREFAULTS``; if the index is longer than its snapshot; and if
    this process has mapped others.
    """
    name = path.removesuffix(b".i")
    if name == path or b"/" in name:
        return None
    opened: list[int] = []

    def enter(entry: bytes, flags: int, above: int | None = None) -> int:
        opened.append(os.open(entry, flags, dir_fd=above))
        return opened[-1]

    try:
        seen = os.fstat(index)
        last = max(seen.st_size - _COMPARED, 0)
        _read_ahead(index, last)  # while the docket is read
        user = os.geteuid()
        above = enter(owner_path, _DIRECTORY)
        if os.fstat(above).st_uid != user:
            return None
        for entry in (b"amalgam", b"index"):
            above = enter(entry, _DIRECTORY | os.O_NOFOLLOW, above)
        content = os.read(enter(name + b".docket", _FILE, above), _LARGEST)
        uid, length_bytes = _uid_and_length(content)
        data_name = b"%s-%s.snap" % (name, uid)
        fd = enter(data_name, _FILE, above)
        found = os.fstat(fd)
        state, data_state = _state(seen), _state(found)
        body = _DOCKET % (path, uid, length_bytes, *state, *data_state)
        if content != b"%ssum %08x\n" % (body, zlib.crc32(body)):
            return None
        modes = found.st_mode | os.fstat(above).st_mode
        if not stat.S_ISREG(found.st_mode) or modes & stat.S_IWOTH:
            return None
        # only the file system of the index was asked whether mapping is safe
        if found.st_uid != user or found.st_dev != seen.st_dev:
            return None
        if not 0 < length_bytes <= min(found.st_size, seen.st_size):
            return None
        mapped = None
        if by_core or length_bytes < seen.st_size or next(_by_python) >= _MOST:
            with one_at_a_time:
                from . import buffer

                load(buffer)
            full = b"%s/amalgam/index/%s" % (owner_path, data_name)
            policy = buffer.PREFAULTS[prefault]
            sizes = length_bytes, index, seen.st_size
            mapped = buffer.mapped(fd, full, *sizes, policy)
            data = mapped.data
        else:
            data = memoryview(mmap.mmap(fd, length_bytes, prot=mmap.PROT_READ))
            # as bytes: a memoryview is compared item by item
            if os.pread(index, _COMPARED, last) != data[last:].tobytes():
                return None
        if _state(os.fstat(index)) != state:
            return None
        return Current(data, mapped, name, uid, length_bytes, data_state)
    except (OSError, ValueError, error.StateError):
        return None
    finally:
        for fd in opened:
            os.close(fd)


def _read_ahead(fd: int, start: int) -> None:
    """Let the kernel read the rest of a file, without waiting for it."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, start, 0, os.POSIX_FADV_WILLNEED)


def _uid_and_length(content: bytes) -> tuple[bytes, int]:
    """Return two values of a docket; ``ValueError`` if it cannot have them."""
    _title, _index, uid, length, _rest = content.split(b"\n", 4)
    uid = uid[4:]
    if len(uid) != _UID_DIGITS or uid.strip(_DIGITS):
        raise ValueError("not a uid")
    return uid, int(length[7:])


def _state(found: os.stat_result) -> tuple[int, ...]:
    times = found.st_mtime_ns, found.st_ctime_ns
    return (found.st_dev, found.st_ino, found.st_size, *times)
