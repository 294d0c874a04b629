"""What others put into ``.hg/amalgam/index`` hurts nobody who reads the history.

docs/security.rst is the promise, docs/formats/index-snapshot.rst says how it is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from testlib import indexmaps
from testlib.environment import HG, captured, hg
from testlib.users import User

from hgext3rd.amalgam import docketfile
from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.index import nodemapfile, opening as index
from hgext3rd.amalgam.index.check import examine
from hgext3rd.amalgam.index.decision import Reason
from hgext3rd.amalgam.index.snapshot import FileStat, SnapshotDocket

pytestmark = pytest.mark.slow

REVS = 40
ALICE, CAROL = User(20001, 20001), User(20003, 20003)
EVERY = ("--config", "experimental.mmapindexthreshold=0")
FILES = ["lock", "00changelog.docket", "00changelog.nodemap", "snap", "nodemap"]


@pytest.fixture
def ui(mapping_ui: Any) -> Any:
    return mapping_ui


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a snapshot and a node map of its changelog."""
    path = tmp_path_factory.mktemp("made") / "repo"
    hg(path.parent, "init", path.name, "--config", "format.use-persistent-nodemap=no")
    hg(path, "debugbuilddag", f"+{REVS}", *EVERY)
    assert {name.suffix for name in kept(path)} == {"", ".docket", ".nodemap", ".snap"}
    return path


@pytest.fixture
def path(tmp_path: Path, made: Path, ui: Any) -> Path:
    """That repository, for one test alone, with all that is kept of it."""
    path = shutil.copytree(made, tmp_path / "repo")
    assert reason(ui, path) is Reason.LARGE_ENOUGH
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A directory of somebody who must not notice, with a file in it."""
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / "file").write_text("precious")
    (victim / "file").chmod(0o600)

    def shot() -> list[Any]:
        found = [victim, *sorted(victim.rglob("*"))]
        return [(path, path.stat()[:6], path.stat().st_mtime_ns) for path in found]

    before = shot()
    yield victim
    assert shot() == before
    assert (victim / "file").read_text() == "precious"


def kept(path: Path) -> list[Path]:
    return sorted((path / ".hg/amalgam/index").iterdir())


def file_of(path: Path, what: str) -> Path:
    """Return one of ``FILES``; data files are named by what they end with."""
    directory = path / ".hg/amalgam/index"
    if what in ("snap", "nodemap"):
        (found,) = directory.glob(f"00changelog-*.{what}")
        return found
    return directory / what


def opened(ui: Any, path: Path) -> Any:
    return indexmaps.open_repository(ui, bytes(path)).unfiltered()


def history(ui: Any, path: Path) -> list[Any]:
    """Return what the index says of each revision, and of what is near to it."""
    log = opened(ui, path).changelog
    index = log.index
    found: list[Any] = [len(log), log.headrevs()]
    for rev in range(len(log)):
        node = index[rev][7]
        near = node[:-1] + bytes([node[-1] ^ 1])
        found += [index[rev][:8], index.get_rev(node), index.get_rev(near)]
        found += [index.has_node(node), index.partialmatch(node.hex()[:12].encode())]
        if hasattr(index, "shortest"):
            found.append(index.shortest(node))
    return found


def stock(ui: Any, path: Path) -> list[Any]:
    """Return the same of Mercurial alone."""
    plain = ui.copy()
    plain.setconfig(b"extensions", b"amalgam", b"!")
    return history(plain, path)


def reason(ui: Any, path: Path) -> Reason:
    return index.decisions(opened(ui, path))[0].reason


def replace(file: Path, kind: str, victim: Path) -> None:
    """Put something else in the place of a file."""
    content = file.read_bytes() if file.is_file() else b""
    if kind in ("cut", "emptied", "flipped", "sparse"):
        file.write_bytes(content[: len(content) // 2 if kind == "cut" else 0])
        if kind == "flipped":
            middle = len(content) // 2
            changed = bytes(byte ^ 4 for byte in content[middle : middle + 1])
            file.write_bytes(content[:middle] + changed + content[middle + 1 :])
        elif kind == "sparse":
            os.truncate(file, 1 << 30)
        return
    if file.is_dir():
        shutil.rmtree(file)
    else:
        file.unlink()
    if kind == "linked file":
        file.symlink_to(victim / "file")
    elif kind == "dangling":
        file.symlink_to(victim / "new")
    elif kind == "linked directory":
        file.symlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
        (file / "inner").touch()


LINKS = ["linked file", "dangling", "linked directory"]
CONTENTS = ["cut", "emptied", "flipped", "sparse"]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", [*LINKS, *CONTENTS, "removed", "fifo", "directory"])
@pytest.mark.parametrize("what", FILES)
def test_history_is_that_of_mercurial_whatever_a_file_is(
    ui: Any, path: Path, victim: Path, what: str, kind: str
) -> None:
    expected = stock(ui, path)
    replace(file_of(path, what), kind, victim)
    assert history(ui, path) == expected
    # and once more, after what may have been mended, with a history that goes on
    hg(path, "debugbuilddag", "-n", f"+{REVS}", "--from-existing", *EVERY)
    assert history(ui, path) == stock(ui, path)
    no_file = kind not in ("removed", *CONTENTS)
    expected_reason = Reason.LARGE_ENOUGH
    if what == "lock" and no_file:
        expected_reason = Reason.NO_SNAPSHOT
    assert reason(ui, path) is expected_reason
    # nothing piles up
    for left in (".snap", ".nodemap"):
        names = [file.name for file in kept(path) if file.suffix == left]
        assert len([name for name in names if name.startswith("00changelog-")]) <= 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", ["amalgam", "amalgam/index"])
@pytest.mark.parametrize("kind", [*LINKS, "fifo", "removed"])
def test_history_is_that_of_mercurial_whatever_a_directory_is(
    ui: Any, path: Path, victim: Path, level: str, kind: str
) -> None:
    replace(path / ".hg" / level, kind, victim)
    assert history(ui, path) == stock(ui, path)
    expected = Reason.LARGE_ENOUGH if kind == "removed" else Reason.NO_SNAPSHOT
    assert reason(ui, path) is expected
    hg(path, "branch", "other", *EVERY)
    hg(path, "commit", "-m", "other", *EVERY)


def test_lock_that_is_a_link_gives_no_file_away(path: Path, victim: Path) -> None:
    (path / ".hg/store").chmod(0o777)
    replace(file_of(path, "lock"), "linked file", victim)
    file_of(path, "00changelog.docket").unlink()
    assert hg(path, "log", "-r", "tip", "-T", "{rev}", *EVERY) == b"%d" % (REVS - 1)


def test_lock_that_exists_keeps_its_mode(ui: Any, path: Path) -> None:
    lock = file_of(path, "lock")
    lock.chmod(0o600)
    file_of(path, "00changelog.docket").unlink()
    assert reason(ui, path) is Reason.LARGE_ENOUGH
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600


def test_lock_that_is_held_for_ever_costs_only_speed(ui: Any, path: Path) -> None:
    expected = stock(ui, path)
    file_of(path, "00changelog.docket").unlink()
    with file_of(path, "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert history(ui, path) == expected
        assert reason(ui, path) is Reason.BUSY
        hg(path, "branch", "other", *EVERY)
        hg(path, "commit", "-m", "other", *EVERY)


@pytest.mark.parametrize("what", ["00changelog.docket", "snap", "nodemap"])
def test_bits_that_flip_change_no_answer(ui: Any, path: Path, what: str) -> None:
    expected = stock(ui, path)
    size = file_of(path, what).stat().st_size
    for at in range(0, size, max(size // 25, 1)):
        file = file_of(path, what)
        content = bytearray(file.read_bytes())
        content[at] ^= 0x10
        file.write_bytes(content)
        assert history(ui, path) == expected, at
        assert examine(opened(ui, path))[0].opened.decision.mapped


def test_what_was_rewritten_is_compared_again_and_kept_if_it_fits(
    ui: Any, path: Path
) -> None:
    data = file_of(path, "snap")
    data.write_bytes(data.read_bytes())
    os.chmod(file_of(path, "nodemap"), 0o600)
    docket = file_of(path, "00changelog.docket").read_bytes()
    assert reason(ui, path) is Reason.LARGE_ENOUGH
    assert file_of(path, "00changelog.docket").read_bytes() != docket
    assert file_of(path, "snap") == data


def test_files_of_another_history_with_the_same_names_are_noticed(
    ui: Any, path: Path, tmp_path: Path
) -> None:
    """Two copies of a repository that went on, and one's files in the other."""
    copy = shutil.copytree(path, tmp_path / "copy")
    for repo, count in ((path, 30), (copy, 31)):
        hg(repo, "debugbuilddag", "-n", f"+{count}", "--from-existing", *EVERY)
    expected = stock(ui, path)
    for file in kept(copy):
        if file.suffix in (".snap", ".nodemap"):
            shutil.copy(file, path / ".hg/amalgam/index" / file.name)
    assert history(ui, path) == expected
    shutil.rmtree(path / ".hg/amalgam/index")
    shutil.copytree(copy / ".hg/amalgam/index", path / ".hg/amalgam/index")
    assert history(ui, path) == expected


@contextlib.contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """All files below keep their content, mode and time of modification."""

    def shot() -> dict[Path, Any]:
        found = {}
        for file in (path / ".hg/amalgam/index").iterdir():
            state = file.stat()
            kept = (state.st_mode, state.st_mtime_ns, file.read_bytes())
            found[file] = (state.st_ino, *kept)
        return found

    before = shot()
    yield
    assert shot() == before


def grow(path: Path) -> None:
    hg(path, "debugbuilddag", "-n", f"+{REVS}", "--from-existing", *EVERY)


def strip(path: Path) -> None:
    options = ("--no-backup", "--config", "extensions.strip=", *EVERY)
    hg(path, "strip", str(REVS // 2), *options)


def repair(path: Path) -> None:
    hg(path, "admin::amalgam", "--repair", *EVERY)


@pytest.mark.parametrize("change", [grow, strip, repair])
@pytest.mark.parametrize("changed", ["copy", "original"])
def test_copies_made_of_hard_links_stay_independent(
    ui: Any, path: Path, tmp_path: Path, changed: str, change: Callable[[Path], None]
) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-al", str(path), str(copy)], check=True)
    one, other = (path, copy) if changed == "original" else (copy, path)
    expected = stock(ui, other)
    with unchanged(other):
        change(one)
        change(one) if change is grow else None
    for repo in (one, other):
        assert history(ui, repo) == stock(ui, repo)
        assert reason(ui, repo) is Reason.LARGE_ENOUGH
    assert history(ui, other) == expected


def test_full_disk_leaves_no_copies(
    ui: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: Any, **_options: Any) -> None:
        raise OSError(28, "No space left on device")

    file_of(path, "00changelog.docket").unlink()
    monkeypatch.setattr(Directory, "replace", full)
    for _turn in range(3):
        assert history(ui, path) == stock(ui, path)
        assert reason(ui, path) is Reason.NO_SNAPSHOT
    assert not [file for file in kept(path) if file.suffix == ".snap"]


WORDS = st.one_of(
    st.integers(-2, 70).map(lambda value: b"%d" % value),
    st.integers(-(2**70), 2**70).map(lambda value: b"%d" % value),
    st.just(b"9" * 5000),
    st.sampled_from([b"0123456789abcdef", b"../../../x", b"", b"x", b"1_0", b"\xb2"]),
    st.binary(max_size=20),
)
LINES = st.tuples(
    st.sampled_from(
        [b"index", b"uid", b"length", b"file", b"data", b"run", b"snapshot"]
    ),
    st.lists(WORDS, max_size=6).map(b" ".join),
)


@settings(max_examples=300, deadline=None)
@given(
    magic=st.sampled_from([b"amalgam index snapshot 2", b"amalgam nodemap 2"]),
    lines=st.lists(LINES, max_size=7),
    cut=st.integers(0, 200),
)
def test_dockets_with_anything_in_them_are_none_or_make_sense(
    magic: bytes, lines: list[tuple[bytes, bytes]], cut: int
) -> None:
    content = docketfile.formatted(magic, lines)
    for damaged in (content, content[cut:], content[:-cut]):
        for docket in (
            SnapshotDocket.parse(damaged),
            nodemapfile.NodeMapDocket.from_bytes(damaged),
        ):
            assert docket is None or docket.uid == b"0123456789abcdef"


def test_dockets_that_are_whole_but_lie_change_no_answer(ui: Any, path: Path) -> None:
    expected = stock(ui, path)
    file = file_of(path, "00changelog.docket")
    docket = SnapshotDocket.parse(file.read_bytes())
    assert docket is not None
    large = FileStat(2**62, 2**62, 2**62, 2**62, 2**62)
    for lie in (
        docket._replace(length_bytes=64),
        docket._replace(length_bytes=63),
        docket._replace(length_bytes=2**62, data=large),
        docket._replace(path=b"../../../victim"),
        docket._replace(uid=b"0" * 16),
        docket._replace(state=large),
    ):
        file.write_bytes(lie.format())
        assert history(ui, path) == expected
    nodes_file = file_of(path, "00changelog.nodemap")
    nodes = nodemapfile.NodeMapDocket.from_bytes(nodes_file.read_bytes())
    assert nodes is not None
    (run,) = nodes.runs
    for runs in (
        (),
        (run._replace(offset=2**62),),
        (run._replace(offset=1),),
        (run._replace(first=1),),
        (run._replace(revs=run.revs - 1),),
        (run._replace(revs=2**31 - 1),),
        (run, run._replace(first=run.revs)),
        (run,) * 40,
    ):
        # this is no damage, but a forgery: it can hide a node, and do nothing else
        nodes_file.write_bytes(nodes._replace(runs=runs).to_bytes())
        index = opened(ui, path).changelog.index
        for rev in range(REVS):
            node = index[rev][7]
            assert index.get_rev(node) in (rev, None)
            assert index.get_rev(node[::-1]) is None


def test_repair_forgets_what_it_does_not_know(path: Path, victim: Path) -> None:
    directory = path / ".hg/amalgam/index"
    docket = SnapshotDocket.parse(file_of(path, "00changelog.docket").read_bytes())
    assert docket is not None
    for name, other in ((".docket", b"../../x"), ("meta-x.docket", b"meta/../y.i")):
        (directory / name).write_bytes(docket._replace(path=other).format())
    (directory / "00gone.docket").symlink_to(victim / "file")
    replace(file_of(path, "00changelog.docket"), "directory", victim)
    replace(file_of(path, "00changelog.nodemap"), "directory", victim)
    hg(path, "admin::amalgam", "--repair", *EVERY)
    found = {file.name for file in kept(path) if file.name.endswith(".docket")}
    assert found == {"00changelog.docket"}


def test_repair_removes_all_of_an_index_that_is_gone(path: Path) -> None:
    directory = path / ".hg/amalgam/index"
    for name in os.listdir(directory):
        if name.startswith("00changelog"):
            for gone in ("00gone", "meta-gone-x"):
                shutil.copy(
                    directory / name, directory / name.replace("00changelog", gone)
                )
    (directory / "00gone.docket").unlink()
    (directory / "meta-gone-x.nodemap").unlink()
    hg(path, "admin::amalgam", "--repair", *EVERY)
    left = {file.name.partition("-")[0].partition(".")[0] for file in kept(path)}
    assert left == {"lock", "00changelog"}


@pytest.mark.parametrize("what", ["snap", "nodemap"])
def test_file_that_everybody_may_write_is_not_mapped_but_made_anew(
    ui: Any, path: Path, what: str
) -> None:
    data = file_of(path, what)
    expected = stock(ui, path)
    data.chmod(0o666)
    assert history(ui, path) == expected
    hg(path, "debugupdatecaches", *EVERY)
    assert file_of(path, what) != data
    assert not file_of(path, what).stat().st_mode & stat.S_IWOTH


@pytest.mark.parametrize("where", [".hg/amalgam/index", ".hg/store"])
def test_nothing_is_mapped_or_copied_where_everybody_may_write(
    ui: Any, path: Path, where: str
) -> None:
    expected = stock(ui, path)
    (path / where).chmod(0o777)
    if where == ".hg/store":
        for file in kept(path):
            file.unlink()
    before = [file.name for file in kept(path)]
    assert reason(ui, path) is Reason.NO_SNAPSHOT
    assert history(ui, path) == expected
    hg(path, "admin::amalgam", "--repair", *EVERY)
    assert [file.name for file in kept(path) if file.name != "lock"] == [
        name for name in before if name != "lock"
    ]


@pytest.mark.needs("root")
def test_file_of_a_stranger_is_not_mapped_but_copied(ui: Any, path: Path) -> None:
    data = file_of(path, "snap")
    os.chown(data, CAROL.uid, CAROL.gid)
    assert reason(ui, path) is Reason.LARGE_ENOUGH
    assert file_of(path, "snap") != data
    assert file_of(path, "snap").stat().st_uid == os.geteuid()


@pytest.mark.needs("root")
def test_root_is_a_stranger_unless_it_trusts_the_owner(ui: Any, path: Path) -> None:
    for file in [path / ".hg", *(path / ".hg").rglob("*")]:
        os.chown(file, ALICE.uid, ALICE.gid)
    expected = stock(ui, path)
    with unchanged(path):
        assert history(ui, path) == expected
        assert reason(ui, path) is Reason.UNTRUSTED
        repo = opened(ui, path)
        assert len(repo.changelog) == REVS
        how = index.opened_index(repo.changelog)
        assert how is not None
        assert how.snapshot is None
        hg(path, "branch", "other", *EVERY)
        hg(path, "commit", "-m", "other", *EVERY)
    done = captured(
        [HG, "--config", "extensions.amalgam=", "admin::amalgam", "--repair", *EVERY],
        path,
        text=True,
    )
    assert done.returncode
    assert "who is not trusted" in done.stderr
    ui.setconfig(b"trusted", b"users", b"%d" % ALICE.uid)
    ui.fixconfig(section=b"trusted")
    assert reason(ui, path) is Reason.LARGE_ENOUGH


@pytest.mark.needs("users")
def test_visitor_of_a_hostile_repository_gets_mercurials_answer(path: Path) -> None:
    directory = Path(tempfile.mkdtemp(prefix="amalgam-users-"))
    try:
        directory.chmod(0o755)
        repo = shutil.copytree(path, directory / "repo")
        home = directory / "carol"
        home.mkdir()
        (home / "file").write_text("precious")
        (home / "file").chmod(0o600)
        (repo / ".hg/store").chmod(0o777)
        lock = repo / ".hg/amalgam/index/lock"
        lock.unlink()
        lock.symlink_to(home / "file")
        (repo / ".hg/amalgam/index/00changelog.docket").unlink()
        os.mkfifo(repo / ".hg/amalgam/index/00changelog.docket")
        for file in [repo, *repo.rglob("*")]:
            os.chown(file, ALICE.uid, ALICE.gid, follow_symlinks=False)
        for file in (home, home / "file"):
            os.chown(file, CAROL.uid, CAROL.gid)
        start = time.monotonic()
        done = CAROL.hg(repo, "log", "-T", "{rev} {node}\n", *EVERY)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout == hg(path, "log", "-T", "{rev} {node}\n")
        assert time.monotonic() - start < 60
        assert stat.S_IMODE((home / "file").stat().st_mode) == 0o600
        done = CAROL.hg(repo, "debugindexmaps", *EVERY, *INDEXMAPS)
        assert b"user '20001', who owns '.hg', is not trusted" in done.stdout
    finally:
        shutil.rmtree(directory)


INDEXMAPS = ("--config", f"extensions.indexmaps={indexmaps.__file__}")
