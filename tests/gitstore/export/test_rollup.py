"""Packs that many exports made, rolled up: what changes, and what does not.

The oracles are git, on the objects of the store, and an undisturbed export.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mercurial import error
from testlib import killpoints
from testlib.bundles import check_metadata, command, complete_pack, reached, written
from testlib.environment import ENVIRONMENT, add_config, git
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.planted import traces

from hgext3rd.amalgam.clonebundles import bundlepack
from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore import packgroups
from hgext3rd.amalgam.gitstore.export import export as exporting, maintenance
from hgext3rd.amalgam.gitstore.git import packfiles

pytestmark = pytest.mark.slow

MAINTENANCE = "debug::amalgam-maintenance"
WORD = "planted7f3a"
#: git as users have it, and others that the environment names.
GITS = ["git", *filter(None, os.environ.get("OTHER_GITS", "").split(":"))]
CONFIG = """
[extensions]
strip =
amend =
censor =
[censor]
policy = ignore
[experimental]
evolution = all
"""

#: Commands of hg, and what else is done to a store.
Steps = list[str | Callable[[Exported], object]]


def commit(store: Exported, number: int) -> None:
    directory = store.root / f"dir{number % 3}"
    directory.mkdir(exist_ok=True)
    (directory / "file").write_text(f"text {number}\n" * 30)
    store.hg("commit", "-qAm", f"number {number}", "-d", f"{number} 0")


def export(store: Exported) -> None:
    """Export without a roll-up."""
    exporting.export(store.git_store())


def fill(store: Exported, start: int, end: int) -> None:
    for number in range(start, end):
        commit(store, number)
        export(store)


def take(store: Exported, steps: Steps) -> None:
    for step in steps:
        store.hg(*step.split(" ")) if isinstance(step, str) else step(store)


def plant(store: Exported) -> None:
    store.commit("planted", text=f"{WORD}\n" * 50)
    export(store)
    (store.root / "planted").write_text("clean\n")  # so that it may be censored
    store.hg("commit", "-qm", "clean", "-d", "0 0")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Exported:
    """A store of 18 exports, each with packs of its own."""
    store = Exported.init(tmp_path_factory.mktemp("rollup") / "repo", server)
    add_config(store.root, CONFIG)
    fill(store, 0, 18)
    return store


@pytest.fixture(scope="module")
def draft_template(template: Exported) -> Exported:
    """The same, and as many drafts, the first of which has planted content."""
    store = template.copied(template.root.parent, "drafts")
    add_config(store.root, "[phases]\nnew-commit = draft\n")
    plant(store)
    fill(store, 100, 124)
    return store


@pytest.fixture
def store(template: Exported, tmp_path: Path) -> Exported:
    return copied(template, tmp_path)


@pytest.fixture
def drafts(draft_template: Exported, tmp_path: Path) -> Exported:
    return copied(draft_template, tmp_path)


def copied(template: Exported, tmp_path: Path) -> Exported:
    return template.copied(tmp_path)


def objects(store: Exported) -> dict[str, int]:
    """Every object, and in how many packs it is."""
    found: dict[str, int] = {}
    directory = Directory(bytes(store.packs_dir))
    for path in store.packs_dir.glob("*.idx"):
        for oid in packfiles.object_ids(directory, path.stem):
            found[oid.hex()] = found.get(oid.hex(), 0) + 1
    return found


def check(store: Exported, ids: str) -> None:
    """See that nothing is wrong or left over, and that nobody else's ids changed."""
    store.git("fsck", "--full", "--strict")
    assert store.run("git::verify", "--full").code == 0
    assert store.run("admin::amalgam").code == 0
    assert set(ids.split()) <= set(log(store).split())
    assert leftovers(store) == []
    assert store.answers()


def log(store: Exported) -> str:
    return store.hg("log", "--hidden", "-T", "{node}={gitnode}\n")


def leftovers(store: Exported) -> list[str]:
    return killpoints.leftovers(store.root) + [
        path.name for path in store.git_dir.glob("roll-up*")
    ]


def test_rolled_up_packs_have_the_same_objects(store: Exported) -> None:
    before, ids, refs = objects(store), log(store), store.git("for-each-ref")
    assert len(store.packs()) == 19
    store.hg(MAINTENANCE)
    assert len(store.packs()) == 2
    assert {path.name for path in store.packs_dir.glob("*.pack")} == {
        path.name for path in store.packs()
    }
    after = objects(store)
    assert after.keys() == before.keys()
    assert all(count <= before[oid] for oid, count in after.items())
    assert log(store) == ids
    assert store.git("for-each-ref") == refs
    check(store, ids)
    assert store.hg("git::export") == "nothing new to export\n"
    packs = store.packs()
    store.hg(MAINTENANCE)
    assert store.packs() == packs


def test_files_are_as_the_store_says(store: Exported) -> None:
    (store.root / ".hg/store").chmod(0o2770)
    store.hg(MAINTENANCE)
    modes = {oct(path.stat().st_mode) for path in store.packs_dir.glob("pack-*")}
    assert "0o100440" in modes


def test_export_rolls_up_when_there_are_many(tmp_path: Path, server: HgServer) -> None:
    store = Exported.init(tmp_path / "repo", server)
    counts = []
    for number in range(70):
        commit(store, number)
        store.hg("git::export")
        counts.append(len(store.packs()))
    assert max(counts) < 48
    check(store, log(store))


def test_layers_are_apart(drafts: Exported) -> None:
    before = {layer: set(drafts.docket()[layer]["packs"]) for layer in LAYERS}
    kept = objects(drafts).keys()
    ids = log(drafts)
    drafts.hg(MAINTENANCE)
    after = {layer: set(drafts.docket()[layer]["packs"]) for layer in LAYERS}
    assert all(2 * len(after[layer]) < len(before[layer]) for layer in LAYERS)
    assert objects(drafts).keys() == kept
    assert all(path.with_suffix(".keep").exists() for path in drafts.packs())
    check(drafts, ids)
    drafts.hg("strip", "-q", "--no-backup", "-r", "draft()")
    drafts.hg("git::export")
    assert not traces(drafts.amalgam, WORD.encode())
    assert set(drafts.docket()["base"]["packs"]) == after["base"]
    check(drafts, "")


LAYERS = ("base", "drafts")


def nothing_is_left(store: Exported) -> None:
    export(store)
    assert not traces(store.amalgam, WORD.encode())


GOING: dict[str, Steps] = {
    "strip": ["strip -q --no-backup -r desc(planted)::", nothing_is_left],
    "hide": ["phase --secret --force -r desc(planted)", nothing_is_left],
    "hide without an export": ["phase --secret --force -r desc(planted)"],
    "censor": ["censor -r desc(planted) planted", nothing_is_left],
    "censor without an export": ["censor -r desc(planted) planted"],
}


@pytest.mark.parametrize("step", GOING)
def test_what_goes_during_a_roll_up_does_not_come_back(
    drafts: Exported, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    ids = drafts.hg("log", "-r", "public()", "-T", "{node}={gitnode}\n")
    drafts.hg("update", "-q", "null")
    met = meanwhile(monkeypatch, drafts, GOING[step], "drafts")
    maintenance.run(drafts.git_store())
    assert met
    drafts.hg("git::export")
    assert not traces(drafts.amalgam, WORD.encode())
    drafts.hg(MAINTENANCE)
    assert not traces(drafts.amalgam, WORD.encode())
    check(drafts, "" if "censor" in step else ids)


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, store: Exported, steps: Steps, layer: str = "base"
) -> list[Steps]:
    """Take steps between a pack of ``layer`` that git has made and the exchange."""
    met: list[Steps] = []
    is_exact = maintenance._is_exact
    of_layer = store.docket()[layer]["packs"]

    def watched(*args: object) -> bool:
        answer = is_exact(*args)  # type: ignore[arg-type]
        if not met and set(args[1]) <= set(of_layer):  # type: ignore[call-overload]
            met.append(steps)
            take(store, steps)
        return answer

    monkeypatch.setattr(maintenance, "_is_exact", watched)
    return met


def roll_up(store: Exported) -> None:
    assert store.hg(MAINTENANCE) == "0 packs fewer\n"  # this one is not ready


OTHERS: dict[str, Steps] = {
    "add": [lambda store: fill(store, 200, 203)],
    "rebuild": ["git::export --rebuild"],
    "publish": ["phase --public -r all()", export],
    "publish one": ["phase --public -r desc(planted)", export],
    "roll up": [roll_up],
    "collect": [lambda store: store.git("-c", "gc.auto=1", "gc", "-q")],
    "repack": [lambda store: store.git("repack", "-adq")],
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("step", OTHERS)
@pytest.mark.parametrize("layer", LAYERS)
def test_others_may_work_during_a_roll_up(
    drafts: Exported, monkeypatch: pytest.MonkeyPatch, step: str, layer: str
) -> None:
    ids = log(drafts)
    met = meanwhile(monkeypatch, drafts, OTHERS[step], layer)
    maintenance.run(drafts.git_store())
    assert met
    drafts.hg("git::export")
    check(drafts, ids)
    drafts.hg(MAINTENANCE)
    assert len(drafts.packs()) <= 36
    check(drafts, ids)


@pytest.mark.parametrize("step", ["collect", "repack"])
def test_git_may_repack_without_drafts(
    store: Exported, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    ids = log(store)
    met = meanwhile(monkeypatch, store, OTHERS[step])
    maintenance.run(store.git_store())
    assert met
    store.hg("git::export")
    check(store, ids)
    take(store, OTHERS[step])
    store.hg("git::export")
    fill(store, 300, 318)
    store.hg(MAINTENANCE)
    check(store, ids)


def test_repack_that_ends_late_is_a_stray(store: Exported, tmp_path: Path) -> None:
    ids = log(store)
    shutil.copytree(store.git_dir, tmp_path / "before")
    store.hg(MAINTENANCE)
    packs = store.packs()
    for path in (tmp_path / "before/objects/pack").iterdir():
        (store.packs_dir / path.name).unlink(missing_ok=True)  # nobody may write to it
        shutil.copy(path, store.packs_dir)
    assert not store.answers()
    store.hg("git::export")
    assert {*store.packs_dir.glob("*.pack")} == {*packs}
    check(store, ids)


def test_other_objects_than_those_of_the_packs_are_refused(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packfiles, "rev_list_line", lambda oid: b"")
    monkeypatch.setattr(maintenance, "_WALK_SHARE", 2)
    packs = store.packs()
    with pytest.raises(error.Abort):
        maintenance.run(store.git_store())
    assert store.packs() == packs
    assert b"other objects than it was asked to" in store.run("admin::amalgam").out
    monkeypatch.undo()
    maintenance.run(store.git_store())
    check(store, log(store))


def test_ids_instead_of_names_give_the_same_objects(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_WALK_SHARE", 2)
    before = objects(store)
    maintenance.run(store.git_store())
    assert len(store.packs()) == 2
    assert objects(store).keys() == before.keys()
    check(store, log(store))


def test_failure_is_a_warning_and_the_export_has_succeeded(store: Exported) -> None:
    """Of a pack of which git cannot read an object."""
    pack = store.packs()[3]
    right = pack.read_bytes()
    content = bytearray(right)
    content[20:40] = bytes(20)
    pack.chmod(0o600)
    pack.write_bytes(content)
    done = store.run("git::export")
    assert done.code == 0
    assert done.err.startswith(b"warning: cannot roll up packs: git pack-objects")
    assert leftovers(store) == []

    # as it would of a process in the background
    assert store.run(MAINTENANCE).code
    done = store.run("admin::amalgam")
    assert done.code == 1
    assert b"maintenance of packs failed 2 times: git pack-objects" in done.out
    pack.write_bytes(right)
    store.hg("git::export")
    assert store.run("admin::amalgam").code == 0


def test_failure_counts_until_nothing_is_due(store: Exported) -> None:
    pack = store.packs()[3]
    pack.chmod(0o600)
    pack.write_bytes(b"damaged")
    assert store.run(MAINTENANCE).code
    store.hg("git::export", "--rebuild")
    assert b"maintenance of packs" not in store.run("admin::amalgam").out


def test_bundles_are_followed_by_a_roll_up(store: Exported) -> None:
    before = len(store.packs())
    ids = log(store)
    store.hg("git::bundle", "-q", str(store.root.parent / "bundle"))
    assert len(store.packs()) < before
    check(store, ids)
    store.git("bundle", "verify", "-q", str(store.root.parent / "bundle"))


@pytest.mark.torture
def test_roll_up_killed_anywhere_is_done_again(
    template: Exported, tmp_path: Path
) -> None:
    taken = killpoints.at_each(template.root, tmp_path, MAINTENANCE, lacks="link")
    assert taken["rename"] >= 6


def test_complete_pack_grows_with_the_history(
    store: Exported, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packgroups, "APART_FROM", 10)
    ids = log(store)
    packs = []
    for start, end in (18, 24), (24, 60), (60, 66):
        before = objects(store)
        maintenance.run(store.git_store())
        assert objects(store).keys() == before.keys()
        check(store, ids)
        packs.append(complete_pack(store))
        oids = packfiles.object_ids(Directory(bytes(store.packs_dir)), packs[-1].stem)
        there = {oid.hex() for oid in oids}
        bundle = command(store)
        if start != 24:
            assert there == reached(store.git_dir, store.ids("tip")[1])
            assert bundle.pack == packs[-1].read_bytes()
        check_bundles(store, tmp_path / f"{start}")
        fill(store, start, end)
        if not maintenance.is_due(
            store.git_store()
        ):  # a bundle would be followed by it
            check_bundles(store, tmp_path / f"{end} more")
    assert packs[0] == packs[1] != packs[2]


def check_bundles(store: Exported, scratch: Path) -> None:
    scratch.mkdir()
    expected = reached(store.git_dir, store.ids("tip")[1])
    assert set(command(store).objects(scratch / "objects.git")) == expected
    bundle = command(store, "-t", "cinnabar-v1")
    check_metadata(bundle, store.git_dir, scratch / "metadata.git")


@pytest.mark.parametrize("kind", [b"git-v2", b"cinnabar-v1"])
def test_bundle_that_meets_a_roll_up_is_made_again(
    store: Exported, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: bytes
) -> None:
    """An object that is in a pack twice is refused by git."""
    monkeypatch.setattr(packgroups, "APART_FROM", 10)
    maintenance.run(store.git_store())
    fill(store, 18, 35)
    fill(store, 3, 4)  # what was there before comes again
    before = complete_pack(store)
    packed = bundlepack.packed_by_git
    met: list[Path] = []

    def late(*args: Any) -> Any:
        if not met:
            maintenance.run(store.git_store())
            met.append(complete_pack(store))
        return packed(*args)

    monkeypatch.setattr(bundlepack, "packed_by_git", late)
    bundle, _report = written(store, kind)
    assert met not in ([], [before])
    there = reached(store.git_dir, *bundle.refs.values())
    assert set(bundle.objects(tmp_path / "objects.git")) == there


def test_clone_goes_on_during_a_roll_up(store: Exported, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--mirror", str(store.git_dir), str(clone))
    fill(store, 500, 502)
    store.hg(MAINTENANCE)
    git(clone, "fetch", "-q")
    assert git(clone, "rev-parse", "HEAD").decode().strip() == store.ids("tip")[1]


@pytest.mark.parametrize("program", GITS)
def test_git_does_not_maintain_a_store_by_itself(
    store: Exported, tmp_path: Path, program: str
) -> None:
    """Whatever it is told to do by itself, of the many packs here it leaves each."""
    before = sorted(store.git_dir.rglob("*"))
    quiet = {"GIT_OPTIONAL_LOCKS": "0"}
    for args in (
        ["gc", "--auto"],
        ["maintenance", "run", "--auto"],
        ["maintenance", "run", "--auto", "--quiet", "--no-detach"],
        ["maintenance", "run", "--schedule=hourly"],
        ["maintenance", "run", "--schedule=daily"],
        ["maintenance", "run", "--schedule=weekly"],
        ["fetch", "-q", str(store.git_dir), "+refs/heads/*:refs/heads/*"],
    ):
        if "--no-detach" in args and program == "git":
            continue
        done = subprocess.run(
            [program, "-C", str(store.git_dir), *args],
            env=ENVIRONMENT | quiet,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (args, done.stderr)
        (store.git_dir / "FETCH_HEAD").unlink(missing_ok=True)
        assert sorted(store.git_dir.rglob("*")) == before, args
