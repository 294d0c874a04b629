"""Packs of a git store: their indexes, whether git can open them, and unlisted files.

The reader of pack indexes (gitformat-pack(5), version 2) keeps no object in memory,
since a pack may have many millions.

git can open a pack whose formats, sizes and checksums fit (packfile.c,
"open_packed_git_1"). git ignores any other pack: its clients get "not our ref" without
a reason. The check reads no more than the ends of files; ``hg git::verify`` finds
damage in between.

Unlisted files are contents of a store that its docket does not name: from a
git-repack(1) or git-gc(1) that ended late, or an older copy of the store. They may
contain hidden objects. So nothing is answered from the store while any exist, and an
export removes them. Finding them takes the same few system calls for stores of any
size.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import heapq
import itertools
import mmap
import operator
import os
import re
import struct
import time
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ...files import Unusable
from ..docket import PACK
from . import layout, summaries
from .layout import PACKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...files import Directory
    from ..docket import Docket
    from .process import Git
    from .repository import Repository


_HEADER = b"\xfftOc\0\0\0\2"
_FANOUT = struct.Struct(">256I")
_OIDS_AT = len(_HEADER) + _FANOUT.size
_OID_BYTES = 20
_COUNT_AT = _OIDS_AT - 4
# of an object: id, CRC and offset; a large offset has eight more bytes
_ENTRY_BYTES = 28
_LARGE_OFFSET_BYTES = 8
_SUM_BYTES = 20
_PACK_HEADER = struct.Struct(">4sII")
_SUFFIXES = (b".pack", b".idx")
_MOST_KNOWN = 10_000

# by the directory of the packs: its file stats, and the result
_known: dict[bytes, tuple[object, bytes]] = {}


class Idx:
    """The index of a pack, open."""

    def __init__(self, data: mmap.mmap, path: bytes) -> None:
        if data[: len(_HEADER)] != _HEADER or len(data) < _OIDS_AT:
            raise _damaged(path)
        # for each first byte, the number of oids below it, and the number of all
        self._starts = (0, *_FANOUT.unpack_from(data, len(_HEADER)))
        if len(data) < _OIDS_AT + self._starts[-1] * _OID_BYTES:
            raise _damaged(path)
        if any(map(operator.gt, self._starts, self._starts[1:])):
            raise _damaged(path)
        self._data = data

    def has(self, oid: bytes) -> bool:
        """Return whether the pack has an object."""
        low, high = self._starts[oid[0] : oid[0] + 2]
        return _has(self._oid, low, high, oid)

    def beginning(self, byte: int) -> set[bytes]:
        """Return the oids with a first byte: of each 256, about one."""
        return set(map(self._oid, range(*self._starts[byte : byte + 2])))

    def _oid(self, number: int) -> bytes:
        at = _OIDS_AT + number * _OID_BYTES
        return self._data[at : at + _OID_BYTES]


@contextlib.contextmanager
def open_idx(packs: Directory, pack: str) -> Iterator[Idx]:
    """Open the index of a pack (without suffix); ``StorageError`` if it is none."""
    name = os.fsencode(pack) + b".idx"
    path = packs.join(name)
    with os.fdopen(packs.open(name), "rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # it is empty
            raise _damaged(path) from None
    with data:
        yield Idx(data, path)


def are_disjoint(packs: Directory, names: Iterable[str]) -> bool:
    """Return whether no two packs (names without suffix) have an object in common."""
    with contextlib.ExitStack() as stack:
        indexes = [stack.enter_context(open_idx(packs, name)) for name in names]
        for byte in range(256):
            here = [index.beginning(byte) for index in indexes]
            if len(set().union(*here)) != sum(map(len, here)):
                return False
    return True


def object_count(packs: Directory, pack: str) -> int:
    """Return how many objects a pack has, as its index says; 0 if it cannot say."""
    try:
        fd = packs.open(os.fsencode(pack) + b".idx")
    except (OSError, Unusable):
        return 0
    with os.fdopen(fd, "rb") as file:
        file.seek(_COUNT_AT)
        return int.from_bytes(file.read(4), "big")


def object_ids(packs: Directory, pack: str) -> Iterator[bytes]:
    """Yield the ids in the index of a pack in the directory ``packs``, ascending.

    If the index is cut, the last one is no id: so nobody takes them for all.
    """
    with os.fdopen(packs.open(os.fsencode(pack) + b".idx"), "rb") as file:
        file.seek(_COUNT_AT)
        count = int.from_bytes(file.read(4), "big")
        for _number in range(count):
            oid = file.read(_OID_BYTES)
            yield oid
            if len(oid) < _OID_BYTES:
                return


def distinct_ids(packs: Directory, names: Iterable[str]) -> Iterator[bytes]:
    """Yield the ids of all objects that some packs have, ascending, each once."""
    oids = heapq.merge(*(object_ids(packs, name) for name in names))
    return (oid for oid, _same in itertools.groupby(oids))


def damaged(packs: Directory, names: Iterable[str]) -> bytes:
    """Return the first of the packs (without suffix) that git cannot open, or nothing.

    A missing one cannot be opened. Two system calls for each pack, unless its files
    have changed since the last call.
    """
    names = [*names]
    try:
        state = _state(packs, names)
    except FileNotFoundError:
        return next(
            (
                os.fsencode(name)
                for name in names
                if not all(packs.exists(file) for file in _files(name))
            ),
            b"",
        )
    known = _known.get(packs.path)
    if known is None or known[0] != state:
        found = next((name for name in names if not is_whole(packs, name)), "")
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[packs.path] = state, os.fsencode(found)
    return known[1]


def has_object(packs: Directory, pack: str, oid: bytes) -> bool:
    """Return whether a pack (without suffix) has an object. Reads, and maps nothing.

    ``FileNotFoundError`` if the pack is missing. Only its index counts.
    """
    fd = packs.open(os.fsencode(pack) + b".idx")
    try:
        # how many oids have a lower first byte, and how many the same or a lower one
        counts = os.pread(fd, 2 * 4, len(_HEADER) + 4 * (oid[0] - 1))
        low = int.from_bytes(counts[:4], "big") if oid[0] else 0
        high = int.from_bytes(counts[4:], "big")
        read = functools.partial(os.pread, fd, _OID_BYTES)
        return _has(lambda at: read(_OIDS_AT + at * _OID_BYTES), low, high, oid)
    finally:
        os.close(fd)


def _has(oid_at: Callable[[int], bytes], low: int, high: int, oid: bytes) -> bool:
    """Return whether ``oid`` is from ``low`` to ``high``, in order."""
    at = low + bisect.bisect_left(range(low, high), oid, key=oid_at)
    return at < high and oid_at(at) == oid


def is_whole(packs: Directory, name: str) -> bool:
    """Return whether git can open a pack (without suffix). Reads the ends of its files.

    ``FileNotFoundError`` if one is missing.
    """
    pack, index = _files(name)
    try:
        head, pack_sum, _size = _ends(packs, pack, _PACK_HEADER.size, _SUM_BYTES)
        idx_head, sums, size = _ends(packs, index, _OIDS_AT, 2 * _SUM_BYTES)
    except (Unusable, EOFError):
        return False
    kind, version, count = _PACK_HEADER.unpack(head)
    if (kind, version) != (b"PACK", 2) or idx_head[: len(_HEADER)] != _HEADER:
        return False
    counts = _FANOUT.unpack_from(idx_head, len(_HEADER))
    least = _OIDS_AT + count * _ENTRY_BYTES + 2 * _SUM_BYTES
    most = least + max(0, count - 1) * _LARGE_OFFSET_BYTES
    return (
        counts[-1] == count
        and not any(map(operator.gt, counts, counts[1:]))
        and least <= size <= most
        and sums[:_SUM_BYTES] == pack_sum
    )


def _files(name: str) -> tuple[bytes, ...]:
    return tuple(os.fsencode(name) + suffix for suffix in _SUFFIXES)


def _state(packs: Directory, names: Iterable[str]) -> tuple[object, ...]:
    """Return the file stats of the files of some packs."""
    with packs.opened() as fd:
        found = [
            os.stat(file, dir_fd=fd, follow_symlinks=False)
            for name in names
            for file in _files(name)
        ]
    return tuple(
        (it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns) for it in found
    )


def _ends(
    packs: Directory, file: bytes, head_bytes: int, tail_bytes: int
) -> tuple[bytes, bytes, int]:
    """Return beginning, end and size of a file; ``EOFError`` if it is too short."""
    fd = packs.open(file)
    try:
        size = os.fstat(fd).st_size
        if size < head_bytes + tail_bytes:
            raise EOFError
        head = os.pread(fd, head_bytes, 0)
        tail = os.pread(fd, tail_bytes, size - tail_bytes)
    finally:
        os.close(fd)
    if (len(head), len(tail)) != (head_bytes, tail_bytes):  # cut meanwhile
        raise EOFError
    return head, tail, size


def _damaged(path: bytes) -> error.StorageError:
    return error.StorageError(
        _(b"'%s' is not a pack index") % path,
        hint=_(b"run 'hg admin::amalgam --repair'"),
    )


_CONFIG = {
    # they may name objects that are gone
    "core.commitGraph": "false",
    "core.multiPackIndex": "false",
    "pack.packSizeLimit": "0",
    "pack.threads": "1",
    "pack.windowMemory": "64m",
    "pack.writeReverseIndex": "true",
}


def packed_by_git(
    git: Git, area: Directory, asked: Iterable[bytes], *options: str
) -> tuple[str, ...]:
    """Let git write a pack in ``area``; none for no object."""
    git = git._replace(new_objects=layout.staged_objects(area))
    arguments = ("--quiet", "--non-empty", "--delta-base-offset", *options)
    with git.pieces(
        "pack-objects", *arguments, area.join(b"pack"), input=asked, config=_CONFIG
    ) as pieces:
        sums = b"".join(pieces).decode("ascii", "replace").split()
    names = tuple(f"pack-{name}" for name in sums)
    if not all(map(PACK.fullmatch, names)):
        raise error.Abort(
            _(b"git pack-objects failed"),
            hint=_(b"the disk may be full; then run 'hg git::verify'"),
        )
    return names


def rev_list_line(oid: bytes) -> bytes:
    """Return an oid as git wants it on its standard input."""
    return oid.hex().encode() + b"\n"


_OF_PACKS = (b".pack", b".idx", b".rev", b".keep", b".bitmap")
# files that a running git process may still need
_TEMPORARY = summaries.TEMPORARY
_ABANDONED_SECONDS = 3600
_LOOSE = re.compile(rb"[0-9a-f]{2}")
# git's records of refs, or of a working copy that should not exist
_TRACES = re.compile(
    rb"logs|index|AUTO_MERGE|COMMIT_EDITMSG|gc\.log|rr-cache|sequencer|[A-Z_]+_HEAD"
)


def unlisted_holders(repository: Repository, docket: Docket) -> list[bytes]:
    """Return the files that have objects, and that ``docket`` does not name."""
    named = frozenset(map(os.fsencode, docket.packs))
    found = [
        PACKS + b"/" + file
        for file in repository.packs_directory.names()
        # any name will do for git
        if file.endswith((b".idx", b".pack")) and _stem(file) not in named
    ]
    return found + [
        directory
        for directory in repository.loose_object_directories()
        if repository.directory.sub(directory).names()
    ]


def _stem(file: bytes) -> bytes:
    return os.path.splitext(file)[0]


def remove_unlisted(repository: Repository, docket: Docket) -> None:
    """Remove all that ``docket`` does not name. Indexes of packs go first."""
    directory, packs = repository.directory, repository.packs_directory
    named = frozenset(map(os.fsencode, docket.packs))
    files = sorted(packs.names(), key=lambda file: not file.endswith(b".idx"))
    for file in files:
        stem, suffix = os.path.splitext(file)
        if (stem not in named or suffix not in _OF_PACKS) and not (
            summaries.of_packs(file) or _is_in_use(repository, PACKS, file)
        ):
            packs.remove(file)
    for name in directory.sub(b"objects").names():
        if _LOOSE.fullmatch(name) or (
            name.startswith(_TEMPORARY) and not _is_in_use(repository, b"objects", name)
        ):
            _remove_all(repository, b"objects/" + name)
    for name in directory.names():
        if _TRACES.fullmatch(name):
            _remove_all(repository, name)
    layout.remove_outdated_staging(directory, docket.packs)


def _is_in_use(repository: Repository, directory: bytes, name: bytes) -> bool:
    """Return whether a running process may still write an unfinished file."""
    if not name.startswith(_TEMPORARY):
        return False
    try:
        found = repository.directory.sub(directory).stat(name)
    except FileNotFoundError:
        return False
    return time.time() - found.st_mtime < _ABANDONED_SECONDS


def _remove_all(repository: Repository, name: bytes) -> None:
    # a process of git may be filling a directory: then the next export removes it
    with contextlib.suppress(OSError):
        repository.directory.remove(name)
