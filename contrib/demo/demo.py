"""Show the main job end to end on a generated repository: demo.py --hg PATH.

In a scratch directory: generate a repository, export it to git, clone the result with
git, check it with `git fsck` and against `hg cat`, and do the same conversion with what
Mercurial ships. Exit status 1 if anything is wrong. Knows amalgam only from outside,
by its commands; no configuration of the user is read.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

_GENERATOR = Path(__file__).parents[1] / "perf" / "generate.py"
_GIT_STORE = Path(".hg", "amalgam", "git", "cinnabar.git")
_AMALGAM = ["--config", "extensions.amalgam="]
_EXPORT = "hg git::export"
_STOCK = "hg fastexport | git fast-import"
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

    @property
    def repository(self) -> Path:
        """The generated hg repository."""
        return self.scratch / "project"

    @property
    def git_store(self) -> Path:
        """The bare git repository that the export writes."""
        return self.repository / _GIT_STORE

    @property
    def clone(self) -> Path:
        """What `git clone` makes of it."""
        return self.scratch / "clone"

    def generate(self, changesets: int, seed: int) -> None:
        """Write the hg repository."""
        sizes = [f"--changesets={changesets}", f"--seed={seed}"]
        command = [sys.executable, str(_GENERATOR), "realistic", str(self.repository)]
        self.timed("generate the hg repository", [*command, *sizes])

    def export(self, changesets: int) -> dict[str, float]:
        """Export to git; return what the command says of it."""
        command = [*_AMALGAM, "git::export", "-T", "json"]
        output = self.timed(_EXPORT, self.hg_command(*command))
        (result,) = json.loads(output)
        self.expect("changesets exported", result["changesets"], changesets)
        self.expect("objects in packs", _packed(self.git_store), result["objects"])
        return {key: float(result[key]) for key in ("changesets", "objects", "bytes")}

    def check_contents(self) -> None:
        """Compare files with `hg cat` over the whole history."""
        start = time.perf_counter()
        template = "{rev} {gitnode}\n"
        log = _output(self.hg_command(*_AMALGAM, "log", "-r", "all()", "-T", template))
        commits = [line.split() for line in log.decode().splitlines()]
        checked = 0
        for position in range(_CHECKED_REVS):
            place = position * (len(commits) - 1) // (_CHECKED_REVS - 1)
            rev, git_oid = commits[place]
            checked += self.check_changeset(rev, git_oid)
        self.print_row(f"compare {checked} files with hg cat", start)

    def check_changeset(self, rev: str, git_oid: str) -> int:
        """Compare some files of one changeset; return how many.

        Also, the two sides have to agree on the names of all files.
        """
        listing = self.hg_command("files", "-r", rev, "-T", "{path}\\n")
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
        _output(self.hg_command("cat", "-r", rev, "-o", f"{target}/%p", *some))
        for name in some:
            blob = _output([*git, "cat-file", "blob", f"{git_oid}:{name}"])
            if blob != (target / name).read_bytes():
                self.problems.append(f"{name} of changeset {rev} differs")
        return len(some)

    def convert_with_stock_hg(self) -> Path:
        """Convert with `hg fastexport`; return the git repository it filled."""
        target = self.scratch / "fastimport.git"
        _output(["git", "init", "-q", "--bare", str(target)])
        start = time.perf_counter()
        command = self.hg_command("--config", "extensions.fastexport=", "fastexport")
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
                raise CommandError(f"hg fastexport | git fast-import failed:\n{text}")
        self.print_row(_STOCK, start)
        return target

    def repack(self) -> Path:
        """Let git repack a copy as well as it can; return the copy.

        Commits that no ref names, such as extra heads, stay in: same objects.
        """
        copy = self.scratch / "repacked.git"
        command = ["git", "clone", "-q", "--mirror", "--no-hardlinks"]
        _output([*command, str(self.git_store), str(copy)])
        repack = ["git", "-C", str(copy), "repack", "-adfkq"]
        self.timed("git repack -adf", repack)
        self.expect("objects repacked", _packed(copy), _packed(self.git_store))
        return copy

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
        print(f"  {label:<40}{self.seconds[label]:>10.2f} s", flush=True)

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
    result = demo.export(changesets)
    clone = ["git", "clone", "-q", str(demo.git_store), str(demo.clone)]
    demo.timed("git clone of the result", clone)
    fsck = ["git", "-C", str(demo.clone), "fsck", "--full", "--no-progress"]
    demo.timed("git fsck --full of the clone", fsck)
    demo.check_contents()

    print("\nThe same with what Mercurial ships (other commit ids), and repacked:\n")
    stock = demo.convert_with_stock_hg()
    repacked = demo.repack()

    print(f"\n  {'changesets':<40}{result['changesets']:>10,.0f}")
    print(f"  {'git objects':<40}{result['objects']:>10,.0f}")
    packs = "objects/pack/*.pack"
    for label, size in (
        ("hg store", _size_bytes(demo.repository / ".hg" / "store")),
        ("git pack, as exported", _size_bytes(demo.git_store, packs)),
        ("git pack, after git repack -adf", _size_bytes(repacked, packs)),
        ("git pack, from git fast-import", _size_bytes(stock, packs)),
    ):
        print(f"  {label:<40}{size / 1e6:>10.2f} MB")
    ratio = demo.seconds[_STOCK] / demo.seconds[_EXPORT]
    print(f"\nOne run: hg fastexport took {ratio:.1f} times as long as hg git::export.")


def main() -> int:
    """Run the demo; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description="Show the main job end to end.")
    parser.add_argument("--hg", required=True, help="path of the hg that has amalgam")
    parser.add_argument("--changesets", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work here, and stay")
    options = parser.parse_args()
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
    if options.keep:
        print(f"\nAll of it stays in {place}.")
    if demo.problems:
        return 1
    print(
        "\nNothing is wrong. In a repository of your own, type:\n\n"
        "    hg --config extensions.amalgam= git::export\n"
        "    git clone .hg/amalgam/git/cinnabar.git\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
