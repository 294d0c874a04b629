"""One call of the conversion: the request to the native core, and its report.

Owns the fields of ``amalgam_export_request``. Decides nothing.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from ...core._core import ffi, lib
from ...core.buffers import lent, lent_list
from ...core.operation import Operation
from ...files import Placement
from ...index import hooks
from ...records import Record
from .. import requirements
from ..docket import Layer, MetadataCommit
from ..oidmap import ID_LEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from ...config import GitConfig
    from ...files import Directory
    from ..adopted import AdoptedFile
    from ..oidmap import MapFiles
    from ..selection import Selection
    from ..store import GitStore

# phases of amalgam_export_run: topic and unit of the progress bar
_PHASES = {
    0: (_(b"reading changesets"), _(b"changesets")),
    1: (_(b"reading manifests"), _(b"manifests")),
    2: (_(b"exporting files"), _(b"revisions")),
    3: (_(b"exporting changesets"), _(b"changesets")),
}
_LEVEL = 1
# values of amalgam_export_request.check_texts
_CHECK, _CHECK_EACH = 1, 2
_NOTHING = Layer()
# as all ones in the core: no user, or no group, that files are given to
_NOBODY = 0xFFFFFFFF
_PRIVATE = Placement(0o700, _NOBODY, _NOBODY)

_Id = bytes
_Nodes = tuple[_Id, _Id]


class Unfit(Record):
    """A changeset whose adopted commit is not one of it."""

    node: bytes
    misfit: int
    """What is wrong, as ``amalgam_export_report`` numbers it."""


class UnfitError(error.StorageError):
    """An adopted commit is not one of its changeset."""

    def __init__(self, unfit: Unfit) -> None:
        super().__init__(
            _(b"the adopted commit of changeset %s is not one of it")
            % unfit.node.hex().encode(),
            hint=_(b"see 'hg verify'"),
        )
        self.unfit = unfit


class AdoptedInput(Record):
    """The adopted commits of a conversion."""

    file: AdoptedFile
    is_judged: bool = False
    """Whether to find out if the dialect would have made them."""


class ExportConversion(Record):
    """From where to where; the same for all runs of an export."""

    repo: RepoT
    store_path: bytes
    encoding: int
    tree_manifests: bool
    packs: Directory
    maps: MapFiles
    prefix: bytes
    """How the names of the map's files begin."""
    placement: Placement
    """The mode, owner and group of what is written."""
    check_texts: bool
    memory_bytes: int
    """Bound of the anonymous memory."""
    check_each_manifest: bool = False
    """If texts are checked, large manifests as well, each by itself."""
    adopted: AdoptedInput | None = None
    """The commits that were adopted, if there are any when it runs."""
    keeps_metadata: bool = True
    """Whether to make what only git-cinnabar needs."""

    @classmethod
    def of(
        cls,
        repo: RepoT,
        config: GitConfig,
        packs: Directory,
        maps: MapFiles,
        placement: Placement = _PRIVATE,
        adopted: AdoptedFile | None = None,
    ) -> ExportConversion:
        """From the store of ``repo``; by default for the user alone."""
        return cls(
            repo=repo,
            store_path=repo.store.path,
            encoding=requirements.encoding(repo),
            tree_manifests=requirements.has_tree_manifests(repo),
            packs=packs,
            maps=maps,
            prefix=config.dialect,
            placement=placement,
            check_texts=config.check_texts,
            memory_bytes=config.memory_bytes,
            adopted=AdoptedInput(adopted) if adopted else None,
        )

    @classmethod
    def into(cls, store: GitStore) -> ExportConversion:
        """Into ``store`` itself."""
        return cls.of(
            store.repo,
            store.config,
            store.repository.packs_directory,
            store.maps,
            store.placement,
            store.adopted,
        )

    def run(
        self,
        ui: UiT,
        selected: Selection,
        known_below: int,
        layer: Layer = _NOTHING,
        base: Layer = _NOTHING,
        *,
        names_heads: bool = False,
    ) -> Converted:
        """Convert what is selected, but not what ``base`` and ``layer`` have.

        What is new becomes part of ``layer``. ``names_heads``: make the metadata commit
        as well, if ``base`` and ``layer`` have nothing, and no commits are adopted:
        git-cinnabar has other ids then. ``native.errors.Moved`` if the
        repository is not as ``selected`` says.
        """
        request = ffi.new("amalgam_export_request *")
        keep = self._lend(request, layer, base)
        excluded = selected.excluded
        new = b"".join(node for rev, node in excluded.items() if rev >= known_below)
        keep += _lend_bytes(request, {"tip": selected.tip, "excluded": new})
        adopted = self.adopted if self.adopted and self.adopted.file.exists() else None
        request.commit_of_first = names_heads and not adopted
        request.len = selected.len
        request.known_below = known_below
        each = _CHECK_EACH if self.check_each_manifest else _CHECK
        request.check_texts = each if self.check_texts else 0
        request.without_metadata = not self.keeps_metadata
        done = ffi.new("amalgam_export_report *")
        with contextlib.ExitStack() as stack:
            if adopted:
                keep += _lend_adopted(request, adopted, stack)
            self._call(ui, lib.amalgam_export_run, done, request, keep)
        if done.misfit:
            raise UnfitError(Unfit(_id(done.unfit), int(done.misfit)))
        displaced = bytes(ffi.buffer(done.displaced))
        return Converted(
            changesets=int(done.changesets),
            objects=int(done.objects),
            bytes=int(done.pack_bytes),
            pack=_text(done.pack, done.pack_len),
            segments=_names(done.segments, done.segments_len, base.segments),
            aside_pack=_text(done.aside_pack, done.aside_pack_len),
            metadata_segments=_names(
                done.metadata_segments,
                done.metadata_segments_len,
                base.metadata_segments,
            ),
            commit=_commit(
                int(done.changesets),
                done.metadata_commit,
                _text(done.metadata_pack, done.metadata_pack_len),
            ),
            displaced=tuple(
                (displaced[at : at + ID_LEN], displaced[at + ID_LEN : at + 2 * ID_LEN])
                for at in range(0, done.displaced_len * 2 * ID_LEN, 2 * ID_LEN)
            ),
            adopted=int(done.adopted),
            foreign=_id(done.foreign),
        )

    def metadata_commit(
        self, ui: UiT, layer: Layer, base: Layer = _NOTHING
    ) -> MetadataCommit:
        """Make the metadata commit of all that ``base`` and ``layer`` have.

        Takes time in proportion to the history.
        """
        request = ffi.new("amalgam_export_request *")
        keep = self._lend(request, layer, base)
        done = ffi.new("amalgam_metadata_report *")
        self._call(ui, lib.amalgam_metadata_make, done, request, keep)
        pack = _text(done.pack, done.pack_len)
        return _commit(int(done.covered), done.commit, pack)

    def _lend(self, request: Any, layer: Layer, base: Layer) -> list[Any]:
        """Set what is the same for all calls; return what has to live as long."""
        lent_bytes = {
            "store": self.store_path,
            "packs_path": self.packs.path,
            "map_path": self.maps.directory.path,
            "prefix": self.prefix,
        }
        keep = _lend_bytes(request, lent_bytes)
        keep += _lend_indexes(request, self.repo)
        keep += _lend_segments(request, "", base.segments, layer.segments)
        keep += _lend_segments(
            request, "metadata_", base.metadata_segments, layer.metadata_segments
        )
        metadata_segments = (*base.metadata_segments, *layer.metadata_segments)
        unmapped = self.maps.unmapped(
            (*base.segments, *layer.segments, *metadata_segments)
        )
        names, count = lent_list(map(os.fsencode, unmapped))
        keep.append(names)
        request.unmapped, request.unmapped_len = names, count
        request.encoding = self.encoding
        request.tree_manifests = self.tree_manifests
        request.file_mode = self.placement.file_mode
        # only root can give files away
        request.user = self.placement.uid if os.geteuid() == 0 else _NOBODY
        request.group = self.placement.gid
        request.level = _LEVEL
        request.memory_bytes = self.memory_bytes
        return keep

    def _call(
        self, ui: UiT, function: Any, done: Any, request: Any, _keep: Sequence[Any]
    ) -> None:
        """Let the core answer; ``_keep`` is what has to live as long."""
        with self.packs.opened() as packs, self.maps.directory.opened() as maps:
            request.packs, request.map = packs, maps
            Operation(ui, _PHASES).run(function, done, request)


class Converted(Record):
    """What was converted; the default is nothing."""

    changesets: int = 0
    objects: int = 0
    bytes: int = 0
    """Size of the packs."""
    pack: str = ""
    """Name of the pack without suffix, empty if none was needed."""
    aside_pack: str = ""
    """Name of the pack of what is only for git-cinnabar and stays; empty if that is in
    ``pack``."""
    segments: tuple[str, ...] = ()
    """File names of all segments that now make the layer's map, oldest first."""
    metadata_segments: tuple[str, ...] = ()
    """The same of the metadata's map."""
    commit: MetadataCommit = MetadataCommit()
    """The metadata commit, if it was made."""
    displaced: tuple[_Nodes, ...] = ()
    """Changesets that were converted before, and earlier ones that should have got
    their commits: pairs of nodes. If there are any, nothing was converted."""
    adopted: int = 0
    """Changesets whose commits were adopted."""
    foreign: _Id = b""
    """If that is judged, the first changeset whose commit is not the dialect's; empty
    if there is none."""

    @property
    def packs(self) -> tuple[str, ...]:
        """Names of all packs that were made."""
        return (*self.own_packs, *self.commit.packs)

    @property
    def own_packs(self) -> tuple[str, ...]:
        """Those of them that the metadata commit is not in."""
        return tuple(filter(None, [self.pack, self.aside_pack]))


def _lend_bytes(request: Any, lent_bytes: Mapping[str, bytes]) -> list[Any]:
    """Set fields that are bytes; return what has to live as long."""
    keep = []
    for name, value in lent_bytes.items():
        pointer, length = lent(value)
        keep.append(pointer)
        setattr(request, name, {"data": pointer, "len": length})
    return keep


def _lend_adopted(
    request: Any, adopted: AdoptedInput, stack: contextlib.ExitStack
) -> list[Any]:
    """Let the core use adopted commits; return what has to live as long."""
    directory, name = adopted.file.directory, adopted.file.name
    request.adopted = stack.enter_context(directory.opened())
    request.adopted_unmapped = adopted.file.is_unmapped()
    request.adopted_judged = adopted.is_judged
    path, path_len = lent(directory.path)
    pointer, length = lent(name)
    request.adopted_path = {"data": path, "len": path_len}
    request.adopted_name = {"data": pointer, "len": length}
    return [path, pointer]


def _lend_indexes(request: Any, repo: RepoT) -> list[Any]:
    """Let the core use the indexes that are mapped; return what has to live as long."""
    changelog = repo.unfiltered().changelog
    handles = [hooks.lendable(changelog)]
    if handles[0] is not None:
        request.changelog = handles[0]
        manifest = hooks.lendable(repo.manifestlog.getstorage(b"").get_revlog())
        if manifest is not None:
            request.manifest = manifest
            handles.append(manifest)
    return handles


def _lend_segments(
    request: Any, prefix: str, base: Sequence[str], own: Sequence[str]
) -> list[Any]:
    """Set the fields of a list of segments; return what has to live as long."""
    names, count = lent_list([os.fsencode(name) for name in (*base, *own)])
    setattr(request, f"{prefix}segments", names)
    setattr(request, f"{prefix}segments_len", count)
    setattr(request, f"{prefix}base_len", len(base))
    return [names]


def _names(array: Any, length: int, base: Sequence[str]) -> tuple[str, ...]:
    """Return the names in ``array`` but for those of the base, which come first."""
    return tuple(_text(array, length).split())[len(base) :]


def _commit(covered: int, oid: Any, pack: str) -> MetadataCommit:
    if not pack:
        return MetadataCommit()
    return MetadataCommit(ffi.buffer(oid)[:].hex(), covered, (pack,))


def _id(array: Any) -> bytes:
    """Return an id, which is empty if there is none."""
    found = bytes(ffi.buffer(array))
    return found if any(found) else b""


def _text(array: Any, length: int) -> str:
    return bytes(ffi.buffer(array, length)).decode("ascii")
