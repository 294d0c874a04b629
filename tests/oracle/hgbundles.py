"""Bundles for Mercurial, compared with stock's by those who receive them.

    python3 -m oracle.hgbundles [--receiver PYTHON]... [--cinnabar PROGRAM] [--odd N]

Of each repository, stock Mercurial and amalgam write the same bundles: all of it, some
revisions (``-r``), what is missing on some others (``--base``), and both. A receiver is
another Mercurial without amalgam, named by its interpreter (``receiver.py`` says what
is compared), or git-cinnabar, whose metadata have to be the same. The receivers
also pull from ``hg serve`` of both, in two steps. Ends with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any

from testlib.environment import ENVIRONMENT, HG

from . import subjects
from .subjects import Subject

SIDES = {
    "stock": ("--config=extensions.amalgam=!",),
    "ours": ("--config=extensions.amalgam=",),
}
#: Formats of repositories that odd histories are pulled into before they are bundled.
FORMATS: dict[str, tuple[str, ...]] = {
    "as it is": (),
    "tree manifests": ("experimental.treemanifest=yes",),
    "no general delta": ("format.usegeneraldelta=no", "format.sparse-revlog=no"),
    "zstd": ("format.revlog-compression=zstd",),
    "no compression": ("format.revlog-compression=none",),
    "node map": ("format.use-persistent-nodemap=yes",),
    "no delta chains": ("format.maxchainlen=1",),
}
# Mercurial without Rust opens a repository with a node map if it is told to
_SLOW = "storage.revlog.persistent-nodemap.slow-path=allow"
_KEPT = ("extensions.amalgam=!", "experimental.evolution=all", _SLOW)
SPECS = ("zstd-v2", "gzip-v2", "none-v2", "zstd-v2;cg.version=03", "bzip2-v1")
# Flags that some receivers refuse, as stock or as we send them: hg 7.2 leaves one
# on some merges (docs/decisions/changegroups.rst).
_FLAGS = re.compile("revision flag|index flags")
# changegroup 01 and 02 have no room for tree manifests
_SPEC_OF_TREES = "none-v2;cg.version=03"


@dataclass(frozen=True)
class Difference:
    """A part that a receiver has otherwise from our bundle than from stock's."""

    what: str
    part: str
    stock: object
    ours: object

    def __str__(self) -> str:
        return f"{self.what}: {self.part}: stock {self.stock}, ours {self.ours}"


class Receiver:
    """A process of another Mercurial that makes repositories."""

    def __init__(self, python: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name("receiver.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what hg verify says is in the answer, too
            env=ENVIRONMENT,
            text=True,
        )
        version = [str(python.with_name("hg")), "version", "-q", "-T", "{ver}"]
        self.version = subprocess.check_output(version, env=ENVIRONMENT, text=True)

    def receive(
        self, target: Path, sources: Sequence[str], *config: Sequence[str]
    ) -> dict[str, Any]:
        """Make ``target`` of bundles and URLs, and say what it has then."""
        job = {"target": str(target), "sources": sources, "config": config}
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe
        assert answers
        pipe.write(json.dumps(job) + "\n")
        pipe.flush()
        answer: dict[str, Any] = json.loads(answers.readline())
        shutil.rmtree(target, ignore_errors=True)
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Cinnabar:
    """git-cinnabar, which reads bundles."""

    version = "git-cinnabar"

    def __init__(self, program: Path) -> None:
        self._program = str(program)

    def receive(
        self, target: Path, sources: Sequence[str], *_config: Sequence[str]
    ) -> dict[str, Any]:
        """Make ``target`` of bundles, and say what it has then."""
        environment = {**ENVIRONMENT, "GIT_CINNABAR_CHECK": "no-version-check"}
        subprocess.run(["git", "init", "-q", str(target)], env=environment, check=True)
        try:
            for source in sources:
                done = subprocess.run(
                    [self._program, "unbundle", source],
                    cwd=target,
                    env=environment,
                    capture_output=True,
                    text=True,
                )
                if done.returncode:
                    # it names what it cannot convert, and that is the same
                    return {"error": re.sub(r"0x[0-9a-f]+|/\S+", "", done.stderr)}
            shown = ("for-each-ref", "--format=%(refname) %(objectname)")
            refs = subprocess.check_output(
                ["git", *shown], cwd=target, env=environment, text=True
            )
            return {"refs": refs}
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def close(self) -> None:
        """Nothing runs between two calls."""


class Bundles:
    """The bundles of one repository, by both sides."""

    def __init__(self, repository: Path, place: Path, seed: int) -> None:
        self._repository = repository
        self._place = place
        self._draw = random.Random(seed)
        self.written = 0

    def variants(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yield the name of a bundle, its options, and those of one to have before."""
        spec = _SPEC_OF_TREES if has_trees(self._repository) else ""
        spec = spec or self._draw.choice(SPECS)
        kind = ["-t", spec]
        count = (
            int(_hg(self._repository, "log", "-l1", "-r", "tip", "-T", "{rev}") or -1)
            + 1
        )
        if not count:
            return
        yield f"all of it, {spec}", ["--all", *kind], []
        pick = [str(self._draw.randrange(count)) for _ in range(3)]
        some = ["-r", f"({pick[0]} + {pick[1]}) & all()", *kind]
        yield f"-r {pick[0]}, {pick[1]}", ["--base", "null", *some], []
        before = ["--base", "null", "-r", f"{pick[2]} & all()", *kind]
        base = ["--base", f"{pick[2]} & all()"]
        yield f"--base {pick[2]}", [*base, "-r", "all()", *kind], before
        yield f"--base {pick[2]} -r {pick[0]}", [*base, *some], before

    def write(self, side: str, options: list[str]) -> str:
        """Write a bundle and return its path, or what was said if there is none."""
        self.written += 1
        path = self._place / f"{self.written}.hg"
        command = ["bundle", *options, str(path)]
        done = _run(self._repository, *SIDES[side], *command)
        if path.exists():
            return str(path)
        return done.stderr.decode(errors="replace").replace(str(path), "FILE")


def compare(
    repository: Path, place: Path, receivers: Sequence[Any], seed: int
) -> Iterator[Difference | None]:
    """Yield one result for each bundle and receiver: a difference, or ``None``."""
    bundles = Bundles(repository, place, seed)
    for name, options, before in bundles.variants():
        start = bundles.write("stock", before) if before else None
        pair = {side: bundles.write(side, options) for side in SIDES}
        stock, ours = pair["stock"], pair["ours"]
        if not all(Path(path).is_absolute() for path in pair.values()):
            yield None if stock == ours else Difference(name, "file", stock, ours)
            continue
        # nothing before is nothing to have
        starts = [start] if start and Path(start).is_absolute() else []
        yield from _received(name, receivers, place, starts, pair)
    yield from _pulled(repository, place, receivers)


def _received(
    name: str,
    receivers: Sequence[Any],
    place: Path,
    starts: list[str],
    pair: dict[str, str],
) -> Iterator[Difference | None]:
    content = {path: Path(path).read_bytes() for path in pair.values()}
    for receiver in receivers:
        # the same bytes need not be received twice
        answers: dict[bytes, dict[str, Any]] = {}
        for path, read in content.items():
            if read not in answers:
                answers[read] = receiver.receive(place / "received", [*starts, path])
        found = {side: answers[content[path]] for side, path in pair.items()}
        yield from differences(f"{name}, {receiver.version}", found)


def _pulled(
    repository: Path, place: Path, receivers: Sequence[Any]
) -> Iterator[Difference | None]:
    """Let each receiver pull all, and what is missing to a part, over HTTP."""
    nodes = _hg(repository, "log", "-r", "public()", "-T", "{node}\n").split()
    if not nodes:
        return
    part = place / "part.hg"
    first = ["--base", "null", "-r", nodes[len(nodes) // 2], "-t", _SPEC_OF_TREES]
    _run(repository, *SIDES["stock"], "bundle", *first, str(part))
    config = [["experimental", "treemanifest", "yes"]] if has_trees(repository) else []
    starts = {"all": [], "the rest": [str(part)]} if part.exists() else {"all": []}
    pulling = [found for found in receivers if not isinstance(found, Cinnabar)]
    found: dict[str, dict[str, Any]] = {}
    for side in SIDES:
        with _served(repository, SIDES[side]) as url:
            for (name, start), receiver in product(starts.items(), pulling):
                sources = [*start, url]
                received = receiver.receive(place / "received", sources, *config)
                what = f"pull of {name}, {receiver.version}"
                found.setdefault(what, {})[side] = received
    for what, sides in found.items():
        yield from differences(what, sides)


def has_trees(repository: Path) -> bool:
    """Tell whether a repository has a manifest for each directory."""
    files = (repository / ".hg" / "requires", repository / ".hg" / "store" / "requires")
    return any(
        "treemanifest" in path.read_text().split() for path in files if path.exists()
    )


def differences(
    what: str, found: dict[str, dict[str, Any]]
) -> Iterator[Difference | None]:
    """Yield the parts that differ, or one ``None``."""
    stock, ours = found["stock"], found["ours"]
    names = [
        name for name in sorted({*stock, *ours}) if stock.get(name) != ours.get(name)
    ]
    is_refused = "git-cinnabar" in what or _FLAGS.search(stock.get("error", ""))
    if "error" in stock and not is_refused:
        # what nobody can receive compares nothing
        names = ["error"]
    if not names:
        yield None
    for name in names:
        yield Difference(what, name, stock.get(name), ours.get(name))


@contextlib.contextmanager
def _served(repository: Path, config: Iterable[str]) -> Iterator[str]:
    """Serve a repository on a port of its own."""
    command = [str(HG), *config, "serve", "-p", "0", "-a", "127.0.0.1", "--print-url"]
    process = subprocess.Popen(
        command,
        cwd=repository,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate()


def sources(odd: int, first_seed: int, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Make odd repositories, one format after another, and yield them."""
    formats = list(FORMATS.items())
    for number, subject in enumerate(subjects.odd_ones(first_seed, odd)):
        name, config = formats[number % len(formats)]
        yield f"{subject.name}, {name}", made(subject, scratch, config)


def made(subject: Subject, scratch: Path, config: Sequence[str]) -> Path:
    """Make a repository, and again in another format if one is given."""
    place = Path(tempfile.mkdtemp(dir=scratch))
    repository = place / "repository"
    subject.make(repository)
    if not config:
        return repository
    options = [f"--config={item}" for item in (*_KEPT, *config)]
    other = place / "other"
    for command in (
        ("init", str(other)),
        ("-R", str(other), "pull", "-q", "repository"),
    ):
        done = _run(place, *options, *command)
        if done.returncode:
            raise AssertionError(done.stderr.decode(errors="replace"))
    section, item = _SLOW.split(".", 1)
    (other / ".hg" / "hgrc").write_text(
        f"[experimental]\nevolution = all\n[{section}]\n{item}\n"
    )
    return other


def _run(cwd: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(HG), *args], cwd=cwd, env=ENVIRONMENT, capture_output=True
    )


def _hg(cwd: Path, *args: str) -> str:
    done = _run(cwd, SIDES["stock"][0], *args)
    if done.returncode:
        raise AssertionError(done.stderr.decode(errors="replace"))
    return done.stdout.decode()


def check_all(
    receivers: Sequence[Any],
    wanted: Iterable[tuple[str, Path]],
    scratch: Path,
) -> tuple[int, list[str]]:
    """Compare repositories, and print a line about each.

    Return how many comparisons there were, and what differs.
    """
    total, wrong = 0, list[str]()
    for seed, (name, repository) in enumerate(wanted):
        place = Path(tempfile.mkdtemp(dir=scratch))
        results = list(compare(repository, place, receivers, seed))
        found = [str(result) for result in results if result]
        total += len(results)
        wrong += [f"{name}: {text}" for text in found]
        verdict = f"{len(found)} differences" if found else "same"
        print(f"  {name:<36} {len(results)} comparisons, {verdict}", flush=True)
        for text in found[:5]:
            print(f"    {text[:1000]}", flush=True)
        shutil.rmtree(place)
        shutil.rmtree(repository.parent)
    return total, wrong


def main() -> int:
    """Compare; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--receiver", type=Path, action="append", default=[])
    parser.add_argument("--cinnabar", type=Path, metavar="PROGRAM")
    parser.add_argument("--corpora", type=Path, metavar="DIR", help="*.hg bundles")
    parser.add_argument("--odd", type=int, default=100, help="odd repositories")
    parser.add_argument("--first-seed", type=int, default=1, help="of the odd ones")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    receivers: list[Any] = [
        Receiver(python.absolute())
        for python in (Path(sys.executable), *options.receiver)
    ]
    if options.cinnabar:
        receivers.append(Cinnabar(options.cinnabar.absolute()))
    with tempfile.TemporaryDirectory(prefix="amalgam-oracle-") as name:
        scratch = Path(name)
        real = subjects.corpora(options.corpora) if options.corpora else ()
        wanted = chain(
            sources(options.odd, options.first_seed, scratch),
            ((subject.name, made(subject, scratch, ())) for subject in real),
        )
        total, wrong = check_all(receivers, wanted, scratch)
    for receiver in receivers:
        receiver.close()
    report = {
        "receivers": [receiver.version for receiver in receivers],
        "comparisons": total,
        "differences": wrong,
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({**report, "differences": len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
