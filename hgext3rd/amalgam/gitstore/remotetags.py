"""Tags and notes of git remotes, for the git users of this repository.

A tag that a pull has recorded (``fetchedrefs``) is a ref of the git store if the commit
that it leads to is exported, with the id that it has at the remote. Its tag objects are
copied, so it keeps its message and its signature. Owns which tags those are, and the
packs of their objects.

A ref of notes is a history whose trees name the noted commits. It is a ref of the store
if it has never had a note on a commit that is here and is not exported
(docs/decisions/git-remotes.rst).
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
from .imported import ImportedCommits, fetched_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet

    from ..files import Directory
    from .docket import Docket
    from .fetchedrefs import FetchedRef
    from .store import GitStore

_TARGET = re.compile(rb"object ([0-9a-f]{40})\ntype (\w+)\n")
NOTES = b"refs/notes/"
_MOST_OF_NOTES = 10_000
"""Commits of the history of a ref of notes: all of them are read."""
_NOTED = re.compile(rb"[0-9a-f]{40}")
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
        wanted: dict[bytes, FetchedRef] = {}
        left_out, awaited = {}, set()
        names = RefNames(ref.removeprefix(TAGS) for ref in own)
        for ref, it in sorted(tags.refs().items()):
            name, node = ref.removeprefix(TAGS), bin_id(it.node)
            if own.get(ref, node) != node:
                left_out[ref] = _(b"Mercurial has it on another changeset")
            elif ref not in own and (is_too_long(name) or not names.may_have(name)):
                left_out[ref] = _(b"not every clone could have it beside other tags")
            elif node and not is_served(node):
                left_out[ref] = _(b"its changeset is not exported")
                awaited.add(node)
            else:
                wanted[ref] = it
                names.add(name)
        bases, is_whole = _layers(store, docket, [*wanted.values()])
        git = fetched_git(store)
        chains = _chains(git, {it.oid for it in wanted.values() if it.oid != it.commit})
        is_final = True
        for ref, it in [*wanted.items()]:
            if it.commit not in bases:
                text = _(b"its commit has another id here")
                left_out[ref] = text if it.node else _(b"its object is not exported")
                is_final &= bool(it.node)
            elif it.oid != it.commit and it.commit not in chains[it.oid]:
                is_long = len(chains[it.oid]) == _MOST_OF_CHAIN
                text = _(b"it leads to its commit by way of over 100 tags")
                left_out[ref] = text if is_long else _(b"its tag object is lost")
                is_final &= is_long
            if ref in left_out:
                del wanted[ref]
        annotated = [it for it in wanted.values() if it.oid != it.commit]
        of_layer: dict[bool, set[bytes]] = {True: set(), False: set()}
        for it in annotated:
            of_layer[bases[it.commit]] |= {it.oid, *chains[it.oid]} - {it.commit}
        shown, noted = dict[bytes, bytes](), set[bytes]()
        note_names = RefNames(())
        for ref, it in sorted(tags.notes().items()):
            name = ref.removeprefix(NOTES)
            if is_too_long(name) or not note_names.may_have(name):
                left_out[ref] = _(b"not every clone could have it beside other notes")
                continue
            notes = _Notes.read(git, it.oid)
            is_final &= notes is not None
            reason, is_base = _(b"its objects are lost"), False
            if notes is not None:
                reason, is_base = notes.layer(store, docket, git, is_served)
                awaited |= notes.awaited
            if reason:
                left_out[ref] = reason
                continue
            assert notes is not None
            note_names.add(name)
            shown[ref] = bin_id(it.oid)
            noted |= notes.changesets
            of_layer[is_base] |= notes.objects
        of_base, of_drafts = (map(bin_id, of_layer[it]) for it in (True, False))
        return cls(
            refs={ref: bin_id(it.oid) for ref, it in wanted.items()} | shown,
            peeled={bin_id(it.oid): bin_id(it.commit) for it in annotated},
            nodes=frozenset(bin_id(it.node) for it in wanted.values() if it.node),
            noted=frozenset(noted),
            of_base=frozenset(of_base),
            of_drafts=frozenset(of_drafts).difference(map(bin_id, of_layer[True])),
            left_out=left_out,
            awaited=frozenset(awaited),
            is_final=is_final,
            is_whole=is_whole,
        )

    def stray_packs(self, packs: Directory, docket: Docket) -> tuple[bool, bool]:
        """Return whether the tag packs of base and drafts have other objects."""
        pairs = (docket.base_tags, self.of_base), (docket.drafts_tags, self.of_drafts)
        base, drafts = (
            {*packfiles.distinct_ids(packs, it)} != ids for it, ids in pairs
        )
        return base, drafts


class _Notes:
    """A ref of notes: its objects, and those that had a note at any time."""

    def __init__(
        self,
        reason: bytes,
        commits: Sequence[bytes] = (),
        objects: AbstractSet[bytes] = frozenset(),
        noted: AbstractSet[bytes] = frozenset(),
    ) -> None:
        self._reason = reason
        self._commits = commits
        self.objects = objects
        """Commits, trees and contents, in hex."""
        self._noted = sorted(noted)
        self.changesets: set[bytes] = set()
        """Those with notes, if all may leave."""
        self.awaited: set[bytes] = set()
        """Those with notes that may not leave."""

    @classmethod
    def read(cls, git: Git, oid: bytes) -> _Notes | None:
        """Read the whole history; ``None`` if an object of it is lost."""
        if not (git.directory and git.directory.exists(PACKS)):
            return None
        limit = f"--max-count={_MOST_OF_NOTES + 1}"
        listed = git.run("rev-list", limit, oid, check=False)
        commits = listed.stdout.splitlines()
        if listed.returncode:
            return None
        if len(commits) > _MOST_OF_NOTES:
            return cls(_(b"its history is too long"))
        found = git.run("rev-list", "--objects", oid, check=False)
        if found.returncode:
            return None
        objects = {line[:40] for line in found.stdout.splitlines()}
        if _absent(git, objects):
            return None
        # each path is in the first commit that has it, and in its difference
        options = (
            "-m",
            "--root",
            "-r",
            "--no-commit-id",
            "--no-renames",
            "--name-only",
        )
        changed = git.run("diff-tree", "--stdin", *options, input=listed.stdout).stdout
        noted = {line.replace(b"/", b"") for line in changed.splitlines()}
        if commits[:1] != [oid] or not all(map(_NOTED.fullmatch, noted)):
            return cls(_(b"it has other files than notes"))
        return cls(b"", commits, objects, noted)

    def layer(
        self,
        store: GitStore,
        docket: Docket,
        git: Git,
        is_served: Callable[[bytes], bool],
    ) -> tuple[bytes, bool]:
        """Return the reason to leave them out, if any, and whether all is in the base.

        Ids that were never here tell nothing about this repository.
        """
        if self._reason:
            return self._reason, False
        ids = [bin_id(it) for it in self._noted]
        with (
            contextlib.closing(store.open_map(docket)) as oidmap,
            contextlib.closing(store.maps.open(docket.base.segments)) as base,
        ):
            nodes = oidmap.changesets(ids)
            exported = {node for node in nodes if node}
            is_base = all(base.has([*exported]))
        rest = {hex_id(oid) for oid, it in zip(ids, nodes, strict=True) if not it}
        pulled = rest - _absent(git, rest)
        with contextlib.closing(ImportedCommits(store.repo, store)) as imported:
            became = imported.changesets([bin_id(it) for it in pulled])
            if any(imported.changesets([bin_id(it) for it in self._commits])):
                return _(b"it has commits that are changesets"), False
        hidden = {it for it in (*exported, *filter(None, became)) if not is_served(it)}
        if hidden or pulled:
            self.awaited = hidden
            return _(b"a commit with notes is not exported"), False
        self.changesets = exported
        return b"", is_base


def _absent(git: Git, oids: AbstractSet[bytes]) -> set[bytes]:
    """Return those of ``oids`` whose objects were not fetched."""
    asked = b"".join(b"%s\n" % oid for oid in oids)
    args = ("cat-file", "--batch-check=%(objectname)", "--buffer")
    lines = git.run(*args, input=asked).stdout.splitlines()
    return {line.partition(b" ")[0] for line in lines if line.endswith(b" missing")}


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
