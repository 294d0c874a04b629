"""Adoption: going on from the commits of another program, which keep their ids."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib import killpoints, mirrors
from testlib.environment import ENVIRONMENT, captured, executable, git, hg
from testlib.mirrors import ids
from testlib.small import STORE, commit, repository, run_hg, said

pytestmark = pytest.mark.slow

KEPT = ".hg/amalgam/adopted/cinnabar"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A history with a merge, tags, and a changeset without files of its own."""
    root = repository(tmp_path / "repo")
    commit(root, "two")
    hg(root, "tag", "-r", "0", "v1", "-d", "0 0")
    hg(root, "update", "-q", "0")
    hg(root, "branch", "-q", "side")
    commit(root, "three")
    hg(root, "merge", "-q", "default")
    hg(root, "commit", "-qm", "merge", "-d", "0 0")
    hg(root, "commit", "-qm", "closed", "--close-branch", "-d", "0 0")
    return root


class Mirror:
    """A mirror of ``repo``, and a file that says whose its commits are."""

    def __init__(self, repo: Path, change: mirrors.Change = mirrors.by_another) -> None:
        self.repo = repo
        self.path = repo.parent / "mirror.git"
        self.commits = mirrors.make(repo, self.path, change)
        self.map = mirrors.write_map(repo.parent / "map", self.commits)

    def adopt(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        """Adopt it; that may fail."""
        given = ["--adopt", str(self.path), "--map", str(self.map)]
        return run_hg(self.repo, "git::export", *given, *args)


@pytest.fixture
def mirror(repo: Path) -> Mirror:
    return Mirror(repo)


def assert_right(repo: Path, commits: dict[str, str]) -> None:
    """Assert that ``commits`` are exported, and that all is sound."""
    assert ids(repo).items() >= commits.items()
    git(repo / STORE, "fsck", "--full")
    assert b"no differences" in hg(repo, "git::verify", "--full")
    assert b"nothing is wrong" in hg(repo, "admin::amalgam")


def assert_nothing_left(repo: Path) -> None:
    """Assert that a refused adoption has left nothing."""
    assert not [*(repo / ".hg/amalgam").rglob("*")] or not (repo / KEPT).exists()
    assert killpoints.leftovers(repo) == []
    assert not (repo / STORE).exists()


def test_ids_stay_and_new_changesets_go_on_from_them(
    mirror: Mirror, tmp_path: Path
) -> None:
    repo = mirror.repo
    done = mirror.adopt("-T", "json")
    (report,) = json.loads(done.stdout)
    assert report["adopted"] == len(mirror.commits) == report["changesets"]
    assert report["adopted_kept"] is True
    assert ids(repo) == mirror.commits
    assert_right(repo, mirror.commits)
    shutil.rmtree(mirror.path)
    last = ids(repo)[hg(repo, "log", "-r", "tip", "-T", "{node}").decode()]
    commit(repo, "four")
    hg(repo, "git::export")
    before = ids(repo)
    tip = hg(repo, "log", "-r", "tip", "-T", "{gitnode}").decode()
    parent = git(repo / STORE, "rev-parse", f"{tip}^").decode().strip()
    assert parent == last
    assert_right(repo, mirror.commits)
    for again in (["--rebuild"], []):
        if not again:
            shutil.rmtree(repo / ".hg/amalgam/git")
            shutil.rmtree(repo / ".hg/amalgam/map")
        hg(repo, "git::export", *again)
        assert ids(repo) == before
        assert_right(repo, mirror.commits)
    git(tmp_path, "clone", "-q", "--mirror", str(repo / STORE), "clone")
    git(tmp_path / "clone", "fsck", "--full", "--strict")
    authors = git(tmp_path / "clone", "log", "--all", "--format=%ae").decode().split()
    assert authors.count("mapped@example.org") == len(mirror.commits)


def test_admin_says_how_many_were_adopted(mirror: Mirror) -> None:
    mirror.adopt()
    text = b"%d commits of another program, with the ids from there"
    assert text % len(mirror.commits) in hg(mirror.repo, "admin::amalgam")


def test_git_cinnabar_gets_nothing_with_other_ids(mirror: Mirror) -> None:
    mirror.adopt()
    repo = mirror.repo
    assert b"cinnabar" not in git(repo / STORE, "for-each-ref")
    done = run_hg(repo, "git::bundle", "-t", "cinnabar-v1", "../bundle")
    assert (done.returncode, done.stderr.decode().splitlines()) == (
        20,
        [
            "abort: git-cinnabar would give some changesets other commit ids",
            "(use a bundle of type 'git-v2')",
        ],
    )
    hg(repo, "git::bundle", "../bundle")
    git(repo / STORE, "bundle", "verify", "-q", str(repo.parent / "bundle"))


def test_own_ids_are_not_kept(repo: Path) -> None:
    same = Mirror(repo, lambda content: content)
    assert "no ids have to be kept" in said(same.adopt())
    assert not (repo / KEPT).exists()
    assert b"refs/cinnabar/metadata" in git(repo / STORE, "for-each-ref")
    assert_right(repo, same.commits)


def test_metadata_of_git_cinnabar_says_whose_commits_are(repo: Path) -> None:
    other = repo.with_name("other")
    shutil.copytree(repo, other)
    hg(other, "git::export")
    done = run_hg(repo, "git::export", "--adopt", str(other / STORE), "--full")
    assert f"adopted the commits of {len(ids(other))} changesets" in said(done)
    assert ids(repo) == ids(other)


def test_files_of_hg_fast_export_say_so_and_tags_may_be_left_out(repo: Path) -> None:
    path = repo.with_name("mirror.git")
    git(repo.parent, "init", "-q", "--bare", str(path))
    hg(repo, "git::export")
    source = repo.with_name("source.git")
    shutil.copytree(repo / STORE, source)
    shutil.rmtree(repo / ".hg/amalgam")
    shutil.rmtree(path)
    change = mirrors.without_tags(source)

    def changed(content: bytes) -> bytes:
        made = change(content)
        tree = made[5:45].decode()
        pack = captured(
            ["git", "pack-objects", "--stdout", "--revs", "-q"],
            source,
            input=f"{tree}\n".encode(),
            check=True,
        ).stdout
        command = ["git", "unpack-objects", "-q"]
        subprocess.run(command, cwd=path, env=ENVIRONMENT, input=pack, check=True)
        return made

    commits = mirrors.make(repo, path, changed)
    mirrors.write_marks(path, repo, commits)
    hg(repo, "git::export", "--adopt", str(path), "--full")
    assert_right(repo, commits)
    commit(repo, "four")
    hg(repo, "git::export")
    assert_right(repo, commits)
    before = ids(repo)
    hg(repo, "git::export", "--rebuild")
    assert ids(repo) == before
    assert_right(repo, commits)


def test_collisions_may_be_in_another_order(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    for branch in ("a", "b", "c"):
        hg(repo, "update", "-q", "0")
        hg(repo, "branch", "-q", branch)
        commit(repo, "same")
    first, second, third = (
        hg(repo, "log", "-r", branch, "-T", "{node}").decode() for branch in "abc"
    )
    # the third is not in the mirror yet
    mirror = Mirror(repo, lambda content: content)
    other = mirror.commits | {
        first: mirror.commits[second],
        second: mirror.commits[first],
    }
    del other[third]
    mirrors.write_map(mirror.map, other)
    assert mirror.adopt().returncode == 0
    assert_right(repo, other)
    assert ids(repo)[third] == mirror.commits[third]
    hg(repo, "git::export", "--rebuild")
    assert_right(repo, other | {third: mirror.commits[third]})


def test_an_id_that_is_given_is_taken_before_its_changeset_comes(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path / "repo")
    for branch in ("a", "b"):
        hg(repo, "update", "-q", "0")
        hg(repo, "branch", "-q", branch)
        commit(repo, "same")
    first, second = (
        hg(repo, "log", "-r", branch, "-T", "{node}").decode() for branch in "ab"
    )
    mirror = Mirror(repo, lambda content: content)
    free = mirror.commits[first]
    root = next(node for node in mirror.commits if node not in (first, second))
    given = {root: mirror.commits[root], second: free}
    mirrors.write_map(mirror.map, given)
    assert mirror.adopt().returncode == 0
    assert (repo / KEPT).exists()
    assert_right(repo, given | {first: mirror.commits[second]})


def test_what_is_not_served_is_never_taken_over(repo: Path) -> None:
    commit(repo, "secret")
    node = hg(repo, "log", "-r", "tip", "-T", "{node}").decode()
    mirror = Mirror(repo)
    hg(repo, "phase", "--force", "--secret", "tip")
    lost = {"f" * 40: mirror.commits[node]}
    mirrors.write_map(mirror.map, mirror.commits | lost)
    (report,) = json.loads(mirror.adopt("-T", "json").stdout)
    assert (report["adopted_unserved"], report["adopted_unknown"]) == (1, 1)
    assert bytes.fromhex(node) not in (repo / KEPT).read_bytes()
    assert bytes.fromhex(mirror.commits[node]) not in (repo / KEPT).read_bytes()
    assert run_hg(repo / STORE, "version", "-q").returncode == 0
    there = captured(["git", "cat-file", "-e", mirror.commits[node]], repo / STORE)
    assert there.returncode
    assert_right(repo, {n: oid for n, oid in mirror.commits.items() if n != node})


def test_drafts_are_adopted_and_come_back_with_their_ids(repo: Path) -> None:
    hg(repo, "phase", "--force", "--draft", "2:")
    mirror = Mirror(repo)
    mirror.adopt()
    assert_right(repo, mirror.commits)
    hg(repo, "phase", "--force", "--secret", "tip")
    hg(repo, "git::export")
    tip = hg(repo, "log", "-r", "tip", "-T", "{node}").decode()
    assert tip not in ids(repo)
    hg(repo, "phase", "--draft", "tip")
    hg(repo, "git::export")
    assert_right(repo, mirror.commits)
    hg(repo, "phase", "--public", "tip")
    hg(repo, "git::export")
    assert_right(repo, mirror.commits)


def _renamed(content: bytes) -> bytes:
    """Give one commit the tree of its parent's."""
    if content.endswith(b"\n\ntwo"):
        empty = b"4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        return b"tree " + empty + content[45:]
    return content


def test_a_mirror_with_other_files_is_refused(repo: Path) -> None:
    mirror = Mirror(repo, _renamed)
    node = hg(repo, "log", "-r", "1", "-T", "{node}").decode()
    done = mirror.adopt()
    assert done.returncode == 10
    assert done.stderr.decode().splitlines() == [
        f"abort: commit {mirror.commits[node]} is not one of changeset {node}: "
        "file 'one' is not in the commit",
        "(a mirror whose files were filtered or changed cannot be adopted)",
    ]
    assert_nothing_left(repo)


def test_other_parents_are_refused(repo: Path) -> None:
    mirror = Mirror(repo)
    node = hg(repo, "log", "-r", "1", "-T", "{node}").decode()
    content = git(mirror.path, "cat-file", "commit", mirror.commits[node])
    orphan = b"".join(
        line
        for line in content.splitlines(keepends=True)
        if not line.startswith(b"parent ")
    )
    oid = mirrors.write_object(mirror.path, "commit", orphan)
    mirrors.write_map(mirror.map, mirror.commits | {node: oid})
    done = mirror.adopt()
    assert "its parents are not the commits of the changeset's parents" in said(done)
    assert_nothing_left(repo)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("x y\n", "line 1: expected 'NODE OID', 40 hexadecimal digits each"),
        ("{node} {oid}0\n", "line 1: expected 'NODE OID'"),
        ("{node} " + "0" * 100_000 + "\n", "line 1: expected 'NODE OID'"),
        ("\n# text\n{node} {oid}\n{node} {other}\n", "line 4: '{node}' has another"),
        ("{node} {oid}\n{next} {oid}\n", "have the same commit {oid}"),
        ("{node} " + "1" * 40 + "\n", "commit " + "1" * 40 + " of changeset {node} is"),
        ("{node} {tree}\n", "object {tree} of changeset {node} is not a commit"),
        ("{gone} {oid}\n", "no changeset that may leave has a commit in"),
        ("", "no changeset that may leave has a commit in"),
    ],
)
def test_a_map_that_is_wrong_is_refused(repo: Path, lines: str, text: str) -> None:
    mirror = Mirror(repo)
    (node, oid), (after, other), *_rest = mirror.commits.items()
    tree = git(mirror.path, "rev-parse", f"{oid}^{{tree}}").decode().strip()
    names = {"node": node, "oid": oid, "next": after, "other": other, "tree": tree}
    for name, value in (names | {"gone": "f" * 40}).items():
        lines, text = (it.replace(f"{{{name}}}", value) for it in (lines, text))
    mirror.map.write_text(lines)
    done = mirror.adopt()
    assert done.returncode == 10
    assert text in said(done)
    assert len(done.stderr) < 1000
    assert_nothing_left(repo)


def test_a_map_that_is_no_file_is_not_waited_for(mirror: Mirror) -> None:
    mirror.map.unlink()
    os.mkfifo(mirror.map)
    assert "is not a regular file" in said(mirror.adopt())


@pytest.mark.parametrize(
    "name", ["--upload-pack=touch ran", "ext::touch ran", "-oProxyCommand=x:y", "."]
)
def test_names_of_mirrors_are_no_options_and_no_programs(repo: Path, name: str) -> None:
    done = run_hg(repo, "git::export", f"--adopt={name}", "--map", __file__)
    assert done.returncode in (10, 255)
    assert done.stderr.startswith(b"abort: ")
    assert not (repo / "ran").exists()
    assert not (repo / STORE).exists()


def test_nothing_of_a_mirror_is_obeyed(mirror: Mirror) -> None:
    path, ran = mirror.path, mirror.path.parent / "ran"
    program = f"touch {ran}; false"
    node, oid = next(iter(mirror.commits.items()))
    content = git(path, "cat-file", "commit", oid)
    other = mirrors.write_object(path, "commit", content + b"another")
    git(path, "update-ref", f"refs/replace/{oid}", other)
    (path / "info").mkdir(exist_ok=True)
    (path / "info/grafts").write_text(f"{oid} {other}\n")
    (path / "shallow").write_text(f"{mirror.commits[node]}\n")
    with (path / "config").open("a") as file:
        file.write(f'[core]\n\tfsmonitor = "{program}"\n\tsshCommand = "{program}"\n')
        file.write(f'[uploadpack]\n\tpackObjectsHook = "{program}"\n')
        file.write('[include]\n\tpath = /nonexistent\n[x "y"]\n\tz\n')
        file.write("[extensions]\n\tunknown = true\n")
    for hook in ("post-checkout", "reference-transaction", "pre-auto-gc"):
        (path / "hooks").mkdir(exist_ok=True)
        executable(path / f"hooks/{hook}", f"#!/bin/sh\n{program}\n")
    done = mirror.adopt("--full")
    assert done.returncode == 0, said(done)
    assert not ran.exists()
    assert_right(mirror.repo, mirror.commits)


def test_alternates_of_a_mirror_are_not_followed(mirror: Mirror) -> None:
    elsewhere = mirror.path.with_name("elsewhere.git")
    mirror.path.rename(elsewhere)
    git(elsewhere.parent, "init", "-q", "--bare", str(mirror.path))
    alternates = mirror.path / "objects/info/alternates"
    alternates.write_text(f"{elsewhere}/objects\n")
    done = mirror.adopt()
    assert "alternates are not followed" in said(done)
    (mirror.path / "objects/pack").rmdir()
    (mirror.path / "objects/pack").symlink_to(elsewhere / "objects/pack")
    assert mirror.adopt().returncode == 10
    assert_nothing_left(mirror.repo)


def test_pipes_among_the_objects_are_not_waited_for(mirror: Mirror) -> None:
    os.mkfifo(mirror.path / f"objects/pack/pack-{'0' * 40}.idx")
    os.mkfifo(mirror.path / f"objects/pack/pack-{'0' * 40}.pack")
    assert mirror.adopt().returncode == 0


@pytest.fixture
def url(mirror: Mirror) -> Iterator[str]:
    """A URL of the mirror, in the dumb protocol of git."""
    git(mirror.path, "update-server-info")
    handler = functools.partial(Quiet, directory=str(mirror.path.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{mirror.path.name}"
        server.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Sends files, and says nothing of it."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_mirror_that_has_a_url_is_fetched(mirror: Mirror, url: str) -> None:
    mirror_url = [f"--adopt={url}", "--map", str(mirror.map)]
    done = run_hg(mirror.repo, "git::export", *mirror_url)
    assert done.returncode == 0, said(done)
    assert_right(mirror.repo, mirror.commits)


def test_a_file_url_is_a_directory(mirror: Mirror) -> None:
    mirror_url = [f"--adopt=file://{mirror.path}", "--map", str(mirror.map)]
    assert run_hg(mirror.repo, "git::export", *mirror_url).returncode == 0
    assert_right(mirror.repo, mirror.commits)


def test_other_ids_are_replaced_only_if_asked(mirror: Mirror) -> None:
    hg(mirror.repo, "git::export")
    before = ids(mirror.repo)
    done = mirror.adopt()
    assert done.returncode == 20
    assert "changesets were exported with other ids already" in said(done)
    assert ids(mirror.repo) == before
    assert mirror.adopt("--rebuild").returncode == 0
    assert_right(mirror.repo, mirror.commits)


def test_a_second_adoption_may_change_nothing(mirror: Mirror) -> None:
    mirror.adopt()
    kept = (mirror.repo / KEPT).read_bytes()
    commit(mirror.repo, "four")
    assert mirror.adopt().returncode == 0
    own = ids(mirror.repo)
    shutil.rmtree(mirror.path)
    other = Mirror(mirror.repo, lambda content: content + b"other")
    done = other.adopt("--rebuild")
    assert done.returncode == 20
    assert "other commits were adopted before" in said(done)
    assert (mirror.repo / KEPT).read_bytes() == kept
    assert ids(mirror.repo) == own


def test_lost_ids_are_never_replaced_by_others(mirror: Mirror) -> None:
    repo = mirror.repo
    mirror.adopt()
    kept = (repo / KEPT).read_bytes()
    assert not (repo / KEPT).stat().st_mode & 0o222
    (repo / KEPT).unlink()
    commit(repo, "four")
    for args in (["git::export"], ["git::export", "--rebuild"]):
        done = run_hg(repo, *args)
        assert (done.returncode, b"restore it from a backup" in done.stderr) == (20, 1)
    assert "adopted commits" in said(run_hg(repo, "git::verify"))
    assert run_hg(repo, "admin::amalgam", "--repair").returncode == 20
    for at in (0, len(kept) // 3, len(kept) // 2, len(kept) - 1):
        damaged = bytearray(kept)
        damaged[at] ^= 1
        (repo / KEPT).write_bytes(damaged)
        assert run_hg(repo, "git::export", "--rebuild").returncode in (20, 50)
        assert "adopted commits" in said(run_hg(repo, "git::verify"))
        (repo / KEPT).unlink()
    (repo / KEPT).write_bytes(kept)
    hg(repo, "git::export")
    assert_right(repo, mirror.commits)


def test_options_without_a_mirror_have_no_meaning(repo: Path) -> None:
    for args in (["--map", "x"], ["--full"], ["--adopt", ".", "-r", "0"]):
        assert run_hg(repo, "git::export", *args).returncode == 10


@pytest.mark.torture
def test_killed_adoptions_end_as_undisturbed_ones(
    mirror: Mirror, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    given = ["--adopt", str(mirror.path), "--map", str(mirror.map)]
    assert killpoints.at_each(mirror.repo, scratch, "git::export", *given)
