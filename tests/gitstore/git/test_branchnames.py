"""Single branches, compared with all of them at once."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from mercurial import encoding

from hgext3rd.amalgam.gitstore.git import branchnames
from hgext3rd.amalgam.gitstore.git.branchnames import BranchNames
from hgext3rd.amalgam.gitstore.git.refs import NamedNodes, RefNames

_PARTS = (
    b"a b aa A a%20b%2Fc %2F %61 %62ranches branches HEAD .lock a.lock .. ~ %".split()
)
_PARTS += [b"a b", b"", "\xe9".encode(), b"x" * 251, b"a%20b", b"%61%20b"]
_HIDDEN = b"h" * 20


@pytest.fixture(autouse=True, params=[b"UTF-8", b"ascii"])
def _encoding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "encoding", request.param)


class Names:
    """Random bookmarks and tips of open branches."""

    def __init__(self, rand: random.Random) -> None:
        self.rand = rand
        self.marks: dict[bytes, bytes] = {}
        self.tips: dict[bytes, bytes] = {}
        for _number in range(rand.choice((3, 6, 20))):
            self.change()

    def copy(self) -> Names:
        other = Names.__new__(Names)
        other.rand, other.marks, other.tips = self.rand, {**self.marks}, {**self.tips}
        return other

    def change(self) -> tuple[str, bytes]:
        """Make, move or delete one, and return it."""
        rand = self.rand
        kind, names = rand.choice((("bookmark", self.marks), ("tip", self.tips)))
        name = self.name()
        if names and rand.random() < 0.5:
            name = rand.choice([*names])
        names.pop(name, None)
        if rand.random() < 0.7:
            hidden = kind == "bookmark" and rand.random() < 0.1
            names[name] = _HIDDEN if hidden else rand.randbytes(20)
        return kind, name

    def name(self) -> bytes:
        rand = self.rand
        parts = rand.choices(_PARTS, k=rand.choice((1, 1, 2, 2, 3)))
        found: bytes = encoding.tolocal(b"/".join(parts))
        return found or b"a"

    @property
    def single(self) -> BranchNames:
        return BranchNames(self.marks, self.tips, lambda node: node != _HIDDEN)

    @property
    def all(self) -> Mapping[tuple[str, bytes], bytes]:
        marks = {name: node for name, node in self.marks.items() if node != _HIDDEN}
        return NamedNodes(marks, self.tips, {}, {}, b"", shows_tips=True).branches()

    def refs(self) -> dict[bytes, bytes]:
        nodes = {"bookmark": self.marks, "tip": self.tips}
        return {ref: nodes[kind][name] for (kind, name), ref in self.all.items()}


@pytest.mark.parametrize("seed", range(4))
def test_single_names_are_those_of_all(seed: int) -> None:
    rand = random.Random(seed)
    for _round in range(500):
        names = Names(rand)
        single, shown = names.single, names.all
        assert {
            key: name for key in single.served() if (name := single.shown(key))
        } == shown
        keys = {name: key for key, name in shown.items()}
        asked = {*keys, *(encoding.fromlocal(names.name()) for _each in range(9))}
        assert {name: key for name in asked if (key := single.key(name))} == {
            name: keys[name] for name in asked if name in keys
        }
        deleted = {
            *rand.sample(sorted(keys), min(len(keys), rand.choice((0, 0, 1, 3))))
        }
        left = RefNames(name for name in keys if name not in deleted)
        for name in asked:
            if RefNames().may_have(name):
                assert single.clash(name, deleted) == left.clash(name)


@pytest.mark.parametrize("seed", range(4))
def test_changes_are_those_of_all(seed: int) -> None:
    rand = random.Random(seed)
    for _round in range(500):
        before = Names(rand)
        after = before.copy()
        keys = [after.change() for _each in range(rand.choice((1, 1, 2, 5)))]
        old, new = before.refs(), after.refs()
        expected = {
            ref: (old.get(ref), new.get(ref))
            for ref in old.keys() | new.keys()
            if old.get(ref) != new.get(ref)
        }
        assert branchnames.changes(before.single, after.single, keys) == expected


def test_usual_names_are_found_without_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also beside some that make way for others."""
    marks = {b"head/%d" % number: b"n" * 20 for number in range(50)}
    marks |= {b"x": b"n" * 20, b"x/y": b"n" * 20, b"fix me": b"n" * 20}
    tips = {b"default": b"t" * 20, b"release 2": b"t" * 20, b"head/7": b"t" * 20}
    before = BranchNames(marks, tips, lambda _node: True)
    moved = {**marks, b"head/3": b"o" * 20, b"head/new": b"o" * 20, b"x": b"o" * 20}
    del moved[b"head/4"]
    after = BranchNames(moved, {**tips, b"release 2": b"o" * 20}, lambda _node: True)

    def branches(_self: NamedNodes) -> dict[tuple[str, bytes], bytes]:
        raise AssertionError("all names were computed")

    monkeypatch.setattr(NamedNodes, "branches", branches)
    assert before.key(b"head/3") == ("bookmark", b"head/3")
    assert before.key(b"fix%20me") == ("bookmark", b"fix me")
    assert before.shown(("tip", b"release 2")) == b"release%202"
    assert before.shown(("tip", b"head/7")) == b"branches/head/7"
    assert before.clash(b"head") == b"head/0"
    assert before.clash(b"head/3/x") == b"head/3"
    assert not before.clash(b"head/new")
    keys = [("bookmark", b"head/%s" % it) for it in (b"3", b"4", b"new")]
    keys += [("bookmark", b"x"), ("tip", b"release 2")]
    assert branchnames.changes(before, after, keys).keys() == {
        *(b"head/3", b"head/4", b"head/new", b"x", b"release%202"),
    }


def test_a_deep_name_costs_its_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []
    stored_as = BranchNames._stored_as

    def counted(names: BranchNames, stored: bytes) -> list[branchnames.Key]:
        looked_up.append(stored)
        return stored_as(names, stored)

    monkeypatch.setattr(BranchNames, "_stored_as", counted)
    names = BranchNames({b"d/" * 500 + b"x": b"o" * 20}, {}, lambda _node: True)
    deep = b"d/" * 900 + b"y"
    assert names.clash(deep) == b""
    assert names.clash(b"d/" * 500 + b"x/y") == b"d/" * 500 + b"x"
    assert len(looked_up) < 2000
