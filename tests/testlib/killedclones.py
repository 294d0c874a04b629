"""Clones, pulls and pushes of git repositories that are killed at random moments.

``killedclones.py SEED COUNT`` kills that many. hg alone is killed, or its git processes
with it. The next run must leave the state of one that nothing has disturbed.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from testlib.environment import ENVIRONMENT, HG, git
from testlib.gitclone import Clone

_COMMITS = 40
# a first pull goes into an empty repository, of which more is kept
_COMMANDS = ("clone", "first pull", "pull", "push")
_SHOWN = "{node} {phase} {bookmarks} {gitbranches} {gittags} {gitnode}\n"

State = tuple[str, str, set[str]]


class KilledClones:
    """A host, a clone of its past with a commit of its own, and clones to kill."""

    def __init__(self, scratch: Path, seed: int) -> None:
        self.done: list[str] = []
        self._draw = random.Random(seed)
        self._host = scratch / "host"
        self._clone = Clone(scratch / "clone")
        self._old, self._new = scratch / "old", scratch / "new"
        self._template = scratch / "template"
        git(scratch, "init", "-q", "--bare", "-b", "main", str(self._old))
        self._commit(self._old, "main", _COMMITS)
        self._commit(self._old, "side", 5)
        shutil.copytree(self._old, self._new)
        self._commit(self._new, "main", _COMMITS)
        self._commit(self._new, "new", 5)
        git(self._new, "tag", "-m", "annotated", "v1", "main~3")
        shutil.copytree(self._old, self._host)
        self._clone.hg("clone", "-q", "-u", "side", *self._paths)
        (self._clone.root / "mine").write_text("mine")
        self._clone.hg("commit", "-A", "-q", "-m", "mine", "-d", "0 0")
        shutil.move(self._clone.root, self._template)
        self._seconds: dict[str, float] = {}
        self._expected: dict[str, State] = {}
        for name in _COMMANDS:
            self._reset(name)
            start = time.monotonic()
            self._run(name)
            self._seconds[name] = time.monotonic() - start
            self._expected[name] = self._state()

    @property
    def _paths(self) -> tuple[str, str]:
        return str(self._host), str(self._clone.root)

    def _commit(self, repository: Path, branch: str, count: int) -> None:
        """Commit files onto a branch, each with some lines."""
        tips = git(repository, "for-each-ref", f"refs/heads/{branch}").decode()
        parent = f"from refs/heads/{branch}^0\n" if tips else ""
        parts = []
        for number in range(count):
            text = f"{branch} {self._draw.random()}\n" * 200
            parts.append(
                f"commit refs/heads/{branch}\ncommitter A <a@b> {number} +0000\n"
                f"data {len(branch)}\n{branch}\n{parent}"
                f"M 644 inline {branch}/{number % 9}\ndata {len(text)}\n{text}\n"
            )
            parent = ""
        command = ["git", "fast-import", "--quiet"]
        text = "".join(parts)
        subprocess.run(command, cwd=repository, input=text, text=True, check=True)

    def _reset(self, name: str) -> None:
        for path in (self._host, self._clone.root):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self._old if name == "push" else self._new, self._host)
        if name == "first pull":
            self._clone.hg("init", self._paths[1])
            hgrc = self._clone.root / ".hg/hgrc"
            hgrc.write_text(f"[paths]\ndefault = {self._host}\n")
        elif name != "clone":
            shutil.copytree(self._template, self._clone.root, symlinks=True)

    def _arguments(self, name: str) -> list[str]:
        if name == "clone":
            return [name, "-q", "-U", *self._paths]
        return [name.removeprefix("first "), "-q"]

    def _run(self, name: str) -> None:
        """Run a command to its end, after the repairs that Mercurial asks for."""
        root = self._clone.root
        if name == "clone" and root.exists():
            shutil.rmtree(root)  # as 'hg clone' itself does after an error
        if (root / ".hg/store/journal").exists():
            self._clone.hg("recover", "-q")
        code, output = self._clone.run(*self._arguments(name))
        # the push had ended already
        assert code == 0 or (name == "push" and code == 1), output

    def _state(self) -> State:
        """Return all that a user sees, and files that should not be there."""
        assert "warning" not in self._clone.hg("verify", "-q")
        amalgam = self._clone.root / ".hg/amalgam"
        git(amalgam / "fetched/objects.git", "fsck", "--full")
        shown = self._clone.hg("log", "-r", "sort(all(), node)", "-T", _SHOWN)
        refs = git(self._host, "for-each-ref").decode()
        files = {path.name for path in amalgam.rglob("*")}
        odd = {it for it in files if "tmp" in it or ".lock" in it or "fetch-" in it}
        return shown, refs, odd

    def _started_meanwhile(self) -> list[psutil.Process]:
        """Return processes of git that hg has started as it was killed."""
        found = []
        for it in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self._clone.root) in it.environ().get("GIT_DIR", ""):
                    found.append(it)
        return found

    def pass_one(self) -> None:
        """Kill a command, run it again, and compare."""
        name = self._draw.choice(_COMMANDS)
        self._reset(name)
        moment = self._draw.uniform(0, 1.1 * self._seconds[name])
        takes_git = self._draw.random() < 0.5
        self.done.append(f"{name} {moment:.3f} of {self._seconds[name]:.3f} s")
        process = subprocess.Popen(
            [str(HG), "--config", "extensions.amalgam=", *self._arguments(name)],
            cwd=self._clone.root.parent if name == "clone" else self._clone.root,
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        start = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment)
            # the machine is less busy now: later moments come earlier
            self._seconds[name] = time.monotonic() - start
        gits = []
        with contextlib.suppress(psutil.Error):
            gits = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for it in gits if takes_git else ():
            with contextlib.suppress(psutil.Error):
                it.kill()
        psutil.wait_procs([*gits, *self._started_meanwhile()], 60)
        self.done[-1] += f", {len(gits)} of git, code {process.returncode}"
        self._run(name)
        shown, refs, odd = self._state()
        *lines, others = self._expected[name]
        differ = {*f"{shown}{refs}".splitlines()} ^ {*"".join(lines).splitlines()}
        assert (differ, odd) == (set(), others), (self.done, differ, odd)


def main(seed: str, count: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        killed = KilledClones(Path(scratch), int(seed))
        for _number in range(int(count)):
            killed.pass_one()
            print(killed.done[-1], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
