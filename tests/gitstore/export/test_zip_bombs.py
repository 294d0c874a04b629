"""Revlogs that unpack to far more than they are: one line, and bounded memory."""

from __future__ import annotations

import re
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from testlib import revlogs
from testlib.environment import ENVIRONMENT, HG
from testlib.hgserver import HgServer

MEMORY_BYTES = 32 << 20
# Python, compressors, and what grows with the history: docs/decisions/memory.rst
CONSTANT_BYTES = 96 << 20
# texts of more are refused at 2 GiB, which takes long to reach
LONG_BYTES = 256 << 20

_ZSTD = b"\x28\xb5\x2f\xfd"
_WINDOW = b"\0\x88"


def zstd_zeros(length: int) -> bytes:
    """Return a frame of so many zeros, 4 bytes for each 128 KiB, without a length."""
    blocks = length >> 17
    # repeated bytes, in a window of 2 ** 27, which zstd takes without being asked
    frame = _ZSTD + _WINDOW
    for block in range(blocks):
        header = (1 << 17) << 3 | 1 << 1 | (block == blocks - 1)
        frame += struct.pack("<I", header)[:3] + b"\0"
    return frame


def zlib_zeros(length: int) -> bytes:
    compressor = zlib.compressobj(9)
    piece = bytes(1 << 20)
    parts = [compressor.compress(piece) for _ in range(length >> 20)]
    return b"".join(parts) + compressor.flush()


def _declared(text: int) -> Callable[[Path], None]:
    """A text length in the index that no text has."""

    def edit(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[12:16] = struct.pack(">I", text & 0xFFFFFFFF)
        content[8:12] = struct.pack(">I", text & 0xFFFFFFFF)
        path.write_bytes(content)

    return edit


def _chunk(chunk: bytes) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        nodes = [path.read_bytes()[32:52]]
        revlogs.write_chunks(path, [(0, chunk)], [len(chunk)], nodes)

    return edit


def _doubling(steps: int) -> Callable[[Path], None]:
    """A chain in which each delta puts as many zeros before the text as it has."""

    def edit(path: Path) -> None:
        node = path.read_bytes()[32:52]
        length, chunks = 1 << 20, [(0, b"u" + bytes(1 << 20))]
        for rev in range(1, steps):
            # a delta of its own kind: header, then zeros, in one frame
            header = struct.pack(">III", 0, 0, length)
            chunks.append((rev - 1, _framed(header, length)))
            length *= 2
        nodes = [bytes([rev]) * 20 for rev in range(steps - 1)] + [node]
        revlogs.write_chunks(path, chunks, [-1] * steps, nodes)

    return edit


def _framed(head: bytes, zeros: int) -> bytes:
    raw = struct.pack("<I", len(head) << 3)[:3] + head
    start = len(_ZSTD + _WINDOW)
    frame = zstd_zeros(zeros)
    return frame[:start] + raw + frame[start:]


def _sparse(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 40)


BOMBS = {
    "chunk of 4 GB": (_declared(1 << 32), rb"filelog f: "),
    "chunk of 2 GB": (_declared((1 << 31) - 1), rb"filelog f: "),
    "zstd, 2 GB of window": (
        _chunk(_ZSTD + b"\0\xa8" + b"\x19\0\0abc"),
        rb"filelog f: revision 0: ",
    ),
    "zstd, 256 MB": (_chunk(zstd_zeros(LONG_BYTES)), rb"filelog f: revision 0: "),
    "zlib, 256 MB": (_chunk(zlib_zeros(LONG_BYTES)), rb"filelog f: revision 0: "),
    "doubling deltas": (_doubling(9), rb"filelog f: revision 8: "),
}


# what each is put in place of, if it is not the file
ELSEWHERE = {
    "changeset of 256 MB": (
        "00changelog.i",
        _chunk(zstd_zeros(LONG_BYTES)),
        rb"changelog: revision 0: its text has 268435456 bytes",
    ),
    "sparse index of 1 TB": (
        "data/f.i",
        _sparse,
        rb"filelog f: index has more than 4194304 bytes",
    ),
}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Path:
    repo = tmp_path_factory.mktemp("bombs") / "repo"
    server.hg(repo.parent, "init", str(repo))
    (repo / "f").write_bytes(b"text\n")
    server.hg(repo, "commit", "-qAm", "one", "-d", "0 0")
    return repo


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_bomb_in_a_filelog_is_one_abort_within_memory(
    history: Path, tmp_path: Path, name: str
) -> None:
    edit, blamed = BOMBS[name]
    strike(history, tmp_path, "data/f.i", edit, blamed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_read_as_a_whole_is_bounded(
    history: Path, tmp_path: Path, name: str
) -> None:
    strike(history, tmp_path, *ELSEWHERE[name])


def strike(
    history: Path,
    stores: Path,
    file: str,
    edit: Callable[[Path], None],
    blamed: bytes,
) -> None:
    path = history / ".hg" / "store" / file
    before = path.read_bytes()
    try:
        edit(path)
        done, peak_bytes = export(history, stores)
    finally:
        path.unlink()
        path.write_bytes(before)
    lines = done.stderr.splitlines()
    assert lines, done
    assert re.match(rb"abort: " + blamed, lines[0]), done
    assert len([line for line in lines if not line.startswith(b"(")]) == 1, done
    assert done.returncode == 50
    assert peak_bytes <= MEMORY_BYTES + CONSTANT_BYTES


def export(repo: Path, stores: Path) -> tuple[subprocess.CompletedProcess[bytes], int]:
    """Export in a process of its own; return how it ended, and its peak of memory."""
    config = {
        "extensions.amalgam": "",
        "ui.detailed-exit-code": "yes",
        "amalgam.git.memory": str(MEMORY_BYTES),
        "amalgam.git.path": str(stores),
    }
    options = [part for key in config for part in ("--config", f"{key}={config[key]}")]
    command = [str(HG), *options, "-R", str(repo), "git::export"]
    status = stores / "status"
    with status.open("wb") as out:
        watched = ["/usr/bin/env", "python3", "-c", _WATCH, *command]
        done = subprocess.run(
            watched, env=ENVIRONMENT, stdout=out, stderr=subprocess.PIPE
        )
    return done, int(status.read_bytes().split()[-1])


# what pages of files take is the page cache's, and not counted
_WATCH = """\
import os, subprocess, sys, time
child = subprocess.Popen(sys.argv[1:])
peak = 0
while child.poll() is None:
    try:
        with open(f"/proc/{child.pid}/status") as file:
            lines = [line.split() for line in file]
    except OSError:
        continue
    anonymous = [int(line[1]) for line in lines if line[0] == "RssAnon:"]
    peak = max([peak, *anonymous])
    time.sleep(0.005)
print(peak << 10)
sys.exit(child.returncode)
"""
