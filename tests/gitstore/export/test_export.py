"""What an export gives: contents, ids, steps, and what never leaves."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from mercurial import ui as uimod
from testlib.environment import ENVIRONMENT, executable, git, hg, publish_commits
from testlib.exported import STRIP, Exported
from testlib.generated import generate
from testlib.hgserver import HgServer

from hgext3rd.amalgam.core.operation import Operation
from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore import requirements
from hgext3rd.amalgam.gitstore.export import conversion, export as exporting

pytestmark = pytest.mark.slow

PROFILES = {
    "realistic": ["--changesets=120"],
    "merges": ["--changesets=120", "--files=12"],
    "topics": ["--changesets=150", "--files=12", "--topics=9"],
    "criss-cross": ["--changesets=150", "--files=12", "--pairs=5"],
    "deep-directories": ["--changesets=60", "--files=40"],
}


@pytest.fixture(scope="module")
def project(server: HgServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported repository, not to be changed."""
    root = tmp_path_factory.mktemp("project") / "repository"
    generate(root, "realistic", "--changesets=400")
    server.hg(root, "git::export")
    return root


@pytest.fixture
def repo(tmp_path: Path, server: HgServer) -> Path:
    """An empty repository."""
    root = tmp_path / "repo"
    server.hg(tmp_path, "init", str(root))
    return root


def store_of(repo: Path) -> Path:
    return repo / ".hg" / "amalgam" / "git" / "cinnabar.git"


def commit(server: HgServer, repo: Path, *options: str, **files: str) -> None:
    for name, content in files.items():
        (repo / name).write_text(content)
    message = " ".join(files) or "nothing"
    server.hg(repo, "commit", "-qAm", message, "-d", "0 0", *options)


def ids(server: HgServer, repo: Path, revs: str = "all()") -> list[str]:
    log = server.hg(repo, "log", "--hidden", "-r", revs, "-T", "{gitnode}\n")
    return log.decode().splitlines()


def refs(repo: Path) -> str:
    names = git(store_of(repo), "for-each-ref", "--format=%(refname) %(objectname)")
    return names.decode() + git(store_of(repo), "symbolic-ref", "HEAD").decode()


def snapshot(repo: Path) -> dict[str, tuple[int, int, int]]:
    """Inode, size and time of each file of amalgam."""
    amalgam = repo / ".hg" / "amalgam"
    paths = {path: path.lstat() for path in amalgam.rglob("*") if not path.is_dir()}
    return {
        str(path.relative_to(amalgam)): (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        for path, stat in paths.items()
    }


def objects(repo: Path) -> bytes:
    """The content of every object in the store, reachable or not."""
    return git(store_of(repo), "cat-file", "--batch", "--batch-all-objects")


# Contents


def test_contents_are_what_hg_cat_prints(project: Path, server: HgServer) -> None:
    draw = random.Random(1)
    count = int(server.hg(project, "log", "-r", "tip", "-T", "{rev}"))
    wanted: list[tuple[str, bytes]] = []
    expected: list[bytes] = []
    for _ in range(40):
        rev = str(draw.randrange(count + 1))
        template = "{path}\\0"
        names = server.hg(project, "files", "-r", rev, "-T", template).split(b"\0")[:-1]
        (oid,) = ids(server, project, rev)
        for name in draw.sample(names, 5):
            path = f"path:{os.fsdecode(name)}"
            expected.append(server.hg(project, "cat", "-r", rev, path))
            wanted.append((oid, name))
    request = b"".join(b"%s:%s\n" % (oid.encode(), name) for oid, name in wanted)
    command = ["git", "cat-file", "--batch=%(objecttype)"]
    done = subprocess.run(
        command, cwd=store_of(project), env=ENVIRONMENT, input=request, stdout=-1
    )
    assert done.stdout == b"".join(b"blob\n" + text + b"\n" for text in expected)
    assert len(expected) == 200


def test_git_agrees_on_the_history(project: Path, server: HgServer) -> None:
    git(store_of(project), "fsck", "--full", "--strict")
    template = "{gitnode} {p1.gitnode} {p2.gitnode}\n"
    log = server.hg(project, "log", "-r", "all()", "-T", template).decode()
    expected = {tuple(line.split()) for line in log.splitlines()}
    oids = [row[0] for row in expected]
    listing = git(store_of(project), "rev-list", "--no-walk", "--parents", *oids)
    assert {tuple(line.split()) for line in listing.decode().splitlines()} == expected


def test_exported_repository_can_be_cloned(
    project: Path, tmp_path: Path, server: HgServer
) -> None:
    git(tmp_path, "clone", "-q", str(store_of(project)), "clone")
    git(tmp_path / "clone", "fsck", "--strict")
    (tip,) = ids(server, project, "@")
    assert git(tmp_path / "clone", "rev-parse", "HEAD").decode().strip() == tip


def test_bytes_do_not_depend_on_the_number_of_threads(
    project: Path, tmp_path: Path, server: HgServer
) -> None:
    log = server.hg(project, "log", "-r", "tip", "-T", "{rev} {node}")
    rev, tip = log.decode().split()
    made = []
    for threads in (1, 2, 8):
        directory = tmp_path / str(threads)
        directory.mkdir()
        convert(project, int(rev) + 1, bytes.fromhex(tip), directory, threads)
        made.append({path.name: path.read_bytes() for path in directory.iterdir()})
    assert made[0] == made[1] == made[2]
    # two times pack, idx, rev, keep; a segment of each map; journal
    assert len(made[0]) == 11
    packs = {path.name for path in store_of(project).glob("objects/pack/*.pack")}
    assert packs <= made[0].keys()


@pytest.mark.torture
@pytest.mark.parametrize("sizes", ["topics --topics=60", "criss-cross --pairs=30"])
def test_branches_that_wait_give_the_same_bytes_with_little_memory(
    tmp_path: Path, server: HgServer, sizes: str
) -> None:
    # manifests of which two exceed the least memory, in more than one job
    sizes = f"{sizes} --changesets=700 --files=2000"
    repo = generate(tmp_path / "repo", *sizes.split())
    server.hg(repo, "git::export")
    (tip,) = nodes(server, repo, "tip")
    made = []
    for threads, memory_bytes in ((1, 1 << 20), (2, 192 << 20), (8, 1 << 20)):
        out = tmp_path / str(threads)
        out.mkdir()
        convert(repo, 700, bytes.fromhex(tip), out, threads, memory_bytes)
        made.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert made[0] == made[1] == made[2]
    packs = {path.name for path in store_of(repo).glob("objects/pack/*.pack")}
    assert packs <= made[0].keys()
    for rev in ("150", "last(merge())", "tip"):
        (oid,) = ids(server, repo, rev)
        (tree,) = git(store_of(repo), "rev-parse", f"{oid}^{{tree}}").split()
        assert tree == tree_of_archive(server, repo, rev, tmp_path / "files").encode()


def tree_of_archive(server: HgServer, repo: Path, rev: str, out: Path) -> str:
    """The tree that git makes of the files that Mercurial writes."""
    shutil.rmtree(out, ignore_errors=True)
    server.hg(repo, "archive", "-r", rev, "--config", "ui.archivemeta=no", str(out))
    git(out, "init", "-q")
    git(out, "add", "-A")
    return git(out, "write-tree").decode().strip()


def convert(
    repo: Path,
    count: int,
    tip: bytes,
    out: Path,
    threads: int,
    memory_bytes: int = 0,
) -> None:
    """Export into a directory, as ``conversion`` does with all threads."""
    with Directory(os.fsencode(out)).opened() as fd:
        directory = {"fd": fd, "path": os.fsencode(out)}
        fields = {
            "dialect": b"cinnabar",
            "store": os.fsencode(repo / ".hg" / "store"),
            "encoding": requirements.DOT_ENCODED,
            "tree_manifests": False,
            "packs": directory,
            "map": directory,
            "prefix": "test",
            "file_mode": 0o644,
            "owner": {},
            "segments": [],
            "base": 0,
            "metadata": {"segments": [], "base": 0, "commit_of_first": True},
            "unmapped": [],
            "selection": {"len": count, "tip": tip, "excluded": b"", "known_below": 0},
            "check_texts": True,
            "replaced_packs": [],
            "check_each_manifest": False,
            "threads": threads,
            "memory_bytes": memory_bytes,
            "level": conversion._LEVEL,
            "has_exact": False,
            "other": None,
        }
        done = Operation(uimod.ui(), {}).job("export", fields)
    assert done["changesets"] == count


# Again, and in steps


def test_nothing_new_writes_nothing_and_starts_no_git(
    repo: Path, tmp_path: Path, server: HgServer
) -> None:
    commit(server, repo, one="1")
    log = tmp_path / "log"
    program = executable(
        tmp_path / "git", f'#!/bin/sh\necho "$@" >> {log}\nexec git "$@"\n'
    )
    export = ["git::export", "--config", f"amalgam.git.program={program}"]
    hg(repo, *export)
    log.unlink(missing_ok=True)  # git tells what new drafts use
    before = snapshot(repo)
    assert hg(repo, *export) == b"nothing new to export\n"
    assert snapshot(repo) == before
    assert not log.exists()
    hg(repo, "git::verify", *export[1:])
    assert "cat-file" in log.read_text()


def test_one_more_changeset_is_one_more_small_pack(
    tmp_path: Path, server: HgServer
) -> None:
    repo = generate(tmp_path / "repo", "realistic", "--changesets=120")
    publish_commits(repo)
    server.hg(repo, "git::export")
    before = snapshot(repo)
    server.hg(repo, "update", "-q", "@")
    commit(server, repo, new="new\n")
    server.hg(repo, "git::export")
    after = snapshot(repo)
    changed = {name for name, stat in after.items() if before.get(name) != stat}
    packs = [name for name in changed if name.endswith(".pack")]
    segments = {name for name in changed if name.endswith(".map")}
    refs_and_docket = {
        "git/cinnabar.git/packed-refs",
        "map/cinnabar.docket",
        "map/cinnabar.tips",
        "map/cinnabar.names",
        "last-export",
    }
    changed.discard("map/cinnabar.settled")  # not if files are younger than a tick
    kept = {name for name in changed if name.startswith("map/cinnabar.bookmarks-")}
    stems = [pack.removesuffix(".pack") for pack in packs]
    suffixes = ("pack", "idx", "rev", "keep")
    files = {f"{stem}.{suffix}" for stem in stems for suffix in suffixes}
    assert changed == files | segments | refs_and_docket | kept
    assert (len(packs), len(segments), len(kept)) == (1, 2, 1)
    assert {name for name in before if "bookmarks-" not in name} <= set(after)
    # two commits, two blobs, trees that are deltas of those before
    assert after[packs[0]][1] < 2000


def test_lines_that_are_far_apart_begin_with_their_own_manifests(
    repo: Path, server: HgServer
) -> None:
    publish_commits(repo)
    for text in ("one\n", "two\n"):
        for number in range(1100):
            path = repo / f"d{number % 44}" / f"{number}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        commit(server, repo, tip=text)
    server.hg(repo, "update", "-q", "0")
    commit(server, repo, tip="second\n")

    def objects_of_next(*heads: int) -> int:
        before = packed_objects(repo)
        for head in heads:
            server.hg(repo, "update", "-q", str(head))
            (repo / "d0" / "0").write_text(f"{head}\n")
            commit(server, repo, tip=f"on {head}\n")
        server.hg(repo, "git::export")
        return packed_objects(repo) - before

    server.hg(repo, "git::export")
    of_one = objects_of_next(1)
    assert of_one < 20
    assert objects_of_next(2, 3) == 2 * of_one
    server.hg(repo, "git::verify", "--full")


def packed_objects(repo: Path) -> int:
    """Return the number of objects in the packs of the git store."""
    counts = git(store_of(repo), "count-objects", "-v").decode().split()
    return int(counts[counts.index("in-pack:") + 1])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.torture)])
def test_steps_give_what_one_export_gives(
    tmp_path: Path, server: HgServer, profile: str, seed: int
) -> None:
    whole = generate(tmp_path / "whole", profile, *PROFILES[profile], f"--seed={seed}")
    steps = tmp_path / "steps"
    shutil.copytree(whole, steps, symlinks=True)
    server.hg(whole, "git::export")
    draw = random.Random(seed)
    count = len(ids(server, whole))
    for _ in range(6):
        revs = draw.sample(range(count), draw.randrange(1, 4))
        server.hg(steps, "git::export", *(f"-r{rev}" for rev in revs))
        git(store_of(steps), "rev-list", "--all", "--objects")
    server.hg(steps, "git::export", "--metadata")
    assert ids(server, steps) == ids(server, whole)
    assert refs(steps) == refs(whole)
    git(store_of(steps), "fsck", "--full", "--strict")


def test_rebuild_gives_the_same_ids_in_one_pack(
    tmp_path: Path, server: HgServer
) -> None:
    repo = generate(tmp_path / "repo", "merges", *PROFILES["merges"])
    server.hg(repo, "git::export", "-r", "50")
    server.hg(repo, "git::export", "--metadata")
    expected = ids(server, repo), refs(repo)
    assert len(list(store_of(repo).glob("objects/pack/*.pack"))) == 3
    server.hg(repo, "git::export", "--rebuild")
    assert (ids(server, repo), refs(repo)) == expected
    assert len(list(store_of(repo).glob("objects/pack/*.pack"))) == 2
    git(store_of(repo), "fsck", "--full", "--strict")


# What leaves


def test_only_ancestors_of_the_given_revisions_leave(
    repo: Path, server: HgServer
) -> None:
    for name in ("one", "two", "three"):
        commit(server, repo, **{name: name})
    server.hg(repo, "bookmark", "-r", "0", "first")
    server.hg(repo, "git::export", "-r", "1")
    assert [bool(oid) for oid in ids(server, repo)] == [True, True, False]
    assert b"three" not in objects(repo)
    # the tip of default is not there yet
    assert "refs/heads/first " in refs(repo)
    assert "refs/heads/default " not in refs(repo)
    server.hg(repo, "git::export")
    assert "refs/heads/default " in refs(repo)


def test_secret_and_hidden_changesets_never_leave(repo: Path, server: HgServer) -> None:
    evolution = ["--config", "experimental.evolution=all"]
    commit(server, repo, one="1")
    commit(server, repo, "--config", "extensions.amalgam=", hushed="hidden-content\n")
    server.hg(repo, "debugobsolete", *evolution, *nodes(server, repo, "1"))
    server.hg(repo, *evolution, "update", "-q", "0")
    options = ["--secret", "-u", "secret-user"]
    commit(server, repo, *options, whispered="secret-content\n")
    commit(server, repo, *options, whispered="secret-content\nmore\n")
    server.hg(repo, *evolution, "update", "-q", "0")
    commit(server, repo, two="2")
    server.hg(repo, "bookmark", "-r", "3", "secret-bookmark")
    for args in ([], ["-r", "all()"], ["--rebuild"], ["-r", "secret()", "--hidden"]):
        done = server.run(repo, *evolution, "git::export", *args)
        assert done.code == ("secret()" in args)
        exported = [bool(oid) for oid in ids(server, repo)]
        assert exported == [True, False, False, False, True], args
        everything = objects(repo) + refs(repo).encode()
        for word in (b"hidden", b"hushed", b"secret", b"whispered"):
            assert word not in everything, (args, word)


def nodes(server: HgServer, repo: Path, revs: str) -> list[str]:
    log = server.hg(repo, "log", "--hidden", "-r", revs, "-T", "{node}\n")
    return log.decode().split()


def test_draft_changesets_stay_if_only_public_ones_may_leave(
    repo: Path, server: HgServer
) -> None:
    commit(server, repo, one="1")
    server.hg(repo, "phase", "--public", ".")
    commit(server, repo, drafted="draft-content\n")
    public = ["--config", "amalgam.git.export=public"]
    server.hg(repo, "git::export", *public)
    assert [bool(oid) for oid in ids(server, repo)] == [True, False]
    assert b"draft" not in objects(repo)
    server.hg(repo, "phase", "--public", ".")
    server.hg(repo, "git::export", *public)
    assert all(ids(server, repo))


def test_gitnode_is_empty_where_nothing_is_exported(
    repo: Path, server: HgServer
) -> None:
    commit(server, repo, one="1")
    assert ids(server, repo) == [""]
    server.hg(repo, "git::export")
    (oid,) = ids(server, repo)
    assert git(store_of(repo), "cat-file", "-t", oid) == b"commit\n"
    assert ids(server, repo, "null") == [""]


def test_store_of_an_empty_repository_is_up_to_date(empty: Exported) -> None:
    """Before the first changeset, and after the last one is gone."""

    def is_up_to_date() -> bool:
        return exporting.is_up_to_date(empty.git_store())

    empty.hg("git::export")
    assert is_up_to_date()
    empty.commit_nothing("one")
    assert not is_up_to_date()
    empty.hg("git::export")
    empty.hg(*STRIP, "0")
    assert not is_up_to_date()
    empty.hg("git::export")
    assert is_up_to_date()
