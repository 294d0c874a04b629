"""Pushes into the dialect of hg-git, with extras and without, and the way back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from testlib import roundtrip
from testlib.environment import ROOT, hg
from testlib.hggitcommits import Commits

pytestmark = pytest.mark.slow

NODES = ROOT / "tests" / "vectors" / "git-import" / "nodes.txt"
HGGIT = "--config=amalgam.git.dialect=hggit"
EXACT = "--config=amalgam.git.push-exact=yes"


class Travelled:
    """Commits that were pushed, carried to another server by stock hg, and exported."""

    def __init__(self, made: Commits, place: Path, *options: str) -> None:
        place.mkdir()
        # hg verify looks for the repository of a .hgsubstate
        names = {it: name for name, it in made.oids.items() if name != SUBREPOSITORY}
        found = roundtrip.travel(place, made.repo.path, [*names], *options)
        assert found.problems == []
        self.accepted = {names[oid] for oid in names.keys() - found.refused.keys()}
        self.reasons: dict[str, set[str]] = {}
        for oid, said in found.refused.items():
            self.reasons.setdefault(REASON.findall(said)[0], set()).add(names[oid])
        log = hg(place / "copy", "log", "-T", "{node}\n").decode()
        self.nodes = {*log.split()}


SUBREPOSITORY = "module-and-sub"
REASON = re.compile("cannot be pushed: ([^;]*);")


def test_commits_come_back_from_changesets_alone(tmp_path: Path) -> None:
    """Stock hg carries them to another server. Nodes are hg-git's where they can be."""
    made = Commits(tmp_path / "project.git")
    rows = [row.split() for row in NODES.read_text().splitlines()]
    nodes = {name: node for name, _oid, node in rows if node != "-"}
    plain = Travelled(made, tmp_path / "plain", HGGIT)
    exact = Travelled(made, tmp_path / "exact", HGGIT, EXACT)
    expected = {name: nodes[name] for name in plain.accepted & nodes.keys()}
    for travelled in (plain, exact):
        missing = {it for it in expected if expected[it] not in travelled.nodes}
        assert missing == set()
    assert plain.reasons == {
        "the commit has another header that would be lost": {
            *("branch", "reserved", "renamed", "hg"),
            *("copied", "copy-taken", "copy-again"),
        },
        "the name or address cannot be written back as it is": {"nobody"},
        "the date cannot be written back as it is": {"odd-date"},
        "a file has a mode that Mercurial cannot store": {
            *("twin-tree", "of-twin", "modes", "padded"),
        },
        "the tree has a submodule": {
            *("module", "module-again", "module-gone", "module-alone"),
            "module-broken",
        },
        "git itself refuses the tree": {"unsorted", "duplicate", "nested-git"},
        "Mercurial refuses a path": {"nested-hg"},
    }
    assert exact.reasons == {
        "the date cannot be written back as it is": {"odd-date"},
        "git itself refuses the tree": {"unsorted", "duplicate"},
        # trees of hg-git have no name like .git
        "Mercurial refuses a path": {"nested-hg", "nested-git"},
    }
