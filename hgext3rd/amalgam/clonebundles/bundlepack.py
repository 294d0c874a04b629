"""The content of a git bundle: its header, and its pack.

git makes the pack, or whole packs of the store are concatenated. git looks at each
object before it copies it. Complete packs without common objects need no look: offsets
in their entries are relative, so one pack can follow another, gitformat-pack(5).

The pack of a first export has all objects that git clients need, and no more. If a
bundle needs nearly all of them, copying the pack takes a tenth of git's time.

Reads the git store, and exports nothing. ``cinnabarbundle`` has the bundles for
git-cinnabar.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import struct
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.node import hex as hex_id

from ..gitstore import selection
from ..gitstore.git import packfiles
from ..gitstore.oidmap import ID_LEN, Table
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import (
        Iterable,
        Iterator,
        Mapping,
        Sequence,
        Set as AbstractSet,
    )

    from ..files import Directory
    from ..gitstore.docket import Docket
    from ..gitstore.git.process import Git
    from ..gitstore.oidmap import OidMap
    from ..gitstore.selection import Selection
    from ..gitstore.store import GitStore
    from .bundlescope import Part


PACK_HEADER = struct.Struct(">4sII")
_MAGIC, _VERSION = b"PACK", 2
_SUM_BYTES = 20
_CHUNK_BYTES = 1 << 20
# More threads make different packs each time. Only objects without a delta in the store
# are searched for one, so threads gain little.
_CONFIG = {"pack.threads": "1", "pack.windowMemory": "64m"}


class PackRequest(Record):
    """Objects for git to pack. Oids have 20 bytes."""

    tips: tuple[bytes, ...]
    """Commits: with all that they lead to."""
    known: tuple[bytes, ...] = ()
    """Commits, without the objects that they lead to."""
    filter: bytes = b""
    """Commits to leave out, with their ancestors, as in git-rev-list(1)."""
    kept_packs: tuple[bytes, ...] = ()
    """Packs (file names) whose objects are left out, too, wherever they are."""


def packed_by_git(
    git: Git, wanted: PackRequest
) -> contextlib.AbstractContextManager[Iterator[bytes]]:
    """Have git make a pack; the context yields its pieces, the header in the first.

    ``Abort`` after the last piece if git fails. git ends with the context.
    """
    args = ["pack-objects", "--revs", "--stdout", "--delta-base-offset", "--quiet"]
    if wanted.known:
        args.append("--thin")
    if wanted.filter:
        args.append("--filter=" + wanted.filter.decode("ascii"))
    args += ["--keep-pack=" + os.fsdecode(name) for name in wanted.kept_packs]
    revs = [b"%s\n" % hex_id(oid) for oid in wanted.tips]
    revs += [b"^%s\n" % hex_id(oid) for oid in wanted.known]
    return git.pieces(*args, input=revs, config=_CONFIG)


@contextlib.contextmanager
def copied_pack(packs: Directory, pack: str) -> Iterator[Iterator[bytes]]:
    """Yield the pieces of a pack, which may be removed once the context has begun.

    ``pack`` is its name in the directory ``packs``, without suffix.
    """
    with os.fdopen(packs.open(os.fsencode(pack) + b".pack"), "rb") as file:
        yield iter(lambda: file.read(_CHUNK_BYTES), b"")


def joined_packs(sources: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the pieces of one pack that has all entries of others.

    No two of ``sources`` may have an object in common. ``StorageError`` after the
    entries of one that is not as its checksum says.
    """
    begun = []
    count = 0
    for source in sources:
        first = next(source, b"")
        if len(first) < PACK_HEADER.size:
            raise _damaged()
        magic, version, objects = PACK_HEADER.unpack_from(first)
        if (magic, version) != (_MAGIC, _VERSION):
            raise _damaged()
        count += objects
        begun.append(itertools.chain([first], source))
    header = PACK_HEADER.pack(_MAGIC, _VERSION, count)
    digest = hashlib.sha1(header, usedforsecurity=False)
    yield header
    for source in begun:
        for piece in _entries(source):
            digest.update(piece)
            yield piece
    yield digest.digest()


def _entries(source: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a pack without its header and its checksum, which is compared."""
    digest = hashlib.sha1(usedforsecurity=False)
    kept = b""
    skipped = PACK_HEADER.size
    for piece in source:
        data = kept + piece
        kept = data[-_SUM_BYTES:]
        data = data[:-_SUM_BYTES]
        digest.update(data)
        if skipped:
            data, skipped = data[skipped:], max(0, skipped - len(data))
        if data:
            yield data
    if kept != digest.digest():
        raise _damaged()


def _damaged() -> error.StorageError:
    return error.StorageError(
        _(b"a pack of the git store is damaged"),
        hint=_(b"run 'hg admin::amalgam --repair'"),
    )


# Most changesets of a bundle that may be added without a name: heads of
# branches that are not their tips. They are shown to all that may have the bundle.
_UNNAMED_SHARE = 0.04
# Least share of them in the pack; with fewer, git packs everything
_LEAST_SHARE = 0.5
_PAIR_LEN = 2 * ID_LEN


class Copy(Record):
    """A pack that is to be copied. It has all that its commits lead to."""

    packs: Directory
    """Where it is."""
    pack: str
    """Its name, without suffix."""
    heads: tuple[bytes, ...]
    """Those of its commits that are nobody's parents. Objects reachable from them are
    not packed again."""
    is_all: bool
    """Whether it has all commits that are wanted."""

    def rest(self, wanted: PackRequest) -> PackRequest:
        """Return the objects of ``wanted`` that are not in the copied pack."""
        name = os.fsencode(self.pack) + b".pack"
        return wanted._replace(known=self.heads, kept_packs=(name,))

    def followed_by(self, rest: Iterator[bytes]) -> Iterator[bytes]:
        """Return the pieces of the pack of ``rest``, after git has listed its objects.

        ``FileNotFoundError`` if a roll-up removed the copied pack meanwhile: git may
        then have packed its objects again.
        """
        first = next(rest, b"")
        self.packs.stat(os.fsencode(self.pack) + b".idx")
        return itertools.chain([first], rest)


def find_copyable(
    store: GitStore, docket: Docket, revs: AbstractSet[int], may_add: Selection | None
) -> Copy | None:
    """Return the pack to copy for a bundle of ``revs``, or None.

    A few changesets of ``may_add`` may be in the pack without being in ``revs``.
    """
    repository = store.repository
    complete = docket.base.complete or docket.drafts.complete
    if not complete:
        return None
    packs = repository.packs_directory
    changelog = store.repo.unfiltered().changelog
    rev_of = changelog.index.get_rev
    with contextlib.closing(store.open_map(docket)) as oidmap:
        with packfiles.open_idx(packs, complete) as index:
            there = {rev_of(node) for node, oid in _commits(oidmap) if index.has(oid)}
        parents = {
            parent
            for rev in there
            if rev is not None
            for parent in changelog.parentrevs(rev)
        }
        heads = [rev for rev in there - parents if rev is not None]
        oids = oidmap.oids([changelog.node(rev) for rev in heads])
    unnamed = there - revs
    if len(there) - len(unnamed) < _LEAST_SHARE * len(revs):
        return None
    if len(unnamed) > _UNNAMED_SHARE * len(revs):
        return None
    for rev in unnamed:
        # one that is gone has no revision
        if rev is None or may_add is None or rev in may_add.excluded:
            return None
    repository.git.check()
    found = tuple(sorted(filter(None, oids)))
    return Copy(packs, complete, found, is_all=there >= revs)


def _commits(oidmap: OidMap) -> Iterator[tuple[bytes, bytes]]:
    """Yield the node of each changeset, and the oid of its commit."""
    for pairs, _count in oidmap.pairs(Table.CHANGESETS):
        for at in range(0, len(pairs), _PAIR_LEN):
            yield pairs[at : at + ID_LEN], pairs[at + ID_LEN : at + _PAIR_LEN]


class BehindError(Exception):
    """The changesets of the bundle are not exported yet."""


class Content(Record):
    """All that is to be written."""

    changesets: int
    heads: tuple[bytes, ...]
    """As in ``Part``."""
    refs: Mapping[bytes, bytes]
    """Names and their oids."""
    prerequisites: tuple[bytes, ...]
    """Oids of commits that are not in the pack."""
    pack: Iterator[bytes]
    copied_bytes: int = 0
    """Size of the pack that most of it is copied from; 0 if git makes one."""

    def header(self, filter: bytes) -> bytes:
        """Return the lines before the pack, as in gitformat-bundle(5)."""
        lines = [b"# v2 git bundle"]
        if filter:
            lines = [b"# v3 git bundle", b"@object-format=sha1", b"@filter=" + filter]
        lines += [b"-%s " % hex_id(oid) for oid in self.prerequisites]
        lines += [b"%s %s" % (hex_id(oid), name) for name, oid in self.refs.items()]
        return b"\n".join((*lines, b"", b""))


@contextlib.contextmanager
def of_history(
    store: GitStore, export: bytes, part: Part, filter: bytes
) -> Iterator[Content]:
    """Return a bundle of ``part`` for git; ``export`` is the selection.

    ``BehindError`` unless it is exported.
    """
    docket = store.docket()
    names = [*part.refs]
    with contextlib.closing(store.open_map(docket)) as oidmap:
        oids = _oids(oidmap, [*part.refs.values(), *part.boundary])
    refs = dict(zip(names, oids, strict=False))
    known = tuple(sorted(oids[len(names) :]))
    wanted = PackRequest(tuple(sorted({*refs.values()})), known, filter)
    copy = None
    if not known and not filter:
        may_add = selection.select(store.repo, export) if part.is_all else None
        copy = find_copyable(store, docket, part.revs, may_add)
    git = store.repository.git
    copied_bytes = 0
    with contextlib.ExitStack() as stack:
        if copy is None:
            pack = stack.enter_context(packed_by_git(git, wanted))
        else:
            name = copy.pack.encode() + b".pack"
            copied_bytes = copy.packs.stat(name).st_size
            sources = [stack.enter_context(copied_pack(copy.packs, copy.pack))]
            if not copy.is_all:
                rest = packed_by_git(git, copy.rest(wanted))
                sources.append(copy.followed_by(stack.enter_context(rest)))
            pack = joined_packs(sources)
        yield Content(len(part.revs), part.heads, refs, known, pack, copied_bytes)


def _oids(oidmap: OidMap, nodes: Sequence[bytes]) -> list[bytes]:
    oids = oidmap.oids(nodes)
    if None in oids and not all(oidmap.has(nodes)):
        raise BehindError
    return [oid for oid in oids if oid is not None]
