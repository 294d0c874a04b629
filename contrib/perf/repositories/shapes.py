"""Profiles that differ in the shape of their graph: linear, merges, many heads.

Each starts from one changeset that adds all files; every later one edits one file, or
is a merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .profile import Profile, add_files, edit_files, plain_header, plain_names

if TYPE_CHECKING:
    from .histories import History


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
