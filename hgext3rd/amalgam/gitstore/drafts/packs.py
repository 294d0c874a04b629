"""Packs of drafts, made again without some of their objects.

git-pack-objects(1) writes what stays, in a directory where no reader looks. Deltas are
reused. What it wrote is compared with what it was asked for. A pack with many objects
is cut into several at this occasion, each with those of drafts that follow each other:
then the next departure makes only one of them again. Makes no pack visible.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from .. import packgroups
from ..git import packfiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ...files import Directory
    from ..docket import Layer
    from ..git.repository import Repository

Order = dict[bytes, int]


def sources(
    repository: Repository, layer: Layer, objects: Collection[bytes]
) -> tuple[str, ...]:
    """Return the packs of a layer that have any of ``objects``."""
    packs = repository.packs_directory
    found = []
    for name in layer.packs:
        with packfiles.open_idx(packs, name) as index:
            if any(map(index.has, objects)):
                found.append(name)
    return tuple(found)


def most_objects(repository: Repository, layer: Layer) -> int:
    """Return how many objects a pack of drafts should have at most."""
    packs = repository.packs_directory
    return packgroups.most_objects(
        packfiles.object_count(packs, name) for name in layer.packs
    )


def made_without(
    repository: Repository,
    area: Directory,
    names: Sequence[str],
    objects: Collection[bytes],
    most: int,
    order: Callable[[], Mapping[bytes, int]],
) -> tuple[str, ...]:
    """Let git make packs of what ``names`` have besides ``objects``, in ``area``.

    ``most``: of how many objects each, about. ``order`` is asked if there are more:
    objects with numbers next to each other should be in one pack. ``Abort`` if git
    fails.
    """
    packs = repository.packs_directory
    stay = [oid for oid in packfiles.distinct_ids(packs, names) if oid not in objects]
    if len(stay) <= 2 * most:
        parts = [stay] if stay else []
    else:
        number = order()
        stay.sort(key=lambda oid: (number.get(oid, -1), oid))
        parts = [stay[at : at + most] for at in range(0, len(stay), most)]
    made: list[str] = []
    for part in parts:
        made += packed(repository, area, part)
    return tuple(dict.fromkeys(made))


def made_of(
    repository: Repository,
    area: Directory,
    names: Iterable[str],
    objects: Collection[bytes],
) -> tuple[str, ...]:
    """Let git make a pack of those of ``objects`` that ``names`` have, in ``area``."""
    packs = repository.packs_directory
    with contextlib.ExitStack() as stack:
        indexes = [
            stack.enter_context(packfiles.open_idx(packs, name)) for name in names
        ]
        there = [oid for oid in objects if any(index.has(oid) for index in indexes)]
    return packed(repository, area, there)


def packed(
    repository: Repository, area: Directory, objects: Collection[bytes]
) -> tuple[str, ...]:
    """Let git make a pack of exactly these objects; none of no object."""
    oids = sorted(objects)
    made = packfiles.packed_by_git(
        repository.git, area, map(packfiles.rev_list_line, oids)
    )
    if oids and [*packfiles.distinct_ids(area, made)] != oids:
        raise error.Abort(_(b"git packed other objects than it was asked to"))
    return made
