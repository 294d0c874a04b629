"""Profiles that differ in the shape of their graph, or are large in one direction.

Each starts from one changeset that adds all files; every later one edits few files, or
is a merge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .histories import NULL, FileChange
from .profile import Profile, add_files, edit_files, plain_header, plain_names

if TYPE_CHECKING:
    from .histories import History
    from .texts import Writer


@dataclass(frozen=True)
class Linear(Profile):
    """One line of development."""

    changesets: int = 500_000
    files: int = 200

    def build(self, history: History) -> None:
        """Write a chain of changesets."""
        writer, names = self.writer(), plain_names(self.files)
        tip = add_files(history, writer, names)
        while len(history) < self.changesets:
            tip = edit_files(history, writer, tip, [writer.pick(names)])


@dataclass(frozen=True)
class Merges(Profile):
    """Several lines of development that merge each other all the time."""

    changesets: int = 20_000
    files: int = 200
    lines: int = 8

    def build(self, history: History) -> None:
        """Write lines around a main one; each merges with it in both directions."""
        writer, names = self.writer(), plain_names(self.files)
        main = add_files(history, writer, names)
        tips = [main] * self.lines
        bases = [main] * self.lines  # nearest common ancestor of main and the line
        while len(history) < self.changesets:
            line, kind = writer.below(self.lines), writer.below(100)
            tip, base = tips[line], bases[line]
            if kind < 35 and base is not tip and base is not main:
                header = plain_header(writer, len(history))
                if kind < 20:
                    bases[line] = tip
                    main = history.merge(main, tip, base, header)
                else:
                    bases[line] = main
                    tips[line] = history.merge(tip, main, base, header)
            elif kind < 45:
                main = edit_files(history, writer, main, [writer.pick(names)])
            else:
                tips[line] = edit_files(history, writer, tip, [writer.pick(names)])


@dataclass(frozen=True)
class ManyHeads(Profile):
    """One line of development, and a crowd of heads on it, each with a bookmark."""

    changesets: int = 110_000
    files: int = 200
    heads: int = 100_000

    def build(self, history: History) -> None:
        """Write a chain, and after each of its changesets some heads on it."""
        length = self.changesets - self.heads
        if length < 1:
            raise ValueError(f"{self.heads} heads do not fit in {self.changesets}")
        writer, names = self.writer(), plain_names(self.files)
        tip = add_files(history, writer, names)
        done = 0
        for position in range(1, length + 1):
            while done < self.heads * position // length:
                head = edit_files(history, writer, tip, [writer.pick(names)])
                history.bookmarks[b"review/%06d-%s" % (done, writer.noun())] = head.rev
                done += 1
            if position < length:
                tip = edit_files(history, writer, tip, [writer.pick(names)])
        history.bookmarks[b"@"] = tip.rev


@dataclass(frozen=True)
class NamesAndHeads(Profile):
    """A line of development, many heads on it, and a bookmark for each of these.

    Dates are drawn, so they have nothing to do with the graph: a queue that is sorted
    by date shows what it costs. ``changesets`` are those of the line.
    """

    changesets: int = 20_000
    files: int = 20
    names: int = 100_000

    def build(self, history: History) -> None:
        """Write the line; between its changesets, heads on those before."""
        self._build(history, heads=self.names, names=self.names)

    def _build(self, history: History, heads: int, names: int) -> None:
        writer, files = self.writer(), plain_names(self.files)
        minutes = 10 * (self.changesets + heads)
        tip = add_files(history, writer, files)
        line, named = [tip], [tip.rev]
        for position in range(1, self.changesets + 1):
            while len(named) <= heads * position // self.changesets:
                file, minute = writer.pick(files), writer.below(minutes)
                head = edit_files(history, writer, writer.pick(line), [file], minute)
                named.append(head.rev)
            if position < self.changesets:
                file, minute = writer.pick(files), writer.below(minutes)
                tip = edit_files(history, writer, tip, [file], minute)
                # few are kept: each has the state of all files
                line = [*line[-99:], tip]
        for number in range(names):
            rev = named[1 + number] if heads else writer.below(len(history))
            history.bookmarks[b"rel/%03d/v%06d" % (number // 1000, number)] = rev


@dataclass(frozen=True)
class Heads(NamesAndHeads):
    """A line of development, many heads on it, and twenty bookmarks."""

    names: int = 20
    heads: int = 100_000

    def build(self, history: History) -> None:
        """Write them."""
        self._build(history, self.heads, min(self.names, self.heads))


@dataclass(frozen=True)
class Names(NamesAndHeads):
    """A line of development, and many bookmarks on it."""

    def build(self, history: History) -> None:
        """Write them; the line is longer by as many changesets as there are names."""
        replace(self, changesets=self.changesets + self.names)._build(
            history, heads=0, names=self.names
        )


@dataclass(frozen=True)
class ManyFiles(Profile):
    """A wide tree, of which each changeset edits one to five files."""

    changesets: int = 500
    files: int = 100_000

    def build(self, history: History) -> None:
        """Write the tree, 50 files to a directory, then the edits."""
        writer = self.writer()
        names = plain_names(self.files, directories=self.files // 50 + 1)
        tip = add_files(history, writer, names, lines=3)
        while len(history) < self.changesets:
            few = dict.fromkeys(writer.pick(names) for _ in range(1 + writer.below(5)))
            tip = edit_files(history, writer, tip, few)


@dataclass(frozen=True)
class DeepDirectories(Profile):
    """Files at the bottom of long chains of directories.

    Many names are longer than the 120 bytes from which Mercurial's store hashes them.
    """

    changesets: int = 5_000
    files: int = 500
    depth: int = 50

    def build(self, history: History) -> None:
        """Write the chains, then edits of one file each."""
        writer = self.writer()
        names = self._names(writer)
        tip = add_files(history, writer, names)
        while len(history) < self.changesets:
            tip = edit_files(history, writer, tip, [writer.pick(names)])

    def _names(self, writer: Writer) -> list[bytes]:
        names: list[bytes] = []
        chain: list[bytes] = []
        for number in range(self.files):
            del chain[writer.below(len(chain) + 1) :]
            chain += [writer.noun() for _ in range(writer.below(self.depth))]
            del chain[self.depth :]
            names.append(b"/".join([*chain, b"file%05d.txt" % number]))
        return names


@dataclass(frozen=True)
class LargeFiles(Profile):
    """A few large files, texts and binaries, each changed in small places."""

    changesets: int = 25
    files: int = 4
    megabytes: int = 16

    def build(self, history: History) -> None:
        """Write the files, every other one binary, then edits of one file each."""
        writer = self.writer()
        names = [
            b"data/large%02d.%s" % (i, b"bin" if i % 2 else b"txt")
            for i in range(self.files)
        ]
        changes = {name: FileChange(self._content(writer, name)) for name in names}
        tip = history.commit(NULL, changes, plain_header(writer, 0))
        while len(history) < self.changesets:
            name = writer.pick(names)
            content = _edited(writer, tip.files[name].content)
            header = plain_header(writer, len(history))
            tip = history.commit(tip, {name: FileChange(content)}, header)

    def _content(self, writer: Writer, name: bytes) -> bytes:
        size = self.megabytes << 20
        if name.endswith(b".bin"):
            return writer.noise(size)
        lines: list[bytes] = []
        length = 0
        while length < size:
            lines.append(b"%08d %s\n" % (len(lines), writer.sentence()))
            length += len(lines[-1])
        return b"".join(lines)


def _edited(writer: Writer, content: bytes) -> bytes:
    """``content`` with one to ten short pieces replaced, most by a longer one."""
    for _piece in range(1 + writer.below(10)):
        place = writer.below(len(content))
        piece = writer.paragraph()
        content = content[:place] + piece + content[place + 100 :]
    return content
