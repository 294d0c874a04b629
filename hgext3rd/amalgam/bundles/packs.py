"""The pack of a bundle: made by git, or put together of packs as they are.

git copies most objects as the packs of its repository have them, but looks at every
one of them first. Packs that are wanted whole, and have no object twice, need not be
looked at: their entries name no offsets but those between each other, so they can
follow those of another pack, gitformat-pack(5). Knows nothing of Mercurial.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import struct
import subprocess
import tempfile
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..gitstore.gitprocess import said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import IO

    from ..gitstore.gitprocess import Git

PACK_HEADER = struct.Struct(">4sII")
_MAGIC, _VERSION = b"PACK", 2
_SUM_BYTES = 20
_CHUNK_BYTES = 1 << 20
# gitformat-pack(5), "Version 2 pack-*.idx files"
_IDX_HEADER = b"\xfftOc\0\0\0\2"
_COUNT_AT = len(_IDX_HEADER) + 4 * 255
_OIDS_AT = _COUNT_AT + 4
_OID_BYTES = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What git is to pack. Oids have 20 bytes."""

    tips: tuple[bytes, ...]
    """Commits: with all that they lead to."""
    known: tuple[bytes, ...] = ()
    """Commits: without what these lead to."""
    filter: bytes = b""
    """What to leave out of that, as in git-rev-list(1)."""


@contextlib.contextmanager
def packed(git: Git, wanted: Wanted) -> Iterator[Iterator[bytes]]:
    """Have git make a pack; the context yields its pieces, the header in the first.

    ``Abort`` after the last piece if git fails. git ends with the context.
    """
    args = ["pack-objects", "--revs", "--stdout", "--delta-base-offset", "--quiet"]
    if wanted.known:
        args.append("--thin")
    if wanted.filter:
        args.append("--filter=" + wanted.filter.decode("ascii"))
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as errors:
        asked.writelines(b"%s\n" % oid.hex().encode() for oid in wanted.tips)
        asked.writelines(b"^%s\n" % oid.hex().encode() for oid in wanted.known)
        asked.seek(0)
        process = git.start(*args, stdin=asked, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout is not None
        try:
            yield _pieces(process, process.stdout, errors)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def _pieces(
    process: subprocess.Popen[bytes], output: IO[bytes], errors: IO[bytes]
) -> Iterator[bytes]:
    while piece := output.read(_CHUNK_BYTES):
        yield piece
    if process.wait():
        errors.seek(0)
        done = subprocess.CompletedProcess(
            process.args, process.returncode, b"", errors.read()
        )
        raise error.Abort(_(b"git pack-objects failed: %s") % said(done))


def are_disjoint(paths: Iterable[bytes]) -> bool:
    """Tell whether no two packs (their paths) have an object in common."""
    oids: set[bytes] = set()
    count = 0
    for path in paths:
        with open(path.removesuffix(b".pack") + b".idx", "rb") as file:
            header = file.read(_OIDS_AT)
            if not header.startswith(_IDX_HEADER):
                return False
            here = int.from_bytes(header[_COUNT_AT:], "big")
            table = file.read(here * _OID_BYTES)
        count += here
        oids.update(
            table[at : at + _OID_BYTES] for at in range(0, len(table), _OID_BYTES)
        )
    return len(oids) == count


@contextlib.contextmanager
def joined(paths: Sequence[bytes]) -> Iterator[Iterator[bytes]]:
    """Make one pack of all entries of others, which are ``are_disjoint``.

    They may be removed once the context has begun. ``StorageError`` after the last
    entry of one that is not as its checksum says.
    """
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(path, "rb")) for path in paths]
        yield _entries(files)


def _entries(files: Sequence[IO[bytes]]) -> Iterator[bytes]:
    headers = [file.read(PACK_HEADER.size) for file in files]
    count = 0
    for file, header in zip(files, headers, strict=True):
        if len(header) != PACK_HEADER.size:
            raise _damaged(file)
        magic, version, objects = PACK_HEADER.unpack(header)
        if (magic, version) != (_MAGIC, _VERSION):
            raise _damaged(file)
        count += objects
    header = PACK_HEADER.pack(_MAGIC, _VERSION, count)
    digest = hashlib.sha1(header, usedforsecurity=False)
    yield header
    for file, own_header in zip(files, headers, strict=True):
        own_digest = hashlib.sha1(own_header, usedforsecurity=False)
        left = os.fstat(file.fileno()).st_size - len(own_header) - _SUM_BYTES
        while left > 0:
            piece = file.read(min(left, _CHUNK_BYTES))
            if not piece:
                raise _damaged(file)
            left -= len(piece)
            own_digest.update(piece)
            digest.update(piece)
            yield piece
        if file.read() != own_digest.digest():
            raise _damaged(file)
    yield digest.digest()


def _damaged(file: IO[bytes]) -> error.StorageError:
    return error.StorageError(
        _(b"pack '%s' of the git store is damaged") % os.fsencode(file.name),
        hint=_(b"run 'hg admin::amalgam --repair'"),
    )
