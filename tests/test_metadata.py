"""git-cinnabar's metadata: who sees it, how it grows, and what becomes of damage.

That it is git-cinnabar's is for ``test_vectors`` and the oracle to say. What an export
makes at once is taken as right here.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from testlib.environment import git
from testlib.exported import Exported, cut, edit, remove_pack
from testlib.generated import generate
from testlib.hgserver import HgServer

from hgext3rd.amalgam.configitems import GitConfig
from hgext3rd.amalgam.gitstore import verify
from hgext3rd.amalgam.gitstore.repair import repair
from hgext3rd.amalgam.gitstore.store import GitStore

pytestmark = pytest.mark.slow

REF = "refs/cinnabar/metadata"

Fault = Callable[[Exported], str]
"""Damages a store, and returns the line that tells so, as a regular expression."""


def commit_of(store: Exported) -> str:
    return store.git("rev-parse", REF)


def parts_of(store: Exported) -> list[str]:
    return store.git("rev-parse", f"{REF}^@").split()


def packs_of(store: Exported) -> list[str]:
    return list(store.docket()["base"]["metadata"]["packs"])


def files_of(store: Exported) -> list[Path]:
    """State and segments."""
    metadata = store.docket()["base"]["metadata"]
    return [store.map_dir / name for name in (metadata["state"], *metadata["segments"])]


def rebuilt(store: Exported) -> str:
    """Return the metadata commit that an export from nothing makes."""
    fresh = store.root.with_name("fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(store.root, fresh, symlinks=True)
    other = Exported(fresh, store.server)
    other.hg("git::export", "--rebuild")
    return commit_of(other)


def verified(store: Exported, full: bool = False) -> list[str]:
    repo = store.open()
    findings = verify.run(GitStore(repo, GitConfig.from_ui(repo.ui)), full=full)
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
    assert empty.hg("git::export") == "nothing new to export\n"
    assert not files_of(empty)[0].is_file()


def test_it_needs_nothing_that_is_not_there(store: Exported) -> None:
    git(store.git_dir, "rev-list", "--objects", REF)
    kinds = store.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
    assert {"commit", "tree", "blob"} <= set(kinds.split())
    store.git("fsck", "--full", "--strict", "--no-dangling")


# How it grows


@pytest.mark.parametrize("profile", ["merges", "realistic", "many-heads"])
@pytest.mark.parametrize("seed", [1, 2])
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
        steps.hg("git::export", "-r", "+".join(revs))
    steps.hg("git::export")
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
        whole.hg("git::export", "-r", rev)
        assert commit_of(whole) == commit_of(part)


def test_outdated_packs_make_room(store: Exported) -> None:
    before = commit_of(store)
    most = 0
    for number in range(400):
        store.commit_nothing(f"empty {number}")
        store.hg("git::export")
        if len(packs_of(store)) == 1 < most:  # fewer are a roll-up
            break
        most = len(packs_of(store))
    assert len(packs_of(store)) == 1
    assert most > 4
    assert set(packs_of(store)) <= set(store.named("packs"))
    assert {pack.stem for pack in store.packs()} == {
        pack.stem for pack in store.packs_dir.glob("*.pack")
    }
    store.git("rev-list", "--objects", "--quiet", REF)
    assert before not in store.git("cat-file", "--batch-all-objects", "--batch-check")
    assert verified(store, full=True) == []


def test_nothing_new_makes_no_new_metadata(store: Exported) -> None:
    before = store.docket()
    assert store.hg("git::export") == "nothing new to export\n"
    assert store.docket() == before


# What is lost or damaged


def test_a_lost_state_is_made_again(store: Exported) -> None:
    before = commit_of(store)
    state = files_of(store)[0]
    state.unlink()
    (line,) = verified(store)
    assert re.match(rf"metadata state {state.name}: found nothing, .*", line)
    store.hg("git::export")
    assert commit_of(store) == before
    assert state.is_file()  # it is called after its content
    assert len(packs_of(store)) == 1
    assert verified(store, full=True) == []
    store.commit_nothing("more")
    store.hg("git::export")
    assert commit_of(store) == rebuilt(store)


def test_heads_that_were_stripped_are_counted_again(store: Exported) -> None:
    store.hg("--config", "extensions.strip=", "strip", "--no-backup", "-r", "tip")
    store.commit_nothing("instead")
    store.hg("git::export")
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
    for path in files_of(store):
        path.unlink()
    layer, metadata = docket["base"], docket["base"]["metadata"]
    for name in metadata["packs"]:
        remove_pack(store.packs_dir / f"{name}.pack")
    old = {
        "version": 1,
        "segments": layer["segments"],
        "packs": [name for name in layer["packs"] if name not in metadata["packs"]],
    }
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
    segment = files_of(store)[1]
    segment.unlink()
    return rf"map segment {segment.name}: found nothing, expected a whole file"


def a_damaged_segment(store: Exported) -> str:
    segment = files_of(store)[1]
    edit(segment, 1200)
    return rf"map segment {segment.name}: found a damaged file \(.*"


def a_damaged_state(store: Exported) -> str:
    state = files_of(store)[0]
    cut(state, 3)
    return rf"metadata state {state.name}: found a damaged file, expected a whole file"


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
            a_damaged_state,
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
    repo = store.open()
    _before, after = repair(GitStore(repo, GitConfig.from_ui(repo.ui)))
    assert after.differences == []
    assert commit_of(store) == expected
    assert verified(store, full=True) == []
