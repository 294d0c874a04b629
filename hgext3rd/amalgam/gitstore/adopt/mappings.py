"""Which commit is which changeset's, as other programs say it.

- git-cinnabar: the notes below ``refs/cinnabar/metadata``;
- hg-fast-export: ``hg2git-mapping`` and ``hg2git-marks`` in the git repository;
- a file with lines ``NODE OID``.

All ids are 20 bytes. Nothing here looks at commits.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from mercurial import error, pycompat
from mercurial.i18n import _

from ...files import Unusable
from ...terminal import printable
from ..git.process import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...files import Directory
    from .mirror import Mirror

_MAPPING, _MARKS = b"hg2git-mapping", b"hg2git-marks"
# of some ten million changesets
_FILE_BYTES = 1 << 30
_NODE_AND_OID = re.compile(rb"([0-9a-f]{40})[ \t]+([0-9a-f]{40})[ \t\r]*")
_NODE_AND_REV = re.compile(rb":([0-9a-f]{40}) ([0-9]{1,10})")
_MARK_AND_OID = re.compile(rb":([0-9]{1,10}) ([0-9a-f]{40})")
_LONGEST_SHOWN = 60
# the third parent of the metadata commit, and that commit itself
_HG2GIT, _GRAFTS = b"%s^3^{tree}", b"%s^{tree}"
_NOTE = re.compile(rb"160000 commit ([0-9a-f]{40})\t([0-9a-f/]{40,80})")


def read(
    mirror: Mirror, map_file: bytes | None, is_known: Callable[[bytes], bool]
) -> dict[bytes, bytes]:
    """Return the commits of changesets: oids by nodes.

    From ``map_file`` if that is given. ``is_known`` tells of a node whether it is one
    of a changeset: other nodes of git-cinnabar's are left out. ``InputError`` if there
    is nothing to read, if it is malformed, or if it contradicts itself.
    """
    if map_file is not None:
        return _of_lines(map_file, _lines(map_file), _NODE_AND_OID)
    if mirror.metadata is not None:
        return _of_cinnabar(mirror, is_known)
    files = mirror.files
    if files is not None and files.exists(_MAPPING) and files.exists(_MARKS):
        return _of_fast_export(files)
    raise error.InputError(
        _(b"'%s' does not say which commit is which changeset's")
        % printable(mirror.name),
        hint=_(b"name a file with lines 'NODE OID' by --map"),
    )


def check(mapping: dict[bytes, bytes]) -> None:
    """Abort if two changesets have one commit."""
    seen: dict[bytes, bytes] = {}
    for node, oid in mapping.items():
        other = seen.setdefault(oid, node)
        if other != node:
            raise error.InputError(
                _(b"changesets %s and %s have the same commit %s")
                % (*sorted([other.hex().encode(), node.hex().encode()]), _hex(oid)),
                hint=_(b"remove the wrong one from a file for --map"),
            )


def _hex(id_: bytes) -> bytes:
    return id_.hex().encode()


def _lines(path: bytes) -> Iterator[bytes]:
    """Yield the lines of a regular file that a user names."""
    try:
        # a FIFO is not waited for
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        reason = pycompat.bytestr(os.strerror(exc.errno or 0))
        raise error.InputError(_(b"cannot read '%s': %s") % (path, reason)) from None
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise error.InputError(
                _(b"'%s' is not a regular file") % path,
                hint=_(b"name a file with lines NODE OID by --map"),
            )
        if found.st_size > _FILE_BYTES:
            raise error.InputError(
                _(b"'%s' is too large") % path,
                hint=_(b"name a file with lines NODE OID by --map"),
            )
        yield from file.read(found.st_size).splitlines()


def _lines_of(files: Directory, name: bytes) -> Iterator[bytes]:
    try:
        content = files.read(name, _FILE_BYTES)
    except Unusable as exc:
        raise error.InputError(exc.message) from None
    yield from content.splitlines()


def _of_lines(
    name: bytes, lines: Iterable[bytes], pattern: re.Pattern[bytes]
) -> dict[bytes, bytes]:
    """Read ids of changesets, and of something else, in hex; of others, as they are."""
    found: dict[bytes, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        match = pattern.fullmatch(line)
        if match is None:
            raise error.InputError(
                _(b"'%s', line %d: expected %s, found '%s'")
                % (name, number, _FORMS[pattern], printable(line[:_LONGEST_SHOWN]))
            )
        key, value = match.groups()
        if pattern is not _MARK_AND_OID:
            key = bytes.fromhex(key.decode())
        if pattern is not _NODE_AND_REV:
            value = bytes.fromhex(value.decode())
        if found.setdefault(key, value) != value:
            raise error.InputError(
                _(b"'%s', line %d: '%s' has another value in a line before")
                % (name, number, match[1]),
                hint=_(b"remove the wrong line"),
            )
    return found


_FORMS = {
    _NODE_AND_OID: _(b"'NODE OID', 40 hexadecimal digits each"),
    _NODE_AND_REV: _(b"':NODE REVISION'"),
    _MARK_AND_OID: _(b"':MARK OID'"),
}


def _of_fast_export(files: Directory) -> dict[bytes, bytes]:
    """Join the files of hg-fast-export: the mark of a revision is one more than it.

    A revision without a mark was not exported.
    """
    path = files.join(_MAPPING)
    revs = _of_lines(path, _lines_of(files, _MAPPING), _NODE_AND_REV)
    path = files.join(_MARKS)
    oids = _of_lines(path, _lines_of(files, _MARKS), _MARK_AND_OID)
    marks = ((node, b"%d" % (int(rev) + 1)) for node, rev in revs.items())
    return {node: oids[mark] for node, mark in marks if mark in oids}


def _of_cinnabar(
    mirror: Mirror, is_known: Callable[[bytes], bool]
) -> dict[bytes, bytes]:
    """Read git-cinnabar's map from nodes to commits, for known changesets.

    In a grafted clone, a commit may have replaced another one, which its children name.
    The name in the children counts.
    """
    assert mirror.metadata is not None
    replaced = {
        oid: original for original, oid in _notes(mirror, _GRAFTS % mirror.metadata)
    }
    return {
        node: replaced.get(oid, oid)
        for node, oid in _notes(mirror, _HG2GIT % mirror.metadata)
        if is_known(node)
    }


def _notes(mirror: Mirror, tree: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a notes tree of git-cinnabar."""
    args = ("ls-tree", "-r", "-z", "--full-tree", tree)
    with mirror.git.pieces(*args) as pieces:
        for line in split(pieces, b"\0"):
            match = _NOTE.fullmatch(line)
            digits = match[2].replace(b"/", b"") if match else b""
            if match is None or len(digits) != 40:
                raise error.InputError(
                    _(b"git-cinnabar's metadata in '%s' has an unknown entry: '%s'")
                    % (printable(mirror.name), printable(line[:_LONGEST_SHOWN])),
                    hint=_(b"name a file with lines NODE OID by --map"),
                )
            yield bytes.fromhex(digits.decode()), bytes.fromhex(match[1].decode())
