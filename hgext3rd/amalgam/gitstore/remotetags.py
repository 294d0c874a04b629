"""Tags and notes of git remotes, for the git users of this repository.

A tag that a pull has recorded (``fetchedrefs``) is a ref of the git store if the commit
that it leads to is exported, with the id that it has at the remote. Its tag objects are
copied, so it keeps its message and its signature. Owns which tags those are, and the
packs of their objects. Refs of notes are chosen here, too, and read in ``remotenotes``.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from typing import TYPE_CHECKING

from mercurial.i18n import _
from mercurial.node import bin as bin_id, hex as hex_id

from ..records import Record
from .fetchedrefs import FetchedRefs, parsed
from .git import packfiles
from .git.layout import PACKS
from .git.process import Git, Owner
from .git.refs import TAGS, RefNames, is_too_long
from .imported import fetched_objects
from .remotenotes import Notes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet

    from ..files import Directory
    from .docket import Docket
    from .fetchedrefs import FetchedRef
    from .store import GitStore

_TARGET = re.compile(rb"object ([0-9a-f]{40})\ntype (\w+)\n")
NOTES = b"refs/notes/"
# tags of files and trees: each is looked for in all packs
_MOST_OF_OBJECTS = 1000
# tag objects of a tag, each the target of the one before: git is asked for each of them
_MOST_OF_CHAIN = 100


class RemoteTags:
    """The tags that pulls have recorded, of all remotes.

    Of tags with the same name, that of the first remote counts (``ranked``).
    """

    def __init__(self, store: GitStore) -> None:
        files = FetchedRefs(store)
        remotes = files.ranked() if b"tags" in store.config.refs else []
        parts = map(files.tags, remotes)
        self._parts = [it for it in parts if it]
        self.digest = ""
        """Changes with any tag; empty without tags."""
        if self._parts:
            self.digest = hashlib.sha1(b"\0".join(self._parts)).hexdigest()

    def refs(self) -> dict[bytes, FetchedRef]:
        """Return the tags, by the names of their refs."""
        return self._below(TAGS)

    def notes(self) -> dict[bytes, FetchedRef]:
        """Return the refs of notes."""
        return self._below(NOTES)

    def _below(self, prefix: bytes) -> dict[bytes, FetchedRef]:
        found: dict[bytes, FetchedRef] = {}
        for part in reversed(self._parts):
            found |= parsed(part)
        return {ref: it for ref, it in found.items() if ref.startswith(prefix)}


class ShownTags(Record):
    """The tags that have a ref, and those that have none. Ids are binary."""

    refs: Mapping[bytes, bytes]
    """Ref to oid."""
    peeled: Mapping[bytes, bytes]
    """Tag objects, with the commits and others that they lead to."""
    nodes: frozenset[bytes]
    """The changesets that they lead to."""
    noted: frozenset[bytes]
    """Changesets with notes."""
    of_base: frozenset[bytes]
    """Tag objects that lead to objects of the base, and all objects of notes on it."""
    of_drafts: frozenset[bytes]
    """All other tag objects, and objects of notes."""
    left_out: Mapping[bytes, bytes]
    """Ref to reason."""
    awaited: frozenset[bytes]
    """Changesets that do not leave, of tags that are left out for that."""
    is_final: bool
    """Whether other reasons hold until tags, or ids of commits, change."""
    is_whole: bool
    """Whether all changesets of tags are exported that may leave."""

    @classmethod
    def of(
        cls,
        store: GitStore,
        docket: Docket,
        tags: RemoteTags,
        own: Mapping[bytes, bytes],
        is_served: Callable[[bytes], bool],
    ) -> ShownTags:
        """Choose from ``tags``.

        ``own``: refs of Mercurial's tags, with their nodes. ``is_served`` tells which
        changesets may leave.
        """
        choice = _Choice(store, docket, is_served)
        named = choice.by_name(tags.refs(), own)
        found, is_whole = choice.by_objects(named)
        choice.notes(tags.notes())
        annotated = [it for it in found.values() if it.oid != it.commit]
        of_base, of_drafts = (
            frozenset(map(bin_id, choice.of_layer[it])) for it in (True, False)
        )
        return cls(
            refs={ref: bin_id(it.oid) for ref, it in found.items()} | choice.note_refs,
            peeled={bin_id(it.oid): bin_id(it.commit) for it in annotated},
            nodes=frozenset(bin_id(it.node) for it in found.values() if it.node),
            noted=frozenset(choice.noted),
            of_base=of_base,
            of_drafts=of_drafts - of_base,
            left_out=choice.left_out,
            awaited=frozenset(choice.awaited),
            is_final=choice.is_final,
            is_whole=is_whole,
        )

    def stray_packs(self, packs: Directory, docket: Docket) -> tuple[bool, bool]:
        """Return whether the tag packs of base and drafts have other objects."""
        pairs = (docket.base_tags, self.of_base), (docket.drafts_tags, self.of_drafts)
        base, drafts = (
            {*packfiles.distinct_ids(packs, it)} != ids for it, ids in pairs
        )
        return base, drafts


class _Choice:
    """Which tags and notes get a ref, and the reasons for those that get none.

    Each step passes on the rest. See ``ShownTags`` for the results.
    """

    def __init__(
        self, store: GitStore, docket: Docket, is_served: Callable[[bytes], bool]
    ) -> None:
        self._store = store
        self._docket = docket
        self._is_served = is_served
        self._git = fetched_git(store)
        self.left_out: dict[bytes, bytes] = {}
        self.awaited: set[bytes] = set()
        self.is_final = True
        self.of_layer: dict[bool, set[bytes]] = {True: set(), False: set()}
        """Ids in hex, by whether they lead into the base only."""
        self.note_refs: dict[bytes, bytes] = {}
        self.noted: set[bytes] = set()

    def by_name(
        self, tags: Mapping[bytes, FetchedRef], own: Mapping[bytes, bytes]
    ) -> dict[bytes, FetchedRef]:
        """Return the tags that can stand beside ``own``, and may leave."""
        wanted: dict[bytes, FetchedRef] = {}
        names = RefNames(ref.removeprefix(TAGS) for ref in own)
        for ref, it in sorted(tags.items()):
            name, node = ref.removeprefix(TAGS), bin_id(it.node)
            if own.get(ref, node) != node:
                self.left_out[ref] = _(b"Mercurial has it on another changeset")
            elif ref not in own and (is_too_long(name) or not names.may_have(name)):
                text = _(b"not every clone could have it beside other tags")
                self.left_out[ref] = text
            elif node and not self._is_served(node):
                self.left_out[ref] = _(b"its changeset is not exported")
                self.awaited.add(node)
            else:
                wanted[ref] = it
                names.add(name)
        return wanted

    def by_objects(
        self, tags: Mapping[bytes, FetchedRef]
    ) -> tuple[dict[bytes, FetchedRef], bool]:
        """Return the tags whose objects are all here, from tag object to commit.

        And whether all changesets of ``tags`` are exported.
        """
        found: dict[bytes, FetchedRef] = {}
        bases, is_whole = _layers(self._store, self._docket, [*tags.values()])
        annotated = {it.oid for it in tags.values() if it.oid != it.commit}
        chains = _chains(self._git, annotated)
        for ref, it in tags.items():
            chain = {it.oid} if it.oid == it.commit else chains[it.oid]
            if it.commit not in bases:
                text = _(b"its object is not exported")
                other = _(b"its commit has another id here")
                self.left_out[ref] = other if it.node else text
                self.is_final &= bool(it.node)
            elif it.commit not in chain:
                is_long = len(chain) == _MOST_OF_CHAIN
                text = _(b"it leads to its commit by way of over 100 tags")
                self.left_out[ref] = text if is_long else _(b"its tag object is lost")
                self.is_final &= is_long
            else:
                found[ref] = it
                self.of_layer[bases[it.commit]] |= {it.oid, *chain} - {it.commit}
        return found, is_whole

    def notes(self, refs: Mapping[bytes, FetchedRef]) -> None:
        """Choose from refs of notes, and name them in ``note_refs``."""
        names = RefNames(())
        for ref, it in sorted(refs.items()):
            name = ref.removeprefix(NOTES)
            if is_too_long(name) or not names.may_have(name):
                text = _(b"not every clone could have it beside other notes")
                self.left_out[ref] = text
                continue
            notes = Notes.read(self._git, it.oid)
            if notes is None:
                self.left_out[ref] = _(b"its objects are lost")
                self.is_final = False
                continue
            args = self._store, self._docket, self._git, self._is_served
            reason, is_base = notes.layer(*args)
            self.awaited |= notes.awaited
            if reason:
                self.left_out[ref] = reason
                continue
            names.add(name)
            self.note_refs[ref] = bin_id(it.oid)
            self.noted |= notes.changesets
            self.of_layer[is_base] |= notes.objects


def fetched_git(store: GitStore) -> Git:
    """Return git for the repository with all objects that were fetched."""
    owner = Owner(store.repo.ui, store.repo.sharedpath)
    objects = fetched_objects(store)
    hint = _(b"if '%s' is damaged, remove it, and the next pull fetches it again")
    return Git(store.config.program, objects, owner, remedy=hint % objects.path)


def _layers(
    store: GitStore, docket: Docket, tags: Sequence[FetchedRef]
) -> tuple[dict[bytes, bool], bool]:
    """Return which objects of ``tags`` are exported: whether each is in the base.

    And whether all changesets of ``tags`` are exported.
    """
    commits = {bin_id(it.node): it.commit for it in tags if it.node}
    nodes = [*commits]
    with (
        contextlib.closing(store.open_map(docket)) as oidmap,
        contextlib.closing(store.maps.open(docket.base.segments)) as base,
    ):
        oids, is_whole = oidmap.oids(nodes), all(oidmap.has(nodes))
        found = {
            hex_id(oid): is_base
            for oid, is_base in zip(oids, base.has(nodes), strict=True)
            if oid
        }
    others = {it.commit for it in tags if not it.node}
    packs = store.repository.packs_directory
    for other in sorted(others)[:_MOST_OF_OBJECTS]:
        for is_base, layer in ((True, docket.base), (False, docket.drafts)):
            oid = bin_id(other)
            if any(packfiles.has_object(packs, pack, oid) for pack in layer.packs):
                found.setdefault(other, is_base)
    return found, is_whole


def _chains(git: Git, oids: AbstractSet[bytes]) -> dict[bytes, set[bytes]]:
    """Return the first objects that tag objects lead to, one by way of the other."""
    targets: dict[bytes, bytes] = {}
    todo = {*oids}
    for _link in range(_MOST_OF_CHAIN):
        if not (todo and git.directory and git.directory.exists(PACKS)):
            break
        inner = set()
        for oid, kind, content in git.objects(sorted(todo)):
            match = _TARGET.match(content)
            if kind == b"tag" and match:
                targets[oid] = match[1]
                if match[2] == b"tag":
                    inner.add(match[1])
        todo = inner - targets.keys()
    chains: dict[bytes, set[bytes]] = {}
    for oid in oids:
        chain, at = chains.setdefault(oid, set()), targets.get(oid)
        while at and at not in chain and len(chain) < _MOST_OF_CHAIN:
            chain.add(at)
            at = targets.get(at)
    return chains
