"""Several servers of one history: the same ids, and clients that meet all of them."""

from __future__ import annotations

import gzip
import itertools
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mercurial import lock as lockmod
from testlib.alternating import alternating
from testlib.environment import git, publish_commits
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.hiding import fetch_of
from testlib.webserver import ON, WebServer, serving, until

from hgext3rd.amalgam.serve import limits

pytestmark = pytest.mark.slow

LAG_SECONDS = 5
LAGGING = "--config=amalgam.serve.replication-lag=30"
SHORT_LAG = "--config=amalgam.serve.replication-lag=1"
UNKNOWN = "1" * 40


def replica_of(store: Exported, place: Path) -> Exported:
    """Clone a repository by Mercurial; the clone publishes, too."""
    store.server.hg(store.root.parent, "clone", "-qU", str(store.root), str(place))
    publish_commits(place)
    return Exported(place, store.server)


def refs_of(store: Exported) -> str:
    return store.git("show-ref") + store.git("symbolic-ref", "HEAD")


_clients = itertools.count()


def wanting(web: WebServer, *oids: str, version: int = 2) -> tuple[int, bytes]:
    """Ask for objects; return the status and the answer."""
    body = fetch_of(oids[-1], version)
    first, rest = (body[:22], body[22:]) if version == 2 else (b"", body)
    more = b"".join(f"0032want {oid}\n".encode() for oid in oids[:-1])
    spoken = "version=2" if version == 2 else ""
    status, _headers, said = web.ask(
        "git-upload-pack",
        "POST",
        first + more + rest,
        Git_Protocol=spoken,
        X_Forwarded_For=f"192.0.2.{next(_clients)}",  # each is another client
    )
    return status, said


@pytest.fixture
def replica(store: Exported, tmp_path: Path) -> Exported:
    """A clone of ``store``, which is not exported."""
    return replica_of(store, tmp_path / "replica")


@pytest.fixture
def lagging(store: Exported, replica: Exported) -> Iterator[tuple[Exported, WebServer]]:
    """A server of the replica, which lacks the last changeset of ``store``."""
    replica.hg("git::export")
    store.commit_nothing("later")
    store.hg("git::export")
    with serving(replica.root, *ON, LAGGING) as web:
        yield replica, web


def test_same_order_gives_the_same_refs(tmp_path: Path, server: HgServer) -> None:
    one = Exported.init(tmp_path / "one", server)
    other = Exported.init(tmp_path / "other", server)
    for number in range(6):
        if number == 3:
            one.hg("update", "-q", "1")
            one.hg("branch", "-q", "stable")
        (one.root / f"file{number}").write_text(f"text {number}\n")
        one.hg("commit", "-qAm", f"number {number}", "-d", f"{number} 0")
        one.hg("bookmark", "-f", "book")
        one.hg("git::export")  # six exports here
        other.hg("pull", "-q", "-B", "book", str(one.root))
        if number == 2:
            other.hg("git::export")
    other.hg("git::export", "--rebuild", "--metadata")
    one.hg("git::export", "--metadata")
    assert "refs/heads/book" in refs_of(one)
    assert refs_of(one) == refs_of(other)


def test_other_order_gives_the_same_ids_and_another_branch(
    tmp_path: Path, server: HgServer
) -> None:
    one = Exported.init(tmp_path / "one", server)
    for name in "ab":
        one.hg("update", "-q", "null")
        one.commit(name)
    other = Exported.init(tmp_path / "other", server)
    for rev in "10":
        other.hg("pull", "-qf", "-r", one.ids(rev)[0], str(one.root))
    one.hg("git::export")
    other.hg("git::export")
    ids = {
        store.hg("log", "-T", "{node} {gitnode}\n", "-r", "sort(all(), desc)")
        for store in (one, other)
    }
    assert len(ids) == 1
    # with several heads, the branch is that with the highest revision
    assert refs_of(one) != refs_of(other)


@pytest.mark.parametrize("version", ["0", "2"])
def test_clone_by_turns_from_a_server_that_lags(
    store: Exported, replica: Exported, tmp_path: Path, version: str
) -> None:
    replica.hg("git::export")
    with (
        serving(store.root, *ON) as first,
        serving(replica.root, *ON, LAGGING) as second,
        alternating(*((second, first) if version == "2" else (first, second))) as proxy,
    ):
        git(tmp_path, "clone", "-q", proxy.url, "client")
        store.commit_nothing("later")
        pull = threading.Timer(LAG_SECONDS, replica.hg, ["pull", "-q", str(store.root)])
        pull.start()
        proxy.asked.clear()
        started = time.monotonic()
        config = ("-c", f"protocol.version={version}")
        git(tmp_path / "client", *config, "fetch", "-q")
        pull.join()
        assert time.monotonic() - started > LAG_SECONDS / 2
        tip = store.ids("tip")[1]
        found = git(tmp_path / "client", "rev-parse", "origin/default").decode().strip()
        assert found == tip
        git(tmp_path / "client", "fsck", "--strict", "--full")
        assert {number for number, _what in proxy.asked} == {0, 1}
        assert "waited" in second.said()


def test_wanted_commit_is_waited_for_in_both_protocols(
    store: Exported, lagging: tuple[Exported, WebServer]
) -> None:
    replica, web = lagging
    node, oid = store.ids("tip")
    old = store.ids("0")[1]
    with ThreadPoolExecutor() as threads:
        asked = [
            threads.submit(wanting, web, *oids, version=version)
            for oids in ((oid,), (old, oid))
            for version in (0, 2)
        ]
        time.sleep(0.5)
        assert not any(future.done() for future in asked)
        replica.hg("pull", "-q", "-r", node, str(store.root))
        for future in asked:
            status, said = future.result()
            assert status == 200
            assert b"PACK" in said


def test_tree_and_blob_of_a_partial_clone_are_waited_for(
    store: Exported, replica: Exported
) -> None:
    replica.hg("git::export")
    (store.root / "new").write_text("new\n")
    store.hg("commit", "-qAm", "new")
    store.hg("git::export")
    tip = store.ids("tip")[1]
    oids = [store.git("rev-parse", f"{tip}{what}") for what in ("^{tree}", ":new")]
    with (
        serving(replica.root, *ON, LAGGING) as web,
        ThreadPoolExecutor() as threads,
    ):
        assert b"PACK" in wanting(web, replica.git("rev-parse", "HEAD^{tree}"))[1]
        assert "waited" not in web.said()
        asked = [threads.submit(wanting, web, oid) for oid in oids]
        time.sleep(0.3)
        replica.hg("pull", "-q", str(store.root))
        assert all(b"PACK" in future.result()[1] for future in asked)


def test_strangers_fill_the_lane_and_not_the_slots(
    store: Exported, tmp_path: Path
) -> None:
    oid = store.ids("tip")[1]
    option = "--config=amalgam.serve.max-fetches=2"
    run = tmp_path / "run"
    options = [option, f"--config=amalgam.serve.run-directory={run}"]
    options += ["--config=amalgam.serve.replication-lag=600"]
    with serving(store.root, *ON, *options) as web, ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(wanting, web, f"{n + 1:040x}") for n in range(2)]
        until(lambda: run.exists() and usage(run).held == 2)
        status, said = wanting(web, UNKNOWN)
        assert status == 503
        assert b"does not have" in said
        for _number in range(3):
            assert b"PACK" in wanting(web, oid)[1]
        assert not any(future.done() for future in asked)
        until(lambda: not web.children())  # git has not been asked
        web.process.kill()


def usage(run: Path) -> limits.Usage:
    """Return how the lane of those who wait for objects is used."""
    return limits.slot_usage(os.fsencode(run), [b"waiting"])[b"waiting"]


@pytest.mark.parametrize("lag", [(), (SHORT_LAG,)], ids=["alone", "lag"])
def test_unknown_id_is_git_s_to_refuse_in_the_end(
    store: Exported, lag: tuple[str, ...]
) -> None:
    with serving(store.root, *ON, *lag) as web:
        for version in (0, 2):
            status, said = wanting(web, store.ids("tip")[1], UNKNOWN, version=version)
            assert status == 200
            assert b"not our ref " + UNKNOWN.encode() in said
        assert (f"without {UNKNOWN}" in web.said()) == bool(lag)


def test_commit_that_only_is_not_exported_yet_is_waited_for(
    store: Exported, tmp_path: Path
) -> None:
    other = store.copied(tmp_path, "other")
    for repository in (store, other):
        repository.commit("later")
    other.hg("git::export")
    with serving(store.root, *ON, "--config=amalgam.serve.freshness=0") as web:
        assert b"PACK" in wanting(web, other.ids("tip")[1])[1]


@pytest.mark.parametrize(
    "body",
    [
        b"0012command=fetch\n0001" + f"0032want {UNKNOWN}\n".encode() * 3 + b"0032w",
        b"0012command=fetch\n0001" + b"000ewant zzzz\n" + b"0" * 50,
        b"0012command=fetch\n0001" + f"0034want {UNKNOWN}xyz".encode() + b"0000",
    ],
    ids=["cut", "no-id", "longer"],
)
def test_malformed_wants_do_no_harm(store: Exported, body: bytes) -> None:
    with serving(store.root, *ON) as web:
        for sent, coding in ((body, ""), (gzip.compress(body), "gzip")):
            status, _headers, said = web.ask(
                "git-upload-pack",
                "POST",
                sent,
                Git_Protocol="version=2",
                Content_Encoding=coding,
            )
            assert status == 400 or b"ERR" in said
            assert b"PACK" not in said


def test_many_wants_are_looked_at(store: Exported) -> None:
    tip = store.ids("tip")[1]
    with serving(store.root, *ON, SHORT_LAG) as web:
        status, said = wanting(web, *[tip] * 3000, UNKNOWN)
        assert status == 200
        assert b"not our ref " + UNKNOWN.encode() in said
        assert "waited" in web.said()


def test_lock_of_another_host_is_taken_over_when_it_is_silent(store: Exported) -> None:
    lock = store.amalgam / "lock"
    lock.symlink_to("dead-host/f00:12")
    before = store.ids("tip")[1].encode()
    store.commit_nothing("later")
    option = "--config=amalgam.serve.queue-timeout=1"
    with serving(store.root, *ON, option) as web:
        status, _headers, said = web.ask("info/refs?service=git-upload-pack")
        assert status == 200
        assert before in said  # the last state, and not forever nothing
        os.utime(lock, (0, 0), follow_symlinks=False)
        assert b"'dead-host' has been silent" in store.run("admin::amalgam").out
        said = web.ask("info/refs?service=git-upload-pack")[2]
        assert store.ids("tip")[1].encode() in said


def test_lock_of_a_dead_process_of_this_host_is_taken_over(store: Exported) -> None:
    with subprocess.Popen(["true"]) as dead:
        pass
    prefix = lockmod._getlockprefix().decode()  # the same after a reboot
    (store.amalgam / "lock").symlink_to(f"{prefix}:{dead.pid}")
    store.commit_nothing("later")
    with serving(store.root, *ON) as web:
        said = web.ask("info/refs?service=git-upload-pack")[2]
        assert store.ids("tip")[1].encode() in said
