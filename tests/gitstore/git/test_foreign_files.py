"""What others put into a git store or its map is not followed, awaited or believed."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from mercurial import ui as uimod
from testlib.dockets import edit, given
from testlib.environment import ENVIRONMENT, git
from testlib.exported import Exported

from hgext3rd.amalgam import docketfile, locking
from hgext3rd.amalgam.files import Directory, Placement, Unusable
from hgext3rd.amalgam.gitstore.docket import Docket
from hgext3rd.amalgam.gitstore.oidmap import MapFiles, Table
from hgext3rd.amalgam.locking import LockState, holder
from hgext3rd.amalgam.trust import Trust

PLACEMENT = Placement(0o2750, os.geteuid(), os.getegid())


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A git repository of somebody who must not notice."""
    victim = tmp_path / "victim"
    git(tmp_path, "init", "-q", "--bare", str(victim))
    (victim / "file").write_text("precious")
    (victim / "file").chmod(0o600)
    victim.chmod(0o700)
    return victim


def shot(victim: Path) -> list[tuple[str, int, bytes]]:
    """Return all that can be seen of a victim."""
    return [
        (str(path), path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in [victim, *sorted(victim.rglob("*"))]
    ]


@pytest.mark.parametrize("level", ["", "map", "git", "git/cinnabar.git"])
def test_store_is_never_where_a_link_leads(
    store: Exported, victim: Path, level: str
) -> None:
    path = store.amalgam / level
    path.rename(store.root / "aside")
    path.symlink_to(victim)
    before = shot(victim)
    for command in (["git::export"], ["git::export", "--rebuild"]):
        done = store.run(*command)
        assert done.code
        assert f"'{path}' is not a directory\n(remove it;" in done.err.decode()
    for command in (["git::verify"], ["git::bundle", "../x"], ["admin::amalgam"]):
        assert "Traceback" not in store.run(*command).err.decode()
    assert store.hg("log", "-r", "0", "-T", "{desc}") == "number 0"
    store.commit_nothing("more")
    assert shot(victim) == before


def link_to_file(path: Path, victim: Path) -> None:
    path.symlink_to(victim / "file")


def link_to_directory(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def fifo(path: Path, _victim: Path) -> None:
    os.mkfifo(path)


def sparse(path: Path, _victim: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 30)


SMALL_FILES = [
    "map/cinnabar.docket",
    "map/cinnabar.pending",
    "map/cinnabar.removals",
    "git/cinnabar.git/config",
    "git/cinnabar.git/HEAD",
    "git/cinnabar.git/packed-refs",
    "git/cinnabar.git/packed-refs.amalgam",
    "git/cinnabar.git/refs/heads/default",
    "git/cinnabar.git/hooks/pre-receive",
    "git/cinnabar.git/objects/info/alternates",
    "git/cinnabar.git/commondir",
    "git/cinnabar.git/logs",
]


@pytest.mark.sampled(12)
@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL_FILES)
@pytest.mark.parametrize("damage", [link_to_file, link_to_directory, fifo, sparse])
def test_export_replaces_what_is_no_file_of_ours(
    store: Exported, victim: Path, name: str, damage: Callable[[Path, Path], None]
) -> None:
    before, refs = shot(victim), store.git("for-each-ref")
    path = store.amalgam / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    damage(path, victim)
    template = "{gitnode}\n"
    assert "Traceback" not in store.run("log", "-T", template).err.decode()
    assert "Traceback" not in store.run("git::verify").err.decode()
    assert store.run("admin::amalgam").code in (0, 1)

    done = store.run("git::export")
    assert not done.code, done
    done = store.run("git::verify")
    assert not done.code, done
    assert [line.split()[0] for line in refs.splitlines()] == [
        line.split()[0] for line in store.git("for-each-ref").splitlines()
    ]
    store.git("fsck", "--strict")
    assert shot(victim) == before


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("refs/heads/other", "loose ref refs/heads/other"),
        ("objects/pack/x", "pack x"),
        ("shallow", "file shallow"),
    ],
)
def test_git_is_not_started_where_it_would_be_led_elsewhere(
    store: Exported, victim: Path, name: str, shown: str
) -> None:
    (store.git_dir / name).symlink_to(victim / "file")
    done = store.run("git::verify")
    assert done.code == 1
    assert f"{shown}: found" in done.out.decode()
    (store.git_dir / "objects/info/alternates").write_text(f"{victim}/objects\n")
    done = store.run("git::verify")
    assert "objects/info/alternates" in done.out.decode()
    assert not store.run("git::export").code
    done = store.run("git::verify")
    assert not done.code, done


DAMAGED: list[bytes] = [
    b"",
    b"\xff",
    docketfile.formatted(b"amalgam git store 6", []),
    docketfile.formatted(b"amalgam git store 5", [])[:-1],
    # of version 4
    b"{",
    b'{"version": 4}x',
    b'{"version": 4, "base": 7}',
    b'{"version": 4, "base": {"packs": {"x": []}}}',
    b'{"a":' * 200_000,
    b'{"version": ' + b"9" * 100_000 + b"}",
    b'{"version": NaN}',
    b'{"version": 3}',
]
NODE = b"0" * 40
CHANGES = [
    given("base-segment", b"../../store/00changelog.i"),
    given("base-segment", b"cinnabar-0123456789abcdef.map\n"),
    given("base-pack", b"pack-0"),
    given("base-pack", b"pack-%s\n" % NODE),
    given("base-complete", b"pack-%s" % NODE),
    given("base-checkpoint", b"7"),
    given("base-checkpoint", b"-1 %s %s" % (NODE, NODE)),
    given("base-checkpoint", b"1 %s x" % NODE),
    given("base-checkpoint", b"1 %s %s %s" % (NODE, NODE, NODE)),
    given("base-metadata-commit", b"--all"),
    given("base-metadata-commit", NODE, b"1" * 40),
    given("base-metadata-state", b"/etc/passwd"),
    given("base-metadata-state", b""),
    given("held", b"00 00"),
    given("held", b"%s %s%s" % (NODE, NODE[:-1], b" ")),
    given("dropped", b"pack-/../../x"),
    given("named", b"7"),
    given("refused", b"no"),
    given("refused", b""),
    given("unknown", b"x"),
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_docket_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cinnabar.docket").write_bytes(content)
    assert Docket.read(Directory(bytes(tmp_path)), b"cinnabar") == Docket()


def test_docket_names_only_files_of_ours(store: Exported) -> None:
    directory = Directory(bytes(store.map_dir))
    whole = store.docket_path.read_bytes()
    docket = Docket.read(directory, b"cinnabar")
    assert docket != Docket()
    for number, change in enumerate(CHANGES):
        edit(store.docket_path, change)
        assert Docket.read(directory, b"cinnabar") == Docket(), number
        store.docket_path.write_bytes(whole)
    assert Docket.read(directory, b"cinnabar") == docket


def test_packs_with_odd_names_do_not_spoil_the_docket(store: Exported) -> None:
    for name in ("pack-odd.idx", "pack-odd.pack", "pack-\udcff.idx", "pack-.idx"):
        (store.packs_dir / name).write_bytes(b"")
    store.hg("git::export", "--rebuild")
    assert Docket.read(Directory(bytes(store.map_dir)), b"cinnabar") != Docket()
    assert not list(store.packs_dir.glob("pack-*odd*"))


@pytest.mark.parametrize(
    "content",
    [
        *(b"host:99999999999999999999", b"a\x1b[2Jb:1", b"host:-1", b"x" * 2000),
        *(b"a:b:c", b"/etc/passwd", b"host:", b":1", b"1"),
    ],
)
def test_lock_that_is_none_is_not_believed(tmp_path: Path, content: bytes) -> None:
    directory = Directory(bytes(tmp_path))
    for make in (os.symlink, lambda text, path: path.write_bytes(text)):
        make(content, tmp_path / "lock")
        with pytest.raises(Unusable, match=r"is not a lock|is too large"):
            locking.locker(directory)
        found = holder(directory)
        assert found is not None
        assert found.state is LockState.NO_LOCK
        assert found.needs_person
        (tmp_path / "lock").unlink()


def test_lock_that_leads_elsewhere_is_not_awaited(store: Exported) -> None:
    for target in ("/etc/passwd", "nowhere", "lock"):
        (store.amalgam / "lock").symlink_to(target)
        done = store.run("git::export", "--config", "ui.timeout=5")
        assert f"'{store.amalgam}/lock' is not a lock" in done.err.decode()
        (store.amalgam / "lock").unlink()


def test_lock_that_is_a_fifo_is_not_awaited(store: Exported) -> None:
    os.mkfifo(store.amalgam / "lock")
    done = store.run("git::export")
    assert done.code
    assert f"'{store.amalgam}/lock' is not a regular file" in done.err.decode()
    assert "is no lock that" in store.run("admin::amalgam").out.decode()
    done = store.run("git::verify")
    assert "Traceback" not in done.err.decode()


def test_lock_is_taken_and_one_of_the_dead_is_taken_over(tmp_path: Path) -> None:
    directory, ui = Directory(bytes(tmp_path)), uimod.ui()
    with locking.held(ui, directory, PLACEMENT, b"x"):
        own = locking.locker(directory)
        assert own.endswith(b":%d" % os.getpid())
    assert directory.names() == []
    done = subprocess.Popen(["true"])
    done.wait()
    os.symlink(own.rpartition(b":")[0] + b":%d" % done.pid, tmp_path / "lock")
    with locking.held(ui, directory, PLACEMENT, b"x"):
        assert locking.locker(directory) == own
    assert directory.names() == []


def test_files_of_strangers_are_read_and_not_mapped(store: Exported) -> None:
    directory = Directory(bytes(store.map_dir))
    trusted = Trust(usable=True, owner=os.geteuid(), group=None)
    segments = store.named("segments")
    answers = []
    for trust in (trusted, trusted._replace(usable=False)):
        oidmap = MapFiles(directory, trust).open(segments)
        maps = Path("/proc/self/maps").read_text()
        assert all((name in maps) == trust.usable for name in segments)
        answers.append(sorted(oidmap.pairs(Table.CHANGESETS)))
        oidmap.close()
    assert answers[0] == answers[1]
    assert answers[0]


def plain_git(
    cwd: Path, *args: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *args],
        cwd=cwd,
        env=ENVIRONMENT | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def clone(store: Exported, tmp_path: Path) -> Path:
    """A clone with one more commit than the store has."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(store.git_dir), str(clone))
    (clone / "new").write_text("new\n")
    git(clone, "add", "new")
    author = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    git(clone, *author, "commit", "-q", "-m", "new")
    return clone


def files_of(store: Exported) -> list[str]:
    return sorted(str(path) for path in store.git_dir.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "args",
    [
        ["--force", "origin", "HEAD:refs/heads/default"],
        ["origin", "HEAD:refs/heads/new"],
        ["--force", "--mirror", "origin"],
        ["origin", ":refs/heads/default"],
    ],
    ids=["update", "create", "mirror", "delete"],
)
def test_push_is_refused_and_says_where_to_push(
    store: Exported, clone: Path, args: list[str]
) -> None:
    before, files = store.git("for-each-ref"), files_of(store)
    done = plain_git(clone, "push", *args)
    assert done.returncode
    remote = [line for line in done.stderr.splitlines() if line.startswith("remote:")]
    assert [line.removeprefix("remote: ").rstrip() for line in remote] == [
        "this repository is read-only for git",
        f"(push with Mercurial to '{store.root}' instead)",
    ]
    assert (store.git("for-each-ref"), files_of(store)) == (before, files)


@pytest.mark.parametrize(
    ("of_store", "expected"), [(0o2777, 0o755), (0o2770, 0o750), (0o700, 0o700)]
)
def test_hook_is_written_by_nobody_else(
    store: Exported, of_store: int, expected: int
) -> None:
    hook = store.git_dir / "hooks/pre-receive"
    for path in (store.root / ".hg/store", store.amalgam, store.git_dir):
        path.chmod(of_store)
    for wrong in (0o775, 0o777, 0o4755):
        hook.chmod(wrong)
        store.hg("git::export")
        assert stat.S_IMODE(hook.stat().st_mode) == expected


def test_hooks_and_settings_of_others_go_at_the_next_export(
    store: Exported, clone: Path
) -> None:
    hooks = store.git_dir / "hooks"
    assert [path.name for path in hooks.iterdir()] == ["pre-receive"]
    right = (hooks / "pre-receive").read_text()
    (hooks / "pre-receive").write_text("#!/bin/sh\nexit 0\n")
    (hooks / "post-receive").write_text("#!/bin/sh\n")
    (hooks / "inner").mkdir()
    for key, value in (
        ("core.hooksPath", "/nonexistent"),
        ("receive.denyDeletes", "true"),
        ("receive.autogc", "true"),
        ("receive.procReceiveRefs", "refs/x"),
        ("receive.procReceiveRefs", "refs/y"),
        ("pack.threads", "1"),
    ):
        store.git("config", "--add", key, value)
    store.hg("git::export")
    assert [path.name for path in hooks.iterdir()] == ["pre-receive"]
    assert (hooks / "pre-receive").read_text() == right
    assert stat.S_IMODE((hooks / "pre-receive").stat().st_mode) & 0o522 == 0o500
    said = store.git("config", "--local", "--list").splitlines()
    assert [line for line in said if line.startswith("receive.")] == [
        "receive.autogc=false"
    ]
    assert "core.hookspath=hooks" in said
    assert "pack.threads=1" in said

    # nor does a hook, or a choice of hooks, of who pushes take its place
    own = clone.parent / "gitconfig"
    own.write_text("[core]\n\thooksPath = /nonexistent\n")
    done = plain_git(clone, "push", "origin", "HEAD", GIT_CONFIG_GLOBAL=str(own))
    assert done.returncode
    assert "read-only for git" in done.stderr


def test_store_elsewhere_says_no_path(store: Exported, tmp_path: Path) -> None:
    where = ["--config", f"amalgam.git.path={tmp_path}/elsewhere"]
    store.hg("git::export", *where)
    clone = tmp_path / "clone"
    there = tmp_path / "elsewhere/cinnabar.git"
    git(tmp_path, "clone", "-q", str(there), str(clone))
    done = plain_git(clone, "push", "origin", "HEAD:refs/heads/new")
    assert "(push with Mercurial to the repository that it is made from)" in done.stderr
