"""Run Mercurial's own tests with amalgam on, and compare with what they say without it.

Every index is mapped, however small. A test that fails runs again without amalgam; if
it passes then, amalgam is what makes the difference, and ``exceptions`` must name it,
with a reason. Nothing is compared with output written down by us.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: Whatever has one of these in its name touches what amalgam does to indexes.
WORDS = {"revlog", "strip", "rollback", "transaction", "phase", "branchmap", "rebase"}
WORDS |= {"histedit", "share", "clone", "nodemap", "bundle"}
#: Others that do.
OTHERS = {"extension", "fncache", "hgweb", "hgweb-commands", "http", "http-bad-server"}
OTHERS |= {"http-permissions", "http-protocol", "http-proxy", "https", "inherit-mode"}
OTHERS |= {"parseindex", "parseindex2", "split-legacy-inline-changelog", "wireproto"}
CONFIG = (
    "extensions.amalgam=",
    "experimental.mmapindex=yes",
    "experimental.mmapindexthreshold=0",
)


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for; 1 if something is worse with amalgam."""
    parser = argparse.ArgumentParser(prog="upstream", description=__doc__)
    parser.add_argument("--sdist", type=Path, required=True, help="of Mercurial")
    parser.add_argument("--hg", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="a directory")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where results are written")
    parser.add_argument("tests", nargs="*", help="instead of all that are concerned")
    options = parser.parse_args(arguments)
    runner = Runner(options.sdist / "tests", options.hg, options.output, options.jobs)
    exceptions = read_exceptions(HERE / "exceptions")

    wanted = options.tests or list(concerned(options.sdist / "tests"))
    with_amalgam = runner.run("with", wanted, CONFIG)
    failed = sorted(
        name for name, result in with_amalgam.items() if result == "failure"
    )
    without = runner.run("without", sorted({file_of(name) for name in failed}), ())
    worse = [name for name in failed if without.get(name) != "failure"]
    unexpected = [name for name in worse if file_of(name) not in exceptions]

    results = list(with_amalgam.values())
    summary = {
        "run": len(results),
        "passed": results.count("success"),
        "skipped": results.count("skip"),
        "failed": failed,
        "failed_without_too": sorted(set(failed) - set(worse)),
        "excepted": sorted(set(worse) - set(unexpected)),
        "unexpected": unexpected,
        "exceptions_not_needed": sorted(
            name
            for name in exceptions
            if name in wanted and name not in map(file_of, worse)
        ),
    }
    text = json.dumps(summary, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    return 1 if unexpected else 0


def concerned(directory: Path) -> Iterable[str]:
    """Yield the names of the tests that touch what amalgam does."""
    for path in sorted([*directory.glob("test-*.t"), *directory.glob("test-*.py")]):
        name = path.stem.removeprefix("test-")
        if name in OTHERS or any(word in name for word in WORDS):
            yield path.name


def file_of(name: str) -> str:
    """Return the file of a test, whose cases have names of their own."""
    return name.partition("#")[0]


def read_exceptions(path: Path) -> dict[str, str]:
    """Return the reasons in a file of lines ``TEST: REASON``; ``#`` is a comment."""
    lines = [
        line for line in path.read_text().splitlines() if line[:1] not in ("", "#")
    ]
    pairs = [line.split(": ", 1) for line in lines]
    return {name: reason.strip() for name, reason in pairs}


class Runner:
    """Mercurial's run-tests.py."""

    def __init__(
        self,
        directory: Path,
        hg: Path,
        output: Path,
        jobs: int,
        modules: Path | None = None,
    ) -> None:
        """``modules``: where tests find modules of Python first."""
        self._directory = directory.resolve()
        self._hg = hg.absolute()
        self._output = output.absolute()
        self._jobs = jobs
        self._modules = modules

    def run(
        self, label: str, tests: Sequence[str], config: Sequence[str]
    ) -> dict[str, str]:
        """Run tests; return ``success``, ``skip`` or ``failure`` of each case."""
        if not tests:
            return {}
        output = self._output / label
        output.mkdir(parents=True, exist_ok=True)
        names = output / "tests"
        names.write_text("".join(f"{name}\n" for name in tests))
        # its own interpreter has to be called python3, and see nothing of ours
        command = [str(self._hg.with_name("python3")), "run-tests.py"]
        command += [f"--with-hg={self._hg}", f"-j{self._jobs}", "--json"]
        command += ["--outputdir", str(output), "--test-list", str(names)]
        for item in config:
            command += ["--extra-config-opt", item]
        hidden = ("PYTHONUNBUFFERED", "PYTHONPATH", "HGRCPATH", "HGPLAIN")
        environment = {k: v for k, v in os.environ.items() if k not in hidden}
        if self._modules:
            environment["PYTHONPATH"] = str(self._modules.absolute())
        environment.setdefault("HGTEST_TIMEOUT", "3600")
        environment.setdefault("HGTEST_SLOWTIMEOUT", "7200")
        (output / "report.json").unlink(missing_ok=True)
        with (output / "log").open("wb") as log:
            subprocess.run(
                command,
                cwd=self._directory,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        report = (output / "report.json").read_text().partition("=")[2]
        return {name: test["result"] for name, test in json.loads(report).items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
