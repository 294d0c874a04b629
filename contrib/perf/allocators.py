"""What allocators make of an export: allocators.py STORE [--preload NAME=LIBRARY]...

Runs ``cargo run --release -p hg2git --example allocation`` on a directory ``.hg/store``
with the allocator of the C library, as it is and with its settings changed, and with
each library named by ``--preload``. Prints for each, by phase, at its end: bytes
requested and not freed, bytes that the allocator has in use for them, anonymous memory
of the process, and how much of that is in use for nothing; and at last the largest
amounts, and the processor's seconds. ``--json FILE`` keeps all samples, ``--plot FILE``
draws them, if there is matplotlib. Every export must write the same packs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bench  # noqa: F401 -- it finds the next import without Mercurial

from hgext3rd.amalgam.perf import samples

RUST = Path(__file__).resolve().parents[2] / "rust"
# glibc: mallopt(3)
SETTINGS = {
    "glibc": {},
    "glibc, 1 arena": {"MALLOC_ARENA_MAX": "1"},
    "glibc, 2 arenas": {"MALLOC_ARENA_MAX": "2"},
    "glibc, mapped from 128 KiB": {"MALLOC_MMAP_THRESHOLD_": str(128 << 10)},
    "glibc, 2 arenas, mapped from 128 KiB": {
        "MALLOC_ARENA_MAX": "2",
        "MALLOC_MMAP_THRESHOLD_": str(128 << 10),
        "MALLOC_TRIM_THRESHOLD_": str(128 << 10),
    },
}
MIB = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """One export: what was sampled, ascending by time, and what it wrote."""

    samples: list[dict[str, Any]]
    core_seconds: float
    packs: frozenset[str]

    def ends(self) -> list[dict[str, Any]]:
        """Return the last sample of each phase, in their order."""
        return list({sample["phase"]: sample for sample in self.samples}.values())

    def most(self, name: str) -> int:
        """Return the largest value of one figure."""
        return max(sample[name] for sample in self.samples)


def run(program: Path, store: Path, variables: dict[str, str]) -> Outcome:
    """Export ``store`` with these variables in the environment."""
    with tempfile.TemporaryDirectory() as out:
        command, environment = [str(program), str(store), out], os.environ | variables
        cost, output = samples.run(command, environment=environment)
        packs = frozenset(os.listdir(Path(out, "objects", "pack")))
    return Outcome(list(map(json.loads, output.splitlines())), cost.comb, packs)


def fragmentation(sample: dict[str, Any]) -> float:
    """Return the part of the anonymous memory that is in use for nothing."""
    return max(0.0, 1 - sample["in_use"] / sample["system"]) if sample["system"] else 0


def tell(name: str, outcome: Outcome) -> None:
    """Print one allocator's figures."""
    print(f"{name}: {outcome.core_seconds:.2f} core-seconds")
    for sample in outcome.ends():
        mib = [sample[figure] / MIB for figure in ("requested", "in_use", "system")]
        print(
            f"  {sample['phase']:<10} requested {mib[0]:6.1f}  in use {mib[1]:6.1f}"
            f"  system {mib[2]:6.1f} MiB  unused {fragmentation(sample):4.0%}"
        )
    peaks = [outcome.most(figure) / MIB for figure in ("in_use", "system")]
    print(f"  {'most':<10} in use {peaks[0]:.1f}  system {peaks[1]:.1f} MiB")


def draw(outcomes: dict[str, Outcome], path: str) -> None:
    """Draw in use and system over time, one panel for each allocator."""
    plt = importlib.import_module("matplotlib.pyplot")
    _figure, panels = plt.subplots(
        len(outcomes), sharex=True, sharey=True, figsize=(9, 2.2 * len(outcomes))
    )
    for panel, (name, outcome) in zip(panels, outcomes.items(), strict=True):
        seconds = [sample["seconds"] for sample in outcome.samples]
        for figure in ("requested", "in_use", "system"):
            values = [sample[figure] / MIB for sample in outcome.samples]
            panel.plot(seconds, values, label=figure.replace("_", " "))
        panel.set_title(name, fontsize="small")
        panel.set_ylabel("MiB")
    panels[0].legend(fontsize="small")
    panels[-1].set_xlabel("seconds")
    plt.tight_layout()
    plt.savefig(path)


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("store", type=Path, help="a directory .hg/store")
    parser.add_argument(
        "--preload", action="append", default=[], metavar="NAME=LIBRARY"
    )
    parser.add_argument("--program", type=Path, help="the example, if it is built")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--plot", metavar="FILE")
    options = parser.parse_args()
    program = options.program or build()
    settings = dict(SETTINGS)
    for preload in options.preload:
        name, _, library = preload.partition("=")
        settings[name] = {"LD_PRELOAD": str(Path(library).resolve(strict=True))}
    outcomes = {}
    for name, variables in settings.items():
        outcomes[name] = run(program, options.store, variables)
        tell(name, outcomes[name])
    if len({outcome.packs for outcome in outcomes.values()}) != 1:
        sys.exit("the packs differ")
    if options.json:
        kept = {name: outcome.samples for name, outcome in outcomes.items()}
        Path(options.json).write_text(json.dumps(kept))
    if options.plot:
        draw(outcomes, options.plot)


def build() -> Path:
    """Build the example, and return where it is."""
    command = ["cargo", "build", "--release", "-p", "hg2git", "--example", "allocation"]
    subprocess.run(command, cwd=RUST, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", RUST / "target"))
    return target / "release" / "examples" / "allocation"


if __name__ == "__main__":
    main()
