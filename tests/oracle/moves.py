"""A repository that hg-git has cloned, worked in by turns with amalgam and hg-git.

Each round, somebody pushes to a remote with git; then the owner of the repository
pulls, commits, and pushes, with amalgam and hg-git in turn. Both keep hg-git's files:
no line of the map may go or change, and both name the same commits. In the end, a new
clone that hg-git makes has the same changesets.
"""

from __future__ import annotations

import random
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from testlib.environment import ENVIRONMENT, HG, git, hg
from testlib.randomcommits import write_object

from .sides import Ids

_DEFAULT = "default"
_USER = "--config=ui.username=Lab <lab@example.org>"
#: Stop an update of the working directory, as symbolic links to nothing do.
_ODD = re.compile(rb"\t(\.gitmodules|\.hg.*)$|^160000|^120000", re.M)
_TREES_SHOWN = 40


@dataclass(frozen=True)
class Shape:
    """What is drawn for a history: ``submodule`` moves in every second round."""

    remotes: tuple[str, ...] = (_DEFAULT,)
    is_in_tree: bool = False
    has_submodule: bool = False

    def __str__(self) -> str:
        words = [f"{len(self.remotes)} remotes"]
        words += ["in the working directory"] * self.is_in_tree
        words += ["a submodule"] * self.has_submodule
        return ", ".join(words)


THREE = (_DEFAULT, "second", "third")
SHAPES = (
    Shape(),
    Shape(is_in_tree=True),
    Shape(THREE),
    Shape(has_submodule=True),
    Shape(THREE, is_in_tree=True, has_submodule=True),
)


def grown(
    upstream: Path, parent: str | None, name: bytes, when: int, *more: bytes
) -> str:
    """Write a commit with a file more than its parent; return it.

    ``more`` are lines of ``git ls-tree``, in the place of others for their paths.
    """
    blob = write_object(upstream, "blob", name)
    listed = git(upstream, "ls-tree", parent).splitlines() if parent else []
    entries = {line.partition(b"\t")[2]: line for line in listed}
    for line in (b"100644 blob %s\t%s" % (blob.encode(), name), *more):
        entries[line.partition(b"\t")[2]] = line
    text = b"".join(b"%s\n" % line for line in entries.values())
    command = ["git", "mktree", "--missing"]
    made = subprocess.run(
        command, cwd=upstream, input=text, capture_output=True, check=True
    )
    who = b"G <g@h> %d +0200" % when
    above = b"parent %s\n" % parent.encode() if parent else b""
    content = b"tree %s\n%sauthor %s\ncommitter %s\n\n%s\n"
    content %= (made.stdout.strip(), above, who, who, name)
    return write_object(upstream, "commit", content)


class Moves:
    """The repository, its remotes, and the problems that were found."""

    def __init__(
        self, place: Path, source: Path, program: Path, shape: Shape, seed: int
    ) -> None:
        """Let ``source``, a bare repository, be the default remote."""
        self._draw = random.Random(seed)
        self._program = program
        self._shape = shape
        self.repository = place / "moved"
        self.problems: list[str] = []
        self._submodule = place / "submodule.git"
        git(place, "init", "-q", "--bare", "-b", "main", str(self._submodule))
        self._links = [grown(self._submodule, None, b"s", 7)]
        git(self._submodule, "update-ref", "refs/heads/main", self._links[0])
        self._remotes = {_DEFAULT: source}
        for name in shape.remotes[1:]:
            self._remotes[name] = place / f"{name}.git"
            git(place, "clone", "-q", "--mirror", str(source), str(self._remotes[name]))
        for name, path in self._remotes.items():
            first = grown(path, None, b"first of %s" % name.encode(), 7)
            git(path, "update-ref", f"refs/heads/work-{name}", first)
        self._branches = self._owned()

    def _owned(self) -> dict[str, list[str]]:
        """Return branches to work on: no two remotes share one."""
        found: dict[str, list[str]] = {name: [] for name in self._remotes}
        listing = git(self._remotes[_DEFAULT], "for-each-ref", "refs/heads/").decode()
        for number, line in enumerate(listing.splitlines()[:_TREES_SHOWN]):
            oid, _commit, ref = line.split()
            tree = git(self._remotes[_DEFAULT], "ls-tree", "-r", oid)
            if not _ODD.search(tree) and "work-" not in ref:
                owner = [*found][number % len(found)]
                found[owner].append(ref.removeprefix("refs/heads/"))
        for name, branches in found.items():
            branches.append(f"work-{name}")
        return found

    def clone(self) -> str:
        """Clone with hg-git; return its message if that fails."""
        in_tree = f"git.intree={self._shape.is_in_tree}"
        source = str(self._remotes[_DEFAULT])
        command = ("clone", "-qU", "--config", in_tree, source, str(self.repository))
        said = self._run(self._program, "hggit", self.repository.parent, *command)
        if said:
            return said
        with (self.repository / ".hg/hgrc").open("a") as file:
            paths = [f"{name} = {path}\n" for name, path in self._remotes.items()]
            file.write("[paths]\n" + "".join(paths))
            file.write(f"[git]\nintree = {self._shape.is_in_tree}\n")
            file.write("[subrepos]\ngit:allowed = yes\n")
        return ""

    @staticmethod
    def _run(program: Path, extension: str, cwd: Path, *args: str) -> str:
        command = [str(program), f"--config=extensions.{extension}=", _USER, *args]
        environment = {**ENVIRONMENT, "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True)
        text = (done.stdout + done.stderr).decode(errors="replace")
        return text or "it failed" if done.returncode else ""

    def ids(self) -> Ids:
        """Return the map: commit by changeset."""
        lines = (self.repository / ".hg/git-mapfile").read_text().splitlines()
        return {line[41:]: line[:40] for line in lines}

    def round(self, number: int) -> None:
        """Let one change come from a remote, and one go there."""
        known = self.ids()
        remote, oid, branch = self._others_push(number)
        name = f"mine {number}"
        others = [it for it in self._remotes if self._draw.random() < 0.3]
        steps: list[tuple[str, ...]]
        steps = [("pull", "-q", it) for it in (remote, *others)]
        steps += [
            ("update", "-qC", branch),
            ("commit", "-qAm", f"round {number}", "-d", f"{number} 0", name),
        ]
        # Mercurial leaves files of a submodule removed, and refuses to amend then
        if self._draw.random() < 0.3 and not self._shape.has_submodule:
            steps += [("gexport",), ("commit", "--amend", "-qm", f"again {number}")]
        if self._draw.random() < 0.3:
            steps += [("tag", "-q", "-d", f"{number} 0", f"hg-{number}")]
        steps += [("push", "-q", "-B", branch, remote)]
        sides = ((HG, "amalgam"), (self._program, "hggit"))
        program, extension = sides[number % 2]
        (self.repository / name).write_text(f"{number}\n")
        for step in steps:
            said = self._run(program, extension, self.repository, *step)
            if said:
                self._tell(number, f"{extension}: {' '.join(step)}: {said}")
        now = self.ids()
        for node, before in known.items():
            if now.get(node) != before:
                self._tell(number, f"{node} was {before}, is {now.get(node)}")
        if oid not in now.values():
            self._tell(number, f"{oid} was not pulled")
        tip = hg(self.repository, "log", "-r", ".", "-T", "{node}").decode()
        there = git(self._remotes[remote], "rev-parse", f"refs/heads/{branch}")
        if now.get(tip) != there.decode().strip():
            self._tell(number, f"{branch} of {remote} is {there!r}, not {now.get(tip)}")

    def _others_push(self, number: int) -> tuple[str, str, str]:
        """Grow a branch of a remote; return the remote, the commit and the branch."""
        remote = self._draw.choice([*self._remotes])
        branch = self._draw.choice(self._branches[remote])
        path, ref = self._remotes[remote], f"refs/heads/{branch}"
        old = git(path, "rev-parse", ref).decode().strip()
        more: list[bytes] = []
        if self._shape.has_submodule and self._draw.random() < 0.5:
            link = grown(self._submodule, self._links[-1], b"s", number)
            git(self._submodule, "update-ref", "refs/heads/main", link)
            self._links.append(link)
            text = b'[submodule "sub"]\n\tpath = sub\n\turl = %s\n'
            text %= bytes(self._submodule)
            blob = write_object(path, "blob", text).encode()
            more = [b"160000 commit %s\tsub" % link.encode()]
            more.append(b"100644 blob %s\t.gitmodules" % blob)
        oid = grown(path, old, b"round %d" % number, number, *more)
        git(path, "update-ref", ref, oid)
        if self._draw.random() < 0.3:
            text = b"object %s\ntype commit\ntag t%d\ntagger G <g@h> 7 +0000\n\nt\n"
            tag = write_object(path, "tag", text % (oid.encode(), number))
            git(path, "update-ref", f"refs/tags/t{number}", tag)
        return remote, oid, branch

    def _tell(self, number: int, problem: str) -> None:
        self.problems.append(f"round {number}: {problem}")

    def compare(self) -> None:
        """Compare the map with the ids that amalgam has, and with a new clone."""
        log = hg(self.repository, "log", "-r", "all()", "-T", "{node} {gitnode}\n")
        ours = dict(line.split(" ") for line in log.decode().splitlines())
        known = self.ids()
        self._compare("amalgam's", ours, {it: known.get(it, "") for it in ours})
        said = self._run(self._program, "hggit", self.repository, "gverify")
        if said:
            self.problems.append(f"gverify: {said}")
        fresh = Moves.__new__(Moves)
        fresh.__dict__.update(self.__dict__)
        fresh.repository = self.repository.with_name("fresh")
        said = fresh.clone()
        if said:
            self.problems.append(f"clone: {said}")
            return
        self._compare("a new clone's", fresh.ids(), known)

    def _compare(self, whose: str, some: Ids, known: Ids) -> None:
        for node, oid in some.items():
            if known.get(node) != oid:
                self.problems.append(f"{node}: {whose} is {oid}, not {known.get(node)}")
