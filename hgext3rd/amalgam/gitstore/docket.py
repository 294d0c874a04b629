"""What is exported: the small file that makes packs and map segments count.

``.hg/amalgam/map/<dialect>.docket`` is JSON and replaced by rename. Whatever it does
not name is not there: a segment or a pack of a run that was killed is removed by the
next one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..records import Record
from .selection import Seen

if TYPE_CHECKING:
    from mercurial.interfaces.types import VfsT

    from ..placement import Placement

VERSION = 3


class Metadata(Record):
    """What is kept for git-cinnabar; the default is that of nothing exported."""

    commit: str = ""
    """Oid of the metadata commit, in hex."""
    segments: tuple[str, ...] = ()
    """File names of its map's segments, oldest first."""
    state: str = ""
    """File name of what the next export has to know."""
    packs: tuple[str, ...] = ()
    """Those of our packs, oldest first, that only this commit and older ones need."""

    @property
    def files(self) -> tuple[str, ...]:
        """File names of all that is in the map's directory."""
        return (*self.segments, *filter(None, [self.state]))

    @classmethod
    def from_json(cls, data: Any) -> Metadata:
        """Return what ``_asdict`` made."""
        return cls(
            commit=bytes.fromhex(data["commit"]).hex(),
            segments=tuple(map(str, data["segments"])),
            state=str(data["state"]),
            packs=tuple(map(str, data["packs"])),
        )


class Layer(Record):
    """Some changesets, and the files that have what was made of them."""

    segments: tuple[str, ...] = ()
    """File names of the map's segments, oldest first."""
    packs: tuple[str, ...] = ()
    """Names of the packs we wrote, without suffix, oldest first."""
    complete: str = ""
    """Name of the one of them with all that git clients need of its changesets, and
    nothing else; empty if there is none."""
    metadata: Metadata = Metadata()
    """What is kept for git-cinnabar, up to this layer."""
    seen: tuple[Seen, ...] = ()
    """What was selected when all of it was exported, up to some places in the
    changelog, ascending; empty if it never was, or if more has been exported since."""

    def with_above(self, above: Layer) -> Layer:
        """Return the layer that this one and the one above it are together."""
        if not above.segments:
            return self
        own, metadata = self.metadata, above.metadata
        return Layer(
            segments=self.segments + above.segments,
            packs=self.packs + above.packs,
            complete=self.complete or above.complete,
            metadata=metadata._replace(
                segments=own.segments + metadata.segments,
                packs=own.packs + metadata.packs,
            ),
        )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Layer:
        """Read what ``to_json`` wrote."""
        return cls(
            segments=tuple(map(str, data["segments"])),
            packs=tuple(map(str, data["packs"])),
            complete=str(data.get("complete", "")),
            metadata=Metadata.from_json(data["metadata"]),
            seen=tuple(map(Seen.from_json, data["seen"])),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads."""
        return {
            "segments": self.segments,
            "packs": self.packs,
            "complete": self.complete,
            "metadata": self.metadata._asdict(),
            "seen": [seen.to_json() for seen in self.seen],
        }


class Docket(Record):
    """One dialect's state; the default is that of nothing exported."""

    base: Layer = Layer()
    """The public changesets. Needs nothing of the other layer."""
    drafts: Layer = Layer()
    """All others, on top of the base: what goes when one of them does."""
    held: tuple[tuple[bytes, bytes], ...] = ()
    """Public changesets that are with the drafts, with the draft that is the reason:
    it comes earlier, and would have the same commit."""
    refused: bool = False
    """Whether something had to go at once: then nothing may be answered from the store
    until an export ends, and what is dropped goes before that does anything else."""
    dropped: tuple[str, ...] = ()
    """Names of packs that go as soon as no ref needs them."""
    named: str = ""
    """``Repository.names_digest`` after the export; empty if that is not known."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments of both layers, those of the base first."""
        return self.base.segments + self.drafts.segments

    @property
    def packs(self) -> tuple[str, ...]:
        """The packs of both layers, those of the base first."""
        return self.base.packs + self.drafts.packs

    @property
    def metadata(self) -> Metadata:
        """What is kept for git-cinnabar of both layers."""
        return self.base.with_above(self.drafts).metadata

    @property
    def metadata_files(self) -> tuple[str, ...]:
        """File names of all of it in the map's directory."""
        return self.base.metadata.files + self.drafts.metadata.files

    @classmethod
    def read(cls, vfs: VfsT, dialect: bytes) -> Docket:
        """Read the docket; one that is missing, or not ours to read, is empty.

        All is derived data, so the worst that a lost docket costs is another export.
        """
        try:
            data = json.loads(vfs.tryread(_name(dialect)) or b"{}")
            if data.get("version") != VERSION:
                return cls()
            return cls(
                base=Layer.from_json(data["base"]),
                drafts=Layer.from_json(data["drafts"]),
                held=tuple(
                    (bytes.fromhex(public), bytes.fromhex(draft))
                    for public, draft in data["held"]
                ),
                refused=bool(data["refused"]),
                dropped=tuple(map(str, data["dropped"])),
                named=str(data.get("named", "")),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            return cls()

    def write(self, vfs: VfsT, dialect: bytes, placement: Placement) -> None:
        """Make this the state. Durable when it returns."""
        data = {
            "version": VERSION,
            "base": self.base.to_json(),
            "drafts": self.drafts.to_json(),
            "held": [(public.hex(), draft.hex()) for public, draft in self.held],
            "refused": self.refused,
            "dropped": self.dropped,
            "named": self.named,
        }
        content = json.dumps(data, indent=1).encode() + b"\n"
        placement.replace(vfs.join(_name(dialect)), content)


def _name(dialect: bytes) -> bytes:
    return dialect + b".docket"
