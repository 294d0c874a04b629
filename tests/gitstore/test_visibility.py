"""What may not be read is not there: each way in which a changeset stops being served.

The oracles are the files themselves, inflated, and git; for ids, an export of a clone
that has what is served, all of it public, at once.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from testlib import hiding, killpoints
from testlib.environment import ENVIRONMENT, add_config
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.hiding import WORD
from testlib.planted import traces

from hgext3rd.amalgam.gitstore.docket import Docket, Layer

pytestmark = pytest.mark.slow

CONFIG = "[ui]\nrollback = yes\n"


@pytest.fixture
def store(tmp_path: Path, server: HgServer) -> Exported:
    """A public changeset, a draft, and on top a draft with planted content."""
    store = hiding.unpublished(tmp_path / "repo", server, CONFIG)
    store.commit("public")
    store.hg("phase", "--public", ".")
    store.commit("draft")
    plant(store)
    return store


def plant(store: Exported) -> None:
    (store.root / "draft").write_text("draft\n" * 50 + f"{WORD}\n")
    (store.root / WORD).write_text(f"{WORD}\n")
    user = f"{WORD} <{WORD}@example.org>"
    store.hg("commit", "-qAm", WORD, "-u", user, "-d", "1 0")


def amend(store: Exported) -> None:
    (store.root / "draft").write_text("innocent\n")
    store.hg("remove", "-f", WORD)
    store.hg("amend", "-q", "-m", "innocent", "-u", "test")


def roll_back(store: Exported) -> None:
    store.hg("rollback", "-q", "--force")


EVENTS: dict[str, Callable[[Exported], None]] = {
    **hiding.EVENTS,
    "amended": amend,
    "rolled back": roll_back,
}


def git_in(store: Exported, *args: str, stdin: bytes = b"") -> None:
    """Run git as a user of the store would, with nobody's configuration."""
    command = ["git", *args]
    subprocess.run(command, cwd=store.git_dir, env=ENVIRONMENT, input=stdin, check=True)


def loosen(store: Exported) -> None:
    packs = [pack.read_bytes() for pack in store.packs()]
    for number, pack in enumerate(store.packs()):
        for suffix in ("pack", "idx"):
            path = pack.with_suffix(f".{suffix}")
            path.rename(path.with_suffix(f".{number}.aside"))
    for pack_bytes in packs:
        git_in(store, "unpack-objects", "-q", stdin=pack_bytes)
    for aside in list(store.packs_dir.glob("*.aside")):
        aside.unlink()
    for number, pack in enumerate(store.packs()):
        pack.write_bytes(packs[number])
        git_in(store, "index-pack", str(pack))


def keep_logs(store: Exported) -> None:
    (store.git_dir / "logs" / "refs" / "heads").mkdir(parents=True)
    oid = store.ids("2")[1]
    line = f"{'0' * 40} {oid} {WORD} <{WORD}> 1 +0000\tcommit\n"
    (store.git_dir / "logs" / "refs" / "heads" / "default").write_text(line)


#: Commands of git, or what else is done to a store.
HABITS: dict[str, list[str | Callable[[Exported], None]]] = {
    "leave alone": [],
    "collect garbage": ["gc -q"],
    "repack all": ["repack -q -a -d -f --pack-kept-objects"],
    "repack beside": ["repack -q -a --pack-kept-objects", "multi-pack-index write"],
    "loosen": [loosen],
    "summarise": ["commit-graph write --reachable --split", "update-server-info"],
    "keep logs": [keep_logs],
}


def have_habit(store: Exported, habit: str) -> None:
    for step in HABITS[habit]:
        git_in(store, *step.split()) if isinstance(step, str) else step(store)


@pytest.mark.parametrize("event", EVENTS)
def test_draft_that_is_no_longer_served_leaves_nothing(
    store: Exported, event: str
) -> None:
    store.hg("git::export")
    assert store.answers()
    base = store.docket()["base"]
    check_gone(store, event)
    # and the public changeset was not touched for it
    assert store.docket()["base"]["packs"] == base["packs"]


@pytest.mark.parametrize("habit", [*HABITS][1:])
def test_what_git_made_of_a_draft_goes_with_it(store: Exported, habit: str) -> None:
    store.hg("git::export")
    assert store.answers()
    have_habit(store, habit)
    check_gone(store, "amended")


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("event", ["secret", "stripped"])
def test_public_changeset_that_vanishes_leaves_nothing(
    store: Exported, event: str, habit: str
) -> None:
    store.hg("phase", "--public", "2")
    store.hg("git::export")
    assert not store.docket()["drafts"]["packs"]
    have_habit(store, habit)
    check_gone(store, event)


def check_gone(store: Exported, event: str) -> None:
    """Let the planted changeset vanish, and look for it everywhere."""
    _node, oid = store.ids("2")
    assert traces(store.amalgam, WORD.encode())
    EVENTS[event](store)
    assert not store.answers()
    said = store.run("git::verify")
    assert said.code == 1
    assert f"found commit {oid}, expected nothing" in said.out.decode()
    assert store.run("git::id", oid).code == 10
    store.hg("git::export")
    for trace in (WORD.encode(), bytes.fromhex(oid), oid.encode()):
        assert not traces(store.amalgam, trace)
    with pytest.raises(AssertionError):
        store.git("cat-file", "-e", oid)
    store.git("fsck", "--strict", "--full")
    assert store.run("git::verify", "--full").code == 0
    assert store.answers()
    check_ids(store)


def log(store: Exported) -> dict[str, str]:
    lines = store.hg("log", "-r", "not secret()", "-T", "{node} {gitnode}\n")
    return dict(line.split(" ") for line in lines.splitlines())


def metadata_of(store: Exported) -> str:
    return store.git("rev-parse", "refs/cinnabar/metadata")


def check_ids(store: Exported) -> None:
    """Compare ids with those of a clone that is exported at once, all public."""
    clone = store.root.parent / "clone"
    store.server.hg(store.root.parent, "clone", "-qU", "--pull", "repo", str(clone))
    served = Exported(clone, store.server)
    if served.hg("log", "-r", "draft()", "-T", "x"):
        served.hg("phase", "--public", "draft()")
    served.hg("git::export")
    assert log(store) == log(served)
    store.hg("git::export", "--metadata")
    assert metadata_of(store) == metadata_of(served)
    shutil.rmtree(clone)
    before = log(store)
    copy = store.copied(store.root.parent, "rebuilt")
    copy.hg("git::export", "--rebuild")
    assert log(copy) == before
    assert metadata_of(copy) == metadata_of(store)
    shutil.rmtree(copy.root)


def test_export_that_died_in_a_rewrite_is_refused_and_then_ended(
    store: Exported,
) -> None:
    store.hg("phase", "--public", "2")
    store.hg("git::export")
    oid = store.ids("2")[1]
    docket = Docket.parse(store.docket_path.read_bytes())
    dropped = docket.base.packs
    docket = docket._replace(base=Layer(), drafts=Layer(), refused=True)
    store.docket_path.write_bytes(docket._replace(dropped=dropped).format())
    assert not store.answers()
    said = store.run("git::id", oid)
    assert said.code == 20
    assert b"git store is being rewritten" in said.err
    assert (
        b"docket cinnabar.docket: found an unfinished rewrite"
        in store.run("git::verify").out
    )
    assert store.run("admin::amalgam").code == 1
    store.hg("git::export")
    assert store.ids("2")[1] == oid
    assert store.answers()


def test_publishing_all_drafts_converts_nothing(store: Exported) -> None:
    store.hg("git::export")
    before = store.docket()
    store.hg("phase", "--public", "2")
    assert "exported" not in store.hg("git::export")
    docket = store.docket()
    assert not docket["drafts"]["packs"]
    for what in ("packs", "segments"):
        assert docket["base"][what] == before["base"][what] + before["drafts"][what]
    assert all(pack.with_suffix(".keep").exists() for pack in store.packs())
    check_ids(store)


def test_publishing_some_drafts_leaves_the_others_in_packs_of_their_own(
    store: Exported,
) -> None:
    store.hg("git::export")
    store.hg("phase", "--public", "1")
    store.hg("git::export")
    docket = store.docket()
    packs = {f"{pack}.pack" for pack in docket["drafts"]["packs"]}
    assert len(packs) == 1
    listing = {Path(name).parts[-1] for name in traces(store.amalgam, WORD.encode())}
    assert listing
    assert listing <= packs
    check_ids(store)
    check_gone(store, "stripped")


def test_lost_drafts_are_made_again(store: Exported) -> None:
    store.hg("git::export")
    before = store.docket()
    for name in before["drafts"]["packs"]:
        (store.packs_dir / f"{name}.idx").unlink()
        done = store.run("git::export")
        assert done.err == b"warning: git store is incomplete: exporting drafts\n"
        assert b"exported 2 changesets" in done.out
        after = store.docket()
        assert after["base"]["packs"] == before["base"]["packs"]
        assert after["drafts"]["packs"] == before["drafts"]["packs"]
        check_ids(store)


def test_drafts_grow_without_being_made_again(store: Exported) -> None:
    store.hg("git::export")
    before = store.docket()["drafts"]["packs"]
    store.commit("more")
    assert "exported 1 changeset" in store.hg("git::export")
    assert store.docket()["drafts"]["packs"][:-1] == before
    check_ids(store)


# what changelogs have in common, and what not


@pytest.fixture
def replaced(tmp_path: Path, server: HgServer) -> Exported:
    """An exported store whose changeset 1 gave way to another below the same tip."""
    store = Exported.init(tmp_path / "repo", server)
    store.commit("root")
    for name in (WORD, "tip"):
        store.hg("update", "-q", "0")
        store.commit(name)
    bundle = str(tmp_path / "tip.hg")
    store.hg("bundle", "-q", "--base", "0", "-r", "tip", bundle)
    store.hg("git::export")
    strip = ("--config", "extensions.strip=", "strip", "-q", "--no-backup")
    store.hg(*strip, "1", "2")
    store.hg("update", "-q", "0")
    store.commit("other")
    store.hg("unbundle", "-q", bundle)
    store.hg("phase", "--public", "all()")
    return store


def test_part_is_not_exported_beside_what_was_replaced(replaced: Exported) -> None:
    store = replaced
    assert not store.answers()
    store.hg("git::export", "-r", "tip")
    assert not traces(store.amalgam, WORD.encode())
    store.hg("git::export")
    check_ids(store)


# what the server does not show


def test_git_is_not_shown_what_the_server_hides_from_hg(store: Exported) -> None:
    store.hg("git::export")
    add_config(store.root, "[server]\nview = immutable\n")
    assert not store.answers()
    store.hg("git::export")
    assert not traces(store.amalgam, WORD.encode())
    assert store.answers()
    assert store.run("git::verify", "--full").code == 0


@pytest.mark.parametrize("view", ["visible", "served.hidden"])
def test_what_the_server_shows_in_addition_does_not_leave(
    store: Exported, view: str
) -> None:
    store.hg("phase", "--force", "--secret", "2")
    add_config(store.root, f"[server]\nview = {view}\n")
    store.hg("git::export")
    assert not traces(store.amalgam, WORD.encode())
    assert "draft" in store.git("log", "--format=%s", "refs/heads/default")


def test_view_that_is_not_known_is_an_error(store: Exported) -> None:
    said = store.run("git::export", "--config", "server.view=imutable")
    assert said.code == 30
    assert said.err.splitlines() == [
        b"config error: invalid value 'imutable' for server.view "
        b"(expected visible, served, immutable or base)",
    ]


# rev 1 is a draft that has the commit of rev 2, which is public
@pytest.fixture
def colliding(tmp_path: Path, server: HgServer) -> Exported:
    store = hiding.unpublished(tmp_path / "repo", server, CONFIG)
    store.commit("root")
    for branch in ("one", "two"):
        store.hg("update", "-q", "0")
        store.hg("branch", "-q", branch)
        store.commit("same")
    store.commit("child")
    store.hg("phase", "--public", "3")
    return store


def test_public_changeset_after_a_draft_with_its_commit_gets_another(
    colliding: Exported,
) -> None:
    store = colliding
    store.hg("git::export")
    check_ids(store)
    assert len(store.docket()["held"]) == 1
    store.hg("git::export", "--rebuild")
    check_ids(store)
    store.commit("grandchild")
    store.hg("git::export")
    check_ids(store)
    # without the draft it has that commit itself
    store.hg("debugobsolete", store.ids("1")[0])
    assert "exported" in store.hg("git::export")
    check_ids(store)
    assert not store.docket()["held"]


def test_draft_that_appears_before_a_public_changeset_takes_its_commit(
    colliding: Exported,
) -> None:
    store = colliding
    store.hg("phase", "--force", "--secret", "1")
    store.hg("git::export")
    plain = store.ids("2")[1]
    store.hg("phase", "--draft", "1")
    store.hg("git::export")
    assert store.ids("1")[1] == plain
    assert store.ids("2")[1] != plain
    check_ids(store)
    store.hg("phase", "--public", "1")
    store.hg("git::export")
    assert not store.docket()["drafts"]["packs"]
    check_ids(store)


def test_parts_in_any_order_give_the_ids_of_all_at_once(colliding: Exported) -> None:
    store = colliding
    for revs in ("3", "1", "all()"):
        store.hg("git::export", "-r", revs)
    store.hg("git::export")
    check_ids(store)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(int(os.environ.get("SEEDS", "6"))))
def test_any_events_give_the_ids_of_what_is_served(
    tmp_path: Path, server: HgServer, seed: int
) -> None:
    draw = random.Random(seed)
    store = hiding.unpublished(tmp_path / "repo", server, CONFIG)
    store.commit("root")
    store.hg("phase", "--public", ".")
    for _event in range(25):
        change(store, draw)
        if draw.random() < 0.6:
            options = ["-r", "last(all(), 3)"] if draw.random() < 0.2 else []
            done = store.run("git::export", *options)
            assert done.code == 0 or (options and b"not exported: " in done.err)
    store.hg("git::export")
    assert store.run("git::verify", "--full").code == 0
    store.git("fsck", "--strict", "--full")
    check_ids(store)


def change(store: Exported, draw: random.Random) -> None:
    """Do one random thing, of those that work."""
    revs = store.hg("log", "-r", "all()", "-T", "{rev} ").split()
    rev = draw.choice(revs)
    event = draw.choice(
        ["commit"] * 8 + ["publish"] * 3 + ["secret", "draft", "strip", "obsolete"]
    )
    if event == "commit":
        # of little variety, so that different changesets have the same commit
        store.hg("update", "-qC", draw.choice(revs[:3]))
        store.hg("branch", "-qf", draw.choice(["one", "two", "three"]))
        (store.root / "file").write_text(f"{draw.randrange(2)}\n")
        store.run("commit", "-qAm", "same", "-d", "0 0")
    elif event == "publish":
        store.run("phase", "--public", draw.choice(revs[-4:]))
    elif rev == "0":
        pass
    elif event == "secret":
        store.run("phase", "--force", "--secret", rev)
    elif event == "draft":
        store.run("phase", "--draft", rev)
    elif event == "strip":
        store.run("strip", "-q", "--no-backup", rev)
    elif event == "obsolete":
        node = store.hg("log", "-r", rev, "-T", "{node}")
        store.hg("update", "-qC", "null")
        store.run("debugobsolete", node)


@pytest.mark.torture
@pytest.mark.parametrize("phase", ["draft", "public"])
@pytest.mark.parametrize("event", ["secret", "stripped"])
def test_export_killed_anywhere_answers_nothing_that_is_gone(
    store: Exported, tmp_path: Path, event: str, phase: str
) -> None:
    if phase == "public":
        store.hg("phase", "--public", "2")
    store.hg("git::export")
    oid = store.ids("2")[1]
    EVENTS[event](store)
    scratch = tmp_path / "scratch"
    taken = killpoints.at_each(store.root, scratch, "git::export", gone=oid)
    assert sum(taken.values()) > 20
    assert not traces(scratch / "repo" / ".hg" / "amalgam", WORD.encode())
