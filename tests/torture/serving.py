"""git clients of a server whose history changes under them.

A fetch may fail only if a commit that it wants stopped being served after its ls-refs,
or if its answer was cut because of that; a retry succeeds. All else succeeds at the
first try. Each clone is whole, and has what the server served at one moment of it. What
is hidden cannot be fetched by any id, at any moment. In the end no process is left,
and the server has no more files open and no more memory than it had early on.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import shutil
import subprocess
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testlib.environment import ENVIRONMENT, HG
from testlib.exported import Exported
from testlib.generated import generate
from testlib.hgserver import HgServer
from testlib.webserver import GIT_TYPE, WebServer, serving

from .gitclients import LONGEST_SECONDS, Visitors, run
from .sequences import Sequence
from .served import TEMPLATE, Objects, Timeline

#: Of all who have to do with the repository; exporters read no command line.
_CONFIG = """
[extensions]
amalgam =
censor =
clonebundles =
backlog = {backlog}
[censor]
policy = ignore
[experimental]
evolution = all
[amalgam]
git.serve = yes
git.refs = tips heads
serve.bundle-uri = yes
serve.max-fetches = 4
serve.queue-timeout = 300
[phases]
publish = no
[web]
allow-push = *
push_ssl = no
[hooks]
pretxnchangegroup.refusing = test ! -e {refusing}-pretxnchangegroup
pretxnclose.refusing = test ! -e {refusing}-pretxnclose
"""
_ASKING = 16  # threads
_BACKLOG = Path(__file__).with_name("backlog.py")
_REFRESH_SECONDS = 20
_PAUSE_SECONDS = 0.2
_MORE_DESCRIPTORS = 64
_MORE_KB = 128 << 10


class Load:
    """One served repository, those who change it, and clients."""

    def __init__(
        self, scratch: Path, hgserver: HgServer, seed: int, base: Path | None
    ) -> None:
        self._scratch = scratch
        self._history = Sequence(scratch / "repo", hgserver, seed, base)
        self._client = Exported(scratch / "hg-client", hgserver)
        shutil.copytree(self._history.store.root, self._client.root, symlinks=True)
        self._timeline = Timeline()
        self._refusing = scratch / "refusing"
        hgrc = scratch / "hgrc"
        hgrc.write_text(_CONFIG.format(refusing=self._refusing, backlog=_BACKLOG))
        self._environment = ENVIRONMENT | {"HGRCPATH": str(hgrc)}
        self._done = threading.Event()
        self._censors_once = False
        """Whether there is time for one: after it, all is exported anew."""
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.samples: list[dict[str, int]] = []

    @contextlib.contextmanager
    def _serving(self, *config: str) -> Iterator[WebServer]:
        root = self._history.store.root
        options = [f"--config=amalgam.serve.{it}" for it in config]
        with serving(root, *options, environment=self._environment) as server:
            yield server

    def run(self, clients: int, seconds: float, seed: int) -> None:
        """Let so many clients visit."""
        # clients of one never keep those of the other waiting; what is hidden could be
        # what another front-end has already, and is waited for
        config = ("queue-timeout=1", f"max-fetches={_ASKING + 2}")
        with self._serving() as server, self._serving(*config) as other:
            self._server, self._other = server, other
            self._take_root()
            visitors = Visitors(self._scratch, server.url, self._timeline)
            others = [
                threading.Thread(target=self._keep, args=(step, pause))
                for step, pause in (
                    (self._ask_for_any, _PAUSE_SECONDS),
                    (self._refresh, _REFRESH_SECONDS),
                )
            ]
            visitors.prepare()
            self._censors_once = visitors.is_large
            self._sample()
            for thread in others:
                thread.start()
            visitors.start(range(seed * 1000, seed * 1000 + clients))
            try:
                middle = time.monotonic() + seconds / 2
                end = middle + seconds / 2
                while time.monotonic() < end:
                    self.change(is_late=time.monotonic() > middle)
                    self._ask_for_all()
                    self._sample()
            finally:
                self._done.set()
                visitors.stop()
                for thread in others:
                    thread.join()
            self.counts += visitors.counts
            self.problems += visitors.problems
            self._finish(server, "clients")
            self._finish(other, "those who ask for what is hidden")
            self._compare_samples()

    def _take_root(self) -> None:
        """Find out on what all stands, and what it is in git."""
        history, store = self._history, self._history.store
        done = run(self._scratch, "ls-remote", "-q", self._server.url)
        assert not done.returncode, done.stderr
        first = store.hg("log", "-r", history.first, "-T", "{p1node} {p1.gitnode}")
        node, _space, commit = first.partition(" ")
        tree = b""
        if commit.strip("0"):
            command = ["git", "cat-file", "tree", f"{commit}^{{tree}}"]
            directory = store.git_dir
            tree = subprocess.check_output(command, cwd=directory, env=ENVIRONMENT)
        self._objects = Objects(node, commit if tree else "", tree)
        self._timeline.begin("root")
        self._learn(store)
        self._note()

    def _learn(self, store: Exported) -> None:
        revs = f"{self._history.first}:"
        self._objects.learn(store.hg("log", "--hidden", "-r", revs, "-T", TEMPLATE))

    def _note(self) -> None:
        """Note what is so after a change, and ask hg whether the ids are right."""
        history = self._history
        censored = {word.removesuffix("text") for word in history.censored}
        ids = self._objects.ids(censored)
        served = f"{history.first}: and not secret()"
        # an obsolete one that only a secret one keeps is no head of its branch
        named = f"{served} and ::({served} and not obsolete())"
        nodes = [
            history.store.hg("log", "-r", revs, "-T", "{node}\n").split()
            for revs in (served, named)
        ]
        lists = [[ids[node] for node in each] for each in nodes]
        self._timeline.end(ids.values(), *lists)

    def change(self, *, is_late: bool = False) -> None:
        """Change the history, once."""
        history = self._history
        kinds = {
            history.commit: 4,
            history.branch: 4,
            history.publish: 1,
            history.secret: 2,
            history.draft: 2,
            history.strip: 2,
            history.push_again: 2,
            history.hide: 2,
            history.amend: 2,
            history.censor: 1,
            self._push: 3,
            self._push_in_vain: 2,
        }
        if self._censors_once:
            is_time = is_late and not history.censored
            kinds = {history.censor: 1} if is_time else kinds | {history.censor: 0}
        (kind,) = history.draw.choices([*kinds], [*kinds.values()])
        name = kind.__name__.strip("_")
        self._timeline.begin(name)
        try:
            kind()
        except AssertionError as exc:
            self._tell(f"{name}: {exc}")
        self._learn(history.store)
        self._learn(self._client)
        self._note()
        self.counts[f"changes: {name}"] += 1

    def _push(self, *, refused: bool = False) -> None:
        """Let a client of Mercurial push a changeset."""
        client = self._client
        client.hg("update", "-qC", self._history.first)
        self._history.commit(client)
        done = client.run("push", "-qf", "-r", ".", self._server.url)
        if bool(done.code) != refused:
            self._tell(f"push ended with {done}")

    def _push_in_vain(self) -> None:
        """Let the server refuse a push when it has all of it."""
        hook = self._history.draw.choice(["pretxnchangegroup", "pretxnclose"])
        flag = Path(f"{self._refusing}-{hook}")
        flag.touch()
        try:
            self._push(refused=True)
        finally:
            flag.unlink()

    def _refresh(self) -> None:
        """Generate bundles."""
        done = subprocess.run(
            [str(HG), "admin::clone-bundles-refresh"],
            cwd=self._history.store.root,
            env=self._environment,
            capture_output=True,
        )
        with self._lock:
            self.counts["bundles generated"] += not done.returncode
        if done.returncode:
            self._tell(f"bundles: {done}")

    def _ask_for_all(self) -> None:
        """Ask for all that is hidden, and once for what is not."""
        state = self._timeline.last
        asked = [(oid, version) for oid in state.hidden for version in "02"]
        tips = [*state.commits]
        with ThreadPoolExecutor(_ASKING) as pool:
            for (oid, version), found in zip(
                asked, pool.map(lambda it: self._ask(*it), asked), strict=True
            ):
                self._judge(oid, version, found)
        self.counts["asked for"] += len(asked)
        found = self._ask(self._history.draw.choice(tips), "2")
        if found != "sent":
            self._tell(f"what is served is not sent: {found}")

    def _ask_for_any(self) -> None:
        """Ask for something that is hidden, while it may be changing."""
        hidden = sorted(self._timeline.last.hidden)
        if not hidden:
            return
        began = time.monotonic()
        oid, version = hidden[int(began * 1e6) % len(hidden)], "02"[int(began) % 2]
        found = self._ask(oid, version)
        ended = time.monotonic()
        if found != "sent" or oid in self._timeline.hidden_during(began, ended):
            self._judge(oid, version, found)
        with self._lock:
            self.counts["asked for at any moment"] += 1

    def _ask(self, oid: str, version: str) -> str:
        """Ask for an object; again while the server is not ready within a second.

        After a censoring, it exports all anew.
        """
        end = time.monotonic() + LONGEST_SECONDS
        while True:
            found = _answer(self._other, oid, version)
            if not found.startswith("503 ") or time.monotonic() > end:
                return found
            with self._lock:
                self.counts["asked again"] += 1

    def _judge(self, oid: str, version: str, found: str) -> None:
        if found != "refused":
            self._tell(f"{oid}, which is hidden, by protocol {version}: {found}")

    def _keep(self, step: object, pause: float) -> None:
        """Repeat ``step`` until all is done."""
        assert callable(step)
        while not self._done.wait(pause):
            step()

    def _sample(self) -> None:
        server = self._server
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        kb = int(status.split("VmRSS:")[1].split()[0])
        self.samples.append({"descriptors": server.descriptors(), "KB": kb})

    def _compare_samples(self) -> None:
        """See that the server does not take more and more."""
        kbs = [sample["KB"] for sample in self.samples]
        middle, end = max(kbs[: len(kbs) // 2 + 1]), max(kbs)
        self.counts["KB at most, first half"] = middle
        self.counts["KB at most"] = end
        if end > middle + _MORE_KB:
            self.problems.append(f"memory grows: {kbs}")
        first, last = (self.samples[at]["descriptors"] for at in (0, -1))
        self.counts["descriptors in the end"] = last
        if last > first + _MORE_DESCRIPTORS:
            self.problems.append(f"{last} descriptors are left, {first} at first")

    def _finish(self, server: WebServer, whose: str) -> None:
        """See that no process is left, and nothing was raised."""
        deadline = time.monotonic() + 60
        while server.children() and time.monotonic() < deadline:
            time.sleep(0.1)
        if left := server.children():
            self.problems.append(f"processes are left: {left}")
        self._sample()
        for block in server.said().split("Exception happened during")[1:]:
            self.problems.append(block[:3000])
        refused = Counter(
            line.partition("refused with ")[2].partition(", ")[0]
            for line in server.logged()
            if "refused with" in line
        )
        counts = {f"refused of {whose}: {it}": refused[it] for it in refused}
        self.counts += Counter(counts)

    def _tell(self, problem: str) -> None:
        with self._lock:
            self.problems.append(f"{time.strftime('%H:%M:%S')} {problem}")


def _line(content: str) -> str:
    return f"{len(content) + 4:04x}{content}"


def _answer(server: WebServer, oid: str, version: str) -> str:
    """Ask for one object; return "sent", "refused", or what happens else."""
    body = _line(f"want {oid}\n") + "0000" + _line("done\n")
    if version == "2":
        body = _line("command=fetch") + "0001" + _line(f"want {oid}\n")
        body += _line("done\n") + "0000"
    headers = {"Content-Type": GIT_TYPE, "Git-Protocol": f"version={version}"}
    connection = http.client.HTTPConnection(
        "127.0.0.1", server.port, timeout=LONGEST_SECONDS
    )
    try:
        connection.request("POST", "/git-upload-pack", body, headers)
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as exc:
        return repr(exc)
    finally:
        connection.close()
    if b"PACK" in content:
        return "sent"
    is_refused = f"not our ref {oid}".encode() in content
    return "refused" if is_refused else f"{answer.status} {content[:200]!r}"


def _under_load(
    place: Path, server: HgServer, options: Namespace, base: Path, problems: list[str]
) -> Counter[str]:
    """Let clients visit a repository that has what ``base`` has, and changes."""
    place.mkdir()
    load = Load(place, server, options.seed, base)
    try:
        load.run(options.clients, options.load, options.seed)
    finally:
        problems += load.problems
        shutil.rmtree(place, ignore_errors=True)
    return load.counts


def all_of(
    scratch: Path, server: HgServer, options: Namespace, problems: list[str]
) -> Iterator[tuple[str, Callable[[], Counter[str]]]]:
    """Yield a load on each repository; what is wrong is added to ``problems``."""

    def load(name: str, make: Callable[[Path], object]) -> Counter[str]:
        base = scratch / f"base-{name}"
        make(base)
        place = scratch / f"load-{name}"
        return _under_load(place, server, options, base, problems)

    def unbundle(bundle: Path, base: Path) -> None:
        server.hg(scratch, "init", str(base))
        server.hg(base, "unbundle", "-q", str(bundle))

    for profile in ("realistic", "many-heads"):
        make = functools.partial(_generate, profile)
        yield f"git clients, {profile}", functools.partial(load, profile, make)
    for bundle in sorted(options.corpora.glob("*.hg")) if options.corpora else ():
        make = functools.partial(unbundle, bundle)
        name = bundle.stem
        yield f"git clients, {name}", functools.partial(load, name, make)


def _generate(profile: str, base: Path) -> None:
    generate(base, profile)
