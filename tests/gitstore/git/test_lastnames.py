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
from mercurial import encoding
from testlib.changing import NamedRepo, killed
from testlib.exported import Exported
from testlib.hgserver import HgServer

from hgext3rd.amalgam.config import GitConfig
from hgext3rd.amalgam.gitpeer.fetched import Fetched
from hgext3rd.amalgam.gitstore import selection
from hgext3rd.amalgam.gitstore.export import export
from hgext3rd.amalgam.gitstore.fetchedrefs import FetchedRefs
from hgext3rd.amalgam.gitstore.git import lastnames, namelines, reffiles, refs
from hgext3rd.amalgam.gitstore.git.lastnames import LastNames
from hgext3rd.amalgam.gitstore.store import GitStore

STEPS = int(os.environ.get("STEPS", "100"))
LONG = 1000
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
        self.killed = 0
        self.main_lines = 0
        """How often HEAD was the branch that a remote checks out."""
        changed = LastNames.changed

        def counted(*args: Any) -> Any:
            found = changed(*args)
            self.followed += found is not None and bool(found.refs)
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
            kinds = rand.choice(["bookmarks,tips,tags", "bookmarks,tags", "tips"])
        if not step % 10:
            changing.break_off(functools.partial(exports.run, kinds))
        if not step % 40:
            changing.settle()
        changing.step()
        if not rand.randrange(8):
            pulled_from_git(store, rand)
        monkeypatch.setattr(lastnames, "_COPIED_BYTES", rand.choice([0, 1 << 20]))
        exports.run(kinds, rand.choice([0, 0, 0, 0, rand.randrange(1, 40)]))
    assert exports.followed > steps // 8
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


@pytest.mark.slow
def test_refs_are_those_of_a_whole_computation(
    tmp_path: Path, server: HgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed_at_random(tmp_path, server, monkeypatch, 1, STEPS)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(2, 5))
def test_refs_are_those_of_a_whole_computation_for_long(
    tmp_path: Path, server: HgServer, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    changed_at_random(tmp_path, server, monkeypatch, seed, LONG, 10_000)
