"""What a bundle of all changesets is made of, beside what Mercurial makes it of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mercurial import discovery, hg
from testlib.hgserver import HgServer

from hgext3rd.amalgam.bundles.hg import wholehistory


@pytest.fixture
def repo(tmp_path: Path, server: HgServer, ui: Any) -> Any:
    """A repository with two visible heads and a hidden one."""
    path = tmp_path / "repo"
    server.hg(tmp_path, "init", str(path))
    (path / ".hg" / "hgrc").write_text("[experimental]\nevolution = all\n")
    for number in range(6):
        if number in (3, 5):
            server.hg(path, "update", "-q", "1")
        (path / f"file{number}").write_text("text\n")
        server.hg(path, "commit", "-qAm", str(number), "-d", "0 0", "-u", "me")
    node = server.hg(path, "log", "-r", "5", "-T", "{node}").decode()
    server.hg(path, "update", "-q", "4")
    server.hg(path, "debugobsolete", "-d", "0 0", node)
    ui.setconfig(b"experimental", b"evolution", b"all")
    return hg.repository(ui, os.fsencode(path))


def made(repo: Any, *args: Any) -> tuple[Any, bool]:
    """An ``outgoing`` of ours, and whether Mercurial was asked with the same."""
    asked = []

    def init(outgoing: Any, *given: Any) -> None:
        asked.append(given == (repo, *args))
        discovery.outgoing.__init__(outgoing, *given)

    outgoing = discovery.outgoing.__new__(discovery.outgoing)
    wholehistory._init(init, outgoing, repo, *args)
    return outgoing, asked == [True]


def parts(outgoing: Any) -> tuple[Any, ...]:
    heads = (outgoing.commonheads, sorted(outgoing.ancestorsof))
    return (*heads, outgoing.missing, set(outgoing.common), outgoing.excluded)


@pytest.mark.parametrize("names_heads", [False, True])
def test_all_visible_changesets_are_what_mercurial_finds(
    repo: Any, names_heads: bool
) -> None:
    nodes = [repo.changelog.node(rev) for rev in repo.changelog]
    assert len(nodes) == 5
    heads = repo.changelog.heads() if names_heads else None
    outgoing, is_left = made(repo, None, heads, nodes)
    assert not is_left
    assert parts(outgoing) == parts(discovery.outgoing(repo, None, heads, nodes))
    assert outgoing.missing is nodes


@pytest.mark.parametrize(
    ("revs", "heads"),
    [
        ([0, 1, 2, 3], None),
        ([1, 2, 3, 4], None),
        ([4, 3, 2, 1, 0], None),
        ([0, 1, 2, 3, 4], [2]),
        ([], None),
    ],
)
def test_anything_else_is_left_to_mercurial(
    repo: Any, revs: list[int], heads: list[int] | None
) -> None:
    node = repo.changelog.node
    args = (None, heads and [*map(node, heads)], [*map(node, revs)])
    outgoing, is_left = made(repo, *args)
    assert is_left
    assert parts(outgoing) == parts(discovery.outgoing(repo, *args))


def test_switch_is_obeyed(repo: Any, ui: Any) -> None:
    repo.ui.setconfig(b"amalgam", b"bundles.native", b"no")
    nodes = [repo.changelog.node(rev) for rev in repo.changelog]
    assert made(repo, None, None, nodes)[1]
