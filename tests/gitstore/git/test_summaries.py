"""Summaries that maintenance lets git write: what they name, and how long they stay.

They are the commit-graph, the multi-pack-index and its bitmap.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testlib import killpoints
from testlib.exported import Exported, replace
from testlib.generated import generate
from testlib.hgserver import HgServer
from testlib.planted import traces

from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore import packgroups
from hgext3rd.amalgam.gitstore.export import export as exporting, maintenance
from hgext3rd.amalgam.gitstore.git import packfiles, summaries

pytestmark = pytest.mark.slow

MAINTENANCE = "debug::amalgam-maintenance"
ROLLUP = "hgext3rd.amalgam.gitstore.export.maintenance"
WORD = "planted7f3a"
CHANGESETS = 1000  # fewer, and there is no complete pack


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Exported:
    """A store with a complete pack, a pack after it, and drafts."""
    path = tmp_path_factory.mktemp("summaries") / "repo"
    root = generate(path, "merges", "--changesets", str(CHANGESETS))
    store = Exported(root, server)
    store.hg("phase", "--public", "-r", "all()")
    store.hg("git::export")
    store.hg("update", "-q", "tip")
    store.commit("planted", text=f"{WORD}\n" * 50)
    store.commit("planted", text="clean\n", message="clean")
    store.hg("git::export")
    return store


@pytest.fixture
def store(
    template: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Exported:
    monkeypatch.setattr(maintenance, "_SUMMARISED_FROM", 1)
    return template.copied(tmp_path)


def maintain(store: Exported) -> None:
    maintenance.run(store.git_store())
    assert not maintenance.is_due(store.git_store())


def files(store: Exported) -> dict[str, tuple[int, int]]:
    """Name, inode and time of all summaries."""
    graphs = (store.git_dir / "objects/info").iterdir()
    paths = [*store.packs_dir.glob("multi-pack-index*"), *graphs]
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in paths
        if path.name != "packs"
    }


def check(store: Exported) -> None:
    """See that git finds nothing wrong, with or without summaries."""
    store.git("fsck", "--full", "--strict")
    store.git("multi-pack-index", "verify")
    store.git("commit-graph", "verify")
    listing = ("rev-list", "--objects", "--no-object-names", "--branches", "--tags")
    off = ("-c", "core.multiPackIndex=false", "-c", "core.commitGraph=false")
    without = store.git(*off, *listing)
    assert set(store.git(*listing, "--use-bitmap-index").split()) == {*without.split()}
    assert store.answers()
    assert store.run("git::verify").code == 0
    assert killpoints.leftovers(store.root) == []


def complete(store: Exported) -> str:
    return str(store.docket()["base"]["complete"])


def test_summaries_have_the_complete_pack_and_nothing_else(store: Exported) -> None:
    maintain(store)
    names = files(store)
    checksum = (store.packs_dir / "multi-pack-index").read_bytes()[-20:].hex()
    assert names.keys() == {
        "commit-graph",
        "multi-pack-index",
        f"multi-pack-index-{checksum}.bitmap",
    }
    content = (store.packs_dir / "multi-pack-index").read_bytes()
    assert content.count(b".idx\0") == content.count(f"{complete(store)}.idx".encode())
    directory = Directory(bytes(store.packs_dir))
    inside = {oid.hex() for oid in packfiles.object_ids(directory, complete(store))}
    drafts = set(store.git("rev-list", "--objects", "--all").split()) - inside
    assert drafts
    graph = (store.git_dir / "objects/info/commit-graph").read_bytes()
    for oid in drafts:
        if len(oid) == 40:
            assert bytes.fromhex(oid) not in content + graph
    # refs have gone on since that pack was made, and yet its commits have bitmaps
    tip = store.ids(str(CHANGESETS - 1))[1]
    command = ["git", "rev-list", "--test-bitmap", tip]
    done = subprocess.run(command, cwd=store.git_dir, capture_output=True)
    assert (done.returncode, b"OK!" in done.stderr) == (0, True), done
    check(store)
    store.commit_nothing("one more")
    store.hg("git::export")
    assert files(store) == names
    check(store)


def test_among_many_heads_only_the_main_line_has_bitmaps(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = summaries.make, []

    def noted(*args: Any) -> None:
        made.append((args[3], args[4]))
        make(*args)

    monkeypatch.setattr(summaries, "make", noted)
    monkeypatch.setattr(maintenance, "_MOST_BITMAPPED", 1)
    store.hg("update", "-q", "0")
    store.hg("branch", "-q", "aside")
    store.commit_nothing("aside")
    store.hg("git::export")
    maintain(store)
    ((tips, bitmapped),) = made
    aside, main = (
        bytes.fromhex(store.ids(rev)[1]) for rev in ("0", str(CHANGESETS - 1))
    )
    assert (aside in tips, bitmapped) == (True, [main])
    check(store)


STRIP = "--config extensions.strip= strip -q --no-backup -r"
CENSOR = "--config extensions.censor= --config censor.policy=ignore censor"
EVENTS = {
    "strip": f"{STRIP} desc(planted)::",
    "hide": "phase --secret --force -r desc(planted)",
    "strip public": f"{STRIP} {CHANGESETS // 2}",
    "censor": f"{CENSOR} -r desc(planted) planted",
}


def happen(store: Exported, event: str) -> None:
    store.hg("update", "-q", "null")
    store.hg(*EVENTS[event].split(" "))


@pytest.mark.parametrize("event", ["strip", "hide"])
def test_drafts_go_and_summaries_stay(store: Exported, event: str) -> None:
    maintain(store)
    before = files(store)
    happen(store, event)
    assert not store.answers()
    store.hg("git::export")
    assert not traces(store.amalgam, WORD.encode())
    assert files(store) == before
    assert not maintenance.is_due(store.git_store())
    check(store)


@pytest.mark.parametrize("event", ["strip public", "censor"])
def test_summaries_go_with_what_they_name(store: Exported, event: str) -> None:
    maintain(store)
    before = complete(store)
    happen(store, event)
    store.hg("git::export")
    assert not traces(store.amalgam, WORD.encode())
    if complete(store) != before:
        assert not files(store)
    check(store)
    maintain(store)
    check(store)


def flipped(content: bytes) -> bytes:
    half = len(content) // 2
    return content[:half] + bytes([content[half] ^ 255]) + content[half + 1 :]


#: Files that are changed, and to what.
FORGERIES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "bitmap": ("objects/pack/*.bitmap", lambda it: it[:-20] + bytes(20)),
    "index": ("objects/pack/multi-pack-index", lambda it: it[:-40] + bytes(40)),
    "graph": ("objects/info/commit-graph", flipped),
}


@pytest.mark.parametrize(
    ("forged", "has_record"), [*((it, True) for it in FORGERIES), ("bitmap", False)]
)
def test_what_others_put_in_their_place_goes(
    store: Exported, forged: str, has_record: bool
) -> None:
    maintain(store)
    right = {name: (store.packs_dir / name).exists() for name in files(store)}
    pattern, change = FORGERIES[forged]
    (path,) = store.git_dir.glob(pattern)
    replace(path, change(path.read_bytes()))
    if not has_record:
        (store.map_dir / "cinnabar.summaries").unlink()
    assert maintenance.is_due(store.git_store())
    store.hg("git::export")
    assert not list(store.packs_dir.glob("*.bitmap"))
    check(store)
    maintain(store)
    assert {name: (store.packs_dir / name).exists() for name in files(store)} == right
    check(store)


def test_summaries_follow_the_complete_pack(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packgroups, "_MOST_KEPT", 1)  # as if the history had doubled
    maintain(store)
    store.hg("phase", "--public", "-r", "all()")
    (store.root / ".hg/hgrc").write_text("[phases]\nnew-commit = public\n")
    first, before = complete(store), files(store)
    for number in range(18):
        store.commit("last", text=f"{number}\n", message=f"{number}")
        exporting.export(store.git_store())
        if complete(store) == first:
            assert files(store) == before
        maintain(store)
    check(store)
    assert complete(store) != first
    assert files(store).keys() != before.keys()


def test_small_stores_have_none(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    maintenance.run(store.git_store())
    assert not files(store)


@pytest.mark.parametrize("event", ["censor", "strip public"])
def test_summaries_are_not_taken_for_a_pack_that_goes(
    store: Exported, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    make = summaries.make

    def late(*args: Any) -> None:
        make(*args)
        happen(store, event)
        if event == "strip public":
            store.hg("git::export")

    monkeypatch.setattr(summaries, "make", late)
    maintenance.run(store.git_store())
    assert not files(store)
    store.hg("git::export")
    check(store)


@pytest.mark.torture
def test_maintenance_killed_anywhere_is_done_again(
    template: Exported, tmp_path: Path
) -> None:
    taken = killpoints.at_each(
        template.root,
        tmp_path,
        MAINTENANCE,
        lacks="unlink",
        constants={f"{ROLLUP}._SUMMARISED_FROM": 1},
    )
    assert taken["rename"] >= 5
