"""Roll-ups of packs, while exports go on.

Each export adds packs. When the packs of a group are due (``packgroups``),
git-pack-objects(1) makes one of them. Its objects must be exactly those of the replaced
packs, which is checked. Only the exchange needs the lock of exports. It is refused if
the docket no longer names the packs, or if a text was censored.

Then maintenance lets git write summaries of the complete pack of the base: it changes
only when the history has doubled, and never has drafts.

A killed roll-up leaves a directory without a lock, and the next run removes it.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from typing import TYPE_CHECKING, Any

from mercurial import error, pycompat
from mercurial.i18n import _

from ... import background
from ...terminal import one_line
from .. import censorship, failures, packgroups
from ..docket import Docket
from ..failures import Failure
from ..git import layout, packfiles, summaries
from ..git.refs import METADATA
from ..oidmap import ID_LEN, Table
from . import request
from .writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...files import Directory
    from ..packgroups import RollUp
    from ..store import GitStore

# each leaves fewer packs; those of exports meanwhile may be due again
_MOST_ROLL_UPS = 16
# With --stdin-packs, git walks the history once, to find names for the delta search.
# That is worth it if the rolled-up packs have this part of all objects.
_WALK_SHARE = 1 / 16
# without names it compares more objects of similar size
_WINDOW_WITHOUT_NAMES = "--window=50"
# A clone of fewer objects takes less than 0.2 seconds without summaries (2026-11-22).
_SUMMARISED_FROM = 20_000
# git's bitmaps of so many heads take 1.1 s of CPU, of 30,000 4.7 s, of 100,000 over
# 90 s. With 30,000, a clone of all takes as long with them as without (2026-11-26).
_MOST_BITMAPPED = 10_000
_PAIR_LEN = 2 * ID_LEN
_ERRORS = (error.Abort, error.StorageError, error.LockError, OSError)
COMMAND = b"debug::amalgam-maintenance"
"""The command of the background process."""
# in the directory of the exporter: why the last roll-up failed
_FAILURE = b"maintenance-failure"


def after_export(store: GitStore) -> None:
    """Roll up packs that are due, if any; warn if that fails.

    The export itself has succeeded, and the next one tries again. Summaries are left to
    background processes: they may take as long as the export.
    """
    try:
        if _due(store, _docket(store)):
            run(store, summarises=False)
    except _ERRORS as exc:
        text = _(b"warning: cannot roll up packs: %s") % pycompat.bytestr(exc)
        store.repo.ui.warn(one_line(text))


def is_due(store: GitStore) -> bool:
    """Return whether packs or summaries are due."""
    docket = _docket(store)
    return bool(_due(store, docket) or _unsummarised(store, docket))


def failure(store: GitStore) -> Failure | None:
    """Return why packs that are due have not been rolled up, if that failed."""
    found = Failure.read(request.exporter_directory(store.repo), _FAILURE)
    with contextlib.suppress(OSError, error.StorageError):
        if found and not is_due(store):
            return None
    return found


def run(store: GitStore, *, summarises: bool = True) -> int:
    """Roll up all that is due; return how many packs have gone.

    ``summarises``: let git write summaries, too, if they are due. Does nothing while
    another process rolls up. ``Abort`` if git fails, ``LockError`` if the lock of
    exports cannot be had. ``failure`` tells it until a run succeeds.
    """
    store.require_trust()
    background.forget(store.repo, COMMAND)
    directory = request.exporter_directory(store.repo)
    try:
        gone = _run(store, summarises)
    except _ERRORS as exc:
        before = Failure.read(directory, _FAILURE)
        reason = failures.short(failures.reason_of(exc))
        found = Failure(reason, before.attempts + 1 if before else 1)
        with contextlib.suppress(OSError, error.StorageError):
            directory.make(store.placement)
        found.write(directory, _FAILURE, store.placement)
        raise
    failures.forget(directory, _FAILURE)
    return gone


def _run(store: GitStore, summarises: bool) -> int:
    _clear_up(store)
    if layout.sweep_staging(store.repository.directory):
        return 0
    before = len(_docket(store).packs)
    for _roll_up in range(_MOST_ROLL_UPS):
        docket = _docket(store)
        due = _due(store, docket)
        if not due or not _is_whole(store, docket):
            break
        if not _rolled_up(store, docket, due[0]):
            break
    docket = _docket(store)
    pack = _unsummarised(store, docket) if summarises else ""
    if pack and _is_whole(store, docket):
        _summarise(store, docket, pack)
    return max(0, before - len(docket.packs))


def _clear_up(store: GitStore) -> None:
    """Remove files of a run that was killed while it exchanged packs."""
    if store.pending_packs():
        with store.locked():
            files = StoreWriter(store)
            files.read()
            files.remove_debris()


def _docket(store: GitStore) -> Docket:
    return Docket.read(store.maps.directory, store.config.dialect)


def _due(store: GitStore, docket: Docket) -> list[RollUp]:
    packs = store.repository.packs_directory
    return packgroups.due(docket, lambda name: packfiles.object_count(packs, name))


def _is_whole(store: GitStore, docket: Docket) -> bool:
    """Return whether the files are those of the last export."""
    return (
        not docket.refused
        and docket.censored == censorship.mark_of(store.repo)
        and store.repository.packs().issuperset(docket.packs)
    )


def _rolled_up(store: GitStore, docket: Docket, due: RollUp) -> bool:
    """Make a pack of those that are due, and exchange them; return whether it did.

    It did not if the store has changed so that it must not.
    """
    sources, splits = due.packs, due.is_whole and _is_worth_a_split(store, docket)
    if splits:
        complete_before = packgroups.lowest(docket).complete
        sources = (*filter(None, [complete_before]), *sources)
    repository = store.repository
    try:
        with layout.staging_area(
            repository.directory, store.placement, sources
        ) as area:
            make = _split if splits else _joined
            made = make(store, docket, sources, area)
            if not _is_exact(repository.packs_directory, sources, area, made):
                raise error.Abort(
                    _(b"git packed other objects than it was asked to"),
                    hint=_(b"run 'hg git::verify'"),
                )
            complete = made[0] if splits else ""
            with store.locked():
                files = StoreWriter(store)
                files.read()
                files.remove_debris()
                return files.exchange(area, sources, made, complete)
    except (error.Abort, FileNotFoundError):
        # git misses packs that an export or another git removes meanwhile
        if repository.packs().issuperset(sources):
            raise
        return False


def _unsummarised(store: GitStore, docket: Docket) -> str:
    """Return the pack whose summaries are due, without suffix; empty for none."""
    pack, repository = docket.base.complete, store.repository
    count = packfiles.object_count(repository.packs_directory, pack) if pack else 0
    if count < _SUMMARISED_FROM:
        return ""
    directory, dialect = store.maps.directory, store.config.dialect
    made = summaries.Summarised.read(directory, dialect)
    there = summaries.digest(repository)
    return "" if made == summaries.Summarised(pack, there) else pack


def _summarise(store: GitStore, docket: Docket, pack: str) -> None:
    """Let git write summaries of ``pack``, and take them if it still counts."""
    repository, placement = store.repository, store.placement
    try:
        refs = repository.targets()
        named = [oid for name, oid in refs.items() if name != METADATA]
        tips = bitmapped = _tips(store, docket, pack, named)
        if not tips:
            return
        if len(tips) > _MOST_BITMAPPED:
            main = refs.get(repository.head(), named[0])
            bitmapped = _tips(store, docket, pack, [main])
        with layout.staging_area(repository.directory, placement, (pack,)) as area:
            objects = layout.staged_objects(area)
            summaries.make(repository, objects, pack, tips, bitmapped, placement)
            with store.locked():
                files = StoreWriter(store)
                files.read()
                files.remove_debris()
                files.summarise(area, pack)
    except (error.Abort, FileNotFoundError):
        if repository.packs().issuperset((pack,)):
            raise


def _tips(
    store: GitStore, docket: Docket, pack: str, named: Sequence[bytes]
) -> list[bytes]:
    """Return the commits of ``pack`` nearest to ``named``, which they lead to.

    Commits that are not in it are followed to their parents.
    """
    changelog = store.repo.unfiltered().changelog
    tips: dict[bytes, None] = {}
    with (
        contextlib.closing(store.open_map(docket)) as oidmap,
        packfiles.open_idx(store.repository.packs_directory, pack) as index,
    ):
        nodes = oidmap.changesets(named)
        todo = {rev for node in nodes if (rev := _rev(changelog, node)) is not None}
        seen: set[int] = set()
        while todo:
            seen |= todo
            revs = sorted(todo)
            oids = oidmap.oids([changelog.node(rev) for rev in revs])
            todo = set()
            for rev, oid in zip(revs, oids, strict=True):
                if oid is not None and index.has(oid):
                    tips[oid] = None
                else:
                    todo.update(up for up in changelog.parentrevs(rev) if up >= 0)
            todo -= seen
    return list(tips)


def _rev(changelog: Any, node: bytes | None) -> int | None:
    return None if node is None else changelog.index.get_rev(node)


def _is_worth_a_split(store: GitStore, docket: Docket) -> bool:
    lowest = packgroups.lowest(docket)
    with contextlib.closing(store.maps.open(lowest.segments)) as oidmap:
        return bool(oidmap.count(Table.CHANGESETS) >= packgroups.APART_FROM)


def _commits(store: GitStore, docket: Docket) -> Iterator[bytes]:
    """Yield the commits of all changesets of the lowest layer that have one."""
    lowest = packgroups.lowest(docket)
    with contextlib.closing(store.maps.open(lowest.segments)) as oidmap:
        for pairs, _count in oidmap.pairs(Table.CHANGESETS):
            for at in range(0, len(pairs), _PAIR_LEN):
                oid = pairs[at + ID_LEN : at + _PAIR_LEN]
                if any(oid):
                    yield oid


def _joined(
    store: GitStore, docket: Docket, sources: Iterable[str], area: Directory
) -> tuple[str, ...]:
    """Make one pack of all."""
    git = store.repository.git
    packs = store.repository.packs_directory
    total = sum(packfiles.object_count(packs, name) for name in docket.packs)
    share = sum(packfiles.object_count(packs, name) for name in sources)
    if share >= _WALK_SHARE * total:
        names = (b"%s.pack\n" % name.encode("ascii") for name in sources)
        return packfiles.packed_by_git(git, area, names, "--stdin-packs")
    oids = packfiles.distinct_ids(packs, sources)
    return packfiles.packed_by_git(
        git, area, map(packfiles.rev_list_line, oids), _WINDOW_WITHOUT_NAMES
    )


def _split(
    store: GitStore, docket: Docket, sources: Iterable[str], area: Directory
) -> tuple[str, ...]:
    """Make the complete pack for git clients, and one of all other objects."""
    git = store.repository.git
    tips = map(packfiles.rev_list_line, _commits(store, docket))
    (complete,) = packfiles.packed_by_git(git, area, tips, "--revs")
    oids = packfiles.distinct_ids(store.repository.packs_directory, sources)
    with packfiles.open_idx(area, complete) as index:
        others = (packfiles.rev_list_line(oid) for oid in oids if not index.has(oid))
        return (
            complete,
            *packfiles.packed_by_git(git, area, others, _WINDOW_WITHOUT_NAMES),
        )


def _is_exact(
    packs: Directory, sources: Iterable[str], area: Directory, made: Iterable[str]
) -> bool:
    """Return whether the new packs have all objects of the sources, once."""
    there = heapq.merge(*(packfiles.object_ids(area, name) for name in made))
    wanted = packfiles.distinct_ids(packs, sources)
    pairs = itertools.zip_longest(wanted, there)
    return all(left == right for left, right in pairs)
