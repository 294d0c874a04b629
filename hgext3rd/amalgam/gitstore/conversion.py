"""The call that converts: what the native core is asked, and what it answers.

Owns the fields of ``amalgam_export_request``. Decides nothing.
"""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from mercurial.i18n import _

from ..native._core import ffi, lib
from ..native.lent import lent, lent_list
from ..native.operation import Operation
from .docket import Metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercurial.interfaces.types import UiT

    from .selection import Selection

# phases of amalgam_export_run: topic and unit of the progress bar
_PHASES = {
    0: (_(b"reading changesets"), _(b"changesets")),
    1: (_(b"reading manifests"), _(b"manifests")),
    2: (_(b"exporting files"), _(b"revisions")),
    3: (_(b"exporting changesets"), _(b"changesets")),
}
_LEVEL = 1
_NOTHING = Metadata()


@dataclasses.dataclass(frozen=True, slots=True)
class Conversion:
    """From where to where; the same for all runs of an export."""

    store_path: bytes
    encoding: int
    tree_manifests: bool
    packs_path: bytes
    map_path: bytes
    prefix: bytes
    """How the names of the map's files begin."""
    file_mode: int
    """Permission bits of what is written."""
    check_texts: bool

    def run(
        self,
        ui: UiT,
        selected: Selection,
        known_below: int,
        segments: Sequence[str] = (),
        metadata: Metadata = _NOTHING,
        *,
        anew: bool = False,
    ) -> Converted:
        """Convert what is selected, but not what ``segments`` have.

        ``anew`` writes all that a metadata commit needs and no other commit does, even
        if nothing is converted. ``native.errors.Moved`` if the repository is not as
        ``selected`` says.
        """
        request = ffi.new("amalgam_export_request *")
        lent_bytes = {
            "store": self.store_path,
            "packs": self.packs_path,
            "map": self.map_path,
            "prefix": self.prefix,
            "tip": selected.tip,
            "excluded": b"".join(selected.excluded.values()),
            "metadata_state": os.fsencode(metadata.state),
        }
        keep = []
        for name, value in lent_bytes.items():
            pointer, length = lent(value)
            keep.append(pointer)
            setattr(request, name, {"data": pointer, "len": length})
        names, count = lent_list([os.fsencode(name) for name in segments])
        keep.append(names)
        request.segments, request.segments_len = names, count
        names, count = lent_list([os.fsencode(name) for name in metadata.segments])
        request.metadata_segments, request.metadata_segments_len = names, count
        keep.append(names)
        request.metadata_anew = anew
        request.encoding = self.encoding
        request.tree_manifests = self.tree_manifests
        request.file_mode = self.file_mode
        request.len = selected.len
        request.known_below = known_below
        request.check_texts = self.check_texts
        request.level = _LEVEL
        done = ffi.new("amalgam_export_report *")
        Operation(ui, _PHASES).run(lib.amalgam_export_run, done, request)
        return Converted(
            changesets=int(done.changesets),
            objects=int(done.objects),
            bytes=int(done.pack_bytes),
            pack=_text(done.pack, done.pack_len),
            segments=tuple(_text(done.segments, done.segments_len).split()),
            metadata=_metadata(done) if done.metadata_pack_len else None,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Converted:
    """What was converted; the default is nothing."""

    changesets: int = 0
    objects: int = 0
    bytes: int = 0
    """Size of the packs."""
    pack: str = ""
    """Name of the pack without suffix, empty if none was needed."""
    segments: tuple[str, ...] = ()
    """File names of all segments that now make the map, oldest first."""
    metadata: Metadata | None = None
    """What is now kept for git-cinnabar, with the one pack that was made of it."""


def _metadata(done: Any) -> Metadata:
    return Metadata(
        commit=ffi.buffer(done.metadata_commit)[:].hex(),
        segments=tuple(
            _text(done.metadata_segments, done.metadata_segments_len).split()
        ),
        state=_text(done.metadata_state, done.metadata_state_len),
        packs=(_text(done.metadata_pack, done.metadata_pack_len),),
    )


def _text(array: Any, length: int) -> str:
    return bytes(ffi.buffer(array, length)).decode("ascii")
