"""Refs of hg-git's git repository, as it writes them: all in ``packed-refs``.

Loose refs are read, too, and go if their ref changes (gitrepository-layout(5),
git-pack-refs(1)). Symbolic refs stay as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..gitstore.git.layout import replace_locked
from ..gitstore.git.reffiles import RefFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..files import Directory, Placement

_PACKED = b"packed-refs"
# without "peeled", git looks behind tags by itself
_TITLE = b"# pack-refs with: sorted \n"
_NAME = re.compile(rb"refs/[^\0-\x20\x7f~^:?*\[\\]+")


def change(
    files: Directory, changes: Mapping[bytes, bytes], placement: Placement
) -> bool:
    """Write refs, oids in hex; an empty oid removes one. Return whether any changed.

    ``files``: the repository. ``StateError`` if git has locked them.
    """
    reffiles = RefFiles(files, placement)
    there = {ref: oid.hex().encode() for ref, oid in reffiles.refs().items()}
    refs = {**there, **{n: it for n, it in changes.items() if _NAME.fullmatch(n)}}
    refs = {name: oid for name, oid in refs.items() if oid}
    if refs == there:
        return False
    lines = (b"%s %s\n" % (oid, name) for name, oid in sorted(refs.items()))
    replace_locked(files, _PACKED, _TITLE + b"".join(lines), placement)
    for name in reffiles.loose_refs():
        if refs.get(name) != there.get(name):
            files.remove(name)
    return True
