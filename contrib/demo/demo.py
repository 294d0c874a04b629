"""Show the main job end to end on a generated repository: demo.py --hg PATH.

Generate a repository, map its indexes, export it to git, serve it, clone it with git
and push, publish bundles and let clients start from them, and do the same with what
Mercurial ships. git and stock hg check each step. With --keep, the repository stays.
Exit status 1 if anything is wrong. Knows amalgam only from outside, by its commands;
no configuration of the user is read. One module, read from top to bottom as it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_GENERATOR = Path(__file__).parents[1] / "perf" / "generate.py"
HGRC = """\
[extensions]
amalgam =
clonebundles =

[amalgam]
git.serve = yes
git.push = yes

[web]
allow-push = *
# only without TLS, and on this machine
push_ssl = no

[experimental]
mmapindexthreshold = 0

[clone-bundles]
git.formats = git-v2, cinnabar-v1
auto-generate.formats = zstd-v2
"""
NEXT = """
This repository stays. Serve it, and push to it with git:

    cd {here}
    {hg} -R project serve -d -p 8000 --pid-file hg.pid
    git clone http://localhost:8000/ work
    echo hello > work/hello.txt
    git -C work add hello.txt
    git -C work -c user.name=me -c user.email=me@example.org commit -m 'from git'
    git -C work push
    {hg} -R project log -r tip
    kill $(cat hg.pid)

In a repository of your own, this serves git users, and changes nothing in its history:

    {hg} --config extensions.amalgam= --config amalgam.git.serve=yes serve"""
_STOCK_HG = ["--config", "extensions.amalgam=!"]
_EXPORT = "hg git::export"
_STOCK = "hg fastexport | git fast-import"
_FROM_BUNDLE = "hg clone, from a bundle"
_WITHOUT_BUNDLE = "hg clone, without"
_LEAST_CHANGESETS = 3000  # inline indexes cannot be mapped
_CHECKED_REVS = 5
_CHECKED_FILES = 40  # of each of these
_ENVIRONMENT = {
    **{name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ},
    "HOME": os.devnull,
    "HGRCPATH": "",
    "HGPLAIN": "1",
    "HGENCODING": "UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "no_proxy": "127.0.0.1",
}


class CommandError(Exception):
    """A command of the demo did not succeed."""


@dataclass
class Demo:
    """One run: the place, the hg to show, and what was found so far."""

    scratch: Path
    hg: str
    problems: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # by the label of the row
    server_seconds: dict[str, float] = field(default_factory=dict)  # of CPU, likewise
    sizes_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def repository(self) -> Path:
        """The generated hg repository."""
        return self.scratch / "project"

    @property
    def git_store(self) -> Path:
        """The bare git repository that the export writes."""
        return self.repository / ".hg" / "amalgam" / "git" / "cinnabar.git"

    def generate(self, changesets: int, seed: int) -> None:
        """Write the hg repository, and the configuration that the demo is about."""
        sizes = [f"--changesets={changesets}", f"--seed={seed}"]
        command = [sys.executable, str(_GENERATOR), "realistic", str(self.repository)]
        self.timed("generate the hg repository", [*command, *sizes])
        (self.repository / ".hg" / "hgrc").write_text(HGRC)
        self.sizes_bytes["hg store"] = _size_bytes(self.repository / ".hg" / "store")

    def map_indexes(self, changesets: int) -> None:
        """Find a changeset by its node, with the indexes mapped."""
        (node,) = self.nodes(self.repository, str(changesets // 2))
        find = self.hg_command("log", "-r", node, "-T", "{rev}")
        rev = self.timed("hg log -r HASH, with mapped indexes", find)
        self.expect("revision of that node", rev.decode(), str(changesets // 2))
        for index in self.state()["indexes"]:
            name = index["index"]
            self.expect(f"{name} mapped", index["mapped"], True)
            self.expect(f"bytes of {name}", index["snapshot_bytes"], index["bytes"])
            if name == "00changelog":
                self.expect("nodes in its map", index["mapped_nodes"], changesets)

    def export(self, changesets: int) -> None:
        """Export to git, and clone the result."""
        command = self.hg_command("git::export", "-T", "json")
        (result,) = json.loads(self.timed(_EXPORT, command))
        self.expect("changesets exported", result["changesets"], changesets)
        self.expect("objects in packs", _packed(self.git_store), result["objects"])
        again = self.hg_command("git::export", "-T", "json")
        (result,) = json.loads(self.timed(f"{_EXPORT}, nothing new", again))
        self.expect("changesets exported again", result["changesets"], 0)
        clone = self.clone("git clone of it", self.git_store)
        fsck = ["git", "-C", str(clone), "fsck", "--full", "--no-progress"]
        self.timed("git fsck --full of the clone", fsck)

    def check_contents(self) -> None:
        """Compare files with stock `hg cat` over the whole history."""
        start = time.perf_counter()
        log = self.hg_command("log", "-r", "all()", "-T", "{rev} {gitnode}\n")
        commits = [line.split() for line in _output(log).decode().splitlines()]
        checked = 0
        for position in range(_CHECKED_REVS):
            place = position * (len(commits) - 1) // (_CHECKED_REVS - 1)
            rev, git_oid = commits[place]
            checked += self.check_changeset(rev, git_oid)
        self.print_row(f"compare {checked} files with stock hg cat", start)

    def check_changeset(self, rev: str, git_oid: str) -> int:
        """Compare some files of one changeset; return how many.

        Also, the two sides have to agree on the names of all files.
        """
        listing = self.hg_command(*_STOCK_HG, "files", "-r", rev, "-T", "{path}\\n")
        names = sorted(os.fsdecode(_output(listing)).splitlines())
        git = ["git", "-C", str(self.git_store)]
        tree = _output([*git, "ls-tree", "-rz", "--name-only", git_oid])
        self.expect(
            f"files of changeset {rev}",
            sorted(os.fsdecode(tree).split("\0")[:-1]),
            names,
        )
        some = names[:: max(1, len(names) // _CHECKED_FILES)][:_CHECKED_FILES]
        target = self.scratch / "cat" / rev
        cat = ["cat", "-r", rev, "-o", f"{target}/%p", *some]
        _output(self.hg_command(*_STOCK_HG, *cat))
        for name in some:
            blob = _output([*git, "cat-file", "blob", f"{git_oid}:{name}"])
            if blob != (target / name).read_bytes():
                self.problems.append(f"{name} of changeset {rev} differs")
        return len(some)

    def serve(self) -> None:
        """Clone from hg serve with git, commit, and push; hg has the changeset."""
        clone = self.scratch / "my-clone"
        git = ["git", "-C", str(clone), "-c", "user.name=Ann", "-c", "user.email=a@b.c"]
        with self.server("git push") as url:
            self.timed(
                "git clone from hg serve", ["git", "clone", "-q", url, str(clone)]
            )
            (clone / "NEWS").write_text("pushed by git\n")
            _output([*git, "add", "NEWS"])
            _output([*git, "commit", "-q", "-m", "tell the news"])
            self.timed("git push of a commit", [*git, "push", "-q"])
        oid = _output([*git, "rev-parse", "HEAD"]).decode().strip()
        said = _output(self.hg_command("log", "-r", "tip", "-T", "{gitnode} {desc}"))
        self.expect("pushed commit", said.decode(), f"{oid} tell the news")

    def publish(self, changesets: int) -> None:
        """Make bundles, and have them advertised."""
        refresh = self.hg_command("admin::clone-bundles-refresh")
        self.timed("hg admin::clone-bundles-refresh", refresh)
        state = self.state()
        self.expect("problems", state["problems"], [])
        live = {
            row["format"]: row for row in state["bundles"] if row["state"] == "live"
        }
        self.expect("formats", sorted(live), ["cinnabar-v1", "git-v2", "zstd-v2"])
        self.expect("changesets for hg", live["zstd-v2"]["changesets"], changesets)
        self.sizes_bytes["bundle for hg"] = live["zstd-v2"]["bytes"]

    def clone_with_hg(self, label: str, *options: str) -> None:
        """Clone with stock hg, and note what that costs the server."""
        clone = self.scratch / label.replace(" ", "-")
        with self.server(label) as url:
            command = [self.hg, "clone", "-U", *options, url, str(clone)]
            said = self.timed(label, command).decode()
        started = f"applying clone bundle from {url}amalgam/bundles/" in said
        self.expect(f"{label}: bundle", started, label == _FROM_BUNDLE)
        self.expect(
            f"{label}: nodes",
            sorted(self.nodes(clone, "all()")),
            sorted(self.nodes(self.repository, "all()")),
        )

    def clone_with_git(self) -> None:
        """Let git start from a bundle, as the operator tells users."""
        clone = self.scratch / "from-bundle.git"
        with self.server("git clone, from a bundle") as url:
            uri = f"--bundle-uri={url}amalgam/bundles/bundles.list"
            command = ["git", "clone", "-q", "--mirror", uri, url, str(clone)]
            self.timed("git clone, from a bundle", command)
        started = ["git", "-C", str(clone), "for-each-ref", "refs/bundles"]
        self.expect("bundle", bool(_output(started)), True)
        self.check_refs(clone)

    def convert_with_stock_hg(self) -> None:
        """Convert with `hg fastexport`."""
        target = self.scratch / "fastimport.git"
        _output(["git", "init", "-q", "--bare", str(target)])
        start = time.perf_counter()
        options = [*_STOCK_HG, "--config", "extensions.fastexport="]
        command = self.hg_command(*options, "fastexport")
        with tempfile.TemporaryFile() as errors:
            exporter = subprocess.Popen(
                command, env=_ENVIRONMENT, stdout=subprocess.PIPE, stderr=errors
            )
            importer = ["git", "-C", str(target), "fast-import", "--quiet"]
            importing = subprocess.run(
                importer, env=_ENVIRONMENT, stdin=exporter.stdout, stderr=errors
            )
            if exporter.stdout:
                exporter.stdout.close()
            if exporter.wait() or importing.returncode:
                errors.seek(0)
                text = errors.read().decode(errors="replace")
                raise CommandError(f"{_STOCK} failed:\n{text}")
        self.print_row(_STOCK, start)
        self.sizes_bytes["pack of git fast-import"] = _size_bytes(target, "**/*.pack")
        self.timed("git repack -adf", ["git", "-C", str(target), "repack", "-adfq"])
        self.sizes_bytes["the same, repacked"] = _size_bytes(target, "**/*.pack")

    @contextlib.contextmanager
    def server(self, label: str) -> Iterator[str]:
        """Run `hg serve` on a free port of the loopback; the value is its address.

        The CPU time that it took, its start included, is noted when it has ended.
        """
        command = self.hg_command("serve", "-a", "127.0.0.1", "-p", "0")
        process = subprocess.Popen(
            command, env=_ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert process.stdout
        try:
            said = process.stdout.readline().decode()
            port = re.search(r"listening at http://\S*?:(\d+)/", said)
            if not port:
                raise CommandError(f"hg serve said: {said}")
            yield f"http://127.0.0.1:{port[1]}/"
        finally:
            process.terminate()
            complaints = process.stdout.read().decode(errors="replace")
            process.stdout.close()
            _pid, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.server_seconds[label] = usage.ru_utime + usage.ru_stime
        self.expect("errors of hg serve", "Traceback" in complaints, False)

    def clone(self, label: str, source: Path) -> Path:
        """Clone with git, all refs included; return the clone."""
        clone = self.scratch / f"{label.replace(' ', '-')}.git"
        self.timed(label, ["git", "clone", "-q", "--mirror", str(source), str(clone)])
        return clone

    def check_refs(self, clone: Path) -> None:
        """Compare the branches and tags of a clone with those of the export."""
        listing = ["for-each-ref", "refs/heads", "refs/tags"]
        found, exported = (
            _output(["git", "-C", str(git_dir), *listing]).decode().splitlines()
            for git_dir in (clone, self.git_store)
        )
        self.expect(f"refs of {clone.name}", found, exported)

    def state(self) -> dict[str, Any]:
        """What `hg admin::amalgam` shows."""
        command = self.hg_command("admin::amalgam", "-T", "json")
        (state,) = json.loads(_output(command))
        return dict(state)

    def nodes(self, repository: Path, revisions: str) -> list[str]:
        """Ask stock hg for nodes."""
        log = [*_STOCK_HG, "log", "-r", revisions, "-T", "{node}\n"]
        return _output([self.hg, "--cwd", str(repository), *log]).decode().split()

    def hg_command(self, *arguments: str) -> list[str]:
        """The hg to show, on the generated repository."""
        return [self.hg, "--cwd", str(self.repository), *arguments]

    def timed(self, label: str, command: list[str]) -> bytes:
        """Run a command, print a row about it, and return its stdout."""
        start = time.perf_counter()
        output = _output(command)
        self.print_row(label, start)
        return output

    def print_row(self, label: str, start: float) -> None:
        """Print and remember the seconds since ``start``."""
        self.seconds[label] = time.perf_counter() - start
        print(f"  {label:<44}{self.seconds[label]:>8.2f} s", flush=True)

    def print_savings(self) -> None:
        """Print what amalgam saves, and how large everything is."""
        print("\nWhat that saves, in one run on this machine:\n")
        for label, seconds in (
            (_STOCK, self.seconds[_STOCK]),
            (_EXPORT, self.seconds[_EXPORT]),
            (
                f"CPU of the server: {_WITHOUT_BUNDLE}",
                self.server_seconds[_WITHOUT_BUNDLE],
            ),
            (f"CPU of the server: {_FROM_BUNDLE}", self.server_seconds[_FROM_BUNDLE]),
        ):
            print(f"  {label:<44}{seconds:>8.2f} s")
        print()
        for label, size_bytes in self.sizes_bytes.items():
            print(f"  {label:<44}{size_bytes / 1e6:>8.2f} MB")

    def expect(self, what: str, found: object, expected: object) -> None:
        """Note a problem if the two differ."""
        if found != expected:
            self.problems.append(f"{what}: {found!r}, expected {expected!r}"[:300])


def _output(command: list[str]) -> bytes:
    """Run a command and return its stdout.

    Raises ``CommandError`` with its stderr if it fails.
    """
    done = subprocess.run(command, env=_ENVIRONMENT, capture_output=True)
    if done.returncode:
        text = (done.stderr or done.stdout).decode(errors="replace")
        line = " ".join(command)
        raise CommandError(f"exit {done.returncode}: {line}\n{text}")
    return done.stdout


def _packed(git_dir: Path) -> int:
    """How many objects the packs of a git repository hold."""
    counted = _output(["git", "-C", str(git_dir), "count-objects", "-v"])
    counts = dict(line.split(": ") for line in counted.decode().splitlines())
    return int(counts["in-pack"])


def _size_bytes(path: Path, pattern: str = "**/*") -> int:
    return sum(file.stat().st_size for file in path.glob(pattern) if file.is_file())


def show(demo: Demo, changesets: int, seed: int) -> None:
    """Go through all steps, printing a row for each."""
    print(f"A generated project of {changesets} changesets (seed {seed}):\n")
    demo.generate(changesets, seed)
    print(f"\nIts .hg/hgrc:\n\n{textwrap.indent(HGRC, '  ')}", end="")

    print("\nMapped, exported, and cloned with git:\n")
    demo.map_indexes(changesets)
    demo.export(changesets)
    demo.check_contents()

    print("\nServed by hg serve, and pushed to with git:\n")
    demo.serve()

    print("\nBundles, published and served by hg serve:\n")
    demo.publish(changesets + 1)
    demo.clone_with_hg(_FROM_BUNDLE)
    demo.clone_with_hg(_WITHOUT_BUNDLE, "--config", "ui.clonebundles=no")
    demo.clone_with_git()

    print("\nThe same conversion with what Mercurial ships (other commit ids):\n")
    demo.convert_with_stock_hg()
    demo.print_savings()


def main() -> int:
    """Run the demo; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description="Show the main job end to end.")
    parser.add_argument("--hg", required=True, help="path of the hg that has amalgam")
    parser.add_argument("--changesets", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new directory")
    options = parser.parse_args()
    if options.changesets < _LEAST_CHANGESETS:
        parser.error(f"needs at least {_LEAST_CHANGESETS} changesets")
    with tempfile.TemporaryDirectory(prefix="amalgam-demo-") as scratch:
        place = Path(options.keep or scratch).absolute()
        demo = Demo(place, options.hg)
        try:
            place.mkdir(exist_ok=True)
            show(demo, options.changesets, options.seed)
        except (CommandError, OSError, ValueError, KeyError) as err:
            demo.problems.append(str(err) or repr(err))
    for problem in demo.problems:
        print(f"\nWRONG: {problem}", file=sys.stderr)
    if demo.problems:
        return 1
    print("\nNothing is wrong.")
    if options.keep:
        print(NEXT.format(hg=shlex.quote(demo.hg), here=shlex.quote(str(place))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
