"""What is in an object store, compared with the register.

Owns what counts as lost, and what as an orphan: an object or an upload with a key of
this repository, that no entry has, and that is older than the retention. Nothing else
in the bucket is ever touched.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hgext import clonebundles
from mercurial.i18n import _

from ....config import BundlesConfig
from ....records import Record
from ....terminal import one_line
from ....trust import Trust
from .. import publication
from ..register import Register
from . import keys, storeclient, stored

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from ..register import Entry


class StoreContents(Record):
    """A store at a glance."""

    objects: int
    """Those of this repository."""
    lost: frozenset[str]
    """Names of bundles whose object is gone, or has another size."""
    orphans: tuple[storeclient.StoredObject, ...]

    @property
    def orphan_bytes(self) -> int:
        """Return the size of the orphans, without uploads that were not finished."""
        return sum(orphan.bytes for orphan in self.orphans)


def look(repo: RepoT) -> StoreContents | None:
    """Ask the store what is there; ``None`` if no store is used.

    ``StorageError`` or ``ConfigError`` if it cannot be asked.
    """
    place = stored.chosen(repo.ui)
    if not place or not Trust.of(repo.ui, repo.store.path, repo.path).usable:
        return None
    client = storeclient.client_of(place)
    owner = keys.owner_of(repo)
    found = {it.key: it for it in client.objects() if _is_of(owner, it.key)}
    begun = [it for it in client.unfinished(owner) if _is_of(owner, it.key)]
    register = Register.read(repo)
    entries = [entry for entry in register.entries.values() if entry.key]
    needed = frozenset(entry.key for entry in entries)
    retention = BundlesConfig.from_ui(repo.ui).retention_seconds
    return StoreContents(
        objects=len(found),
        lost=frozenset(
            entry.name
            for entry in entries
            if stored.is_ours(repo, entry) and not _is_whole(entry, found)
        ),
        orphans=tuple(
            it
            for it in [*found.values(), *begun]
            if it.key not in needed and storeclient.age_seconds(it) > retention
        ),
    )


def withdraw_lost(repo: RepoT, contents: StoreContents | None) -> bool:
    """Let the state forget what is lost; tell whether there was any.

    Only for who generates. All manifests have to be written after it: then what is
    lost leaves the register, and can be made again.
    """
    if contents is None or not contents.lost:
        return False
    register = Register.read(repo)
    for name in contents.lost:
        text = _(b"warning: bundle is gone from the object store: %s")
        repo.ui.warn(one_line(text % register.entries[name].key.encode()))
        publication.retire(register, name, at_once=True)
    register.write(repo)
    with repo.clonebundles_lock():
        bundles = [it for it in clonebundles.read_auto_gen(repo) if it.ready]
        gone = [it for it in bundles if os.fsdecode(it.basename) in contents.lost]
        clonebundles.update_bundle_list(repo, del_bundles=gone)
    return True


def remove(repo: RepoT, contents: StoreContents) -> None:
    """Remove the orphans. Only for who generates: another one may be uploading."""
    client = storeclient.client_of(stored.chosen(repo.ui))
    for orphan in contents.orphans:
        if orphan.upload:
            client.abort(orphan)
        else:
            client.discard(orphan.key)


def _is_of(owner: str, key: str) -> bool:
    found = keys.KEY.fullmatch(key)
    return found is not None and found[1] == owner


def _is_whole(entry: Entry, found: dict[str, storeclient.StoredObject]) -> bool:
    return entry.key in found and found[entry.key].bytes == entry.bytes
