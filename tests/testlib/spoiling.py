"""What can be wrong with a file or directory below ``.hg/amalgam``, as data.

``spoilings`` has each state of each file and directory, and what an attacker may have
put there in addition. Where links lead is in ``victims``, beside the repository.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from hgext3rd.amalgam import docketfile

OTHER = 20009
GIT = "git/cinnabar.git"


@dataclasses.dataclass(frozen=True)
class Target:
    """A path below ``.hg/amalgam``, and the victims."""

    path: Path
    victims: Path
    twin: Path
    """A copy of what is there, among the victims."""

    def clear(self) -> None:
        """Remove what is there."""
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class Spoiling:
    """One thing that is wrong."""

    state: str
    name: str
    """Of the file or directory, below ``.hg/amalgam``; a pattern where ids vary."""

    def __str__(self) -> str:
        return f"{self.name or '.hg/amalgam'} is {self.state}"

    def apply(self, place: Path, draw: random.Random) -> None:
        """Spoil it in the repository at ``place``."""
        amalgam, victims = place / "repo/.hg/amalgam", place / "victims"
        paths = sorted(amalgam.glob(self.name)) if self.name else [amalgam]
        for path in paths or [amalgam / self.name]:
            twin = victims / "twin" / path.relative_to(amalgam)
            target = Target(path, victims, twin)
            # not every state is one of directories, nor every name to be had here
            with contextlib.suppress(
                FileNotFoundError, NotADirectoryError, IsADirectoryError
            ):
                _STATES[self.state](target, draw)


def _as_it_is(_target: Target, _draw: random.Random) -> None:
    pass


def _missing(target: Target, _draw: random.Random) -> None:
    target.clear()


def _file(target: Target, content: bytes) -> None:
    """Exchange the content, and keep owner and mode."""
    target.path.chmod(target.path.stat().st_mode | 0o200)
    target.path.write_bytes(content)


def _empty(target: Target, _draw: random.Random) -> None:
    _file(target, b"")


def _cut(target: Target, draw: random.Random) -> None:
    content = target.path.read_bytes()
    _file(target, content[: draw.randrange(len(content) + 1)])


def _longer(target: Target, draw: random.Random) -> None:
    _file(target, target.path.read_bytes() + draw.randbytes(draw.randrange(1, 200)))


def _flipped(target: Target, draw: random.Random) -> None:
    content = bytearray(target.path.read_bytes() or b"?")
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    _file(target, bytes(content))


def _random(target: Target, draw: random.Random) -> None:
    _file(target, draw.randbytes(len(target.path.read_bytes())))


def _escapes(target: Target, _draw: random.Random) -> None:
    _file(target, b"\x1b]0;title\x07\x1b[2J\n" + target.path.read_bytes())


def _leaving(target: Target, draw: random.Random) -> None:
    """Let names in a file lead out of its directory."""
    names = [b"../../../../victims/file", bytes(target.victims / "file"), b"..", b""]
    content = target.path.read_bytes()
    title = content.partition(b"\n")[0]
    try:
        docket = docketfile.parsed(content, title)
    except ValueError:
        lines = content.split(b"\n")
        lines[draw.randrange(len(lines))] = draw.choice(names)
        _file(target, b"\n".join(lines))
        return
    odd = [*names, b"a\0b", b"-1", b"%d" % (1 << 70), b"0.5", b"yes", b"{}", b"\xff"]
    for at in draw.sample(range(len(docket)), min(2, len(docket))):
        docket[at] = docket[at][0], draw.choice(odd)
    _file(target, docketfile.formatted(title, docket))


def _link(place: str) -> Callable[[Target, random.Random], None]:
    def link(target: Target, _draw: random.Random) -> None:
        target.clear()
        target.path.symlink_to(target.victims / place)

    return link


def _link_to_twin(target: Target, _draw: random.Random) -> None:
    target.clear()
    target.path.symlink_to(target.twin)


def _link_to_itself(target: Target, _draw: random.Random) -> None:
    target.clear()
    target.path.symlink_to(target.path.name)


def _second_name(target: Target, _draw: random.Random) -> None:
    """Let the file, or each below the directory, be one of the victims, too."""
    paths = [target.path]
    if target.path.is_dir():
        paths = [path for path in target.path.rglob("*") if path.is_file()]
    for path in paths:
        twin = target.twin / path.relative_to(target.path)
        twin.unlink()
        os.link(path, twin)


def _fifo(target: Target, _draw: random.Random) -> None:
    target.clear()
    os.mkfifo(target.path, 0o666)


def _socket(target: Target, _draw: random.Random) -> None:
    target.clear()
    here = os.open(target.path.parent, os.O_RDONLY)
    before = os.getcwd()
    try:  # a path in full would be too long
        os.fchdir(here)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(target.path.name)
    finally:
        os.chdir(before)
        os.close(here)


def _directory(target: Target, _draw: random.Random) -> None:
    target.clear()
    target.path.mkdir()
    (target.path / "file").write_text("in the way\n")
    target.path.chmod(0o777)


def _plain_file(target: Target, _draw: random.Random) -> None:
    target.clear()
    target.path.write_text("in the way\n")
    target.path.chmod(0o666)


def _sparse(target: Target, _draw: random.Random) -> None:
    target.path.touch()
    os.truncate(target.path, 1 << 30)


def _of_another(target: Target, _draw: random.Random) -> None:
    if os.geteuid() == 0:
        os.chown(target.path, OTHER, OTHER)


def _mode(mode: int) -> Callable[[Target, random.Random], None]:
    def change(target: Target, _draw: random.Random) -> None:
        target.path.chmod(mode)

    return change


def _program(target: Target, _draw: random.Random) -> None:
    """Put a program there that leaves a trace among the victims."""
    target.path.parent.mkdir(exist_ok=True)
    target.path.write_text(f"#!/bin/sh\ntouch {target.victims}/ran\n")
    target.path.chmod(0o777)


def _git_config(target: Target, _draw: random.Random) -> None:
    """Let git run programs, and write to other places."""
    run = f"touch {target.victims}/ran"
    with target.path.open("a") as file:
        file.write(
            f"[core]\n\tfsmonitor = {run}\n\thooksPath = {target.victims}\n"
            f"\tpager = {run}\n\tsshCommand = {run}\n\teditor = {run}\n"
            f"\tworktree = {target.victims}/directory\n\talternateRefsCommand = {run}\n"
            f"[uploadpack]\n\tpackObjectsHook = {run}\n"
            f"[gc]\n\trecentObjectsHook = {run}\n"
            f"[include]\n\tpath = {target.victims}/file\n"
        )


def _alternates(target: Target, _draw: random.Random) -> None:
    target.path.parent.mkdir(exist_ok=True)
    target.path.write_text(f"{target.victims}/twin/{GIT}/objects\n")


def _elsewhere(target: Target, _draw: random.Random) -> None:
    target.path.write_text(f"{target.victims}/twin/{GIT}\n")


_STATES: dict[str, Callable[[Target, random.Random], None]] = {
    "as it is": _as_it_is,
    "missing": _missing,
    "empty": _empty,
    "cut": _cut,
    "longer": _longer,
    "flipped": _flipped,
    "random": _random,
    "with escapes": _escapes,
    "with names that leave": _leaving,
    "a link to a file": _link("file"),
    "a link to a directory": _link("directory"),
    "a link to nothing": _link("new"),
    "a link to its twin": _link_to_twin,
    "a link to itself": _link_to_itself,
    "a second name": _second_name,
    "a FIFO": _fifo,
    "a socket": _socket,
    "a directory": _directory,
    "a file": _plain_file,
    "1 GB of nothing": _sparse,
    "another user's": _of_another,
    "of mode 0": _mode(0),
    "of mode 0777": _mode(0o777),
    "of mode 06777": _mode(0o6777),
    "a program": _program,
    "a configuration that runs programs": _git_config,
    "alternates": _alternates,
    "a path to elsewhere": _elsewhere,
}
_FILES = (
    *("missing", "empty", "cut", "longer", "flipped", "flipped", "random"),
    *("with escapes", "with names that leave", "a link to a file", "a link to itself"),
    *("a link to a directory", "a link to nothing", "a link to its twin"),
    *("a second name", "a FIFO", "a socket", "a directory", "1 GB of nothing"),
    *("another user's", "of mode 0", "of mode 0777", "of mode 06777"),
)
_DIRECTORIES = (
    *("missing", "a link to a file", "a link to a directory", "a link to nothing"),
    *("a link to its twin", "a link to itself", "a second name", "a FIFO", "a socket"),
    *("a directory", "a file", "another user's"),
    *("of mode 0", "of mode 0777", "of mode 06777"),
)
_PLANTED = (
    *("a FIFO", "a link to a file", "a link to a directory", "a link to nothing"),
    *("a directory", "a file", "1 GB of nothing"),
)
#: Names that amalgam, hg or git give to files that are not there.
_NAMES = (
    *("lock", "index/lock", "bundles/lock", "tmp-0", "index/tmp-0", "git/tmp-0"),
    *("map/cinnabar.pending", "map/cinnabar.censored", "map/tmp-0", "bundles/tmp-0"),
    *("git/lock", "map/cinnabar.lock", "adopted", "adopted/cinnabar", "unknown"),
    *("bundles/unknown", "index/00changelog-0123456789abcdef.snap", "map/unknown"),
    *(
        f"{GIT}/{name}"
        for name in (
            *("config.amalgam-edited", "config.lock", "packed-refs.lock"),
            *("packed-refs.amalgam", "packed-refs.new", "HEAD.lock", "shallow"),
            *("shallow.lock", "commondir", "gitdir", "info", "info/grafts", "logs"),
            *("objects/info/alternates", "objects/info/commit-graph", "worktrees"),
            *("objects/pack/multi-pack-index", "objects/pack/tmp_pack_0", "modules"),
            *("refs/heads/main", "refs/heads/main.lock", "refs/replace", "index"),
            *("objects/maintenance.lock", "gc.pid", "config.worktree", "tmp-0"),
        )
    ),
)
_HOOKS = (
    *("reference-transaction", "post-index-change", "pre-auto-gc", "update"),
    *("pre-receive", "post-update", "proc-receive", "post-receive"),
)
_SPECIAL = (
    Spoiling("as it is", ""),
    *(Spoiling("a program", f"{GIT}/hooks/{name}") for name in _HOOKS),
    Spoiling("a configuration that runs programs", f"{GIT}/config"),
    Spoiling("a configuration that runs programs", f"{GIT}/config.worktree"),
    Spoiling("alternates", f"{GIT}/objects/info/alternates"),
    Spoiling("a path to elsewhere", f"{GIT}/commondir"),
    Spoiling("a path to elsewhere", f"{GIT}/gitdir"),
    Spoiling("a path to elsewhere", f"{GIT}/objects/info/http-alternates"),
)


def _without_ids(path: Path) -> str:
    """Return what orders paths alike in each repository: some ids are random."""
    return re.sub("[0-9a-f]{8,}", "ID", str(path))


def spoilings(amalgam: Path) -> list[Spoiling]:
    """Return everything that can be spoilt of what is in ``amalgam``."""
    files: list[str] = []
    directories = [""]
    for path in sorted(amalgam.rglob("*"), key=_without_ids):
        name = str(path.relative_to(amalgam))
        (directories if path.is_dir() else files).append(name)
    found = [Spoiling(state, name) for name in files for state in _FILES]
    found += [Spoiling(state, name) for name in directories for state in _DIRECTORIES]
    found += [Spoiling(state, name) for name in _NAMES for state in _PLANTED]
    # each of them at once
    states = [state for state in _FILES if state != "1 GB of nothing"]
    found += [Spoiling(state, f"{top}/*") for top in _TOP for state in states]
    return [*found, *_SPECIAL]


_TOP = ("index", "map", GIT, f"{GIT}/objects/pack", "bundles")
