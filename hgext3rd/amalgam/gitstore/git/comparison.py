"""Files of a changeset, compared with the tree of a commit."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from mercurial import pycompat

from ...records import Choice, Record
from .process import split

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from .process import Git

MODES = {b"": b"100644", b"x": b"100755", b"l": b"120000"}


class Differing(Choice):
    """How a file differs."""

    ONLY_HG = "only-hg"
    ONLY_GIT = "only-git"
    MODE = "mode"
    CONTENT = "content"


class FileDifference(Record):
    """A file that differs."""

    path: bytes
    kind: Differing
    found: bytes = b""
    """Mode in git."""
    expected: bytes = b""
    """Mode of a file with the flags that the changeset has."""


def object_id(kind: bytes, content: bytes) -> bytes:
    """Return the oid that git gives an object."""
    head = b"%s %d\0" % (kind, len(content))
    return hashlib.sha1(head + content, usedforsecurity=False).digest()


def files_of(git: Git, tree: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the files of a tree: path, mode and oid in hex, ascending by path."""
    with git.pieces("ls-tree", "-r", "-z", "--full-tree", tree) as pieces:
        for line in split(pieces, b"\0"):
            head, _tab, path = line.partition(b"\t")
            mode, _kind, blob = head.split(b" ")
            yield path, mode, blob


def differences(
    ctx: Any,
    files: Iterable[tuple[bytes, bytes, bytes]],
    read: Container[bytes] | None = None,
) -> Iterator[FileDifference]:
    """Yield the files that differ, ascending by path.

    ``files`` are those of the tree: path, mode and oid in hex. ``read``: paths whose
    content is compared, by default all. Reads one by one, as far as the caller goes.
    """
    manifest = ctx.manifest()
    there = {path: (mode, blob) for path, mode, blob in files}
    for path in sorted({*there, *manifest}):
        if path not in there:
            yield FileDifference(path, Differing.ONLY_HG)
        elif path not in manifest:
            yield FileDifference(path, Differing.ONLY_GIT)
        else:
            mode, blob = there[path]
            expected = MODES.get(pycompat.bytestr(manifest.flags(path)), b"?")
            if mode != expected:
                yield FileDifference(path, Differing.MODE, mode, expected)
            if read is not None and path not in read:
                continue
            if object_id(b"blob", ctx[path].data()).hex().encode() != blob:
                yield FileDifference(path, Differing.CONTENT)
