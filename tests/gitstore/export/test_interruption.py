"""Limits and kills: the git store stays valid, and the next export goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from testlib import killpoints
from testlib.environment import ROOT, hg
from testlib.generated import generate
from testlib.hgserver import HgServer
from testlib.interruption import Interrupted, preloaded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def case(server: HgServer, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """A repository with some hundred changesets."""
    root = tmp_path_factory.mktemp("interruption") / "repository"
    return Interrupted(generate(root, "realistic", "--changesets=150"), server)


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
@pytest.mark.parametrize("case", ["first", "next", "rebuild", "configured anew"])
def test_killed_export_can_be_run_again(tmp_path: Path, case: str) -> None:
    template = tmp_path / "template"
    hg(tmp_path, "init", str(template))
    for name in ("one", "two"):
        (template / name).write_text(name)
        hg(template, "commit", "-qAm", name, "-d", "0 0")
        if case != "first" and name == "one":
            hg(template, "git::export")
    if case == "configured anew":
        (template / ".hg/store").chmod(0o770)
    args = ["git::export", "--metadata"]
    args += ["--rebuild"] if case == "rebuild" else []
    taken = killpoints.at_each(template, tmp_path, *args)
    assert sum(taken.values()) > 8
    if case == "configured anew":
        assert taken.keys() == {*killpoints.STEPS, *killpoints.SELDOM}
