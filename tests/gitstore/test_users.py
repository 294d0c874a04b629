"""Several users, volumes and repositories around one git store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, add_config, git, hg
from testlib.small import DETAILED, STORE, commit, refs, repository, run_hg, said
from testlib.users import User, in_namespace
from testlib.webserver import serving

pytestmark = pytest.mark.slow

DEVELOPERS = 21000
ALICE = User(20001, 20001, (DEVELOPERS,))
BOB = User(20002, 20002, (DEVELOPERS,))
CAROL = User(20003, 20003)
TRUSTED = ("--config", f"trusted.users={ALICE.uid}")
"""What a stranger needs who runs git in a repository of alice's, or writes there."""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def server() -> Iterator[Path]:
    """A repository of alice's that the developers may write and all may read."""
    directory = Path(tempfile.mkdtemp(prefix="amalgam-users-"))
    directory.chmod(0o755)
    repo = directory / "repo"
    repo.mkdir()
    os.chown(repo, ALICE.uid, DEVELOPERS)
    repo.chmod(0o2775)
    # see commit_as
    for_c = ("--config", "format.use-persistent-nodemap=no")
    done = ALICE.hg(repo, "init", ".", *for_c)
    assert not done.returncode, done.stderr
    # as 'hg help' and the wiki say: chgrp -R, chmod -R g+w, chmod g+s
    for path in [repo / ".hg", *(repo / ".hg").rglob("*")]:
        os.chown(path, -1, DEVELOPERS)
        path.chmod(0o2775 if path.is_dir() else 0o664)
    try:
        yield repo
    finally:
        shutil.rmtree(directory)


def commit_as(user: User, repo: Path, name: str, *config: str) -> None:
    done = user.run(repo, "sh", "-c", f"echo {name} > {name}")
    assert not done.returncode, done.stderr
    # built with Rust, 7.2.4 changes modes of what is another user's, and fails
    policy = {"HGMODULEPOLICY": "c"}
    command = [sys.executable, str(HG), "--config", "extensions.amalgam="]
    command += ["commit", "-qAm", name, "-d", "0 0", "-u", name, *config]
    done = user.run(repo, *command, environment=policy)
    assert not done.returncode, done.stderr


def assert_like_the_store(repo: Path) -> None:
    paths = list((repo / ".hg/amalgam").rglob("*"))
    assert len(paths) > 10
    for path in [repo / ".hg/amalgam", *paths]:
        found = path.stat()
        mode = found.st_mode & 0o7777
        assert found.st_gid == DEVELOPERS, path
        if path.is_dir():
            assert mode == 0o2775, f"{path} {mode:o}"
        elif path.parent.name == "hooks":
            assert mode == 0o755, f"{path} {mode:o}"
        else:
            assert mode in (0o664, 0o444), f"{path} {mode:o}"


@pytest.mark.needs("users")
def test_two_users_of_a_group_export_in_turn_and_a_third_reads(server: Path) -> None:
    commit_as(ALICE, server, "one")
    assert "exported 1 changeset" in said(ALICE.hg(server, "git::export"))
    assert_like_the_store(server)

    commit_as(BOB, server, "two")
    done = BOB.hg(server, "git::export")
    assert "exported 1 changeset" in said(done), said(done)
    assert_like_the_store(server)
    commit_as(ALICE, server, "three")
    done = ALICE.hg(server, "git::export")
    assert "exported 1 changeset" in said(done), said(done)
    assert_like_the_store(server)

    template = "{desc} {gitnode}\n"
    ours = ALICE.hg(server, "log", "-T", template)
    theirs = CAROL.hg(server, "log", "-T", template)
    assert theirs.stdout == ours.stdout
    commits = dict(line.split() for line in ours.stdout.decode().splitlines())
    assert sorted(commits) == ["one", "three", "two"]
    done = CAROL.hg(server, "git::id", commits["one"])
    assert not done.returncode, said(done)

    # git asks each user whom he trusts
    config = server.parent / "gitconfig"
    config.write_text(f"[safe]\ndirectory = {server / STORE}\n")
    target = server.parent / "carol"
    target.mkdir()
    os.chown(target, CAROL.uid, CAROL.gid)
    done = CAROL.run(
        target,
        *("git", "clone", "-q", str(server / STORE), "clone"),
        environment={"GIT_CONFIG_GLOBAL": str(config)},
    )
    assert not done.returncode, said(done)
    assert (target / "clone/three").exists()


@pytest.mark.needs("users")
def test_each_user_sees_the_state_of_the_store(server: Path) -> None:
    commit_as(ALICE, server, "one")
    ALICE.hg(server, "git::export")
    for user in (ALICE, BOB, CAROL):
        done = user.hg(server, *TRUSTED, "admin::amalgam")
        assert not done.returncode, said(done)
        assert "nothing is wrong" in said(done)
    done = CAROL.hg(server, "admin::amalgam")
    assert done.returncode == 1
    assert "who is not trusted" in said(done)
    done = CAROL.hg(server, *TRUSTED, "admin::amalgam", "--repair")
    assert not done.returncode, said(done)

    commit_as(BOB, server, "two")
    done = BOB.hg(server, *TRUSTED, "admin::amalgam", "--repair")
    assert not done.returncode, said(done)
    assert_like_the_store(server)
    for options in ((), ("--debug",), (*TRUSTED, "--debug")):
        done = BOB.hg(server, *options, "admin::amalgam", "--repair")
        assert "not trusting file" not in said(done)


@pytest.mark.needs("users")
def test_user_who_may_only_read_is_told_what_is_to_be_written(server: Path) -> None:
    commit_as(ALICE, server, "one")
    done = CAROL.hg(server, *TRUSTED, "--config", DETAILED, "git::export")
    assert done.returncode == 20
    assert said(done).splitlines() == [
        "abort: git store is not up to date and cannot be written: "
        f"Permission denied: '{server}/.hg/amalgam'",
        f"(export as a user who may write to '{server}/.hg/store')",
    ]

    ALICE.hg(server, "git::export")
    done = CAROL.hg(server, *TRUSTED, "git::export")
    assert (done.returncode, said(done)) == (0, "nothing new to export\n")
    done = CAROL.hg(server, *TRUSTED, "git::export", "-r", "0")
    assert (done.returncode, said(done)) == (0, "nothing new to export\n")

    commit_as(BOB, server, "two")
    done = CAROL.hg(server, *TRUSTED, "--config", DETAILED, "git::export")
    assert done.returncode == 20
    first, hint = said(done).splitlines()
    assert first.startswith("abort: git store is not up to date and cannot be written")
    assert hint.startswith("(export as a user who may write to ")
    done = CAROL.hg(server, *TRUSTED, "--config", DETAILED, "git::export", "--rebuild")
    assert done.returncode == 20
    assert not list((server / ".hg/amalgam").rglob("*tmp*"))


@pytest.mark.needs("users")
def test_stranger_reads_ids_and_runs_and_writes_nothing(server: Path) -> None:
    commit_as(ALICE, server, "one")
    ALICE.hg(server, "git::export")
    shown = ALICE.hg(server, "log", "-T", "{gitnode}").stdout.decode()
    assert CAROL.hg(server, "log", "-T", "{gitnode}").stdout.decode() == shown
    done = CAROL.hg(server, "log", "-r", f"gitnode({shown})", "-T", "{desc}")
    assert said(done) == "one"
    for command in (
        ["git::export"],
        ["git::export", "-r", "0"],
        ["git::verify"],
        ["git::bundle", "-"],
        ["admin::amalgam", "--repair"],
    ):
        done = CAROL.hg(server, "--config", DETAILED, *command)
        assert said(done).splitlines() == [
            f"abort: '{server}/.hg' belongs to user '{ALICE.uid}', who is not trusted",
            "(see 'hg help config.trusted')",
        ], command
    done = run_hg(server, "git::export")
    assert "who is not trusted" in said(done)


@pytest.mark.needs("users")
def test_file_of_mercurial_that_cannot_be_read_is_named(server: Path) -> None:
    commit_as(ALICE, server, "one")
    filelog = server / ".hg/store/data/one.i"
    filelog.chmod(0o600)
    done = BOB.hg(server, "git::export")
    assert done.returncode == 255
    assert said(done) == f"abort: Permission denied: '{filelog}'\n"


@pytest.mark.needs("users")
def test_member_of_the_group_needs_the_trust_of_the_host(server: Path) -> None:
    commit_as(ALICE, server, "one")
    for command in ("git::export", "git::verify"):
        hg_alone = (sys.executable, str(HG), "--config", "extensions.amalgam=")
        done = BOB.run(server, *hg_alone, command)
        assert done.returncode
        assert said(done).splitlines() == [
            f"abort: '{server}/.hg' belongs to user '{ALICE.uid}', who is not trusted",
            f"(if you trust the members of group '{DEVELOPERS}', set trusted.groups)",
        ]
    # git does not run for who owns the store, but not the repository
    BOB.hg(server, "git::export")
    done = ALICE.hg(server, "git::verify", "--config", f"trusted.users={BOB.uid}")
    assert f"belongs to user '{BOB.uid}', who does not own '.hg'" in said(done)
    shutil.rmtree(server / ".hg/amalgam")
    ALICE.hg(server, "git::export")
    for user in (ALICE, BOB):
        done = user.hg(server, "git::verify")
        assert not done.returncode, said(done)


@pytest.mark.needs("users")
def test_what_root_makes_belongs_to_the_owner(server: Path) -> None:
    commit_as(ALICE, server, "one")
    done = run_hg(server, *TRUSTED, "git::export")
    assert "exported 1 changeset" in said(done), said(done)
    for path in (server / ".hg/amalgam").rglob("*"):
        assert path.lstat().st_uid == ALICE.uid, path
    commit_as(ALICE, server, "two")
    done = ALICE.hg(server, "git::export")
    assert "exported 1 changeset" in said(done), said(done)
    assert not ALICE.hg(server, "git::verify").returncode


@pytest.mark.needs("users")
def test_git_gc_by_another_user_loses_nothing(server: Path) -> None:
    add_config(server, "[phases]\nnew-commit = public\n")
    os.chown(server / ".hg/hgrc", ALICE.uid, DEVELOPERS)  # or it is not trusted
    for name in ("one", "two"):
        commit_as(ALICE, server, name)
        ALICE.hg(server, "git::export")
    packs = sorted((server / STORE).glob("objects/pack/*.pack"))
    gc = ["git", "-c", f"safe.directory={server / STORE}", "gc", "-q"]
    done = BOB.run(server / STORE, *gc)
    assert not done.returncode, said(done)
    assert sorted((server / STORE).glob("objects/pack/*.pack")) == packs
    for path in (server / STORE / "objects").rglob("*"):
        assert path.stat().st_gid == DEVELOPERS
        assert path.stat().st_mode & 0o777 in (0o775, 0o444, 0o664), path
    done = ALICE.hg(server, "git::export")
    assert said(done) == "nothing new to export\n"
    commit_as(BOB, server, "three")
    done = BOB.hg(server, "git::export", "--config", f"trusted.users={ALICE.uid}")
    assert "exported 1 changeset" in said(done), said(done)


@pytest.mark.needs("users")
def test_stale_lock_of_another_user_is_taken_over(server: Path) -> None:
    commit_as(ALICE, server, "one")
    ALICE.hg(server, "git::export")
    die = server.parent / "die.py"
    die.write_text(DIE_WITH_THE_LOCK)
    commit_as(ALICE, server, "two")
    done = ALICE.hg(server, "git::export", "--config", f"extensions.die={die}")
    assert done.returncode == -signal.SIGKILL
    assert (server / ".hg/amalgam/lock").is_symlink()
    done = BOB.hg(server, "git::export")
    assert "exported 1 changeset" in said(done), said(done)
    assert not (server / ".hg/amalgam/lock").is_symlink()


DIE_WITH_THE_LOCK = """
import os, signal
from hgext3rd.amalgam.gitstore.export import conversion

def run(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def extsetup(ui):
    conversion.ExportConversion.run = run
"""


@pytest.mark.needs("mounts")
def test_read_only_media_can_be_read_and_need_no_export(repo: Path) -> None:
    hg(repo, "git::export")
    read_only = f"mount --bind -o ro {repo} {repo}; mount -o remount,ro,bind {repo}"

    def there(*command: str) -> str:
        return said(in_namespace(read_only, command, repo, ENVIRONMENT))

    with_amalgam = (str(HG), "--config", "extensions.amalgam=")
    assert there("touch", ".hg/x") == (
        "touch: cannot touch '.hg/x': Read-only file system\n"
    )
    assert there(*with_amalgam, "git::export") == "nothing new to export\n"
    shown = there(*with_amalgam, "log", "-T", "{gitnode}").strip()
    assert shown == git(repo / STORE, "rev-parse", "HEAD").decode().strip()
    assert there(*with_amalgam, "git::id", shown) == (
        hg(repo, "log", "-T", "{node}\n").decode()
    )
    clone = repo.parent / "clone"
    assert there("git", "clone", "-q", STORE, str(clone)) == ""
    assert (clone / "one").exists()

    commit(repo, "two")
    assert there(*with_amalgam, "git::export").splitlines() == [
        "abort: git store is not up to date and cannot be written: "
        f"Read-only file system: '{repo}/.hg/amalgam/lock'",
        "(export on a host that may write to this file system)",
    ]


def test_store_on_another_volume(repo: Path) -> None:
    volume = tempfile.mkdtemp(prefix="amalgam-", dir="/dev/shm")
    try:
        assert os.stat(volume).st_dev != repo.stat().st_dev
        where = ("--config", f"amalgam.git.path={volume}/deep/down")
        hg(repo, "git::export", *where)
        store = Path(volume, "deep/down/cinnabar.git")
        git(store, "fsck", "--full", "--strict")
        shown = hg(repo, "log", "-T", "{gitnode}", *where)
        assert shown == git(store, "rev-parse", "refs/heads/default").strip()
        assert not (repo / ".hg/amalgam/git").exists()
        commit(repo, "two")
        assert b"exported 1 " in hg(repo, "git::export", *where)
    finally:
        shutil.rmtree(volume)


def test_two_repositories_do_not_share_a_store(repo: Path, tmp_path: Path) -> None:
    where = ("--config", f"amalgam.git.path={tmp_path}/stores")
    hg(repo, "git::export", *where)
    store = tmp_path / "stores/cinnabar.git"
    named = git(store, "for-each-ref")
    other = tmp_path / "other"
    hg(tmp_path, "init", str(other))
    commit(other, "two")
    for _before in ("nothing exported", "exported elsewhere"):
        done = run_hg(other, "git::export", *where)
        assert done.returncode == 20
        assert done.stderr.decode().splitlines() == [
            f"abort: git repository '{store}' contains refs that this repository "
            "did not write",
            "(set amalgam.git.path to another directory, or use --rebuild)",
        ]
        assert git(store, "for-each-ref") == named
        hg(other, "git::export")
    hg(other, "git::export", "--rebuild", *where)
    git(store, "fsck", "--strict")
    assert run_hg(repo, "git::export", *where).returncode == 20


@pytest.mark.needs("users")
@pytest.mark.parametrize("has_more", [False, True])
def test_two_owners_do_not_share_a_directory_for_bundles(
    server: Path, has_more: bool
) -> None:
    """The file that is in the way is named, or the list, and no temporary one stays."""
    commit_as(ALICE, server, "one")
    clone = server.parent / "clone"
    shutil.copytree(server, clone)
    for path in [clone, *clone.rglob("*")]:
        os.chown(path, BOB.uid, DEVELOPERS)
    if has_more:  # bundles of the same changesets have the same name
        commit_as(BOB, clone, "two")
    shared = server.parent / "bundles"
    shared.mkdir()
    shared.chmod(0o1777)
    items = (
        *("extensions.clonebundles=", "clone-bundles.git.formats=git-v2"),
        *("amalgam.bundles.external=yes", f"amalgam.bundles.directory={shared}"),
    )
    config = [it for item in items for it in ("--config", item)]
    refresh = ("admin::clone-bundles-refresh", *config)
    for user, repo in ((ALICE, server), (BOB, clone)):
        assert not user.hg(repo, "phase", "-p", "tip").returncode
        done = user.hg(repo, "git::bundle", str(shared / "file"))
        if user is ALICE:
            assert not done.returncode, said(done)
            assert not user.hg(repo, *refresh).returncode
    there = {path: path.read_bytes() for path in shared.iterdir()}
    assert len(there) == 3
    denied = "Operation not permitted"
    assert said(done).splitlines() == [f"abort: {denied}: '{shared}/file'"]
    done = BOB.hg(clone, *refresh)
    own = "give each repository an amalgam.bundles.directory of its own"
    expected = [
        f"abort: the list of bundles in '{shared}' is of another repository",
        f"({own}; if this one was moved, remove bundles.list there)",
    ]
    if not has_more:
        (name,) = shared.glob("*.bundle")
        expected = [
            f"abort: cannot write bundle file '{name}': {denied}",
            f"({own}, which its owner may write)",
        ]
    assert done.returncode == 255
    assert said(done).splitlines()[-2:] == expected
    new = {path: path.read_bytes() for path in shared.iterdir()}
    assert there.items() <= new.items()
    assert len(new) == len(there) + has_more


@pytest.mark.parametrize("safe", ["no", "yes"])
def test_share_and_source_are_one_store(repo: Path, tmp_path: Path, safe: str) -> None:
    hg(repo, "bookmark", "of-source")
    (repo / ".hg/hgrc").write_text("[amalgam]\ngit.path = ../stores\n")
    share = tmp_path / "share"
    options = (
        "--config",
        "extensions.share=",
        "--config",
        f"format.use-share-safe={safe}",
    )
    hg(tmp_path, *options, "share", str(repo), str(share))
    commit(share, "two")
    hg(share, "bookmark", "of-share")

    done = hg(share, "git::export", "-T", "json")
    store = tmp_path / "repo/stores/cinnabar.git"
    assert str(store).encode() in done
    expected = {
        *("refs/heads/default", "refs/heads/of-source"),
        "refs/cinnabar/metadata",
    }
    listing = git(store, "for-each-ref", "--format=%(refname)")
    assert set(listing.decode().split()) == expected
    assert hg(repo, "git::export") == b"nothing new to export\n"
    assert not (share / ".hg/amalgam").exists()
    shown = hg(share, "log", "-T", "{desc} {gitnode}\n")
    assert shown == hg(repo, "log", "-T", "{desc} {gitnode}\n")
    assert all(len(line.split()) == 2 for line in shown.splitlines())


def test_share_of_bookmarks_names_them_from_either_side(
    repo: Path, tmp_path: Path
) -> None:
    share = tmp_path / "share"
    option = ("--config", "extensions.share=")
    hg(tmp_path, *option, "share", "-B", str(repo), str(share))
    hg(share, *option, "bookmark", "common")
    hg(share, *option, "git::export")
    assert set(refs(repo)) == {"refs/heads/default", "refs/heads/common"}


def test_configuration_of_a_share_does_not_change_the_store(
    repo: Path, tmp_path: Path
) -> None:
    share = tmp_path / "share"
    hg(tmp_path, "--config", "extensions.share=", "share", str(repo), str(share))
    hg(repo, "git::export")
    add_config(share, "[amalgam]\ngit.refs = tags\ngit.export = public\n")
    assert hg(share, "git::export") == b"nothing new to export\n"


@pytest.mark.needs("users")
def test_snapshots_are_made_by_who_may_write_and_used_by_who_may_read(
    server: Path,
) -> None:
    every = ("--config", "experimental.mmapindexthreshold=0")

    def look(user: User, *config: str) -> tuple[str, str]:
        """Return why the changelog is mapped or read, and what is in it."""
        asked = user.hg(server, "admin::amalgam", "-T", "json", *every, *config)
        assert not asked.returncode, asked.stderr
        (state,) = json.loads(asked.stdout)
        reasons = {index["index"]: index["reason"] for index in state["indexes"]}
        log = user.hg(server, "log", "-T", "{desc} ", *every, *config)
        assert not log.returncode, log.stderr
        return reasons["00changelog"], log.stdout.decode()

    def modes() -> set[tuple[int, int]]:
        found = [path.stat() for path in (server / ".hg/amalgam/index").iterdir()]
        assert found
        return {(stat.st_gid, stat.st_mode & 0o7777) for stat in found}

    commit_as(ALICE, server, "one")
    # nothing is there, and carol cannot make it
    trust = ("--config", f"trusted.users={ALICE.uid}")
    assert look(CAROL, *trust) == ("no-snapshot", "one ")
    assert not (server / ".hg/amalgam").exists()
    assert look(ALICE) == ("large-enough", "one ")
    assert modes() == {(DEVELOPERS, 0o664)}
    assert look(CAROL, *trust) == ("large-enough", "one ")
    # without trust, she reads: who truncates what she has mapped, ends her process
    assert look(CAROL) == ("untrusted", "one ")

    # bob's hg has no amalgam; who may write looks again, who may not reads
    commit_as(BOB, server, "two", "--config", "extensions.amalgam=!")
    assert look(CAROL, *trust) == ("no-snapshot", "two one ")
    assert look(BOB) == ("large-enough", "two one ")
    assert look(CAROL, *trust) == ("large-enough", "two one ")
    commit_as(BOB, server, "three", *every)
    commit_as(ALICE, server, "four", *every)
    assert look(CAROL, *trust) == ("large-enough", "four three two one ")
    assert modes() == {(DEVELOPERS, 0o664)}


@pytest.mark.needs("users")
def test_push_of_a_member_of_the_group_is_refused(server: Path) -> None:
    commit_as(ALICE, server, "one")
    ALICE.hg(server, "git::export")
    config = server.parent / "gitconfig"
    config.write_text(
        f"[safe]\ndirectory = {server / STORE}\n[core]\nhooksPath = /nonexistent\n"
    )
    named = (server / STORE / "packed-refs").read_text()
    for user in (ALICE, BOB):
        done = user.run(
            server / STORE,
            *("git", "push", str(server / STORE), "HEAD:refs/heads/new"),
            environment={"GIT_CONFIG_GLOBAL": str(config)},
        )
        assert done.returncode
        assert "this repository is read-only for git" in said(done)
        assert f"(push with Mercurial to '{server}' instead)" in said(done)
    assert (server / STORE / "packed-refs").read_text() == named
    assert not list((server / STORE / "refs/heads").iterdir())


def test_share_of_a_source_with_a_mistake_works_as_ever(tmp_path: Path) -> None:
    """One that does not read its source's configuration otherwise."""
    unsafe = ("--config", "format.use-share-safe=no", "--config", "extensions.share=")
    hg(tmp_path, *unsafe, "init", "source")
    hg(tmp_path, *unsafe, "share", "-q", "source", "share")
    (tmp_path / "source/.hg/hgrc").write_text("[amalgam\n")
    share = tmp_path / "share"
    commit(share, "one")
    assert hg(share, "log", "-T", "{desc}") == b"one"
    assert run_hg(share, "git::export").returncode == 30
    served = ("--config=extensions.amalgam=", "--config=amalgam.git.serve=yes")
    with serving(share, *served) as web:
        status, _headers, body = web.ask("info/refs?service=git-upload-pack")
        assert status == 503
        assert b"operator" in body
        assert "warning: git: " in web.said()
        assert web.ask("rev/tip")[0] == 200
