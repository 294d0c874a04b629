"""Jobs ``export`` and ``metadata`` of the native core.

Owns the fields of their messages. Has no policy.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from ...core.operation import Operation
from ...files import Placement
from ...index.opening import mapped_indexes
from ...records import Record
from .. import authors, requirements
from ..docket import Layer, MetadataCommit
from ..imported import ImportedFiles
from ..oidmap import ID_LEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from ...config import GitConfig
    from ...files import Directory
    from ..adopted import AdoptedFile
    from ..oidmap import MapFiles
    from ..selection import Selection
    from ..store import GitStore

# phases of the jobs: topic and unit of the progress bar
_PHASES = {
    0: (_(b"reading changesets"), _(b"changesets")),
    1: (_(b"reading manifests"), _(b"manifests")),
    2: (_(b"exporting files"), _(b"revisions")),
    3: (_(b"exporting changesets"), _(b"changesets")),
}
_LEVEL = 1
_NOTHING = Layer()
_NO_IMPORTS = ImportedFiles()
# files keep the user, or the group, of the process
_NOBODY = -1
_PRIVATE = Placement(0o700, _NOBODY, _NOBODY)

_Id = bytes
_Nodes = tuple[_Id, _Id]


class Unfit(Record):
    """A changeset with an adopted commit that does not match it."""

    node: bytes
    misfit: int
    """Number of the difference in ``hg2git::Misfit``."""


class UnfitError(error.StorageError):
    """An adopted commit does not match its changeset."""

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
    """Whether to compare them with the commits of the dialect."""


class OtherStore(Record):
    """The store of another dialect, whose blobs a conversion copies."""

    packs_directory: Directory
    packs: tuple[str, ...]
    """Their names, without suffix."""
    segments: tuple[str, ...]
    """File names of the segments of its map."""


class ExportConversion(Record):
    """Source, target and settings of the runs of an export."""

    repo: RepoT
    store_path: bytes
    encoding: int
    tree_manifests: bool
    packs: Directory
    maps: MapFiles
    prefix: bytes
    """First part of the names of the map's files."""
    placement: Placement
    """Mode, owner and group of new files."""
    check_texts: bool
    memory_bytes: int
    """Limit of anonymous memory."""
    keeps_metadata: bool
    """Whether to write metadata of git-cinnabar."""
    check_each_manifest: bool = False
    """If texts are checked: whether large manifests are not only sampled."""
    adopted: AdoptedInput | None = None
    """The adopted commits, unless the file is missing when a run starts."""
    imported: ImportedFiles = _NO_IMPORTS
    """The commits that changesets were made of."""
    authors: bytes = b""
    """Users, and those that commits have in their place: two lines for each."""

    @classmethod
    def of(
        cls,
        repo: RepoT,
        config: GitConfig,
        packs: Directory,
        maps: MapFiles,
        placement: Placement = _PRIVATE,
        adopted: AdoptedFile | None = None,
        imported: ImportedFiles = _NO_IMPORTS,
    ) -> ExportConversion:
        """From the store of ``repo``; by default, only the user can read the files."""
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
            imported=imported,
            keeps_metadata=config.keeps_metadata,
            authors=authors.pairs(repo, config),
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
            ImportedFiles.of(store),
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
        replaced: Sequence[str] = (),
        other: OtherStore | None = None,
    ) -> Converted:
        """Convert the selected changesets that are not in ``base`` and ``layer``.

        New files belong to ``layer``. ``names_heads``: make the metadata commit if
        ``base`` and ``layer`` are empty and no commits are adopted: git-cinnabar has
        other ids then. ``replaced``: packs that are removed afterwards. ``other`` must
        not change meanwhile.
        ``core.errors.Moved`` if the repository has changed since ``selected`` was made.
        """
        excluded = selected.excluded
        new = b"".join(node for rev, node in excluded.items() if rev >= known_below)
        selection = {
            "len": selected.len,
            "tip": selected.tip if selected.len else None,
            "excluded": new,
            "known_below": known_below,
        }
        adopted = self.adopted if self.adopted and self.adopted.file.exists() else None
        with contextlib.ExitStack() as stack:
            done = self._job(
                ui,
                "export",
                (base, layer),
                selection,
                adopted and _adopted(adopted, stack),
                other,
                names_heads=names_heads and not adopted,
                replaced=replaced,
            )
        if "unfit" in done:
            raise UnfitError(Unfit(done["unfit"], done["misfit"]))
        made = done.get("published", {})
        metadata = made.get("metadata", {})
        commit = metadata.get("commit")
        return Converted(
            changesets=done["changesets"],
            objects=done["objects"],
            bytes=done["pack_bytes"],
            pack=_name(made.get("pack")),
            segments=_own(made, base.segments),
            aside_pack=_name(made.get("aside_pack")),
            metadata_segments=_own(metadata, base.metadata_segments),
            commit=_commit(commit, done["changesets"]),
            displaced=_pairs(done["displaced"]),
            adopted=done["adopted"],
            exact=done["exact"],
            foreign=done.get("foreign", b""),
        )

    def metadata_commit(
        self, ui: UiT, layer: Layer, base: Layer = _NOTHING
    ) -> MetadataCommit:
        """Make the metadata commit of all changesets in ``base`` and ``layer``.

        Takes time in proportion to the history.
        """
        nothing = {"len": 0, "excluded": b"", "known_below": 0}
        done = self._job(ui, "metadata", (base, layer), nothing)
        return _commit(done.get("commit"), done.get("covered", 0))

    def _job(
        self,
        ui: UiT,
        name: str,
        layers: tuple[Layer, Layer],
        selection: dict[str, Any],
        adopted: dict[str, Any] | None = None,
        other: OtherStore | None = None,
        *,
        names_heads: bool = False,
        replaced: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Run a job on the base and the layer above it."""
        base, layer = layers
        segments = (*base.segments, *layer.segments)
        metadata_segments = (*base.metadata_segments, *layer.metadata_segments)
        metadata = {
            "segments": metadata_segments,
            "base": len(base.metadata_segments),
            "commit_of_first": names_heads,
        }
        # only root can give files away
        uid = self.placement.uid if os.geteuid() == 0 else _NOBODY
        gid = self.placement.gid
        others = other.segments if other else ()
        with (
            _opened_imported(self.imported) as of_imported,
            self.packs.opened() as packs,
            self.maps.directory.opened() as maps,
            _opened(other) as of_other,
        ):
            fields = {
                "dialect": self.prefix,
                "store": self.store_path,
                "encoding": self.encoding,
                "tree_manifests": self.tree_manifests,
                "packs": {"fd": packs, "path": self.packs.path},
                "replaced_packs": replaced,
                "map": {"fd": maps, "path": self.maps.directory.path},
                "prefix": self.prefix,
                "file_mode": self.placement.file_mode,
                "owner": {
                    "user": None if uid == _NOBODY else uid,
                    "group": None if gid == _NOBODY else gid,
                },
                "segments": segments,
                "base": len(base.segments),
                "metadata": metadata if self.keeps_metadata else None,
                "unmapped": self.maps.unmapped(
                    (*segments, *metadata_segments, *others)
                ),
                "selection": selection,
                "check_texts": self.check_texts,
                "check_each_manifest": self.check_each_manifest,
                "threads": 0,
                "memory_bytes": self.memory_bytes,
                "level": _LEVEL,
                "authors": self.authors,
                "adopted": adopted,
                "has_exact": base.exact or layer.exact,
                "imported": of_imported,
                "other": of_other,
            }
            return Operation(ui, _PHASES).job(name, fields, mapped_indexes(self.repo))


class Converted(Record):
    """Result of a conversion; empty by default."""

    changesets: int = 0
    objects: int = 0
    bytes: int = 0
    """Size of the packs."""
    pack: str = ""
    """Name of the pack without suffix, empty if none was needed."""
    aside_pack: str = ""
    """Name of the pack of git-cinnabar's metadata; empty if that is in ``pack``."""
    segments: tuple[str, ...] = ()
    """File names of all segments that now make the layer's map, oldest first."""
    metadata_segments: tuple[str, ...] = ()
    """File names of the metadata's segments."""
    commit: MetadataCommit = MetadataCommit()
    """The metadata commit; empty if it was not made."""
    displaced: tuple[_Nodes, ...] = ()
    """Id collisions: nodes of a converted changeset and of an earlier one that should
    have its commit. If there are any, nothing was converted."""
    adopted: int = 0
    """Number of changesets with adopted commits."""
    exact: int = 0
    """Number of commits that extras of changesets name."""
    foreign: _Id = b""
    """The first changeset with a commit that differs from the dialect's, if adopted
    commits are compared; may be empty."""

    @property
    def packs(self) -> tuple[str, ...]:
        """Names of all new packs."""
        return (*self.own_packs, *self.commit.packs)

    @property
    def own_packs(self) -> tuple[str, ...]:
        """Names of the new packs, without the pack of the metadata commit."""
        return tuple(filter(None, [self.pack, self.aside_pack]))


def _adopted(adopted: AdoptedInput, stack: contextlib.ExitStack) -> dict[str, Any]:
    """Return the field of adopted commits."""
    directory = adopted.file.directory
    fd = stack.enter_context(directory.opened())
    return {
        "directory": {"fd": fd, "path": directory.path},
        "name": adopted.file.name,
        "is_mapped": not adopted.file.is_unmapped(),
        "is_judged": adopted.is_judged,
    }


@contextlib.contextmanager
def _opened(other: OtherStore | None) -> Iterator[dict[str, Any] | None]:
    """Yield the field of another store."""
    if other is None:
        yield None
        return
    directory = other.packs_directory
    with directory.opened() as fd:
        yield {
            "directory": {"fd": fd, "path": directory.path},
            "packs": other.packs,
            "segments": other.segments,
        }


@contextlib.contextmanager
def _opened_imported(imported: ImportedFiles) -> Iterator[dict[str, Any] | None]:
    """Yield the field of imported commits."""
    maps, packs, segments = imported.maps, imported.packs, imported.segments
    if not maps:
        yield None
        return
    with contextlib.ExitStack() as stack:
        fields = {
            "map": {
                "fd": stack.enter_context(maps.directory.opened()),
                "path": maps.directory.path,
            },
            "segments": segments,
            "unmapped": maps.unmapped(segments),
            "packs": None,
        }
        if packs:
            fd = stack.enter_context(packs.opened())
            fields["packs"] = {"fd": fd, "path": packs.path}
        yield fields


def _own(published: dict[str, Any], base: Sequence[str]) -> tuple[str, ...]:
    """Return the published segments but for those of the base, which come first."""
    return tuple(map(_name, published.get("segments", [])[len(base) :]))


def _commit(made: dict[str, Any] | None, covered: int) -> MetadataCommit:
    if made is None:
        return MetadataCommit()
    return MetadataCommit(made["oid"].hex(), covered, (_name(made["pack"]),))


def _name(name: bytes | None) -> str:
    return (name or b"").decode("ascii")


def _pairs(joined: bytes) -> tuple[_Nodes, ...]:
    ids = [joined[at : at + ID_LEN] for at in range(0, len(joined), ID_LEN)]
    return tuple(zip(ids[::2], ids[1::2], strict=True))
