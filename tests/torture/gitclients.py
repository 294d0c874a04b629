"""Clients of git that visit a server over and over, and what they may find there."""

from __future__ import annotations

import dataclasses
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


class Visitors:
    """As many clients of one server at once."""

    def __init__(self, scratch: Path, url: str, timeline: Timeline) -> None:
        self._scratch = scratch
        self._url = url
        self._timeline = timeline
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def start(self, seeds: range) -> None:
        """Let a client visit for each of ``seeds``, again and again."""
        for number, seed in enumerate(seeds):
            place = self._scratch / f"client-{number}"
            place.mkdir()
            draw = random.Random(seed)
            # at first there is something else for each
            kinds = [KINDS[number % len(KINDS)]]
            thread = threading.Thread(target=self._stay, args=(place, draw, kinds))
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Wait for all visits to end."""
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _stay(self, place: Path, draw: random.Random, kinds: list[Kind]) -> None:
        while not self._done.is_set():
            kind = kinds.pop() if kinds else draw.choice(KINDS)
            version = draw.choice("02")
            try:
                self._visit(place, kind, version)
            except subprocess.TimeoutExpired:
                self._tell(kind, "takes more than an hour")

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
        for item in kind.config:
            config += ["-c", item]
        words = [*config, *kind.words]
        if kind.words == ("ls-remote",):
            return run(place, *words, "-q", self._url)
        target = place / (kind.at or "other")
        if kind.words[0] == "fetch":
            if target.exists():
                return run(target, *words, "-q")
            words = [*config, "clone", "--no-checkout"]
            words += ["--mirror"] if kind.is_whole else []
        shutil.rmtree(target, ignore_errors=True)
        return run(place, *words, "-q", self._url, str(target))

    def _check(self, clone: Path, kind: Kind, began: float, ended: float) -> None:
        """See that a clone is whole, and has what one state has and nothing hidden."""
        is_partial = kind in _PARTIAL
        if not is_partial:
            thorough = "--connectivity-only" if kind.words[0] == "fetch" else "--full"
            done = run(clone, "fsck", "--strict", "--no-dangling", thorough)
            if done.returncode:
                self._tell(kind, f"fsck: {done.stderr[:1000]}")
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

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def _tell(self, kind: Kind, problem: str) -> None:
        with self._lock:
            self.counts["failed"] += 1
            stamp = time.strftime("%H:%M:%S")
            self.problems.append(f"{stamp} {kind.name}: {problem}")


def run(cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run git, whatever comes of it."""
    return subprocess.run(
        ["git", *args],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LONGEST_SECONDS,
    )
