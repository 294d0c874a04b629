"""The pack of a bundle: made by git, or put together of packs as they are.

git copies most objects as the packs of its repository have them, but looks at every
one of them first. Packs that are wanted whole, and have no object twice, need not be
looked at: their entries name no offsets but those between each other, so they can
follow those of another pack, gitformat-pack(5). Knows nothing of Mercurial.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import struct
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.node import hex as hex_id

from ...records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...gitstore.git.gitprocess import Git
    from ...placement import Directory

PACK_HEADER = struct.Struct(">4sII")
_MAGIC, _VERSION = b"PACK", 2
_SUM_BYTES = 20
_CHUNK_BYTES = 1 << 20
# With more threads, packs differ each time. Deltas are searched only for what the store
# has none for, so there is little to gain from them.
_CONFIG = {"pack.threads": "1", "pack.windowMemory": "64m"}


class PackRequest(Record):
    """What git is to pack. Oids have 20 bytes."""

    tips: tuple[bytes, ...]
    """Commits: with all that they lead to."""
    known: tuple[bytes, ...] = ()
    """Commits: without what these lead to."""
    filter: bytes = b""
    """What to leave out of that, as in git-rev-list(1)."""
    kept_packs: tuple[bytes, ...] = ()
    """Packs (file names) whose objects are left out, too, wherever they are."""


def packed(
    git: Git, wanted: PackRequest
) -> contextlib.AbstractContextManager[Iterator[bytes]]:
    """Have git make a pack; the context yields its pieces, the header in the first.

    ``Abort`` after the last piece if git fails. git ends with the context.
    """
    args = ["pack-objects", "--revs", "--stdout", "--delta-base-offset", "--quiet"]
    if wanted.known:
        args.append("--thin")
    if wanted.filter:
        args.append("--filter=" + wanted.filter.decode("ascii"))
    args += ["--keep-pack=" + os.fsdecode(name) for name in wanted.kept_packs]
    revs = [b"%s\n" % hex_id(oid) for oid in wanted.tips]
    revs += [b"^%s\n" % hex_id(oid) for oid in wanted.known]
    return git.pieces(*args, input=revs, config=_CONFIG)


@contextlib.contextmanager
def copied(packs: Directory, pack: str) -> Iterator[Iterator[bytes]]:
    """Yield the pieces of a pack, which may be removed once the context has begun.

    ``pack`` is its name in the directory ``packs``, without suffix.
    """
    with os.fdopen(packs.open(os.fsencode(pack) + b".pack"), "rb") as file:
        yield iter(lambda: file.read(_CHUNK_BYTES), b"")


def joined(sources: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the pieces of one pack that has all entries of others.

    No two of ``sources`` may have an object in common. ``StorageError`` after the
    entries of one that is not as its checksum says.
    """
    begun = []
    count = 0
    for source in sources:
        first = next(source, b"")
        if len(first) < PACK_HEADER.size:
            raise _damaged()
        magic, version, objects = PACK_HEADER.unpack_from(first)
        if (magic, version) != (_MAGIC, _VERSION):
            raise _damaged()
        count += objects
        begun.append(itertools.chain([first], source))
    header = PACK_HEADER.pack(_MAGIC, _VERSION, count)
    digest = hashlib.sha1(header, usedforsecurity=False)
    yield header
    for source in begun:
        for piece in _entries(source):
            digest.update(piece)
            yield piece
    yield digest.digest()


def _entries(source: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a pack without its header and its checksum, which is compared."""
    digest = hashlib.sha1(usedforsecurity=False)
    kept = b""
    skipped = PACK_HEADER.size
    for piece in source:
        data = kept + piece
        kept = data[-_SUM_BYTES:]
        data = data[:-_SUM_BYTES]
        digest.update(data)
        if skipped:
            data, skipped = data[skipped:], max(0, skipped - len(data))
        if data:
            yield data
    if kept != digest.digest():
        raise _damaged()


def _damaged() -> error.StorageError:
    return error.StorageError(
        _(b"a pack of the git store is damaged"),
        hint=_(b"run 'hg admin::amalgam --repair'"),
    )
