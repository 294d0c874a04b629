"""Bundles for git-cinnabar: commits, and the metadata of exactly these commits.

A store may have a metadata commit of its public changesets, and one of all changesets.
Metadata of another part of the history is made in a temporary directory, by an export
of only that part. So it equals git-cinnabar's own for a clone of the part.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ..files import Directory, Placement
from ..gitstore import selection
from ..gitstore.export.conversion import ExportConversion
from ..gitstore.git import packfiles
from ..gitstore.git.refs import METADATA
from ..gitstore.git.repository import make_empty
from ..gitstore.oidmap import MapFiles, Table
from ..gitstore.plan import ExportPlan
from ..scratch import scratch
from . import bundlepack
from .bundlepack import Content, PackRequest
from .bundlescope import NothingToBundleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..gitstore.docket import Docket, Layer, MetadataCommit
    from ..gitstore.selection import Selection
    from ..gitstore.store import GitStore

# Packs other than the two largest (git's and git-cinnabar's) may have
# so much of a layer's bytes. They were packed each for itself, which git does better.
_OTHERS_SHARE = 0.02


@contextlib.contextmanager
def of_metadata(
    store: GitStore, export: bytes, nodes: Sequence[bytes] | None
) -> Iterator[Content]:
    """Return a bundle for git-cinnabar.

    ``export`` is the selection; ``nodes``: only these and their ancestors.
    ``BehindError`` if one is not exported, ``core.errors.Moved`` if the repository
    changes meanwhile.
    """
    docket = store.docket()
    selected = _select(store, docket, export, nodes)
    if not selected.changesets():
        raise NothingToBundleError
    changelog = store.repo.unfiltered().changelog
    heads = changelog.index.headrevs(frozenset(selected.excluded))
    nodes = tuple(map(changelog.node, sorted(heads)))
    found = _layer_of(store, docket, selected.changesets(), nodes)
    if found:
        made = _exported(store, docket, *found, selected)
    else:
        made = _converted(store, selected)
    with made as (commit, pack):
        refs = {METADATA: bytes.fromhex(commit)}
        yield Content(selected.changesets(), nodes, refs, (), pack)


def _select(
    store: GitStore, docket: Docket, export: bytes, nodes: Sequence[bytes] | None
) -> Selection:
    if nodes is not None:
        return selection.select(store.repo, export, nodes)
    wanted = ExportPlan.of(store.repo, store.config.export, docket)
    # without held changesets, whose commit ids depend on drafts
    return wanted.all_public if export == b"public" else wanted.allowed


def _layer_of(
    store: GitStore, docket: Docket, count: int, heads: Sequence[bytes]
) -> tuple[Layer, MetadataCommit] | None:
    """Return the layer of just these changesets, and its commit, if they are there.

    ``count`` is how many they are, ``heads`` those without children.
    """
    both = docket.base.with_above(docket.drafts), docket.drafts_commit
    for layer, commit in ((docket.base, docket.base_commit), both):
        with contextlib.closing(store.maps.open(layer.segments)) as oidmap:
            # both are closed under ancestors
            if (
                oidmap.count(Table.CHANGESETS) == count == commit.covered
                and commit.oid
                and None not in oidmap.oids(heads)
            ):
                return layer, commit
    return None


@contextlib.contextmanager
def _exported(
    store: GitStore,
    docket: Docket,
    layer: Layer,
    commit: MetadataCommit,
    selected: Selection,
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Return the metadata commit of a layer, and a pack of all that it leads to."""
    repository = store.repository
    repository.git.check()
    names = (*layer.packs, *commit.packs)
    whole = _are_mostly_two([repository.pack_bytes(name) for name in layer.packs])
    with contextlib.ExitStack() as stack:
        if whole and packfiles.are_disjoint(repository.packs_directory, names):
            pack = _joined(stack, repository.packs_directory, names)
        else:
            wanted = PackRequest((bytes.fromhex(commit.oid),))
            revs = {*range(selected.len)} - selected.excluded.keys()
            copy = bundlepack.find_copyable(store, docket, revs, None)
            if copy is None:
                pack = stack.enter_context(
                    bundlepack.packed_by_git(repository.git, wanted)
                )
            else:
                copied = stack.enter_context(
                    bundlepack.copied_pack(copy.packs, copy.pack)
                )
                rest = bundlepack.packed_by_git(repository.git, copy.rest(wanted))
                others = copy.followed_by(stack.enter_context(rest))
                pack = bundlepack.joined_packs([copied, others])
        yield commit.oid, pack


def _joined(
    stack: contextlib.ExitStack, directory: Directory, names: Iterable[str]
) -> Iterator[bytes]:
    sources = [bundlepack.copied_pack(directory, name) for name in names]
    return bundlepack.joined_packs([stack.enter_context(source) for source in sources])


def _are_mostly_two(sizes: Sequence[int]) -> bool:
    return sum(sorted(sizes)[:-2]) <= _OTHERS_SHARE * sum(sizes)


@contextlib.contextmanager
def _converted(
    store: GitStore, selected: Selection
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Return the same of any changesets, which are converted again for that."""
    repo = store.repo
    with scratch(repo) as directory:
        packs_path = os.path.join(directory, b"objects", b"pack")
        os.makedirs(packs_path)
        maps = MapFiles(Directory(directory), store.trust)
        made = Directory(packs_path)
        conversion = ExportConversion.of(repo, store.config, made, maps)
        done = conversion.run(repo.ui, selected, 0, names_heads=True)
        commit = done.commit.oid
        with contextlib.ExitStack() as stack:
            if packfiles.are_disjoint(made, done.packs):
                pack = _joined(stack, made, done.packs)
            else:
                own = Directory(directory)
                make_empty(own, Placement(0o700, os.geteuid(), os.getegid()))
                git = store.repository.git._replace(directory=own)
                wanted = PackRequest((bytes.fromhex(commit),))
                pack = stack.enter_context(bundlepack.packed_by_git(git, wanted))
            yield commit, pack
