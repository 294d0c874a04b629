"""Git bundles: their kinds, and ``write``.

``write`` updates the git store and streams a bundle of it. A file is a few lines of
text and a pack, gitformat-bundle(5), docs/formats/bundles.rst. Knows no manifests, URLs
or files: the caller supplies the output.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..config import GitConfig
from ..configitems import CINNABAR_V1, GIT_FORMATS, GIT_V2
from ..core.errors import Moved
from ..damage import is_repository_error
from ..gitstore import selection
from ..gitstore.export import export, maintenance
from ..gitstore.export.metadatacommit import Covers
from ..gitstore.fetchedrefs import FetchedRefs
from ..gitstore.store import GitStore, has_foreign_ids
from ..records import Record
from . import bundlescope
from .bundlepack import PACK_HEADER, BehindError, Content, of_history
from .bundlescope import NothingToBundleError
from .cinnabarbundle import of_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Protocol

    from mercurial.interfaces.types import RepoT, UiT

    class Out(Protocol):
        """Where a bundle goes."""

        def write(self, data: bytes, /) -> object:
            """Take all of ``data``."""


__all__ = [
    "NothingToBundleError",
    "Written",
    "check",
    "write",
]

FILTERS = (b"blob:none",)

# git-cinnabar has no way to pull these: it asks for changegroups of version 2
_UNKNOWN_TO_CINNABAR = (b"lfs", b"treemanifest")
# Between an export and the reading of its packs, others may change the repository,
# or merge the files of its map.
_TRIES = 5


class Written(Record):
    """Description of a bundle that was written."""

    kind: bytes
    """One of ``GIT_FORMATS``."""
    changesets: int
    """Changesets whose commits are in it."""
    objects: int
    """Git objects in its pack."""
    heads: tuple[bytes, ...]
    """Heads of its changesets, with those of its base: the base of the next
    increment."""
    refs: Mapping[bytes, bytes]
    """Names in its header, and their oids (20 bytes)."""
    prerequisites: tuple[bytes, ...]
    """Oids of the commits that it needs; none if it is a full one."""
    seconds: float
    """Wall time of all, the export included."""
    bytes: int
    """Size of the file."""


def check(
    repo: RepoT, kind: bytes, has_base: bool = False, filter: bytes = b""
) -> None:
    """Abort if ``kind`` is unknown, or impossible for ``repo``.

    ``InputError`` or ``StateError``. Quick.
    """
    if kind not in GIT_FORMATS:
        raise error.InputError(
            _(b"unknown type of git bundle: '%s'") % kind,
            hint=_(b"allowed: %s") % b", ".join(GIT_FORMATS),
        )
    if filter and filter not in FILTERS:
        raise error.InputError(
            _(b"unknown filter of git objects: '%s'") % filter,
            hint=_(b"allowed: %s") % b", ".join(FILTERS),
        )
    if kind != CINNABAR_V1:
        return
    if has_base or filter:
        refused = _(b"be based on others") if has_base else _(b"leave objects out")
        raise error.InputError(
            _(b"bundles of type '%s' cannot %s") % (kind, refused),
            hint=_(b"git-cinnabar reads complete bundles only; use type '%s'") % GIT_V2,
        )
    missing = sorted(repo.requirements.intersection(_UNKNOWN_TO_CINNABAR))
    if missing:
        raise error.StateError(
            _(b"git-cinnabar cannot use a repository that requires: %s")
            % b", ".join(missing),
            hint=_(b"use a bundle of type '%s'") % GIT_V2,
        )
    if has_foreign_ids(repo):
        raise error.StateError(
            _(b"git-cinnabar would give some changesets other commit ids"),
            hint=_(b"use a bundle of type '%s'") % GIT_V2,
        )


def write(
    repo: RepoT,
    config: GitConfig,
    out: Out,
    kind: bytes,
    *,
    nodes: Sequence[bytes] | None = None,
    base: Sequence[bytes] = (),
    filter: bytes = b"",
    public_only: bool = False,
    tips_only: bool = False,
) -> Written:
    """Export, then write a bundle of ``kind`` to ``out``.

    It contains the selection (``amalgam.git.export``), or with ``public_only`` its
    public changesets; with ``nodes``, only these and their ancestors. It leaves out
    ``base`` and its ancestors, which the reader must have. ``filter``: one of
    ``FILTERS``. ``tips_only``: the header names only as many branches as reach all of
    them, instead of HEAD, branches and tags. The last three are for git only.

    ``SecurityError`` in the repository of an untrusted user; ``InputError`` for an
    impossible request, ``NothingToBundleError`` for an empty one; the errors of
    ``GitStore.export``; ``OSError`` of ``out``. After an error, ``out`` is incomplete.
    Memory is in proportion to the number of changesets.
    """
    started = time.monotonic()
    check(repo, kind, bool(base), filter)
    if kind == CINNABAR_V1:
        config = GitConfig.from_ui(repo.ui, b"cinnabar")
    store = GitStore(repo, config)
    store.require_trust()
    covers = None
    if kind == CINNABAR_V1 and nodes is None:
        covers = Covers.BASE if public_only else Covers.ALL
    with contextlib.ExitStack() as stack:
        cause: Exception | None = None
        for _try in range(_TRIES):
            state = selection.state_of(store.repo)
            export.export(store, covers=covers)
            made = _content(store, kind, nodes, base, filter, public_only, tips_only)
            try:
                content = stack.enter_context(made)
                break
            except (BehindError, Moved, FileNotFoundError) as exc:
                cause = exc
            except Exception as exc:
                moved = selection.state_of(store.repo) != state
                if not moved or not is_repository_error(exc):
                    raise
                cause = exc
        else:
            raise error.StateError(
                _(b"repository kept changing while it was bundled"),
                hint=_(b"try again"),
            ) from cause
        objects, size = _stream(repo.ui, out, content.header(filter), content)
    written = Written(
        kind=kind,
        changesets=content.changesets,
        objects=objects,
        bytes=size,
        heads=content.heads,
        refs=content.refs,
        prerequisites=content.prerequisites,
        seconds=time.monotonic() - started,
    )
    maintenance.after_export(store)
    return written


@contextlib.contextmanager
def _content(
    store: GitStore,
    kind: bytes,
    nodes: Sequence[bytes] | None,
    base: Sequence[bytes],
    filter: bytes,
    public_only: bool,
    tips_only: bool,
) -> Iterator[Content]:
    """Return the bundle that ``write`` was called for, from exported packs."""
    repo = store.repo
    export = b"public" if public_only else store.config.export
    bundlescope.check(repo, export, (*(nodes or ()), *base))
    if kind == CINNABAR_V1:
        made = of_metadata(store, export, nodes)
    else:
        kinds, main_line = store.config.refs, FetchedRefs(store).main_line()
        part = bundlescope.named(
            *(repo, export, kinds, main_line, nodes, base), tips_only=tips_only
        )
        made = of_history(store, export, part, filter)
    with made as content:
        yield content


def _stream(ui: UiT, out: Out, header: bytes, content: Content) -> tuple[int, int]:
    """Write a bundle; return how many objects it has, and its size in bytes."""
    size = objects = 0
    with ui.makeprogress(_(b"bundling"), unit=_(b"bytes")) as progress:
        for piece in itertools.chain([header], content.pack):
            if size == len(header):
                _magic, _version, objects = PACK_HEADER.unpack_from(piece)
            out.write(piece)
            size += len(piece)
            known = content.copied_bytes and len(header) + content.copied_bytes
            progress.update(size, total=max(known, size) if known else None)
    return objects, size
