"""What one changeset of a program's project changes in its files.

Owns the first tree and the kinds of changes: edits, new files and directories, renames,
copies, removals, modes, links, binaries, the ChangeLog. Knows nothing of branches.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from .histories import Changeset, FileChange, FileRevision

if TYPE_CHECKING:
    from collections.abc import Callable

    from .texts import Writer

Changes = dict[bytes, FileChange | FileRevision | None]

CHANGELOG = b"ChangeLog"
TAGS = b".hgtags"
_LINK = b"tools/current"
_SOURCE_DIRECTORIES = (b"src", b"src/lib", b"tests", b"docs")
_SUFFIXES = {b"src": b".c", b"include": b".h", b"tests": b".py", b"docs": b".rst"}
_PNG = b"\x89PNG\r\n\x1a\n"


class Chores:
    """Thinks up changes to a tree; all of them differ from it."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        # the rarest first: each is done once before chance decides
        self._new: list[Callable[[Changeset], Changes]] = [
            self.move_directory,
            self.relink,
            self.set_mode,
            self.copy,
            self.rename,
            self.remove,
            self.binary,
            self.directory,
        ]
        self._usual = [*self._new, self.rename, self.remove, self.remove, self.copy]
        self._usual += [self.directory, self.directory] + 12 * [self.add]

    def start(self, files: int) -> Changes:
        """The first tree, with so many source files beside the fixed ones."""
        writer = self._writer
        texts = {
            b"README": 4,
            b"COPYING": 30,
            b"Makefile": 6,
            b".hgignore": 1,
            b"configure": 12,
            b"tests/run.sh": 3,
            b"tools/release.sh": 4,
            # names that Mercurial's store has to escape or to hash
            b"docs/Guide/aux.rst": 2,
            b"third_party/" + b"compatibility-layer/" * 6 + b"platform.h": 2,
        }
        changes: Changes = {
            name: FileChange(writer.document(name, sections))
            for name, sections in texts.items()
        }
        for name in (b"configure", b"tests/run.sh", b"tools/release.sh"):
            changes[name] = FileChange(writer.document(name, 4), b"x")
        changes[CHANGELOG] = FileChange(b"")
        changes[b"tests/__init__.py"] = FileChange(b"")
        changes[_LINK] = FileChange(b"release.sh", b"l")
        changes[b"docs/logo.png"] = FileChange(_PNG + writer.noise(6000))
        # begins as hg's own metadata does, so hg has to escape it
        changes[b"data/firmware.bin"] = FileChange(b"\1\n" + writer.noise(900))
        while files > 0:
            directory = writer.pick(_SOURCE_DIRECTORIES)
            name = self._name_in(directory)
            files -= name not in changes
            changes[name] = FileChange(writer.document(name, 2 + writer.below(8)))
        return changes

    def any_change(self, tip: Changeset) -> Changes:
        """Whatever is next to do; four times in five it is an edit."""
        if not self._writer.chance(20):
            return self.edit(tip)
        chore = self._new[0] if self._new else self._writer.pick(self._usual)
        changes = chore(tip)
        if changes and self._new:
            del self._new[0]
        return changes or self.edit(tip)

    def edit(self, tip: Changeset) -> Changes:
        """Edit one to four files."""
        count = 1 if self._writer.chance(60) else 2 + self._writer.below(3)
        changes: Changes = {}
        for _file in range(count):
            name = self._text(tip)
            old = tip.files[name]
            new = self._writer.revised(name, old.content)
            changes[name] = FileChange(new, old.flag)
        return changes

    def log(self, tip: Changeset, header: bytes, changes: Changes) -> FileChange:
        """The ChangeLog with a new first entry about ``changes``."""
        entry = header + b"\n\n"
        for name in changes:
            entry += b"\t* %s: %s\n" % (name, self._writer.sentence())
        return FileChange(entry + b"\n" + tip.files[CHANGELOG].content)

    def add(self, tip: Changeset) -> Changes:
        """Add a file, one time in ten an empty one, beside another."""
        directory = posixpath.dirname(self._text(tip)) or b"src"
        return self._added(tip, [self._name_in(directory)])

    def directory(self, tip: Changeset) -> Changes:
        """Add a directory with some files."""
        parent = self._writer.pick(_SOURCE_DIRECTORIES)
        directory = posixpath.join(parent, self._writer.noun())
        count = 2 + self._writer.below(4)
        return self._added(tip, [self._name_in(directory) for _ in range(count)])

    def rename(self, tip: Changeset) -> Changes:
        """Rename a file, at times into another directory, at times edited as well."""
        changes = self.copy(tip)
        for change in list(changes.values()):
            if isinstance(change, FileChange) and change.copied_from:
                changes[change.copied_from] = None
        return changes

    def copy(self, tip: Changeset) -> Changes:
        """Copy a file; nothing if the new name is taken."""
        source = self._text(tip)
        beside = source if self._writer.chance(70) else self._text(tip)
        stem = self._writer.noun() + b"_" + self._writer.noun()
        name = stem + posixpath.splitext(source)[1]
        name = posixpath.join(posixpath.dirname(beside), name)
        if name in tip.files:
            return {}
        old = tip.files[source]
        content = old.content
        if self._writer.chance(30):
            content = self._writer.revised(name, content)
        return {name: FileChange(content, old.flag, source)}

    def move_directory(self, tip: Changeset) -> Changes:
        """Rename a directory below another; nothing if large, or the name taken."""
        old = posixpath.dirname(self._text(tip))
        new = posixpath.join(posixpath.dirname(old), self._writer.noun())
        names = [name for name in tip.files if name.startswith(old + b"/")]
        is_taken = any(name.startswith(new + b"/") for name in tip.files)
        if b"/" not in old or is_taken or len(names) > 40:
            return {}
        changes: Changes = {}
        for name in names:
            file = tip.files[name]
            changes[new + name[len(old) :]] = FileChange(file.content, file.flag, name)
            changes[name] = None
        return changes

    def remove(self, tip: Changeset) -> Changes:
        """Remove a file that few others depend on; nothing from a small tree."""
        return {} if len(tip.files) < 30 else {self._text(tip): None}

    def set_mode(self, tip: Changeset) -> Changes:
        """Make a file executable, or no longer so; its content stays."""
        name = self._text(tip)
        file = tip.files[name]
        return {name: FileChange(file.content, b"" if file.flag else b"x")}

    def relink(self, tip: Changeset) -> Changes:
        """Point the symbolic link elsewhere, or put a file in its place and back."""
        old = tip.files.get(_LINK)
        if old and old.flag == b"l" and self._writer.chance(30):
            return {_LINK: FileChange(self._writer.document(_LINK, 1), b"x")}
        targets = (b"release.sh", b"../tests/run.sh", b"../configure", b"missing")
        target = self._writer.pick([t for t in targets if not old or t != old.content])
        return {_LINK: FileChange(target, b"l")}

    def binary(self, tip: Changeset) -> Changes:
        """Draw a picture, or another version of one."""
        name = b"docs/images/%s.png" % self._writer.noun()
        picture = _PNG + self._writer.noise(500 + self._writer.below(20_000))
        old = tip.files.get(name)
        return {name: FileChange(old.content[:400] + picture if old else picture)}

    def _added(self, tip: Changeset, names: list[bytes]) -> Changes:
        changes: Changes = {}
        for name in names:
            if name not in tip.files:
                sections = 0 if self._writer.chance(10) else 1 + self._writer.below(6)
                text = self._writer.document(name, sections) if sections else b""
                changes[name] = FileChange(text)
        return changes

    def _name_in(self, directory: bytes) -> bytes:
        top = directory.partition(b"/")[0]
        suffix = _SUFFIXES.get(top, b".txt")
        if suffix == b".c" and self._writer.chance(40):
            suffix = b".h"
        name = self._writer.noun()
        if self._writer.chance(50):
            name += b"_" + self._writer.noun()
        return posixpath.join(directory, name + suffix)

    def _text(self, tip: Changeset) -> bytes:
        """A text of the tree that people edit; the older its line, the more often."""
        names = list(tip.files)
        while True:
            name = names[int(self._writer.random.random() ** 2 * len(names))]
            special = name in (CHANGELOG, TAGS) or tip.files[name].flag == b"l"
            if not special and b"\0" not in tip.files[name].content:
                return name
