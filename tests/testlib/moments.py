"""Random moments of a replication: what fails, what others do, and what is killed.

After each moment the report must be true, and nothing of others may be lost. After the
next push that nothing disturbs, the mirror is equal, but for refs that others moved:
those are refused with a reason.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from .environment import ENVIRONMENT, HG, add_config
from .exported import STRIP, Exported
from .githost import Behaviour, GitHost
from .hgserver import HgServer

_NO_OID = "0" * 40
_PASSWORD = "anotherone"
_NAMES = ("main", "stable", "rel/1", "rel/2", "wip")
_BEHAVIOURS = (
    Behaviour(),
    Behaviour(),
    Behaviour(password=_PASSWORD),
    Behaviour(status=403),
    Behaviour(status=503),
    Behaviour(protected=("refs/heads/main",)),
    Behaviour(declines="quota is used up"),
    Behaviour(hidden=("refs/heads/rel",)),
    Behaviour(is_force_denied=True),
    Behaviour(most_commits=1),
    Behaviour(most_pack_bytes=900),
    Behaviour(file_bytes=512),
    Behaviour(cut_after_bytes=300),
    Behaviour(piece_seconds=0.05),
    Behaviour(stalls=True),
    Behaviour(loses_answer=True),
)


class Moments:
    """A repository, its mirror on a host, and what others wrote there."""

    def __init__(self, root: Path, server: HgServer, host: GitHost, seed: int) -> None:
        self.draw = random.Random(seed)
        self.host = host
        self.mirror = host.add(f"mirror{seed}")
        self.done: list[str] = []
        self.others: dict[str, str] = {}
        """Refs that others wrote last, with their oids; ``_NO_OID`` if deleted."""
        self._seconds = 1.0
        self._count = 0
        self._changes: tuple[Callable[[], None], ...] = (
            *(self._commit, self._commit, self._commit, self._move, self._tag),
            *(self._delete, self._strip),
        )
        self.store = Exported.init(root, server)
        add_config(
            root,
            f"[amalgam]\nreplicate.mirror = {self.mirror.url}\n"
            "replicate.mirror.prune = yes\nreplicate.mirror.timeout = 3\n"
            "git.refs = bookmarks, tags\n",
        )
        for _number in range(3):
            self._commit()
        # as hosts have them
        for ref in ("refs/pull/1/head", "refs/meta/config"):
            self._write_as_other(ref)
        assert self._push()[0] == 0, "first push"

    def pass_one(self) -> None:
        """Let something happen, and check everything."""
        for _number in range(self.draw.randrange(1, 4)):
            self.draw.choice(self._changes)()
        if self.draw.random() < 0.4:
            self._disturb()
        self.mirror.behaviour = self.draw.choice(_BEHAVIOURS)
        self.done.append(str(self.mirror.behaviour))
        killed = self.draw.choice(("", "", "hg", "git", "host"))
        self._check(*self._push(killed), is_killed=bool(killed))
        self.mirror.behaviour = Behaviour()
        self._check(*self._push(), is_killed=False)
        self._compare()
        self._settle()

    # what happens to the repository

    def _commit(self) -> None:
        name = self.draw.choice(_NAMES)
        self._count += 1
        self.done.append(f"commit on {name}")
        if name in self._bookmarks():
            self.store.hg("update", "-q", name)
        else:
            self.store.hg("update", "-q", "tip")
            self.store.hg("bookmark", name)
        text = "".join(self.draw.choices("0123456789abcdef", k=900))
        self.store.commit(f"file{self._count}", text=text)

    def _move(self) -> None:
        """Move a bookmark anywhere, also back."""
        name = self.draw.choice(_NAMES)
        revs = int(self.store.hg("log", "-r", "tip", "-T", "{rev}")) + 1
        self.done.append(f"move {name}")
        rev = str(self.draw.randrange(revs))
        self.store.hg("bookmark", "-f", "-r", rev, name)

    def _tag(self) -> None:
        self._count += 1
        self.done.append(f"tag v{self._count}")
        self.store.hg("update", "-q", "tip")
        self.store.hg("tag", f"v{self._count}", "-d", "9 0")

    def _delete(self) -> None:
        if names := self._bookmarks():
            name = self.draw.choice(sorted(names))
            self.done.append(f"delete {name}")
            self.store.hg("bookmark", "-d", name)

    def _strip(self) -> None:
        """Strip a changeset at the end, which nobody may read any more."""
        if int(self.store.hg("log", "-r", "tip", "-T", "{rev}")) > 3:
            self.done.append("strip")
            self.store.hg(*STRIP, "-r", "tip")

    def _bookmarks(self) -> set[str]:
        names = self.store.hg(
            "log", "-r", "bookmark()", "-T", "{bookmarks % '{bookmark}\\n'}"
        )
        return set(names.split())

    # what others do

    def _disturb(self) -> None:
        ref = "refs/heads/" + self.draw.choice((*_NAMES, "theirs"))
        value = self.mirror.refs(ref).get(ref)
        ways: list[Callable[[str], object]] = [self._write_as_other]
        if value and ref != "refs/heads/theirs":
            ways.append(self._delete_as_other)
            if self.mirror.git("rev-list", "--max-count=2", value).count("\n"):
                ways.append(self._rewind_as_other)
        self.draw.choice(ways)(ref)

    def _write_as_other(self, ref: str) -> None:
        self.done.append(f"others write {ref}")
        self.others[ref] = self.mirror.edit(ref)

    def _rewind_as_other(self, ref: str) -> None:
        self.done.append(f"others rewind {ref}")
        self.others[ref] = self.mirror.rewind(ref)

    def _delete_as_other(self, ref: str) -> None:
        self.done.append(f"others delete {ref}")
        self.mirror.git("update-ref", "-d", ref)
        self.others[ref] = _NO_OID

    # what is pushed

    def _push(self, killed: str = "", *args: str) -> tuple[int, dict[str, Any] | None]:
        """Push, and kill something; return exit code and report, if it has one."""
        self.done.append(f"push {' '.join(args)}{killed and f', kill {killed}'}")
        command = [str(HG), "--config", "extensions.amalgam=", "git::push", "mirror"]
        start = time.monotonic()
        process = subprocess.Popen(
            [*command, *args, "-T", "json"],
            cwd=self.store.root,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        killer = threading.Timer(
            self.draw.uniform(0, 1.2 * self._seconds), self._kill, (killed, process.pid)
        )
        if killed:
            killer.start()
        out, err = process.communicate(timeout=240)
        if killed:
            killer.join()
            if killed == "host":
                self.host.start()
        elif not args:
            self._seconds = time.monotonic() - start
        self.done.append(f"-> {process.returncode} {err.decode()}")
        # git may not have noticed yet that its parent was killed
        with contextlib.suppress(ValueError):
            (report,) = json.loads(out)
            return process.returncode, report
        return process.returncode, None

    def _kill(self, what: str, pid: int) -> None:
        with contextlib.suppress(psutil.Error):
            if what == "host":
                self.host.kill()
            elif what == "hg":
                psutil.Process(pid).kill()
            elif gits := psutil.Process(pid).children(recursive=True):
                self.draw.choice(gits).kill()

    # what must be true

    def _check(
        self, code: int, report: dict[str, Any] | None, *, is_killed: bool
    ) -> None:
        there = self.mirror.refs()
        for ref, oid in self.others.items():
            assert there.get(ref, _NO_OID) == oid, f"{ref} of others was written"
        if report is None:
            assert is_killed, "no report"
            return
        refused = set()
        for it in report["refs"]:
            if it["action"] in ("created", "moved", "forced", "deleted"):
                assert there.get(it["ref"], "") == it["new"], f"{it['ref']} is not done"
            elif it["action"] == "refused":
                refused.add(it["ref"])
                assert it["reason"], f"{it['ref']} was refused without a reason"
        statuses = ("equal", "refused", "failed", "busy")
        if code < 0:  # killed after it has said everything
            code = statuses.index(report["status"])
        assert report["status"] == statuses[code]
        if code == 2:
            assert report["reason"]
            assert is_killed or self.mirror.behaviour != Behaviour(), "failed"
            return
        differ = self._differing(there) - refused - self.others.keys()
        assert code == 3 or not differ, f"{differ} are not said to differ"

    def _compare(self) -> None:
        """Let amalgam compare: it must find those that others wrote, and no more."""
        code, report = self._push("", "--check")
        assert report is not None
        named = {it["ref"] for it in report["refs"]}
        differ = self._differing(self.mirror.refs())
        assert differ <= self.others.keys(), f"{differ - self.others.keys()} differ"
        # a branch that only others have is theirs
        missing = (differ & self._wanted().keys()) - named
        assert not missing, f"{missing} are not found to differ"
        assert named <= differ, f"{named - differ} are equal"
        assert code == bool(named)

    def _settle(self) -> None:
        """Write those that others wrote, as their owners agree."""
        differ = self._differing(self.mirror.refs())
        wanted = self._wanted()
        for ref in differ & wanted.keys():
            name = ref.removeprefix("refs/heads/")
            code, report = self._push("", "--force", "-B", name)
            assert report is not None
            assert code == 0, f"{name} is not forced"
            del self.others[ref]
        for ref in differ - wanted.keys():
            self.mirror.git("update-ref", "-d", ref)
            del self.others[ref]
        # those that others wrote, and that are equal all the same, are ours again
        for ref in [it for it in self.others if it.startswith("refs/heads/")]:
            if ref != "refs/heads/theirs":
                del self.others[ref]

    def _wanted(self) -> dict[str, str]:
        """Return the branches and tags of the store, after an export."""
        self.store.hg("git::export")
        lines = self.store.git("for-each-ref", "--format=%(refname) %(objectname)")
        found = dict(line.split(" ") for line in lines.splitlines())
        published = ("refs/heads/", "refs/tags/")
        return {ref: oid for ref, oid in found.items() if ref.startswith(published)}

    def _differing(self, there: dict[str, str]) -> set[str]:
        """Return refs that differ, of ours and of branches that others wrote."""
        published = ("refs/heads/", "refs/tags/")
        there = {ref: oid for ref, oid in there.items() if ref.startswith(published)}
        there.pop("refs/heads/theirs", None)
        wanted = self._wanted()
        return {it for it in {**wanted, **there} if wanted.get(it) != there.get(it)}
