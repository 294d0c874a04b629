"""The refs that git remotes had when they were pulled last.

Files of ``.hg/amalgam/fetched`` (docs/formats/imported.rst). Pulls write them, and
exports read the tags in them.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from ..config import followed
from ..files import Unusable
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set as AbstractSet

    from .store import GitStore

_MOST_BYTES = 1 << 30
_TITLE = b"amalgam fetched refs 1\n"
_HEAD_TITLE = b"amalgam remote head 1\n"
_HEAD_BYTES = 1 << 16
_LINE = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40}) ([0-9a-f]{40}|-) (\S+)")
_NODE = slice(82, 122)
"""The changeset in a line, if the ref has one."""
_NAME = re.compile(rb"(\S+)$", re.MULTILINE)
_SAFE = re.compile(rb"[^A-Za-z0-9_-]")
_ESCAPED = re.compile(rb"%([0-9A-F]{2})")
_SUFFIX = b".refs"
_SHOWN = (b" refs/notes/", b" refs/tags/")


class FetchedRef(Record):
    """A ref of a remote, when it was pulled. Ids are in hex."""

    oid: bytes
    """Its target: a commit, or a tag object."""
    commit: bytes
    """The target behind all tag objects: a commit, or a file or tree."""
    node: bytes
    """The changeset; empty for other objects."""


class FetchedRefs:
    """The recorded refs of all remotes, for one repository and one dialect."""

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self._directory = store.directory.sub(b"fetched")

    def remotes(self) -> list[bytes]:
        """Return the names of remotes with recorded refs."""
        prefix = self._store.config.dialect + b"-"
        files = [it for it in self._directory.names() if it.startswith(prefix)]
        names = [it.removeprefix(prefix) for it in files if it.endswith(_SUFFIX)]
        return [_ESCAPED.sub(_unescaped, it.removesuffix(_SUFFIX)) for it in names]

    def refs(self, remote: bytes) -> dict[bytes, FetchedRef]:
        """Return the refs that ``remote``, a name, had when it was pulled last."""
        return parsed(self._lines(remote))

    def lines(self, remote: bytes) -> RefLines:
        """Return the same refs, none of them parsed."""
        return RefLines(self._lines(remote))

    def tags(self, remote: bytes) -> bytes:
        """Return the lines of notes and tags, to be ``parsed``: the last ones."""
        lines = self._lines(remote)
        found = next((at for it in _SHOWN if (at := lines.find(it)) >= 0), -1)
        return lines[lines.rfind(b"\n", 0, found) + 1 :] if found >= 0 else b""

    def main_line(self) -> bytes:
        """Return the bookmark of the branch that a remote checks out, in UTF-8.

        That of the first remote which has one; nothing if none has.
        """
        heads = (self.head(remote) for remote in self.ranked())
        return next(filter(None, heads), b"")

    def head(self, remote: bytes) -> bytes:
        """Return the bookmark of the branch that ``remote`` checks out, if known."""
        with contextlib.suppress(Unusable, UnicodeDecodeError):
            content = self._directory.tryread(self._head_file(remote), _HEAD_BYTES)
            content.decode()
            if content.startswith(_HEAD_TITLE):
                return content[len(_HEAD_TITLE) : -1]
        return b""

    def ranked(self) -> list[bytes]:
        """Return the names of remotes; of equal names of theirs, the first counts.

        Followed remotes come first, then ``default``, then the others by name.
        """
        leaders = followed(self._store.repo.ui)

        def rank(remote: bytes) -> tuple[bool, bool, bytes]:
            return remote not in leaders, remote != b"default", remote

        return sorted(self.remotes(), key=rank)

    def _lines(self, remote: bytes) -> bytes:
        """Return the content without its title; nothing if it is of another form."""
        try:
            content = self._directory.tryread(self._file(remote), _MOST_BYTES)
        except Unusable:
            return b""
        return content[len(_TITLE) :] if content.startswith(_TITLE) else b""

    def _file(self, remote: bytes) -> bytes:
        name = _SAFE.sub(lambda it: b"%%%02X" % ord(it[0]), remote)
        return b"%s-%s%s" % (self._store.config.dialect, name, _SUFFIX)

    def _head_file(self, remote: bytes) -> bytes:
        return self._file(remote).removesuffix(_SUFFIX) + b".head"


class RefLines:
    """The lines of a file of refs, of which few are parsed. They are sorted by name."""

    def __init__(self, content: bytes) -> None:
        """``content``: of a file, without its title."""
        self._content = content

    def find(self, names: Iterable[bytes]) -> dict[bytes, FetchedRef]:
        """Return those of ``names`` that are here."""
        found: dict[bytes, FetchedRef] = {}
        for name in names:
            start, end = self._place(name)
            found |= parsed(self._content[start:end])
        return found

    def below(self, prefix: bytes) -> list[bytes]:
        """Return the names that begin with ``prefix``, which ends with a slash."""
        return _NAME.findall(self._part(prefix))

    def pairs(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return names and changesets of refs below ``prefix`` that have one."""
        lines = self._part(prefix).splitlines()
        found = ((line.rpartition(b" ")[2], line[_NODE]) for line in lines)
        return [it for it in found if not it[1].startswith(b"-")]

    def nodes(self, prefix: bytes = b"") -> set[bytes]:
        """Return the changesets of all refs, or of those below ``prefix``, in hex."""
        found = {line[_NODE] for line in self._part(prefix).splitlines()}
        return {it for it in found if not it.startswith(b"-")}

    def with_nodes(self, nodes: AbstractSet[bytes]) -> list[bytes]:
        """Return the names of refs whose changesets are among ``nodes``."""
        lines = self._content.splitlines()
        return [line.rpartition(b" ")[2] for line in lines if line[_NODE] in nodes]

    def replaced(self, old: Iterable[bytes], new: Mapping[bytes, FetchedRef]) -> bytes:
        """Return the content of a file with ``new`` in place of the names ``old``."""
        pieces, at = [_TITLE], 0
        for name in sorted({*old, *new}):
            start, end = self._place(name)
            pieces.append(self._content[at:start])
            if name in new:
                pieces.append(_line(name, new[name]))
            at = end
        return b"".join((*pieces, self._content[at:]))

    def _part(self, prefix: bytes) -> bytes:
        """Return the lines of refs below ``prefix``."""
        if not prefix:
            return self._content
        after = prefix[:-1] + bytes([prefix[-1] + 1])
        return self._content[self._place(prefix)[0] : self._place(after)[0]]

    def _place(self, name: bytes) -> tuple[int, int]:
        """Return begin and end of the line of ``name``, or its place twice."""
        content, low, high = self._content, 0, len(self._content)
        while low < high:
            start = content.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = content.find(b"\n", start) + 1 or len(content)
            found = content[start:end].rstrip(b"\n").rpartition(b" ")[2]
            if found == name:
                return start, end
            low, high = (end, high) if found < name else (low, start)
        return low, low


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)])


def formatted(refs: Mapping[bytes, FetchedRef]) -> bytes:
    """Return the content of a file of refs."""
    return _TITLE + b"".join(_line(name, it) for name, it in sorted(refs.items()))


def head_content(bookmark: bytes) -> bytes:
    """Return the content of a file with the bookmark of a checked-out branch."""
    return b"%s%s\n" % (_HEAD_TITLE, bookmark)


def _line(name: bytes, ref: FetchedRef) -> bytes:
    return b"%s %s %s %s\n" % (ref.oid, ref.commit, ref.node or b"-", name)


def parsed(lines: bytes) -> dict[bytes, FetchedRef]:
    """Return the refs in the lines of a file; none if one is of another form."""
    refs = {}
    for line in lines.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            return {}
        oid, commit, node, name = match.groups()
        refs[name] = FetchedRef(oid, commit, b"" if node == b"-" else node)
    return refs
