"""Git bundles: what is in them, what is not, and that git takes them."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from mercurial import error
from testlib.bundles import (
    METADATA,
    Bundle,
    check_metadata,
    command,
    complete_pack,
    reached,
    written,
)
from testlib.environment import add_config, executable, git
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.planted import traces
from testlib.small import run_hg, said

from hgext3rd.amalgam.clonebundles import gitbundle
from hgext3rd.amalgam.config import GitConfig
from hgext3rd.amalgam.configitems import CINNABAR_V1, GIT_FORMATS, GIT_V2

WORD = "planted5c1d"


def shown(git_dir: Path) -> dict[str, str]:
    """Return HEAD and the refs that git clients are shown."""
    lines = git(git_dir.parent, "ls-remote", str(git_dir)).decode().splitlines()
    return {name: oid for oid, name in (line.split("\t") for line in lines)}


def clone_of_part(store: Exported, *revs: str) -> Exported:
    """Return an exported clone of some revisions and their ancestors."""
    part = store.root.with_name("part")
    shutil.rmtree(part, ignore_errors=True)
    options = [word for rev in revs for word in ("-r", rev)]
    store.server.hg(
        store.root.parent, "clone", "-q", "-U", *options, str(store.root), str(part)
    )
    exported = Exported(part, store.server)
    exported.hg("git::export")
    return exported


def test_a_full_bundle_is_what_git_clients_are_shown(
    store: Exported, tmp_path: Path
) -> None:
    bundle = command(store)
    assert bundle.version == "# v2 git bundle"
    assert bundle.refs == shown(store.git_dir)
    expected = reached(store.git_dir, *bundle.refs.values())
    assert set(bundle.objects(tmp_path / "objects.git")) == expected
    assert not bundle.prerequisites


def test_git_clones_a_bundle_and_pulls_what_follows(
    store: Exported, tmp_path: Path
) -> None:
    path = tmp_path / "full.bundle"
    store.hg("git::bundle", str(path))
    git(store.git_dir, "bundle", "verify", "-q", str(path))
    git(tmp_path, "clone", "-q", "-b", "default", str(path), "clone")
    clone = tmp_path / "clone"
    assert (clone / "last").read_text() == "last\n"
    assert git(clone, "tag").decode() == "v1\n"
    git(clone, "fsck", "--full", "--strict")
    store.commit("more")
    store.hg("git::export")
    git(clone, "remote", "set-url", "origin", str(store.git_dir))
    git(clone, "pull", "-q")
    assert (clone / "more").exists()


def test_what_is_new_is_exported_first(store: Exported) -> None:
    store.commit("newer")
    bundle = command(store)
    assert bundle.refs["refs/heads/default"] == store.ids("tip")[1]


@pytest.mark.parametrize("revs", [["2"], ["6"], ["3", "6"], ["7"], ["tip"]])
def test_a_part_is_what_a_clone_of_it_shows(
    store: Exported, tmp_path: Path, revs: list[str]
) -> None:
    options = [word for rev in revs for word in ("-r", rev)]
    bundle = command(store, *options)
    part = clone_of_part(store, *revs)
    expected = shown(part.git_dir)
    # bookmarks that lead to it are in a clone by Mercurial, too; but tags are known
    # only if the changeset that tells of them is
    tag = bundle.refs.pop("refs/tags/v1", None)
    assert tag in (store.ids("2")[1], None)
    expected.pop("refs/tags/v1", None)
    assert bundle.refs == expected
    oids = reached(part.git_dir, *expected.values())
    assert set(bundle.objects(tmp_path / "objects.git")) == oids


def test_an_increment_needs_what_it_is_based_on(
    store: Exported, tmp_path: Path
) -> None:
    path = tmp_path / "increment.bundle"
    store.hg("git::bundle", "-r", "3", str(tmp_path / "old.bundle"))
    store.hg("git::bundle", "--base", "3", str(path))
    bundle = Bundle.of(path.read_bytes())
    assert set(bundle.prerequisites) == {store.ids("3")[1]}
    git(tmp_path, "clone", "-q", "old.bundle", "clone")
    clone = tmp_path / "clone"
    git(clone, "pull", "-q", str(path), "default")
    git(clone, "fsck", "--full", "--strict")
    assert git(clone, "rev-parse", "HEAD").decode().strip() == store.ids("tip")[1]
    assert set(bundle.refs.values()).isdisjoint(shown(tmp_path / "old.bundle").values())
    git(tmp_path, "init", "-q", "other")
    with pytest.raises(AssertionError, match="lacks these prerequisite commits"):
        git(tmp_path / "other", "fetch", "-q", str(path), "default")


def test_increments_follow_each_other(store: Exported, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "client.git")
    heads: tuple[bytes, ...] = ()
    for number in range(4):
        (tmp_path / "now.bundle").write_bytes(b"")
        repo = store.open()
        with (tmp_path / "now.bundle").open("wb") as out:
            report = gitbundle.write(
                repo, GitConfig.from_ui(repo.ui), out, GIT_V2, base=heads
            )
        heads = report.heads
        fetch = ("fetch", "-q", "../now.bundle", "+refs/*:refs/*")
        git(tmp_path / "client.git", *fetch)
        if number == 1:
            store.hg("update", "-q", "1")
        store.commit(f"new{number}")
    assert report.changesets == 1
    tip = git(tmp_path / "client.git", "rev-parse", "default").decode().strip()
    assert tip == store.ids("desc(new2)")[1]
    git(tmp_path / "client.git", "fsck", "--full", "--strict")


def test_an_increment_has_what_had_no_name_before(
    store: Exported, tmp_path: Path
) -> None:
    # of two heads of a branch, only the tip has a name
    store.hg("update", "-q", "1")
    store.commit("tip")
    git(tmp_path, "init", "-q", "--bare", "client.git")
    heads: tuple[bytes, ...] = ()
    for number in range(2):
        path = tmp_path / f"{number}.bundle"
        repo = store.open()
        with path.open("wb") as out:
            report = gitbundle.write(
                repo,
                GitConfig.from_ui(repo.ui),
                out,
                GIT_V2,
                base=heads,
                tips_only=True,
            )
        heads = report.heads
        git(tmp_path / "client.git", "fetch", "-q", str(path), "refs/heads/default")
        git(tmp_path / "client.git", "update-ref", "refs/heads/x", "FETCH_HEAD")
        if not number:
            store.hg("merge", "-q", "desc(last)")
            store.hg("commit", "-qm", "merged", "-d", "30 0")
    assert store.ids("desc(last)")[1] in reached(tmp_path / "client.git", "x")
    git(tmp_path / "client.git", "fsck", "--full", "--strict")


def test_file_contents_can_be_left_out(store: Exported, tmp_path: Path) -> None:
    bundle = command(store, "--filter", "blob:none")
    assert bundle.version == "# v3 git bundle"
    assert "filter=blob:none" in bundle.capabilities
    everything = command(store)
    assert bundle.refs == everything.refs
    kinds = bundle.objects(tmp_path / "few.git", "--promisor=from-bundle")
    all_kinds = everything.objects(tmp_path / "all.git")
    assert kinds == {oid: kind for oid, kind in all_kinds.items() if kind != "blob"}


def test_lists_get_branches_that_no_other_has(store: Exported) -> None:
    bundle, report = written(store, tips_only=True)
    oid = store.ids("tip")[1]
    (name,) = bundle.refs
    assert name.startswith("refs/heads/")
    assert bundle.refs == {name: oid}
    assert report.changesets == len(store.hg("log", "-T", "x"))


def test_the_same_store_gives_the_same_bytes(store: Exported) -> None:
    for kind in (GIT_V2, CINNABAR_V1):
        assert written(store, kind)[0] == written(store, kind)[0]


def test_metadata_is_that_of_the_store(store: Exported, tmp_path: Path) -> None:
    store.hg("git::export", "--rebuild")
    bundle = command(store, "-t", "cinnabar-v1")
    assert bundle.refs[METADATA] == store.git("rev-parse", METADATA)
    check_metadata(bundle, store.git_dir, tmp_path / "objects.git")


def test_metadata_that_is_behind_is_made_for_the_bundle(
    store: Exported, tmp_path: Path
) -> None:
    before = store.git("rev-parse", METADATA)
    store.commit_nothing("more")
    store.hg("git::export")
    assert store.git("rev-parse", METADATA) == before
    bundle = command(store, "-t", "cinnabar-v1")
    assert bundle.refs[METADATA] == store.git("rev-parse", METADATA) != before
    check_metadata(bundle, store.git_dir, tmp_path / "objects.git")


@pytest.mark.parametrize("rev", ["2", "6", "7"])
def test_metadata_of_a_part_is_that_of_a_clone_of_it(
    store: Exported, tmp_path: Path, rev: str
) -> None:
    bundle = command(store, "-t", "cinnabar-v1", "-r", rev)
    part = clone_of_part(store, rev)
    assert bundle.refs[METADATA] == part.git("rev-parse", METADATA)
    check_metadata(bundle, part.git_dir, tmp_path / "objects.git")


def test_metadata_of_a_part_does_not_depend_on_the_store(store: Exported) -> None:
    before = command(store, "-t", "cinnabar-v1", "-r", "6")
    store.hg("git::export", "--rebuild")
    assert command(store, "-t", "cinnabar-v1", "-r", "6") == before


def test_an_object_in_two_packs_is_in_a_bundle_once(
    empty: Exported, tmp_path: Path
) -> None:
    # the tree of no files is that of a changeset, and that of the metadata commit
    empty.commit("file")
    empty.hg("remove", "-q", "file")
    empty.hg("commit", "-qm", "no files", "-d", "1 0")
    for options in ((), ("-r", "1")):
        bundle = command(empty, "-t", "cinnabar-v1", *options)
        check_metadata(bundle, empty.git_dir, tmp_path / f"{len(options)}.git")


def test_a_part_is_put_together_without_making_a_repository_by_git(
    empty: Exported, tmp_path: Path
) -> None:
    program = tmp_path / "git"
    calls = tmp_path / "calls"
    executable(
        program, f'#!/bin/sh\necho "$@" >> {calls}\nexec {shutil.which("git")} "$@"\n'
    )
    empty.commit("file")
    empty.hg("remove", "-q", "file")
    empty.hg("commit", "-qm", "no files", "-d", "1 0")
    empty.commit("later")
    option = ("--config", f"amalgam.git.program={program}")
    bundle = command(empty, "-t", "cinnabar-v1", "-r", "1", *option)
    check_metadata(bundle, clone_of_part(empty, "1").git_dir, tmp_path / "objects.git")
    made = [line.split() for line in calls.read_text().splitlines()]
    assert any("pack-objects" in words for words in made)
    assert not any("init" in words for words in made)


@pytest.mark.slow
def test_metadata_of_a_large_one_is_copied(large: Exported, tmp_path: Path) -> None:
    bundle = command(large, "-t", "cinnabar-v1")
    assert bundle.pack[12:].startswith(complete_pack(large).read_bytes()[12:-20])
    check_metadata(bundle, large.git_dir, tmp_path / "objects.git")


@pytest.fixture
def layered(store: Exported) -> Exported:
    """A repository with drafts, hidden and secret changesets that have a word."""
    add_config(
        store.root, "[experimental]\nevolution = all\n[phases]\nnew-commit = draft\n"
    )
    for name, options in (("draft", ()), ("hidden", ()), ("secret", ("--secret",))):
        (store.root / name).write_text(f"{WORD} {name}\n")
        user = f"{WORD}-{name} <{name}>"
        store.hg("commit", "-qAm", f"{WORD}-{name}", "-u", user, "-d", "0 0", *options)
        if name == "hidden":
            node = store.ids(".")[0]
            store.hg("bookmark", "-r", ".", f"{WORD}-{name}")
            store.hg("bookmark", "-d", f"{WORD}-{name}")
            store.hg("update", "-q", ".^")
            store.hg("debugobsolete", node)
    store.hg("bookmark", "-r", "desc('re:-draft')", "on-draft")
    return store


def found(store: Exported, bundle: Bundle) -> set[str]:
    """Return which of the planted changesets have left something in a bundle."""
    directory = store.root.with_name("unpacked")
    directory.mkdir(exist_ok=True)
    (directory / "pack").write_bytes(bundle.pack)
    words = [f"{WORD} {name}" for name in ("draft", "hidden", "secret")]
    words += [word.replace(" ", "-") for word in words]
    return {word[len(WORD) + 1 :] for word in words if traces(directory, word.encode())}


@pytest.mark.parametrize("kind", GIT_FORMATS)
def test_a_published_bundle_has_public_changesets_only(
    layered: Exported, kind: bytes
) -> None:
    bundle, report = written(layered, kind, public_only=True)
    assert found(layered, bundle) == set()
    assert report.changesets == len(layered.hg("log", "-r", "public()", "-T", "x"))
    assert "refs/heads/on-draft" not in bundle.refs
    # else this could not have found anything
    bundle, _report = written(layered, kind)
    assert found(layered, bundle) == {"draft"}


@pytest.mark.parametrize("kind", GIT_FORMATS)
def test_public_metadata_and_names_are_those_of_a_clone_without_drafts(
    layered: Exported, kind: bytes
) -> None:
    bundle, _report = written(layered, kind, public_only=True)
    part = clone_of_part(layered, layered.ids("max(public())")[0])
    if kind == CINNABAR_V1:
        assert bundle.refs == {METADATA: part.git("rev-parse", METADATA)}
    else:
        default = part.git("rev-parse", "refs/heads/default")
        assert bundle.refs["refs/heads/default"] == default
        assert bundle.refs["HEAD"] == bundle.refs["refs/heads/@"]


def test_metadata_has_no_ids_that_depend_on_drafts(
    empty: Exported, tmp_path: Path
) -> None:
    store = empty
    store.commit("root")
    # revision 1 is a draft that has the commit of revision 2, which is public
    for branch, draft in (("one", "yes"), ("two", "no")):
        store.hg("update", "-q", "0")
        store.hg("branch", "-q", branch)
        phase = "draft" if draft == "yes" else "public"
        store.commit("same", "--config", f"phases.new-commit={phase}")
    bundle, report = written(store, CINNABAR_V1, public_only=True)
    assert len(store.docket()["held"]) == 1
    assert report.changesets == 1
    check_metadata(bundle, store.git_dir, tmp_path / "public.git")
    assert bundle.refs[METADATA] == store.docket()["base_commit"]["oid"]
    bundle, report = written(store, public_only=True)
    assert report.changesets == 2
    assert store.ids("2")[1] in bundle.objects(tmp_path / "git.git")
    assert store.ids("1")[1] not in bundle.objects(tmp_path / "again.git")
    bundle, report = written(store, CINNABAR_V1)
    assert report.changesets == 3
    check_metadata(bundle, store.git_dir, tmp_path / "all.git")


@pytest.mark.parametrize("option", ["-r", "--base"])
@pytest.mark.parametrize("rev", ["secret()", "hidden()"])
def test_nothing_is_said_of_what_may_not_leave(
    layered: Exported, option: str, rev: str
) -> None:
    path = layered.root / "x.bundle"
    done = layered.run("--hidden", "git::bundle", option, rev, str(path))
    assert done.code == 10
    assert b"may not be bundled\n" in done.err
    assert not path.exists()


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["-t", "git-v9"], 10, "unknown type of git bundle: 'git-v9'"),
        (["--filter", "tree:0"], 10, "unknown filter of git objects: 'tree:0'"),
        (
            ["-t", "cinnabar-v1", "--base", "1"],
            10,
            "bundles of type 'cinnabar-v1' cannot be based on others",
        ),
        (
            ["-t", "cinnabar-v1", "--filter", "blob:none"],
            10,
            "bundles of type 'cinnabar-v1' cannot leave objects out",
        ),
        (["-r", "none()"], 10, "no changesets to bundle"),
        (["-r", "null", "-t", "cinnabar-v1"], 10, "no changesets to bundle"),
        (["--base", "all()"], 10, "no changesets to bundle"),
        (["--config", "amalgam.git.program=false"], 255, "'false' is not git"),
    ],
)
def test_what_cannot_be_is_refused(
    store: Exported, args: list[str], code: int, message: str
) -> None:
    path = store.root.with_name("x.bundle")
    path.write_bytes(b"as it was")
    done = store.run("git::bundle", *args, str(path))
    assert done.err.decode().startswith(f"abort: {message}")
    assert (done.code, done.out) == (code, b"")
    assert path.read_bytes() == b"as it was"
    assert sorted(store.root.parent.iterdir()) == [store.root, path]


def test_an_empty_repository_has_no_bundle(empty: Exported) -> None:
    for kind in GIT_FORMATS:
        done = empty.run("git::bundle", "-t", kind.decode(), "x.bundle")
        assert (done.code, done.err) == (10, b"abort: no changesets to bundle\n")


@pytest.mark.parametrize("requirement", ["treemanifest", "lfs"])
def test_what_git_cinnabar_cannot_pull_is_not_bundled_for_it(
    tmp_path: Path, server: HgServer, requirement: str
) -> None:
    server.hg(tmp_path, "init", "--config", "experimental.treemanifest=yes", "repo")
    store = Exported(tmp_path / "repo", server)
    requires = store.root / ".hg" / "store" / "requires"
    lines = set(requires.read_text().split()) - {"treemanifest"} | {requirement}
    requires.write_text("".join(f"{line}\n" for line in sorted(lines)))
    if requirement == "treemanifest":
        store.commit("file")
    # a process of its own: what loads LFS keeps it
    lfs = ("--config", "extensions.lfs=")
    done = run_hg(store.root, *lfs, "git::bundle", "-t", "cinnabar-v1", "x.bundle")
    assert done.returncode == 20, said(done)
    assert requirement in said(done)
    assert not (store.root / "x.bundle").exists()
    if requirement == "treemanifest":
        assert command(store).refs


def test_a_special_file_stays_one(store: Exported, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(
        ["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE
    ) as reader:
        store.hg("git::bundle", str(tmp_path / "pipe"))
        content = reader.communicate()[0]
    assert (tmp_path / "pipe").is_fifo()
    assert Bundle.of(content) == command(store)


def test_standard_output_gets_nothing_else(store: Exported) -> None:
    content = store.server.hg(store.root, "git::bundle", "-")
    assert Bundle.of(content) == command(store)
    done = store.run("git::bundle", "-", "-T", "json")
    assert (done.code, done.out) == (10, b"")


class Full(io.RawIOBase):
    """A disk that is full."""

    def write(self, data: object, /) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("kind", GIT_FORMATS)
def test_git_ends_when_nobody_reads(store: Exported, kind: bytes) -> None:
    repo = store.open()
    with pytest.raises(OSError, match="No space left"):
        gitbundle.write(repo, GitConfig.from_ui(repo.ui), Full(), kind)
    listing = ["ps", "-A", "-o", "ppid=", "-o", "comm="]
    processes = subprocess.run(listing, capture_output=True, text=True, check=True)
    assert f"{os.getpid()} git" not in map(str.strip, processes.stdout.splitlines())


def test_nothing_to_bundle_can_be_told_from_errors(store: Exported) -> None:
    repo = store.open()
    heads = repo.heads()
    with pytest.raises(gitbundle.NothingToBundleError):
        written(store, base=heads)
    with pytest.raises(error.InputError):
        written(store, b"unknown")
