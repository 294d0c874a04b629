"""Profiles of many lines of development that take turns, so that parents are far back.

Each starts from one changeset that adds all files. Every later one edits one file, or
is a merge. With ``straight``, the same edits come in one line, and a merge is a
changeset that gives as many files another revision: the difference is what the shape
itself costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .profile import Profile, add_files, edit_files, plain_header, plain_names

if TYPE_CHECKING:
    from .histories import Changeset, FileRevision, History
    from .texts import Writer


class _Files:
    """The files of a history, of so many lines each, and which of them an edit has."""

    def __init__(self, names: list[bytes], lines: int = 20) -> None:
        self.names = names
        self.lines = lines

    def drawn(self, writer: Writer) -> list[bytes]:
        """The files of the next edit: one, any of them."""
        return [writer.pick(self.names)]


# of a hundred files so many, and of a hundred edits of a file so many
_WIDE = ((b"", 20, 35), (b"t/", 40, 26), (b"doc/", 10, 12), (b"builtin/", 5, 20))


class _WideFiles(_Files):
    """Files that are mostly in few directories, the root among them."""

    def __init__(self, count: int, lines: int) -> None:
        directories = [
            [b"%sfile%05d.txt" % (prefix, i) for i in range(count * files // 100)]
            for prefix, files, _edits in _WIDE
        ]
        others = plain_names(count - sum(map(len, directories)))
        names = sorted({name for here in (*directories, others) for name in here})
        super().__init__(names, lines)
        shares = zip(_WIDE, directories, strict=True)
        drawn = [here for (_, _, edits), here in shares for _ in range(edits)]
        self._drawn = drawn + [others] * (100 - len(drawn))

    def drawn(self, writer: Writer) -> list[bytes]:
        """The files of the next edit: one or some."""
        names = {writer.pick(writer.pick(self._drawn)): None}
        while writer.chance(57):
            names[writer.pick(writer.pick(self._drawn))] = None
        return list(names)


class _Tip(NamedTuple):
    """Where a line is, and the files that it edited since it was merged."""

    changeset: Changeset
    edited: tuple[bytes, ...] = ()


class _Lines:
    """Edits and merges as they are asked for."""

    def __init__(self, history: History, writer: Writer, files: _Files) -> None:
        self.history = history
        self.start = _Tip(add_files(history, writer, files.names, files.lines))
        self._writer = writer
        self._files = files

    def edit(self, tip: _Tip, most: int) -> _Tip:
        """One edit, or some, of which there are at most ``most``."""
        count = 1
        while count < most and self._writer.chance(46):
            count += 1
        changeset, edited = tip
        for _ in range(count):
            names = self._files.drawn(self._writer)
            changeset = self._edit(changeset, names)
            edited = (*edited, *names)
        return _Tip(changeset, edited)

    def merge(self, ours: _Tip, theirs: _Tip, base: _Tip) -> _Tip:
        """The merge of ``theirs``, ``base`` being a common ancestor."""
        header = plain_header(self._writer, len(self.history))
        both = (ours.changeset, theirs.changeset)
        return _Tip(self.history.merge(*both, base.changeset, header))

    def _edit(self, changeset: Changeset, names: list[bytes]) -> Changeset:
        return edit_files(self.history, self._writer, changeset, names)


class _OneLine(_Lines):
    """The same edits, each on the last one, whatever it was asked to be made on."""

    def __init__(self, history: History, writer: Writer, files: _Files) -> None:
        super().__init__(history, writer, files)
        self._tip = self.start.changeset
        self._before: dict[bytes, FileRevision] = {}

    def merge(self, ours: _Tip, theirs: _Tip, base: _Tip) -> _Tip:
        """Give the files that ``theirs`` edited the revisions they had before."""
        header = plain_header(self._writer, len(self.history))
        files = self._tip.files
        changes = {name: self._before[name] for name in theirs.edited}
        self._before.update((name, files[name]) for name in changes)
        self._tip = self.history.commit(self._tip, changes, header)
        return _Tip(self._tip)

    def _edit(self, changeset: Changeset, names: list[bytes]) -> Changeset:
        self._before.update((name, self._tip.files[name]) for name in names)
        self._tip = super()._edit(self._tip, names)
        return self._tip


@dataclass(frozen=True)
class Topics(Profile):
    """Topic branches by the hundred, each of which waits long for its merge.

    A fourth are merges. Half of the deltas of manifests are against the revision
    before, a tenth against one more than 224 back, a hundredth against one more than
    1,700 back.
    """

    repeats = True

    changesets: int = 100_000
    files: int = 2_000
    topics: int = 256
    straight: int = 0

    def contents(self) -> _Files:
        """The files of this profile."""
        return _Files(plain_names(self.files))

    def build(self, history: History) -> None:
        """Write sessions: a topic is gone on with, or merged and another one begun."""
        writer, lines = self.writer(), _lines(self, history)
        main = lines.start
        topics: list[tuple[_Tip, _Tip] | None] = [None] * self.topics
        while len(history) < self.changesets:
            place = writer.below(self.topics)
            topic = topics[place]
            if topic is not None and writer.chance(64):
                base, tip = topic
                main = lines.merge(main, tip, base)
                topic = None
            base, tip = topic or (main, _Tip(main.changeset))
            left = self.changesets - len(history)
            if left:
                topics[place] = base, lines.edit(tip, left)


@dataclass(frozen=True)
class WideTopics(Topics):
    """Topic branches in few wide directories, the root among them, with long files.

    Of the edits of a file, a third are in the root, which has a fifth of all files, and
    a fourth are in a directory that has twice as many. So the trees of an export, of
    both kinds, have as many bytes as the file revisions.
    """

    changesets: int = 80_000
    files: int = 2_500
    lines: int = 700

    def contents(self) -> _Files:
        """Long files, in directories of uneven width."""
        return _WideFiles(self.files, self.lines)


@dataclass(frozen=True)
class CrissCross(Profile):
    """Pairs of lines that merge each other's past, with both parents far back.

    A fifth are merges. The pairs take turns, and have nothing to do with each other.
    """

    repeats = True

    changesets: int = 100_000
    files: int = 2_000
    pairs: int = 256
    straight: int = 0

    def contents(self) -> _Files:
        """The files of this profile."""
        return _Files(plain_names(self.files))

    def build(self, history: History) -> None:
        """Write sessions: each takes one pair of lines a step further."""
        writer, lines = self.writer(), _lines(self, history)
        pairs = [_Pair(lines) for _ in range(self.pairs)]
        while len(history) < self.changesets:
            writer.pick(pairs).advance(self.changesets - len(history))


class _Pair:
    """Two lines, each of which merges what the other was before it merged this one."""

    def __init__(self, lines: _Lines) -> None:
        self._lines = lines
        self._ours = self._theirs = self._base = self._past = lines.start
        self._step = -2  # before anything can be merged, each has an edit

    def advance(self, most: int) -> None:
        """Make the next one or few changesets, at most ``most``."""
        lines = self._lines
        step = self._step % 4 if self._step >= 0 else -2 * self._step - 1
        self._step += 1
        if step == 0:
            self._past = self._ours
            self._ours = lines.merge(self._ours, self._theirs, self._base)
            most -= 1
        elif step == 2:
            self._theirs = lines.merge(self._theirs, self._past, self._base)
            self._base = self._past
            most -= 1
        if most and step in (0, 3):
            self._ours = lines.edit(self._ours, most)
        elif most:
            self._theirs = lines.edit(self._theirs, most)


def _lines(profile: Topics | CrissCross, history: History) -> _Lines:
    kind = _OneLine if profile.straight else _Lines
    return kind(history, profile.writer(), profile.contents())
