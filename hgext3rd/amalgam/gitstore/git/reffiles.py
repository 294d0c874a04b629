"""Refs and HEAD of a git store, as files: read, and written by difference.

``packed-refs`` has the refs, in order. If it is long, a few that have changed since are
loose refs, which stand before it. When there are many of these, or a ref has to go,
``packed-refs`` is replaced as a whole: one rename, and no loose ref remains
(git-pack-refs(1), gitrepository-layout(5), docs/decisions/refs.rst).

A ref is written under the lock of git for it. Loose refs of others count as refs, and
change the digest that exports compare.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import stat
import sys
import unicodedata
from binascii import hexlify, unhexlify
from typing import TYPE_CHECKING

from ...files import Unusable
from ...records import Record
from . import layout
from .namelines import NameLines, NotInOrderError, names_in
from .refs import HEADS, METADATA, TAGS

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from ...files import Directory, Placement

_PACKED = b"packed-refs"
_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
# of some millions of refs
_PACKED_BYTES = 512 << 20
_LOOSE_BYTES = 1 << 16
_LINE = re.compile(rb"([0-9a-f]{40}) (.+)")
_OID = re.compile(rb"([0-9a-f]{40})\n")
_PEELED = re.compile(rb"^\^[0-9a-f]{40}\n", re.MULTILINE)
_TAG_OBJECT = re.compile(rb"^([0-9a-f]{40}) .+\n\^([0-9a-f]{40})$", re.MULTILINE)
_NONE: Mapping[bytes, bytes] = {}
_LOCK = b".lock"
_STAGED = b"loose-ref.amalgam"
"""The lock of a loose ref is a second name of this file."""
_KEPT = (HEADS.rstrip(b"/"), TAGS.rstrip(b"/"))
# Each loose ref costs every reader a file. Without it, packed-refs is written more
# often: the square root of the number of refs makes both grow alike.
_LEAST_LOOSE = 64
_AVERAGE_LINE_BYTES = 64
_MOST_AT_ONCE = 16
_SMALL_BYTES = 1 << 15
"""A ``packed-refs`` that is replaced for any change."""

# digests of packed-refs, by path: its file stats, and the digest
_digests: dict[bytes, tuple[PackedStamp, str]] = {}


class PackedStamp(Record):
    """File stats of ``packed-refs``; equal ones mean equal content."""

    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int


class RefFiles:
    """Refs and HEAD of a bare repository, which may not exist yet."""

    def __init__(self, directory: Directory, placement: Placement) -> None:
        """``placement`` says how files are made."""
        self.directory: Directory = directory
        self._placement = placement

    def packed_file(self) -> bytes:
        """Return the content of ``packed-refs``; nothing if it cannot be read."""
        return self._content(_PACKED, _PACKED_BYTES)

    def open_packed(self) -> NameLines:
        """Open ``packed-refs`` for searching."""
        return NameLines.open(self.directory, _PACKED)

    def loose_refs(self) -> dict[bytes, bytes]:
        """Return the content of all loose refs, by name.

        Nothing for one that is no file. Locks are no refs.
        """
        return {
            b"refs/" + name: self._content(b"refs/" + name, _LOOSE_BYTES)
            for name, entry in self.directory.sub(b"refs").walk()
            if not entry.is_dir(follow_symlinks=False) and not name.endswith(_LOCK)
        }

    def refs(self) -> dict[bytes, bytes]:
        """Return all refs: name to oid, 20 bytes."""
        return _parsed(self.packed_file()) | _oids(self.loose_refs())

    def targets(self) -> dict[bytes, bytes]:
        """Return the same with the objects behind tag objects."""
        peeled = peeled_in(self.packed_file())
        known = {unhexlify(oid): unhexlify(it) for oid, it in peeled.items()}
        return {name: known.get(oid, oid) for name, oid in self.refs().items()}

    def packed_refs(self) -> bytes:
        """Return all refs as the content of a ``packed-refs`` without loose refs."""
        loose = _oids(self.loose_refs())
        if not loose:
            return self.packed_file()
        with self.open_packed() as packed:
            return b"".join(_spliced(packed, loose))

    def count_refs(self) -> int:
        """Return the number of refs that users see."""
        content = self.packed_refs()
        is_hidden = b" %s\n" % METADATA in content
        others = content.startswith(b"#") + content.count(b"\n^") + is_hidden
        return content.count(b"\n") - others

    def has_refs(self) -> bool:
        """Return whether any ref exists."""
        return bool(self.refs() or self.loose_refs())

    def head_content(self) -> bytes:
        """Return the content of ``HEAD``; nothing if it cannot be read."""
        return self._content(b"HEAD", _LOOSE_BYTES)

    def head(self) -> bytes:
        """Return the ref that HEAD leads to."""
        content = self.head_content()
        return content.removeprefix(b"ref: ").rstrip(b"\n") or b"refs/heads/default"

    def _content(self, name: bytes, limit_bytes: int) -> bytes:
        """Return the content of a file; nothing if it has to be written anew."""
        try:
            return self.directory.tryread(name, limit_bytes)
        except Unusable:
            return b""

    def names_digest(self) -> str:
        """Return a digest of refs and HEAD, to see whether they are as an export left
        them."""
        digest = hashlib.sha1(self._packed_digest().encode())
        digest.update(b"\0" + self.head_content())
        for name, content in sorted(self.loose_refs().items()):
            digest.update(b"\0%s\0%s" % (name, content))
        return digest.hexdigest()

    def _packed_digest(self) -> str:
        stamp = self.packed_stamp()
        known = _digests.get(self.directory.path)
        if known is None or known[0] != stamp:
            known = stamp, hashlib.sha1(self.packed_file()).hexdigest()
            if self.packed_stamp() == stamp:
                _digests[self.directory.path] = known
        return known[1]

    def packed_stamp(self) -> PackedStamp:
        """Return the file stats of ``packed-refs``; zeros if it is missing."""
        try:
            it = self.directory.stat(_PACKED)
        except (FileNotFoundError, Unusable):
            return PackedStamp(0, 0, 0, 0)
        return PackedStamp(it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns)

    def known_digest(self) -> tuple[PackedStamp, str]:
        """Return the stats and the digest of ``packed-refs`` for ``know_digest``."""
        digest = self._packed_digest()
        return self.packed_stamp(), digest

    def know_digest(self, stamp: PackedStamp, digest: str) -> None:
        """Believe a digest of ``packed-refs`` while the file has these stats."""
        _digests.setdefault(self.directory.path, (stamp, digest))

    def names_state(self) -> tuple[object, ...]:
        """Return the file stats of all files with refs and HEAD.

        Equal stats mean an equal ``names_digest``.
        """
        state: list[object] = [self.packed_stamp()]
        with contextlib.suppress(FileNotFoundError, Unusable):
            state.append(_stamp(self.directory.stat(b"HEAD")))
        for name, entry in self.directory.sub(b"refs").walk():
            with contextlib.suppress(FileNotFoundError):
                if not entry.is_dir(follow_symlinks=False):
                    state.append((name, _stamp(entry.stat(follow_symlinks=False))))
        return tuple(state)

    def set_refs(
        self,
        refs: Mapping[bytes, bytes],
        head: bytes,
        peeled: Mapping[bytes, bytes] = _NONE,
    ) -> None:
        """Make ``refs`` (name to oid, 20 bytes) all refs, and HEAD lead to ``head``.

        ``peeled``: the tag objects among the oids, with the objects that they lead to.
        Writes nothing if nothing changes.
        """
        if self.is_named(refs, head, peeled):
            return
        content = _packed(refs, peeled)
        if self.packed_file() != content:
            self._replace(_PACKED, content)
        self._remove_loose()
        self._set_head(head)

    def is_named(
        self,
        refs: Mapping[bytes, bytes],
        head: bytes,
        peeled: Mapping[bytes, bytes] = _NONE,
    ) -> bool:
        """Return whether ``set_refs`` would write nothing."""
        if not layout.is_whole(self.directory):
            return False
        content, loose = self.packed_file(), self.loose_refs()
        if (
            not content.startswith(_HEADER)
            or len(loose) > _most_loose(len(content))
            or not all(map(_OID.fullmatch, loose.values()))
            or self.head_content() != _symbolic(head)
        ):
            return False
        try:
            packed = _in_order(content)
        except NotInOrderError:
            return False
        is_peeled = b"\n^" not in content and not peeled
        if not is_peeled and content != _packed(packed, peeled):
            return False
        return packed | _oids(loose) == refs

    def change_refs(self, changes: Mapping[bytes, bytes | None], head: bytes) -> None:
        """Change some refs: name to oid, or ``None`` for one that goes.

        A reader may see a part of few changes before the others, and many at once.
        """
        loose = self.loose_refs()
        with self.open_packed() as packed:
            if self._may_be_loose(changes, loose, packed):
                for name, oid in sorted(changes.items()):
                    if oid is None:
                        self.directory.remove(name)
                    else:
                        self._write_loose(name, oid)
            else:
                every = {**_oids(loose), **changes}
                self._replace(_PACKED, b"".join(_spliced(packed, every)))
                self._remove_loose()
        self._set_head(head)

    def _may_be_loose(
        self,
        changes: Mapping[bytes, bytes | None],
        loose: Mapping[bytes, bytes],
        packed: NameLines,
    ) -> bool:
        """Return whether files of their own can express the changes."""
        count = len(loose.keys() | changes.keys())
        if packed.end <= _SMALL_BYTES or count > _most_loose(packed.end):
            return False
        if len(changes) > _MOST_AT_ONCE:
            return False
        if not all(map(_OID.fullmatch, loose.values())):
            return False
        if changes and not (
            # another file system may take two names for one
            sys.platform == "linux" and not self.directory.exists(b"head")
        ):
            return False
        for name, oid in changes.items():
            if oid is None:
                if packed.get(name) is not None:
                    return False
            elif not _is_one_file(name) or not self._has_room(name):
                return False
        return True

    def _has_room(self, name: bytes) -> bool:
        """Return whether no directory has the name, and no file one of its parents."""
        try:
            return stat.S_ISREG(self.directory.stat(name).st_mode)
        except FileNotFoundError:
            return True
        except Unusable:
            return False

    def _write_loose(self, name: bytes, oid: bytes) -> None:
        content = b"%s\n" % oid.hex().encode()
        self.directory.sub(name.rpartition(b"/")[0]).make(self._placement)
        layout.replace_locked(self.directory, name, content, self._placement, _STAGED)

    def _remove_loose(self) -> None:
        """Remove all loose refs, and directories that are left empty."""
        for name in self.loose_refs():
            self.directory.remove(name)
        refs = self.directory.sub(b"refs")
        for name, entry in sorted(refs.walk(), reverse=True, key=lambda it: it[0]):
            path = b"refs/" + name
            if entry.is_dir(follow_symlinks=False) and path not in _KEPT:
                with contextlib.suppress(OSError):
                    self.directory.remove_empty(path)

    def _set_head(self, head: bytes) -> None:
        if self.head_content() != _symbolic(head):
            self._replace(b"HEAD", _symbolic(head))

    def _replace(self, name: bytes, content: bytes) -> None:
        layout.replace_locked(self.directory, name, content, self._placement)
        if name == _PACKED:
            known = self.packed_stamp(), hashlib.sha1(content).hexdigest()
            _digests[self.directory.path] = known

    def remove_ref_debris(self) -> None:
        """Remove locks that a killed run left. Only with the lock of exports."""
        for name in (_PACKED, b"HEAD"):
            layout.forget_lock(self.directory, name)
        if self.directory.exists(_STAGED):
            for name, _entry in [*self.directory.sub(b"refs").walk()]:
                if name.endswith(_LOCK):
                    ref = b"refs/" + name.removesuffix(_LOCK)
                    layout.forget_lock_of(self.directory, ref, _STAGED)
            self.directory.remove(_STAGED)


def peeled_in(content: bytes) -> dict[bytes, bytes]:
    """Return the tag objects in ``packed-refs``, with the objects that they lead to."""
    return dict(_TAG_OBJECT.findall(content)) if b"\n^" in content else {}


def without_peeled(content: bytes) -> bytes:
    """Return ``packed-refs`` without the lines for these."""
    return _PEELED.sub(b"", content) if b"\n^" in content else content


def differences(before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]) -> int:
    """Return how many refs that users see are new, gone or moved."""
    names = (before.keys() | after.keys()) - {METADATA}
    return sum(before.get(name) != after.get(name) for name in names)


def _stamp(it: os.stat_result) -> tuple[int, ...]:
    return it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns


def _parsed(content: bytes) -> dict[bytes, bytes]:
    """Return the refs in ``packed-refs``; damaged lines are left out."""
    try:
        return _in_order(content)
    except NotInOrderError:
        found = map(_LINE.fullmatch, content.splitlines())
        return {it[2]: bytes.fromhex(it[1].decode()) for it in found if it}


def _in_order(content: bytes) -> dict[bytes, bytes]:
    """Return the same; ``NotInOrderError`` if an export would not write it so."""
    names = names_in(without_peeled(content.removeprefix(_HEADER)), are_utf8=False)
    for name, digits in names.items():
        names[name] = unhexlify(digits)
    return names


def _oids(loose: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the oid of each loose ref that has one, by name."""
    found = {name: _OID.fullmatch(content) for name, content in loose.items()}
    return {name: unhexlify(it[1]) for name, it in found.items() if it}


def _packed(refs: Mapping[bytes, bytes], peeled: Mapping[bytes, bytes]) -> bytes:
    names = sorted(refs)
    lines = [b"%s %s\n" % (hexlify(refs[name]), name) for name in names]
    if peeled:
        found = (peeled.get(refs[name]) for name in names)
        ends = (b"^%s\n" % hexlify(oid) if oid else b"" for oid in found)
        lines = [*map(bytes.__add__, lines, ends)]
    return _HEADER + b"".join(lines)


def _spliced(
    packed: NameLines, changes: Mapping[bytes, bytes | None]
) -> Iterator[bytes]:
    """Yield the content of ``packed-refs`` with changes, in pieces."""
    yield _HEADER
    at = packed.start
    for name, oid in sorted(changes.items()):
        place = packed.place(name, at)
        yield packed.read(at, place)
        if oid is not None:
            yield b"%s %s\n" % (hexlify(oid), name)
        at = place
        if packed.name_at(place) == name:
            at = packed.after(place)
    yield packed.read(at, packed.end)


def _symbolic(head: bytes) -> bytes:
    return b"ref: %s\n" % head


def _most_loose(packed_bytes: int) -> int:
    """Return how many loose refs there may be beside ``packed-refs``."""
    return max(_LEAST_LOOSE, math.isqrt(packed_bytes // _AVERAGE_LINE_BYTES))


def _is_one_file(name: bytes) -> bool:
    """Return whether no file system could take another spelling for the same name."""
    if name.isascii():
        return True
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return False
    return all(unicodedata.is_normalized(form, text) for form in ("NFC", "NFD"))
