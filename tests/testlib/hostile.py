"""A repository with hostile files below ``.hg/amalgam``, its visitors and victims.

A scene is made once for each visitor, with stock Mercurial's answers. Each case copies
it, spoils one thing, and runs commands: they may harm nothing outside, must end, and
where the command is Mercurial's, must answer as stock Mercurial does. What may be
spoilt and how is in ``spoiling``.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import random
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .forkserver import Ending, ForkServer
from .spoiling import Spoiling, spoilings
from .users import User
from .visiting import GROUP, MEMBER, ONESELF, OWNER, Command, Visitor, commands

_TESTLIB = Path(__file__).parent
#: In how many orders Mercurial's own commands are run.
ORDERS = 6
_BOTH = """\
[extensions]
clonebundles =
strip =
[ui]
detailed-exit-code = yes
allowemptycommit = yes
timeout = 3
clonebundlefallback = yes
username = test
[web]
name = served
[clone-bundles]
auto-generate.formats = gzip-v2
"""
_AMALGAM = """\
[extensions]
amalgam =
[experimental]
mmapindexthreshold = 0
[clone-bundles]
git.formats = git-v2, cinnabar-v1
"""
_SPLIT = f"""\
[extensions]
indexmaps = {_TESTLIB / "indexmaps.py"}
[indexmaps]
split = yes
"""
#: hgweb says so of a client that does not read to the end.
_LEFT = re.compile(rb"(?s)-{40}\nException occurred.*?ConnectionResetError.*?-{40}\n")
_CRASH = re.compile(rb"Traceback \(most|\*\* [Uu]nknown exception|panicked at|SIGBUS")
#: What amalgam adds to hgweb's capabilities.
_ADDED = re.compile(rb" (clonebundles|cinnabarclone)\S*")


class Servers(NamedTuple):
    """Two processes: what amalgam is imported in, and what it is not."""

    amalgam: ForkServer
    stock: ForkServer

    @classmethod
    def start(cls) -> Servers:
        """Start both."""
        return cls(ForkServer(imports=("hgext3rd.amalgam",)), ForkServer())

    def close(self) -> None:
        """End both."""
        self.amalgam.close()
        self.stock.close()


@dataclasses.dataclass(frozen=True)
class Shell:
    """A user with a configuration."""

    server: ForkServer
    user: User | None
    config: Path

    def run(self, cwd: Path, *args: str, job: str = "hg") -> Ending:
        """Run a command."""
        environment = {"HGRCPATH": str(self.config)}
        return self.server.run(
            cwd, *args, job=job, user=self.user, environment=environment
        )

    def start(self, command: Command, place: Path) -> Ending:
        """Run a command in a copy of the template."""
        return self.run(place / command.where, *command.args, job=command.job)


class Scene:
    """A repository, a visitor's clone, and what stock Mercurial says of them."""

    def __init__(self, scratch: Path, visitor: Visitor, servers: Servers) -> None:
        self.visitor = visitor
        self.place = scratch / visitor.name.replace(" ", "-")
        self.place.mkdir(parents=True)
        self.place.chmod(0o755)
        self.template = self.place / "template"
        self._servers = servers
        self.amalgam = self._shell("amalgam", _BOTH + _AMALGAM, visitor.user)
        self._stock = self._shell("stock", _BOTH, visitor.user)
        self.names = self._make()
        self.commands = commands(self.names)
        self.spoilings = spoilings(self.template / "repo/.hg/amalgam")
        self._answers: dict[tuple[str, ...], tuple[int | None, bytes]] = {}

    def _shell(self, name: str, config: str, user: User | None) -> Shell:
        file = self.place / f"{name}.hgrc"
        if self.visitor.trusts:
            config += "[trusted]\nusers = *\n"
        file.write_text(config)
        is_stock = name == "stock"
        server = self._servers.stock if is_stock else self._servers.amalgam
        return Shell(server, user, file)

    def _make(self) -> dict[str, str]:
        """Make the template: public and draft changesets, exported but for the last."""
        owner = None if self.visitor is ONESELF else OWNER
        for name, user in (("repo", owner), ("mine", self.visitor.user)):
            (self.template / name).mkdir(parents=True)
            if user:
                os.chown(self.template / name, user.uid, user.gid)
        maker = self._shell("maker", _BOTH + _AMALGAM + _SPLIT, owner)
        repo = self.template / "repo"

        def hg(*args: str) -> str:
            done = maker.run(repo, *args)
            assert done.code == 0, (args, done)
            return done.out.decode()

        hg("init", ".")
        for number in range(6):
            if number == 3:
                hg("branch", "-q", "other")
            hg("commit", "-qm", f"change {number}", "-d", f"{number} 0")
            if number == 3:
                hg("phase", "-p", "tip")
                hg("tag", "-l", "some")
                hg("bookmark", "-r", "1", "book")
        hg("git::export")
        hg("admin::clone-bundles-refresh")
        names = {"node": hg("log", "-r", "2", "-T", "{node}")}
        names["oid"] = hg("log", "-r", "2", "-T", "{gitnode}")
        hg("commit", "-qm", "not exported", "-d", "7 0")
        hg("log", "-r", "f" * 12 + " or 0")
        bundles = repo / ".hg/amalgam/bundles"
        (names["bundle"], *_more) = sorted(p.name for p in bundles.glob("*.bundle"))
        if owner:
            for path in [repo, *repo.rglob("*")]:
                os.chown(path, -1, GROUP, follow_symlinks=False)
        subprocess.run(["chmod", "-R", self.visitor.mode, repo], check=True)
        for path in [repo, *repo.rglob("*")]:
            if path.is_dir() and self.visitor.user == MEMBER:
                path.chmod(path.stat().st_mode | stat.S_ISGID)
        mine = self.template / "mine"
        for args in (("init", "."), ("pull", "-q", "-r", "2", "../repo"), ("up", "-q")):
            done = self._stock.run(mine, *args)
            assert done.code == 0, (args, done)
        done = self._stock.run(mine, "commit", "-m", "mine", "-d", "8 0")
        assert done.code == 0, done
        return names

    def copy(self, name: str) -> Path:
        """Return a copy of the template."""
        target = self.place / name
        subprocess.run(["cp", "-a", self.template, target], check=True)
        return target

    def answer(
        self, command: Command, ending: Ending, place: Path
    ) -> tuple[int | None, bytes]:
        """Return what has to be as with stock Mercurial."""
        out = ending.out
        if command.job == "web":
            # the length follows what amalgam adds
            out = re.sub(rb"(\?cmd=capabilities .*? application/\S+) \d+", rb"\1", out)
            out = _ADDED.sub(b"", out)
        if command.name == "clone by HTTP" and ending.code == 0:
            # a clone that begins with a bundle may have another order
            clone = place / "mine/http"
            log = self._stock.run(clone, "log", "-T", "{node} {phase}\n")
            out = b"\n".join(sorted(log.out.splitlines()))
        return ending.code, out.replace(os.fsencode(place), b"PLACE")

    def stock_answers(self, done: list[Command]) -> tuple[int | None, bytes]:
        """Return what stock Mercurial says to the last of some commands."""
        key = tuple(command.name for command in done)
        if key not in self._answers:
            place = self.copy("stock")
            try:
                for count, command in enumerate(done, 1):
                    ending = self._stock.start(command, place)
                    said = self.answer(command, ending, place)
                    self._answers[key[:count]] = said
            finally:
                shutil.rmtree(place)
        return self._answers[key]


@dataclasses.dataclass(frozen=True)
class Problem:
    """What went wrong, and with what."""

    kind: str
    visitor: str
    spoiling: str
    command: str
    detail: str

    def __str__(self) -> str:
        where = f"{self.visitor}, {self.spoiling}: {self.command}"
        return f"{self.kind}: {where}\n{self.detail}"


class Case:
    """One copy of a scene in which one thing is spoilt."""

    def __init__(self, scene: Scene, spoiling: Spoiling, seed: str) -> None:
        self.scene = scene
        self.spoiling = spoiling
        self.seed = seed
        self.place = scene.copy("case")
        self.victims = self.place / "victims"
        self.ran = 0
        shutil.copytree(self.place / "repo/.hg/amalgam", self.victims / "twin")
        (self.victims / "file").write_text("precious\n")
        (self.victims / "directory").mkdir()
        (self.victims / "directory" / "file").write_text("precious, too\n")
        if os.geteuid() == 0:
            for path in [self.victims, *self.victims.rglob("*")]:
                os.chown(path, scene.visitor.uid, scene.visitor.uid)
        spoiling.apply(self.place, random.Random(seed))

    def problems(self, limit: int | None = None) -> Iterator[Problem]:
        """Run commands in an order that the seed gives; yield what goes wrong."""
        order = self._order()
        victims = snapshot(self.victims)
        amalgam = snapshot(self.place / "repo/.hg/amalgam")
        stock: list[Command] = []
        for command in order[:limit]:
            if command.name == "pages while truncated" and self.scene.visitor.may_use:
                continue  # those who are trusted may end a server (docs/security.rst)
            ending = self.scene.amalgam.start(command, self.place)
            self.ran += 1
            said = (ending.out[-1500:] + ending.err[-3000:]).decode(errors="replace")
            problem = functools.partial(self._problem, command)
            after = snapshot(self.victims)
            if after != victims:
                yield problem("victim changed", difference(victims, after))
                victims = after
            if not self.scene.visitor.may_use:
                after = snapshot(self.place / "repo/.hg/amalgam")
                truncated = command.name == "pages while truncated"
                if after != amalgam and not truncated:
                    yield problem("stranger's file written", difference(amalgam, after))
                amalgam = after
            if ending.code is None:
                yield problem("hang", said)
            elif ending.code < 0:
                yield problem("signal", f"{ending.code} {said}")
            elif _CRASH.search(_LEFT.sub(b"", ending.err) + ending.out):
                yield problem("traceback", said)
            if command.stock:
                stock.append(command)
                expected = self.scene.stock_answers(stock)
                found = self.scene.answer(command, ending, self.place)
                if ending.code is not None and found != expected:
                    detail = f"stock: {expected}\nfound: {found}\n{said}"
                    yield problem("not stock's answer", detail)

    def _problem(self, command: Command, kind: str, detail: str) -> Problem:
        visitor, spoiling = self.scene.visitor.name, str(self.spoiling)
        return Problem(kind, visitor, spoiling, command.name, detail)

    def _order(self) -> list[Command]:
        draw = random.Random(self.seed)
        stock = [command for command in self.scene.commands if command.stock]
        ours = [command for command in self.scene.commands if not command.stock]
        # few orders of these, as stock Mercurial's answers depend on the order
        random.Random(draw.randrange(ORDERS)).shuffle(stock)
        draw.shuffle(ours)
        is_stock = [True] * len(stock) + [False] * len(ours)
        draw.shuffle(is_stock)
        return [(stock if turn else ours).pop() for turn in is_stock]

    def close(self) -> None:
        """Remove the copy."""
        subprocess.run(["chmod", "-R", "u+rwX", self.place], check=False)
        shutil.rmtree(self.place)


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    """Return all that can be seen of files and directories, times of access apart."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [root, *root.rglob("*")]:
        try:
            stated = path.lstat()
        except FileNotFoundError:  # what is spoilt is missing
            continue
        content: object = None
        if stat.S_ISREG(stated.st_mode) and stated.st_size < 1 << 24:
            content = hashlib.sha1(path.read_bytes()).hexdigest()
        elif stat.S_ISLNK(stated.st_mode):
            content = os.readlink(path)
        mode = stat.filemode(stated.st_mode)
        owner = (stated.st_uid, stated.st_gid)
        found[str(path.relative_to(root))] = (
            mode,
            owner,
            stated.st_size,
            stated.st_mtime_ns,
            content,
        )
    return found


def difference(
    before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]
) -> str:
    """Return the first lines in which two snapshots differ."""
    names = [
        name
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    lines = [f"{name}: {before.get(name)} -> {after.get(name)}" for name in names[:6]]
    return "\n".join([*lines, f"{len(names)} in all"])
