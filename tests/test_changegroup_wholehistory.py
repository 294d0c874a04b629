"""What a bundle of all changesets is made of, beside what Mercurial makes it of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from mercurial import discovery, hg, util
from testlib.hgserver import HgServer

from hgext3rd.amalgam.changegroup import branchcache, native, wholehistory


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


@pytest.mark.parametrize("names_heads", [False, True])
def test_all_that_an_empty_receiver_misses_is_what_mercurial_finds(
    repo: Any, names_heads: bool
) -> None:
    heads = repo.changelog.heads()[::-1] if names_heads else None
    outgoing, _is_left = made(repo, [repo.nullid], heads)
    wholehistory._compute_missing(pytest.fail, outgoing)
    assert outgoing.missing == found_by_mercurial(repo, [repo.nullid], heads)
    assert not {*range(6)} & {*outgoing.common}


@pytest.mark.parametrize(("common", "heads"), [([0], None), ([-1], [4]), ([2], [2])])
def test_what_others_miss_is_left_to_mercurial(
    repo: Any, common: list[int], heads: list[int] | None
) -> None:
    node = repo.changelog.node
    args = [*map(node, common)], heads and [*map(node, heads)]
    outgoing, _is_left = made(repo, *args)
    left: list[Any] = []
    wholehistory._compute_missing(left.append, outgoing)
    assert left == [outgoing]
    assert outgoing.missing == found_by_mercurial(repo, *args)


def found_by_mercurial(repo: Any, common: Any, heads: Any) -> Any:
    """Return what a repository that does not want native bundles says is missing."""
    asking = discovery.outgoing(repo, common, heads)
    return repo.changelog.findcommonmissing(asking.commonheads, asking.ancestorsof)[1]


def test_revisions_of_changesets_are_found(repo: Any) -> None:
    node = repo.changelog.node
    for revs in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 3], []):
        assert [*wholehistory.numbers(repo, [*map(node, revs)])] == revs
    everything = [*map(repo.unfiltered().changelog.node, range(6))]
    assert [*wholehistory.numbers(repo, everything)] == [0, 1, 2, 3, 4, 5]


def test_revsets_are_those_of_mercurial(repo: Any) -> None:
    nodes = [*map(repo.changelog.node, repo.changelog)]
    asked = []

    def revs(repo: Any, expr: bytes, *args: Any) -> Any:
        asked.append(expr)
        return internal if expr == b"_internal()" else [2]

    internal: list[int] = []
    expr = b"%ln and _internal()"
    assert not wholehistory._revs(revs, repo, expr, nodes)
    assert asked == [b"_internal()"]
    internal = [2, 3]
    assert wholehistory._revs(revs, repo, expr, nodes) == [2]
    assert wholehistory._revs(revs, repo, b"%ln", nodes) == [2]
    assert asked[1:] == [b"_internal()", expr, b"%ln"]


@pytest.mark.parametrize("revs", [[0, 1, 2, 3, 4, 5], [5, 3], [4]])
def test_records_of_branches_are_read_as_mercurial_reads_them(
    repo: Any, server: HgServer, revs: list[int]
) -> None:
    path = Path(os.fsdecode(repo.root))
    server.hg(path, "branch", "-q", "other")
    server.hg(path, "commit", "-qm", "x", "-d", "0 0", "-u", "me")
    server.hg(path, "commit", "-q", "--close-branch", "-m", "x", "-d", "0 0")
    server.hg(path, "debugupdatecaches")
    unfiltered = hg.repository(repo.ui, repo.root).unfiltered()
    cache = unfiltered.revbranchcache()
    revs = [*revs, 7, 6]
    nodes = [*map(unfiltered.changelog.node, revs)]
    recorded = branchcache._recorded(cache, revs, nodes)
    assert recorded == branchcache._branches(cache, revs)
    assert recorded[b"other"][1].tolist() == [len(revs) - 2]


def test_records_that_are_not_right_are_left_to_mercurial(
    repo: Any, server: HgServer
) -> None:
    server.hg(Path(os.fsdecode(repo.root)), "debugupdatecaches")
    unfiltered = hg.repository(repo.ui, repo.root).unfiltered()
    cache = unfiltered.revbranchcache()
    nodes = [*map(unfiltered.changelog.node, range(6))]
    assert branchcache._recorded(cache, range(6), nodes)
    assert not branchcache._recorded(cache, range(6), nodes[::-1])
    assert not branchcache._recorded(cache, range(7), [*nodes, nodes[0]])
    assert not branchcache._recorded(cache, [], [])
    names, cache._names = cache._names, []
    assert not branchcache._recorded(cache, range(6), nodes)
    cache._names = names
    cache._rbcrevs.make_mutable()
    cache._rbcrevs.truncate(40)
    assert not branchcache._recorded(cache, range(6), nodes)


def test_switch_is_obeyed(repo: Any, ui: Any) -> None:
    repo.ui.setconfig(b"amalgam", b"bundles.native", b"no")
    nodes = [repo.changelog.node(rev) for rev in repo.changelog]
    assert made(repo, None, None, nodes)[1]


@given(st.lists(st.integers(0, 9)), st.integers(1, 4))
def test_changegroup_is_cut_as_mercurial_cuts_it(sizes: list[int], size: int) -> None:
    blocks = [bytes([n % 256]) * length for n, length in enumerate(sizes)]
    pieces = [*native._Chunks(util.chunkbuffer(iter(blocks))).pieces(size)]
    buffer = util.chunkbuffer(iter(blocks))
    assert pieces == [*iter(lambda: buffer.read(size), b"")]
