"""Snapshots of indexes: copies that are never truncated, and so can be mapped.

Owns the files of ``.hg/amalgam/index``, from creation to removal, and the rules by
which a snapshot counts as a prefix of its index (``docs/formats/index-snapshot.rst``).
A docket makes the bytes of a snapshot count. Knows neither revlogs nor the time of
renewals.
"""

from __future__ import annotations

import binascii
import contextlib
import errno
import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from mercurial.i18n import _

from .. import docketfile
from ..core.errors import Moved
from ..docketfile import Field, is_uid, numbers, rows
from ..files import TEMPORARY, Unusable
from ..records import Record
from . import buffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..files import Directory, Placement
    from ..trust import Trust


_LARGEST = 4096  # a docket is about 300 bytes, and the name of an index


class FileStat(Record):
    """File stat of a file; it changes with every write."""

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
        """Return whether both are stats of one file."""
        return (self.device, self.inode) == (other.device, other.inode)


class SnapshotDocket(Record):
    """Docket of a snapshot: its data file, and the index of which it is a prefix."""

    path: bytes
    """Path of the index below ``.hg/store``."""
    uid: bytes
    """16 hexadecimal digits, which name the data file."""
    length_bytes: int
    """How much of the data file counts; greater than 0."""
    state: FileStat
    """The index, when its first ``length_bytes`` equalled the data file."""
    data: FileStat
    """The data file then."""

    @classmethod
    def read(cls, directory: Directory, name: bytes) -> SnapshotDocket | None:
        """Read a docket; ``None`` if it is missing, damaged or foreign."""
        try:
            return cls.parse(directory.read(name, _LARGEST))
        except (OSError, Unusable):
            return None

    @classmethod
    def parse(cls, content: bytes) -> SnapshotDocket | None:
        """Parse the output of ``format``; ``None`` for other content."""
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


_DOCKET = b".docket"
_DATA = b".snap"
_LOCK = b"lock"
_KEPT_SECONDS = 600.0  # an unfinished file, whose writer may still be running
_READ_BYTES = 256 << 10  # reading up to this size costs as little as mapping


class Snapshot(Record):
    """Bytes of an index that are on disk for good, until the file is removed."""

    directory: Directory
    """``.hg/amalgam/index``."""
    trust: Trust
    """Whose files there may be mapped."""
    name: bytes
    """Prefix of the names of all files of one index."""
    uid: bytes
    """Names a sequence of bytes that only ever grows; 16 hexadecimal digits."""
    length_bytes: int
    """How many of them are the first ones of the index: whole entries, at least one."""
    data: FileStat
    """File stat of the data file at that moment."""

    @property
    def path(self) -> bytes:
        """Where the bytes are, for messages."""
        return self.directory.join(_data_name(self.name, self.uid))

    @contextlib.contextmanager
    def opened(self) -> Iterator[int | None]:
        """Open the data file as long as the context lasts.

        ``None`` if it is not the file, or not as it was, when it was compared with the
        index; and if it may not be mapped.
        """
        name = _data_name(self.name, self.uid)
        with opened_data(self.directory, self.trust, name) as fd:
            same = fd is not None and FileStat.of(os.fstat(fd)) == self.data
            yield fd if same else None


@contextlib.contextmanager
def opened_data(
    directory: Directory, trust: Trust, name: bytes
) -> Iterator[int | None]:
    """Open a file to map it; ``None`` if it is not there, or may not be mapped."""
    try:
        fd, above = directory.open_to_map(name)
    except (FileNotFoundError, PermissionError, Unusable):
        yield None
        return
    try:
        yield fd if trust.may_map(os.fstat(fd), above) else None
    finally:
        os.close(fd)


class IndexFile(Record):
    """The file of an index that somebody has open."""

    fd: int
    path: bytes
    """Below ``.hg/store``."""
    name: bytes
    """As ``Snapshot.name``."""
    entry_bytes: int
    limit_bytes: int | None = None
    """End of the index; ``None`` for the end of the file."""

    def state(self) -> FileStat:
        """Return its current file stat."""
        return FileStat.of(os.fstat(self.fd))

    def length_bytes(self, state: FileStat) -> int:
        """Return how long the index is in a file of that state."""
        if self.limit_bytes is None:
            return state.size_bytes
        return min(state.size_bytes, self.limit_bytes)


class Busy(Exception):  # noqa: N818
    """Another process writes snapshots of this repository."""


class Snapshots:
    """The snapshots of a repository."""

    def __init__(self, directory: Directory, trust: Trust) -> None:
        """``directory`` is ``.hg/amalgam/index``; it need not be there.

        It is of use only if ``trust`` says so.
        """
        self.directory = directory
        self.trust = trust

    def docket(self, name: bytes) -> SnapshotDocket | None:
        """Return the docket of the snapshot of an index."""
        return SnapshotDocket.read(self.directory, name + _DOCKET)

    def names(self) -> list[bytes]:
        """Return the names of all indexes that have a docket here."""
        entries = self.directory.names()
        return sorted(
            entry.removesuffix(_DOCKET) for entry in entries if entry.endswith(_DOCKET)
        )

    def forget(self, name: bytes) -> None:
        """Remove all files of a removed index. Within ``writing``."""
        self.directory.remove(name + _DOCKET)
        self._remove_others(name, kept=None)

    def find(self, file: IndexFile, state: FileStat) -> Snapshot | None:
        """Return the snapshot of a file that has that state, if it was found to fit."""
        docket = self.docket(file.name)
        if docket is None or docket.state != state or docket.path != file.path:
            return None
        return self._snapshot(file.name, docket)

    @contextlib.contextmanager
    def writing(self, placement: Placement) -> Iterator[None]:
        """Keep other writers out of the directory; ``Busy`` if one is there.

        Never waits: a later renewal does the work. ``OSError`` or ``Unusable`` if this
        process cannot write there, or everybody can.
        """
        self.directory.make(placement)
        if self.is_public(placement):
            raise Unusable(self.directory.path, _(b"may be written by everybody"))
        fd = self._open_lock(placement)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy from None
            yield
        finally:
            os.close(fd)

    def is_public(self, placement: Placement) -> bool:
        """Return whether the directory is world-writable: then nothing is mapped."""
        mode = placement.mode
        with contextlib.suppress(FileNotFoundError, Unusable):
            mode |= self.directory.stat().st_mode
        return bool(mode & stat.S_IWOTH)

    def _open_lock(self, placement: Placement) -> int:
        # before anything is compared
        with self.directory.opened() as fd:
            if not os.access(".", os.W_OK, dir_fd=fd, effective_ids=True):
                refused = errno.EACCES
                raise PermissionError(refused, os.strerror(refused))
        with contextlib.suppress(FileNotFoundError):
            return self.directory.open(_LOCK)
        with contextlib.suppress(FileExistsError):
            return self.directory.create(_LOCK, placement)
        return self.directory.open(_LOCK)

    def renew(
        self,
        file: IndexFile,
        placement: Placement,
        *,
        grown_from: FileStat | None = None,
        afresh: bool = False,
    ) -> Snapshot | None:
        """Update the snapshot of ``file``, and return it; ``None`` for an empty index.

        Within ``writing``. Both are compared in full, unless the docket says that the
        snapshot was current at ``grown_from``: the caller knows that the file has only
        been appended to since then. ``afresh`` makes a new copy in any case.

        ``Moved`` if the file changes meanwhile.
        """
        state = file.state()
        length_bytes = file.length_bytes(state)
        length_bytes -= length_bytes % file.entry_bytes
        if not length_bytes:
            return None
        old, renewed = None if afresh else self.docket(file.name), None
        if old is None:
            self.directory.remove(file.name + _DOCKET)  # whatever it is
        elif old.path == file.path:
            name = _data_name(file.name, old.uid)
            with opened_data(self.directory, self.trust, name) as fd:
                if fd is not None:
                    renewed = self._renewed(
                        file, old, fd, state, length_bytes, grown_from
                    )
        if renewed is None:
            renewed = self._copied(file, placement, state, length_bytes)
        if renewed != old:
            try:
                if file.state() != state:
                    moved = b"%s: the index changed while it was copied"
                    raise Moved(moved % file.path)
                renewed.write(self.directory, file.name + _DOCKET, placement)
            except BaseException:
                self._remove_others(file.name, kept=old and old.uid)
                raise
            self._remove_others(file.name, kept=renewed.uid)
        return self._snapshot(file.name, renewed)

    def difference(self, file: IndexFile, snapshot: Snapshot) -> int | None:
        """Compare in full; return the offset of the first difference, if any.

        ``None``, too, if the data file has changed: then it does not count.
        """
        covered = snapshot.length_bytes
        with snapshot.opened() as fd:
            if fd is None:
                return None
            common = buffer.common_prefix(fd, snapshot.path, covered, file.fd, covered)
        return None if common == covered else common

    def _snapshot(self, name: bytes, docket: SnapshotDocket) -> Snapshot:
        return Snapshot(
            self.directory,
            self.trust,
            name,
            docket.uid,
            docket.length_bytes,
            docket.data,
        )

    def _renewed(
        self,
        file: IndexFile,
        old: SnapshotDocket,
        fd: int,
        state: FileStat,
        length_bytes: int,
        grown_from: FileStat | None,
    ) -> SnapshotDocket | None:
        """Return the update of ``old``, with its open data file; None if impossible.

        If ``file`` is far ahead of the data file, it is appended to.
        """
        data = FileStat.of(os.fstat(fd))
        was_compared = data == old.data
        if was_compared and old.state == state and old.length_bytes <= length_bytes:
            return old
        fitting = old.length_bytes
        if not (was_compared and _has_grown(old.state, grown_from, state)):
            path = self._snapshot(file.name, old).path
            covered = min(old.length_bytes, data.size_bytes)
            fitting = buffer.common_prefix(fd, path, covered, file.fd, length_bytes)
            fitting -= fitting % file.entry_bytes
        if length_bytes - fitting <= _tail_limit(fitting):
            return SnapshotDocket(file.path, old.uid, fitting, state, data)
        # bytes beyond were named once, or are left of a writer that died
        if fitting == old.length_bytes == data.size_bytes:
            appended = self._append(file, old.uid, data, length_bytes)
            if appended is not None:
                return SnapshotDocket(file.path, old.uid, length_bytes, state, appended)
        return None

    def _append(
        self, file: IndexFile, uid: bytes, data: FileStat, length_bytes: int
    ) -> FileStat | None:
        """Append to a data file that is in that state, and return its new one.

        ``None`` if it must stay as it is.
        """
        # perhaps of another user, and only readable
        with contextlib.suppress(FileNotFoundError, PermissionError):
            fd = self.directory.open_to_append(_data_name(file.name, uid))
            if fd is None:
                return None
            try:
                if FileStat.of(os.fstat(fd)) == data:
                    return _filled(fd, file, data.size_bytes, length_bytes)
            finally:
                os.close(fd)
        return None

    def _copied(
        self, file: IndexFile, placement: Placement, state: FileStat, length_bytes: int
    ) -> SnapshotDocket:
        """Copy an index to a new data file."""
        uid = binascii.hexlify(os.urandom(8))
        name = _data_name(file.name, uid)
        fd = self.directory.create(name, placement)
        try:
            data = _filled(fd, file, 0, length_bytes)
        except BaseException:
            self.directory.remove(name)
            raise
        finally:
            os.close(fd)
        return SnapshotDocket(file.path, uid, length_bytes, state, data)

    def _remove_others(self, name: bytes, kept: bytes | None) -> None:
        """Remove data files that the docket does not name, and files of dead writers.

        Processes that map a removed file keep it.
        """
        prefix = name + b"-"
        for entry in self.directory.names():
            uid = entry.removeprefix(prefix).removesuffix(_DATA)
            ours = is_uid(uid) and entry == _data_name(name, uid) and uid != kept
            with contextlib.suppress(OSError, Unusable):
                if ours or (entry.startswith(TEMPORARY) and self._is_old(entry)):
                    self.directory.remove(entry)

    def _is_old(self, entry: bytes) -> bool:
        return time.time() - self.directory.stat(entry).st_mtime >= _KEPT_SECONDS


def _data_name(name: bytes, uid: bytes) -> bytes:
    return b"%s-%s%s" % (name, uid, _DATA)


def _has_grown(before: FileStat, grown_from: FileStat | None, now: FileStat) -> bool:
    """Return whether a file is known to have only grown since ``before``."""
    return (
        before == grown_from
        and before.is_same_file(now)
        and before.size_bytes <= now.size_bytes
    )


def _tail_limit(covered: int) -> int:
    """Return how far an index may be ahead of its snapshot."""
    return min(_READ_BYTES, covered // 16)


def _filled(fd: int, file: IndexFile, start: int, end: int) -> FileStat:
    """Copy bytes of an index to the same place in a data file, and wait for the disk.

    Return the state of the data file. ``Moved`` if the index has fewer.
    """
    while start < end:
        copied = _copy_some(fd, file.fd, start, end - start)
        if not copied:
            raise Moved(b"%s: the index is shorter than it was" % file.path)
        start += copied
    os.fsync(fd)
    return FileStat.of(os.fstat(fd))


def _copy_some(fd: int, source: int, offset: int, count: int) -> int:
    """Copy some of ``count`` bytes by sharing blocks, in the kernel, or by hand."""
    if hasattr(os, "copy_file_range"):
        # lack of support in the kernel or file system has many errnos
        with contextlib.suppress(OSError):
            copied = os.copy_file_range(source, fd, count, offset, offset)
            if copied:
                return copied
    return os.pwrite(fd, os.pread(source, min(count, 1 << 20), offset), offset)
