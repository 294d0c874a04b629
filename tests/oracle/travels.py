"""Whole git repositories go through Mercurial and come back, with exact commits.

    python3 -m oracle.travels [GIT_DIR]... [--client HG]... [--json FILE]

The first one is made here, with signatures that can be checked (``signing``); others
are given. Everything that branches and tags lead to is pushed by git to a server with
``amalgam.git.push-exact``, and fetched from another one that has only the changesets
(``testlib.roundtrip``). All ids have to be equal, and the output of ``git log
--show-signature``. Each stock hg pulls the changesets, verifies them, and amends one
that has extras: that one loses its signature, and no other commit changes. Ends with 1
if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testlib import roundtrip
from testlib.environment import ENVIRONMENT, HG, captured, git, hg
from testlib.mirrors import ids

from . import signing

_SERVERS = (
    "--config=amalgam.git.push-exact=yes",
    "--config=amalgam.serve.max-push=8GB",
    "--config=amalgam.serve.max-push-objects=100000000",
    "--config=amalgam.serve.max-push-commits=10000000",
    "--config=amalgam.serve.timeout=3600",
)
_EXACT = "extra('git.commit') or extra('git.tree')"


def tips(source: Path) -> list[str]:
    """Return the commits that branches and tags lead to."""
    form = "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname)"
    lines = git(source, "for-each-ref", form, "refs/heads", "refs/tags").decode()
    named = (line.split()[-2:] for line in lines.splitlines())
    return sorted({oid for kind, oid in named if kind == "commit"})


def signatures(repo: Path, oids: list[str], environment: Mapping[str, str]) -> bytes:
    """Return what git says of all signatures."""
    form = "--format=raw %H %G? %GK"
    options = ("--show-signature", "--topo-order", form, *oids)
    done = subprocess.run(
        ["git", "log", *options],
        cwd=repo,
        env=environment,
        capture_output=True,
        check=True,
    )
    # the first run of gpg makes its files, and says so
    lines = (done.stdout + done.stderr).splitlines()
    return b"\n".join(it for it in lines if not it.endswith(b" created"))


def edited(client: Path, copy: Path, place: Path) -> list[str]:
    """Let a stock hg pull and amend changesets; return what is wrong then."""
    there = Path(tempfile.mkdtemp(dir=place))
    evolution = "--config=experimental.evolution=all"  # others stand on it
    steps = [
        ["init", str(there)],
        ["-R", str(there), "pull", "-q", str(copy)],
        ["-R", str(there), "verify", "-q"],
        ["-R", str(there), "phase", "--draft", "--force", "all()"],
        ["-R", str(there), "update", "-q", f"last({_EXACT})"],
        ["-R", str(there), "status"],
        ["-R", str(there), evolution, "commit", "-q", "--amend", "-m", "amended"],
    ]
    for step in steps:
        done = captured([client, *step], place)
        said = (done.stdout + done.stderr).decode(errors="replace")
        if done.returncode or (said and "orphan" not in said):
            return [f"{client} {step[2:]}: {said[:500]}"]
    hg(there, "git::export")
    before, after = ids(copy), ids(there)
    found = [
        f"{client}: an amended changeset changes commit {before[node]}"
        for node, oid in after.items()
        if before.get(node, oid) != oid
    ]
    (amended,) = after.keys() - before.keys()
    store = there / ".hg" / "amalgam" / "git" / "cinnabar.git"
    if b"\ngpgsig " in git(store, "cat-file", "commit", after[amended]):
        found.append(f"{client}: an amended changeset has a signature")
    shutil.rmtree(there)
    return found


def travelled(
    source: Path,
    place: Path,
    clients: list[Path],
    environment: Mapping[str, str] = ENVIRONMENT,
) -> dict[str, Any]:
    """Let one repository travel; return what came of it.

    ``environment``: where git finds the keys of signatures.
    """
    started = time.monotonic()
    oids = tips(source)
    found = roundtrip.travel(place, source, oids, *_SERVERS, client=clients[0])
    problems = [*found.problems, *(f"{oid}: {it}" for oid, it in found.refused.items())]
    counts: dict[str, object] = {}
    if not problems:
        copy, back = place / "copy", place / "second.git"
        said = signatures(back, oids, environment)
        if said != signatures(source, oids, environment):
            problems.append("git log --show-signature differs")
        letters = re.findall(rb"^raw \w+ (\w)", said, re.MULTILINE)
        counts["signatures"] = Counter(it.decode() for it in letters)
        for client in clients:
            problems += edited(client, copy, place)
        for name in ("git.commit", "git.tree"):
            revset = f"extra('{name}')"
            listed = hg(copy, "log", "-r", revset, "-T", "x")
            counts[name] = len(listed)
    commits = git(source, "rev-list", "--count", *oids).decode().strip()
    seconds = round(time.monotonic() - started)
    return {"commits": int(commits), **counts, "seconds": seconds, "wrong": problems}


def signed(place: Path, clients: list[Path]) -> dict[str, Any]:
    """Let a repository travel whose signatures git can check."""
    with signing.keys(place) as environment:
        source = signing.signed(place, environment)
        found = travelled(source, place, clients, environment)
    letters: Counter[str] = Counter(found.get("signatures"))
    if not found["wrong"] and (letters["B"], {*letters}) != (1, {*"GB"}):
        found["wrong"] = [f"signatures of its own keys are {dict(letters)}"]
    return found


def main() -> int:
    """Compare; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("given", type=Path, nargs="*", help="a git repository")
    parser.add_argument("--client", type=Path, action="append", help="a stock hg")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    clients = [it.absolute() for it in options.client or [HG]]
    report = {}
    for source in [Path("signed"), *options.given]:
        with tempfile.TemporaryDirectory(prefix="amalgam-travels-") as name:
            if source in options.given:
                found = travelled(source.absolute(), Path(name), clients)
            else:
                found = signed(Path(name), clients)
        report[source.name] = found
        print(source.name, json.dumps(found), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(found["wrong"] for found in report.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
