"""Time commands against each other: compare.py --subject NAME='COMMAND' [...].

    compare.py --rounds 7 --json out.json --corpus 'nginx, 8,900 changesets' \\
        --subject amalgam='hg -R R git::export --rebuild' \\
        --subject cinnabar='git clone -q hg::R C' \\
        --prepare cinnabar='rm -rf C' --check cinnabar='git -C C fsck'

Every subject runs once to warm up; then its check has to succeed. The rounds follow,
subjects alternating, each run after its `--prepare`. The first subject runs twice a
round: what its two halves differ by, or might have by chance, is the A/A band, and a
ratio within it is called no difference. `--prepare` and `--check` without a subject's
name are for all; $SUBJECT tells them whose turn it is.

Memory is that of the whole process tree, see ``measured_run``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from measured_run import CommandError, Sample, run

AGAIN = " (again)"
_SHUFFLES = 2000


@dataclass(frozen=True)
class Comparison:
    """A subject against the first one: seconds of it for one second of the first."""

    subject: str
    ratio: float
    verdict: str


def noise_band(first: list[float], again: list[float]) -> float:
    """The factor, at least 1, by which equal subjects may differ.

    It is the larger of two: the ratio of the medians of ``first`` and ``again``, and
    the one that 95 in 100 random halvings of the same samples stay below. The same
    samples give the same answer.
    """
    ratios = [_factor(first, again)]
    pool, shuffle = [*first, *again], random.Random(0).shuffle
    for _shuffle in range(_SHUFFLES):
        shuffle(pool)
        ratios.append(_factor(pool[: len(first)], pool[len(first) :]))
    return max(ratios[0], statistics.quantiles(ratios, n=20)[-1])


def compare(samples: dict[str, list[float]], band: float) -> list[Comparison]:
    """Judge each subject by its median against the first, in order."""
    (_name, first), *others = samples.items()
    found = []
    for subject, seconds in others:
        ratio = statistics.median(seconds) / statistics.median(first)
        if 1 / band <= ratio <= band:
            verdict = "no difference"
        elif ratio > 1:
            verdict = f"takes {ratio:.2f} times as long"
        else:
            verdict = f"is {1 / ratio:.2f} times as fast"
        found.append(Comparison(subject, ratio, verdict))
    return found


def _environment(name: str) -> dict[str, str]:
    return {**os.environ, "SUBJECT": name.removesuffix(AGAIN)}


def _factor(some: list[float], others: list[float]) -> float:
    ratio = statistics.median(some) / statistics.median(others)
    return max(ratio, 1 / ratio)


def _machine() -> dict[str, object]:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [
        line.partition(": ")[2] for line in lines if line.startswith("model name")
    ]
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "platform": platform.platform(),
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_bytes": pages * page_bytes,
        "load_average": os.getloadavg(),
    }


def _versions(commands: dict[str, str]) -> dict[str, str]:
    """The first line that each command prints; a missing program is left out."""
    found = {"python": platform.python_version()}
    for name, command in commands.items():
        done = subprocess.run(
            command, shell=True, capture_output=True, text=True, check=False
        )
        if done.returncode == 0 and done.stdout:
            found[name] = done.stdout.splitlines()[0]
    return found


def _measure(
    subjects: dict[str, str],
    prepare: dict[str, list[str]],
    check: dict[str, list[str]],
    rounds: int,
) -> dict[str, list[Sample]]:
    """Warm up, check, and take the samples, printing each as it comes."""
    width = max(12, *(len(name) + 2 for name in subjects))
    print(f"{'seconds':>8}" + "".join(f"{name:>{width}}" for name in subjects))
    samples: dict[str, list[Sample]] = {name: [] for name in subjects}
    names = list(subjects)
    for number in range(rounds + 1):
        first = number % len(names)  # nobody is always first
        for name in names[first:] + names[:first]:
            for command in prepare[name]:
                run(command, _environment(name))
            samples[name].append(run(subjects[name], _environment(name)))
            if number == 0:
                for command in check[name]:
                    run(command, _environment(name))
        label = str(number) if number else "warm-up"
        row = [f"{samples[name][-1].seconds:{width}.3f}" for name in subjects]
        print(f"{label:>8}" + "".join(row), flush=True)
    return {name: taken[1:] for name, taken in samples.items()}


def _print_summary(
    samples: dict[str, list[Sample]], band: float, found: list[Comparison]
) -> None:
    width = max(12, *(len(name) + 2 for name in samples))
    rows = {
        "median": [
            f"{statistics.median(one.seconds for one in taken):{width}.3f}"
            for taken in samples.values()
        ],
        "tree MB": [
            f"{max(one.tree_pss_bytes for one in taken) / 1e6:{width}.1f}"
            for taken in samples.values()
        ],
        "proc MB": [
            f"{max(one.process_rss_bytes for one in taken) / 1e6:{width}.1f}"
            for taken in samples.values()
        ],
    }
    for label, row in rows.items():
        print(f"{label:>8}" + "".join(row))
    print(f"\nA/A band: {1 / band:.3f} to {band:.3f}")
    first = next(iter(samples))
    for one in found:
        print(f"{one.subject} / {first}: {one.ratio:.3f}, {one.verdict}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--subject", action="append", required=True, metavar="NAME=COMMAND"
    )
    for option, purpose in (
        ("--prepare", "before each run, not timed"),
        ("--check", "after the warm-up; must succeed"),
        ("--version-of", "prints a version to record"),
    ):
        parser.add_argument(
            option,
            action="append",
            default=[],
            metavar="NAME=COMMAND",
            help=purpose,
        )
    parser.add_argument("--corpus", default="", help="what it runs on, to record")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="file to write the results to")
    return parser


def _for_each(commands: list[str], subjects: dict[str, str]) -> dict[str, list[str]]:
    """The commands of each subject: those with its name, and those with none."""
    found: dict[str, list[str]] = {}
    for subject in subjects:
        found[subject] = []
        for text in commands:
            name, _equals, command = text.partition("=")
            if name not in subjects:
                found[subject].append(text)
            elif name == subject.removesuffix(AGAIN):
                found[subject].append(command)
    return found


def main() -> int:
    """Measure what the command line says; 1 if a command fails."""
    parser = _parser()
    options = parser.parse_args()
    given = dict(text.split("=", 1) for text in options.subject if "=" in text)
    if len(given) < len(options.subject) or options.rounds < 2:
        parser.error("need NAME=COMMAND with differing names, and at least 2 rounds")
    first = next(iter(given))
    subjects = {first: given[first], first + AGAIN: given[first], **given}
    versions = {"hg": "hg version -q", "git": "git --version"}
    versions |= dict(text.split("=", 1) for text in options.version_of)
    report: dict[str, object] = {
        "machine": _machine(),
        "versions": _versions(versions),
        "corpus": options.corpus,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "rounds": options.rounds,
    }
    prepare, check = (_for_each(o, subjects) for o in (options.prepare, options.check))
    try:
        samples = _measure(subjects, prepare, check, options.rounds)
    except CommandError as err:
        print(f"compare.py: {err}", file=sys.stderr)
        return 1
    seconds = {name: [one.seconds for one in taken] for name, taken in samples.items()}
    band = noise_band(seconds[first], seconds[first + AGAIN])
    found = compare(seconds, band)
    _print_summary(samples, band, found)
    report["band"] = band
    report["comparisons"] = [asdict(one) for one in found]
    report["subjects"] = {
        name: {
            "command": subjects[name],
            "median_seconds": statistics.median(seconds[name]),
            "samples": [asdict(sample) for sample in taken],
        }
        for name, taken in samples.items()
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
