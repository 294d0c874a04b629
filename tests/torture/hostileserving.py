"""Hostile and older files below ``.hg/amalgam``, under a server that runs.

The history does not change, so there is one right answer. Each case spoils one to three
things, and then asks. git clones all, or is refused for a reason that is logged. What
is hidden is never sent, also if an older copy of the store has it. Afterwards a command
makes all well again, or says what to remove.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

from testlib.environment import ENVIRONMENT
from testlib.hgserver import HgServer
from testlib.hiding import EVENTS, has_pack, planted, with_draft
from testlib.spoiling import Spoiling, spoilings
from testlib.webserver import WebServer, serving

from .gitclients import run

_CONFIG = (
    "--config=extensions.amalgam=",
    "--config=amalgam.git.serve=yes",
    "--config=amalgam.serve.queue-timeout=0",
)
_COMMANDS = (("git::export", "--rebuild"), ("admin::amalgam", "--repair"))
_MOST_AT_ONCE = 3
_OLDER_SHARE = 0.3
#: How begins what the log says of a request that got no answer, or not all of one.
_REASONS = ("refused with 5", "git ended with", "cut,", "timed out,")
_UNEXPLAINED = "its operator finds"
_EXPLAINED = ("export for git failed: ", "requested export failed: ")


class _Scene:
    """A served repository, copies of older stores, and what is right."""

    def __init__(self, place: Path, server: HgServer) -> None:
        self.place = place
        self.store = store = with_draft(place / "repo", server)
        self._older = [place / "older-0", place / "older-1"]
        self._good = place / "good"
        store.hg("git::export")
        self.hidden = planted(store)
        store.hg("bookmark", "-r", "0", "first")
        for event, copy in zip(("amended", "secret"), self._older, strict=True):
            self._copy(store.amalgam, copy)
            if event == "amended":
                EVENTS[event](store)
                (store.root / "other").write_text("otherplanted\n" * 9)
                store.hg("commit", "-qAm", "otherplanted", "-d", "2 0")
            else:
                self.hidden += [store.git("rev-parse", f"{it}") for it in self._tip()]
                store.hg("phase", "--force", "--secret", "tip")
                store.hg("update", "-q", "0")
            store.hg("git::export")
        store.commit_nothing("later")
        store.hg("git::export")
        self._copy(store.amalgam, self._good)
        self._copy(store.amalgam, place / "victims/twin")
        (place / "victims/file").write_text("precious\n")
        (place / "victims/directory").mkdir()
        self.spoilings = spoilings(store.amalgam)
        self.refs = _refs(store.git_dir)

    def _tip(self) -> list[str]:
        oid = self.store.ids("tip")[1]
        return [oid, f"{oid}^{{tree}}", f"{oid}:other"]

    def _copy(self, source: Path, target: Path) -> None:
        target.parent.mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", source, target], check=True)

    def restore(self) -> None:
        """Let all be as it was."""
        amalgam = self.store.amalgam
        for path in (amalgam, self.place / "victims/twin"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            self._copy(self._good, path)

    def put_older(self, draw: random.Random) -> str:
        """Put an older copy of something there, and return what it is."""
        older, amalgam = draw.choice(self._older), self.store.amalgam
        paths = [Path(), *sorted(it.relative_to(older) for it in older.rglob("*"))]
        tops = [Path(), Path("git"), Path("map"), Path("git/cinnabar.git/objects")]
        name = draw.choice([draw.choice(tops), draw.choice(paths)])
        source, target = older / name, amalgam / name
        with contextlib.suppress(OSError):  # something may be in the way
            if source.is_dir():
                if draw.random() < 0.5:
                    shutil.rmtree(target)
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(source, target)
        return f"older copy of {name}, {older.name}"


class _Case:
    """One or more things that are spoilt, and what comes of it."""

    def __init__(self, scene: _Scene, web: WebServer, draw: random.Random) -> None:
        self._scene, self._web = scene, web
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self._log_start = len(web.said())
        done = []
        for _number in range(draw.randint(1, _MOST_AT_ONCE)):
            if draw.random() < _OLDER_SHARE:
                done.append(scene.put_older(draw))
            else:
                spoiling: Spoiling = draw.choice(scene.spoilings)
                spoiling.apply(scene.place, draw)
                done.append(str(spoiling))
        self._what = "; ".join(done)

    def check(self) -> None:
        """Ask, repair, and ask again."""
        self._ask_for_hidden()
        is_well, said = self._clone()
        self.counts["cloned" if is_well else "refused"] += 1
        if not is_well:
            self._check_reason(said)
        self._ask_for_hidden()
        self._repair()
        if self._web.process.poll() is not None:
            self._tell("the server has ended")
        if "Traceback" in self._logged():
            self._tell(f"traceback: {self._logged()[-3000:]}")

    def _repair(self) -> None:
        hints = []
        for command in _COMMANDS:
            done = self._scene.store.run(*command)
            if done.code == 0:
                is_well, said = self._clone()
                if is_well:
                    self.counts[f"repaired by {command[0]}"] += 1
                    self._ask_for_hidden()
                    return
                hints.append(f"{command}, then: {said} {self._logged()[-1500:]}")
            else:
                hints.append(f"{command} {done.code}: {done.err!r}")
                if done.code is None or done.code < 0 or b"Traceback" in done.err:
                    self._tell(hints[-1])
        if any("remove" in hint or "trust" in hint for hint in hints):
            self.counts["told what to remove"] += 1
        else:
            self._tell("not repaired: " + "\n".join(hints))

    def _clone(self) -> tuple[bool, str]:
        """Clone all; tell whether that worked, and what was said."""
        clone = self._scene.place / "clone"
        shutil.rmtree(clone, ignore_errors=True)
        done = run(self._scene.place, "clone", "-q", "--mirror", self._web.url, "clone")
        if done.returncode:
            return False, done.stderr
        fsck = run(clone, "fsck", "--strict", "--full", "--no-dangling")
        if fsck.returncode:
            self._tell(f"fsck of a clone: {fsck.stderr[:1000]}")
        if (refs := _refs(clone)) != self._scene.refs:
            self._tell(f"clone has {refs}, not {self._scene.refs}")
        return True, done.stderr

    def _ask_for_hidden(self) -> None:
        for oid in self._scene.hidden:
            try:
                if has_pack(self._web, oid):
                    self._tell(f"{oid}, which is hidden, was sent")
            except (IndexError, ValueError, OSError) as exc:
                self._tell(f"no answer: {exc!r}\n{self._logged()[-3000:]}")
            self.counts["asked for"] += 1

    def _check_reason(self, said: str) -> None:
        """See that the log says why a clone failed."""
        logged = self._logged()
        reasons = [
            line for line in logged.splitlines() if any(it in line for it in _REASONS)
        ]
        has_reason = any(_UNEXPLAINED not in reason for reason in reasons)
        if not has_reason and not any(it in logged for it in _EXPLAINED):
            self._tell(f"no reason is logged: {said}\n{logged[-1500:]}")
        if "refused with 500" in logged:
            self._tell(f"500: {said}\n{logged[-1500:]}")

    def _logged(self) -> str:
        return self._web.said()[self._log_start :]

    def _tell(self, problem: str) -> None:
        self.problems.append(f"{self._what}: {problem}")


def _refs(directory: Path) -> str:
    told = run(directory, "for-each-ref", "--format=%(objectname) %(refname)").stdout
    return "".join(it for it in told.splitlines(True) if " refs/cinnabar/" not in it)


def cases(
    scratch: Path, server: HgServer, seconds: float, seed: int
) -> tuple[Counter[str], list[str]]:
    """Spoil and ask for ``seconds``; return counts, and what went wrong."""
    place = scratch / "hostile-serving"
    place.mkdir()
    scene = _Scene(place, server)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    end = time.monotonic() + seconds
    with serving(scene.store.root, *_CONFIG, environment=ENVIRONMENT) as web:
        number = 0
        while time.monotonic() < end:
            case = _Case(scene, web, random.Random(f"{seed} {number}"))
            case.check()
            counts += case.counts
            problems += [f"{seed} {number}: {problem}" for problem in case.problems]
            scene.restore()
            number += 1
    counts["cases"] = number
    return counts, problems
