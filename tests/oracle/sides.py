"""The two sides: what amalgam and what git-cinnabar make of one Mercurial repository.

Knows how each is run and asked; what the answers mean is ``comparison``'s.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from testlib.environment import ENVIRONMENT, HG, git, hg

from .metadata import REF, Metadata, read

#: Ids, changeset to commit, both in hex; ``NONE`` if a side has none.
Ids = dict[str, str]
NONE = "0" * 40
#: What a clone has to convert: all but secret and hidden changesets.
SERVED = "all() - secret()"

STORE = Path(".hg/amalgam/git/cinnabar.git")

# git has something to say of objects that git-cinnabar makes like that, too
_ACCEPTED = (
    *("badTimezone", "badDateOverflow", "duplicateEntries"),
    *("gitmodulesSymlink", "gitmodulesParse"),
    *("gitmodulesBlob", "gitmodulesName", "gitmodulesPath", "gitmodulesUrl"),
    *("gitmodulesUpdate", "gitattributesSymlink", "gitignoreSymlink"),
)

# how far it is, once a second
_PROGRESS = re.compile(r"\s*(Checking \d+ .*)?$")


class SideError(Exception):
    """One of the sides gave no answer; the text is what it said."""


@dataclass(frozen=True)
class Answer:
    """What a side made, and how long that took."""

    ids: Ids
    metadata: Metadata | None
    store: Path
    """The git repository."""
    seconds: float
    how: str


class Ours:
    """The exports of amalgam, in the repository itself."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository

    def at_once(self) -> Answer:
        """Forget what was exported, and export everything."""
        started = time.perf_counter()
        self._hg("git::export", "--rebuild")
        seconds = time.perf_counter() - started
        return self._answer(seconds, "exported at once")

    def in_two(self, percent: int) -> Answer:
        """Export so much of the changelog first, then the rest."""
        started = time.perf_counter()
        shutil.rmtree(self._repository / ".hg" / "amalgam", ignore_errors=True)
        count = len(self._hg("log", "-r", "all()", "-T", "x"))
        first = f"first(all(), {count * percent // 100})"
        self._hg("git::export", "-r", first)
        self._hg("git::export", "--metadata")
        seconds = time.perf_counter() - started
        return self._answer(seconds, f"exported {percent} % first")

    def in_pulls(self, origin: Path, times: int, *, publishing: bool) -> Answer:
        """Make the repository by pulls of random changesets, and export after each.

        The last one pulls all. What is pulled from a repository that is not
        ``publishing`` stays draft.
        """
        started = time.perf_counter()
        hg(origin.parent, "init", str(self._repository))
        count = len(hg(origin, "log", "-r", "all()", "-T", "x"))
        some = random.Random(count).sample(range(count), times - 1)
        config = ("--config", f"phases.publish={publishing}")
        for revs in (*(["-r", str(rev)] for rev in sorted(some)), []):
            self._hg("pull", "-q", *config, *revs, str(origin))
            self._hg("git::export")
        self._hg("git::export", "--metadata")
        seconds = time.perf_counter() - started
        kind = "public" if publishing else "draft"
        return self._answer(seconds, f"exported in {times} pulls, {kind}")

    def fsck(self) -> str:
        """What git finds wrong with the store, but for what cannot be otherwise."""
        command = ["git"]
        for name in _ACCEPTED:
            command += ["-c", f"fsck.{name}=ignore"]
        command += ["fsck", "--full", "--no-dangling"]
        done = subprocess.run(
            command, cwd=self._repository / STORE, env=ENVIRONMENT, capture_output=True
        )
        return _text(done.stdout + done.stderr) if done.returncode else ""

    def object(self, oid: str) -> bytes:
        """The content of a git object."""
        return git(self._repository / STORE, "cat-file", "-p", oid)

    def refs(self, shown: str = "%(refname)") -> bytes:
        """The names of all refs, or what else git is to show of them."""
        return git(self._repository / STORE, "for-each-ref", f"--format={shown}")

    def served(self) -> list[str]:
        """The changesets that have to be exported, in order."""
        return self._hg("log", "-r", SERVED, "-T", "{node}\n").decode().split()

    def _answer(self, seconds: float, how: str) -> Answer:
        store = self._repository / STORE
        return Answer(self._ids(), read(store), store, seconds, how)

    def _ids(self) -> Ids:
        """Ids of all changesets that have one, hidden and secret ones included."""
        template = "{node} {gitnode}\n"
        log = self._hg("log", "--hidden", "-r", "all()", "-T", template).decode()
        ids = {}
        for line in log.splitlines():
            node, gap, oid = line.partition(" ")
            if not gap or not re.fullmatch("[0-9a-f]{40}", node) or " " in oid:
                raise SideError(f"hg log shows {line!r} in {self._repository}")
            if oid:
                ids[node] = oid
        return ids

    def _hg(self, *arguments: str) -> bytes:
        try:
            return hg(self._repository, *arguments)
        except AssertionError as err:
            raise SideError(str(err)) from None


class Theirs:
    """The clones of git-cinnabar, in a directory of their own."""

    def __init__(self, program: Path, scratch: Path) -> None:
        self._scratch = scratch
        # it runs `hg serve`, and git runs it as git-remote-hg
        path = [str(program.parent), str(HG.parent), ENVIRONMENT["PATH"]]
        self._environment = ENVIRONMENT | {
            "PATH": ":".join(path),
            "GIT_CINNABAR_CHECK": "no-version-check",
        }

    def clone(self, repository: Path, nodes: list[str]) -> Answer:
        """Clone, as its users do, and ask for the ids of ``nodes``."""
        started = time.perf_counter()
        target = self._fresh("clone.git")
        self._run("git", "clone", "-q", "--bare", f"hg::{repository}", str(target))
        seconds = time.perf_counter() - started
        return self._answer(target, nodes, seconds, "git clone")

    def fetch(self, repository: Path, heads: list[str], nodes: list[str]) -> Answer:
        """Fetch all heads by their nodes: a clone has no ref for some of them."""
        started = time.perf_counter()
        target = self._fresh("fetch.git")
        self._run("git", "init", "-q", "--bare", str(target))
        fetch = ("git", "cinnabar", "fetch", f"hg::{repository}", *heads)
        self._run(*fetch, cwd=target)
        seconds = time.perf_counter() - started
        return self._answer(target, nodes, seconds, "git cinnabar fetch")

    def check(self, store: Path) -> str:
        """What git-cinnabar finds wrong with a repository that has its metadata."""
        done = subprocess.run(
            ["git", "cinnabar", "fsck", "--full"],
            cwd=store,
            env=self._environment,
            capture_output=True,
        )
        said = _text(done.stdout + done.stderr).splitlines()
        lines = sorted(line for line in said if not _PROGRESS.match(line))
        return "\n".join((f"exit {done.returncode}", *lines))

    def take(self, store: Path) -> Path:
        """Fetch the metadata of ``store``, and no more, with plain git."""
        target = self._fresh("taken.git")
        self._run("git", "init", "-q", "--bare", str(target))
        pack = "git -c transfer.hideRefs=!refs/cinnabar upload-pack"
        fetch = ("git", "fetch", "-q", f"--upload-pack={pack}")
        self._run(*fetch, str(store), f"{REF}:{REF}", cwd=target)
        return target

    def version(self) -> str:
        """The name and version of the program."""
        return self._run("git", "cinnabar", "--version").splitlines()[0]

    def _answer(
        self, target: Path, nodes: list[str], seconds: float, how: str
    ) -> Answer:
        return Answer(self._ids(target, nodes), read(target), target, seconds, how)

    def _ids(self, target: Path, nodes: list[str]) -> Ids:
        if not nodes:
            return {}
        asked = ("git", "cinnabar", "hg2git", "--batch")
        answers = self._run(*asked, cwd=target, stdin="\n".join(nodes) + "\n").split()
        pairs = zip(nodes, answers, strict=True)
        return {node: oid for node, oid in pairs if oid != NONE}

    def _fresh(self, name: str) -> Path:
        target = self._scratch / name
        shutil.rmtree(target, ignore_errors=True)
        return target

    def _run(self, *command: str, cwd: Path | None = None, stdin: str = "") -> str:
        done = subprocess.run(
            command,
            cwd=cwd or self._scratch,
            env=self._environment,
            input=stdin.encode(),
            capture_output=True,
        )
        if done.returncode:
            raise SideError(_text(done.stderr) or f"exit {done.returncode}")
        return done.stdout.decode()


def _text(output: bytes) -> str:
    return output.decode(errors="replace").strip()
