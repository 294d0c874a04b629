"""What ``admin::amalgam --metrics`` tells monitoring: valid, and as it is."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mercurial import lock as lockmod
from testlib import faults
from testlib.bundled import Bundled
from testlib.environment import ROOT, add_config
from testlib.exported import Exported
from testlib.exposition import Labels, parsed
from testlib.hgserver import HgServer

from hgext3rd.amalgam.files import Placement
from hgext3rd.amalgam.gitstore.export import exporter, request
from hgext3rd.amalgam.gitstore.failures import Failure
from hgext3rd.amalgam.serve import limits

GOOD = b'# HELP a b\n# TYPE a gauge\na{b="c"} 1\n'


def metrics(store: Exported | Bundled, *options: str) -> dict[str, dict[Labels, float]]:
    """Return the metrics, without the label that says of which repository they are."""
    done = store.run("admin::amalgam", "--metrics", *options)
    assert (done.code, done.err) == (0, b"")
    found: dict[str, dict[Labels, float]] = {}
    for name, samples in parsed(done.out).items():
        found[name.removeprefix("amalgam_")] = own = {}
        for labels, value in samples.items():
            assert dict(labels)["repository"] == str(store.root)
            own[tuple(it for it in labels if it[0] != "repository")] = value
    return found


def single(found: dict[str, dict[Labels, float]]) -> dict[str, float]:
    """Return the metrics that have no label of their own."""
    return {name: value[()] for name, value in found.items() if () in value}


def test_each_metric_is_explained(published: Bundled, tmp_path: Path) -> None:
    published.hg("git::export", "--metadata")
    option = f"--config=amalgam.serve.run-directory={tmp_path}"
    page = (ROOT / "docs" / "operations.rst").read_text()
    explained = re.findall(r"(?m)^   \* - (.*)", page)
    names = {name for row in explained for name in re.findall(r"``(\w+)``", row)}
    replica = "--config=amalgam.replicate.x=/missing"
    assert names == metrics(published, option, replica).keys()


@pytest.mark.parametrize(
    "content",
    [
        GOOD[:-1],
        GOOD + GOOD,
        GOOD + b'a{b="c"} 2\n',
        GOOD + b"\n",
        GOOD.replace(b'"c"', b'"\\x1b"'),
        GOOD.replace(b'"c"', b'"\xff"'),
        GOOD.replace(b'"c"', b'""c"'),
        GOOD.replace(b'"c"', b'"c",b="d"'),
        GOOD.replace(b"a{", b"c{"),
        GOOD.replace(b" 1", b" x"),
        GOOD.replace(b"gauge", b"number"),
        GOOD.replace(b"# HELP a b\n", b""),
    ],
)
def test_reader_is_strict(content: bytes) -> None:
    parsed(GOOD)
    with pytest.raises(ValueError, match=r".+"):
        parsed(content)


def test_store_is_measured(store: Exported) -> None:
    before = time.time()
    store.commit_nothing("more")
    found = single(metrics(store))
    assert (found["changesets_served"], found["changesets_behind"]) == (11, 1)
    assert (found["changesets_exported"], found["store_exists"]) == (10, 1)
    store.hg("git::export")
    all_found = metrics(store)
    found = single(all_found)
    assert (found["changesets_behind"], found["problems"]) == (0, 0)
    assert found["packs"] == len(store.packs())
    sizes = [file.stat().st_size for file in store.packs_dir.iterdir()]
    assert found["pack_bytes"] == sum(sizes)
    assert all_found["map_pairs"][("kind", "changesets"),] == 11
    assert found["last_export_changesets"] == 1
    assert int(before) <= found["last_export_timestamp_seconds"] <= time.time()
    assert found["last_export_seconds"] > 0


def test_export_of_nothing_is_not_the_last_one(store: Exported) -> None:
    name = store.amalgam / "last-export"
    before = name.stat().st_ino
    store.hg("git::export")
    assert name.stat().st_ino == before
    store.hg("bookmark", "-r", "1", "another")
    store.hg("git::export")
    assert single(metrics(store))["last_export_changesets"] == 0


@pytest.mark.parametrize("content", [b"", b"\0" * 9999, b"amalgam last export 1\n"])
def test_damaged_record_of_the_last_export_is_none(
    store: Exported, content: bytes
) -> None:
    (store.amalgam / "last-export").write_bytes(content)
    assert not [name for name in metrics(store) if name.startswith("last_export")]
    store.hg("bookmark", "-r", "1", "another")
    store.hg("git::export")
    assert "last_export_seconds" in metrics(store)


def test_never_exported_is_measured_and_nothing_is_made(empty: Exported) -> None:
    found = single(metrics(empty))
    assert (found["store_exists"], found["problems"]) == (0, 0)
    assert not empty.amalgam.exists()


def test_problems_are_counted_and_the_exit_code_is_0(store: Exported) -> None:
    faults.a_foreign_pack(store)
    add_config(store.root, "[amalgam]\nquux = 1\n")
    problems = metrics(store)["problems"][()]
    assert problems == store.run("admin::amalgam").out.count(b"  (") == 2


def test_failures_are_counted(store: Exported) -> None:
    repo = store.open()
    directory = request.exporter_directory(repo)
    directory.make(Placement.of(repo))
    Failure("x", 3).write(directory, exporter.FAILURE, Placement.of(repo))
    assert single(metrics(store))["export_failures"] == 3
    assert single(metrics(store))["maintenance_failures"] == 0
    assert exporter.must_wait(repo) is False
    exporter.forget_failure(repo)
    assert single(metrics(store))["export_failures"] == 0


def test_export_that_runs_is_seen(store: Exported) -> None:
    prefix = lockmod._getlockprefix().decode()
    (store.amalgam / "lock").symlink_to(f"{prefix}:{os.getpid()}")
    assert single(metrics(store))["export_running"] == 1


def test_bundles_are_measured(published: Bundled) -> None:
    found = metrics(published)
    (said,) = json.loads(published.run("admin::amalgam", "-T", "json").out)
    said = said["bundles"]
    assert said
    for row in said:
        kind = (("format", row["format"]),)
        assert found["bundle_changesets_missing"][kind] == 0
        assert abs(time.time() - found["bundle_timestamp_seconds"][kind]) < 3600
        state = (("format", row["format"]), ("state", row["state"]))
        same = [
            it for it in said if (it["format"], it["state"]) == (*dict(state).values(),)
        ]
        assert found["bundles"][state] == len(same)
        assert found["bundle_bytes"][state] == sum(it["bytes"] for it in same)
    assert found["bundles_failed"] == {(): 0}


def test_indexes_are_measured(store: Exported) -> None:
    found = metrics(store, "--config", "experimental.mmapindexthreshold=1")
    size = (store.root / ".hg/store/00changelog.i").stat().st_size
    changelog = (("index", "00changelog"),)
    assert found["index_bytes"][changelog] == size
    assert found["index_mapped"].keys() == found["index_bytes"].keys()


def test_slots_are_counted_and_left_alone(store: Exported, tmp_path: Path) -> None:
    run = tmp_path / "run"
    option = f"--config=amalgam.serve.run-directory={run}"
    options = (option, "--config=amalgam.serve.max-fetches=3")
    assert set(metrics(store, *options)["serve_slots_held"].values()) == {0}
    assert not run.exists()
    pool = limits.Pool(b"fetch", 3)
    with contextlib.ExitStack() as taken:
        for _number in range(2):
            slot = limits.take_slot(os.fsencode(run), pool, 0)
            assert slot
            taken.callback(slot.release)
        (run / "fetch-9").mkdir()
        (run / "fetch-10").symlink_to("/dev/null")
        (run / "quux-1").write_text("")
        found = metrics(store, *options)
        assert found["serve_slots"][("pool", "fetch"),] == 3
        assert found["serve_slots_held"] == {
            (("pool", "fetch"),): 2,
            (("pool", "push"),): 0,
            (("pool", "query"),): 0,
            (("pool", "waiting"),): 0,
        }
        free = limits.take_slot(os.fsencode(run), pool, 0)
        assert free
        free.release()
    assert "serve_slots" not in metrics(store)


def test_who_waits_is_counted_until_it_ends(store: Exported, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pool = limits.Pool(b"fetch", 1)
    slot = limits.take_slot(os.fsencode(run), pool, 0)
    assert slot
    with waiters(run, 3) as processes:
        reach(run, waiting=3)
        processes[0].kill()
        processes[0].wait()
        reach(run, waiting=2)
        found = metrics(store, f"--config=amalgam.serve.run-directory={run}")
        assert found["serve_requests_waiting"][("pool", "fetch"),] == 2
        assert found["serve_requests_waiting"][("pool", "query"),] == 0
        assert set(found["serve_requests_refused_total"].values()) == {0}
        slot.release()
        for process in processes[1:]:
            assert process.wait() == 0
    assert usage(run) == limits.Usage()


def test_who_is_refused_is_counted_for_ever(store: Exported, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pool = limits.Pool(b"fetch", 1)
    slot = limits.take_slot(os.fsencode(run), pool, 0)
    assert slot
    with waiters(run, 3, seconds=0) as processes:
        assert [process.wait() for process in processes] == [3, 3, 3]
    assert limits.take_slot(os.fsencode(run), pool, 0.01) is None
    slot.release()
    assert usage(run) == limits.Usage(refused=4)
    option = f"--config=amalgam.serve.run-directory={run}"
    found = metrics(store, option)["serve_requests_refused_total"]
    assert found[("pool", "fetch"),] == 4
    done = store.run("admin::amalgam", "--metrics", option)
    assert b"# TYPE amalgam_serve_requests_refused_total counter\n" in done.out


@pytest.mark.parametrize("content", [b"", b"7\n", b"x" * 21, b"\0" * 21, b"9" * 40])
def test_damaged_number_of_refusals_begins_again(
    tmp_path: Path, content: bytes
) -> None:
    pool = limits.Pool(b"fetch", 0)
    (tmp_path / "fetch-refused").write_bytes(content)
    assert usage(tmp_path).refused == 0
    assert limits.take_slot(os.fsencode(tmp_path), pool, 0) is None
    assert usage(tmp_path).refused == 1


@pytest.mark.parametrize("name", ["fetch-refused", "fetch-waits-0"])
def test_what_cannot_be_counted_stops_nobody(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert (
        limits.take_slot(os.fsencode(tmp_path), limits.Pool(b"fetch", 0), 0.01) is None
    )
    slot = limits.take_slot(os.fsencode(tmp_path), limits.Pool(b"fetch", 1), 0)
    assert slot
    slot.release()


WAITER = """
import sys
from hgext3rd.amalgam.serve import limits
pool = limits.Pool(b"fetch", 1)
slot = limits.take_slot(sys.argv[1].encode(), pool, float(sys.argv[2]))
sys.exit(0 if slot else 3)
"""


@contextlib.contextmanager
def waiters(
    run: Path, count: int, seconds: int = 600
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that wait for the only slot; they end with the context."""
    command = [sys.executable, "-c", WAITER, str(run), str(seconds)]
    started = [subprocess.Popen(command) for _number in range(count)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def usage(run: Path) -> limits.Usage:
    return limits.slot_usage(os.fsencode(run), [b"fetch"])[b"fetch"]


def reach(run: Path, waiting: int) -> None:
    for _try in range(6000):
        if usage(run).waiting == waiting:
            return
        time.sleep(0.01)
    raise AssertionError(usage(run))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b'a"b', 'a"b'),
        (b"a\\nb", "a\\nb"),
        (b"a\nb", "a\nb"),
        (b'\\"} 1\namalgam_x{', '\\"} 1\namalgam_x{'),
        ("é€".encode(), "é€"),
        (b"\x1b[31m\r", "\\x1b[31m\\x0d"),
        (b"\xff\x9b", "\\xff\\x9b"),
    ],
)
def test_name_of_a_repository_breaks_nothing(
    tmp_path: Path, server: HgServer, name: bytes, expected: str
) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    server.hg(tmp_path, "init", str(root))
    done = server.run(root, "admin::amalgam", "--metrics")
    assert (done.code, done.err) == (0, b"")
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", done.out)
    for samples in parsed(done.out).values():
        for labels in samples:
            assert dict(labels)["repository"] == f"{tmp_path}/{expected}"


def test_options_that_have_no_meaning_together(store: Exported) -> None:
    for option in (["--repair"], ["-T", "json"]):
        done = store.run("admin::amalgam", "--metrics", *option)
        assert (done.code, done.out) == (10, b"")
        assert b"abort: cannot specify both --metrics and --" in done.err
