"""Full disks and kills: the git store stays valid, and the next export goes on."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from testlib.environment import ROOT
from testlib.generated import generate
from testlib.hgserver import HgServer
from testlib.interruption import (
    PAGE_BYTES,
    Interrupted,
    SmallDisk,
    bookmarked,
    preloaded,
)

pytestmark = pytest.mark.slow

KILLS = 10


@pytest.fixture(scope="module")
def case(server: HgServer, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """A repository with some hundred changesets."""
    root = tmp_path_factory.mktemp("interruption") / "repository"
    return Interrupted(generate(root, "realistic", "--changesets=150"), server)


@pytest.fixture(scope="module")
def named(server: HgServer, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """A repository that has more to say of its refs than of its objects."""
    root = bookmarked(tmp_path_factory.mktemp("named") / "repository")
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


@pytest.mark.torture
def test_each_file_that_cannot_grow_ends_the_export(named: Interrupted) -> None:
    """With few objects, map and refs are larger than the pack."""
    named.clear()
    named.export()
    said = set()
    for size in named.sizes():
        named.clear()
        process = named.start(file_bytes=size - 1)
        said.add(named.check_refusal(process).partition(b"'")[0])
        assert not named.debris(), size
        named.check_valid()
        named.check_next()
    assert b"abort: File too large: " in said


def test_threads_that_the_system_does_not_give_are_done_without(
    case: Interrupted, tmp_path: Path
) -> None:
    source = ROOT / "tests" / "testlib" / "fewthreads.c"
    environment = {"LD_PRELOAD": str(preloaded(source, tmp_path))}
    counts: Counter[int] = Counter()
    for threads in range(12):
        case.clear()
        process = case.start(environment=environment | {"THREADS": str(threads)})
        try:
            _out, err = process.communicate(timeout=600)
        finally:
            process.kill()
        assert process.returncode in (0, 255), err
        assert err.count(b"\n") == (process.returncode != 0), err
        counts[process.returncode] += 1
        assert not case.debris(), threads
        case.check_next()
    # the first renews the lock; the second watches over memory, and is needed
    assert counts == {255: 2, 0: 10}


@pytest.mark.torture
@pytest.mark.needs("mounts")
def test_full_disk_ends_the_export(case: Interrupted) -> None:
    case.clear()
    case.export()
    needed = sum(-(-size // PAGE_BYTES) for size in case.sizes())
    ends = []
    for pages in (1, 3, 6, needed // 2, *range(needed - 8, needed + 14, 2)):
        case.clear()
        with SmallDisk(case.amalgam, pages) as disk:
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
    for round_ in range(10 * KILLS):
        if killed == KILLS:
            break
        process = case.start(*["--rebuild"] * (round_ % 5 == 4))
        time.sleep(draw.uniform(0.1, 0.9) * whole_seconds)
        process.kill()
        process.communicate()
        if process.returncode < 0:
            killed += 1
        else:  # the machine is faster than it was, so be earlier
            whole_seconds *= 0.7
        case.check_valid()
        if round_ % 2:  # what two kills left is no more than what one left
            case.check_next()
            case.clear()
        if round_ % 4 == 2:
            case.export("-r", "70")
    assert killed == KILLS
