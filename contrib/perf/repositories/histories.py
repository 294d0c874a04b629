"""Changesets, written one after the other: what a commit and a merge store.

Owns the rules that Mercurial follows when it commits: file parents, copy metadata,
which files a changeset lists, when a manifest is used again. Knows no file names and
draws no random numbers; the profiles do. A ``Changeset`` carries the whole state of its
files, so any of them can be committed on, and only those still held use memory.

Manifests are flat. A line is NAME NUL HEX FLAG LF, lines sorted by name: `hg help
internals.revlogs` and Mercurial's manifest.py. A delta replaces whole lines, as
Mercurial's fastdelta does.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from mercurial import changelog, mdiff, simplemerge

from .revlogs import NULL_REV

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .stores import Store

METADATA_MARK = b"\1\n"
pack_hunk = struct.Struct(">lll").pack


class FileRevision(NamedTuple):
    """A file as a changeset has it; ``raw`` is ``content`` with hg's metadata."""

    rev: int
    flag: bytes
    content: bytes
    raw: bytes


class FileChange(NamedTuple):
    """What a file becomes, and the file of the first parent it was copied from."""

    content: bytes
    flag: bytes = b""
    copied_from: bytes | None = None


class Changeset(NamedTuple):
    """A written changeset: its revisions, the text of its manifest, its files."""

    rev: int
    manifest_rev: int
    manifest: bytes
    files: Mapping[bytes, FileRevision]
    branch: bytes
    touched: tuple[bytes, ...]


NULL = Changeset(NULL_REV, NULL_REV, b"", {}, b"default", ())


class Header(NamedTuple):
    """Who, when, why; ``utc_offset`` in seconds west, a ``branch`` of None inherits."""

    user: bytes
    time: int
    utc_offset: int
    description: bytes
    branch: bytes | None = None
    extra: Mapping[bytes, bytes] = {}


class History:
    """Writes changesets into a store and remembers bookmarks."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.bookmarks: dict[bytes, int] = {}  # name -> changelog revision

    def __len__(self) -> int:
        """How many changesets there are, so the next one's revision."""
        return len(self.store.changelog)

    def node(self, changeset: Changeset) -> bytes:
        """The 20 bytes that name ``changeset``."""
        return self.store.changelog.node(changeset.rev)

    def commit(
        self,
        parent: Changeset,
        changes: Mapping[bytes, FileChange | FileRevision | None],
        header: Header,
        other: Changeset | None = None,
    ) -> Changeset:
        """Write a child of ``parent``, and of ``other`` if it is a merge.

        ``changes`` is what differs from ``parent``: a new content or flag, a revision
        of ``other`` to be taken as it is, or None to remove the file.
        """
        link_rev = len(self)
        files = dict(parent.files)
        lines: dict[bytes, bytes] = {}
        touched = []
        for name, change in changes.items():
            before = files.get(name)
            if change is None:
                del files[name]
                lines[name] = b""
                if other is None:  # a merge lists no removal that a parent made
                    touched.append(name)
                continue
            if isinstance(change, FileRevision):
                after = change
            else:
                theirs = other.files.get(name) if other else None
                after = self._add_file(parent, name, change, theirs)
            if after != before:
                if not isinstance(change, FileRevision):
                    touched.append(name)
                files[name] = after
                node = self.store.filelog(name).node(after.rev)
                lines[name] = format_line(name, node, after.flag)
        manifest, manifest_rev = self._add_manifest(parent, other, lines)
        branch = header.branch or parent.branch
        touched.sort()
        manifest_node = self.store.manifest.node(manifest_rev)
        text = changeset_text(manifest_node, header, branch, touched)
        other_rev = other.rev if other else NULL_REV
        rev = self.store.changelog.add(text, parent.rev, other_rev, link_rev, None)
        return Changeset(rev, manifest_rev, manifest, files, branch, tuple(touched))

    def merge(
        self, ours: Changeset, theirs: Changeset, base: Changeset, header: Header
    ) -> Changeset:
        """Write the merge of ``theirs`` into ``ours``, their nearest common ancestor
        being ``base``.

        A file changed on one side only keeps that side's revision. One changed on both
        gets a new revision on top of the two, each conflict settled by ours, then
        theirs. A removal loses to a change.
        """
        changes: dict[bytes, FileChange | FileRevision | None] = {}
        for name, their_file in theirs.files.items():
            old, our_file = base.files.get(name), ours.files.get(name)
            if their_file in (old, our_file):
                continue
            if our_file is None or our_file == old:
                changes[name] = their_file
            else:
                changes[name] = self._merge_files(name, old, our_file, their_file)
        for name, old in base.files.items():
            if name not in theirs.files and ours.files.get(name) == old:
                changes[name] = None
        return self.commit(ours, changes, header, theirs)

    def _merge_files(
        self,
        name: bytes,
        old: FileRevision | None,
        ours: FileRevision,
        theirs: FileRevision,
    ) -> FileChange | FileRevision:
        flag = ours.flag if old and theirs.flag == old.flag else theirs.flag
        filelog = self.store.filelog(name)
        for newer, older in ((ours, theirs), (theirs, ours)):
            if filelog.is_ancestor(older.rev, newer.rev):
                return newer._replace(flag=flag)
        is_binary = b"\0" in ours.content + theirs.content
        if is_binary or b"l" in ours.flag + theirs.flag:
            return FileChange(theirs.content, theirs.flag)
        merged = simplemerge.Merge3Text(
            old.content if old else b"", ours.content, theirs.content
        )
        lines: list[bytes] = []
        for kind, group in merged.merge_groups():
            if kind == b"conflict":
                _base_lines, our_lines, their_lines = group
                lines += [*our_lines, *their_lines]
            else:
                lines += group
        return FileChange(b"".join(lines), flag)

    def _add_file(
        self,
        parent: Changeset,
        name: bytes,
        change: FileChange,
        theirs: FileRevision | None,
    ) -> FileRevision:
        before = parent.files.get(name)
        filelog = self.store.filelog(name)
        p1 = before.rev if before else NULL_REV
        p2 = theirs.rev if theirs else NULL_REV
        if p1 in (NULL_REV, p2):
            p1, p2 = p2, NULL_REV
        content, flag, source = change
        if source is None and before and p2 == NULL_REV and content == before.content:
            return before._replace(flag=flag)  # a mode alone makes no file revision
        metadata = b""
        if source is not None:
            # Mercurial leaves the first parent null: look at the metadata instead
            p1, p2 = NULL_REV, p1
            node = self.store.filelog(source).node(parent.files[source].rev)
            metadata = copy_metadata(source, node)
        raw = content
        if metadata or content.startswith(METADATA_MARK):
            raw = METADATA_MARK + metadata + METADATA_MARK + content
        delta = None
        if p1 != NULL_REV and before and p1 == before.rev:
            delta = mdiff.textdiff(before.raw, raw)
        return FileRevision(
            filelog.add(raw, p1, p2, len(self), delta), flag, content, raw
        )

    def _add_manifest(
        self, parent: Changeset, other: Changeset | None, lines: Mapping[bytes, bytes]
    ) -> tuple[bytes, int]:
        p1, p2 = parent.manifest_rev, other.manifest_rev if other else NULL_REV
        if not lines and p2 in (NULL_REV, p1):
            return parent.manifest, p1
        text, delta = edit(parent.manifest, lines)
        return text, self.store.manifest.add(text, p1, p2, len(self), delta)


def changeset_text(
    manifest: bytes, header: Header, branch: bytes, touched: list[bytes]
) -> bytes:
    """The text of a changeset, given the node of its manifest."""
    extra = dict(header.extra)
    if branch != b"default":
        extra[b"branch"] = branch
    date = b"%d %d" % (header.time, header.utc_offset)
    if extra:
        date = b"%s %s" % (date, changelog.encodeextra(extra))
    head = [manifest.hex().encode(), header.user, date, *touched]
    return b"%s\n\n%s" % (b"\n".join(head), header.description)


def copy_metadata(source: bytes, node: bytes) -> bytes:
    """The metadata of a copy: name and node of its source."""
    return b"copy: %s\ncopyrev: %s\n" % (source, node.hex().encode())


def format_line(name: bytes, node: bytes, flag: bytes) -> bytes:
    """The line of one file; ``flag`` is empty, ``x`` or ``l``."""
    return b"%s\0%s%s\n" % (name, node.hex().encode(), flag)


def find_line(text: bytes | bytearray, name: bytes) -> tuple[int, int]:
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
        hunks += [pack_hunk(start, end, len(line)), line]
        done = end
    kept.append(text[done:])
    return b"".join(kept), b"".join(hunks)
