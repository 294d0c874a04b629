"""Damaged revlogs: nothing wrong is exported, and nothing is lost."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from testlib import revlogs
from testlib.damage import CUT, LAYOUTS, Damage, Victim, memory
from testlib.environment import ENVIRONMENT, HG, git
from testlib.hgserver import HgServer

pytestmark = pytest.mark.slow

UNCHECKED = ("--config", "amalgam.git.check-texts=no")

damages = st.tuples(
    st.integers(0, 1 << 16), st.integers(0, 1 << 20), st.integers(0, CUT)
)
often = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module", params=LAYOUTS)
def victim(request: pytest.FixtureRequest, server: HgServer) -> Iterator[Victim]:
    """A repository in each layout."""
    with memory() as directory:
        yield Victim.make(directory / "repository", request.param, server)


@pytest.mark.sampled(2)
@often
@given(numbers=damages)
def test_damage_is_refused_or_means_nothing(
    victim: Victim, numbers: tuple[int, int, int]
) -> None:
    victim.strike(victim.damage(*numbers))


@pytest.mark.sampled(2)
@often
@given(numbers=damages)
def test_texts_that_are_not_checked_harm_nobody(
    victim: Victim, numbers: tuple[int, int, int]
) -> None:
    assert victim.survive(victim.damage(*numbers), *UNCHECKED) in (0, 50)


@pytest.mark.torture
@pytest.mark.parametrize("victim", ["zlib-split"], indirect=True)
def test_each_byte_of_an_index_entry_is_used_or_means_nothing(victim: Victim) -> None:
    same = set()
    for file in ("00changelog.i", "00manifest.i", "data/src/lib/index.c.i"):
        for at in range(revlogs.ENTRY_BYTES):
            entry = 0 if at < 4 else 2
            damage = Damage(file, entry * revlogs.ENTRY_BYTES + at, at % 8)
            if victim.strike(damage) == "same":
                same.add(at)
    offset, flags = set(range(6)), {6, 7}
    chunk_length, text_length = set(range(8, 12)), set(range(12, 16))
    linkrev, padding = set(range(20, 24)), set(range(52, 64))
    assert padding <= same
    # a zlib stream knows where it ends
    assert same <= offset | flags | chunk_length | text_length | linkrev | padding


@pytest.mark.parametrize("victim", ["zlib-inline", "zlib-split"], indirect=True)
def test_file_that_ends_early_is_refused(victim: Victim) -> None:
    for file, size in victim.files.items():
        if file.startswith(("00", "data/src/lib/i")):
            for at in (0, 4, 63, size // 2, size - 1):
                damage = Damage(file, at, CUT)
                # a changelog cut between entries is a shorter history, as after a
                # strip; built with Rust, hg takes less than an entry for nothing
                is_shorter = file == "00changelog.i" and victim.opens(damage)
                assert victim.strike(damage) == "refused" or is_shorter, damage


@pytest.mark.parametrize("victim", ["zlib-split"], indirect=True)
def test_missing_data_file_is_refused(victim: Victim, server: HgServer) -> None:
    data = victim.root / ".hg" / "store" / "data" / "src" / "lib" / "index.c.d"
    data.rename(data.with_name("elsewhere"))
    try:
        done = server.run(victim.root, "git::export", "--rebuild")
    finally:
        data.with_name("elsewhere").rename(data)
    assert done.code == 50
    blamed = b"abort: filelog src/lib/index.c: revision 0: there is no data file\n"
    assert done.err.startswith(blamed)


@pytest.mark.parametrize("victim", ["zlib-split"], indirect=True)
def test_hostile_length_takes_no_memory(victim: Victim) -> None:
    """A gigabyte that an index claims is never allocated."""
    for file, at in (
        ("00manifest.i", 2 * revlogs.ENTRY_BYTES + 8),  # of a chunk
        ("00manifest.i", 12),  # of a text
        ("00changelog.i", 2 * revlogs.ENTRY_BYTES + 8),
        ("data/src/lib/index.c.i", 8),
    ):
        path = victim.root / ".hg" / "store" / file
        whole = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(Damage(file, at, 6).to(whole))  # 2 ** 30
        try:
            done = export_with(victim.root, resource.RLIMIT_DATA, 400 << 20)
        finally:
            path.write_bytes(whole)
        assert done.returncode in (0, 50), done.stderr
        assert b"Traceback" not in done.stderr


def test_path_of_many_directories_is_refused(tmp_path: Path, server: HgServer) -> None:
    """What a client may push, and `hg verify` alone would notice."""
    server.hg(tmp_path, "init", str(tmp_path / "repo"))
    repo = tmp_path / "repo"
    store = repo / ".hg" / "store"
    (file,) = revlogs.write(store / "data" / "_a.i", [b"text"])
    for depth, code in ((2048, 0), (2049, 50), (100_000, 50)):
        path = b"a/" * depth + b"f"
        lines = [name + b"\0" + file.hex().encode() + b"\n" for name in (b"A", path)]
        (manifest,) = revlogs.write(store / "00manifest.i", [b"".join(lines)])
        text = manifest.hex().encode() + b"\nuser\n0 0\nA\n\ndeep"
        revlogs.write(store / "00changelog.i", [text])
        done = server.run(repo, "git::export", "--rebuild")
        assert done.code == code, done
    said = (
        b"abort: manifest: revision 0: it has a path of %d directories, more than 2048"
    )
    assert done.err.startswith(said % depth)


def test_manifest_that_later_ones_build_on_is_checked(
    tmp_path: Path, server: HgServer
) -> None:
    """It is converted, and nothing but its tree is needed; but that has to be right."""
    repo = tmp_path / "repo"
    server.hg(tmp_path, "init", str(repo))
    store = repo / ".hg" / "store"
    files = [store / "data" / f"{name}.i" for name in "abc"]
    (first,) = {revlogs.write(path, [b"1", b"2"])[0] for path in files}
    second = revlogs.write(files[1], [b"1", b"2"])[1]
    texts = [
        b"".join(
            name + b"\0" + node.hex().encode() + b"\n"
            for name, node in zip((b"a", b"b", b"c"), (first, node, first), strict=True)
        )
        for node in (first, second)
    ]
    manifests = revlogs.write(store / "00manifest.i", texts)
    changesets = [
        manifest.hex().encode() + b"\nuser\n0 0\nb\n\nchange" for manifest in manifests
    ]
    revlogs.write(store / "00changelog.i", changesets)
    server.hg(repo, "git::export", "-r", "0")
    whole = (store / "00manifest.i").read_bytes()
    (store / "00manifest.i").write_bytes(whole.replace(b"\nb\0", b"\nr\0", 1))
    done = server.run(repo, "git::export")
    assert done.code == 50
    assert done.err.startswith(b"abort: manifest: revision 0: text does not match its")
    (store / "00manifest.i").write_bytes(whole)
    server.hg(repo, "git::export")
    tip = server.hg(repo, "log", "-r", "tip", "-T", "{gitnode}").decode()
    git_dir = repo / ".hg" / "amalgam" / "git" / "cinnabar.git"
    assert git(git_dir, "ls-tree", "--name-only", tip) == b"a\nb\nc\n"


def test_message_is_one_line_whatever_the_path(
    tmp_path: Path, server: HgServer
) -> None:
    server.hg(tmp_path, "init", str(tmp_path / "repo"))
    store = tmp_path / "repo" / ".hg" / "store"
    line = b"a\nb\x1b[31m\xff\0" + b"0" * 40 + b"\n"
    (manifest,) = revlogs.write(store / "00manifest.i", [line])
    text = manifest.hex().encode() + b"\nuser\n0 0\n\nnewline"
    revlogs.write(store / "00changelog.i", [text])
    done = server.run(tmp_path / "repo", "git::export")
    assert done.code == 50
    said = "abort: manifest: revision 0: it has a path that names no file: 'a\\nb"
    assert done.err.decode().startswith(said + "\\u{1b}[31m\ufffd'\n")


def export_with(
    repo: Path, limit: int, value: int
) -> subprocess.CompletedProcess[bytes]:
    """Export in a process that has a resource limit."""
    options = ["extensions.amalgam=", "ui.detailed-exit-code=yes"]
    configs = [part for option in options for part in ("--config", option)]
    return subprocess.run(
        [str(HG), *configs, "git::export", "--rebuild"],
        cwd=repo,
        env=ENVIRONMENT,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(limit, (value, value)),
    )
