"""Generators of bundles that die, that cannot write, that compete; and what stays true.

At any moment what the manifests name is there, and is what its name says. After the
next generator nothing is left of those that died, and all that is missing is there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testlib.bundled import Bundled, generators
from testlib.hgserver import HgServer


class Case:
    """A repository whose generators suffer."""

    def __init__(self, scratch: Path, server: HgServer, name: str) -> None:
        place = scratch / name
        place.mkdir()
        self.bundled = Bundled.init(place / "repo", server, changesets=20)
        self.host = place / "host"
        self.host.mkdir()
        self.bundled.configure("clone-bundles", trigger__revs="0")
        self.bundled.refresh()

    def upload(self, before: str, after: str = "true") -> None:
        """Let bundles be uploaded from now on, with other commands around that."""
        target = f'"{self.host}/$HGCB_BUNDLE_BASENAME"'
        copy = f'cp "$HGCB_BUNDLE_PATH" {target}.part && mv {target}.part {target}'
        self.bundled.configure(
            "clone-bundles",
            upload_command=f"{before} && {copy} && {after}",
            delete_command=f'rm -f "{self.host}/$HGCB_BASENAME"',
            url_template=f"file://{self.host}/{{basename}}",
        )

    def check(self) -> None:
        """See that what is named is there, and is what its name says."""
        for name in self.bundled.named():
            files = [self.bundled.directory / name, self.host / name]
            found = [path.read_bytes() for path in files if path.exists()]
            assert found, f"{name} is named, and not there"
            digest = hashlib.sha256(found[0]).hexdigest()
            assert name.startswith(digest), f"{name} has another content"

    def check_next(self) -> None:
        """Generate, and see that all is there, and nothing that should not be."""
        self.bundled.refresh()
        self.check()
        assert not self.bundled.debris(), self.bundled.debris()
        rows = self.bundled.rows("live")
        assert self.bundled.named() <= {row["name"] for row in rows}
        total = int(self.bundled.hg("log", "-r", "tip", "-T", "{rev}")) + 1
        for kind in ("gzip-v2", "cinnabar-v1"):
            most = max(row["changesets"] for row in rows if row["format"] == kind)
            assert most == total, f"{kind} has {most} changesets of {total}"
        known = {row["name"] for row in self.bundled.rows()} | {"bundles.list"}
        there = {path.name for path in self.host.iterdir() if path.suffix != ".part"}
        assert there <= known, f"left: {there - known}"


def kills(scratch: Path, server: HgServer, count: int, seed: int) -> Counter[str]:
    """Kill ``count`` generators, and what they have started, at random moments."""
    draw = random.Random(seed)
    case = Case(scratch, server, "killed")
    counts: Counter[str] = Counter()
    started = time.monotonic()
    case.bundled.commit()
    case.bundled.start_refresh().communicate()
    whole_seconds = time.monotonic() - started
    while counts["killed"] < count:
        if counts["killed"] == count // 2 and not counts["uploads"]:
            case.upload("sleep 0.1")
            counts["uploads"] = 1
        case.bundled.commit()
        process = case.bundled.start_refresh(start_new_session=True)
        time.sleep(draw.uniform(0.2, 1) * whole_seconds)
        with contextlib.suppress(ProcessLookupError):
            victim = draw.choice([os.kill, os.killpg])
            victim(process.pid, signal.SIGKILL)
        process.communicate()
        counts["killed" if process.returncode < 0 else "too late"] += 1
        case.check()
        if draw.random() < 0.3:
            time.sleep(0.3)  # a command that outlives its generator
            case.check_next()
            counts["generated again"] += 1
    case.check_next()
    return counts


def limited_files(scratch: Path, server: HgServer, count: int) -> Counter[str]:
    """Let no file grow beyond one size after the other."""
    case = Case(scratch, server, "limited")
    case.bundled.commit(os.urandom(20_000).hex())
    before = case.bundled.named()
    counts: Counter[str] = Counter()
    for number in range(count):
        limit = 60_000 * number // count

        def limit_files(limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        process = case.bundled.start_refresh(preexec_fn=limit_files)
        _out, err = process.communicate()
        assert b"Traceback" not in err, err.decode()
        counts["refused" if process.returncode else "generated"] += 1
        case.check()
        # a format that fits may be renewed, and none may be gone
        named = case.bundled.named()
        assert len(named) >= len(before), f"{named} with {limit} bytes"
    case.check_next()
    return counts


def changes(scratch: Path, server: HgServer, count: int) -> Counter[str]:
    """Let ``count`` transactions follow each other, each of which may generate."""
    case = Case(scratch, server, "changes")
    bundled = case.bundled
    log = scratch / "changes.log"
    log.touch()
    # two at once would be seen
    case.upload(f'echo begin >> "{log}" && sleep 0.05', f'echo end >> "{log}"')
    bundled.configure("clone-bundles", auto_generate__on_change="yes")
    bundled.configure("clone-bundles", trigger__revs="10")
    counts: Counter[str] = Counter()
    for _number in range(count):
        bundled.commit()
        case.check()
        counts["transactions"] += 1
        counts["with a generator"] += bool(generators(bundled.dot_hg))
    bundled.wait()
    assert not bundled.debris(), bundled.debris()
    assert not bundled.problems(), bundled.problems()
    case.check()
    total = int(bundled.hg("log", "-r", "tip", "-T", "{rev}")) + 1
    rows = bundled.rows("live")
    for kind in ("gzip-v2", "cinnabar-v1"):
        most = max(row["changesets"] for row in rows if row["format"] == kind)
        assert total - most <= max(10, total // 20 + 1), f"{kind}: {most} of {total}"
    marks = log.read_text().split()
    assert marks == ["begin", "end"] * (len(marks) // 2), "two generators at once"
    counts["uploads"] = len(marks) // 2
    return counts


def all_of(scratch: Path, server: HgServer, options: Any) -> Iterator[Any]:
    """Yield a name and a part for each kind of suffering."""
    yield "bundles: kills", lambda: kills(scratch, server, options.kills, options.seed)
    yield (
        "bundles: limited files",
        lambda: limited_files(scratch, server, options.disks),
    )
    yield "bundles: changes", lambda: changes(scratch, server, options.changes)
