"""The node map of a snapshot on disk: its docket, its data file, and their renewal.

``docs/formats/nodemap.rst`` is the format. The docket is text and is replaced as a
whole. It names the revisions of the snapshot that are in the data file, and their
place. The core writes and reads the data file (``rust/revlog/src/nodemap/file.rs``).
Named bytes never change, so the file can be mapped. It counts only in the file state
that the docket names. An unreadable map is made again by the next renewal.

The caller holds the lock of the directory, so one renewal runs at a time.
"""

from __future__ import annotations

import binascii
import contextlib
import os
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _
from mercurial.utils import stringutil

from .. import docketfile
from ..core import errors
from ..core._core import ffi, lib
from ..core.buffers import lent, lent_writable
from ..docketfile import Field, is_uid, rows
from ..files import Unusable
from ..records import Record
from .snapshot import FileStat, opened_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.buffers import Buffer
    from ..files import Directory, Placement
    from .snapshot import Snapshot

ENTRY_LEN = 64
_SUFFIX = b".nodemap"
_UID_BYTES = 8
_LARGEST = 4096  # a docket with 11 runs, which is 2 billion revisions, is 500 bytes
# A run is merged with the one before it until that is so many times as long: a look-up
# asks few runs, and each revision is written few times.
_RATIO = 8


class SortedRun(Record):
    """Consecutive revisions in the data file, sorted by node."""

    offset: int
    first: int
    revs: int

    @property
    def end(self) -> int:
        """The revision after the last."""
        return self.first + self.revs

    @property
    def size_bytes(self) -> int:
        """Size in the data file."""
        out = ffi.new("uint64_t *")
        errors.call(lib.amalgam_nodemap_run_len, out, self.revs)
        return int(out[0])


class NodeMapDocket(Record):
    """Docket of a node map: its runs in the data file, and the snapshot they are of."""

    snapshot: bytes
    """Uid of the snapshot whose first revisions it has."""
    uid: bytes
    """Uid of the data file."""
    data: FileStat
    """File stat of the data file after it was written."""
    runs: tuple[SortedRun, ...]
    """All revisions from 0 on, each once."""

    @property
    def revs(self) -> int:
        """How many revisions it has."""
        return self.runs[-1].end if self.runs else 0

    @property
    def used_bytes(self) -> int:
        """Bytes that look-ups may need."""
        return sum(run.size_bytes for run in self.runs)

    @property
    def end_bytes(self) -> int:
        """Where the last run in the data file ends."""
        return max((run.offset + run.size_bytes for run in self.runs), default=0)

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return _FORM.content_of(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> NodeMapDocket | None:
        """Parse the output of ``to_bytes``; ``None`` if it is damaged."""
        try:
            docket = cls(**_FORM.values_in(content))
        except ValueError:
            return None
        # no more revisions than a revlog can number
        return None if any(run.end >> 31 for run in docket.runs) else docket


_FORM = docketfile.Form(
    b"amalgam nodemap 2",
    {
        "snapshot": Field(b"snapshot", docketfile.uid, bytes),
        "uid": Field(b"file", docketfile.uid, bytes),
        "data": rows(b"data", FileStat),
        "runs": rows(b"run", SortedRun, many=True),
    },
)


def _docket_name(snapshot: Snapshot) -> bytes:
    return snapshot.name + _SUFFIX


def _data_name(snapshot: Snapshot, uid: bytes) -> bytes:
    return b"%s-%s%s" % (snapshot.name, uid, _SUFFIX)


def read(snapshot: Snapshot) -> NodeMapDocket | None:
    """Return the docket of the node map of ``snapshot``.

    ``None`` if it is missing, damaged, or of another snapshot.
    """
    try:
        content = snapshot.directory.read(_docket_name(snapshot), _LARGEST)
    except (OSError, Unusable):
        return None
    docket = NodeMapDocket.from_bytes(content)
    return docket if docket and docket.snapshot == snapshot.uid else None


def open_map(snapshot: Snapshot, index: Any) -> Any | None:
    """Return a handle on the node map of ``snapshot``; ``None`` if it is missing.

    ``index`` is the whole index, from ``ffi.from_buffer``. ``OSError`` or
    ``StorageError`` if the data file cannot be used.
    """
    docket = read(snapshot)
    if docket is None:
        return None
    with _opened(snapshot, docket) as fd:
        if fd is not None:
            return _open(snapshot, docket, fd, index)
    again = read(snapshot)
    if again is None or again == docket:
        return None
    # replaced since the docket was read
    with _opened(snapshot, again) as fd:
        return None if fd is None else _open(snapshot, again, fd, index)


@contextlib.contextmanager
def _opened(snapshot: Snapshot, docket: NodeMapDocket) -> Iterator[int | None]:
    """Open the data file; ``None`` if it is gone, or somebody has written to it."""
    name = _data_name(snapshot, docket.uid)
    with opened_data(snapshot.directory, snapshot.trust, name) as fd:
        same = fd is not None and FileStat.of(os.fstat(fd)) == docket.data
        yield fd if same else None


def _open(snapshot: Snapshot, docket: NodeMapDocket, fd: int, index: Any) -> Any:
    out = ffi.new("amalgam_nodemap **")
    runs = ffi.new("amalgam_nodemap_run[]", list(docket.runs))
    path = snapshot.directory.join(_data_name(snapshot, docket.uid))
    errors.call(
        lib.amalgam_nodemap_open,
        out,
        fd,
        *lent(path),
        *lent(docket.uid),
        runs,
        len(docket.runs),
        snapshot.length_bytes // ENTRY_LEN,
        index,
        len(index),
    )
    return ffi.gc(out[0], lib.amalgam_nodemap_free)


def renew(
    placement: Placement, snapshot: Snapshot, index: Buffer, *, afresh: bool = False
) -> bool:
    """Update the node map to ``snapshot``; return whether anything was written.

    ``index`` begins with the snapshot. ``afresh``: make it from nothing. Time is in
    proportion to the new revisions, plus merges after an eighth is added. ``OSError``
    if it cannot be written; the old map stays valid.
    """
    docket = None if afresh else read(snapshot)
    if docket is None:
        snapshot.directory.remove(_docket_name(snapshot))  # whatever it is
    revs = snapshot.length_bytes // ENTRY_LEN
    kept: list[SortedRun] = []
    if docket and _is_whole(snapshot, docket):
        if docket.revs >= revs:
            return False
        kept = list(docket.runs)
        while kept and kept[-1].revs < _RATIO * (revs - kept[-1].end):
            kept.pop()
        kept = _worth_keeping(docket, kept)
    fd = None
    if docket and kept:
        uid, offset = docket.uid, docket.end_bytes
        fd = _open_to_append(snapshot, docket)
    if fd is None:
        uid, offset, kept = binascii.hexlify(os.urandom(_UID_BYTES)), 0, []
        fd = snapshot.directory.create(_data_name(snapshot, uid), placement)
    first = kept[-1].end if kept else 0
    run = SortedRun(offset, first, revs - first)
    try:
        _write(fd, uid, run, index)
        renewed = NodeMapDocket(
            snapshot.uid, uid, FileStat.of(os.fstat(fd)), (*kept, run)
        )
        snapshot.directory.replace(
            _docket_name(snapshot), renewed.to_bytes(), placement, durable=False
        )
    except BaseException:
        _remove_data(snapshot.directory, snapshot.name, kept=docket and docket.uid)
        raise
    finally:
        os.close(fd)
    _remove_data(snapshot.directory, snapshot.name, kept=uid)
    return True


def _is_whole(snapshot: Snapshot, docket: NodeMapDocket) -> bool:
    """Return whether the data file exists, unchanged and long enough."""
    with _opened(snapshot, docket) as fd:
        return fd is not None and docket.data.size_bytes >= docket.end_bytes


def _open_to_append(snapshot: Snapshot, docket: NodeMapDocket) -> int | None:
    """Open the data file to write behind its end; ``None`` if it must stay as it is."""
    # perhaps of another user, and only readable
    with contextlib.suppress(FileNotFoundError, PermissionError):
        fd = snapshot.directory.open_to_append(_data_name(snapshot, docket.uid))
        if fd is None or FileStat.of(os.fstat(fd)) == docket.data:
            return fd
        os.close(fd)
    return None


def _worth_keeping(docket: NodeMapDocket, kept: list[SortedRun]) -> list[SortedRun]:
    """Return ``kept``, or nothing if more of the file would be garbage than not."""
    used_bytes = sum(run.size_bytes for run in kept)
    return kept if docket.end_bytes <= 2 * used_bytes else []


def _write(fd: int, uid: bytes, run: SortedRun, index: Buffer) -> None:
    content = bytearray(run.size_bytes)
    place = ffi.new("amalgam_nodemap_run *", tuple(run))
    errors.call(
        lib.amalgam_nodemap_run_write,
        *lent_writable(content),
        *lent(uid),
        place,
        *lent(index),
    )
    rest, offset = memoryview(content), run.offset
    while rest:
        written = os.pwrite(fd, rest, offset)
        rest, offset = rest[written:], offset + written


def _remove_data(directory: Directory, name: bytes, kept: bytes | None) -> None:
    """Remove data files that no docket names; processes that map one keep it."""
    prefix = name + b"-"
    for entry in directory.names():
        uid = entry.removeprefix(prefix).removesuffix(_SUFFIX)
        ours = is_uid(uid) and entry == prefix + uid + _SUFFIX
        if ours and uid != kept:
            with contextlib.suppress(OSError, Unusable):
                directory.remove(entry)


def verify(snapshot: Snapshot, index: Buffer) -> list[bytes]:
    """Look up every revision, and return the first error of the map.

    A missing map is no error. ``index`` begins with the snapshot.
    """
    docket = read(snapshot)
    if docket is not None and not _is_whole(snapshot, docket):
        return [_(b"its data file is missing or has changed")]
    data = ffi.from_buffer("uint8_t[]", index)
    try:
        opened = open_map(snapshot, data)
        if opened is not None:
            errors.call(lib.amalgam_nodemap_check, opened, data, len(data))
    except (OSError, error.StorageError) as exc:
        return [stringutil.forcebytestr(exc)]
    return []


def forget(snapshot: Snapshot) -> None:
    """Remove the docket, so that the next renewal makes the map anew."""
    with contextlib.suppress(OSError, Unusable):
        snapshot.directory.remove(_docket_name(snapshot))


def names(directory: Directory) -> set[bytes]:
    """Return the names of all indexes that have a docket or data files here."""
    found = set()
    for entry in directory.names():
        if entry.endswith(_SUFFIX):
            name = entry.removesuffix(_SUFFIX)
            above, _dash, uid = name.rpartition(b"-")
            found.add(above if is_uid(uid) else name)
    return found


def remove(directory: Directory, name: bytes) -> None:
    """Remove the node map of a removed index. With the lock of the directory."""
    directory.remove(name + _SUFFIX)
    _remove_data(directory, name, kept=None)


def status(snapshot: Snapshot) -> tuple[int, int]:
    """Return how many revisions the map has, and its bytes on disk; zeros if none."""
    docket = read(snapshot)
    if docket is None or not _is_whole(snapshot, docket):
        return 0, 0
    revs = min(docket.revs, snapshot.length_bytes // ENTRY_LEN)
    return revs, docket.data.size_bytes
