"""Full disks and kills: the git store stays valid, and the next export goes on."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from testlib.environment import hg
from testlib.generated import generate
from testlib.hgserver import HgServer
from testlib.interruption import Interrupted

pytestmark = pytest.mark.slow

KILLS = 10
PAGE_BYTES = 4096


@pytest.fixture(scope="module")
def case(server: HgServer, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """A repository with some hundred changesets."""
    root = tmp_path_factory.mktemp("interruption") / "repository"
    return Interrupted(generate(root, "realistic", "--changesets=150"), server)


@pytest.fixture(scope="module")
def bookmarked(
    server: HgServer, tmp_path_factory: pytest.TempPathFactory
) -> Interrupted:
    """A repository that has more to say of its refs than of its objects."""
    root = tmp_path_factory.mktemp("bookmarked") / "repository"
    hg(root.parent, "init", str(root))
    (root / "file").write_text("content\n")
    hg(root, "commit", "-qAm", "one", "-d", "0 0")
    node = hg(root, "log", "-T", "{node}").decode()
    lines = [f"{node} bookmark-{number:04}\n" for number in range(300)]
    (root / ".hg" / "bookmarks").write_text("".join(lines))
    return Interrupted(root, server)


def test_file_that_cannot_grow_ends_the_export(case: Interrupted) -> None:
    case.clear()
    case.export()
    largest = case.sizes()[-1]
    for limit in (0, 100, 1000, largest // 3, largest - 1):
        case.clear()
        case.check_refusal(case.start(file_bytes=limit))
        assert not case.debris(), limit
        case.check_valid()
        case.check_next()


def test_each_file_that_cannot_grow_ends_the_export(bookmarked: Interrupted) -> None:
    """With few objects, map and refs are larger than the pack."""
    bookmarked.clear()
    bookmarked.export()
    said = set()
    for size in bookmarked.sizes():
        bookmarked.clear()
        process = bookmarked.start(file_bytes=size - 1)
        said.add(bookmarked.check_refusal(process).partition(b"'")[0])
        assert not bookmarked.debris(), size
        bookmarked.check_valid()
        bookmarked.check_next()
    assert b"abort: File too large: " in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a tmpfs")
def test_full_disk_ends_the_export(case: Interrupted) -> None:
    case.clear()
    case.export()
    needed = sum(-(-size // PAGE_BYTES) for size in case.sizes())
    ends = []
    for pages in (1, 3, 6, needed // 2, *range(needed - 8, needed + 14, 2)):
        case.clear()
        with SmallDisk(case.amalgam, pages * PAGE_BYTES) as disk:
            process = case.start()
            _out, err = process.communicate()
            ends.append(process.returncode)
            if process.returncode:
                assert err.startswith(b"abort: "), err
                assert len(err.splitlines()) == 1, err
                assert not case.debris(), (pages, err)
                case.check_valid()
            disk.grow()
            case.check_next()
    assert ends == sorted(ends, reverse=True)
    assert set(ends) == {255, 0}


def test_killed_export_can_be_run_again(case: Interrupted) -> None:
    draw = random.Random(2026)
    case.clear()
    started = time.monotonic()
    case.start().communicate()
    whole_seconds = time.monotonic() - started
    killed = 0
    case.clear()
    for round_ in range(KILLS):
        process = case.start(*["--rebuild"] * (round_ % 5 == 4))
        time.sleep(draw.uniform(0.1, 1) * whole_seconds)
        process.kill()
        process.communicate()
        killed += process.returncode < 0
        case.check_valid()
        if round_ % 2:  # what two kills left is no more than what one left
            case.check_next()
            case.clear()
        if round_ % 4 == 2:
            case.export("-r", "70")
    assert killed >= KILLS // 2


class SmallDisk:
    """A tmpfs at a directory, until the context ends."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._path = path
        self._size_bytes = size_bytes

    def __enter__(self) -> SmallDisk:
        self._path.mkdir()
        self._mount(f"size={self._size_bytes}", "-t", "tmpfs", "none")
        return self

    def grow(self) -> None:
        """Make room."""
        self._mount("remount,size=100m")

    def __exit__(self, *_exc: object) -> None:
        subprocess.run(["umount", str(self._path)], check=True)

    def _mount(self, options: str, *what: str) -> None:
        command = ["mount", "-o", options, *what, str(self._path)]
        subprocess.run(command, check=True)
