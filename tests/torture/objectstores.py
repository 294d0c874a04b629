"""Generators that upload to an object store, and die, or whose store fails.

At any moment, each address that a client is told answers with the right bytes. After
the next generator, nothing is in the bucket that no bundle needs. Skipped where there
is no S3 server.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testlib.bundled import Bundled, Served
from testlib.environment import ENVIRONMENT, git, hg
from testlib.faultproxy import Fault, FaultProxy, fault_proxy
from testlib.hgserver import HgServer
from testlib.needs import missing
from testlib.s3server import BUCKET, S3Server, s3_server

RETENTION_SECONDS = 4
PREFIX = "group/repo"
_LARGE_BYTES = 3_000_000
_ADDRESS = re.compile(r"http://\S+/[0-9a-f]{16}-[0-9a-f]{32}\.(?:bundle|hg)")
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


class Case:
    """A repository, its hgweb, a bucket, and what is wrong so far."""

    def __init__(
        self, bundled: Bundled, s3: S3Server, served: Served, proxy: FaultProxy
    ) -> None:
        self.bundled = bundled
        self.s3 = s3
        self.served = served
        self.proxy = proxy
        self.problems: list[str] = []
        self.reads = 0

    def advertised(self) -> set[str]:
        """Return all addresses that clients are told now."""
        found = set()
        listed = f"{self.s3.public}/{PREFIX}/bundles.list"
        for text in (
            self.served.get("?cmd=clonebundles"),
            self.served.get("?cmd=cinnabarclone"),
            _read(listed) or b"",
        ):
            found |= set(_ADDRESS.findall(text.decode()))
        return found

    def check(self) -> None:
        """Read all that is advertised, and compare it with its digest."""
        for url in self.advertised():
            content = _read(url)
            key = url.rpartition("/")[2]
            if content is None:
                self.problems.append(f"{key} is advertised, and not there")
                continue
            self.reads += 1
            # which content belongs to a key is in the register, and stays in it
            name = re.search(
                r"(?m)^bundle ([0-9a-f]{64})\.\w+\n(?:(?!bundle ).*\n)*"
                rf"key {re.escape(key)}$",
                self.bundled.read("amalgam/bundles/register"),
            )
            digest = hashlib.sha256(content).hexdigest()
            if name and name[1] != digest:
                self.problems.append(f"{key} has another content than {name[1]}")

    def check_next(self) -> None:
        """Generate, and see that all is there, and nothing that should not be."""
        self.proxy.rule = lambda _method, _path: Fault.NONE
        begun = time.time()
        self.bundled.refresh()
        self.check()
        assert not self.problems, self.problems
        debris = self.bundled.debris()
        assert not debris, debris
        register = self.bundled.read("amalgam/bundles/register")
        keys = set(re.findall(r"(?m)^key (\S+)$", register))
        there = self.s3.keys(PREFIX) - {"bundles.list"}
        assert there == keys, f"orphans: {there - keys}, lost: {keys - there}"
        assert not self.s3.uploads(), "an upload that nobody finishes"
        for retired in re.findall(r"(?m)^retired (\S+)$", register):
            assert float(retired) + RETENTION_SECONDS > begun, "kept for too long"
        total = int(self.bundled.hg("log", "-r", "tip", "-T", "{rev}")) + 1
        rows = self.bundled.rows("live")
        for kind in ("none-v2", "cinnabar-v1"):
            most = max(row["changesets"] for row in rows if row["format"] == kind)
            assert most == total, f"{kind} has {most} changesets of {total}"

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Read what is advertised again and again, while something happens."""
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                self.check()
                time.sleep(0.1)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        assert not self.problems, self.problems


def _read(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as exc:
        with exc:
            return None


@contextlib.contextmanager
def _case(scratch: Path, name: str) -> Iterator[Case]:
    place = scratch / name
    place.mkdir()
    with s3_server(place / "s3") as s3, fault_proxy(s3.port) as proxy:
        environment = s3.environment | {"AWS_ENDPOINT_URL": proxy.endpoint}
        server = HgServer(ENVIRONMENT | environment)
        bundled = Bundled.init(place / "repo", server, hg=["none-v2"])
        bundled.configure("clone-bundles", trigger__revs="0")
        bundled.configure(
            "amalgam",
            git__serve="yes",
            bundles__url=f"s3://{BUCKET}/{PREFIX}",
            bundles__public_url=f"{s3.public}/{PREFIX}",
            bundles__retention=str(RETENTION_SECONDS),
        )
        bundled.commit(os.urandom(_LARGE_BYTES // 2).hex())
        bundled.refresh()
        with bundled.served() as served:
            yield Case(bundled, s3, served, proxy)
        server.close()


def kills(scratch: Path, count: int, seed: int) -> Counter[str]:
    """Kill ``count`` generators at random moments; then clients clone."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    with _case(scratch, "killed") as case:
        bundled = case.bundled
        # uploads take most of the time
        case.proxy.rule = _slow
        bundled.commit()
        started = time.monotonic()
        bundled.start_refresh().communicate()
        whole_seconds = time.monotonic() - started
        while counts["killed"] < count:
            case.proxy.rule = _slow
            bundled.commit()
            process = bundled.start_refresh(start_new_session=True)
            with case.watched():
                time.sleep(draw.uniform(0.1, 1) * whole_seconds)
                with contextlib.suppress(ProcessLookupError):
                    victim = draw.choice([os.kill, os.killpg])
                    victim(process.pid, signal.SIGKILL)
                process.communicate()
            killed = process.returncode < 0
            counts["killed" if killed else "too late"] += 1
            counts["in mid-upload"] += bool(killed and case.s3.uploads())
            case.check()
            assert not case.problems, case.problems
            if draw.random() < 0.3:
                with case.watched():
                    case.check_next()
                counts["generated again"] += 1
        case.check_next()
        counts["reads of what is advertised"] = case.reads
        counts.update(_clone(case, scratch / "killed"))
    return counts


def _slow(method: str, path: str) -> Fault:
    return Fault.SLOW if method == "PUT" and "partNumber=" in path else Fault.NONE


def _clone(case: Case, place: Path) -> list[str]:
    """Let each client clone, and see that Mercurial sends nobody everything."""
    url, clients = case.served.url, ["clones of hg", "clones of git"]
    hg(place, "clone", "-qU", url, "by-hg")
    uri = f"--bundle-uri={case.s3.public}/{PREFIX}/bundles.list"
    git(place, "clone", "-q", uri, url, "by-git")
    assert git(place / "by-git", "for-each-ref", "refs/bundles"), "no bundle was used"
    tip = case.bundled.hg("log", "-r", "tip", "-T", "{node}").encode()
    assert hg(place / "by-hg", "log", "-r", "tip", "-T", "{node}") == tip
    if program := _cinnabar():
        environment = ENVIRONMENT | {
            "PATH": f"{Path(program).parent}:{ENVIRONMENT['PATH']}",
            "GIT_CINNABAR_CHECK": "cinnabarclone,no-version-check",
        }
        command = ["git", "clone", "-q", f"hg::{url}", str(place / "by-cinnabar")]
        subprocess.run(command, env=environment, check=True)
        clients.append("clones of git-cinnabar")
    case.served.check_offloaded(case.bundled)
    return clients


def _cinnabar() -> str | None:
    places = [str(path) for path in _CACHE.glob("hg-amalgam/git-cinnabar-*/bin")]
    path = os.pathsep.join([os.environ["PATH"], *places])
    return shutil.which("git-cinnabar", path=path)


def faults(scratch: Path, count: int, seed: int) -> Counter[str]:
    """Generate ``count`` times while some of the store's answers are errors."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    kinds = [Fault.UNAVAILABLE, Fault.CUT, Fault.FULL, Fault.SLOW]
    with _case(scratch, "faulty") as case:
        for _number in range(count):
            fault, share = draw.choice(kinds), draw.choice([0.1, 0.5, 1.0])

            def rule(
                _method: str, _path: str, fault: Fault = fault, share: float = share
            ) -> Fault:
                return fault if draw.random() < share else Fault.NONE

            case.bundled.commit()
            case.proxy.rule = rule
            process = case.bundled.start_refresh()
            with case.watched():
                _out, err = process.communicate()
            assert b"Traceback" not in err, err.decode()
            result = "refused" if process.returncode else "generated"
            counts[f"{result} with {fault.name.lower()}"] += 1
            if draw.random() < 0.3:
                case.check_next()
        case.check_next()
    return counts


def all_of(scratch: Path, options: Any) -> Iterator[Any]:
    """Yield a name and a part for each kind of suffering."""
    if reason := missing("s3-server"):
        print(f"object stores: skipped, {reason}")
        return
    seed = options.seed
    yield "object stores: kills", lambda: kills(scratch, options.kills, seed)
    yield "object stores: faults", lambda: faults(scratch, options.disks, seed)
