"""Clients of git that visit a server over and over, and what they may find there."""

from __future__ import annotations

import dataclasses
import os
import random
import re
import shutil
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

from testlib.environment import ENVIRONMENT

from .served import Timeline

LONGEST_SECONDS = 3600
"""A client that takes longer hangs."""
_NOT_OURS = re.compile(r"not our ref ([0-9a-f]{40})")
#: What git says of an answer that ended, or was waited for in vain.
_CUT = re.compile(
    r"early EOF|unexpected disconnect|expected flush|end of file|bad object|"
    r"invalid index-pack output|transfer closed|curl (?:18|56|92)|RPC failed; HTTP 503|"
    r"does not have a commit yet"
)
_WORD = re.compile(r"([0-9a-f]{40}) w\d+secret")
_CHECKS = threading.BoundedSemaphore(2)  # they are no load of the server
_RETRIES = 5


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a client does."""

    words: tuple[str, ...]
    is_whole: bool = True
    """Whether it has all commits that are served, and all that these need."""
    at: str = ""
    """Under which name its clone stays, for others to fetch into."""
    config: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How it is counted."""
        return " ".join((*self.words, *self.config))


KINDS = (
    Kind(("clone", "--no-checkout"), is_whole=False, at="clone"),
    Kind(("clone", "--mirror"), at="mirror"),
    Kind(("clone", "--mirror"), at="mirror", config=("transfer.bundleURI=true",)),
    Kind(("clone", "--depth=2"), is_whole=False),
    Kind(("clone", "--no-checkout", "--filter=blob:none"), is_whole=False),
    Kind(("clone", "--single-branch", "--no-checkout"), is_whole=False),
    Kind(("ls-remote",)),
    Kind(("fetch", "--prune", "origin"), is_whole=False, at="clone"),
    Kind(("fetch", "--prune", "origin"), at="mirror"),
)
_PARTIAL = KINDS[3:5]
#: What takes seconds of all cores if the repository is large.
_HEAVY = frozenset(
    kind for kind in KINDS if kind.words[0] == "clone" and "--depth=2" not in kind.words
)
_HEAVY_SHARE = 0.25
"""Of the visits to a large repository, while few enough others do the same."""
_HEAVY_AT_ONCE = 2
_LARGE_BYTES = 20 << 20
#: Copies of a large repository are not repacked: that would be all they do.
_QUIET = ("gc.auto=0", "maintenance.auto=false")
#: Each object that comes is checked as fsck(1) does.
_CHECKED = "transfer.fsckObjects=true"
_THOROUGH = 3
"""So many copies are checked completely in the end."""


class Visitors:
    """As many clients of one server at once."""

    def __init__(self, scratch: Path, url: str, timeline: Timeline) -> None:
        self._scratch = scratch
        self._url = url
        self._timeline = timeline
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []
        self._heavy = threading.BoundedSemaphore(_HEAVY_AT_ONCE)
        self._prepared: dict[str, Path] = {}
        self._checked: dict[Path, list[str]] = {}
        """What refs led to in clones when they were whole."""
        self.is_large = False
        """Whether there is no time for everybody to clone all."""
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def prepare(self) -> None:
        """Clone all; if that is large, clients start from copies of it."""
        place = self._scratch / "prepared"
        place.mkdir()
        mirror = next(kind for kind in KINDS if kind.at == "mirror")
        self._visit(place, mirror, "2")
        packs = (place / mirror.at / "objects/pack").glob("*.pack")
        self.is_large = sum(path.stat().st_size for path in packs) > _LARGE_BYTES
        if not self.is_large:
            return
        for at, words in (("mirror", ("--mirror",)), ("clone", ("--no-checkout",))):
            clone = self._prepared[at] = place / f"copy-{at}"
            run(place, "clone", "-q", *words, str(place / mirror.at), str(clone))
            run(clone, "remote", "set-url", "origin", self._url)
            self._note_as_whole(clone)

    def start(self, seeds: range) -> None:
        """Let a client visit for each of ``seeds``, again and again."""
        for number, seed in enumerate(seeds):
            place = self._scratch / f"client-{number}"
            place.mkdir()
            draw = random.Random(seed)
            # at first there is something else for each
            kinds = [KINDS[number % len(KINDS)]]
            if self.is_large:
                kinds = []
                for at, prepared in self._prepared.items():
                    _copy(prepared, place / at)
                    self._checked[place / at] = self._checked[prepared]
            thread = threading.Thread(target=self._stay, args=(place, draw, kinds))
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Wait for all visits to end."""
        self._done.set()
        for thread in self._threads:
            thread.join()
        if self.is_large:
            whole = Kind(("fsck", "in the end"))
            for clone in [*self._checked][-_THOROUGH:]:
                if clone.exists():
                    self._fsck(clone, whole, "--full")
                    self._count(whole.name)

    def _stay(self, place: Path, draw: random.Random, kinds: list[Kind]) -> None:
        while not self._done.is_set():
            kind = kinds.pop() if kinds else self._drawn(draw)
            version = draw.choice("02")
            try:
                self._visit(place, kind, version)
            except subprocess.TimeoutExpired:
                self._tell(kind, "takes more than an hour")
            finally:
                if self.is_large and kind in _HEAVY:
                    self._heavy.release()

    def _drawn(self, draw: random.Random) -> Kind:
        """Draw what to do; a heavy kind has a place, to be released."""
        if not self.is_large:
            return draw.choice(KINDS)
        wants_heavy = draw.random() < _HEAVY_SHARE
        if wants_heavy and self._heavy.acquire(blocking=False):
            return draw.choice(sorted(_HEAVY, key=KINDS.index))
        return draw.choice([kind for kind in KINDS if kind not in _HEAVY])

    def _visit(self, place: Path, kind: Kind, version: str) -> None:
        began = time.monotonic()
        done = self._git(place, kind, version)
        ended = time.monotonic()
        for _try in range(_RETRIES):
            if not done.returncode:
                self._count(kind.name)
                break
            if not self._is_excused(done.stderr, began, ended):
                self._tell(kind, f"protocol {version}: {done.stderr}")
                return
            self._count("excused")
            began = time.monotonic()
            done = self._git(place, kind, version)
            ended = time.monotonic()
        else:
            self._tell(kind, f"{_RETRIES} times: {done.stderr}")
            return
        if kind.words != ("ls-remote",):
            with _CHECKS:
                self._check(place / (kind.at or "other"), kind, began, ended)

    def _is_excused(self, said: str, began: float, ended: float) -> bool:
        """Tell whether a failure is due to what stopped being served meanwhile."""
        withdrawn = self._timeline.withdrawn_during(began, ended)
        if wanted := _NOT_OURS.search(said):
            return wanted[1] in withdrawn
        return bool(withdrawn and _CUT.search(said))

    def _git(
        self, place: Path, kind: Kind, version: str
    ) -> subprocess.CompletedProcess[str]:
        config = ["-c", f"protocol.version={version}", "-c", "pack.threads=1"]
        for item in (*kind.config, *(_QUIET if self._prepared else ())):
            config += ["-c", item]
        words = [*config, *kind.words]
        if kind.words == ("ls-remote",):
            return run(place, *words, "-q", self._url)
        target = place / (kind.at or "other")
        if kind.words[0] == "fetch":
            if target.exists():
                if self.is_large:
                    words = ["-c", _CHECKED, *words]
                return run(target, *words, "-q")
            words = [*config, "clone", "--no-checkout"]
            words += ["--mirror"] if kind.is_whole else []
        self._checked.pop(target, None)
        shutil.rmtree(target, ignore_errors=True)
        return run(place, *words, "-q", self._url, str(target))

    def _check(self, clone: Path, kind: Kind, began: float, ended: float) -> None:
        """See that a clone is whole, and has what one state has and nothing hidden."""
        is_partial = kind in _PARTIAL
        if not is_partial:
            self._check_objects(clone, kind)
        is_fresh = kind.words[0] == "clone"
        refs = "--all" if is_fresh or kind.is_whole else "--remotes"
        told = run(clone, "log", "--format=%H %s", refs).stdout
        commits = frozenset(_WORD.findall(told))
        if not self._timeline.explains(commits, began, ended, whole=kind.is_whole):
            self._tell(kind, f"is of no state: {sorted(commits)}")
        if is_fresh:
            format_ = "--batch-check=%(objectname)"
            listed = run(clone, "cat-file", "--batch-all-objects", format_).stdout
            hidden = self._timeline.hidden_during(began, ended)
            if found := hidden.intersection(listed.split()):
                self._tell(kind, f"has what is hidden: {sorted(found)}")

    def _check_objects(self, clone: Path, kind: Kind) -> None:
        """See that all objects are there, and as they should be."""
        checked = self._checked.get(clone)
        if kind.words[0] != "fetch":
            self._fsck(clone, kind, "--full")
        elif checked is None or not self.is_large:
            self._fsck(clone, kind, "--connectivity-only")
        else:
            # git checked what came, and all else was there before
            words = ("rev-list", "--objects", "--quiet", "--all", "--not", "--stdin")
            done = run(clone, *words, input="".join(f"{oid}\n" for oid in checked))
            if done.returncode:
                self._tell(kind, f"rev-list: {done.stderr[:1000]}")
        if self.is_large:
            self._note_as_whole(clone)

    def _note_as_whole(self, clone: Path) -> None:
        listed = run(clone, "for-each-ref", "--format=%(objectname)").stdout
        self._checked[clone] = sorted({*listed.split()})

    def _fsck(self, clone: Path, kind: Kind, how: str) -> None:
        done = run(clone, "fsck", "--strict", "--no-dangling", how)
        if done.returncode:
            self._tell(kind, f"fsck: {done.stderr[:1000]}")

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def _tell(self, kind: Kind, problem: str) -> None:
        with self._lock:
            self.counts["failed"] += 1
            stamp = time.strftime("%H:%M:%S")
            self.problems.append(f"{stamp} {kind.name}: {problem}")


def _copy(clone: Path, target: Path) -> None:
    """Copy a clone; git replaces files of objects, and writes to others in place."""

    def copy(source: str, copied: str) -> str:
        if f"{os.sep}objects{os.sep}" in source:
            os.link(source, copied)
            return copied
        return shutil.copy2(source, copied)

    shutil.copytree(clone, target, copy_function=copy)


def run(cwd: Path, *args: str, input: str = "") -> subprocess.CompletedProcess[str]:
    """Run git, whatever comes of it."""
    return subprocess.run(
        ["git", *args],
        cwd=cwd,
        input=input,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LONGEST_SECONDS,
    )
