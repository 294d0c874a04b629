"""A Mercurial server that takes pushes from git, and developers who have only git."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hgext3rd.amalgam.serve import pktlines

from .environment import ENVIRONMENT, add_config, captured, git, hg, publish_commits
from .webserver import WebServer, serving

#: What lets everybody push.
ON = (
    "--config=extensions.amalgam=",
    "--config=amalgam.git.serve=yes",
    "--config=amalgam.git.push=yes",
    "--config=web.allow-push=*",
    "--config=web.push_ssl=no",
)
#: What a ref is that does not exist.
NOTHING = "0" * 40
Done = subprocess.CompletedProcess[bytes]


class Clone:
    """What a developer has."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._minute = 0

    def git(self, *args: str) -> str:
        """Run git here and return its stdout."""
        return git(self.root, *args).decode().strip()

    def run(self, *args: str, **variables: str) -> Done:
        """Run git here, whatever comes of it."""
        environment = {**ENVIRONMENT, **variables}
        command = ["git", *args]
        return subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True
        )

    def commit(self, message: str, files: Mapping[str, str] | None = None) -> str:
        """Commit files, by default one that has the name of the commit; its id."""
        for name, text in (files or {message: message}).items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            self.git("add", name)
        self._minute += 1
        date = f"2026-11-23T10:{self._minute:02}:00+0100"
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        done = self.run("commit", "-qm", message, **dates)
        assert not done.returncode, done.stderr
        return self.head()

    def head(self) -> str:
        """Return the id of what is checked out."""
        return self.git("rev-parse", "HEAD")

    def push(self, *args: str, **variables: str) -> Done:
        """Push, whatever comes of it."""
        # without a terminal, git asks servers to be quiet, too
        return self.run("push", "--progress", "origin", *args, **variables)

    def pushed(self, *args: str) -> str:
        """Push with success; return what the server and git said."""
        done = self.push(*args)
        assert not done.returncode, done.stderr.decode()
        return done.stderr.decode()

    def refused(self, *args: str, **variables: str) -> str:
        """Push and be refused; return what the server and git said."""
        done = self.push(*args, **variables)
        assert done.returncode == 1, done.stderr.decode()
        assert b"rejected" in done.stderr or b"remote: " in done.stderr, done.stderr
        return done.stderr.decode()


def request(
    clone: Clone,
    old: str,
    new: str,
    ref: str,
    options: Iterable[bytes] = (),
    features: str = "report-status",
) -> bytes:
    """Return what git sends to push a commit above ``old``, or to delete a ref."""
    revs = f"{new}\n".encode()
    if old != NOTHING:
        revs += f"^{old}\n".encode()
    pack = b""
    if new != NOTHING:
        command = ["git", "pack-objects", "--revs", "--stdout", "-q"]
        pack = captured(command, clone.root, input=revs, check=True).stdout
    features += " push-options" if options else ""
    head = pktlines.line(f"{old} {new} {ref}\0{features}".encode()) + pktlines.FLUSH
    if options:
        head += b"".join(map(pktlines.line, options)) + pktlines.FLUSH
    return head + pack


class PushServer:
    """A repository at ``root`` that is served."""

    def __init__(self, root: Path, web: WebServer) -> None:
        self.root = root
        self.web = web
        self.amalgam = root / ".hg" / "amalgam"
        self.store = self.amalgam / "git" / "cinnabar.git"

    def hg(self, *args: str) -> str:
        """Run hg here and return its stdout."""
        return hg(self.root, *args).decode()

    def clone(self, name: str = "clone") -> Clone:
        """Let a developer clone it."""
        git(self.root.parent, "clone", "-q", self.web.url, name)
        return Clone(self.root.parent / name)

    def existing(self, name: str) -> Clone:
        """Return a clone that was made before."""
        return Clone(self.root.parent / name)

    def log(self) -> list[str]:
        """Return branch, bookmarks, phase and summary of all changesets, by age."""
        template = "{branch}|{bookmarks}|{phase}|{desc|firstline}\n"
        return self.hg("log", "-r", "all()", "-T", template).splitlines()

    def node(self, oid: str) -> str:
        """Return the changeset of a commit."""
        return self.hg("log", "-r", f"gitnode({oid})", "-T", "{node}")

    def push_raw(
        self,
        clone: Clone,
        old: str,
        new: str,
        ref: str,
        options: Iterable[bytes] = (),
    ) -> bytes:
        """Push a commit whatever the ref is now; return what the server answers."""
        kind = "application/x-git-receive-pack-request"
        body = request(clone, old, new, ref, options)
        status, _headers, answer = self.web.ask(
            "git-receive-pack", "POST", body, Content_Type=kind
        )
        assert status == 200, answer
        return answer

    def leftovers(self) -> list[str]:
        """Return what pushes have left in ``.hg/amalgam``."""
        return [it.name for it in self.amalgam.glob("*scratch*")]

    def check(self) -> None:
        """Verify both sides, and that no push is under way or has left something."""
        self.hg("verify", "-q")
        self.hg("git::verify", "--full")
        assert not self.leftovers()
        assert not self.web.children()


@contextlib.contextmanager
def pushable(
    directory: Path,
    *options: str,
    hgrc: str = "",
    environment: Mapping[str, str] = ENVIRONMENT,
) -> Iterator[PushServer]:
    """Serve a repository with two changesets on ``default``, and ``options``."""
    root = directory / "server"
    hg(directory, "init", "server")
    publish_commits(root)
    add_config(root, hgrc)
    for number in range(2):
        (root / f"file{number}").write_text(f"text {number}\n")
        hg(root, "commit", "-qAm", f"number {number}", "-d", f"{number} 0")
    with serving(root, *ON, *options, environment=environment) as web:
        yield PushServer(root, web)
