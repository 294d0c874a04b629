"""Three developers and a git host: two work with hg, one with git.

``developers.py SEED ROUNDS [HOST]`` runs rounds against a host of our own, or against
amalgam's server: ``http``, with a password, or ``ssh``. ``make hosts`` has others. In a
round, somebody commits, merges, rebases, amends, tags, makes or deletes a branch, often
without having pulled before, and pushes. No branch may lose the work of anybody, each
refusal must have a hint, and at the end all see the same.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from testlib import passwords
from testlib.environment import ENVIRONMENT
from testlib.gitclone import Clone
from testlib.githost import git_host
from testlib.sshaccount import Account
from testlib.webserver import serving

_MAIN = "main"
_MERGE = "merge"
_NAMES = ("one", "two", "rel/1")
_OPTIONS = (
    *("--config", "experimental.evolution=all", "--config", "extensions.rebase="),
    *("--config", "amalgam.git.push-tags=yes", "--config", "ui.merge=internal:fail"),
    *("--config", "ui.editor=true"),
)


class Developer:
    """Somebody with a clone; ``work`` is one thing and a push of it."""

    name: str

    def __init__(self, draw: random.Random, root: Path, env: dict[str, str]) -> None:
        self.name = root.name
        self.root = root
        self.said: list[str] = []
        self._draw = draw
        self._env = env
        self._count = 0

    def _subject(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}"

    def _run(self, *command: str) -> tuple[int, str]:
        done = subprocess.run(
            command,
            cwd=self.root if self.root.exists() else self.root.parent,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        words = " ".join(command[:1] + command[-4:])
        self.said.append(f"{self.name}: {words} -> {done.returncode}\n{done.stdout}")
        return done.returncode, done.stdout

    def work(self) -> None:
        """Do something on a branch, and push it."""
        if self._draw.random() < 0.7:
            self.pull()
        branch = self._draw.choice((_MAIN, _MAIN, *_NAMES))
        ways = ["commit", "commit", "commit", "merge", "tag"]
        if branch != _MAIN:
            ways += ["rebase", "rebase", "amend", "delete"]
        getattr(self, self._draw.choice(ways))(branch)

    def pull(self) -> None:
        """Get everything."""
        raise NotImplementedError


class GitDeveloper(Developer):
    """A user of git, who overwrites only commits that were fetched before."""

    def clone(self, url: str) -> None:
        """Make the first commit, too."""
        self._git("init", "-q", "-b", _MAIN, str(self.root))
        self._git("remote", "add", "origin", url)
        self.commit(_MAIN)

    def _git(self, *args: str) -> str:
        code, output = self._run("git", *args)
        assert code == 0, output
        return output

    def pull(self) -> None:
        """Fetch."""
        self._git("fetch", "-q", "--prune", "--tags", "--force", "origin")

    def _has(self, branch: str) -> bool:
        ref = f"refs/remotes/origin/{branch}"
        return self._run("git", "rev-parse", "-q", "--verify", ref)[0] == 0

    def _start(self, branch: str) -> None:
        start = f"origin/{branch}" if self._has(branch) else "origin/main"
        if self._has(_MAIN):
            self._git("checkout", "-q", "--no-track", "-B", "work", start)

    def _push(self, branch: str, *args: str) -> None:
        self._run("git", "push", "-q", *args, "origin", f"HEAD:refs/heads/{branch}")

    def _lease(self, branch: str) -> str:
        oid = self._git("rev-parse", f"origin/{branch}").strip()
        return f"--force-with-lease={branch}:{oid}"

    def commit(self, branch: str) -> None:
        """Commit a file."""
        self._start(branch)
        subject = self._subject()
        (self.root / subject).write_text(subject)
        self._git("add", subject)
        self._git("commit", "-q", "-m", subject)
        self._push(branch)

    def merge(self, branch: str) -> None:
        """Merge another branch."""
        self._start(branch)
        other = self._draw.choice((_MAIN, *_NAMES))
        if self._has(other):
            self._git("merge", "-q", "-m", _MERGE, f"origin/{other}")
            self._push(branch)

    def rebase(self, branch: str) -> None:
        """Rebase onto the main branch."""
        if self._has(branch):
            self._start(branch)
            if self._run("git", "rebase", "-q", "origin/main")[0]:
                self._git("rebase", "--abort")
            self._push(branch, self._lease(branch))

    def amend(self, branch: str) -> None:
        """Rewrite the last commit if it is one's own."""
        if self._has(branch):
            self._start(branch)
            if self._git("log", "-1", "--format=%s").startswith(self.name):
                (self.root / f"{self.name}-again").write_text(self._subject())
                self._git("add", ".")
                self._git("commit", "-q", "--amend", "--no-edit")
                self._push(branch, self._lease(branch))

    def tag(self, branch: str) -> None:
        """Push an annotated tag."""
        self._start(branch)
        name = f"v-{self._subject()}"
        self._git("tag", "-m", name, name)
        self._run("git", "push", "-q", "origin", name)

    def delete(self, branch: str) -> None:
        """Delete a branch that was seen."""
        if self._has(branch):
            ref = f":refs/heads/{branch}"
            self._run("git", "push", "-q", self._lease(branch), "origin", ref)


class HgDeveloper(Developer):
    """A user of hg, who never uses ``--force``."""

    options: tuple[str, ...] = ()

    def clone(self, url: str) -> None:
        """Clone with hg."""
        self._hg("clone", "-q", url, str(self.root))

    def _try(self, *args: str) -> tuple[int, str]:
        clone = Clone(self.root)
        code, output = clone.run(*args, *_OPTIONS, *self.options, **self._env)
        self.said.append(f"{self.name}: hg {' '.join(args)} -> {code}\n{output}")
        assert "Traceback" not in output, output
        return code, output

    def _hg(self, *args: str) -> str:
        code, output = self._try(*args)
        assert code == 0, output
        return output

    def pull(self) -> None:
        """Pull, and let diverged bookmarks have both sides."""
        self._hg("pull", "-q")
        names = self._hg("bookmarks", "-T", "{bookmark}\n").split()
        for name in names:
            if name.endswith("@default"):
                self._join(name.removesuffix("@default"), name)

    def _join(self, branch: str, theirs: str) -> None:
        """Merge or rebase one's own changesets of a branch."""
        self._hg("update", "-q", "-C", branch)
        way = self._draw.choice(("merge", "rebase"))
        if way == "rebase" and self._try("rebase", "-q", "-b", ".", "-d", theirs)[0]:
            self._try("rebase", "--abort")
            way = "merge"
        if way == "merge" and self._try("merge", "-q", theirs)[0] == 0:
            self._hg("commit", "-q", "-m", _MERGE)
        self._try("bookmark", "-q", "-d", theirs)  # a merge deletes it

    def _start(self, branch: str) -> bool:
        """Update to a branch, or make it; return whether it was there."""
        if self._try("update", "-q", "-C", "-r", f"bookmark('{branch}')")[0]:
            self._hg("update", "-q", "-C", _MAIN)
            self._hg("bookmark", "-q", branch)
            return False
        self._hg("update", "-q", "-C", branch)
        return True

    def _push(self, branch: str) -> None:
        code, output = self._try("push", "-B", branch)
        # somebody else has deleted the branch, too
        is_gone = "exists neither here nor there" in output
        assert code in (0, 1, 2) or is_gone, output
        lines = output.splitlines()
        for line, hint in zip(lines, [*lines[1:], ""], strict=True):
            assert "is not pushed" not in line or hint.startswith("("), output

    def commit(self, branch: str) -> None:
        """Commit a file."""
        self._start(branch)
        subject = self._subject()
        (self.root / subject).write_text(subject)
        self._hg("commit", "-q", "-A", "-m", subject)
        self._push(branch)

    def merge(self, branch: str) -> None:
        """Merge another branch."""
        other = self._draw.choice((_MAIN, *_NAMES))
        self._start(branch)
        if self._try("merge", "-q", other)[0] == 0:
            self._hg("commit", "-q", "-m", _MERGE)
            self._push(branch)

    def rebase(self, branch: str) -> None:
        """Rebase onto the main branch, if all is draft."""
        if self._start(branch):
            if self._try("rebase", "-q", "-b", ".", "-d", _MAIN)[0] not in (0, 1):
                self._try("rebase", "--abort")
            self._push(branch)

    def amend(self, branch: str) -> None:
        """Rewrite the last changeset if it is one's own."""
        self._start(branch)
        shown = self._hg("log", "-r", ".", "-T", "{desc} {phase}")
        if shown.startswith(self.name) and shown.endswith("draft"):
            (self.root / f"{self.name}-again").write_text(self._subject())
            code, _output = self._try("commit", "-q", "-A", "--amend")
            assert code in (0, 1)
            self._push(branch)

    def tag(self, branch: str) -> None:
        """Commit a tag, and push it."""
        self._start(branch)
        self._hg("tag", "-f", f"v-{self._subject()}")
        self._push(branch)

    def delete(self, branch: str) -> None:
        """Delete a branch."""
        if self._start(branch):
            self._hg("update", "-q", "-C", _MAIN)
            self._hg("bookmark", "-d", branch)
            self._push(branch)

    def shown(self) -> set[str]:
        """Return the names of the host with the ids of their commits."""
        form = "{gitbranches % '{gitbranch} {gitnode}\\n'}"
        form += "{gittags % 'tag {gittag} {gitnode}\\n'}"
        lines = self._hg("log", "-r", "all()", "-T", form, "--hidden").splitlines()
        return {line.removeprefix("default/") for line in lines}

    def nodes(self) -> dict[str, str]:
        """Return the changesets of commits."""
        shown = self._hg("log", "-T", "{gitnode} {node}\n", "-r", "all()", "--hidden")
        lines = [line.split(" ") for line in shown.splitlines()]
        return {oid: node for oid, node in lines if oid}


class Rounds:
    """A host, and its developers."""

    def __init__(
        self, scratch: Path, url: str, seed: int, env: dict[str, str] | None = None
    ) -> None:
        """``env`` lets git log in. With an odd seed, the dialect is that of hg-git."""
        draw, self._env = random.Random(seed), ENVIRONMENT | (env or {})
        self._draw = draw
        self._url = url
        self._git = GitDeveloper(draw, scratch / "carol", self._env)
        self._git.clone(url)
        self._hgs = [
            HgDeveloper(draw, scratch / it, self._env) for it in ("ann", "bob")
        ]
        self._has_nodes = bool(seed % 2)
        for it in self._hgs:
            if self._has_nodes:
                it.options = ("--config", "amalgam.git.dialect=hggit")
            it.clone(f"git+{url}")
        self._observer = Developer(draw, scratch / "observer", self._env)
        self._observer._run("git", "init", "-q", "--bare", str(scratch / "observer"))
        self._before = self._seen()

    def _seen(self) -> dict[str, tuple[str, set[str]]]:
        """Return the branches and tags of the host, with the subjects of branches."""
        run, refs = self._observer._run, ("refs/heads/*", "refs/tags/*")
        specs = [f"+{it}:{it}" for it in refs]
        code, output = run("git", "fetch", "-q", "--prune", self._url, *specs)
        assert code == 0, output
        listing = "--format=%(refname) %(objectname) %(*objectname)"
        lines = run("git", "for-each-ref", listing)[1].splitlines()
        found = {}
        for line in lines:
            ref, oid, *peeled = line.split()
            subjects = set()
            if ref.startswith("refs/heads/"):
                subjects = {*run("git", "log", "--format=%s", oid)[1].splitlines()}
            found[ref] = ([*peeled, oid][0], subjects - {_MERGE})
        return found

    def pass_one(self) -> None:
        """Let somebody work, and look for losses."""
        who = self._draw.choice((*self._hgs, *self._hgs, self._git))
        who.said.clear()
        who.work()
        now, said = self._seen(), "".join(who.said)
        for ref, (_oid, subjects) in self._before.items():
            if ref in now:
                lost = subjects - now[ref][1]
                assert not lost, f"{ref} has lost {lost}\n{said}"
        self._before = now

    def compare(self) -> None:
        """Let all pull, and compare what they see with the host."""
        expected = set()
        for ref, (oid, _subjects) in self._seen().items():
            name = ref.removeprefix("refs/heads/").replace("refs/tags/", "tag ")
            expected.add(f"{name} {oid}")
        for it in self._hgs:
            it.pull()
            assert it.shown() == expected, f"{it.shown() ^ expected}"
            assert "warning" not in it._hg("verify", "-q")
        first, second = (it.nodes() for it in self._hgs)
        both = first.keys() & second.keys()
        assert len(both) >= len(self._before[f"refs/heads/{_MAIN}"][1])
        # only commits of hg-git's dialect have the extras of amended changesets
        differ = {it for it in both if first[it] != second[it]}
        assert not (self._has_nodes and differ), differ


@contextlib.contextmanager
def _plain(scratch: Path) -> Iterator[tuple[str, dict[str, str]]]:
    with git_host(scratch / "host") as host:
        project = host.add("project.git")
        project.git("symbolic-ref", "HEAD", f"refs/heads/{_MAIN}")
        yield project.url, {}


def _repository(scratch: Path) -> Path:
    """Make a repository that takes pushes of git, rewritten drafts and tags, too."""
    root = scratch / "server" / "project"
    Clone(root).hg("init", str(root))
    (root / ".hg" / "hgrc").write_text(
        "[extensions]\namalgam =\n[experimental]\nevolution = all\n[phases]\n"
        "publish = no\n[web]\nallow-push = *\npush_ssl = no\n[amalgam]\n"
        "git.serve = yes\ngit.push = yes\ngit.push-tags = yes\n"
        "git.refs = bookmarks tags\n"
    )
    return root


@contextlib.contextmanager
def _http(scratch: Path) -> Iterator[tuple[str, dict[str, str]]]:
    (scratch / "server").mkdir()
    asking = f"extensions.passwords={passwords.__file__}"
    with serving(_repository(scratch), "--config", asking) as server:
        config, known = scratch / "gitconfig", scratch / "known"
        user = f"{passwords.USER}:{quote(passwords.PASSWORD)}"
        known.write_text(server.url.replace("://", f"://{user}@") + "\n")
        config.write_text(f"[credential]\n\thelper = store --file={known}\n")
        yield server.url, {"GIT_CONFIG_GLOBAL": str(config), "HOME": str(scratch)}


@contextlib.contextmanager
def _ssh(scratch: Path) -> Iterator[tuple[str, dict[str, str]]]:
    (scratch / "server").mkdir()
    root = _repository(scratch)
    account = Account(root.parent, root.name)
    yield f"ssh://host{root}", {"GIT_SSH_COMMAND": str(account.ssh)}


_HOSTS = {"plain": _plain, "http": _http, "ssh": _ssh}


def main(seed: str, rounds: str, host: str = "plain") -> None:
    """Run rounds."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        _HOSTS[host](Path(scratch)) as (url, env),
    ):
        made = Rounds(Path(scratch), url, int(seed), env)
        for number in range(int(rounds)):
            made.pass_one()
            sys.stdout.write(f"{number} ")
            sys.stdout.flush()
        made.compare()


if __name__ == "__main__":
    main(*sys.argv[1:])
