"""Write changesets as they are told: what `hg commit` cannot make, and no command can.

Owns the way from ``Step`` to the revlogs of a new repository, through Mercurial's own
storage classes. Changeset texts and file lists are written byte by byte; file revisions
and manifests are well-formed, so that `hg verify` accepts the result. Draws no random
numbers: ``odd`` does.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mercurial import hg, phases, ui as uimod
from mercurial.revlogutils import constants

NULL = -1
"""The key of no step at all, for a parent that is null."""

_NULL_NODE = b"\0" * 20
_PHASES = (phases.public, phases.draft, phases.secret)


@dataclasses.dataclass(frozen=True)
class Edit:
    """One change of a file. What does not fit the tree it meets changes nothing."""

    kind: str
    """``write``, ``mode`` (flag alone), ``remove``, ``copy``, ``rename``, ``theirs``
    (as the second parent has it) or ``clear`` (remove all)."""
    path: bytes = b""
    content: bytes = b""
    flag: bytes = b""
    """Nothing, ``x`` or ``l``."""
    source: bytes = b""
    """Of a copy or rename."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One changeset, with the bytes of its header.

    A parent names the key of an earlier step. Without that step it is the one before
    it, so any step can be left out of a sequence.
    """

    key: int
    p1: int = NULL
    p2: int = NULL
    user: bytes = b"A <a@b.c>"
    date: bytes = b"100 0"
    """Seconds and offset, as in the changeset's text."""
    extra: bytes | None = None
    """What follows the date: items, escaped, NUL between. ``None``: nothing does."""
    description: bytes = b"change"
    edits: tuple[Edit, ...] = ()
    listing: str = "sorted"
    """How files are listed: ``sorted``, ``reversed``, ``mixed``, ``twice`` or
    ``more`` (with one that did not change)."""
    new_manifest: bool = False
    """Whether a manifest is written even where that of a parent would do."""
    null_manifest: bool = False
    """Whether an empty tree is the null manifest."""
    phase: int = 0
    """0 public, 1 draft, 2 secret; descendants have at least the same."""
    obsolete: bool = False


@dataclasses.dataclass(frozen=True)
class _State:
    """A written changeset: its nodes and its files."""

    node: bytes = _NULL_NODE
    manifest: bytes = _NULL_NODE
    files: dict[bytes, tuple[bytes, bytes]] = dataclasses.field(default_factory=dict)
    """Path to file node and flag."""


def write(
    path: Path, steps: Iterable[Step], bookmarks: Sequence[tuple[bytes, int]] = ()
) -> list[bytes]:
    """Create a repository at ``path`` from ``steps`` and return their nodes.

    Keys ascend. ``bookmarks`` are names and the keys of steps. Steps that say the same
    as one before are one changeset.
    """
    ui = uimod.ui()
    ui.setconfig(b"experimental", b"evolution", b"all")
    ui.setconfig(b"experimental", b"evolution.report-instabilities", b"no")
    repo = hg.repository(ui, os.fsencode(path), create=True).unfiltered()
    # whoever reads it, hg included, hides what is obsolete
    (path / ".hg" / "hgrc").write_text("[experimental]\nevolution = all\n")
    writer = _Writer(repo)
    steps = list(steps)
    with repo.lock(), repo.transaction(b"odd") as transaction:
        for step in steps:
            writer.commit(transaction, step)
        for phase in (1, 2):
            nodes = [
                writer.states[step.key].node for step in steps if step.phase >= phase
            ]
            if nodes:
                phases.retractboundary(repo, transaction, _PHASES[phase], nodes)
        for step in steps:
            if step.obsolete:
                node = writer.states[step.key].node
                repo.obsstore.create(transaction, node, date=(0.0, 0))
    if bookmarks:
        lines = [
            b"%s %s\n" % (writer.resolve(key).node.hex().encode(), name)
            for name, key in bookmarks
        ]
        (path / ".hg" / "bookmarks").write_bytes(b"".join(sorted(lines)))
    return [writer.states[step.key].node for step in steps]


class _Writer:
    """Appends changesets to a repository that is locked."""

    def __init__(self, repo: Any) -> None:
        self._repo = repo
        self.states: dict[int, _State] = {}

    def resolve(self, key: int) -> _State:
        """The state after step ``key``, or after the last one before it."""
        found = [known for known in self.states if known <= key]
        return self.states[max(found)] if found else _State()

    def commit(self, transaction: Any, step: Step) -> None:
        """Write one changeset with its files and manifest."""
        p1, p2 = self.resolve(step.p1), self.resolve(step.p2)
        if p2.node == p1.node:
            p2 = _State()
        base = p2 if p1.node == _NULL_NODE else p1
        tree = _Tree(self._repo, transaction, p1, p2)
        for edit in step.edits:
            tree.apply(edit)
        tree.write_files()
        manifest = self._manifest(transaction, step, base, tree)
        names = tree.listed(step.listing)
        head = [manifest.hex().encode(), step.user, step.date]
        if step.extra is not None:
            head[-1] += b" " + step.extra
        text = b"\n".join([*head, *names]) + b"\n\n" + step.description
        log = self._repo.changelog
        rev = log.addrevision(text, transaction, len(log), p1.node, p2.node)
        self.states[step.key] = _State(log.node(rev), manifest, tree.files)

    def _manifest(
        self, transaction: Any, step: Step, base: _State, tree: _Tree
    ) -> bytes:
        if not tree.files and step.null_manifest:
            return _NULL_NODE
        if tree.files == base.files and not step.new_manifest:
            return base.manifest
        lines = [
            b"%s\0%s%s\n" % (path, node.hex().encode(), flag)
            for path, (node, flag) in sorted(tree.files.items())
        ]
        log = self._repo.manifestlog.getstorage(b"")._revlog
        parents = (tree.p1.manifest, tree.p2.manifest)
        link = len(self._repo.changelog)
        rev = log.addrevision(b"".join(lines), transaction, link, *parents)
        return bytes(log.node(rev))


class _Tree:
    """The files of the changeset that is being written."""

    def __init__(self, repo: Any, transaction: Any, p1: _State, p2: _State) -> None:
        self._repo = repo
        self._transaction = transaction
        self.p1 = p1
        self.p2 = p2
        self._base = (p2 if p1.node == _NULL_NODE else p1).files
        self.files = dict(self._base)
        self._contents: dict[bytes, tuple[bytes, dict[bytes, bytes]]] = {}
        """Content and copy metadata of the files to write."""

    def apply(self, edit: Edit) -> None:
        """Change the files as ``edit`` says; write none yet."""
        if edit.kind == "write":
            self._set(edit.path, edit.flag, edit.content)
        elif edit.kind == "mode" and edit.path in self.files:
            self.files[edit.path] = (self.files[edit.path][0], edit.flag)
        elif edit.kind == "remove" and edit.path in self.files:
            self._remove(edit.path)
        elif edit.kind in ("copy", "rename") and edit.source in self._base:
            self._copy(edit)
        elif edit.kind == "theirs" and edit.path in self.p2.files:
            node, flag = self.p2.files[edit.path]
            self._set(edit.path, flag, node=node)
        elif edit.kind == "clear":
            for path in list(self.files):
                self._remove(path)

    def write_files(self) -> None:
        """Write the file revisions that are new."""
        for path, (content, meta) in sorted(self._contents.items()):
            self.files[path] = (self._add(path, content, meta), self.files[path][1])

    def listed(self, listing: str) -> list[bytes]:
        """The names to list: all that differ from the first parent."""
        before = self.p1.files
        paths = {*before, *self.files}
        names = [path for path in paths if self.files.get(path) != before.get(path)]
        names.sort(reverse=listing == "reversed")
        if listing == "mixed":
            names.sort(key=lambda name: hashlib.sha1(name).digest())
        if listing == "twice":
            return [*names, *names[:1]]
        if listing == "more" and names:
            return sorted({*names, *list(self.files)[:1]})
        return names

    def _copy(self, edit: Edit) -> None:
        node, flag = self._base[edit.source]
        if edit.path == edit.source:
            return
        content = edit.content or self._repo.file(edit.source).read(node)
        meta = {b"copy": edit.source, b"copyrev": node.hex().encode()}
        if edit.kind == "rename" and edit.source in self.files:
            self._remove(edit.source)
        self._set(edit.path, flag, content, meta)

    def _add(self, path: bytes, content: bytes, meta: dict[bytes, bytes]) -> bytes:
        """Write a file revision on what the parents have at ``path``."""
        # hg <= 7.0 opens each filelog for writing
        known = inspect.signature(self._repo.file).parameters
        log = self._repo.file(
            path, **({"writable": True} if "writable" in known else {})
        )
        ours, theirs = (
            parent.files.get(path, (_NULL_NODE, b""))[0]
            for parent in (self.p1, self.p2)
        )
        if ours == theirs or _NULL_NODE in (ours, theirs):
            ours, theirs = max(ours, theirs), _NULL_NODE
        if meta:  # the first parent of a copy is null
            ours, theirs = _NULL_NODE, theirs
            if hasattr(constants, "REVIDX_HASMETA"):
                # hg >= 7.1 puts it second itself; otherwise, 7.2 stores the flag
                ours, theirs = theirs, ours
        elif ours != _NULL_NODE == theirs and log.read(ours) == content:
            return ours
        link = len(self._repo.changelog)
        return bytes(log.add(content, meta, self._transaction, link, ours, theirs))

    def _set(
        self,
        path: bytes,
        flag: bytes,
        content: bytes = b"",
        meta: dict[bytes, bytes] | None = None,
        *,
        node: bytes | None = None,
    ) -> None:
        """Give ``path`` a file, and take away what cannot be beside it.

        Its revision is ``node``, or is written later.
        """
        below = path + b"/"
        for other in list(self.files):
            if other.startswith(below) or path.startswith(other + b"/"):
                self._remove(other)
        self._contents.pop(path, None)
        if node is None:
            self._contents[path] = (content, meta or {})
        self.files[path] = (node or _NULL_NODE, flag)

    def _remove(self, path: bytes) -> None:
        del self.files[path]
        self._contents.pop(path, None)
