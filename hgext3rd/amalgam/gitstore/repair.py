"""Repair of a git store after a verification.

Removes foreign files, then exports what is missing, or everything. All data is derived,
so all of it can be made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import verify
from .exporting import export
from .exporting.exportlock import locked
from .git import branchtips
from .state.docket import Docket
from .verify import Remedy
from .verify.files import foreign_files

if TYPE_CHECKING:
    from .store import GitStore
    from .verify import Findings


# what is not ours may have been all there was of what we need
_ROUNDS = 2


def repair(store: GitStore) -> tuple[Findings, Findings]:
    """Verify ``store``, mend it, and verify again; return the first and last findings.

    With nothing to mend nothing is written, and both are the same. Takes as long as a
    verification, or two with an export between them.
    """
    store.require_trust()
    before = findings = verify.run(store)
    for _round in range(_ROUNDS):
        if findings.remedy is None:
            break
        _apply(store, findings.remedy)
        findings = verify.run(store)
    return before, findings


def _apply(store: GitStore, remedy: Remedy) -> None:
    if remedy is not Remedy.EXPORT:
        _remove_foreign(store)
    branchtips.forget(store.maps.directory, store.config.dialect)
    export.export(store, rebuild=remedy is Remedy.REBUILD)
    if remedy is Remedy.REBUILD:
        _remove_foreign(store)  # what is left of packs that were ours


def _remove_foreign(store: GitStore) -> None:
    with locked(store):
        docket = Docket.read(store.maps.directory, store.config.dialect)
        for file in foreign_files(store.repository, docket):
            store.repository.directory.remove(file)
