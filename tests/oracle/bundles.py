"""Clients that start from what is published: oracle.bundles --cinnabar PROGRAM.

Each kind clones from bundles over HTTP, then takes what has come since, and has to have
all of the history; and nobody may have been sent all of it by Mercurial itself. hg is
that of this environment, and any others given by ``--hg``. ``--repository`` is copied,
with its working copy left empty.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from testlib.bundled import Bundled, Served
from testlib.environment import ENVIRONMENT, HG
from testlib.hgserver import HgServer


class ClientError(Exception):
    """A client did not succeed; the text is what it said."""


def run(cwd: Path, *command: str, cinnabar: Path | None = None) -> str:
    """Run a client and return its stdout."""
    environment = dict(ENVIRONMENT)
    if cinnabar:
        environment["GIT_CINNABAR_CHECK"] = "no-version-check"
        path = environment.get("PATH", os.defpath)
        environment["PATH"] = f"{cinnabar.parent}:{HG.parent}:{path}"
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True)
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise ClientError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
    return done.stdout.decode(errors="replace")


class Clients:
    """The kinds of clients of one repository."""

    def __init__(self, bundled: Bundled, program: Path, scratch: Path) -> None:
        self._bundled = bundled
        self._program = program
        self._scratch = scratch

    def checks(
        self, others: Iterable[Path]
    ) -> Iterator[tuple[str, Callable[[Served], None]]]:
        """Yield a name and a check for each kind."""
        for hg in (HG, *others):
            version = run(self._scratch, str(hg), "--version", "-q").splitlines()[0]
            yield version, lambda served, hg=hg: self._hg(hg, served)  # type: ignore[misc]
        yield "git-cinnabar by cinnabarclone", lambda s: self._cinnabar(s)
        yield (
            "git-cinnabar by clone bundles of hg",
            lambda s: self._cinnabar(s, "-c", "cinnabar.clone="),
        )
        yield "git by --bundle-uri", self._git

    def _hg(self, hg: Path, served: Served) -> None:
        clone = self._place()
        said = run(self._scratch, str(hg), "clone", "-U", served.url, str(clone))
        if "applying clone bundle" not in said:
            raise ClientError(f"no bundle was used:\n{said}")
        self._change()
        run(clone, str(hg), "pull", "-q")
        ours = self._bundled.hg("log", "-r", "all()", "-T", "{node}\\n").split()
        theirs = run(clone, str(hg), "log", "-T", "{node}\\n").split()
        if set(ours) != set(theirs):
            raise ClientError(f"{len(theirs)} changesets of {len(ours)}")

    def _cinnabar(self, served: Served, *config: str) -> None:
        clone = self._place()
        git = ["git", *config]
        url = f"hg::{served.url.rstrip('/')}"
        target = str(clone)
        self._run_cinnabar(self._scratch, *git, "clone", "-qn", url, target)
        suffix = ".hg" if config else ".bundle"
        asked = [line for line in served.requests() if "GET /amalgam/bundles/" in line]
        if not any(f"{suffix} HTTP" in line and '" 200' in line for line in asked):
            raise ClientError(f"no {suffix} was used")
        self._change()
        self._run_cinnabar(clone, "git", "fetch", "-q")
        self._run_cinnabar(clone, "git", "cinnabar", "fsck", "--full")
        tip = self._bundled.hg("log", "-r", "tip", "-T", "{node}")
        oid = self._run_cinnabar(clone, "git", "cinnabar", "hg2git", tip).strip()
        self._bundled.hg("git::export")
        ours = self._bundled.hg("log", "-r", "tip", "-T", "{gitnode}")
        if oid != ours:
            raise ClientError(f"the tip is {oid} there, and {ours} here")

    def _git(self, served: Served) -> None:
        clone = self._place()
        origin = self._bundled.dot_hg / "amalgam" / "git" / "cinnabar.git"
        uri = served.url + "amalgam/bundles/bundles.list"
        url = f"file://{origin}"
        clone_command = ("clone", "-qn", f"--bundle-uri={uri}", url, str(clone))
        run(self._scratch, "git", *clone_command)
        if not run(clone, "git", "for-each-ref", "refs/bundles"):
            raise ClientError("no bundle was used")
        self._change()
        self._bundled.hg("git::export")
        run(clone, "git", "fetch", "-q")
        run(clone, "git", "fsck", "--full", "--connectivity-only")
        tip = self._bundled.hg("log", "-r", "tip", "-T", "{gitnode}")
        run(clone, "git", "cat-file", "-e", tip)

    def _run_cinnabar(self, cwd: Path, *command: str) -> str:
        return run(cwd, *command, cinnabar=self._program)

    def _place(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._scratch)) / "clone"

    def _change(self) -> None:
        self._bundled.commit()


def published(root: Path, server: HgServer, given: Path | None) -> Bundled:
    """Return a repository of which everything is published."""
    formats = {"hg": ("zstd-v2",)}
    if given is None:
        made = Bundled.init(root, server, **formats, changesets=0)
        for number in range(20):
            if number % 5 == 4:
                made.hg("branch", "-q", f"branch {number}")
            made.commit()
    else:
        subprocess.run(["cp", "-r", str(given), str(root)], check=True)
        (root / ".hg" / "hgrc").unlink(missing_ok=True)
        made = Bundled(root, server)
        made.configure("extensions", amalgam="", clonebundles="")
        made.configure("phases", new_commit="public")
        made.configure("clone-bundles", git__formats="git-v2, cinnabar-v1")
        made.configure("clone-bundles", auto_generate__formats=formats["hg"][0])
        made.hg("phase", "--public", "-r", "all()")
        made.hg("update", "-q", "null")
    made.refresh()
    return made


def check_all(
    program: Path, scratch: Path, others: Iterable[Path], given: Path | None
) -> dict[str, str]:
    """Check each kind of client; return what is wrong with it, or nothing."""
    server = HgServer()
    started = time.monotonic()
    bundled = published(scratch / "published", server, given)
    print(f"  published in {time.monotonic() - started:.1f} seconds", flush=True)
    found = {}
    for name, check in Clients(bundled, program, scratch).checks(others):
        started = time.monotonic()
        try:
            with bundled.served() as served:
                check(served)
                served.check_offloaded(bundled)
            found[name] = ""
        except (AssertionError, ClientError) as exc:
            found[name] = str(exc)
        took = time.monotonic() - started
        print(f"  {name:<36} {found[name] or 'good'}, {took:.1f} seconds", flush=True)
    server.close()
    return found


def main() -> int:
    """Check all clients; 1 if one has not what it should have."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--cinnabar", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("--hg", type=Path, action="append", default=[])
    parser.add_argument("--repository", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="amalgam-oracle-") as scratch:
        program, others = (
            options.cinnabar.absolute(),
            [p.absolute() for p in options.hg],
        )
        found = check_all(program, Path(scratch), others, options.repository)
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
