"""The steps of an adoption: find the commits, try them, keep them, export.

Before anything is kept, all is converted in a temporary directory, with the mirror's
commits in their places. So each tree and each parent is compared. If the dialect would
have made each commit, nothing is kept. Else the file of commits gets its name, and the
export that follows begins with it. A killed adoption has left nothing, or that file;
then it goes on with the export when it is asked for again.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ...native.errors import Moved
from ...placement import Directory
from ...records import Record
from ...scratch import scratch
from ...terminal import printable
from ..exporting.conversion import AdoptedInput, ExportConversion, UnfitError
from ..exporting.exportlock import locked
from ..state import requirements, selection
from ..state.adopted import AdoptedFile
from ..state.oidmap import MapFiles
from . import difference, mappings, mirror as mirrors

if TYPE_CHECKING:
    from ..exporting.conversion import Converted
    from ..state.selection import Selection
    from ..store import GitStore
    from .mirror import Mirror

_TRIES = 3
_PROPOSED = b"proposed"


class Adoption(Record):
    """What an adoption took over."""

    changesets: int
    """Changesets whose commits are the mirror's."""
    kept: bool
    """Whether their ids had to be kept: some are not what the dialect gives."""
    unknown: int
    """Changesets that the mirror has, and the repository has not."""
    unserved: int
    """Those that it has, and that may not leave."""


def adopt(
    store: GitStore,
    name: bytes,
    map_file: bytes | None = None,
    *,
    full: bool = False,
    rebuild: bool = False,
) -> Adoption:
    """Take the commits of the git repository ``name`` for those of their changesets.

    They count from the next export on. ``map_file``: what says whose they are, if the
    repository does not. ``full``: compare each manifest with its node, and let git
    check the repository. ``rebuild``: also if changesets have other ids already.
    ``InputError`` if a commit is not one of its changeset; ``StateError`` if other
    commits were adopted before. Takes as long as an export from nothing.
    """
    store.require_trust()
    requirements.check(store.repo)
    kept = store.adopted.pairs()
    with scratch(store.repo) as path:
        mirror = mirrors.opened(name, store.repository.git, path)
        index = store.repo.unfiltered().changelog.index
        mapping = mappings.read(mirror, map_file, index.has_node)
        selected = selection.select(store.repo, store.config.export)
        taken = {
            node: oid for node, oid in mapping.items() if selected.has(store.repo, node)
        }
        mappings.check(taken)
        unknown = sum(not index.has_node(node) for node in mapping)
        report = Adoption(
            changesets=len(taken),
            kept=True,
            unknown=unknown,
            unserved=len(mapping) - len(taken) - unknown,
        )
        if not taken:
            raise error.InputError(
                _(b"no changeset that may leave has a commit in '%s'") % printable(name)
            )
        if kept:
            _check_same(store, kept, taken)
            return report
        if full:
            mirror.check()
        proposed = AdoptedFile(Directory(path), _PROPOSED, store.trust)
        proposed.write(mirror.commits(sorted(taken.items())), store.placement)
        if not _is_foreign(store, proposed, selected, mirror, taken, path, full=full):
            return report._replace(kept=False)
        store.directory.make(store.placement)
        with locked(store):
            docket = store.docket()
            if docket.segments and not docket.adopted and not rebuild:
                raise error.StateError(
                    _(b"changesets were exported with other ids already"),
                    hint=_(b"use --rebuild to replace them by those of '%s'")
                    % printable(name),
                )
            if store.adopted.exists():
                raise _adopted_before(store)
            proposed.place(store.adopted, store.placement)
    return report


def _check_same(
    store: GitStore, kept: dict[bytes, bytes], taken: dict[bytes, bytes]
) -> None:
    """Abort if commits are to be adopted that are not those which were."""
    if any(kept.get(node) != oid for node, oid in taken.items()):
        raise _adopted_before(store)


def _adopted_before(store: GitStore) -> error.StateError:
    path = store.adopted.directory.join(store.adopted.name)
    return error.StateError(
        _(b"other commits were adopted before"),
        hint=_(b"ids never change: export, or begin anew without '%s'") % path,
    )


def _is_foreign(
    store: GitStore,
    proposed: AdoptedFile,
    selected: Selection,
    mirror: Mirror,
    taken: dict[bytes, bytes],
    path: bytes,
    *,
    full: bool,
) -> bool:
    """Convert all with the commits that are proposed; tell whether any has to be kept.

    ``path`` is a directory of ours. ``InputError`` if one cannot be its changeset's.
    """
    packs, maps = Directory(path, (b"packs",)), Directory(path, (b"map",))
    for made in (packs, maps):
        made.make(store.placement)
    conversion = ExportConversion.of(
        store.repo, store.config, packs, MapFiles(maps, store.trust)
    )._replace(
        adopted=AdoptedInput(proposed, is_judged=True),
        keeps_metadata=False,
        check_each_manifest=full,
    )
    try:
        return bool(_converted(store, conversion, selected).foreign)
    except UnfitError as exc:
        raise difference.refusal(store.repo, mirror, exc.unfit, taken) from None


def _converted(
    store: GitStore, conversion: ExportConversion, selected: Selection
) -> Converted:
    for _try in range(_TRIES):
        with contextlib.suppress(Moved):
            return conversion.run(store.repo.ui, selected, 0)
        selection.read_again(store.repo)
        selected = selection.select(store.repo, store.config.export)
    raise error.StateError(
        _(b"repository kept changing while commits were adopted"),
        hint=_(b"try again"),
    )
