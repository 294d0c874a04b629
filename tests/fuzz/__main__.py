"""All fuzz targets, one after the other: python -m fuzz, in ``tests``.

Prints a line for each and writes the figures as JSON. An input that fails is kept in
``crashes`` beside the seeds, where ``make test`` finds it, and ends it with 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from testlib.environment import ROOT

from .toolchain import Toolchain, UnusableError

_RUST = ROOT / "rust" / "fuzz"
_PYTHON = ROOT / "tests" / "fuzz"
_FIGURE = re.compile(rb"^stat::(\w+):\s+(\d+)$", re.MULTILINE)

# A target measures the time and memory that it takes itself. These end what never does.
_OPTIONS = ("-timeout=60", "-rss_limit_mb=1024", "-print_final_stats=1")


@dataclasses.dataclass
class Target:
    """A program that libFuzzer is linked into, and its files."""

    name: str
    language: str
    command: tuple[str, ...]
    home: Path
    """Has a directory ``seeds`` and, if an input ever failed, ``crashes``."""
    max_len: int

    @property
    def crashes(self) -> Path:
        """The directory of inputs that failed."""
        return self.home / "crashes" / self.name

    def run(self, corpus: Path, seconds: int, runs: int) -> dict[str, object]:
        """Try inputs until one of the limits is reached, and return the figures."""
        corpus.mkdir(parents=True, exist_ok=True)
        known = set(_files(self.crashes))
        self.crashes.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        limits = (f"-max_total_time={seconds}", f"-runs={runs}")
        places = (f"-artifact_prefix={self.crashes}/", str(corpus))
        sizes = (f"-max_len={self.max_len}", str(self.home / "seeds" / self.name))
        command = (*self.command, *_OPTIONS, *limits, *places, *sizes)
        # libdeflate has a table twice, which harms nobody
        sanitizer = "quarantine_size_mb=16:detect_odr_violation=0"
        environment = os.environ | {"ASAN_OPTIONS": sanitizer}
        done = subprocess.run(command, capture_output=True, env=environment)
        figures = {name.decode(): int(n) for name, n in _FIGURE.findall(done.stderr)}
        crashes = sorted(path.name for path in set(_files(self.crashes)) - known)
        if done.returncode and not crashes:
            crashes = [f"ended with {done.returncode}"]
        if crashes:
            sys.stderr.buffer.write(done.stderr[-4000:])
        if not any(self.crashes.iterdir()):
            self.crashes.rmdir()
        inputs = list(_files(corpus))
        return {
            "language": self.language,
            "executions": figures.get("number_of_executed_units", 0),
            "seconds": round(time.monotonic() - started, 1),
            "corpus": len(inputs),
            "corpus_bytes": sum(path.stat().st_size for path in inputs),
            "peak_rss_mb": figures.get("peak_rss_mb", 0),
            "crashes": crashes,
        }


def _files(directory: Path) -> Iterator[Path]:
    return directory.iterdir() if directory.is_dir() else iter(())


def _targets(toolchain: Toolchain) -> Iterator[Target]:
    whole_files = ("revlog", "nodemap", "upstream_nodemap", "segment", "packs")
    for path in sorted((_RUST / "fuzz_targets").rglob("*.rs")):
        is_file = path.stem in (*whole_files, "export")
        program = str(toolchain.program(path.stem))
        most = 20_000 if is_file else 4096
        yield Target(path.stem, "rust", (program,), _RUST, most)
    for path in sorted((_PYTHON / "seeds").iterdir()):
        command = (sys.executable, "-m", "fuzz.one", path.name)
        yield Target(path.name, "python", command, _PYTHON, 4096)


def main() -> int:
    """Run the targets and return the exit status."""
    options = _options()
    toolchain = Toolchain(options.cargo_fuzz, options.build)
    try:
        toolchain.check()
    except UnusableError as problem:
        print(f"make fuzz: {problem}", file=sys.stderr)
        return 1
    toolchain.build()
    targets = _chosen(_targets(toolchain), options.targets)
    report: dict[str, dict[str, object]] = {}
    for target in targets:
        corpus = options.build / "corpus" / target.name
        figures = target.run(corpus, options.seconds, options.runs)
        report[target.name] = figures
        told = "{executions} executions in {seconds} s, {corpus} inputs kept"
        crashes = figures["crashes"]
        wrong = f"; failed: {crashes}" if crashes else ""
        print(f"{target.name}: {told.format(**figures)}{wrong}", flush=True)
        if options.json:
            known = {"toolchain": toolchain.described(), "targets": report}
            options.json.write_text(json.dumps(known, indent=1) + "\n")
    return 1 if any(figures["crashes"] for figures in report.values()) else 0


def _chosen(targets: Iterable[Target], names: list[str]) -> list[Target]:
    every = list(targets)
    unknown = set(names) - {target.name for target in every}
    if unknown:
        raise SystemExit(f"no such target: {', '.join(sorted(unknown))}")
    return [target for target in every if not names or target.name in names]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help="all, if none is named")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--runs", type=int, default=-1, help="at most, of each target")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--cargo-fuzz", default="cargo-fuzz", help="the program")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
