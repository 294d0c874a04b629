"""What `amalgam.git.memory` changes, and that it changes nothing of what is written."""

from __future__ import annotations

import random
import resource
import subprocess
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, git
from testlib.hgserver import HgServer

LEAST = "1 MB"
# longer than what the least memory leaves to buffers, compressed or not
LONG_BYTES = 3 << 20
# what any file may have below, but for texts that go to one
FILE_LIMIT_BYTES = 2 << 20


@pytest.fixture(scope="module")
def long_texts(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Path:
    """Revisions of each kind, stored in full and as deltas, some with copy metadata."""
    repo = tmp_path_factory.mktemp("long") / "repo"
    server.hg(repo.parent, "init", str(repo))
    draw = random.Random(4)
    noise = bytearray(draw.randbytes(LONG_BYTES))
    lines = bytearray(
        b"".join(b"line %d\n" % draw.randrange(99) for _ in range(LONG_BYTES // 8))
    )

    def commit(message: str) -> None:
        server.hg(repo, "commit", "-qAm", message, "-d", "0 0")

    for step in range(4):
        (repo / "noise").write_bytes(noise)
        (repo / "lines").write_bytes(lines)
        (repo / "short").write_bytes(b"%d\n" % step)
        commit(f"step {step}")
        for text in (noise, lines):
            at = draw.randrange(len(text))
            text[at : at + 5] = draw.randbytes(1000 * step)
    server.hg(repo, "rename", "noise", "moved")
    (repo / "moved").write_bytes(noise)
    commit("moved")
    (repo / "lines").write_bytes(b"no longer long\n")
    commit("shorter")
    (repo / "lines").write_bytes(lines)
    commit("longer")
    return repo


def test_bytes_written_do_not_depend_on_it(long_texts: Path, tmp_path: Path) -> None:
    written = {}
    for memory in (LEAST, "4 MB", "192 MB"):
        stores = tmp_path / memory
        done = export(long_texts, memory, f"amalgam.git.path={stores}")
        assert (done.returncode, done.stderr) == (0, b"")
        packs = stores / "cinnabar.git" / "objects" / "pack"
        written[memory] = {path.name: path.read_bytes() for path in packs.iterdir()}
        assert all(name.startswith("pack-") for name in written[memory])
    assert written[LEAST] == written["192 MB"]
    assert written["4 MB"] == written["192 MB"]
    repository = tmp_path / LEAST / "cinnabar.git"
    git(repository, "fsck", "--strict", "--full")
    moved = git(repository, "cat-file", "blob", "refs/heads/default:moved")
    assert moved == (long_texts / "moved").read_bytes()


def test_file_that_cannot_be_written_is_one_abort(
    tmp_path: Path, server: HgServer
) -> None:
    """The pack is small, so with memory enough nothing is in the way."""
    repo = tmp_path / "repo"
    server.hg(tmp_path, "init", str(repo))
    (repo / "zeros").write_bytes(bytes(2 * FILE_LIMIT_BYTES))
    server.hg(repo, "commit", "-qAm", "long", "-d", "0 0")
    done = export(repo, LEAST, limited=True)
    packs = repo / ".hg" / "amalgam" / "git" / "cinnabar.git" / "objects" / "pack"
    assert done.returncode != 0
    lines = done.stderr.splitlines()
    assert lines == [b"abort: File too large: '%s'" % bytes(packs)]
    assert not list(packs.iterdir())
    done = export(repo, "192 MB", limited=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_export_aborts_if_it_is_no_size(tmp_path: Path, server: HgServer) -> None:
    server.hg(tmp_path, "init", str(tmp_path / "repo"))
    done = export(tmp_path / "repo", "little")
    assert done.returncode == 30
    assert done.stderr == (
        b"config error: invalid value 'little' for amalgam.git.memory "
        b"(expected a size of at least 1.00 MB, such as 192 MB)\n"
    )


def export(
    repo: Path, memory: str, *configs: str, limited: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """Export with so much memory, in a process of its own."""
    options = ["extensions.amalgam=", "ui.detailed-exit-code=yes", *configs]
    options.append(f"amalgam.git.memory={memory}")

    def limit() -> None:
        most = (FILE_LIMIT_BYTES, FILE_LIMIT_BYTES)
        resource.setrlimit(resource.RLIMIT_FSIZE, most)

    parts = [part for option in options for part in ("--config", option)]
    return subprocess.run(
        [str(HG), *parts, "git::export"],
        cwd=repo,
        env=ENVIRONMENT,
        capture_output=True,
        preexec_fn=limit if limited else None,
    )
