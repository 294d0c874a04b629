"""The files of a store, as its docket names them: written and removed.

Files that must not be read go in this order: the docket says that nothing may be
answered, then packs and loose objects go, then refs. Replaced files go after the refs
that lead to them. A killed process leaves files that the next one removes. Does not
decide which changesets belong in a store, and converts nothing. All but ``has_heads``
need the lock, and abort if it was lost.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ...files import TEMPORARY, Unusable
from .. import censorship, remotetags
from ..docket import Docket, Layer
from ..git import lastnames, layout, packfiles, refs as refsmod, summaries
from ..git.reffiles import differences
from ..imported import ImportedFiles
from . import docketedits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...files import Directory
    from ..remotetags import ShownTags
    from ..store import GitStore


# of the map's files that a docket names
_SUFFIXES = (b".map", b".state")


class StoreWriter:
    """Writer of a docket, and of the files that it names."""

    def __init__(self, store: GitStore) -> None:
        self.docket = Docket()
        """The docket on disk."""
        self._before: Mapping[bytes, bytes] | None = None
        """The refs that were there before some of them had to go, if they had."""
        self._store = store
        self.is_docket_lost = False
        """Whether there were packs, and no docket that named any."""
        self.adopted = ""
        """The mark of the adopted commits that ids have to begin with; may be empty."""
        self._repo = store.repo
        self._repository = store.repository
        self._dialect = store.config.dialect

    def read(self) -> None:
        """Read the docket on disk."""
        directory = self._store.maps.directory
        self.docket = Docket.read(directory, self._dialect)
        self.adopted = self._store.adopted.mark()

    def is_settled(self, docket: Docket) -> bool:
        """Return whether all files are named by ``docket``, and have the right ids."""
        store = self._store
        is_as_noted = docket.adopted == store.adopted.mark()
        is_as_noted &= ImportedFiles.of(store).segments in ((), docket.imported)
        return is_as_noted and store.is_settled(docket)

    def _require_adopted(self) -> None:
        """Abort if adopted commits are lost that ids begin with.

        Other ids would take the place of those that others have.
        """
        if self.docket.adopted and not self.adopted:
            adopted = self._store.adopted
            raise error.StateError(
                _(b"adopted commits are lost: '%s' is missing")
                % adopted.directory.join(adopted.name),
                hint=_(
                    b"restore it from a backup; to give up its ids, remove "
                    b"'.hg/amalgam'"
                ),
            )

    def begin(self, mark: str) -> Docket:
        """Remove files that must not be read, before any are added.

        If a text was censored since it was read, these are all files: ``mark`` is the
        value of ``censorship.mark_of`` now. Else they are those that the docket does
        not name, unless git has made them of packs that are gone. Return the docket of
        the files that remain.
        """
        self._require_adopted()
        self.remove_debris()
        if not self._repository.exists():
            return Docket(censored=mark, adopted=self.adopted)
        if self.docket.censored != mark:
            return self.drop_all(mark)
        if self.docket.refused:
            return self.remove()
        if (packs := self._repository.packs()).issuperset(self.docket.packs):
            self.is_docket_lost = bool(packs) and not self.docket.packs
            self._remove_strays()
        return self.docket

    def _remove_strays(self) -> None:
        """Remove files that the docket does not name, and their summaries."""
        self._store.require_lock()
        if packfiles.unlisted_holders(self._repository, self.docket):
            self._announce_removal()
            self._remove_summaries()
        packfiles.remove_unlisted(self._repository, self.docket)

    def _remove_summaries(self) -> None:
        summaries.remove(self._repository, keeps=self._has_ours())

    def _has_ours(self) -> bool:
        """Return whether all summaries are from maintenance, of a pack that stays."""
        directory = self._store.maps.directory
        made = summaries.Summarised.read(directory, self._dialect)
        return (
            made is not None
            and made.pack in self.docket.base.packs
            and made.files == summaries.digest(self._repository)
        )

    def name(
        self,
        refs: Mapping[bytes, bytes],
        head: bytes,
        peeled: Mapping[bytes, bytes],
    ) -> tuple[int, int]:
        """Make ``refs`` all refs; return how many changed, and how many are gone.

        Refs of others are removed, too. ``peeled``: of tag objects among the oids.
        """
        self._store.require_lock()
        before = self._refs_before()
        self._repository.set_refs(refs, head, peeled)
        self._before = None
        deleted = len(before.keys() - refs.keys() - {refsmod.METADATA})
        return differences(before, refs), deleted

    def change_names(
        self, refs: Mapping[bytes, bytes | None], head: bytes
    ) -> tuple[int, int]:
        """Change ``refs`` alone, as ``name``; ``None`` for one that goes."""
        self._store.require_lock()
        if refs or head != self._repository.head():
            self._repository.change_refs(refs, head)
        shown = [oid for name, oid in refs.items() if name != refsmod.METADATA]
        return len(shown), shown.count(None)

    def finish(self) -> None:
        """Remove packs that no ref needs any more, and files of others."""
        self._store.require_lock()
        if self.docket.dropped:
            self._announce_removal()
            self._remove_summaries()
            self._repository.remove_packs(self.docket.dropped)
            self.write(docketedits.removed(self.docket))
        # else git has just replaced them: for the next export
        if self._repository.packs().issuperset(self.docket.packs):
            self._remove_strays()
        self._check_summaries()
        self.remove_debris()

    def _check_summaries(self) -> None:
        """Remove summaries that git has written, unless they are of present objects."""
        repository = self._repository
        found = summaries.digest(repository)
        if found not in ("", self.docket.summaries) and not self._has_ours():
            summaries.remove_bitmaps(repository)
            if summaries.is_wrong(repository):
                self._remove_summaries()
            found = summaries.digest(repository)
        self.write(docketedits.checked(self.docket, found))

    def whole(self, docket: Docket) -> Docket | None:
        """Return ``docket`` without lost files; ``None`` if the base lost one.

        Removes files that git has made of packs that are gone.
        """
        if not docket.segments:
            docket = docket._replace(adopted=self.adopted)
        elif docket.adopted != self.adopted:
            return None  # its ids do not begin with what is adopted
        packs = self._repository.packs()
        if not packs.issuperset(docket.packs):
            self._remove_strays()
        if not self._is_mapped(docket.base) or not packs.issuperset(docket.base.packs):
            self._remove_strays()
            return None
        docket = docketedits.with_others_in(docket, packs)
        drafts = docket.drafts
        if not self._is_mapped(drafts) or not packs.issuperset(drafts.packs):
            self._remove_strays()
            return docketedits.without_drafts(docket)
        return docket

    def _is_mapped(self, layer: Layer) -> bool:
        """Return whether the maps of ``layer`` exist."""
        exists = self._store.maps.directory.exists
        segments = (*layer.segments, *layer.metadata_segments)
        has_all = bool(layer.metadata_segments) == (
            self._store.config.keeps_metadata and bool(layer.segments)
        )
        return has_all and all(map(exists, map(os.fsencode, segments)))

    def has_heads(self, docket: Docket) -> bool:
        """Return whether git finds the commits of all exported heads."""
        heads = self._repo.unfiltered().changelog.heads()
        try:
            with contextlib.closing(self._store.open_map(docket)) as oidmap:
                oids = [oid for oid in oidmap.oids(heads) if oid is not None]
        except FileNotFoundError:
            return False
        return bool(oids) and self._repository.has_commits(oids)

    def refuse_foreign_store(self) -> None:
        """Abort if ``amalgam.git.path`` leads to a repository that others fill."""
        packs = self.docket.packs
        is_ours = packs and (
            any(map(self._repository.has_pack, packs)) or self.has_heads(self.docket)
        )
        if self._store.config.path and self._repository.has_refs() and not is_ours:
            raise error.StateError(
                _(
                    b"git repository '%s' contains refs that this repository "
                    b"did not write"
                )
                % self._repository.path,
                hint=_(b"set amalgam.git.path to another directory, or use --rebuild"),
            )

    def write(self, docket: Docket) -> Docket:
        """Make ``docket`` the one on disk, and return it."""
        if docket != self.docket:
            store = self._store
            store.require_lock()
            if not self._keeps_oids(docket):
                lastnames.forget(store.maps.directory, self._dialect)
            docket.write(store.maps.directory, self._dialect, store.placement)
        self.docket = docket
        return docket

    def _keeps_oids(self, docket: Docket) -> bool:
        """Return whether all names on disk surely have the same oids in it."""
        layers = (self.docket.base, self.docket.drafts)
        gone = {pack for layer in layers for pack in layer.packs}
        return (
            not docket.refused
            and docket.held == self.docket.held
            and gone.isdisjoint(docket.dropped)
            and {*docket.tag_packs}.issuperset(self.docket.tag_packs)
        )

    def settle(self, docket: Docket) -> Docket:
        """Count converted changesets: write ``docket``; git is to keep its packs."""
        self._store.require_lock()
        self._repository.keep(docket.packs)
        self.write(docketedits.settled(docket))
        self._store.maps.directory.remove(self._store.pending)
        return self.docket

    def exchange(
        self,
        area: Directory,
        sources: Sequence[str],
        made: Sequence[str],
        complete: str = "",
    ) -> bool:
        """Let packs ``made`` in ``area`` count instead of ``sources``, which go.

        ``complete`` is the one of them that is to be the complete pack, if any. Does
        nothing, and tells so, if a text was censored, or packs have gone meanwhile.
        """
        docket, repository = self.docket, self._repository
        if (
            docket.censored != censorship.mark_of(self._repo)
            or not docketedits.can_roll_up(docket, sources, complete)
            or not repository.packs().issuperset(docket.packs)
        ):
            return False
        was_checked = summaries.digest(repository) == docket.summaries
        self._store.require_lock()
        self._note_pending((*made, *sources))
        repository.keep((*docket.packs, *made))
        repository.take_packs(area, made)
        self.write(docketedits.rolled_up(docket, sources, made, complete))
        if not self._has_ours():
            summaries.remove_those_of_packs(repository)
        repository.remove_packs(frozenset(sources).difference(self.docket.packs))
        self._store.maps.directory.remove(self._store.pending)
        if was_checked:
            found = summaries.digest(repository)
            self.write(docketedits.checked(self.docket, found))
        return True

    def take_tags(self, docket: Docket, tags: ShownTags) -> Docket:
        """Let the tag packs be those of ``tags``, and count everything converted.

        Other ones go as soon as no ref needs them.
        """
        repository, store = self._repository, self._store
        base, drafts = tags.stray_packs(repository.packs_directory, docket)
        if not (base or drafts):
            return docket
        git = remotetags.fetched_git(store)
        with layout.staging_area(
            repository.directory, store.placement, docket.packs
        ) as area:
            made = [
                packfiles.packed_by_git(git, area, map(packfiles.rev_list_line, oids))
                if is_stray
                else packs
                for is_stray, oids, packs in (
                    (base, sorted(tags.of_base), docket.base_tags),
                    (drafts, sorted(tags.of_drafts), docket.drafts_tags),
                )
            ]
            store.require_lock()
            new = [it for it in {*made[0], *made[1]} if it not in docket.packs]
            self._note_pending(new)
            repository.keep((*docket.packs, *new))
            repository.take_packs(area, new)
            return self.settle(docketedits.with_tags(docket, *made))

    def summarise(self, area: Directory, pack: str) -> bool:
        """Let summaries of ``pack`` that git has made in ``area`` count.

        Does nothing, and tells so, unless it still is the complete pack of the base.
        """
        docket, repository = self.docket, self._repository
        if (
            docket.refused
            or docket.dropped
            or docket.base.complete != pack
            or docket.censored != censorship.mark_of(self._repo)
            or not repository.packs().issuperset(docket.packs)
        ):
            return False
        self._store.require_lock()
        summaries.take(repository, layout.staged_objects(area))
        made = summaries.Summarised(pack, summaries.digest(repository))
        self.write(docketedits.checked(docket, made.files))
        # last: without it, they are made again
        store = self._store
        made.write(store.maps.directory, self._dialect, store.placement)
        return True

    def _note_pending(self, packs: Iterable[str]) -> None:
        """Name packs of which those go that the docket does not name in the end."""
        store = self._store
        content = "".join(f"{name}\n" for name in packs).encode("ascii")
        store.maps.directory.replace(store.pending, content, store.placement)

    def replace_drafts(self, docket: Docket) -> Docket:
        """Remove the drafts on disk but those of ``docket``, whose packs are there.

        And all files that git may have made of them. Return the docket that remains;
        the one on disk refuses to answer.
        """
        self._store.require_lock()
        segments = self.docket.drafts.segments
        self._repository.keep(docket.packs)
        remaining = self._refuse(docketedits.settled(docket))
        refs = self._refs_before()
        oids = list(refs.values())
        with (
            contextlib.closing(self._store.maps.open(segments)) as before,
            contextlib.closing(self._store.open_map(self.docket)) as oidmap,
        ):
            nodes = zip(before.changesets(oids), oidmap.changesets(oids), strict=True)
            gone = {
                name
                for name, (draft, node) in zip(refs, nodes, strict=True)
                # tag objects are not in the map, and come back
                if node is None and (draft is not None or name.startswith(refsmod.TAGS))
            }
        kept = {name: oid for name, oid in refs.items() if name not in gone}
        self._unname(with_metadata(kept, self.docket))
        self.remove_debris()
        return remaining

    def drop_drafts(self) -> Docket:
        """Remove all drafts on disk; return the docket that remains."""
        return self.replace_drafts(docketedits.forgotten(self.docket))

    def drop_all(self, mark: str) -> Docket:
        """Remove everything exported; return an empty docket with this ``mark``."""
        docket = Docket(censored=mark)
        remaining = self._refuse(docket._replace(adopted=self.adopted))
        self._unname({})
        self.remove_debris()
        return remaining

    def _refuse(self, docket: Docket) -> Docket:
        """Let nothing be answered, then remove files that ``docket`` does not name."""
        self.write(docketedits.refused(docket, self._repository.packs(usable=False)))
        return self.remove()

    def _refs_before(self) -> Mapping[bytes, bytes]:
        """Return the refs that were there before this export removed any."""
        if self._before is None:
            self._before = self._repository.refs()
        return self._before

    def _unname(self, refs: Mapping[bytes, bytes]) -> None:
        """Leave only ``refs``: the others lead to objects that are gone."""
        self._store.require_lock()
        self._refs_before()
        self._repository.set_refs(refs, self._repository.head())

    def _announce_removal(self) -> None:
        """Let servers know that a git process may have packs open that go now.

        They compare the value with the one from before that process was started. So it
        need not outlast a crash of the machine.
        """
        store, value = self._store, os.urandom(16).hex().encode() + b"\n"
        directory = store.maps.directory
        with contextlib.suppress(Unusable):
            directory.tryread(store.removals, len(value))
            directory.replace(store.removals, value, store.placement, durable=False)
            return
        directory.remove(store.removals)  # another kind of file
        directory.replace(store.removals, value, store.placement, durable=False)

    def remove(self) -> Docket:
        """Remove files that the refused docket on disk does not name.

        Return that docket without the packs that are gone.
        """
        self._store.require_lock()
        self._announce_removal()
        self._remove_summaries()
        packfiles.remove_unlisted(self._repository, self.docket)
        return docketedits.removed(self.docket)

    def remove_debris(self) -> None:
        """Remove files that a killed run left, and segments merged into others."""
        self._store.require_lock()
        directory = self._store.maps.directory
        # first, since the announcement of the others needs room on the disk
        kept = frozenset(map(os.fsencode, self.docket.map_files))
        ours = self._dialect + b"-"
        for name in directory.names():
            is_ours = name.startswith(ours) and name.endswith(_SUFFIXES)
            if name.startswith(TEMPORARY) or (is_ours and name not in kept):
                directory.remove(name)
        pending = self._store.pending_packs()
        packs = [pack for pack in pending if pack not in self.docket.packs]
        if packs:
            self._announce_removal()
            if not self._has_ours():
                summaries.remove_those_of_packs(self._repository)
        self._repository.remove_packs(packs)
        directory.remove(self._store.pending)
        self._repository.remove_debris()

    def emptied(self, docket: Docket) -> Docket:
        """Return the docket of an export from nothing, which drops all packs."""
        packs = self._repository.packs(usable=False)
        emptied = docketedits.emptied(docket, packs)
        return emptied._replace(adopted=self.adopted)


def metadata_oid(docket: Docket) -> str:
    """Return the commit for git-cinnabar's metadata ref, in hex; nothing for none.

    No metadata is advertised if git-cinnabar itself would give other ids.
    """
    return "" if docket.has_foreign_ids else docket.metadata_commit.oid


def with_metadata(refs: Mapping[bytes, bytes], docket: Docket) -> dict[bytes, bytes]:
    """Return refs with git-cinnabar's metadata ref, if it has a commit."""
    named = {name: oid for name, oid in refs.items() if name != refsmod.METADATA}
    if oid := metadata_oid(docket):
        named[refsmod.METADATA] = bytes.fromhex(oid)
    return named
