"""What is exported: the small file that makes packs and map segments count.

``.hg/amalgam/map/<dialect>.docket`` is JSON and replaced by rename. Whatever it does
not name is not there: a segment or a pack of a run that was killed is removed by the
next one.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from .selection import Seen

if TYPE_CHECKING:
    from mercurial.interfaces.types import VfsT

    from ..placement import Placement

VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Metadata:
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
        """Return what ``dataclasses.asdict`` made."""
        return cls(
            commit=bytes.fromhex(data["commit"]).hex(),
            segments=tuple(map(str, data["segments"])),
            state=str(data["state"]),
            packs=tuple(map(str, data["packs"])),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Docket:
    """One dialect's state; the default is that of nothing exported."""

    segments: tuple[str, ...] = ()
    """File names of the map's segments, oldest first."""
    packs: tuple[str, ...] = ()
    """Names of the packs we wrote, without suffix, oldest first."""
    seen: Seen | None = None
    """What was selected when all of it was exported; ``None`` if that never was."""
    dropped: tuple[str, ...] = ()
    """Names of packs that go as soon as no ref needs them."""
    metadata: Metadata = Metadata()
    named: str = ""
    """``Repository.names_digest`` after the export; empty if that is not known."""

    @classmethod
    def read(cls, vfs: VfsT, dialect: bytes) -> Docket:
        """Read the docket; one that is missing, or not ours to read, is empty.

        All is derived data, so the worst that a lost docket costs is another export.
        """
        try:
            data = json.loads(vfs.tryread(_name(dialect)) or b"{}")
            if data.get("version") != VERSION:
                return cls()
            seen = data["seen"]
            return cls(
                segments=tuple(map(str, data["segments"])),
                packs=tuple(map(str, data["packs"])),
                seen=None if seen is None else Seen.from_json(seen),
                dropped=tuple(map(str, data["dropped"])),
                metadata=(
                    Metadata.from_json(data["metadata"])
                    if "metadata" in data
                    else Metadata()
                ),
                named=str(data.get("named", "")),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            return cls()

    def write(self, vfs: VfsT, dialect: bytes, placement: Placement) -> None:
        """Make this the state. Durable when it returns."""
        data = {
            "version": VERSION,
            "segments": self.segments,
            "packs": self.packs,
            "seen": None if self.seen is None else self.seen.to_json(),
            "dropped": self.dropped,
            "metadata": dataclasses.asdict(self.metadata),
            "named": self.named,
        }
        content = json.dumps(data, indent=1).encode() + b"\n"
        placement.replace(vfs.join(_name(dialect)), content)


def _name(dialect: bytes) -> bytes:
    return dialect + b".docket"
