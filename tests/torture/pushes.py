"""Pushes of git that end early: all of one is in both worlds, or nothing.

The server is killed at an operation on its files or by a hook, git's processes on both
sides at any moment, and files or the disk are too small. Each round begins with the
same repository and pushes the same commits to two branches. What a client can fetch
meanwhile must not be taken back.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from testlib.environment import (
    ENVIRONMENT,
    add_config,
    executable,
    git,
    hg,
    publish_commits,
)
from testlib.interruption import PAGE_BYTES, SmallDisk, preloaded
from testlib.needs import missing
from testlib.webserver import serving, until

_HGRC = """
[extensions]
amalgam =
[amalgam]
git.serve = yes
git.push = yes
[web]
allow-push = *
push_ssl = no
"""
_MODULE = "-m hgext3rd.amalgam.serve.ssh server"
_HOOKS = (
    *("pretxnopen", "pretxnchangegroup", "prechangegroup", "pretxnclose"),
    *("pretxnclose-bookmark", "pretxnclose-phase", "txnclose", "changegroup"),
)
_OPTIONS = ("-c", "protocol.version=2")
_CHILDREN = ("receive-pack", "index-pack", "rev-list", "cat-file", "proc-receive")
_MOST_BLOCKS = 120

Variables = Mapping[str, str]
Running = subprocess.Popen[bytes]


class Case:
    """A repository that is pushed to, and a developer with commits to push."""

    def __init__(self, scratch: Path) -> None:
        self.home = scratch / "pushes"
        self.home.mkdir()
        self.root = self.home / "server"
        self.store = self.root / ".hg/amalgam/git/cinnabar.git"
        self.clone = self.home / "clone"
        self._pristine = self.home / "pristine"
        self._ssh = self.home / "ssh"
        self._make()
        log = ("rev-list", "--objects", "--no-object-names", "work", "^origin/default")
        self.objects = {*git(self.clone, *log).decode().split()}
        self.commits = git(self.clone, "rev-list", "work", "^origin/default")

    def _make(self) -> None:
        hg(self.home, "init", "server")
        publish_commits(self.root)
        add_config(self.root, _HGRC)
        for number in range(2):
            (self.root / "file").write_text(f"{number}\n")
            hg(self.root, "commit", "-qAm", f"{number}", "-d", f"{number} 0")
        hg(self.root, "git::export")
        git(self.home, "clone", "-q", str(self.store), "clone")
        for number in range(3):
            (self.clone / "dir").mkdir(exist_ok=True)
            (self.clone / "dir" / f"{number}").write_text(f"{number}\n" * 3000)
            git(self.clone, "add", ".")
            git(self.clone, "commit", "-qm", f"new {number}")
        git(self.clone, "branch", "-q", "work")
        self.root.rename(self._pristine)
        executable(
            self._ssh,
            "#!/bin/sh\n"
            'for last; do :; done\nSSH_ORIGINAL_COMMAND="$last"\n'
            "export SSH_ORIGINAL_COMMAND\n"
            f'cd "{self.home}"\neval "$BEFORE"\nexec "{sys.executable}" {_MODULE}\n',
        )

    def reset(self, hooks: str = "") -> None:
        """Begin again."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self._pristine, self.root, symlinks=True)
        add_config(self.root, hooks)

    def push(self, url: str = "host:server", **variables: str) -> Running:
        """Start a push of a commit to a branch and to a new bookmark."""
        command = ["git", "push", url, "work:default", "work:work"]
        return subprocess.Popen(
            command,
            cwd=self.clone,
            env=self._environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def _environment(self) -> dict[str, str]:
        return {**ENVIRONMENT, "GIT_SSH_COMMAND": str(self._ssh), "BEFORE": ""}

    def visit(self) -> bool:
        """Ask for a pushed commit by its id as a client would; tell whether it came."""
        target = self.home / "visitor.git"
        shutil.rmtree(target, ignore_errors=True)
        git(self.home, "init", "-q", "--bare", str(target))
        tip = self.commits.split()[0].decode()
        came = []
        for version in ("0", "2"):
            option = f"protocol.version={version}"
            done = subprocess.run(
                ["git", "-c", option, "fetch", "-q", "host:server", tip],
                cwd=target,
                env=self._environment,
                capture_output=True,
            )
            came.append(not done.returncode)
        return any(came) or bool(self.objects & self.there())

    def there(self) -> set[str]:
        """Return all objects of the store: protocol version 2 hands out each."""
        listing = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
        return {*git(self.store, *listing).decode().split()}

    def check(self, code: int, said: bytes) -> str:
        """Look at what is left of a push, and push again; return what became of it."""
        is_abandoned = (self.root / ".hg/store/journal").exists()
        was_seen = self.visit()
        if is_abandoned:
            try:
                hg(self.root, "recover", "-q")
            except AssertionError as exc:
                # the journal ends within a line: Mercurial was killed as it wrote that
                if "read_backup_files" in str(exc):
                    return "not recovered by Mercurial"
                raise
        undo = self.root / ".hg/store/undo.backupfiles"
        if undo.exists() and not undo.read_bytes().endswith(b"\n"):
            # Mercurial was killed as it wrote that; see docs/SHORTCOMINGS.rst
            undo.unlink()
        template = "{desc} {bookmarks}\n"
        log = hg(self.root, "log", "-r", "desc('re:^new')", "-T", template).decode()
        lines = log.splitlines()
        has_all = lines == ["new 0 ", "new 1 ", "new 2 work"]
        text = f"{code} {said.decode(errors='replace')}\n{log}"
        assert has_all or not lines, f"a part of it is there: {text}"
        assert has_all or code, f"told a success: {text}"
        assert has_all or not was_seen, f"it could be fetched: {text}"
        if not (self.root / ".hg/amalgam/git").exists():
            hg(self.root, "git::export")
        hg(self.root, "git::export")
        found = self.objects & self.there()
        assert found == (self.objects if has_all else set()), f"{found}: {text}"
        again = self.push()
        _out, err = again.communicate()
        assert not again.returncode, err.decode()
        hg(self.root, "verify", "-q")
        hg(self.root, "git::verify", "--full")
        left = [it.name for it in (self.root / ".hg/amalgam").glob("*scratch*")]
        assert not left, f"left {left}: {text}"
        refs = git(self.store, "for-each-ref", "--format=%(objectname)", "refs/heads")
        assert {*refs.split()} == {self.commits.split()[0]}
        left_over = ", abandoned" if is_abandoned else ""
        return ("stored" if has_all else "nothing") + left_over


def at_operations(case: Case, scratch: Path, count: int, seed: int) -> Counter[str]:
    """Kill the server before a random operation on a file of the repository."""
    draw = random.Random(seed)
    library = preloaded(Path(__file__).with_name("killat.c"), scratch)
    variables = {"LD_PRELOAD": str(library), "KILL_BELOW": str(case.root / ".hg")}
    total = scratch / "count"

    def before(kill_at: int) -> str:
        pairs = {**variables, "KILL_AT": str(kill_at), "KILL_COUNT": str(total)}
        return "export " + " ".join(f"{key}='{value}'" for key, value in pairs.items())

    case.reset()
    running = case.push(BEFORE=before(0))
    _out, err = running.communicate()
    assert not running.returncode, err.decode()
    operations = int(total.read_text())
    counts: Counter[str] = Counter()
    for round_ in range(count):
        kill_at = draw.randint(1, operations)
        case.reset()
        if round_ % 4:
            running = case.push(BEFORE=before(kill_at))
            _out, err = running.communicate()
        else:
            environment = {**ENVIRONMENT, **variables, "KILL_AT": str(kill_at)}
            with serving(case.root, environment=environment) as web:
                running = case.push(web.url)
                _out, err = running.communicate()
        with _named(f"seed {seed}, round {round_}, operation {kill_at}"):
            became = case.check(running.returncode, err)
        counts[f"{'ssh' if round_ % 4 else 'http'}: {became}"] += 1
    return counts


def by_hooks(case: Case) -> Counter[str]:
    """Let each hook of a push kill the server."""
    counts: Counter[str] = Counter()
    for hook in _HOOKS:
        case.reset(f"[hooks]\n{hook} = kill -9 $PPID\n")
        running = case.push()
        _out, err = running.communicate()
        hgrc = case.root / ".hg/hgrc"
        hgrc.write_text(re.sub(r"\[hooks\]\n.*", "", hgrc.read_text()))
        with _named(hook):
            counts[case.check(running.returncode, err)] += 1
    return counts


def of_processes(case: Case, count: int, seed: int) -> Counter[str]:
    """Kill one of git's processes, of the server's or of the client's."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    for round_ in range(count):
        wanted = draw.choice((*_CHILDREN, "send-pack", "git push"))
        case.reset()
        running = case.push()
        looks = draw.randint(0, 3)
        victim = None
        while running.poll() is None and victim is None:
            found = [pid for pid, line in _below(running.pid) if wanted in line]
            looks -= bool(found)
            if found and looks < 0:
                victim = found[-1]
        if victim is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        _out, err = running.communicate()
        until(lambda: not _sessions(case))
        with _named(f"seed {seed}, round {round_}, {wanted}"):
            became = case.check(running.returncode, err)
        counts[f"{wanted if victim else 'too late'}: {became}"] += 1
    return counts


def with_little_room(case: Case, count: int, seed: int) -> Counter[str]:
    """Let files, or the disk, be too small."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    case.reset()
    needed = _pages(case.root)
    running = case.push()
    _out, err = running.communicate()
    assert not running.returncode, err.decode()
    # what git and amalgam make for the push is removed in the end
    most = 5 * (_pages(case.root) - needed)
    for round_ in range(count):
        room = draw.randint(1, _MOST_BLOCKS)
        case.reset()
        if round_ % 2 or missing("mounts"):
            running = case.push(BEFORE=f"ulimit -f {room}")
            _out, err = running.communicate()
            with _named(f"seed {seed}, round {round_}, {room} blocks"):
                counts[f"files: {case.check(running.returncode, err)}"] += 1
            continue
        room = draw.randint(0, most)
        shutil.rmtree(case.root)
        with SmallDisk(case.root, needed + room) as disk:
            shutil.copytree(
                case.home / "pristine", case.root, symlinks=True, dirs_exist_ok=True
            )
            running = case.push()
            _out, err = running.communicate()
            disk.grow()
            with _named(f"seed {seed}, round {round_}, {room} pages"):
                counts[f"disk: {case.check(running.returncode, err)}"] += 1
        case.root.rmdir()
    assert not counts["disk: stored"] or counts["disk: nothing"], "no disk was full"
    return counts


def _pages(root: Path) -> int:
    """Return how many pages the files below ``root`` take."""
    files = [it.lstat().st_size for it in root.rglob("*") if not it.is_dir()]
    return sum(-(-size // PAGE_BYTES) for size in files)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except AssertionError as exc:
        raise AssertionError(f"{name}: {exc}") from None


def _processes() -> Iterator[tuple[int, int, str]]:
    """Yield number, parent and command line of all processes."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            yield int(path.name), parent, line


def _below(pid: int) -> list[tuple[int, str]]:
    """Return a process and those that it has started, by age."""
    every = sorted(_processes())
    family = {pid}
    for number, parent, _line in every:
        if parent in family:
            family.add(number)
    return [(number, line) for number, _parent, line in every if number in family]


def _sessions(case: Case) -> list[str]:
    """Return what still runs for pushes into the repository."""
    names = (str(case.root), _MODULE)
    return [
        line for _pid, _parent, line in _processes() if any(n in line for n in names)
    ]


def all_of(
    scratch: Path, count: int, seed: int
) -> Iterator[tuple[str, Callable[[], Counter[str]]]]:
    """Yield all parts, with ``count`` pushes."""
    case = Case(scratch)
    kinds = (count * 6 // 10, count * 2 // 10, count * 2 // 10)
    yield (
        "pushes killed at operations",
        lambda: at_operations(case, scratch, kinds[0], seed),
    )
    yield "pushes killed by hooks", lambda: by_hooks(case)
    yield "pushes without git", lambda: of_processes(case, kinds[1], seed)
    yield "pushes to full disks", lambda: with_little_room(case, kinds[2], seed)
