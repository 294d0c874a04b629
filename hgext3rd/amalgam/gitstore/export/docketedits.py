"""Edits of a docket: each returns the next one.

Pure functions that read and write no file. ``export`` says when an edit is due, and
``writer`` writes the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..docket import Docket, Layer, MetadataCommit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..checkpoint import Checkpoint


def emptied(docket: Docket, packs: Iterable[str]) -> Docket:
    """Export from nothing: all ``packs`` go when that is done."""
    return Docket(
        held=docket.held,
        refused=docket.refused,
        censored=docket.censored,
        dropped=tuple(sorted(packs)),
    )


def refused(docket: Docket, packs: Iterable[str]) -> Docket:
    """Let nothing be answered, and all others of ``packs`` go before anything else."""
    left = sorted(frozenset(packs).difference(docket.packs))
    dropped = tuple(dict.fromkeys((*docket.dropped, *left)))
    return docket._replace(dropped=dropped, refused=True, named="")


def removed(docket: Docket) -> Docket:
    """Forget the packs that had to go, since they are gone."""
    return docket._replace(dropped=())


def without_drafts(docket: Docket) -> Docket:
    """Make the drafts again; their packs go when that is done."""
    return _dropping(docket, forgotten(docket))


def forgotten(docket: Docket) -> Docket:
    """Name no file any more that is only for drafts."""
    none = MetadataCommit()
    docket = docket._replace(drafts=Layer(), recent=(), published=())
    return docket._replace(drafts_commit=none, drafts_tags=())


def without_recent(docket: Docket) -> Docket:
    """Make the recent drafts again; their packs go when that is done."""
    older = docket.drafts.part(docket.recent, keep=False)
    return _dropping(docket, forgotten(docket)._replace(drafts=older))


def promoted(docket: Docket, layer: Layer) -> Docket:
    """Take ``layer``, the lowest one of the drafts, into the base: it is public."""
    drafts = docket.drafts.part(layer.files, keep=False)
    base = docket.base.with_above(layer)
    if drafts.segments:
        drafts = drafts._replace(seen=docket.drafts.seen)
        return docket._replace(base=base, drafts=drafts)
    after = docket._replace(
        base=base, base_commit=docket.metadata_commit, base_tags=docket.tag_packs
    )
    return _dropping(docket, forgotten(after))


def with_drafts_commit(docket: Docket, commit: MetadataCommit) -> Docket:
    """Name the commit of both layers, and drop the one that it replaces."""
    return _dropping(docket, docket._replace(drafts_commit=commit))


def with_base_commit(docket: Docket, commit: MetadataCommit) -> Docket:
    """Name the commit of the base, and drop the one that it replaces."""
    return _dropping(docket, docket._replace(base_commit=commit))


def can_roll_up(docket: Docket, sources: Iterable[str], complete: str = "") -> bool:
    """Return whether ``sources`` still are packs of one layer that go together.

    ``complete``: what is to be the complete pack, if there is a new one.
    """
    names = frozenset(sources)
    if docket.refused or docket.dropped or not names:
        return False
    for layer in docket.layers:
        if names.issubset(layer.packs):
            is_complete = layer.complete in names
            return not layer.complete or is_complete == bool(complete)
    return False


def rolled_up(
    docket: Docket, sources: Iterable[str], made: Sequence[str], complete: str = ""
) -> Docket:
    """Name the packs ``made`` instead of ``sources``; one of them may be complete."""
    names = frozenset(sources)
    recent = docket.recent
    if names.issubset(recent):
        recent = _exchanged(recent, names, made)
    return docket._replace(
        base=_rolled_up(docket.base, names, made, complete),
        drafts=_rolled_up(docket.drafts, names, made, complete),
        recent=recent,
    )


def _rolled_up(
    layer: Layer, sources: frozenset[str], made: Sequence[str], complete: str
) -> Layer:
    if not sources.issubset(layer.packs):
        return layer
    return layer._replace(
        packs=_exchanged(layer.packs, sources, made),
        complete=complete or layer.complete,
    )


def _exchanged(
    packs: Sequence[str], sources: frozenset[str], made: Sequence[str]
) -> tuple[str, ...]:
    """Return ``packs`` with others in the place of the first of ``sources``."""
    first = next(at for at, name in enumerate(packs) if name in sources)
    after = (name for name in packs[first:] if name not in sources)
    # a pack of the same objects may have the same name
    return tuple(dict.fromkeys((*packs[:first], *made, *after)))


def with_base(docket: Docket, base: Layer) -> Docket:
    """Let the base grow below the drafts, which stay."""
    return docket._replace(base=base)


def with_drafts(docket: Docket, older: Layer, recent: Layer) -> Docket:
    """Let the drafts grow."""
    drafts = older.with_above(recent)
    if drafts.files == docket.drafts.files:
        return docket
    return docket._replace(drafts=drafts, recent=recent.files)


def with_published(docket: Docket, roots: tuple[bytes, ...]) -> Docket:
    """Leave ``roots`` with the drafts, and all that descends from them."""
    return docket._replace(published=roots)


def with_held(docket: Docket, held: Iterable[tuple[bytes, bytes]]) -> Docket:
    """Keep public changesets with the drafts, each with the draft that it waits for."""
    return docket._replace(held=tuple(held))


def with_seen(
    docket: Docket, base: tuple[Checkpoint, ...], drafts: tuple[Checkpoint, ...]
) -> Docket:
    """Note the selection when all of each layer was exported."""
    return docket._replace(
        base=docket.base._replace(seen=base),
        drafts=docket.drafts._replace(seen=drafts),
    )


def settled(docket: Docket) -> Docket:
    """Count new packs: none that is in use is dropped."""
    packs = frozenset(docket.packs)
    dropped = tuple(name for name in docket.dropped if name not in packs)
    return docket._replace(dropped=dropped)


def named(docket: Docket, digest: str) -> Docket:
    """Answer again: refs lead to all that is there, and have this ``digest``."""
    return docket._replace(named=digest, refused=False)


def checked(docket: Docket, summaries: str) -> Docket:
    """Note which summaries of git were found to be right."""
    return docket._replace(summaries=summaries)


def with_tags(docket: Docket, base: Iterable[str], drafts: Iterable[str]) -> Docket:
    """Name other packs with tag objects."""
    after = docket._replace(base_tags=tuple(base), drafts_tags=tuple(drafts))
    return _dropping(docket, after)


def with_others_in(docket: Docket, packs: Collection[str]) -> Docket:
    """Name no metadata commit, and no tags, whose packs are not among ``packs``."""
    none = MetadataCommit()
    base, drafts = (
        commit if all(name in packs for name in commit.packs) else none
        for commit in (docket.base_commit, docket.drafts_commit)
    )
    docket = with_tags(
        docket,
        (it for it in docket.base_tags if it in packs),
        (it for it in docket.drafts_tags if it in packs),
    )
    return _dropping(docket, docket._replace(base_commit=base, drafts_commit=drafts))


def _dropping(before: Docket, after: Docket) -> Docket:
    """Let packs go that are named no more."""
    named = frozenset(after.packs)
    lost = (name for name in before.packs if name not in named)
    return after._replace(dropped=tuple(dict.fromkeys((*after.dropped, *lost))))
