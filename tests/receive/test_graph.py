"""The graph of a push, compared with git's own answers on random histories."""

from __future__ import annotations

import random
from collections.abc import Iterable
from math import inf
from pathlib import Path

import pytest
from testlib.environment import git
from testlib.randomcommits import GitObjects

from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore.git.process import Git
from hgext3rd.amalgam.receive import graph


class History:
    """Random commits; the first ``known`` ones are changesets, with some node."""

    def __init__(self, root: Path, draw: random.Random, known: int) -> None:
        repo = GitObjects(root)
        self.root = root
        self.oids: list[str] = []
        for number in range(40):
            count = min(len(self.oids), draw.choice([0, 1, 1, 1, 2]))
            parents = draw.sample(self.oids, count)
            self.oids.append(repo.commit(*parents, message=b"%d\n" % number))
        self.known = {*self.oids[:known]}
        self.git = Git(b"git", Directory(bytes(root.resolve())))

    def nodes(self, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the changesets of known commits."""
        return {oid: b"node of " + oid for oid in oids if oid.decode() in self.known}

    def listed(self, *args: str) -> list[bytes]:
        """Return the commits that git lists."""
        return git(self.root, "rev-list", *args).split()


@pytest.fixture(params=range(6))
def history(request: pytest.FixtureRequest, tmp_path: Path) -> History:
    draw = random.Random(request.param)
    return History(tmp_path / "project.git", draw, known=4 * request.param)


def test_answers_are_those_of_git(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "_FIRST_COMMITS", 3)
    draw = random.Random(1)
    tips = sorted(draw.sample(history.oids, 6))
    found = graph.read(history.git, map(str.encode, tips), history.nodes, inf)
    order = ("--topo-order", "--full-history", "--reverse")
    known = [f"^{oid}" for oid in history.known]
    listed = history.listed(*order, *tips, *known)
    assert [*found.parents] == listed
    for oid in listed:
        (line,) = git(
            history.root, "rev-list", "--no-walk", "--parents", oid.decode()
        ).splitlines()
        assert [oid, *found.parents[oid]] == line.split()
        firsts = history.listed("--first-parent", oid.decode())
        outside = [it for it in firsts if it not in found.parents]
        assert found.first_known(oid) == (outside[0] if outside else None)
        others = history.listed(oid.decode(), *known)
        assert {*found.needed([oid])} == {*others}
    assert found.base(listed) == history.nodes(
        parent for its in found.parents.values() for parent in its
    )
    for oid in listed[:5]:
        leading = found.leading_to([oid], [tip.encode() for tip in tips])
        above = [tip for tip in tips if oid in history.listed(tip)]
        assert leading == dict.fromkeys(map(str.encode, above), oid)


def test_limit_counts_new_commits(history: History) -> None:
    tip = history.oids[-1]
    new = len(history.listed(tip, *(f"^{oid}" for oid in history.known)))
    assert len(graph.read(history.git, [tip.encode()], history.nodes, new)[0]) == new
    with pytest.raises(graph.TooManyCommitsError):
        graph.read(history.git, [tip.encode()], history.nodes, new - 1)
