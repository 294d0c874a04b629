"""Clients that pull after pushes of git: git itself, stock hg, and git-cinnabar.

A random history is pushed by git in three parts to a server with amalgam. Early clients
pull after each part, late ones everything at once. All have to get the same changesets,
and the commits that were pushed.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testlib.environment import ENVIRONMENT, git
from testlib.pushing import PushServer, pushable
from testlib.randomhistories import History

_PARTS = 3
_CHANGESET = "{node} {branch} {phase}\n"


@dataclass
class _Pushed:
    """What clients have to get."""

    server: PushServer
    commits: dict[str, str]
    """By branch of git."""
    nodes: dict[str, str]
    """By commit."""
    changesets: list[str]
    bookmarks: str


def problems_after_pushes(
    seed: int, place: Path, hgs: Sequence[Path], cinnabar: Mapping[str, str]
) -> tuple[int, list[str]]:
    """Push a random history; return how many commits, and what is wrong.

    ``hgs``: programs of stock Mercurial. ``cinnabar``: the environment that finds
    git-cinnabar.
    """
    draw = random.Random(seed)
    history = History(place / "project.git", draw)
    source = history.repo.path
    found: list[str] = []
    with pushable(place) as server:
        # else the branch default would have to be the main line
        server.hg("bookmark", "-r", "tip", "@")
        for part in range(_PARTS):
            history.grow(draw.choice([1, 5, 15]))
            pushed = _push(source, history.heads(), server)
            for age in ("early", "late") if part == _PARTS - 1 else ("early",):
                clients = place / age
                clients.mkdir(exist_ok=True)
                for hg in hgs:
                    found += _by_hg(hg, clients, pushed)
                found += _by_cinnabar(clients, pushed, cinnabar)
                found += _by_git(clients, pushed)
            server.hg("verify", "-q")
            server.hg("git::verify", "--full")
    return int(git(source, "rev-list", "--all", "--count")), found


def _push(source: Path, heads: Sequence[str], server: PushServer) -> _Pushed:
    commits = {f"b{at}": oid for at, oid in enumerate(heads)}
    refs = [f"+{oid}:refs/heads/{name}" for name, oid in commits.items()]
    _run(["git", "push", "-q", server.web.url, *refs], source)
    return _Pushed(
        server,
        commits,
        {oid: server.node(oid) for oid in heads},
        sorted(server.hg("log", "-T", _CHANGESET).splitlines()),
        server.hg("bookmarks", "-T", "{bookmark} {node}\n"),
    )


def _by_hg(hg: Path, clients: Path, pushed: _Pushed) -> Iterator[str]:
    name = f"{clients.name} hg of {hg.parents[1].name}"
    target = clients / hg.parents[1].name
    url = pushed.server.web.url
    if target.exists():
        names = (f"--bookmark={it}" for it in pushed.commits)
        # first those that went elsewhere, which would get two names
        _run([str(hg), "pull", "-q", *names, url], target)
        _run([str(hg), "pull", "-q", url], target)
    else:
        _run([str(hg), "clone", "-qU", url, str(target)], clients)
    if said := _run([str(hg), "verify", "-q"], target).strip():
        yield f"{name}: {said}"
    there = _run([str(hg), "log", "-T", _CHANGESET], target).splitlines()
    for changeset in sorted({*there} ^ {*pushed.changesets}):
        yield f"{name}: {changeset} is on one side only"
    bookmarks = _run([str(hg), "bookmarks", "-T", "{bookmark} {node}\n"], target)
    if bookmarks != pushed.bookmarks:
        yield f"{name}: bookmarks are\n{bookmarks}and not\n{pushed.bookmarks}"


def _by_cinnabar(
    clients: Path, pushed: _Pushed, environment: Mapping[str, str]
) -> Iterator[str]:
    target = _bare(clients / "git-cinnabar")
    url = f"hg::{pushed.server.web.url}"
    _run(["git", "fetch", "-q", url, "+refs/heads/*:refs/heads/*"], target, environment)
    for oid, node in pushed.nodes.items():
        command = ["git", "cinnabar", "hg2git", node]
        theirs = _run(command, target, environment).strip()
        if theirs != oid:
            yield f"{clients.name} git-cinnabar: {node} is {theirs}, pushed as {oid}"


def _by_git(clients: Path, pushed: _Pushed) -> Iterator[str]:
    target = _bare(clients / "git")
    url = pushed.server.web.url
    _run(["git", "fetch", "-q", url, "+refs/heads/*:refs/heads/*"], target)
    for name, oid in pushed.commits.items():
        theirs = git(target, "rev-parse", name).decode().strip()
        if theirs != oid:
            yield f"{clients.name} git: {name} is {theirs}, pushed as {oid}"


def _bare(target: Path) -> Path:
    if not target.exists():
        git(target.parent, "init", "-q", "--bare", str(target))
    return target


def _run(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str] = ENVIRONMENT
) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True)
    text = done.stderr.decode(errors="replace")
    assert not done.returncode, f"{' '.join(command)}: {text}"
    return done.stdout.decode(errors="replace")
