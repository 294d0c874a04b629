"""git-cinnabar's metadata: who sees it, how it grows, and what becomes of damage.

That it is git-cinnabar's is for ``test_vectors`` and the oracle to say. What an export
from nothing makes is taken as right here.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from testlib import killpoints
from testlib.environment import add_config, git
from testlib.exported import Exported, edit, remove_pack
from testlib.generated import generate
from testlib.hgserver import HgServer

from hgext3rd.amalgam.gitstore import verify
from hgext3rd.amalgam.gitstore.status import repair

pytestmark = pytest.mark.slow

REF = "refs/cinnabar/metadata"

Fault = Callable[[Exported], str]
"""Damages a store, and returns the line that tells so, as a regular expression."""


def commit_of(store: Exported) -> str:
    return store.git("rev-parse", REF)


def parts_of(store: Exported) -> list[str]:
    return store.git("rev-parse", f"{REF}^@").split()


def packs_of(store: Exported) -> list[str]:
    docket = store.docket()
    return [*docket["base_commit"]["packs"], *docket["drafts_commit"]["packs"]]


def segments_of(store: Exported) -> list[Path]:
    return [store.map_dir / name for name in store.named("metadata_segments")]


def packed_refs(store: Exported) -> str:
    return (store.git_dir / "packed-refs").read_text()


def behind(store: Exported) -> int:
    return int(store.hg("admin::amalgam", "-T", "{metadata_behind}"))


def rebuilt(store: Exported) -> str:
    """Return the metadata commit that an export from nothing makes."""
    shutil.rmtree(store.root.with_name("fresh"), ignore_errors=True)
    other = store.copied(store.root.parent, "fresh")
    other.hg("git::export", "--rebuild")
    return commit_of(other)


def verified(store: Exported, full: bool = False) -> list[str]:
    findings = verify.run(store.git_store(), full=full)
    return [f"{difference.line().decode()}\n" for difference in findings.differences]


# Who sees it


def test_git_users_do_not_see_it(store: Exported, tmp_path: Path) -> None:
    assert "cinnabar" not in git(tmp_path, "ls-remote", str(store.git_dir)).decode()
    git(tmp_path, "clone", "-q", "--mirror", str(store.git_dir), "mirror.git")
    mirror = tmp_path / "mirror.git"
    assert "cinnabar" not in git(mirror, "for-each-ref").decode()
    git(mirror, "fsck", "--full", "--strict")


def test_nothing_exported_has_none(empty: Exported) -> None:
    empty.hg("git::export")
    assert empty.git("for-each-ref") == ""
    assert empty.hg("git::export", "--metadata") == "nothing new to export\n"
    assert empty.git("for-each-ref") == ""
    assert not segments_of(empty)
    assert not packs_of(empty)


def test_it_needs_nothing_that_is_not_there(store: Exported) -> None:
    git(store.git_dir, "rev-list", "--objects", REF)
    kinds = store.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
    assert {"commit", "tree", "blob"} <= set(kinds.split())
    store.git("fsck", "--full", "--strict", "--no-dangling")


# How it grows


@pytest.mark.parametrize("profile", ["merges", "realistic", "many-heads"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.torture)])
def test_steps_lead_where_one_export_leads(
    tmp_path: Path, server: HgServer, profile: str, seed: int
) -> None:
    sizes = ["--changesets=400"]
    if profile == "many-heads":
        sizes.append("--heads=300")
    steps = Exported(
        generate(tmp_path / "steps", profile, *sizes, f"--seed={seed}"), server
    )
    draw = random.Random(seed)
    for _ in range(8):
        revs = [str(draw.randrange(400)) for _ in range(draw.randrange(1, 5))]
        names = ["--metadata"] * draw.randrange(2)
        steps.hg("git::export", "-r", "+".join(revs), *names)
    steps.hg("git::export", "--metadata")
    assert verified(steps, full=True) == []
    assert commit_of(steps) == rebuilt(steps)


def test_a_part_of_the_history_has_the_metadata_of_a_clone_of_it(
    tmp_path: Path, server: HgServer
) -> None:
    whole = Exported(generate(tmp_path / "whole", "merges", "--changesets=200"), server)
    for rev in ("3", "120"):
        server.hg(
            tmp_path, "clone", "-q", "-U", "-r", rev, str(whole.root), f"part{rev}"
        )
        part = Exported(tmp_path / f"part{rev}", server)
        part.hg("git::export")
        whole.hg("git::export", "-r", rev, "--metadata")
        assert commit_of(whole) == commit_of(part)


def grow(store: Exported, count: int = 1) -> None:
    for number in range(count):
        store.commit_nothing(f"more {number}")
        store.hg("git::export")


def test_exports_leave_it_behind_until_it_is_asked_for(store: Exported) -> None:
    before, packs = commit_of(store), packs_of(store)
    assert behind(store) == 0
    grow(store, 3)
    assert (commit_of(store), packs_of(store)) == (before, packs)
    assert behind(store) == 3
    assert "metadata      3 changesets behind" in store.hg("admin::amalgam")
    git(store.git_dir, "rev-list", "--objects", "--quiet", REF)
    assert verified(store, full=True) == []
    assert store.hg("git::export", "--metadata") == "nothing new to export\n"
    assert behind(store) == 0
    assert commit_of(store) == rebuilt(store)
    assert len(packs_of(store)) == 1
    assert {pack.stem for pack in store.packs()} == {
        pack.stem for pack in store.packs_dir.glob("*.pack")
    }
    assert before not in store.git("cat-file", "--batch-all-objects", "--batch-check")
    after = store.docket()
    store.hg("git::export", "--metadata")
    assert store.docket() == after


def test_verification_brings_it_up_to_date(store: Exported) -> None:
    grow(store)
    assert store.run("git::verify", "--full").code == 0
    assert behind(store) == 0
    assert commit_of(store) == rebuilt(store)
    docket = store.docket_path.read_bytes()
    assert store.run("git::verify").code == 0
    assert store.docket_path.read_bytes() == docket


def nothing_is_in_order(store: Exported) -> None:
    (store.git_dir / "refs/heads/other").write_text(commit_of(store) + "\n")
    packed = store.git_dir / "packed-refs"
    packed.write_text(packed.read_text().replace("refs/heads/default", "refs/heads/x"))


def a_pack_is_lost(store: Exported) -> None:
    remove_pack(store.packs()[0])


def some_are_secret(store: Exported) -> None:
    store.hg("phase", "--force", "--secret", "-r", "tip")


@pytest.mark.parametrize("what", [nothing_is_in_order, a_pack_is_lost, some_are_secret])
def test_verification_leaves_a_store_alone_in_which_something_is_wrong(
    store: Exported, what: Callable[[Exported], None]
) -> None:
    grow(store)
    what(store)
    refs, docket = packed_refs(store), store.docket_path.read_bytes()
    assert store.run("git::verify").code == 1
    assert packed_refs(store) == refs
    assert store.docket_path.read_bytes() == docket


def test_verification_does_not_wait_for_an_export(store: Exported) -> None:
    grow(store)
    lock = store.amalgam / "lock"
    lock.symlink_to(f"{socket.gethostname()}:{os.getpid()}")
    assert store.run("git::verify").code == 0
    assert behind(store) == 1
    lock.unlink()


def test_drafts_take_it_with_them(store: Exported) -> None:
    """What it leads to may not be read any more."""
    add_config(store.root, "[phases]\nnew-commit = draft\n[extensions]\nstrip =\n")
    public = commit_of(store)
    grow(store, 2)
    store.hg("git::export", "--metadata")
    drafts = commit_of(store)
    assert drafts == rebuilt(store) != public
    grow(store)
    assert commit_of(store) == drafts
    assert behind(store) == 1
    store.hg("strip", "--no-backup", "-r", "tip")
    store.hg("git::export")
    assert commit_of(store) == public
    assert behind(store) == 2
    assert drafts not in store.git("cat-file", "--batch-all-objects", "--batch-check")
    store.hg("phase", "--public", "-r", "tip")
    store.hg("git::export")
    assert commit_of(store) == public
    assert store.hg("git::export", "--metadata") == "nothing new to export\n"
    assert commit_of(store) == drafts == rebuilt(store)


def test_it_goes_if_what_it_names_may_not_be_read(empty: Exported) -> None:
    grow(empty, 1)
    shutil.rmtree(empty.amalgam)
    add_config(empty.root, "[phases]\nnew-commit = draft\n[extensions]\nstrip =\n")
    grow(empty, 1)  # the first export is of both
    before = commit_of(empty)
    assert before == rebuilt(empty)
    empty.hg("strip", "--no-backup", "-r", "tip")
    empty.hg("git::export")
    assert empty.git("for-each-ref", REF) == ""
    assert before not in empty.git("cat-file", "--batch-all-objects", "--batch-check")
    assert behind(empty) == 1
    assert verified(empty, full=True) == []
    empty.hg("git::export", "--metadata")
    assert commit_of(empty) == rebuilt(empty)


def test_published_drafts_keep_it(store: Exported) -> None:
    add_config(store.root, "[phases]\nnew-commit = draft\n")
    grow(store, 2)
    store.hg("git::export", "--metadata")
    before = commit_of(store)
    store.hg("phase", "--public", "-r", "tip")
    store.hg("git::export")
    assert commit_of(store) == before
    assert behind(store) == 0
    assert len(packs_of(store)) == 1
    assert verified(store, full=True) == []


@pytest.mark.torture
def test_making_it_is_done_again_when_it_was_killed_anywhere(
    store: Exported, tmp_path: Path
) -> None:
    grow(store)
    (tmp_path / "killed").mkdir()
    command = ("git::export", "--metadata")
    taken = killpoints.at_each(store.root, tmp_path / "killed", *command, lacks="link")
    assert taken["rename"] >= 5


# What git does to it


@pytest.mark.parametrize(
    "command",
    [
        ["gc", "--prune=now"],
        ["gc", "--aggressive", "--prune=all"],
        ["repack", "-a", "-d"],
        ["repack", "-A", "-d", "-f"],
        ["repack", "-a", "-d", "--write-bitmap-index"],
        ["repack", "--geometric=2", "-d"],
        ["prune", "--expire=now"],
        ["prune-packed"],
        ["maintenance", "run", "--task=gc"],
        ["maintenance", "run", "--task=incremental-repack"],
        ["multi-pack-index", "expire"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("phase", ["public", "draft"])
def test_git_loses_nothing_that_no_ref_reaches(
    store: Exported, command: list[str], phase: str
) -> None:
    """Notes and manifests' commits of changesets that the commit does not name yet."""
    add_config(store.root, f"[phases]\nnew-commit = {phase}\n")
    grow(store, 3)
    if command[0] == "multi-pack-index":
        store.git("multi-pack-index", "write")
    ids = store.hg("log", "-T", "{gitnode}\n")
    listing = ("cat-file", "--batch-all-objects", "--batch-check")
    before = set(store.git(*listing).splitlines())
    store.git(*command)
    assert before <= set(store.git(*listing).splitlines())
    assert {pack.name for pack in store.packs()} <= {
        pack.name for pack in store.packs_dir.glob("*.pack")
    }
    grow(store)
    assert set(ids.splitlines()) <= set(store.hg("log", "-T", "{gitnode}\n").split())
    assert behind(store) == 4
    store.hg("git::export", "--metadata")
    assert verified(store, full=True) == []
    assert commit_of(store) == rebuilt(store)


def test_every_pack_is_kept_before_git_can_see_it(store: Exported) -> None:
    grow(store, 2)
    store.hg("git::export", "--metadata")
    assert all(pack.with_suffix(".keep").exists() for pack in store.packs())
    for pack in store.packs():
        pack.with_suffix(".keep").unlink()
    grow(store)
    assert all(pack.with_suffix(".keep").exists() for pack in store.packs())


def test_nothing_new_makes_no_new_metadata(store: Exported) -> None:
    before = store.docket()
    assert store.hg("git::export", "--metadata") == "nothing new to export\n"
    assert store.docket() == before


# What is lost or damaged


def test_a_lost_pack_of_it_alone_is_made_again(store: Exported) -> None:
    before, ids = commit_of(store), store.hg("log", "-T", "{gitnode}\n")
    (name,) = packs_of(store)
    remove_pack(store.packs_dir / f"{name}.pack")
    assert len(verified(store)) >= 1
    assert store.hg("git::export", "--metadata") == "nothing new to export\n"
    assert store.hg("log", "-T", "{gitnode}\n") == ids
    assert commit_of(store) == before
    assert verified(store, full=True) == []


def test_heads_that_were_stripped_are_counted_again(store: Exported) -> None:
    store.hg("--config", "extensions.strip=", "strip", "--no-backup", "-r", "tip")
    store.commit_nothing("instead")
    store.hg("git::export", "--metadata")
    # the store still has what was stripped; but heads are those of the repository
    heads = store.git("cat-file", "commit", f"{REF}^1").partition("\n\n")[2]
    log = store.hg("log", "-r", "head()", "-T", "{node} {branch}\n")
    assert set(log.split("\n")[:-1]) <= set(heads.split("\n"))
    assert all(
        store.run("id", "-r", head.split()[0]).code == 0 for head in heads.split("\n")
    )


def test_a_store_of_before_is_exported_again(store: Exported) -> None:
    expected = commit_of(store)
    docket = store.docket()
    for path in segments_of(store):
        path.unlink()
    for name in packs_of(store):
        remove_pack(store.packs_dir / f"{name}.pack")
    layer = docket["base"]
    old = {"version": 1, "segments": layer["segments"], "packs": layer["packs"]}
    store.docket_path.write_text(json.dumps(old))  # as it was then
    assert verified(store)
    done = store.run("git::export")
    assert (
        "warning: git store is incomplete: exporting everything\n" in done.err.decode()
    )
    assert {pack.stem for pack in store.packs()} == {
        pack.stem for pack in store.packs_dir.glob("*.pack")
    }
    assert commit_of(store) == expected
    assert verified(store, full=True) == []


def a_lost_ref(store: Exported) -> str:
    right = commit_of(store)
    packed = store.git_dir / "packed-refs"
    packed.write_text(packed.read_text().replace(f"{right} {REF}\n", ""))
    return rf"ref {REF}: found nothing, expected {right}"


def a_ref_of_before(store: Exported) -> str:
    right, wrong = commit_of(store), parts_of(store)[0]
    packed = store.git_dir / "packed-refs"
    packed.write_text(packed.read_text().replace(right, wrong))
    return rf"ref {REF}: found {wrong}, expected {right}"


def a_lost_segment(store: Exported) -> str:
    segment = segments_of(store)[0]
    segment.unlink()
    return rf"map segment {segment.name}: found nothing, expected a whole file"


def a_damaged_segment(store: Exported) -> str:
    segment = segments_of(store)[0]
    edit(segment, 1200)
    return rf"map segment {segment.name}: found a damaged file \(.*"


def a_lost_pack(store: Exported) -> str:
    name = packs_of(store)[-1]
    remove_pack(store.packs_dir / f"{name}.pack")
    return rf"pack {name}.pack: found nothing, expected a whole file"


def a_lost_manifest(store: Exported) -> str:
    oid = parts_of(store)[1]
    manifest = store.git("rev-parse", f"{oid}^1")
    store.repack_without(manifest)
    return rf"commit {manifest}: found nothing, expected that of manifest \w{{40}}"


def a_lost_note(store: Exported) -> str:
    note = store.git("rev-parse", f"{REF}^4:{store.ids('2')[1]}")
    store.repack_without(note)
    return rf"blob {note}: found nothing, expected that of commit {store.ids('2')[1]}"


def a_lost_notes_tree(store: Exported) -> str:
    tree = store.git("rev-parse", f"{REF}^3^{{tree}}")
    store.repack_without(tree)
    return rf"git {commit_of(store)}: found .*, expected a metadata commit that it .*"


@pytest.mark.parametrize(
    "fault",
    [
        *(a_lost_ref, a_ref_of_before, a_lost_segment, a_damaged_segment),
        *(
            a_lost_pack,
            a_lost_manifest,
            a_lost_note,
            a_lost_notes_tree,
        ),
    ],
    ids=lambda fault: fault.__name__,
)
def test_damage_is_named_and_mended(store: Exported, fault: Fault) -> None:
    expected = commit_of(store)
    line = fault(store)
    assert any(re.match(line, found) for found in verified(store)), verified(store)
    _before, after = repair(store.git_store())
    assert after.differences == []
    assert commit_of(store) == expected
    assert verified(store, full=True) == []
