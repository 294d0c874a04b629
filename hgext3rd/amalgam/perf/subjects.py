"""The rows of a table: ways in which an index gets into memory, as configuration.

Owns the name of each way, its configuration, and the check that a process took it.
"""

from __future__ import annotations

import dataclasses
import enum


class Source(enum.Enum):
    """Where the bytes of an index came from."""

    READ = "read"
    MAPPED = "mapped"
    SNAPSHOT = "snapshot"


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """One way. The first of a table is compared with the others."""

    name: str
    source: Source
    config: tuple[str, ...] = ()
    """Configuration, besides whether amalgam is enabled."""
    amalgam: bool = False
    """Whether amalgam is enabled."""


def _snapshot(name: str, *config: str) -> Subject:
    everything = ("experimental.mmapindex=yes", "experimental.mmapindexthreshold=0")
    return Subject(name, Source.SNAPSHOT, (*everything, *config), amalgam=True)


READ = Subject("read", Source.READ, ("storage.revlog.mmap.index=no",))
AGAIN = dataclasses.replace(READ, name="read, again")
MAPPED = Subject(
    "mmap",
    Source.MAPPED,
    ("storage.revlog.mmap.index=yes", "storage.revlog.mmap.index:size-threshold=0"),
)
NO_MAP = _snapshot("snapshot, no node map", "amalgam.index.node-map=no")
SNAPSHOTS = tuple(
    _snapshot(f"snapshot, {policy}", f"amalgam.index.prefault={policy}")
    for policy in ("none", "willneed", "populate")
)
READ_BY_AMALGAM = Subject(
    "read", Source.READ, ("experimental.mmapindex=no",), amalgam=True
)

INDEXES = (READ, AGAIN, MAPPED, *SNAPSHOTS)
LOOKUPS = (READ, AGAIN, MAPPED, NO_MAP, *SNAPSHOTS)
EXPORTS = (
    READ_BY_AMALGAM,
    dataclasses.replace(READ_BY_AMALGAM, name="read, again"),
    *SNAPSHOTS,
)
