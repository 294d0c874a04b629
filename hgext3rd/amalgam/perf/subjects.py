"""The rows of a table: ways in which an index gets into memory, and their processes.

Owns the name of each way, its configuration, and the check that a process took it.
Command lines have the options that the user gave with ``--config``, and enable or
disable amalgam under whatever name the user enabled it.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from mercurial import extensions
from mercurial.utils import procutil

from . import samples
from .samples import Unsuitable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercurial.interfaces.types import UiT

    from .samples import Sample

_PACKAGE = __name__.rpartition(".")[0]
PROBE = b"debugamalgamprobe"


class Source(enum.Enum):
    """Where the bytes of an index came from; the value follows "the index was"."""

    READ = "read, not mapped"
    MAPPED = "mapped itself"
    SNAPSHOT = "mapped from a snapshot"


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """One way. The first of a table is compared with the others."""

    name: str
    source: Source | None
    """``None``: amalgam chooses."""
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
CONFIGURED = Subject("amalgam", None, amalgam=True)
_BY_AMALGAM = Subject("read", Source.READ, ("experimental.mmapindex=no",), amalgam=True)

INDEXES = (READ, AGAIN, MAPPED, CONFIGURED, *SNAPSHOTS)
LOOKUPS = (READ, AGAIN, MAPPED, CONFIGURED, NO_MAP, *SNAPSHOTS)
EXPORTS = (
    _BY_AMALGAM,
    dataclasses.replace(_BY_AMALGAM, name="read, again"),
    *SNAPSHOTS,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Processes:
    """Fresh hg processes on one repository."""

    root: bytes
    """The repository."""
    _given: tuple[bytes, ...]
    """Options that are the same for all."""
    _names: tuple[bytes, ...]
    """Names that amalgam is enabled under; at least one."""

    @classmethod
    def of(cls, ui: UiT, root: bytes) -> Processes:
        """Return those for a repository, configured as this process."""
        given = []
        for section, name, value in ui.walkconfig(untrusted=False):
            if ui.configsource(section, name) == b"--config":
                given += [b"--config", b"%s.%s=%s" % (section, name, value)]
        package = sys.modules[_PACKAGE.rpartition(".")[0]]
        names = [n for n, module in extensions.extensions(ui) if module is package]
        return cls(root, tuple(given), tuple(names or [b"amalgam"]))

    def run(
        self,
        row: Subject,
        arguments: Sequence[bytes],
        request: bytes = b"",
        *config: str,
    ) -> tuple[Sample, bytes]:
        """Run a command of hg, with ``request`` as its standard input.

        Return its cost and its output. ``samples.Failed`` if its exit code is not 0.
        """
        first, *others = self._names
        value = b"" if row.amalgam else b"!"
        items = [b"extensions.%s=!" % name for name in others]
        items.append(b"extensions.%s=%s" % (first, value))
        items += [item.encode() for item in (*row.config, *config)]
        command = [procutil.hgexecutable(), *self._given]
        command += [word for item in items for word in (b"--config", item)]
        environment = {**os.environb, b"HGPLAIN": b"1"}
        return samples.run([*command, *arguments], request, environment)

    def run_here(self, row: Subject, *arguments: bytes) -> tuple[Sample, bytes]:
        """Run a command on the repository."""
        return self.run(row, [b"-R", self.root, *arguments])

    def probe(self, row: Subject, request: dict[str, Any]) -> dict[str, Any]:
        """Run an operation inside a fresh process; return its answer.

        ``Unsuitable`` if the index came another way than the row's.
        """
        extension = f"extensions.{_PACKAGE}="
        text = json.dumps(request).encode()
        output = self.run(row, [PROBE, self.root], text, extension)[1]
        answer: dict[str, Any] = json.loads(output)
        if "source" in answer and row.source is not None:
            source = Source(answer["source"])
            if source is not row.source:
                raise Unsuitable(f"the index was {source.value}")
        return answer
