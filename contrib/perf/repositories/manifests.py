"""Texts of flat manifests and the deltas between them.

A line is NAME NUL HEX FLAG LF, lines sorted by name: `hg help internals.revlogs` and
Mercurial's manifest.py. A delta replaces whole lines, as Mercurial's fastdelta does.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_pack_hunk = struct.Struct(">lll").pack


def format_line(name: bytes, node: bytes, flag: bytes) -> bytes:
    """The line of one file; ``flag`` is empty, ``x`` or ``l``."""
    return b"%s\0%s%s\n" % (name, node.hex().encode(), flag)


def find_line(text: bytes, name: bytes) -> tuple[int, int]:
    """Where the line of ``name`` starts and ends, or twice where it would start."""
    low, high = 0, len(text)
    while low < high:
        start = text.rfind(b"\n", low, (low + high) // 2) + 1 or low
        name_end = text.index(b"\0", start)
        found = text[start:name_end]
        if found > name:
            high = start
            continue
        end = text.index(b"\n", name_end) + 1
        if found == name:
            return start, end
        low = end
    return low, low


def edit(text: bytes, lines: Mapping[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return ``text`` with the lines of the files named, and the delta to it.

    An empty line removes its file, which has to be there.
    """
    kept, hunks, done = [], [], 0
    for name in sorted(lines):
        line = lines[name]
        start, end = find_line(text, name)
        assert line or start < end, f"no file {name!r} to remove from the manifest"
        kept += [text[done:start], line]
        hunks += [_pack_hunk(start, end, len(line)), line]
        done = end
    kept.append(text[done:])
    return b"".join(kept), b"".join(hunks)
