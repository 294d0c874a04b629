"""Whether a changelog still begins as it did at an export, its index mapped or read."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testlib.environment import add_config
from testlib.exported import STRIP, Exported
from testlib.generated import generate
from testlib.hgserver import HgServer

from hgext3rd.amalgam.gitstore import checkpoint, selection
from hgext3rd.amalgam.gitstore.docket import Docket
from hgext3rd.amalgam.index import opening

pytestmark = pytest.mark.slow

MAPPED = "[experimental]\nmmapindexthreshold = 0\n"
ENTRY_BYTES = 64
CHANGESETS = 1000  # fewer, and the indexes are inline


@pytest.fixture
def store(tmp_path: Path, server: HgServer) -> Exported:
    """An export of a repository that maps its indexes."""
    root = generate(tmp_path / "repo", "merges", "--changesets", str(CHANGESETS))
    add_config(root, "[phases]\nnew-commit = public\n" + MAPPED)
    made = Exported(root, server)
    made.hg("git::export")
    made.hg("update", "-q", "tip")
    return made


def seen(store: Exported) -> list[checkpoint.Checkpoint]:
    return list(Docket.parse(store.docket_path.read_bytes()).drafts.seen)


def changelog_of(store: Exported) -> Any:
    return store.open().unfiltered().changelog


def begins(store: Exported) -> bool:
    return checkpoint.begins_with(changelog_of(store), seen(store)[-1])


def check(store: Exported) -> None:
    """Export, and compare with an export from nothing."""
    store.hg("git::export")
    done = store.run("git::verify", "--full")
    assert done.code == 0, done


def test_checkpoint_names_the_snapshot(store: Exported) -> None:
    opened = opening.opened_index(changelog_of(store))
    assert opened is not None
    assert opened.snapshot is not None
    (place,) = seen(store)
    assert place.nodes.startswith(f"{opened.snapshot.uid.decode()}-{CHANGESETS}-")
    for number in range(3):
        store.commit_nothing(f"{number}")
        assert begins(store)
    check(store)
    assert seen(store)[-1].len == CHANGESETS + 3


def test_growing_snapshot_still_begins_as_it_did(store: Exported) -> None:
    for number in range(CHANGESETS // 8):  # more than a sixteenth
        store.commit_nothing(f"{number}")
    opened = opening.opened_index(changelog_of(store))
    assert opened is not None
    assert opened.snapshot is not None
    assert opened.snapshot.length_bytes > CHANGESETS * ENTRY_BYTES
    assert begins(store)
    check(store)


def below(store: Exported) -> None:
    """Replace a changeset, and have the same last one."""
    bundle = os.fspath(store.root / "tip.hg")
    store.commit_nothing("goes")
    store.hg("update", "-q", "-r", ".^")
    store.commit_nothing("stays")
    store.hg("bundle", "-q", "--base", ".^", "-r", ".", bundle)
    store.hg("git::export")
    store.hg(*STRIP, "-r", f"{CHANGESETS}:")
    store.commit_nothing("other")
    store.hg("unbundle", "-q", bundle)


def long_ago(store: Exported) -> None:
    store.hg(*STRIP, "-r", str(CHANGESETS // 2))


def last(store: Exported) -> None:
    """Replace the last changeset by another."""
    store.hg(*STRIP, "-r", "tip")
    store.commit_nothing("other")


@pytest.mark.parametrize("rewrite", [below, long_ago, last])
def test_rewritten_history_is_noticed(
    store: Exported, rewrite: Callable[[Exported], None]
) -> None:
    rewrite(store)
    assert not begins(store)
    repo = store.open()
    selected = selection.select(repo, b"served")
    assert selected.known_below(repo, seen(store)) == 0
    check(store)


def test_rollback_in_a_transaction_is_noticed(store: Exported) -> None:
    store.commit_nothing("one")
    store.hg("git::export")
    before = begins(store)
    store.run("commit", "-m", "no", "--config", "hooks.pretxncommit=false")
    assert before
    assert begins(store)
    check(store)


def test_foreign_rewriting_is_noticed(store: Exported) -> None:
    """One that no process with amalgam saw, of the same length."""
    index = store.root / ".hg" / "store" / "00changelog.i"
    content = bytearray(index.read_bytes())
    first = slice(5 * ENTRY_BYTES + 32, 5 * ENTRY_BYTES + 52)
    content[first] = bytes(reversed(content[first]))
    index.write_bytes(content)
    assert not begins(store)


@pytest.mark.parametrize("mapped", [True, False])
def test_configuration_may_change(store: Exported, mapped: bool) -> None:
    hgrc = store.root / ".hg" / "hgrc"
    plain = hgrc.read_text().replace(MAPPED, "")
    if mapped:
        store.hg("git::export")
    hgrc.write_text(plain)
    assert not begins(store)
    store.commit_nothing("read")
    check(store)
    assert "-" not in seen(store)[-1].nodes
    hgrc.write_text(plain + MAPPED)
    assert begins(store)
    store.commit_nothing("mapped")
    check(store)
    assert "-" in seen(store)[-1].nodes


# what the core does with an index that is mapped


@pytest.mark.parametrize("name", ["00changelog.i", "00manifest.i"])
def test_damaged_entry_that_is_used_ends_an_export(store: Exported, name: str) -> None:
    index = store.root / ".hg" / "store" / name
    store.commit_nothing("one")
    (store.root / "new").write_text("new\n")
    store.hg("commit", "-qAm", "two")
    content = bytearray(index.read_bytes())
    rev = len(content) // ENTRY_BYTES - 1
    content[-ENTRY_BYTES + 8 : -ENTRY_BYTES + 12] = struct.pack(">i", -7)
    index.write_bytes(content)
    done = store.run("git::export")
    what = name.removeprefix("00").removesuffix(".i")
    assert (
        f"abort: {what}: revision {rev}: its compressed length -7" in done.err.decode()
    )
    assert done.code == 50


def test_damaged_entry_that_nobody_uses_is_left_alone(store: Exported) -> None:
    index = store.root / ".hg" / "store" / "00manifest.i"
    content = bytearray(index.read_bytes())
    content[5 * ENTRY_BYTES + 8 : 5 * ENTRY_BYTES + 12] = struct.pack(">i", -7)
    index.write_bytes(content)
    store.commit_nothing("one")
    store.hg("git::export")
    assert store.run("git::verify", "--full").code != 0


# an index that is read


@pytest.mark.parametrize("form", ["as it is", "inline"])
def test_digest_tells_changelogs_apart(
    empty: Exported, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    store = empty
    for number in range(12):
        store.commit_nothing(f"{number}")
    if form == "inline":  # or any other that is asked for its nodes
        monkeypatch.setattr(checkpoint, "_PLAIN_HEADERS", ())
    monkeypatch.setattr(checkpoint, "_PIECE_ENTRIES", 2)
    changelog = store.open().unfiltered().changelog
    whole = checkpoint.changelog_digest(changelog, 12)
    # in steps as at once
    monkeypatch.setattr(checkpoint, "_of_files", {})
    changelog = store.open().unfiltered().changelog
    steps = [checkpoint.changelog_digest(changelog, count) for count in (3, 7, 12)]
    assert steps[-1] == whole
    assert len({*steps}) == 3


def test_entries_are_hashed_once_for_the_stats_of_their_file(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    hgrc = store.root / ".hg" / "hgrc"
    hgrc.write_text(hgrc.read_text().replace(MAPPED, ""))
    index = store.root / ".hg" / "store" / "00changelog.i"
    piece, hashed = checkpoint._piece, []

    def counted(changelog: Any, file: Any, start: int, end: int) -> bytes:
        hashed.append((start, end))
        return piece(changelog, file, start, end)

    def digest(count: int) -> str:
        return checkpoint.changelog_digest(changelog_of(store), count)

    monkeypatch.setattr(checkpoint, "_piece", counted)
    monkeypatch.setattr(checkpoint, "_PIECE_ENTRIES", 8)
    monkeypatch.setattr(checkpoint, "_of_files", {})
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 10**9)
    before = digest(9)
    assert digest(9) == before
    digest(12)
    shorter = digest(10)
    assert hashed == [(0, 8), (8, 9), (9, 12), (9, 10)]
    assert shorter not in (before, digest(12))
    content = bytearray(index.read_bytes())
    content[100] ^= 1
    index.write_bytes(content)
    changed = digest(9)
    assert changed != before
    # one that has just changed may change again
    monkeypatch.setattr(time, "time_ns", time.monotonic_ns)
    content[100] ^= 1
    index.write_bytes(content)
    assert digest(9) == before
    assert hashed[4:] == [(0, 8), (8, 9)] * 2
