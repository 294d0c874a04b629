"""The names of the last export, and their changes since.

Names are computed once. After that, an export compares Mercurial's file of bookmarks
with the one that it was made from, line by line, and tips of branches and tags with the
last ones. Only names that have changed get a git ref, and only their changesets are
looked for. Where that cannot be proved to be what a computation of all names gives,
``LastNames.changed`` returns nothing, and all names are computed.

Owns ``<dialect>.names`` and ``<dialect>.bookmarks-*``, described in
``docs/formats/map.rst``. They are a cache: they count only as long as refs are as the
export has left them, and the changesets of its checkpoint are selected as they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from binascii import hexlify, unhexlify
from typing import TYPE_CHECKING

from mercurial import bookmarks, encoding
from mercurial.node import nullid

from ... import docketfile
from ...docketfile import Field
from ...files import Unusable
from ...records import Record
from .. import checkpoint
from . import otherheads, refs as refsmod
from .branchtips import BranchTips
from .namelines import NameLines, NotInOrderError, changes, names_in
from .otherheads import HeadRefs, TooFarError
from .reffiles import PackedStamp
from .refs import HEADS, MAIN_LINES, TAGS, RefNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mercurial.interfaces.types import RepoT

    from ...files import Directory, Placement
    from ..checkpoint import Checkpoint
    from ..selection import Selection
    from .reffiles import RefFiles
    from .refs import NamedNodes

# More are computed as a whole, which takes less time for each.
_MOST_CHANGES = 5000
# of lines in the record, which each export with a change writes
_MOST_KEPT = 5000
_LONGEST_BYTES = 16 << 20
# A second name of a file changes its times, so that other processes read it again.
_COPIED_BYTES = 1 << 15
_SEPARATOR = b"\0"
_BOOKMARK, _TIP = b"bookmark", b"tip"
_DIGEST = re.compile(r"[0-9a-f]{40}")
_OPTIONAL_DIGEST = re.compile(r"[0-9a-f]{40}|")


class Odd(Record):
    """A bookmark or branch whose ref has another name, or none."""

    kind: bytes
    name: bytes
    """In UTF-8."""
    ref: bytes
    """Its name in git, without prefix; it has a ref unless that is too long."""


class FileStamp(Record):
    """Whether a file of bookmarks is kept; its size, time and inode."""

    exists: int
    size_bytes: int
    mtime_ns: int
    inode: int


class Changed(Record):
    """The difference between two states of the names of a repository."""

    refs: Mapping[bytes, bytes | None]
    """Ref to node; ``None`` for a ref that goes."""
    head: bytes
    """The ref that HEAD leads to."""
    too_long: tuple[bytes, ...]
    """Names without a ref, in UTF-8, ascending."""
    tips: Mapping[bytes, bytes]
    """Of all open branches, as ``NamedNodes`` has them."""
    unshown: tuple[bytes, ...]
    tags: tuple[tuple[bytes, bytes], ...]


class LastNames(Record):
    """Record of the names of an export; names are in UTF-8."""

    settings: str
    """Digest of the configuration."""
    seen: Checkpoint
    """The selection."""
    named: str
    """``names_digest`` of the refs, as in the docket."""
    packed: PackedStamp
    packed_digest: str
    bookmarks: FileStamp
    """Of the file that was read."""
    metadata: str
    """The metadata commit that has a ref, in hex, or nothing."""
    unshown: tuple[bytes, ...]
    """Bookmarks in the file that have no ref, since their changesets do not leave."""
    tags: tuple[tuple[bytes, bytes], ...]
    """Name and node."""
    remote_tags: str
    """Digest of the tags of remotes; empty without any."""
    awaited: tuple[bytes, ...]
    """Changesets that did not leave, and that have a tag of a remote."""
    odd: tuple[Odd, ...]

    @classmethod
    def read(cls, directory: Directory, dialect: bytes) -> LastNames | None:
        """Return the record of the last export; ``None`` if lost."""
        try:
            content = directory.tryread(_name(dialect), _LONGEST_BYTES)
            return cls(**_FORM.values_in(content)) if content else None
        except (Unusable, ValueError):
            return None

    def write(self, directory: Directory, dialect: bytes, placement: Placement) -> None:
        """Replace the file, unless it is the same. A torn one will be refused."""
        content = _FORM.content_of(self)
        if directory.tryread(_name(dialect), _LONGEST_BYTES) != content:
            directory.replace(_name(dialect), content, placement, durable=False)
        kept = _kept_name(dialect, self.bookmarks)
        for name in directory.names():
            if name.startswith(_kept_prefix(dialect)) and name != kept:
                directory.remove(name)

    def with_refs_of(self, repository: RefFiles) -> LastNames:
        """Return the record of the same names for refs as they are now."""
        packed, digest = repository.known_digest()
        return self._replace(
            named=repository.names_digest(), packed=packed, packed_digest=digest
        )

    @property
    def too_long(self) -> tuple[bytes, ...]:
        """Names without a ref, ascending."""
        lost = {it.name for it in self.odd if not it.ref or refsmod.is_too_long(it.ref)}
        tags = {tag for tag, _node in self.tags}
        return tuple(sorted((lost | (tags - refsmod.tag_names(tags).keys())) - {b""}))

    def changed(
        self,
        source: NamesSource,
        tips: Mapping[bytes, bytes],
        repository: RefFiles,
    ) -> Changed | None:
        """Return the changes; ``None`` if all names have to be computed.

        ``tips``: those of open branches now, branch to node. ``repository``: has the
        refs of this record.
        """
        known = BranchTips.read(source.directory, source.dialect)
        if source.settings != self.settings or not source.holds(self.seen):
            return None
        if source.remote_tags != self.remote_tags:
            return None
        if any(map(source.is_served, self.awaited)):
            return None
        if source.follows and (known is None or known.seen != self.seen):
            return None
        tips_before = dict(known.tips) if known and source.follows else {}
        try:
            with (
                source.kept(self.bookmarks) as old,
                source.bookmarks() as new,
                repository.open_packed() as packed,
            ):
                is_same = os.path.samestat(old.stat, new.stat)
                lines = {} if is_same else changes(old, new)
                search = _Search(self, source, lines, new, packed)
                return search.changed(repository, tips_before, tips)
        except (NotInOrderError, TooFarError, FileNotFoundError, Unusable):
            return None


class _TooMuchError(NotInOrderError):
    """A change that may change the refs of other names."""


class _Search:
    """A search for the refs that differ."""

    def __init__(
        self,
        last: LastNames,
        source: NamesSource,
        lines: Mapping[bytes, tuple[bytes | None, bytes | None]],
        new: NameLines,
        packed: NameLines,
    ) -> None:
        if len(lines) > _MOST_CHANGES:
            raise _TooMuchError
        self._last, self._source, self._new, self._packed = last, source, new, packed
        self._odd = {(it.kind, it.name): it.ref for it in last.odd}
        self._unshown: set[bytes] = set()
        self._lines = lines
        self._marks = self._bookmarks({*last.unshown})

    def _bookmarks(
        self, unshown: set[bytes]
    ) -> dict[bytes, tuple[bytes | None, bytes | None]]:
        """Return bookmarks whose node or visibility changed: before, and after."""
        found = {}
        for name in self._lines.keys() | unshown:
            if name in self._lines:
                before, after = self._lines[name]
            else:
                before = after = self._new.get(name)
            shown_before = None if name in unshown or not before else unhexlify(before)
            shown_after = unhexlify(after) if after else None
            if shown_after is not None and not self._source.is_served(shown_after):
                self._unshown.add(name)
                shown_after = None
            if shown_before != shown_after:
                found[name] = shown_before, shown_after
        return found

    def changed(
        self,
        repository: RefFiles,
        tips_before: Mapping[bytes, bytes],
        tips: Mapping[bytes, bytes],
    ) -> Changed:
        """Return the refs that differ."""
        last, source = self._last, self._source
        tips_now = {encoding.fromlocal(name): node for name, node in tips.items()}
        moved = {(_BOOKMARK, name): pair for name, pair in self._marks.items()}
        for name in tips_before.keys() | tips_now.keys():
            pair = tips_before.get(name), tips_now.get(name)
            if pair[0] != pair[1]:
                moved[_TIP, name] = pair
        loose = repository.loose_refs()
        self._check(moved, loose, tips_before.keys() | tips_now.keys())
        refs: dict[bytes, bytes | None] = {}
        for key, (_before, after) in moved.items():
            name = self._odd.get(key, key[1])
            if name and not refsmod.is_too_long(name):
                refs[HEADS + name] = after
        if source.shows_heads:
            there = HeadRefs(self._packed, loose)
            refs |= source.other_heads(last.seen.len, tips_before, tips_now, there)
        tags_before = dict(last.tags)
        tags = source.tags() if source.has_tags else {}
        if tags != tags_before and last.remote_tags:
            raise _TooMuchError
        if tags != tags_before:
            before, now = map(_refs_of_tags, (tags_before, tags))
            for ref in before.keys() | now.keys():
                if before.get(ref) != now.get(ref):
                    refs[ref] = now.get(ref)
        after_all = last._replace(tags=tuple(sorted(tags.items())))
        return Changed(
            refs=refs,
            head=self._head(tips_now),
            too_long=after_all.too_long,
            tips=tips,
            unshown=tuple(sorted(self._unshown)),
            tags=after_all.tags,
        )

    def _check(
        self,
        moved: Mapping[tuple[bytes, bytes], tuple[bytes | None, bytes | None]],
        loose: Mapping[bytes, bytes],
        tips: Iterable[bytes],
    ) -> None:
        """Raise unless all other names have the refs that they had.

        A new or lost name changes no other one if it is none that git refuses, if no
        ref is its directory or below it, and if it is not so to any name that was tried
        for a ref that had to change. ``distinct`` shows why: it goes through names in
        their order, and asks for each whether these are taken.
        """
        tips = frozenset(tips)
        tried = RefNames()
        for odd in self._last.odd:
            for name in refsmod.tried_names(odd.name, odd.ref):
                tried.add(name)
        added, removed = [], set()
        for (kind, name), (before, after) in moved.items():
            if before is not None and after is not None:
                continue
            is_with_tip = name in tips if kind == _BOOKMARK else self._is_there(name)
            if is_with_tip or (kind, name) in self._odd:
                raise _TooMuchError
            if tried.has(name) or tried.has_above(name):
                raise _TooMuchError
            if after is None:
                removed.add(HEADS + name)
            else:
                added.append(name)
        together = RefNames()
        for name in added:
            if refsmod.is_too_long(name) or not together.may_have(name):
                raise _TooMuchError
            together.add(name)
            above = (HEADS + it for it in refsmod.parents_of(name))
            for ref in (HEADS + name, *above):
                if ref not in removed and (
                    ref in loose or self._packed.get(ref) is not None
                ):
                    raise _TooMuchError
            below = HEADS + name + b"/"
            inside = (ref for ref in loose if ref.startswith(below))
            for names in (inside, self._packed.below(HEADS + name)):
                if any(ref not in removed for ref in names):
                    raise _TooMuchError

    def _is_there(self, name: bytes) -> bool:
        """Return whether a bookmark is in the file, or was."""
        return name in self._lines or self._new.get(name) is not None

    def _head(self, tips: Mapping[bytes, bytes]) -> bytes:
        """Return the ref for HEAD, as ``NamedNodes.refs`` does."""
        has_at = self._is_shown(MAIN_LINES[0])
        tip_branch = b""
        if tips and not has_at and b"default" not in tips:
            tip_branch = encoding.fromlocal(self._source.tip_branch())

        def ref(kind: str, name: bytes) -> bytes:
            is_there = name in tips if kind == "tip" else self._is_shown(name)
            shown = self._odd.get((kind.encode(), name), name)
            return shown if is_there and not refsmod.is_too_long(shown) else b""

        return refsmod.head_of(
            *(ref, tip_branch, self._source.main_line),
            shows_tips=self._source.shows_tips,
        )

    def _is_shown(self, name: bytes) -> bool:
        if name in self._marks:
            return self._marks[name][1] is not None
        return name not in self._unshown and self._new.get(name) is not None


class NamesSource:
    """Where the names of a repository come from, at one moment."""

    def __init__(
        self,
        repo: RepoT,
        view: RepoT,
        kinds: Iterable[bytes],
        selected: Selection,
        directory: Directory,
        dialect: bytes,
        remote_tags: str,
        main_line: bytes,
    ) -> None:
        """``view``: as git users see ``repo``; ``kinds``: of ``amalgam.git.refs``.

        ``selected``: the changesets of ``view``. ``directory`` has the record.
        ``remote_tags``: digest of the tags of remotes. ``main_line``: as in
        ``NamedNodes``, in UTF-8.
        """
        self.directory, self.dialect = directory, dialect
        self.remote_tags, self.main_line = remote_tags, main_line
        self._repo, self._view, self._selected = repo, view, selected
        self._kinds = frozenset(kinds)
        self.follows = refsmod.can_follow(self._kinds)
        self.shows_tips = b"tips" in self._kinds
        self.shows_heads = b"heads" in self._kinds
        self.has_tags = b"tags" in self._kinds and refsmod.has_tags(view)
        settings = repr((sorted(self._kinds), view.filtername, _path(repo)))
        self.settings = hashlib.sha1(settings.encode()).hexdigest()

    def holds(self, seen: Checkpoint) -> bool:
        """Return whether the same changesets are selected, below a checkpoint."""
        return self.holds_in(self._selected, seen)

    def holds_in(self, selected: Selection, seen: Checkpoint) -> bool:
        """Return the same for another selection."""
        return selected.known_below(self._repo, [seen]) == seen.len

    def is_served(self, node: bytes) -> bool:
        """Return whether a changeset may have a ref."""
        return node != nullid and self._selected.has(self._repo, node)

    def tags(self) -> dict[bytes, bytes]:
        """Return all tags that may have a ref, in UTF-8."""
        found = refsmod.global_tags(self._view)
        return {encoding.fromlocal(tag): node for tag, node in found.items()}

    def other_heads(
        self,
        start: int,
        tips_before: Mapping[bytes, bytes],
        tips: Mapping[bytes, bytes],
        refs: HeadRefs,
    ) -> dict[bytes, bytes | None]:
        """Return the refs of other heads that differ, as ``otherheads.changes``."""
        return otherheads.changes(
            self._view, self._selected, start, tips_before, tips, refs
        )

    def tip_branch(self) -> bytes:
        """Return the branch of the last changeset."""
        branch: bytes = self._view[b"tip"].branch()
        return branch

    def bookmarks(self) -> NameLines:
        """Open the file of bookmarks; it is empty if they have no refs."""
        path = _path(self._repo) if b"bookmarks" in self._kinds else b""
        try:
            return NameLines(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            return NameLines(os.open(os.devnull, os.O_RDONLY))

    def kept(self, stamp: FileStamp) -> NameLines:
        """Open the file that was read; ``FileNotFoundError`` if it is another."""
        if not stamp.exists:
            return NameLines(os.open(os.devnull, os.O_RDONLY))
        lines = NameLines(self.directory.open(_kept_name(self.dialect, stamp)))
        found = lines.stat
        if (found.st_size, found.st_mtime_ns) != (stamp.size_bytes, stamp.mtime_ns):
            lines.close()
            raise FileNotFoundError
        return lines

    def record(
        self,
        repository: RefFiles,
        names: NamedNodes | Changed,
        branches: Mapping[tuple[str, bytes], bytes],
        last: LastNames | None,
        metadata: str,
        awaited: Iterable[bytes],
    ) -> LastNames | None:
        """Return the record for the next export; ``None`` if it cannot follow.

        ``branches``: ``distinct_branches`` of all names. ``last``: the record that
        ``Changed`` is a change of. ``awaited``: as in a record.
        """
        seen = self._selected.seen(self._repo)
        with self.bookmarks() as lines:
            stamp = _stamp_of(lines)
        if seen is None or not (self.follows or self._is_without_branches()):
            return None
        if stamp.exists:
            try:
                self.kept(stamp).close()
            except (OSError, Unusable):
                return None
        if isinstance(names, Changed):
            assert last is not None
            odd, unshown, tags = last.odd, names.unshown, names.tags
            awaited = last.awaited
        else:
            found = self._found(names, branches)
            if found is None:
                return None
            odd, unshown, tags = found
        awaited = tuple(sorted(awaited))
        if sum(map(len, (odd, unshown, tags, awaited))) > _MOST_KEPT:
            return None
        record = LastNames(
            settings=self.settings,
            seen=seen,
            named="",
            packed=PackedStamp(0, 0, 0, 0),
            packed_digest="",
            bookmarks=stamp,
            metadata=metadata,
            unshown=unshown,
            tags=tags,
            remote_tags=self.remote_tags,
            awaited=awaited,
            odd=odd,
        )
        return record.with_refs_of(repository)

    def _is_without_branches(self) -> bool:
        return self._kinds.isdisjoint((b"tips", b"heads"))

    def _found(
        self, names: NamedNodes, branches: Mapping[tuple[str, bytes], bytes]
    ) -> (
        tuple[tuple[Odd, ...], tuple[bytes, ...], tuple[tuple[bytes, bytes], ...]]
        | None
    ):
        """Return odd names, bookmarks without a ref, and tags, of all names."""
        with self.bookmarks() as lines:
            try:
                there = names_in(lines.read(0, lines.end))
            except NotInOrderError:
                return None
        shown = {encoding.fromlocal(name) for name in names.bookmarks}
        tags = {encoding.fromlocal(tag): node for tag, node in names.tags.items()}
        if len(tags) < len(names.tags) or not there.keys() >= shown:
            return None
        if not refsmod.are_escaped(names.others):
            return None
        odd = [
            Odd(kind.encode(), encoding.fromlocal(name), ref)
            for (kind, name), ref in branches.items()
            if ref != encoding.fromlocal(name) or not ref or refsmod.is_too_long(ref)
        ]
        return (
            tuple(sorted(odd)),
            tuple(sorted(there.keys() - shown)),
            tuple(sorted(tags.items())),
        )


def keep_bookmarks(
    repo: RepoT, directory: Directory, dialect: bytes, placement: Placement
) -> None:
    """Keep the present file of bookmarks, to compare a later one with it.

    A file of some size gets another name: Mercurial replaces it, and never writes it in
    place. To be done before its state is taken, since that changes its times.
    """
    try:
        with NameLines(os.open(_path(repo), os.O_RDONLY | os.O_CLOEXEC)) as lines:
            stamp = _stamp_of(lines)
            if not stamp.exists:
                return
            name = _kept_name(dialect, stamp)
            if directory.exists(name):
                return
            if stamp.size_bytes > _COPIED_BYTES:
                with contextlib.suppress(OSError):
                    directory.take_link(_path(repo), name)
                    if directory.stat(name).st_ino == stamp.inode:
                        return
                    directory.remove(name)
            content = lines.read(0, lines.end)
            directory.replace(name, content, placement, durable=False)
            directory.set_time(name, stamp.mtime_ns)
    except FileNotFoundError:
        return


def _refs_of_tags(tags: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    names = refsmod.tag_names(tags)
    return {TAGS + ref: tags[tag] for tag, ref in names.items()}


def forget(directory: Directory, dialect: bytes) -> None:
    """Let the next export compute all names."""
    directory.remove(_name(dialect))


def _stamp_of(lines: NameLines) -> FileStamp:
    found = lines.stat
    if not stat.S_ISREG(found.st_mode):
        return FileStamp(0, 0, 0, 0)
    return FileStamp(1, found.st_size, found.st_mtime_ns, found.st_ino)


def _path(repo: RepoT) -> bytes:
    path: bytes = bookmarks.bookmarksvfs(repo).join(b"bookmarks")
    return path


def _name(dialect: bytes) -> bytes:
    return dialect + b".names"


def _kept_prefix(dialect: bytes) -> bytes:
    return dialect + b".bookmarks-"


def _kept_name(dialect: bytes, stamp: FileStamp) -> bytes:
    return b"%s%x-%x" % (_kept_prefix(dialect), stamp.inode, stamp.mtime_ns)


def _odd(value: bytes) -> Odd:
    kind, name, ref = value.split(_SEPARATOR)
    return Odd(kind, name, ref)


def _node(value: bytes) -> bytes:
    return unhexlify(docketfile.matching(_DIGEST)(value))


def _tag(value: bytes) -> tuple[bytes, bytes]:
    node, name = value[:40], value[41:]
    return name, unhexlify(node)


def _tag_text(tag: tuple[bytes, bytes]) -> bytes:
    return b"%s %s" % (hexlify(tag[1]), tag[0])


_FORM = docketfile.Form(
    b"amalgam names 1",
    {
        "settings": docketfile.texts(b"settings", _DIGEST),
        "seen": checkpoint.field(many=False),
        "named": docketfile.texts(b"named", _DIGEST),
        "packed": docketfile.rows(b"packed", PackedStamp),
        "packed_digest": docketfile.texts(b"packed-digest", _DIGEST),
        "bookmarks": docketfile.rows(b"bookmarks", FileStamp),
        "metadata": docketfile.texts(b"metadata", _OPTIONAL_DIGEST, ""),
        "unshown": Field(b"unshown", bytes, bytes, many=True),
        "tags": Field(b"tag", _tag, _tag_text, many=True),
        "remote_tags": docketfile.texts(b"remote-tags", _OPTIONAL_DIGEST, ""),
        "awaited": Field(b"awaited", _node, hexlify, many=True),
        "odd": Field(b"odd", _odd, _SEPARATOR.join, many=True),
    },
)
