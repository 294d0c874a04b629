"""The profile of the largest histories: much of everything at once.

A manifest has megabytes. Each line of development has the text of its last one, which
is edited in place. Threads hash copies meanwhile, and need most of the time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

from .histories import (
    METADATA_MARK,
    changeset_text,
    copy_metadata,
    find_line,
    format_line,
    pack_hunk,
)
from .profile import Profile, plain_header
from .revlogs import NULL_REV

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from .histories import Header, History
    from .stores import Store
    from .texts import Writer

_BLOCKS = 4_000  # of which files are made, about a kilobyte each
_LARGEST = 5_000_000
_MINUTES = 10_000_000  # of which dates are drawn: nineteen years
_DEEPEST = 7
_MOVED = 8  # so many lines come and go by moving the text behind them
_LATEST = 16  # changesets that may wait for the node of their manifest


class _File(NamedTuple):
    """A file revision. Its raw text begins with so many bytes of metadata."""

    rev: int
    flag: bytes
    content: bytes
    metadata: int = 0


class _Edit(NamedTuple):
    """A content, and the hunk that makes it of the content before."""

    content: bytes
    start: int
    end: int
    new: bytes


class _New(NamedTuple):
    """A file that was not there, and the name and revision that it was copied from."""

    content: bytes
    flag: bytes
    source: tuple[bytes, int] | None = None


_Changes = dict[bytes, "_File | _Edit | _New | None"]


@dataclass
class _Line:
    """A line of development, with the state of its last changeset."""

    changeset: int = NULL_REV
    manifest_rev: int = NULL_REV
    manifest: bytearray = field(default_factory=bytearray)
    files: dict[bytes, _File] = field(default_factory=dict)
    branch: bytes = b"default"
    changed: dict[bytes, _File | None] = field(default_factory=dict)
    """Files that changed since the last merge with the main line, as they were then."""

    def fork(self, branch: bytes) -> _Line:
        """Begin another line at the last changeset."""
        text, files = bytearray(self.manifest), dict(self.files)
        return _Line(self.changeset, self.manifest_rev, text, files, branch)


@dataclass(frozen=True)
class Monorepo(Profile):
    """Much of everything: files, directories, copies, merges, long-lived branches.

    A changeset has six file revisions on average; a few have hundreds. A twentieth of
    the files comes first, and the others more and more often. Topics wait long for
    their merge. One directory is hot. Files have 1 kB to 5 MB. Dates are drawn.
    """

    changesets: int = 500_000
    files: int = 300_000
    directories: int = 20_000
    topics: int = 48
    branches: int = 8

    def build(self, history: History) -> None:
        """Write the lines in turns."""
        writer = self.writer()
        work = _Work(writer, _Tree(writer, self.directories))
        commits = _Commits(history.store, writer, work)
        main = _Line()
        commits.commit(main, work.additions(self.files // 20))
        topics: list[_Line | None] = [None] * self.topics
        branches: list[_Line | None] = [None] * self.branches
        while len(commits) < self.changesets:
            due = self._files_at(len(commits)) - len(main.files)
            turn = writer.below(100)
            if turn < 60:
                commits.commit(main, work.some(main, due))
                continue
            lines = topics if turn < 95 else branches
            place = writer.below(len(lines))
            line = lines[place]
            if line is None:
                name = b"default" if lines is topics else b"v%d" % len(commits)
                line = lines[place] = main.fork(name)
            ends = line.changed and writer.chance(14 if lines is topics else 2)
            if ends:
                commits.merge(main, line)
                if lines is topics or writer.chance(20):
                    lines[place] = None
            elif lines is topics and line.changed and writer.chance(4):
                lines[place] = commits.follow(main, line)
            else:
                commits.commit(line, work.some(line, due))
        commits.end()

    def _files_at(self, changeset: int) -> int:
        # a power of 1.5, in whole numbers: all platforms give the same
        first, count = self.files // 20, self.changesets
        part = changeset * isqrt(changeset * count)
        return first + (self.files - first) * part // count**2


class _Tree:
    """Directories, one of them hot, and names of files in them."""

    def __init__(self, writer: Writer, directories: int) -> None:
        self._writer = writer
        self._directories = [(0, b"")]
        self.names: list[bytes] = []
        self.hot: list[bytes] = []
        while (count := len(self._directories)) <= directories:
            depth, parent = min(writer.pick(self._directories) for _ in range(2))
            if depth < _DEEPEST:
                name = b"%s%s%d/" % (parent, writer.noun(), count % 100)
                self._directories.append((depth + 1, name))
        self._hot = writer.pick(self._directories)[1]

    def new_name(self) -> bytes:
        """A name that no file had before."""
        writer = self._writer
        kind = b"png" if writer.chance(2) else writer.pick((b"c", b"h", b"py", b"txt"))
        is_hot = writer.chance(3)
        directory = self._hot if is_hot else writer.pick(self._directories)[1]
        name = b"%s%s%d.%s" % (directory, writer.noun(), len(self.names), kind)
        self.names.append(name)
        if is_hot:
            self.hot.append(name)
        return name

    def known_name(self) -> bytes:
        """One of the names, often of the hot directory."""
        is_hot = self.hot and self._writer.chance(20)
        return self._writer.pick(self.hot if is_hot else self.names)


class _Work:
    """Changes of files, as changesets make them."""

    def __init__(self, writer: Writer, tree: _Tree) -> None:
        self._writer = writer
        self._tree = tree
        self._blocks = [
            b"".join(writer.statement(b".c") for _ in range(25)) for _ in range(_BLOCKS)
        ]
        self._count = 0

    def additions(self, count: int) -> _Changes:
        """So many new files."""
        return {self._tree.new_name(): self._new() for _ in range(count)}

    def some(self, line: _Line, due: int) -> _Changes:
        """Edits, and some of the new files that are due; renames and removals."""
        writer, changes = self._writer, _Changes()
        for _ in range(self._size()):
            name = self._present(line)
            if name:
                changes[name] = self.edited(line.files[name].content)
        if due > 0 and writer.chance(30):
            changes.update(self.additions(min(due, 1 + writer.below(6))))
        if writer.chance(4):
            source = self._present(line)
            if source:
                before = line.files[source]
                content = self.edited(before.content).content
                target = self._tree.new_name()
                changes[target] = _New(content, before.flag, (source, before.rev))
                if writer.chance(60):
                    changes[source] = None
        if writer.chance(2):
            name = self._present(line)
            if name:
                changes[name] = None
        return changes or self.additions(1)

    def edited(self, content: bytes) -> _Edit:
        """A line, or a piece of a binary file, becomes one that was never there."""
        writer = self._writer
        place = writer.below(len(content))
        start = max(content.rfind(b"\n", 0, place) + 1, place - 100)
        end = content.find(b"\n", place, place + 100)
        end = min(place + 100, len(content)) if end < 0 else end
        self._count += 1
        new = b"%d: %s" % (self._count, writer.sentence())
        return _Edit(content[:start] + new + content[end:], start, end, new)

    def _size(self) -> int:
        """How many files a changeset edits."""
        writer, size = self._writer, self._writer.random.random()
        if size < 0.6:
            return 1 + writer.below(3)
        if size < 0.97:
            return 1 + writer.below(12)
        if size < 0.998:
            return 20 + writer.below(60)
        return 300 + writer.below(700)

    def _present(self, line: _Line) -> bytes | None:
        for _ in range(8):
            name = self._tree.known_name()
            if name in line.files:
                return name
        return None

    def _new(self) -> _New:
        writer = self._writer
        size = 1000
        while size < _LARGEST and writer.chance(45):
            size *= 2
        size = min(size + writer.below(size), _LARGEST)
        self._count += 1
        head = b"// %d\n" % self._count
        if writer.chance(2):
            return _New(head + writer.noise(size), b"")
        blocks = [writer.pick(self._blocks) for _ in range(1 + size // 1000)]
        flag = b"x" if writer.chance(2) else b""
        return _New(head + b"".join(blocks)[:size] + b"\n", flag)


class _Waiting(NamedTuple):
    """A changeset whose manifest has no node yet."""

    hashed: Future[None]
    manifest_rev: int
    parents: tuple[int, int]
    header: Header
    branch: bytes
    touched: list[bytes]


class _Commits:
    """Writes changesets, each as soon as its manifest has a node."""

    def __init__(self, store: Store, writer: Writer, work: _Work) -> None:
        self._store = store
        self._writer = writer
        self._work = work
        self._manifest = store.late_manifest()
        self._waiting: deque[_Waiting] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def commit(
        self, line: _Line, changes: _Changes, other: _Line | None = None
    ) -> None:
        """Write the next changeset of ``line``, a merge if there is an ``other``."""
        lines, touched = {}, []
        for name, change in changes.items():
            before = line.files.get(name)
            after = self._file(line, name, change, other)
            if after is None:
                del line.files[name]
            else:
                line.files[name] = after
            lines[name] = self._manifest_line(name, after)
            if other is None or isinstance(change, _Edit):
                touched.append(name)
                line.changed.setdefault(name, before)
        delta = _edit(line.manifest, lines)
        p1, p2 = line.manifest_rev, other.manifest_rev if other else NULL_REV
        rev, hashed = self._manifest.add_late(line.manifest, p1, p2, self._count, delta)
        line.manifest_rev = rev
        minute = self._writer.below(_MINUTES)
        header = plain_header(self._writer, self._count, minute)
        parents = line.changeset, other.changeset if other else NULL_REV
        self._waiting.append(
            _Waiting(hashed, rev, parents, header, line.branch, sorted(touched))
        )
        line.changeset = self._count
        self._count += 1
        self._write(_LATEST)

    def merge(self, main: _Line, line: _Line) -> None:
        """Merge a line into the main one."""
        self.commit(main, self._merged(main, line), line)
        main.changed.clear()
        line.changed.clear()

    def follow(self, main: _Line, line: _Line) -> _Line:
        """Merge the main line into another, and return how that goes on."""
        changes = self._merged(main, line)
        after = main.fork(line.branch)
        after.changed = {name: main.files.get(name) for name in changes}
        self.commit(after, changes, line)
        return after

    def end(self) -> None:
        """Write the changesets that wait."""
        self._write(0)

    def _merged(self, main: _Line, line: _Line) -> _Changes:
        """The changes of a merge in the main line; a change beats a removal."""
        changes = _Changes()
        for name, base in line.changed.items():
            ours, theirs = main.files.get(name), line.files.get(name)
            if ours == theirs:
                continue
            if ours == base or ours is None:
                changes[name] = theirs
            elif theirs:
                changes[name] = self._work.edited(ours.content)
        return changes

    def _file(
        self,
        line: _Line,
        name: bytes,
        change: _File | _Edit | _New | None,
        other: _Line | None,
    ) -> _File | None:
        if change is None or isinstance(change, _File):
            return change
        filelog = self._store.filelog(name)
        if isinstance(change, _New):
            return self._new_file(name, change)
        before = line.files[name]
        theirs = other.files.get(name) if other else None
        hunk = b""
        if before.metadata:
            hunk = pack_hunk(0, before.metadata, 0)
        places = before.metadata + change.start, before.metadata + change.end
        hunk += pack_hunk(*places, len(change.new)) + change.new
        p2 = theirs.rev if theirs else NULL_REV
        rev = filelog.add(change.content, before.rev, p2, self._count, hunk)
        return _File(rev, before.flag, change.content)

    def _new_file(self, name: bytes, new: _New) -> _File:
        metadata = b""
        if new.source:
            source, rev = new.source
            copied = copy_metadata(source, self._store.filelog(source).node(rev))
            metadata = METADATA_MARK + copied + METADATA_MARK
        filelog = self._store.filelog(name)
        raw = metadata + new.content
        rev = filelog.add(raw, NULL_REV, NULL_REV, self._count, None)
        return _File(rev, new.flag, new.content, len(metadata))

    def _manifest_line(self, name: bytes, file: _File | None) -> bytes:
        if file is None:
            return b""
        return format_line(name, self._store.filelog(name).node(file.rev), file.flag)

    def _write(self, left: int) -> None:
        while len(self._waiting) > left:
            one = self._waiting.popleft()
            one.hashed.result()
            node = self._manifest.node(one.manifest_rev)
            text = changeset_text(node, one.header, one.branch, one.touched)
            log = self._store.changelog
            log.add(text, *one.parents, len(log), None)


def _edit(text: bytearray, lines: Mapping[bytes, bytes]) -> bytes:
    """Change lines of a manifest in place, and return the delta."""
    places = [(*find_line(text, name), lines[name]) for name in sorted(lines)]
    delta = b"".join(
        pack_hunk(start, end, len(line)) + line for start, end, line in places
    )
    if sum(end - start != len(line) for start, end, line in places) <= _MOVED:
        for start, end, line in reversed(places):
            text[start:end] = line
    else:
        kept: list[bytes | bytearray] = []
        done = 0
        for start, end, line in places:
            kept += [text[done:start], line]
            done = end
        text[:] = b"".join([*kept, text[done:]])
    return delta
