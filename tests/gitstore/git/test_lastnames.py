"""Names that are computed by difference, compared with those of a whole computation."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from mercurial import context, encoding
from mercurial.node import nullid
from testlib.changing import NamedRepo, Repo, killed
from testlib.exported import Exported
from testlib.hgserver import HgServer

from hgext3rd.amalgam.config import GitConfig
from hgext3rd.amalgam.gitpeer.fetched import Fetched
from hgext3rd.amalgam.gitstore import selection
from hgext3rd.amalgam.gitstore.export import export
from hgext3rd.amalgam.gitstore.fetchedrefs import FetchedRefs
from hgext3rd.amalgam.gitstore.git import (
    lastnames,
    namelines,
    otherheads,
    reffiles,
    refs,
)
from hgext3rd.amalgam.gitstore.git.lastnames import LastNames
from hgext3rd.amalgam.gitstore.store import GitStore

STEPS = int(os.environ.get("STEPS", "100"))
LONG = 1000
KINDS = [
    *("bookmarks,tips,tags", "bookmarks,tags", "tips"),
    *("bookmarks,tips,heads,tags", "tips,heads", "heads"),
]
NAME = st.text("ab/é", min_size=1, max_size=4).map(str.encode)
LINES = st.dictionaries(NAME, st.sampled_from([b"0" * 40, b"f" * 40]), max_size=60)


@settings(max_examples=150, deadline=None)
@given(
    old=LINES,
    tags=st.sets(NAME),
    changes=st.dictionaries(NAME, st.sampled_from([None, b"1" * 20]), max_size=9),
    block=st.integers(50, 400),
)
def test_lines_of_tag_objects_belong_to_the_lines_before(
    tmp_path_factory: pytest.TempPathFactory,
    old: dict[bytes, bytes],
    tags: set[bytes],
    changes: dict[bytes, bytes | None],
    block: int,
) -> None:
    """In ``packed-refs``, which is searched and changed."""
    path = tmp_path_factory.mktemp("lines") / "packed-refs"
    refs = {name: b"2" * 20 if name in tags else b"3" * 20 for name in old}
    peeled = {b"2" * 20: b"4" * 20}
    path.write_bytes(reffiles._packed(refs, peeled))
    after = {name: oid for name, oid in (refs | changes).items() if oid}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(namelines, "_BLOCK_BYTES", block)
        with namelines.NameLines(os.open(path, os.O_RDONLY)) as packed:
            spliced = b"".join(reffiles._spliced(packed, changes))
            for name in old:
                assert packed.get(name) == refs[name].hex().encode()
                below = [it for it in sorted(refs) if it.startswith(name + b"/")]
                assert [*packed.below(name)] == below
    assert spliced == reffiles._packed(after, peeled)


def lines_of(path: Path, names: dict[bytes, bytes]) -> namelines.NameLines:
    path.write_bytes(b"".join(b"%s %s\n" % (names[it], it) for it in sorted(names)))
    return namelines.NameLines(os.open(path, os.O_RDONLY))


@settings(max_examples=150, deadline=None)
@given(old=LINES, new=LINES, chunk=st.integers(1, 300), block=st.integers(50, 400))
def test_changes_are_those_of_whole_files(
    tmp_path_factory: pytest.TempPathFactory,
    old: dict[bytes, bytes],
    new: dict[bytes, bytes],
    chunk: int,
    block: int,
) -> None:
    path = tmp_path_factory.mktemp("lines")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(namelines, "_CHUNK_BYTES", chunk)
        patched.setattr(namelines, "_BLOCK_BYTES", block)
        with lines_of(path / "old", old) as before, lines_of(path / "new", new) as now:
            assert namelines.changes(before, now) == {
                name: (old.get(name), new.get(name))
                for name in old.keys() | new.keys()
                if old.get(name) != new.get(name)
            }
            for name in old.keys() | new.keys():
                assert now.get(name) == new.get(name)
                below = [it for it in sorted(new) if it.startswith(name + b"/")]
                assert [*now.below(name)] == below


@pytest.mark.parametrize(
    "last",
    [b"%s b\n", b"%s a\n", b"%s c", b"%s c \n", b"%s \xe9\n", b"%sc\n", b"\n"],
    ids=["equal", "below", "cut", "spaces", "latin", "no-space", "empty"],
)
def test_lines_in_no_order_are_refused(tmp_path: Path, last: bytes) -> None:
    good = {b"a": b"0" * 40, b"b": b"1" * 40}
    with lines_of(tmp_path / "old", good) as before:
        content = (tmp_path / "old").read_bytes()
        (tmp_path / "new").write_bytes(content + last.replace(b"%s", b"2" * 40))
        fd = os.open(tmp_path / "new", os.O_RDONLY)
        with (
            namelines.NameLines(fd) as now,
            pytest.raises(namelines.NotInOrderError),
        ):
            namelines.changes(before, now)


class Exports:
    """Exports in this process that are compared with a computation of all names."""

    def __init__(self, store: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.followed = 0
        self.heads_followed = 0
        self.killed = 0
        self.main_lines = 0
        """How often HEAD was the branch that a remote checks out."""
        changed = LastNames.changed

        def counted(*args: Any) -> Any:
            found = changed(*args)
            self.followed += found is not None and bool(found.refs)
            others = found.refs if found else {}
            self.heads_followed += any(it.startswith(refs.OTHER_HEADS) for it in others)
            return found

        monkeypatch.setattr(LastNames, "changed", counted)
        # of these names, each is in a block, a chunk and a loose file of its own
        monkeypatch.setattr(reffiles, "_SMALL_BYTES", 0)
        monkeypatch.setattr(namelines, "_CHUNK_BYTES", 200)
        monkeypatch.setattr(namelines, "_BLOCK_BYTES", 128)

    def run(self, kinds: str, die_at: int = 0) -> None:
        """Export; first in a process that dies as it makes its change ``die_at``."""
        config = {"git.refs": kinds}
        if die_at:
            self.killed += killed(die_at, lambda: self._export(config))
        self._export(config)
        self._check(config)

    def _export(self, config: dict[str, str]) -> None:
        repo = self.store.open(**config)
        export.export(GitStore(repo, GitConfig.from_ui(repo.ui)), once=True)

    def _check(self, config: dict[str, str]) -> None:
        repo = self.store.open(**config)
        store = GitStore(repo, GitConfig.from_ui(repo.ui))
        view = selection.view_of(repo, store.config.export)
        main_line = FetchedRefs(store).main_line()
        nodes, head = refs.wanted(view, store.config.refs, main_line)
        name = head.removeprefix(refs.HEADS)
        self.main_lines += name == main_line and name not in refs.MAIN_LINES
        with contextlib.closing(store.open_map()) as oidmap:
            oids = oidmap.oids(list(nodes.values()))
        wanted = sorted(
            f"{(oid or b'').hex()} {name.decode('utf-8', 'surrogateescape')}"
            for name, oid in zip(nodes, oids, strict=True)
        )
        form = "--format=%(objectname) %(refname)"
        found = self.store.git(
            "for-each-ref", form, "refs/heads", "refs/tags", "refs/hg"
        )
        assert sorted(found.splitlines()) == wanted
        assert store.repository.head() == head
        docket = store.docket()
        assert docket.named == store.repository.names_digest()
        assert export.is_up_to_date(store)


def pulled_from_git(store: Exported, rand: random.Random) -> None:
    """Write the files of a remote that checks out a bookmark, or no branch."""
    repo = store.open()
    fetched = Fetched(GitStore(repo, GitConfig.from_ui(repo.ui)))
    names = sorted(map(encoding.fromlocal, repo._bookmarks))
    fetched.write_refs(b"up", {})
    fetched.keep_head(b"up", rand.choice([*names, b"gone", b""]))


def changed_at_random(
    path: Path,
    server: HgServer,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    steps: int,
    most: int = 300,
) -> None:
    store = Exported.init(path / "repo", server)
    store.commit_nothing("first")
    changing = NamedRepo(store, seed, most)
    exports = Exports(store, monkeypatch)
    rand = changing.random
    kinds = "bookmarks,tips,tags"
    for step in range(steps):
        if not rand.randrange(12):
            kinds = rand.choice(KINDS)
        if not step % 10:
            changing.break_off(functools.partial(exports.run, kinds))
        if not step % 40:
            changing.settle()
        changing.step()
        if not rand.randrange(8):
            pulled_from_git(store, rand)
        monkeypatch.setattr(lastnames, "_COPIED_BYTES", rand.choice([0, 1 << 20]))
        monkeypatch.setattr(otherheads, "_MOST_HEADS", rand.choice([2, 250]))
        monkeypatch.setattr(otherheads, "_MOST_STEPS", rand.choice([5, 1000]))
        exports.run(kinds, rand.choice([0, 0, 0, 0, rand.randrange(1, 40)]))
    assert exports.followed > steps // 8
    assert exports.heads_followed
    assert exports.killed
    assert exports.main_lines
    assert changing.abandoned
    option = f"--config=amalgam.git.refs={kinds}"
    assert store.run("git::verify", option).code == 0
    fresh = store.copied(path, "fresh")
    shutil.rmtree(fresh.amalgam)
    fresh.hg("git::export", option)
    refs = ("--format=%(objectname) %(refname)", "refs/heads", "refs/tags", "refs/hg")
    assert store.git("for-each-ref", *refs) == fresh.git("for-each-ref", *refs)


def test_bookmarks_without_refs_are_no_change(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the file of the last export that named them is removed."""
    monkeypatch.setattr(lastnames, "_COPIED_BYTES", 0)
    store.hg("bookmark", "a")
    for kinds in ("bookmarks,tips", "tips", "tips"):
        store.commit_nothing("more")
        export.export(store.git_store(git__refs=kinds))
        kept = [*store.map_dir.glob("*.bookmarks-*")]
        assert bool(kept) == ("bookmarks" in kinds)


def branched(store: Exported, branch: bytes, parent: str, text: bytes = b"") -> str:
    """Commit nothing on a branch; return the node."""
    repo = store.open()
    nodes, extra = [repo[parent.encode()].node(), nullid], {b"branch": branch}
    text = text or b"%d" % len(repo)
    with repo.wlock(), repo.lock(), repo.transaction(b"test"):
        ctx = context.memctx(
            repo, nodes, text, [], None, user=b"test", date=b"0 0", extra=extra
        )
        node: bytes = ctx.commit()
    return node.hex()


@pytest.mark.parametrize(
    "form",
    ["HEAD", "a.", "a/", "a.lock", "l" * 251, "b/{node}", "{node}", "\N{SNOWMAN}"],
)
def test_heads_of_branches_with_odd_names(
    store: Exported, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Among them names that would be below the ref of another head."""
    exports = Exports(store, monkeypatch)
    root = branched(store, b"b", "null")
    name = form.format(node=root).encode()
    nodes = ["null", "null", "tip", root]
    for number in range(6):
        nodes.append(branched(store, name, nodes[number]))
        exports.run("tips,heads")
        branched(store, b"b", nodes[number])
        exports.run("tips,heads")


def test_head_is_named_by_a_branch_that_was_there_before(
    store: Exported, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    exports = Exports(store, monkeypatch)
    node = branched(store.copied(tmp_path, "elsewhere"), b"b", "null", b"known")
    for branch in ("b", f"b/{node}"):
        branched(store, branch.encode(), "null")
        branched(store, branch.encode(), "null")
    exports.run("tips,heads")
    assert branched(store, b"b", "null", b"known") == node
    branched(store, b"b", "null")
    exports.run("tips,heads")


@pytest.mark.parametrize("node", ["x", "g" * 40, "1" * 40])
def test_refs_of_somebody_else_tell_nothing(
    store: Exported, tmp_path: Path, node: str
) -> None:
    repo = store.open()
    selected = selection.select(repo, b"served")
    loose = {f"refs/hg/heads/default/{node}".encode(): b"1" * 40}
    with lines_of(tmp_path / "packed-refs", {}) as packed:
        there = otherheads.HeadRefs(packed, loose)
        with pytest.raises(otherheads.TooFarError):
            otherheads.changes(repo, selected, 0, {}, {}, there)


@pytest.mark.slow
@pytest.mark.parametrize("most", [2, 250])
def test_heads_are_those_of_a_whole_computation(
    tmp_path: Path, server: HgServer, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    store = Exported.init(tmp_path / "repo", server)
    store.commit_nothing("first")
    changing, exports = Repo(store, 6), Exports(store, monkeypatch)
    monkeypatch.setattr(otherheads, "_MOST_HEADS", most)
    for _number in range(60):
        changing.step()
        exports.run("tips,heads")
    assert exports.heads_followed > 10


@pytest.mark.slow
def test_refs_are_those_of_a_whole_computation(
    tmp_path: Path, server: HgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed_at_random(tmp_path, server, monkeypatch, 1, STEPS)


@pytest.mark.torture
@pytest.mark.parametrize("seed", [2, 3, 5])
def test_refs_are_those_of_a_whole_computation_for_long(
    tmp_path: Path, server: HgServer, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    changed_at_random(tmp_path, server, monkeypatch, seed, LONG, 10_000)
