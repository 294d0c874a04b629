"""The benchmarks, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .bundle import GitBundle, HgBundle
from .command import Log, Lookup
from .export import Export, ExportNothing

if TYPE_CHECKING:
    from ..benchmark import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    kind.name: kind()
    for kind in (Export, ExportNothing, GitBundle, HgBundle, Log, Lookup)
}
