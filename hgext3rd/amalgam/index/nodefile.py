"""The node map of a snapshot on disk: its docket, its data file, and their renewal.

``docs/formats/nodemap.rst`` is the format. The docket is text, and says which revisions
of which snapshot the data file has, and where; it is replaced as a whole. The data file
is the core's matter; bytes that a docket has named never change, so that it can be
mapped. Both are derived: what cannot be read is made anew by the next renewal.

Renewals exclude each other by the lock of the directory, which the caller holds.
"""

from __future__ import annotations

import binascii
import contextlib
import os
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.utils import stringutil

from ..native import errors
from ..native._core import ffi, lib
from ..native.lent import lent, lent_writable
from ..records import Record

if TYPE_CHECKING:
    from ..native.lent import Buffer
    from ..placement import Placement
    from .snapshot import Snapshot

ENTRY_LEN = 64
_SUFFIX = b".nodemap"
_FIRST_LINE = b"amalgam nodemap 1"
_UID_BYTES = 8
# A run is merged with the one before it until that is so many times as long: a look-up
# asks few runs, and each revision is written few times.
_RATIO = 8


class Run(Record):
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
        """What it takes in the data file."""
        out = ffi.new("uint64_t *")
        errors.call(lib.amalgam_nodemap_run_len, out, self.revs)
        return int(out[0])


class Docket(Record):
    """What counts of which data file, and what it was made from."""

    snapshot: bytes
    """Uid of the snapshot whose first revisions it has."""
    uid: bytes
    """Uid of the data file."""
    runs: tuple[Run, ...]
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
        lines = [
            _FIRST_LINE,
            b"snapshot %s" % self.snapshot,
            b"file %s" % self.uid,
            *(b"run %d %d %d" % run for run in self.runs),
        ]
        body = b"".join(b"%s\n" % line for line in lines)
        return b"%ssum %08x\n" % (body, binascii.crc32(body))

    @classmethod
    def from_bytes(cls, content: bytes) -> Docket | None:
        """Return what ``to_bytes`` was called on, ``None`` if it is damaged."""
        body, found, stated = content.rpartition(b"sum ")
        if not found or stated != b"%08x\n" % binascii.crc32(body):
            return None
        first, *lines = (line.split(b" ") for line in body.splitlines())
        if b" ".join(first) != _FIRST_LINE:
            return None
        fields = {words[0]: words[1] for words in lines[:2]}
        runs = tuple(Run(*map(int, words[1:])) for words in lines[2:])
        return cls(fields[b"snapshot"], fields[b"file"], runs)


def _docket_path(snapshot: Snapshot) -> bytes:
    return os.path.join(snapshot.directory, snapshot.name + _SUFFIX)


def _data_path(snapshot: Snapshot, uid: bytes) -> bytes:
    name = b"%s-%s%s" % (snapshot.name, uid, _SUFFIX)
    return os.path.join(snapshot.directory, name)


def read(snapshot: Snapshot) -> Docket | None:
    """Return the docket of the node map of ``snapshot``.

    ``None`` if there is none, or if it is damaged or of another snapshot.
    """
    try:
        with open(_docket_path(snapshot), "rb") as file:
            docket = Docket.from_bytes(file.read())
    except FileNotFoundError:
        return None
    return docket if docket and docket.snapshot == snapshot.uid else None


def open_map(snapshot: Snapshot, index: Any) -> Any | None:
    """Return a handle on the node map of ``snapshot``, ``None`` if there is none.

    ``index`` is the whole index, as ``ffi.from_buffer`` has it. ``OSError`` or
    ``StorageError`` if the data file cannot be used.
    """
    docket = read(snapshot)
    try:
        return docket and _open(snapshot, docket, index)
    except FileNotFoundError:
        # replaced since the docket was read
        docket = read(snapshot)
        return docket and _open(snapshot, docket, index)


def _open(snapshot: Snapshot, docket: Docket, index: Any) -> Any:
    out = ffi.new("amalgam_nodemap **")
    runs = ffi.new("amalgam_nodemap_run[]", list(docket.runs))
    errors.call(
        lib.amalgam_nodemap_open,
        out,
        *lent(_data_path(snapshot, docket.uid)),
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
    """Bring the node map up to ``snapshot``; return whether there was something to do.

    ``index`` begins with the snapshot. ``afresh``: whatever is there, make it anew.
    Time follows the number of new revisions, but for merges, which come after an eighth
    is added. ``OSError`` if it cannot be written; what was there stays valid.
    """
    docket = None if afresh else read(snapshot)
    revs = snapshot.length_bytes // ENTRY_LEN
    if docket and docket.revs >= revs and _is_whole(snapshot, docket):
        return False
    kept: list[Run] = []
    if docket and _is_whole(snapshot, docket):
        kept = list(docket.runs)
        while kept and kept[-1].revs < _RATIO * (revs - kept[-1].end):
            kept.pop()
        kept = _worth_keeping(docket, kept)
    first = kept[-1].end if kept else 0
    uid, offset = binascii.hexlify(os.urandom(_UID_BYTES)), 0
    if docket and kept:
        uid, offset = docket.uid, docket.end_bytes
    run = Run(offset, first, revs - first)
    path = _data_path(snapshot, uid)
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC) if kept else placement.create(path)
    try:
        _write(fd, uid, run, index)
    finally:
        os.close(fd)
    renewed = Docket(snapshot.uid, uid, (*kept, run))
    placement.replace(_docket_path(snapshot), renewed.to_bytes(), durable=False)
    _remove_others(snapshot, uid)
    return True


def _is_whole(snapshot: Snapshot, docket: Docket) -> bool:
    """Tell whether the data file is there, and long enough."""
    try:
        size_bytes = os.stat(_data_path(snapshot, docket.uid)).st_size
    except FileNotFoundError:
        return False
    return size_bytes >= docket.end_bytes


def _worth_keeping(docket: Docket, kept: list[Run]) -> list[Run]:
    """Return ``kept``, or nothing if more of the file would be garbage than not."""
    used_bytes = sum(run.size_bytes for run in kept)
    return kept if docket.end_bytes <= 2 * used_bytes else []


def _write(fd: int, uid: bytes, run: Run, index: Buffer) -> None:
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


def _remove_others(snapshot: Snapshot, uid: bytes) -> None:
    """Remove data files that no docket names; who has one mapped keeps it."""
    prefix = snapshot.name + b"-"
    length = len(prefix) + 2 * _UID_BYTES + len(_SUFFIX)
    for name in os.listdir(snapshot.directory):
        ours = name.startswith(prefix) and name.endswith(_SUFFIX)
        if ours and len(name) == length and uid not in name:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(snapshot.directory, name))


def verify(snapshot: Snapshot, index: Buffer) -> list[bytes]:
    """Look every revision up, and return what is wrong with the map.

    No map is nothing wrong. ``index`` begins with the snapshot.
    """
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
    with contextlib.suppress(OSError):
        os.unlink(_docket_path(snapshot))


def status(snapshot: Snapshot) -> tuple[int, int]:
    """Return how many revisions the map has, and its bytes on disk; zeros if none."""
    docket = read(snapshot)
    if docket is None or not _is_whole(snapshot, docket):
        return 0, 0
    size_bytes = os.stat(_data_path(snapshot, docket.uid)).st_size
    return min(docket.revs, snapshot.length_bytes // ENTRY_LEN), size_bytes
