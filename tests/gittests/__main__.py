"""Run git's own tests of smart HTTP against hgweb, and compare with git's own server.

``bridge.py`` takes the place of git-http-backend. Tests that fail run again with git's
own; those that pass then have to be in ``exceptions``, with a reason. git's sources are
not part of this project, and are not changed: they are built elsewhere. Apache has to
be installed, and Perl's IO::Pty for the tests that need a terminal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = ("t5541", "t5548", "t5551", "t5558", "t5616", "t5702")
HGRC = """\
[extensions]
amalgam =
[amalgam]
git.serve = yes
git.push = yes
git.push-tags = yes
git.refs = bookmarks, tags
git.program = {git}
[web]
allow-push = *
push_ssl = no
"""
_LINE = re.compile(r"(not )?ok \d+ (- )?(.*)")
_PLAN = re.compile(r"1\.\.[1-9]\d*")


def main(arguments: Sequence[str]) -> int:
    """Run the files of the arguments; 1 if a test fails that is no exception."""
    parser = argparse.ArgumentParser(prog="gittests", description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="git, built")
    parser.add_argument("--hg", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="a directory")
    parser.add_argument("--json", type=Path, help="where results are written")
    parser.add_argument("files", nargs="*", default=FILES, help="such as t5551")
    options = parser.parse_args(arguments)
    exceptions = read_exceptions(HERE / "exceptions")
    source, output = options.source.resolve(), options.output.absolute()

    with tempfile.TemporaryDirectory() as directory:
        write_backend(Path(directory), source, options.hg)
        found = {
            name: run(source, name, Path(directory), output / "amalgam")
            for name in options.files
        }
    failed = {key for tests in found.values() for key in tests if not tests[key]}
    with_git: dict[str, bool] = {}
    for name in sorted({key.split()[0] for key in failed}):
        with_git |= run(source, name, source, output / "git")
    worse = sorted(key for key in failed if with_git.get(key, True))
    unexpected = [key for key in worse if key not in exceptions]
    summary = {
        "passed": {name: [*found[name].values()].count(True) for name in found},
        "failed_with_git_too": sorted(failed - set(worse)),
        "excepted": [key for key in worse if key in exceptions],
        "unexpected": unexpected,
        "exceptions_not_needed": sorted(
            key for key in exceptions if key.split()[0] in found and key not in worse
        ),
    }
    text = json.dumps(summary, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    return 1 if unexpected else 0


def read_exceptions(path: Path) -> set[str]:
    """Return the tests: lines below a reason, which are indented."""
    lines = path.read_text().splitlines()
    return {line.strip() for line in lines if line.startswith(" ")}


def write_backend(directory: Path, source: Path, hg: Path) -> None:
    """Write a program in the place of git-http-backend, and its configuration."""
    git = source / "bin-wrappers/git"
    hgrc = directory / "hgrc"
    hgrc.write_text(HGRC.format(git=git))
    settings = {"HGRCPATH": hgrc, "HGENCODING": "UTF-8", "BRIDGE_GIT": git}
    settings["BRIDGE_HG"] = hg.absolute()
    words = [f"{name}={shlex.quote(str(value))}" for name, value in settings.items()]
    program = [str(hg.absolute().with_name("python3")), str(HERE / "bridge.py")]
    backend = directory / "git-http-backend"
    backend.write_text(f"#!/bin/sh\n{' '.join(words)} exec {shlex.join(program)}\n")
    backend.chmod(0o755)


def run(source: Path, name: str, programs: Path, output: Path) -> dict[str, bool]:
    """Run a file of tests; return which of its tests passed.

    ``programs``: where git-http-backend is.
    """
    output.mkdir(parents=True, exist_ok=True)
    [file] = (source / "t").glob(f"{name}-*.sh")
    # these tests refuse to run as root; files stay readable for their owner
    become = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    become = become if os.geteuid() == 0 else []
    settings = {
        "GIT_TEST_EXEC_PATH": str(programs),
        "GIT_TEST_HTTPD": "true",  # fail without Apache
        "GIT_TEST_INSTALLED": str(source / "bin-wrappers"),
        "TEST_OUTPUT_DIRECTORY": str(output),
    }
    done = subprocess.run(
        [*become, "/bin/sh", file.name, "--verbose-log"],
        cwd=source / "t",
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    found = {f"{name} runs to its end": any(map(_PLAN.fullmatch, lines))}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match and "# skip" not in line and "# TODO" not in line:
            key = f"{name} {match[3]}"  # some titles are there twice
            found[key] = found.get(key, True) and not match[1]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
