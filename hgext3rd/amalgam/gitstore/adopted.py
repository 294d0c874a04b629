"""The file of adopted commits: ids that the dialect would not give, and that stay.

``docs/formats/adopted.rst`` describes ``.hg/amalgam/adopted/<dialect>``. It is the one
file that cannot be made again: nothing here changes or removes it once it has its name.
The core reads it (``rust/hg2git/src/map/adopted.rs``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import zlib
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from ..files import Unusable
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..files import Directory, Placement
    from ..trust import Trust

LONGEST_COMMIT_BYTES = 64 << 20
"""Bytes of a commit, at most; the core has the same bound."""

_ID_LEN = 20
_HEADER = struct.Struct(">8sII")
_MAGIC, _VERSION = b"AMALGADO", 1
_EACH_LEN = 3 * _ID_LEN + 8 + 4 + 4
# fewer bytes gain little: a commit is short, and its ids are random
_LEVEL = 6
_PIECE_BYTES = 1 << 20
_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class AdoptedCommit(Record):
    """A commit that another program has made of a changeset."""

    node: bytes
    oid: bytes
    tree: bytes
    """Oid of its tree."""
    content: bytes


class AdoptedFile(Record):
    """The adopted commits of one dialect."""

    directory: Directory
    name: bytes
    trust: Trust
    """Whether the owner of the file is trusted not to truncate it."""

    def exists(self) -> bool:
        """Return whether any exist."""
        return self.directory.exists(self.name)

    def mark(self) -> str:
        """Return the checksum recorded in the file; empty without a file.

        Takes the same time at any size. ``StorageError`` for other content.
        """
        found = self._ends()
        return found[1].hex() if found else ""

    def changesets(self) -> int:
        """Return how many changesets it has, as ``mark``."""
        found = self._ends()
        return found[0] if found else 0

    def is_unmapped(self) -> bool:
        """Return whether it is to be read, since others may truncate it."""
        return not self.trust.may_map(
            self.directory.stat(self.name), self.directory.stat()
        )

    def pairs(self) -> dict[bytes, bytes]:
        """Return the oids of all changesets, by their nodes."""
        found = self._ends()
        if not found:
            return {}
        count, _sum = found
        with os.fdopen(self.directory.open(self.name), "rb") as file:
            file.seek(-(count * _EACH_LEN + _ID_LEN), os.SEEK_END)
            nodes = file.read(count * _ID_LEN)
            oids = file.read(count * _ID_LEN)
        at = range(0, count * _ID_LEN, _ID_LEN)
        return {nodes[i : i + _ID_LEN]: oids[i : i + _ID_LEN] for i in at}

    def is_sound(self) -> bool:
        """Return whether its checksum is right. Reads the whole file."""
        digest = hashlib.sha1(usedforsecurity=False)
        with os.fdopen(self.directory.open(self.name), "rb") as file:
            left = os.fstat(file.fileno()).st_size - _ID_LEN
            while left > 0 and (piece := file.read(min(left, _PIECE_BYTES))):
                digest.update(piece)
                left -= len(piece)
            return file.read() == digest.digest()

    def write(self, commits: Iterable[AdoptedCommit], placement: Placement) -> None:
        """Make the file of ``commits``, which come in the order of their nodes."""
        fd = self.directory.create(self.name, placement)
        with os.fdopen(fd, "w+b") as file:
            _Writer(file).write(commits)
            file.flush()
            os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) & ~_WRITABLE)
            os.fsync(file.fileno())

    def place(self, target: AdoptedFile, placement: Placement) -> None:
        """Let it be ``target``, which is not there yet. Durable when it returns."""
        target.directory.make(placement)
        self.directory.rename(self.name, target.name, target.directory)

    def _ends(self) -> tuple[int, bytes] | None:
        try:
            fd = self.directory.open(self.name)
        except FileNotFoundError:
            return None
        except Unusable as exc:
            raise self._wrong(exc.message) from None
        with os.fdopen(fd, "rb", buffering=0) as file:
            header = file.read(_HEADER.size)
            with contextlib.suppress(OSError, struct.error):
                magic, version, count = _HEADER.unpack(header)
                file.seek(-_ID_LEN, os.SEEK_END)
                digest = file.read(_ID_LEN)
                least = _HEADER.size + count * _EACH_LEN + _ID_LEN
                if (magic, version) == (_MAGIC, _VERSION) and file.tell() >= least:
                    return count, digest
        path = self.directory.join(self.name)
        raise self._wrong(_(b"'%s' has no adopted commits of a known version") % path)

    @staticmethod
    def _wrong(text: bytes) -> error.StorageError:
        return error.StorageError(text, hint=_(b"restore it from a backup"))


class _Writer:
    """Writes a file from its first byte to its last."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, commits: Iterable[AdoptedCommit]) -> None:
        """Write all; the number of commits is known at the end."""
        file = self._file
        file.write(_HEADER.pack(_MAGIC, _VERSION, 0))
        end = _HEADER.size
        nodes, oids, trees, ends, lengths = (bytearray() for _table in range(5))
        for commit in commits:
            stream = zlib.compress(commit.content, _LEVEL)
            file.write(stream)
            end += len(stream)
            nodes += commit.node
            oids += commit.oid
            trees += commit.tree
            ends += struct.pack(">Q", end)
            lengths += struct.pack(">I", len(commit.content))
        count = len(nodes) // _ID_LEN
        by_oid = sorted(
            range(count), key=lambda at: oids[at * _ID_LEN : (at + 1) * _ID_LEN]
        )
        for table in (nodes, oids, trees, ends, lengths):
            file.write(table)
        file.write(struct.pack(f">{count}I", *by_oid))
        file.seek(0)
        file.write(_HEADER.pack(_MAGIC, _VERSION, count))
        file.seek(0)
        digest = hashlib.sha1(usedforsecurity=False)
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
        file.write(digest.digest())
