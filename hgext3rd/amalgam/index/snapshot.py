"""Snapshots of indexes: copies that are never truncated, and so can be mapped.

Owns the data files of ``.hg/amalgam/index``, their making and their end, and when one
counts as a beginning of its index; ``docket`` has the format of what is remembered of
that, ``docs/formats/index-snapshot.rst`` the rules. Knows nothing of revlogs, nor of
when it is time for a renewal.
"""

from __future__ import annotations

import binascii
import contextlib
import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from .. import placement as placements
from ..native.errors import Moved
from ..records import Record
from . import buffer
from .docket import Docket, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..placement import Placement

_DOCKET = b".docket"
_DATA = b".snap"
_LOCK = b"lock"
_KEPT_SECONDS = 600.0  # what nobody names any more may be about to be opened
_READ_BYTES = 256 << 10  # what reading instead of mapping costs nothing


class Snapshot(Record):
    """Bytes of an index that are on disk for good, until the file is removed."""

    directory: bytes
    """Full path of ``.hg/amalgam/index``."""
    name: bytes
    """What begins the names of all files there that belong to the same index."""
    uid: bytes
    """Names a sequence of bytes that only ever grows; 16 hexadecimal digits."""
    length_bytes: int
    """How many of them are the first ones of the index: whole entries, at least one."""

    @property
    def path(self) -> bytes:
        """Where the bytes are."""
        return _data_path(self.directory, self.name, self.uid)


class IndexFile(Record):
    """The file of an index that somebody has open."""

    fd: int
    path: bytes
    """Below ``.hg/store``."""
    name: bytes
    """As ``Snapshot.name``."""
    entry_bytes: int
    limit_bytes: int | None = None
    """What lies behind is not part of the index; ``None`` if all of it is."""

    def state(self) -> State:
        """Return what the file system says of it now."""
        return State.of(os.fstat(self.fd))

    def length_bytes(self, state: State) -> int:
        """Return how long the index is in a file of that state."""
        if self.limit_bytes is None:
            return state.size_bytes
        return min(state.size_bytes, self.limit_bytes)


class Busy(Exception):  # noqa: N818
    """Another process writes snapshots of this repository."""


class Snapshots:
    """The snapshots of a repository."""

    def __init__(self, directory: bytes) -> None:
        """``directory`` is ``.hg/amalgam/index``; it need not be there."""
        self.directory = directory

    def docket(self, name: bytes) -> Docket | None:
        """Return what is remembered of the snapshot of an index."""
        return Docket.read(self._docket_path(name))

    def names(self) -> list[bytes]:
        """Return the names of all indexes that have a docket here."""
        try:
            entries = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return sorted(
            entry.removesuffix(_DOCKET) for entry in entries if entry.endswith(_DOCKET)
        )

    def forget(self, name: bytes) -> None:
        """Remove what there is of an index that is gone. Within ``writing``."""
        docket = self.docket(name)
        os.unlink(self._docket_path(name))
        if docket is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_data_path(self.directory, name, docket.uid))

    def find(self, file: IndexFile, state: State) -> Snapshot | None:
        """Return the snapshot of a file that has that state, if it is known to fit."""
        docket = self.docket(file.name)
        if docket is None or docket.state != state or docket.path != file.path:
            return None
        return self._snapshot(file.name, docket)

    @contextlib.contextmanager
    def writing(self, placement: Placement) -> Iterator[None]:
        """Keep other writers of the directory away; ``Busy`` if there is one.

        Nobody waits: a snapshot that is not renewed now is renewed later.
        """
        placement.make_directory(self.directory)
        path = os.path.join(self.directory, _LOCK)
        fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            wanted = os.fstat(fd)
            if stat.S_IMODE(wanted.st_mode) != placement.file_mode:
                with contextlib.suppress(PermissionError):
                    os.fchmod(fd, placement.file_mode)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy from None
            yield
        finally:
            os.close(fd)

    def renew(
        self,
        file: IndexFile,
        placement: Placement,
        *,
        grown_from: State | None = None,
        afresh: bool = False,
    ) -> Snapshot | None:
        """Make a snapshot fit ``file``, and return it; ``None`` for an empty index.

        Within ``writing``. The two are compared in full, unless the docket says that
        the snapshot fitted ``grown_from``: the caller knows that since then the file
        has only been appended to. ``afresh`` copies what may be there already.

        ``Moved`` if the file changes meanwhile.
        """
        state = file.state()
        length_bytes = file.length_bytes(state)
        length_bytes -= length_bytes % file.entry_bytes
        if not length_bytes:
            return None
        before = self.docket(file.name)
        docket = None if afresh else before
        fitting = 0
        if docket is not None and docket.path == file.path:
            if docket.state == state and docket.length_bytes <= length_bytes:
                return self._snapshot(file.name, docket)
            fitting = self._fitting(file, docket, state, length_bytes, grown_from)
        uid, covered = self._cover(file, placement, docket, fitting, length_bytes)
        if file.state() != state:
            raise Moved(b"%s: the index changed while it was copied" % file.path)
        renewed = Docket(file.path, uid, covered, state)
        renewed.write(self._docket_path(file.name), placement)
        self._remove_old(file.name, before, renewed)
        return self._snapshot(file.name, renewed)

    def difference(self, file: IndexFile, snapshot: Snapshot) -> int | None:
        """Compare in full; return the offset of the first difference, if any."""
        covered = snapshot.length_bytes
        common = buffer.common_prefix(snapshot.path, covered, file.fd, covered)
        return None if common == covered else common

    def _snapshot(self, name: bytes, docket: Docket) -> Snapshot:
        return Snapshot(self.directory, name, docket.uid, docket.length_bytes)

    def _docket_path(self, name: bytes) -> bytes:
        return os.path.join(self.directory, name + _DOCKET)

    def _fitting(
        self,
        file: IndexFile,
        docket: Docket,
        state: State,
        length_bytes: int,
        grown_from: State | None,
    ) -> int:
        """Return how many bytes of a snapshot are the first ones of ``file``."""
        if (
            docket.state == grown_from
            and grown_from.is_same_file(state)
            and grown_from.size_bytes <= state.size_bytes
        ):
            return docket.length_bytes
        path = _data_path(self.directory, file.name, docket.uid)
        try:
            common = buffer.common_prefix(
                path, docket.length_bytes, file.fd, length_bytes
            )
        except Moved:  # it is gone
            return 0
        return common - common % file.entry_bytes

    def _cover(
        self,
        file: IndexFile,
        placement: Placement,
        docket: Docket | None,
        fitting: int,
        length_bytes: int,
    ) -> tuple[bytes, int]:
        """Return uid and length of a snapshot that ``file`` is not far ahead of."""
        if docket is not None and length_bytes - fitting <= _tail_limit(fitting):
            return docket.uid, fitting
        if docket is not None and fitting == docket.length_bytes:
            path = _data_path(self.directory, file.name, docket.uid)
            # of somebody else, perhaps, who lets us read it
            with contextlib.suppress(PermissionError, FileNotFoundError):
                fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    # bytes beyond were named once, or are left of a writer that died
                    if os.fstat(fd).st_size == fitting:
                        _append(fd, file, fitting, length_bytes)
                        return docket.uid, length_bytes
                finally:
                    os.close(fd)
        uid = binascii.hexlify(os.urandom(8))
        path = _data_path(self.directory, file.name, uid)
        fd = placement.create(path)
        try:
            _append(fd, file, 0, length_bytes)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(fd)
        return uid, length_bytes

    def _remove_old(self, name: bytes, before: Docket | None, now: Docket) -> None:
        """Remove data files that no docket has named for a while."""
        if before is not None and before.uid != now.uid:
            # from now on it gets old
            with contextlib.suppress(OSError):
                os.utime(_data_path(self.directory, name, before.uid))
        kept = os.path.basename(_data_path(self.directory, name, now.uid))
        for entry in os.scandir(self.directory):
            ours = entry.name.startswith(name + b"-") and len(entry.name) == len(kept)
            if entry.name == kept or not (
                ours or entry.name.startswith(placements.TEMPORARY)
            ):
                continue
            with contextlib.suppress(OSError):
                if time.time() - entry.stat().st_mtime >= _KEPT_SECONDS:
                    os.unlink(entry.path)


def _data_path(directory: bytes, name: bytes, uid: bytes) -> bytes:
    return os.path.join(directory, b"%s-%s%s" % (name, uid, _DATA))


def _tail_limit(covered: int) -> int:
    """Return how far an index may be ahead of its snapshot."""
    return min(_READ_BYTES, covered // 16)


def _append(fd: int, file: IndexFile, start: int, end: int) -> None:
    """Copy bytes of an index to the same place in a data file, and wait for the disk.

    ``Moved`` if there are fewer.
    """
    while start < end:
        copied = _copy_some(fd, file.fd, start, end - start)
        if not copied:
            raise Moved(b"%s: the index is shorter than it was" % file.path)
        start += copied
    os.fsync(fd)


def _copy_some(fd: int, source: int, offset: int, count: int) -> int:
    """Copy some of ``count`` bytes by sharing blocks, in the kernel, or by hand."""
    if hasattr(os, "copy_file_range"):
        # what the kernel or the file system cannot do is an error of many names
        with contextlib.suppress(OSError):
            copied = os.copy_file_range(source, fd, count, offset, offset)
            if copied:
                return copied
    return os.pwrite(fd, os.pread(source, min(count, 1 << 20), offset), offset)
