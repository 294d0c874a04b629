"""Drafts that vanish or become public, among others that stay.

The oracle is an export of the same repository from nothing: ids, refs, and every object
in the packs.
"""

from __future__ import annotations

import errno
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from testlib import hiding, killpoints
from testlib.environment import captured
from testlib.exported import Exported
from testlib.hgserver import HgServer

from hgext3rd.amalgam.gitstore.docket import Docket
from hgext3rd.amalgam.gitstore.export import export as exportmod
from hgext3rd.amalgam.gitstore.export.conversion import ExportConversion
from hgext3rd.amalgam.gitstore.export.export import Report, export
from hgext3rd.amalgam.gitstore.export.metadatacommit import Covers
from hgext3rd.amalgam.gitstore.git import packfiles

CONFIG = """
[ui]
merge = :local
allowemptycommit = yes
"""
TEXTS = ["one\n" * 40, "two\n" * 40, "three\n" * 40, "\x01\nodd\n"]
FILES = ["a", "b", "dir/a", "dir/b", "dir/below/a", "other/a"]


@pytest.fixture
def store(tmp_path: Path, server: HgServer) -> Exported:
    """A public changeset in a repository that publishes nothing else by itself."""
    store = hiding.unpublished(tmp_path / "repo", server, CONFIG)
    for name in FILES:
        write(store, name, f"{name}\n" * 40)
    store.hg("commit", "-qAm", "public", "-d", "0 0")
    store.hg("phase", "--public", ".")
    return store


def write(store: Exported, name: str, text: str) -> None:
    path = store.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def exported(store: Exported, **options: Any) -> Report:
    """Export in this process."""
    return export(store.git_store(), **options)


def ids(store: Exported) -> dict[str, str]:
    """Return the commit of each changeset that is served."""
    lines = store.hg("log", "-r", "not secret()", "-T", "{node} {gitnode}\n")
    return dict(line.split(" ") for line in lines.splitlines())


def objects(store: Exported) -> set[bytes]:
    """Return all objects of the store but those of the metadata commit."""
    docket = Docket.parse(store.docket_path.read_bytes())
    packs = store.git_store().repository.packs_directory
    return {*packfiles.distinct_ids(packs, docket.base.packs + docket.drafts.packs)}


def check(store: Exported) -> None:
    """Compare the store with one that is made from nothing."""
    store.git("fsck", "--connectivity-only")
    copy = store.copied(store.root.parent, "copy")
    exported(copy, covers=Covers.ALL)
    copy.git("fsck", "--connectivity-only")
    refs = copy.git("show-ref")
    exported(copy, covers=Covers.ALL, rebuild=True)
    assert ids(store) == ids(copy)
    assert objects(store) == objects(copy)
    assert refs == copy.git("show-ref")
    shutil.rmtree(copy.root)


class Events:
    """Things that happen to a repository, drawn at random."""

    def __init__(self, store: Exported, seed: int) -> None:
        self.store = store
        self.draw = random.Random(seed)
        self.date = 0

    def revs(self, revset: str) -> list[str]:
        return self.store.hg("log", "-r", revset, "-T", "{node}\n").split()

    def one_of(self, revset: str) -> str:
        return self.draw.choice(self.revs(revset) or ["null"])

    def run(self, *command: str, on: str) -> None:
        """Run a command of hg on one of the changesets of ``on``, if there are any."""
        if revs := self.revs(on):
            self.store.run(*command, self.draw.choice(revs))

    def edit(self) -> None:
        for name in self.draw.sample(FILES, self.draw.choice([1, 1, 2])):
            write(self.store, name, self.draw.choice(TEXTS))

    def update(self, revset: str) -> bool:
        rev = self.one_of(revset)
        self.store.hg("update", "-qC", rev)
        return rev != "null"

    def commit(self) -> None:
        self.update("heads(all())" if self.draw.random() < 0.7 else "all()")
        self.edit()
        self.finish()

    def finish(self) -> None:
        self.date += self.draw.choice([0, 1])
        self.store.hg("commit", "-qAm", "m", "-d", f"{self.date} 0")

    def copy(self) -> None:
        self.update("all()")
        command = self.draw.choice(["copy", "rename"])
        self.store.run(command, "-q", "-f", self.draw.choice(FILES), "copied")
        self.finish()

    def twin(self) -> None:
        """Make changesets with one commit, but for line feeds."""
        self.update("all()")
        parent = self.revs(".")[0]
        text, self.date = self.draw.choice(TEXTS) + "twin\n", self.date + 1
        for branch in self.draw.sample(["default", "x", "y", "z"], 3):
            self.store.hg("update", "-qC", parent)
            write(self.store, "a", text)
            self.store.hg("branch", "-qf", branch)
            self.store.hg("commit", "-qAm", "twin", "-d", f"{self.date} 0")

    def merge(self) -> None:
        if self.update("heads(all())"):
            self.store.run("merge", "-q", self.one_of("heads(all()) - ."))
            self.finish()

    def graft(self) -> None:
        if self.update("heads(all())"):
            self.store.run("graft", "-q", self.one_of("draft() - merge()"))
            self.store.run("graft", "--abort")

    def amend(self) -> None:
        if self.update("draft() and head()"):
            if self.draw.random() < 0.6:
                self.edit()
            self.store.run("amend", "-q", "-m", self.draw.choice(["m", "n"]))

    def hide(self) -> None:
        rev = self.one_of("draft()")
        self.store.hg("update", "-qC", "0")
        for node in self.revs(f"{rev}:: and draft()"):
            self.store.run("debugobsolete", node)

    def strip(self) -> None:
        self.store.hg("update", "-qC", "0")
        self.run("strip", "-q", "--no-backup", on="draft()")

    def keep_secret(self) -> None:
        self.run("phase", "--force", "--secret", on="draft()")

    def show(self) -> None:
        self.run("phase", "--draft", "--force", on="secret()")

    def publish(self) -> None:
        self.run("phase", "--public", on="draft()")

    def bookmark(self) -> None:
        name = self.draw.choice(["one", "two", "three"])
        self.run("bookmark", "-qfi", name, "-r", on="draft()")


GROWTH = ["commit"] * 5 + ["copy", "merge", "graft", "bookmark"]
MOVES = ["amend", "amend", "hide", "strip", "keep_secret", "show", "publish", "publish"]


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("growth", [[*GROWTH, "twin"], GROWTH], ids=["twins", ""])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_to_drafts_the_store_is_as_if_made_at_once(
    store: Exported, seed: int, growth: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Events(store, seed)
    keep_recent(monkeypatch, *events.draw.choice([(3, 6), (100, 200)]))
    for _event in range(25):
        getattr(events, events.draw.choice(growth))()
    exported(store)
    for _round in range(12):
        for _event in range(events.draw.choice([1, 1, 2])):
            getattr(events, events.draw.choice(MOVES))()
        for _event in range(events.draw.choice([0, 0, 1])):
            getattr(events, events.draw.choice(growth))()
        exported(store)
        check(store)
    assert store.run("git::verify", "--full").out.endswith(b"\nno differences\n")


@pytest.fixture
def stacks(store: Exported) -> Exported:
    """Drafts on three heads, each with a bookmark, which share file revisions."""
    for name in ("one", "two", "three"):
        store.hg("update", "-qC", "0")
        for number in range(4):
            write(store, "a", f"shared {number}\n" * 40)
            write(store, f"dir/{name}", f"{name} {number}\n" * 40)
            store.hg("commit", "-qAm", f"{name} {number}", "-d", f"{number} 0")
        store.hg("bookmark", "-ir", ".", name)
    store.hg("git::export")
    return store


def amend(store: Exported, bookmark: str, text: str) -> None:
    store.hg("update", "-qC", bookmark)
    write(store, f"dir/{bookmark}", text)
    store.hg("amend", "-q")
    store.hg("bookmark", "-fir", ".", bookmark)


def test_other_drafts_can_be_fetched_all_the_time(
    stacks: Exported, tmp_path: Path
) -> None:
    ended, failures, fetched = threading.Event(), list[bytes](), list[str]()

    def fetch() -> None:
        while not ended.is_set():
            clone = str(tmp_path / f"clone{len(fetched)}")
            command = ["git", "clone", "-q", "--bare", "--single-branch", "-b", "three"]
            done = captured([*command, f"file://{stacks.git_dir}", clone])
            if done.returncode:
                failures.append(done.stderr)
            fetched.append(clone)

    thread = threading.Thread(target=fetch)
    thread.start()
    try:
        for number in range(4):
            amend(stacks, "one", f"amended {number}\n")
            stacks.hg("git::export")
        stacks.hg("phase", "--public", "two")
        stacks.hg("git::export")
    finally:
        ended.set()
        thread.join()
    assert not failures
    assert fetched
    check(stacks)


def test_vanished_draft_goes_even_if_the_others_cannot_be_converted(
    stacks: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = stacks.git("rev-parse", "one")
    amend(stacks, "one", "amended\n")

    def fail(*_args: Any, **_options: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(ExportConversion, "run", fail)
        with pytest.raises(OSError, match="no space"):
            exported(stacks)
    assert bytes.fromhex(gone.strip()) not in objects(stacks)
    exported(stacks)
    check(stacks)


def keep_recent(monkeypatch: pytest.MonkeyPatch, least: int, most: int) -> None:
    """Set how many drafts are recent after a conversion, and at most."""
    monkeypatch.setattr(exportmod, "_LEAST_RECENT", least)
    monkeypatch.setattr(exportmod, "_MOST_RECENT", most)


def test_older_drafts_stay_when_a_recent_one_changes(
    stacks: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_recent(monkeypatch, 4, 6)
    amend(stacks, "one", "amended\n")
    assert exported(stacks).changesets == 12  # all were recent
    older = {*stacks.docket()["drafts"]["packs"]} - {*stacks.docket()["recent"]}
    for text in ("again\n", "once more\n"):
        amend(stacks, "one", text)
        report = exported(stacks)
        assert (report.changesets, report.gone, report.again) == (4, 1, False)
        assert older <= {*stacks.docket()["drafts"]["packs"]}
        check(stacks)
    amend(stacks, "two", "amended\n")
    report = exported(stacks)
    assert (report.changesets, report.gone, report.again) == (12, 1, True)
    check(stacks)


def test_recent_drafts_become_older_ones_when_they_are_many(
    stacks: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_recent(monkeypatch, 4, 6)
    amend(stacks, "one", "amended\n")
    converted = []
    for number in range(5):
        stacks.hg("update", "-q", "one")
        write(stacks, "b", f"{number}\n")
        stacks.hg("commit", "-qm", f"more {number}", "-d", "9 0")
        stacks.hg("bookmark", "-fir", ".", "one")
        converted.append(exported(stacks).changesets)
    # of 4 recent ones, 7 are too many for an 8th
    assert converted == [13, 1, 1, 1, 8]
    check(stacks)


def test_public_changesets_below_drafts_convert_no_draft(stacks: Exported) -> None:
    before = stacks.docket()["drafts"]
    stacks.hg("update", "-qC", "0")
    write(stacks, "b", "more\n")
    stacks.hg("commit", "-qm", "more", "-d", "9 0")
    stacks.hg("phase", "--public", ".")
    assert "exported 1 changeset" in stacks.hg("git::export")
    assert stacks.docket()["drafts"]["packs"] == before["packs"]
    check(stacks)


def test_publication_converts_nothing(stacks: Exported) -> None:
    before = {*stacks.docket()["drafts"]["packs"]}
    stacks.hg("phase", "--public", "two~2")
    assert exported(stacks).changesets == 0
    stacks.hg("update", "-qC", "two~2")
    write(stacks, "b", "more\n")
    stacks.hg("commit", "-qm", "public, on one that was a draft", "-d", "9 0")
    stacks.hg("phase", "--public", ".", "one~3")
    assert exported(stacks).changesets == 1
    assert before < {*stacks.docket()["drafts"]["packs"]}
    assert len(stacks.docket()["published"]) == 2
    check(stacks)
    assert "no differences" in stacks.hg("git::verify", "--full")
    # the first conversion again moves the public ones
    amend(stacks, "three", "amended\n")
    assert (exported(stacks).changesets, stacks.docket()["published"]) == (13, [])
    check(stacks)


def test_layer_of_public_changesets_alone_is_promoted(
    stacks: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_recent(monkeypatch, 4, 6)
    amend(stacks, "one", "amended\n")
    exported(stacks)  # all but the last four are older ones
    base = {*stacks.docket()["base"]["packs"]}
    older = {*stacks.docket()["drafts"]["packs"]} - {*stacks.docket()["recent"]}
    stacks.hg("phase", "--public", "one~1", "two", "three~3")
    assert exported(stacks).changesets == 0
    assert {*stacks.docket()["base"]["packs"]} == base | older
    check(stacks)
    stacks.hg("phase", "--public", "all()")
    assert exported(stacks).changesets == 0
    assert stacks.docket()["drafts"]["packs"] == []
    check(stacks)


def test_public_changesets_with_many_roots_move(
    stacks: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exportmod, "_MOST_PUBLISHED", 1)
    stacks.hg("phase", "--public", "one~3", "two~3")
    assert exported(stacks).changesets == 12
    assert stacks.docket()["published"] == []
    check(stacks)


def test_published_root_that_is_a_draft_again_is_one(stacks: Exported) -> None:
    stacks.hg("phase", "--public", "two~2")
    exported(stacks)
    stacks.hg("phase", "--draft", "--force", "two~3")
    assert exported(stacks).changesets == 0
    assert stacks.docket()["published"] == []
    stacks.hg("phase", "--public", "two~2")
    exported(stacks)
    stacks.hg("update", "-qC", "0")
    stacks.hg("strip", "-q", "--no-backup", "two~3")
    exported(stacks)
    check(stacks)


def test_public_twin_of_a_draft_gets_the_id_of_an_export_from_nothing(
    stacks: Exported,
) -> None:
    stacks.hg("update", "-qC", "two~1")
    stacks.hg("branch", "-q", "twin")
    for name, text in (("a", "shared 3\n"), ("dir/two", "two 3\n")):
        write(stacks, name, text * 40)
    stacks.hg("commit", "-qm", "two 3", "-d", "3 0")
    stacks.hg("phase", "--public", ".")
    stacks.hg("git::export")
    check(stacks)
    stacks.hg("phase", "--public", "two")
    stacks.hg("git::export")
    check(stacks)


@pytest.mark.torture
@pytest.mark.slow
def test_publishing_that_is_killed_ends_as_if_it_was_not(
    stacks: Exported, tmp_path: Path
) -> None:
    stacks.hg("phase", "--public", "two~1")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert killpoints.at_each(stacks.root, scratch, "git::export", lacks="link")
