"""The steps of an adoption: find the commits, try them, keep them, export.

Before anything is kept, all is converted in a temporary directory, with the mirror's
commits in their places. So each tree and each parent is compared. If the dialect would
have made each commit, nothing is kept. Else the file of commits gets its name, and the
export that follows begins with it. A killed adoption has left nothing, or that file;
then it goes on with the export when it is asked for again.

If a commit differs from its changeset, the message says where.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ...core.errors import Moved
from ...files import Directory
from ...records import Record
from ...scratch import scratch
from ...terminal import printable
from .. import requirements, selection
from ..adopted import AdoptedFile
from ..export.conversion import AdoptedInput, ExportConversion, UnfitError
from ..git.comparison import Differing, differences
from ..imported import ImportedFiles
from ..oidmap import MapFiles
from . import mappings, mirror as mirrors

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from ..export.conversion import Converted, Unfit
    from ..selection import Selection
    from ..store import GitStore
    from .mirror import Mirror


_WHAT = {
    Differing.ONLY_HG: _(b"is not in the commit"),
    Differing.ONLY_GIT: _(b"is only in the commit"),
    Differing.CONTENT: _(b"has another content"),
}
# hg-fast-export leaves it out, and that is accepted
_LEFT_OUT = b".hgtags"
_MISFITS = {
    2: _(b"its parents are not the commits of the changeset's parents"),
    3: _(b"its lines are not those of a commit"),
    4: _(b"another changeset has it"),
}


def refusal_of_difference(
    repo: RepoT, mirror: Mirror, unfit: Unfit, mapping: dict[bytes, bytes]
) -> error.InputError:
    """Return the error for a commit that does not fit its changeset."""
    oid, hint = mapping[unfit.node], None
    what = _MISFITS.get(unfit.misfit)
    if what is None:
        commit = next(iter(mirror.commits([(unfit.node, oid)])))
        path, what = first_difference(repo, mirror, unfit.node, commit.tree)
        what = _(b"file '%s' %s") % (printable(path), what)
        hint = _(b"a mirror whose files were filtered or changed cannot be adopted")
    text = _(b"commit %s is not one of changeset %s: %s")
    names = oid.hex().encode(), unfit.node.hex().encode()
    return error.InputError(text % (*names, what), hint=hint)


def first_difference(
    repo: RepoT, mirror: Mirror, node: bytes, tree: bytes
) -> tuple[bytes, bytes]:
    """Return the first path that differs, and how. Reads the files before it."""
    for it in differences(repo.unfiltered()[node], mirror.tree(tree)):
        if it.kind is Differing.MODE:
            return it.path, _(b"has mode %s, expected %s") % (it.found, it.expected)
        if it.path != _LEFT_OUT or it.kind is not Differing.ONLY_HG:
            return it.path, _WHAT[it.kind]
    return b"", _(b"differs in form only")


_TRIES = 3
_PROPOSED = b"proposed"


class Adoption(Record):
    """Result of an adoption."""

    changesets: int
    """Changesets whose commits are the mirror's."""
    kept: bool
    """Whether their ids are kept: some differ from the dialect's."""
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
    """Adopt the commits of the git repository ``name``.

    They count from the next export on. ``map_file``: their changesets, if the
    repository does not have them. ``full``: compare each manifest with its node, and
    let git check the repository. ``rebuild``: even if changesets have other ids
    already. ``InputError`` if a commit does not fit its changeset; ``StateError`` if
    other commits were adopted before. Takes as long as an export from nothing.
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
                _(b"no changeset that may leave has a commit in '%s'")
                % printable(name),
                hint=_(
                    b"is it a mirror of this repository? secret changesets do not count"
                ),
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
        with store.locked():
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
    """Convert everything with the proposed commits; return whether any must be kept.

    ``path`` is a directory of ours. ``InputError`` if a commit does not fit.
    """
    packs, maps = Directory(path, (b"packs",)), Directory(path, (b"map",))
    for made in (packs, maps):
        made.make(store.placement)
    conversion = ExportConversion.of(
        *(store.repo, store.config, packs, MapFiles(maps, store.trust)),
        imported=ImportedFiles.of(store),
    )._replace(
        adopted=AdoptedInput(proposed, is_judged=True),
        keeps_metadata=False,
        check_each_manifest=full,
    )
    try:
        return bool(_converted(store, conversion, selected).foreign)
    except UnfitError as exc:
        raise refusal_of_difference(store.repo, mirror, exc.unfit, taken) from None


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
