"""git clients of a server whose history changes under them.

A fetch may fail only if a commit that it wants stopped being served after its ls-refs,
or if its answer was cut; then the next try succeeds. Each clone is whole, has what the
server served at one moment of it, and nothing that was hidden before it began. What is
hidden cannot be fetched by its id. In the end no process is left.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from testlib.environment import ENVIRONMENT, HG
from testlib.hgserver import HgServer
from testlib.truncation import Server

from .sequences import Sequence

CONFIG = (
    "extensions.amalgam=",
    "extensions.censor=",
    "censor.policy=ignore",
    "experimental.evolution=all",
    "amalgam.git.serve=yes",
    "amalgam.git.refs=heads",
    "amalgam.serve.max-fetches=4",
    "amalgam.serve.queue-timeout=120",
    "phases.publish=no",
    "web.allow-push=*",
    "web.push_ssl=no",
)
#: What git says of a commit that is served no more, and of an answer that ended.
_EXCUSED = re.compile(
    r"not our ref|early EOF|unexpected disconnect|expected flush|end of file|"
    r"fetch-pack: invalid index-pack output|bad object|RPC failed"
)
_KINDS = (
    ("clone",),
    ("clone", "--mirror"),
    ("clone", "--depth=2"),
    ("clone", "--filter=blob:none", "--no-checkout"),
    ("clone", "--single-branch"),
    ("ls-remote",),
    ("fetch",),
)
_PARTIAL = frozenset([_KINDS[2], _KINDS[3]])
_PROBED_WORDS = 2
_LONGEST_SECONDS = 600  # a client that takes longer hangs


class Load:
    """One served repository, somebody who changes it, and clients."""

    def __init__(self, scratch: Path, hgserver: HgServer, seed: int) -> None:
        self.scratch = scratch
        self.history = Sequence(scratch / "repo", hgserver, seed)
        self.server = Server(self.history.store.root, CONFIG)
        # a wanted commit that is gone is waited for: not by what probes ask
        self.probed = Server(
            self.history.store.root, (*CONFIG, "amalgam.serve.queue-timeout=1")
        )
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.done = threading.Event()
        # when a change began and ended, and the words that may not be read after it
        self.states: list[tuple[float, float, frozenset[str]]] = []
        self._known: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def change(self) -> None:
        """Change the history, once."""
        history = self.history
        kinds = {
            history.commit: 6,
            history.branch: 3,
            history.publish: 1,
            history.secret: 2,
            history.draft: 2,
            history.strip: 1,
            history.push_again: 2,
            history.hide: 1,
            history.amend: 2,
            history.censor: 1,
            self.push: 3,
        }
        (kind,) = history.draw.choices([*kinds], [*kinds.values()])
        began = time.monotonic()
        kind()
        ended = time.monotonic()
        self.counts[f"changes: {kind.__name__}"] += 1
        hidden = frozenset(word.decode() for word in history.forbidden())
        self.states.append((began, ended, hidden))

    def push(self) -> None:
        """Let a client of Mercurial push a changeset."""
        clone = self.scratch / "hg-client"
        shutil.rmtree(clone, ignore_errors=True)
        self._hg("clone", "-q", "-U", self.server.url, str(clone))
        root, self.history.store.root = self.history.store.root, clone
        try:
            self.history.store.hg("update", "-q", "0")
            self.history.commit()
        finally:
            self.history.store.root = root
        self._hg("-R", str(clone), "push", "-qf", self.server.url)

    def _hg(self, *args: str) -> None:
        command = [str(HG), *args]
        subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=True)

    def probe(self) -> None:
        """Ask for what is hidden now, by id, in both protocols."""
        hidden = self.states[-1][2]
        self._learn(hidden)
        place = self.scratch / "probe"
        shutil.rmtree(place, ignore_errors=True)
        self._git(self.scratch, "init", "-q", "--bare", str(place))
        words = sorted(hidden & self._known.keys())
        # what was hidden last, and some of the others
        sample = self.history.draw.sample(words, min(len(words), _PROBED_WORDS))
        for word in {*sample, *self._fresh(hidden)}:
            for oid in self._known[word]:
                for version in "02":
                    config = ("-c", f"protocol.version={version}")
                    done = self._git(
                        place, *config, "fetch", "-q", self.probed.url, oid
                    )
                    found = self._git(place, "cat-file", "-e", oid)
                    self.counts["probes"] += 1
                    if not done.returncode or not found.returncode:
                        self._tell(f"{oid} of {word} was sent by protocol {version}")

    def _fresh(self, hidden: frozenset[str]) -> frozenset[str]:
        """Return what the last change has hidden, as far as its ids are known."""
        before = self.states[-2][2] if len(self.states) > 1 else frozenset()
        return (hidden - before) & self._known.keys()

    def _learn(self, hidden: frozenset[str]) -> None:
        """Note the ids of what may be read now."""
        store = self.history.store
        for word in self.history.words:
            if word.endswith("text"):
                text = f"{word}\n".encode() * 9
                blob = hashlib.sha1(b"blob %d\0" % len(text) + text)
                self._known[word] = [blob.hexdigest()]
        if not store.git_dir.exists():
            return
        shown = store.hg("log", "-r", "not secret()", "-T", "{desc} {gitnode}\n")
        for line in shown.splitlines():
            word, _space, oid = line.partition(" ")
            if oid and word not in hidden:
                tree = self._git(store.git_dir, "rev-parse", f"{oid}^{{tree}}")
                if not tree.returncode:
                    self._known[word] = [oid, tree.stdout.strip()]

    def visit(self, number: int) -> None:
        """Be one client, until all is done."""
        draw = random.Random(number)
        place = self.scratch / f"client-{number}"
        while not self.done.is_set():
            kind = draw.choice(_KINDS)
            version = ("-c", f"protocol.version={draw.choice('02')}")
            began = time.monotonic()
            done = self._client(place, kind, version)
            if done.returncode:
                excused = _EXCUSED.search(done.stderr)
                self._count("excused" if excused else "failed")
                if not excused:
                    self._tell(f"{' '.join(kind)}: {done.stderr}")
                done = self._again(place, kind, version)
                began = 0
            if not done.returncode and kind != ("ls-remote",):
                self._check(place, began, kind)
            self._count(" ".join(kind))

    def _again(
        self, place: Path, kind: tuple[str, ...], version: tuple[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Try again; history moves on meanwhile, so once may not be enough."""
        for _try in range(5):
            done = self._client(place, kind, version)
            if not done.returncode or not _EXCUSED.search(done.stderr):
                break
        if done.returncode:
            self._tell(f"again: {' '.join(kind)}: {done.stderr}")
        return done

    def _client(
        self, place: Path, kind: tuple[str, ...], version: tuple[str, str]
    ) -> subprocess.CompletedProcess[str]:
        if kind == ("ls-remote",):
            return self._git(self.scratch, *version, "ls-remote", "-q", self.server.url)
        if kind == ("fetch",) and (place / "kind-clone").exists():
            return self._git(place, *version, "fetch", "-q", "--prune", "origin")
        shutil.rmtree(place, ignore_errors=True)
        words = ("clone",) if kind == ("fetch",) else kind
        done = self._git(
            self.scratch, *version, *words, "-q", self.server.url, str(place)
        )
        if not done.returncode and words == ("clone",):
            (place / "kind-clone").touch()
        return done

    def _check(self, place: Path, began: float, kind: tuple[str, ...]) -> None:
        """See that a clone is whole, and only has what one state has."""
        ended = time.monotonic()
        connectivity = ["--connectivity-only"] if kind in _PARTIAL else ["--full"]
        fsck = self._git(place, "fsck", "--strict", "--no-dangling", *connectivity)
        if fsck.returncode and kind != _KINDS[3]:
            self._tell(f"{' '.join(kind)}: fsck: {fsck.stderr}")
        refs = "--remotes" if (place / ".git").exists() else "--branches"
        told = self._git(place, "log", "--format=%s", refs)
        words = set(told.stdout.split())
        if not any(not words & hidden for hidden in self._during(began, ended)):
            self._tell(f"{' '.join(kind)} has what was hidden: {sorted(words)}")

    def _during(self, began: float, ended: float) -> Iterator[frozenset[str]]:
        """Yield the states that the server may have had between two moments."""
        states = list(self.states)
        ends = [end for _began, end, _hidden in states[1:]] + [float("inf")]
        for (start, _ended, hidden), end in zip(states, ends, strict=True):
            if start <= ended and end >= began:
                yield hidden

    def finish(self) -> None:
        """See that nothing is left of all clients."""
        process = self.server._process
        deadline = time.monotonic() + _LONGEST_SECONDS
        while children(process.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left := children(process.pid):
            self.problems.append(f"processes are left: {left}")
        self.counts["descriptors"] = len(os.listdir(f"/proc/{process.pid}/fd"))
        status = Path(f"/proc/{process.pid}/status").read_text()
        self.counts["KB at most"] = int(status.split("VmHWM:")[1].split()[0])
        for server in (self.server, self.probed):
            for _name, block in server.failures():
                self.problems.append(block)
            server.close()

    def _git(self, cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *args],
            cwd=cwd,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_SECONDS,
        )

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def _tell(self, problem: str) -> None:
        with self._lock:
            self.problems.append(problem)


def children(pid: int) -> list[str]:
    """Return the command lines of the children of a process."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parent = (directory / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if int(parent) == pid:
                found.append((directory / "cmdline").read_text().replace("\0", " "))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def under_load(
    scratch: Path, server: HgServer, clients: int, seconds: float, seed: int
) -> tuple[Counter[str], list[str]]:
    """Let ``clients`` visit a changing repository; return counts and problems."""
    place = scratch / "serving"
    place.mkdir()
    load = Load(place, server, seed)
    load.change()
    visitors = [
        threading.Thread(target=load.visit, args=(seed * 1000 + number,))
        for number in range(clients)
    ]
    for thread in visitors:
        thread.start()
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            load.change()
            load.probe()
    finally:
        load.done.set()
        for thread in visitors:
            thread.join()
        load.finish()
    return load.counts, load.problems
