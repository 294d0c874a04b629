"""The refs that git remotes had when they were pulled last.

Files of ``.hg/amalgam/fetched`` (docs/formats/imported.rst). Pulls write them, and
exports read the tags in them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..files import Unusable
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .store import GitStore

_MOST_BYTES = 1 << 30
_TITLE = b"amalgam fetched refs 1\n"
_LINE = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40}) ([0-9a-f]{40}|-) (\S+)")
_SAFE = re.compile(rb"[^A-Za-z0-9_-]")
_ESCAPED = re.compile(rb"%([0-9A-F]{2})")
_SUFFIX = b".refs"
_TAG = b" refs/tags/"


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

    def tags(self, remote: bytes) -> bytes:
        """Return the lines of tags, to be ``parsed``: they are the last ones."""
        lines = self._lines(remote)
        found = lines.find(_TAG)
        return lines[lines.rfind(b"\n", 0, found) + 1 :] if found >= 0 else b""

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


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)])


def formatted(refs: Mapping[bytes, FetchedRef]) -> bytes:
    """Return the content of a file of refs."""
    lines = (
        b"%s %s %s %s\n" % (it.oid, it.commit, it.node or b"-", name)
        for name, it in sorted(refs.items())
    )
    return _TITLE + b"".join(lines)


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
