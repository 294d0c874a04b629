"""Objects of metadata commits, also of those that are behind.

A metadata commit stays until it is made again. Then it is not what an export from
nothing makes, and contains only ids.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .gitprocess import Git

_BATCH = 1000
# of a tree of notes: hexadecimal digits, two for a directory
_NOTES_ENTRY = re.compile(
    rb"(?:40000 [0-9a-f]{2}|1(?:60000|00644) [0-9a-f]{34,40})\0", re.S
)
_IDENTS = b"author  <cinnabar@git> 0 +0000\ncommitter  <cinnabar@git> 0 +0000\n\n"
_EMPTY_TREE = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"


def cruft(git: Git, oids: Iterable[bytes]) -> frozenset[bytes]:
    """Return those of ``oids`` that a metadata commit may need, and nothing else does.

    Those of the current one are among them.
    """
    old: set[bytes] = set()
    remaining = iter(oids)
    while batch := list(itertools.islice(remaining, _BATCH)):
        listing = b"".join(oid.hex().encode() + b"\n" for oid in batch)
        found = git.run("cat-file", "--batch", input=listing).stdout
        at = 0
        while at < len(found):
            end = found.index(b"\n", at)
            name, kind, *size = found[at:end].split()
            at = end + 1
            if size:
                content = found[at : at + int(size[0])]
                at += len(content) + 1
                if _is_metadata(kind, content):
                    old.add(bytes.fromhex(name.decode()))
    return frozenset(old)


def _is_metadata(kind: bytes, content: bytes) -> bool:
    """Tell whether an object is a metadata commit, or a part that others replace."""
    if kind == b"commit":
        head, idents, message = content.partition(_IDENTS)
        is_notes = not message and head.count(b"\n") == 1
        is_list = head.startswith(_EMPTY_TREE) and not re.fullmatch(
            rb"[0-9a-f]{40}", message
        )
        return bool(idents) and (is_notes or is_list)
    if kind != b"tree":
        return False
    at = 0
    while at < len(content):
        entry = _NOTES_ENTRY.match(content, at)
        if not entry:
            return False
        at = entry.end() + 20
    return True
