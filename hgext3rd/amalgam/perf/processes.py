"""Fresh hg processes, configured as a subject says.

Owns their command line. Options that the user gave with ``--config`` are passed on.
amalgam is enabled or disabled under whatever name the user enabled it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from mercurial import extensions
from mercurial.utils import procutil

from . import sample
from .pagecache import Unsuitable
from .subjects import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mercurial.interfaces.types import UiT

    from .sample import Sample
    from .subjects import Subject

_PACKAGE = __name__.rpartition(".")[0]
PROBE = b"debugamalgamprobe"


@dataclasses.dataclass(frozen=True, slots=True)
class Processes:
    """How to start them."""

    root: bytes
    """The repository."""
    _given: tuple[bytes, ...]
    """Options that are the same for all."""
    _names: tuple[bytes, ...]
    """Names that amalgam is enabled under; at least one."""
    _write_err: Callable[[bytes], object]
    """Where profiles go."""

    @classmethod
    def of(cls, ui: UiT, root: bytes) -> Processes:
        """Return how to start them for a repository, configured as this process."""
        given = []
        for section, name, value in ui.walkconfig(untrusted=False):
            if ui.configsource(section, name) == b"--config":
                given += [b"--config", b"%s.%s=%s" % (section, name, value)]
        package = sys.modules[_PACKAGE.rpartition(".")[0]]
        names = [n for n, module in extensions.extensions(ui) if module is package]
        return cls(root, tuple(given), tuple(names or [b"amalgam"]), ui.write_err)

    def run(
        self,
        subject: Subject,
        arguments: Sequence[bytes],
        *,
        root: bytes | None = None,
        request: bytes = b"",
        config: Sequence[str] = (),
        profiled: bool = False,
    ) -> tuple[Sample, bytes]:
        """Run a command of hg; return its cost and its output.

        ``root``: the repository, if it needs one. ``profiled``: show its profile.
        ``sample.Failed`` if its exit code is not 0.
        """
        command = [procutil.hgexecutable(), *self._given]
        first, *others = self._names
        for name in others:
            command += [b"--config", b"extensions.%s=!" % name]
        value = b"" if subject.amalgam else b"!"
        command += [b"--config", b"extensions.%s=%s" % (first, value)]
        if profiled:
            config = [*config, "profiling.enabled=yes"]
        for item in (*subject.config, *config):
            command += [b"--config", item.encode()]
        if root is not None:
            command += [b"-R", root]
        command += arguments
        environment = {**os.environb, b"HGPLAIN": b"1"}
        taken, output, stderr = sample.run(command, request, environment)
        if profiled:
            self._write_err(stderr)
        return taken, output

    def probe(
        self, subject: Subject, request: dict[str, Any], *, profiled: bool = False
    ) -> tuple[Sample | None, Any]:
        """Run an operation inside a fresh process; return its cost.

        ``Unsuitable`` if the index came another way than the subject's.
        """
        _outside, output = self.run(
            subject,
            [PROBE, self.root],
            request=json.dumps(request).encode(),
            config=[f"extensions.{_PACKAGE}="],
            profiled=profiled,
        )
        answer = json.loads(output)
        if "source" in answer and Source(answer["source"]) is not subject.source:
            raise Unsuitable(f"the index was {_WORDS[Source(answer['source'])]}")
        inside = sample.Sample(**answer["sample"]) if "sample" in answer else None
        return inside, answer["answer"]


_WORDS = {
    Source.READ: "read, not mapped",
    Source.MAPPED: "mapped itself",
    Source.SNAPSHOT: "mapped from a snapshot",
}
