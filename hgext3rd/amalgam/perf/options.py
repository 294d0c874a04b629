"""Options of upstream's ``contrib/perf.py``, shared by these commands.

They are registered here only if perf.py is not loaded. Two have another meaning:
``perf.run-limits`` is about a table, its seconds begin with the first process of the
table, and its samples are those of each cell; ``perf.stub`` takes one sample of each
cell and prints it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from mercurial import configitems, error, registrar
from mercurial.i18n import _

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT

_SECTION = b"perf"
_DEFAULTS: dict[bytes, Any] = {
    b"all-timing": True,
    b"pre-run": 0,
    b"presleep": 1,
    b"profile-benchmark": False,
    b"profiled-runs": [b"0"],
    b"run-limits": [b"20.0-20", b"60.0-3"],
    b"stub": False,
}


def register(ui: UiT) -> None:
    """Register options that no other extension has; for ``uisetup``, when all are
    loaded."""
    known = ui._knownconfig.get(_SECTION, {})
    table: dict[bytes, Any] = {}
    item = registrar.configitem(table)
    for name in _DEFAULTS:
        if name not in known:
            item(_SECTION, name, default=configitems.dynamicdefault)
    configitems.loadconfigtable(ui, b"amalgam.perf", table)


@dataclasses.dataclass(frozen=True, slots=True)
class PerfConfig:
    """The items of ``[perf]``, checked."""

    all_timing: bool
    """Whether to give more than the best of the samples."""
    pre_run: int
    """How many passes to throw away first."""
    presleep: float
    """Seconds to be idle before."""
    profiled_passes: frozenset[int]
    """Passes to be profiled, which makes them slower."""
    limits: tuple[tuple[float, int], ...]
    """Seconds, and samples of each cell; both of a pair reached are enough."""

    @classmethod
    def from_ui(cls, ui: UiT) -> PerfConfig:
        """Read the items; ``ConfigError`` for a limit that is none."""

        def value(read: Any, name: bytes) -> Any:
            return read(_SECTION, name, _DEFAULTS[name])

        stub = value(ui.configbool, b"stub")
        profiles = value(ui.configbool, b"profile-benchmark")
        runs = value(ui.configlist, b"profiled-runs") if profiles else []
        limits = map(_limit, value(ui.configlist, b"run-limits"))
        return cls(
            all_timing=value(ui.configbool, b"all-timing"),
            pre_run=0 if stub else value(ui.configint, b"pre-run"),
            presleep=0 if stub else float(value(ui.config, b"presleep")),
            profiled_passes=frozenset(map(int, runs)),
            limits=((0.0, 1),) if stub else tuple(limits),
        )

    def is_enough(self, seconds: float, samples: int) -> bool:
        """Return whether the cell with the fewest samples has enough."""
        return any(seconds >= most and samples >= few for most, few in self.limits)

    def passes(self, seconds_per_pass: float) -> int:
        """Return how many passes it will take to have enough."""
        needed = [
            max(few, math.ceil(most / seconds_per_pass)) for most, few in self.limits
        ]
        return min(needed) + self.pre_run


def _limit(text: bytes) -> tuple[float, int]:
    seconds, _dash, passes = text.partition(b"-")
    try:
        return float(seconds), int(passes)
    except ValueError:
        raise error.ConfigError(
            _(
                b"invalid value '%s' for perf.run-limits "
                b"(expected SECONDS-PASSES, such as 3.0-100)"
            )
            % text
        ) from None
