"""Exports that hgweb asks for: one process, however many requests wait for it."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from testlib.environment import ENVIRONMENT, HG, add_config, captured, executable, git
from testlib.exported import Exported
from testlib.webserver import ON, SERVICE, WebServer, serving, until

from hgext3rd.amalgam.config import GitConfig
from hgext3rd.amalgam.files import Placement
from hgext3rd.amalgam.gitstore.export import export as exporting, exporter, request
from hgext3rd.amalgam.gitstore.failures import Failure
from hgext3rd.amalgam.gitstore.store import GitStore
from hgext3rd.amalgam.serve import freshness, http
from hgext3rd.amalgam.serve.errors import HttpError
from hgext3rd.amalgam.serve.freshness import Freshness

pytestmark = pytest.mark.slow

IN_BACKGROUND = "--config=amalgam.serve.freshness=0"


class HeldExporters:
    """Exporters that note that they were started, and wait while ``held`` is there."""

    def __init__(self, place: Path) -> None:
        self.held, self._noted = place / "held", place / "noted"
        program = executable(
            place / "hg",
            f"#!/bin/sh\necho started >> {self._noted}\n"
            f'while [ -e {self.held} ]; do sleep 0.05; done\nexec "{HG}" "$@"\n',
        )
        self.held.touch()
        self.environment = ENVIRONMENT | {"HG": str(program)}

    def count(self) -> int:
        """Return how many were started."""
        if not self._noted.exists():
            return 0
        return len(self._noted.read_text().splitlines())


def enable(store: Exported) -> None:
    add_config(store.root, "[extensions]\namalgam =\n")


def listed_refs(store: Exported) -> bytes:
    """Return what git clients are told of the branch default."""
    return store.git("rev-parse", "default").encode() + b" refs/heads/default"


@pytest.fixture
def outdated(store: Exported) -> Exported:
    """A store that lacks three changesets; amalgam is on in the background, too."""
    enable(store)
    for number in range(3):
        store.commit_nothing(f"new {number}")
    return store


def listed(web: WebServer, freshness: str = "") -> tuple[int, bytes]:
    status, _headers, body = web.ask(SERVICE, X_Amalgam_Freshness=freshness)
    return status, body


def test_wait_is_no_lack_of_progress(outdated: Exported, tmp_path: Path) -> None:
    exporters = HeldExporters(tmp_path)
    limits = ("queue-timeout=2", "timeout=1")
    options = (*ON, IN_BACKGROUND, *(f"--config=amalgam.serve.{it}" for it in limits))
    environment = exporters.environment
    with serving(outdated.root, *options, environment=environment) as web:
        assert listed(web, "now")[0] == 503
        exporters.held.unlink()


def test_first_export_is_waited_for(empty: Exported, tmp_path: Path) -> None:
    """Beyond all limits of time, while the client does."""
    exporters = HeldExporters(tmp_path)
    limits = ("queue-timeout=0", "timeout=1")
    options = (*ON, IN_BACKGROUND, *(f"--config=amalgam.serve.{it}" for it in limits))
    empty.commit_nothing("one")
    environment = exporters.environment
    with serving(empty.root, *options, environment=environment) as web:
        with socket.create_connection(("127.0.0.1", web.port)) as left:
            left.sendall(f"GET /{SERVICE} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            until(exporters.count)
        until(lambda: any("with 503" in line for line in web.logged()))
        for number in (1, 2):
            with ThreadPoolExecutor(1) as threads:
                answer = threads.submit(listed, web)
                time.sleep(2)
                assert not answer.done()
                exporters.held.unlink()
                status, body = answer.result()
            assert (status, listed_refs(empty) in body) == (200, True)
            assert exporters.count() == number
            # that may be removed under a running server, whose next export is a first
            shutil.rmtree(empty.root / ".hg/amalgam")
            exporters.held.touch()


@pytest.mark.parametrize("version", ["0", "2"])
def test_client_is_kept_alive_during_a_first_export(
    empty: Exported, tmp_path: Path, version: str
) -> None:
    """A web server in between would end a request that nothing comes of."""
    exporters = HeldExporters(tmp_path)
    options = (*ON, IN_BACKGROUND, "--config=amalgam.serve.queue-timeout=0")
    empty.commit_nothing("one")
    environment = exporters.environment
    with (
        serving(empty.root, *options, environment=environment) as web,
        ThreadPoolExecutor(1) as threads,
    ):
        address = ("127.0.0.1", web.port)
        with socket.create_connection(address, 600) as client:
            head = f"GET /{SERVICE} HTTP/1.1\r\nHost: x\r\nUser-Agent: git/2\r\n\r\n"
            client.sendall(head.encode())
            said = b""
            while said.count(b"# the first export of this repository is running\n") < 2:
                piece = client.recv(1 << 16)
                assert piece, said
                said += piece
        config = ("-c", f"protocol.version={version}")
        command = ["git", *config, "clone", "-q", web.url, str(tmp_path / "clone")]
        cloned = threads.submit(captured, command)
        time.sleep(1)  # it waits, too
        exporters.held.unlink()
        assert cloned.result().returncode == 0, cloned.result().stderr
    assert git(tmp_path / "clone", "log", "--format=%s") == b"one\n"


@pytest.mark.parametrize(
    ("agent", "skips"),
    [
        (b"git/2.39.5", True),
        (b"git/2.39.5 (Apple Git-154)", True),
        (b"git/2.0 (libgit2 1.9.7)", False),
        (b"git/1.0", False),
        (b"git/dulwich/1.2.21", False),
        (b"go-git/5.x", False),
        (b"", False),
    ],
)
def test_only_git_is_kept_alive(agent: bytes, skips: bool) -> None:
    """Others refuse the lines: each was tried, but the oldest go-git."""
    assert bool(http._SKIPS_LINES.match(agent)) == skips


def hindered(monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """Let no request of this process export, in one of the ways there are."""
    if by == "permissions":
        monkeypatch.setattr(freshness, "_may_write", lambda _store: False)
    elif by == "a lock":
        monkeypatch.setattr(Freshness, "_is_locked", lambda _self: True)
    else:
        monkeypatch.setattr(Freshness, "_start", lambda _self: b"")


@pytest.mark.parametrize("by", ["permissions", "a lock", "an exporter"])
@pytest.mark.parametrize("state", ["empty", "of one branch"])
def test_store_of_a_part_is_no_answer(
    empty: Exported, monkeypatch: pytest.MonkeyPatch, by: str, state: str
) -> None:
    """A mirror that prunes would delete the rest."""
    if state == "empty":
        empty.hg("git::export")
    empty.commit_nothing("one")
    empty.hg("bookmark", "work")
    empty.commit_nothing("two")
    if state != "empty":
        empty.hg("git::export", "-r", "0")
        assert b"/work" not in (empty.git_dir / "packed-refs").read_bytes()
    hindered(monkeypatch, by)
    repo = empty.open()

    def ensure() -> None:
        git_store = GitStore(repo, GitConfig.from_ui(repo.ui))
        Freshness(git_store, limit=0, timeout=0).ensure()

    with pytest.raises(HttpError) as caught:
        ensure()
    assert caught.value.code == 503
    empty.hg("git::export")
    ensure()
    # a whole state from before is an answer
    empty.commit_nothing("three")
    ensure()


def test_id_is_not_unknown_before_all_is_exported(
    outdated: Exported, tmp_path: Path
) -> None:
    exporters = HeldExporters(tmp_path)
    node = outdated.hg("log", "-r", "tip", "-T", "{node}")
    options = (*ON, IN_BACKGROUND, "--config=amalgam.serve.queue-timeout=1")
    environment = exporters.environment
    with serving(outdated.root, *options, environment=environment) as web:
        assert b'"gitnode": null' in web.ask(f"amalgam/id/{node}")[2]
        for unknown in (node[:12], "0123456789" * 4):
            status, _headers, said = web.ask(f"amalgam/id/{unknown}")
            assert (status, b"being made up to date" in said) == (503, True)
        exporters.held.unlink()
        until(lambda: web.ask(f"amalgam/id/{node[:12]}")[0] == 200)
        assert web.ask(f"amalgam/id/{unknown}")[0] == 404


def test_who_waited_for_an_export_needs_no_other(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if something is new each time: each would wait for all before him."""
    export, exports = exporting.export, []

    def followed_by_a_change(*args: Any, **options: Any) -> Any:
        done = export(*args, **options)
        exports.append(store.ids("tip")[1])
        store.commit_nothing(f"after {len(exports)} exports")
        return done

    monkeypatch.setattr(exporting, "export", followed_by_a_change)

    def request() -> Freshness:
        return Freshness(store.git_store(), 1000, 60)

    store.commit_nothing("before")
    waiting = [request() for _number in range(3)]
    for one in waiting:
        one.ensure()
    assert len(exports) == 1
    request().ensure(now=True)
    assert len(exports) == 2


def test_changeset_hidden_after_an_export_is_left_out_by_another(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request waits in vain for that, though none has asked since the export."""
    export = exporting.export
    hidden: list[str] = []

    def followed_by_secrecy(*args: Any, **options: Any) -> Any:
        done = export(*args, **options)
        if not hidden:
            hidden.append(store.git("rev-parse", "default"))
            store.hg("phase", "--force", "--secret", "tip")
        return done

    monkeypatch.setattr(exporting, "export", followed_by_secrecy)
    store.commit_nothing("before")
    waiting = [Freshness(store.git_store(), 1000, 5) for _number in range(2)]
    for one in waiting:
        one.ensure()
    assert store.git("rev-parse", "default") not in hidden


def test_threads_find_out_once_what_is_so(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, looks = freshness._found, []

    def slow(*args: Any) -> Any:
        looks.append(args)
        time.sleep(0.3)
        return found(*args)

    monkeypatch.setattr(freshness, "_found", slow)
    repos = [store.open() for _number in range(5)]
    with ThreadPoolExecutor(5) as threads:
        stores = [GitStore(repo, GitConfig.from_ui(repo.ui)) for repo in repos]
        all_known = [*threads.map(freshness.look, stores)]
    assert all(known.is_current for known in all_known)
    assert len(looks) == 1


def test_threads_keep_nothing_that_they_read(
    outdated: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what they know of names would be in memory for each of them."""
    counted, export = GitStore.missing, Freshness._export
    counts: list[int] = []
    all_wait = threading.Barrier(5)

    def missing(store: GitStore) -> int:
        counts.append(counted(store))
        return counts[-1]

    def kept(repo: Any) -> set[str]:
        large = {"changelog", "obsstore", "_bookmarks", "_phasecache"}
        return large.intersection(vars(repo.unfiltered()))

    def export_together(freshness: Freshness) -> bool:
        all_wait.wait()
        return export(freshness)

    monkeypatch.setattr(GitStore, "missing", missing)
    monkeypatch.setattr(Freshness, "_export", export_together)
    repos = [outdated.open() for _number in range(5)]
    stores = [GitStore(repo, GitConfig.from_ui(repo.ui)) for repo in repos]
    freshness.look(stores[0])
    assert counts == [3]
    assert not kept(repos[0])
    with ThreadPoolExecutor(5) as threads:
        waiting = [Freshness(store, 1000, 5) for store in stores]
        for ended in [threads.submit(one.ensure) for one in waiting]:
            ended.result()
    assert counts == [3]
    assert not any(map(kept, repos))


@pytest.mark.parametrize("begins", ["before", "meanwhile"])
def test_what_is_found_during_an_exchange_of_packs_is_not_kept(
    store: Exported, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    """Nothing but the file ``.pending`` need tell that the exchange is over."""
    found, pending = freshness._found, store.map_dir / "cinnabar.pending"
    packs = "".join(f"{name}\n" for name in store.packs())

    def meanwhile(*args: Any) -> Any:
        pending.write_text(packs)
        return found(*args)

    git_store = store.git_store()
    if begins == "before":
        pending.write_text(packs)
    else:
        monkeypatch.setattr(freshness, "_found", meanwhile)
    assert not freshness.look(git_store).is_safe
    monkeypatch.undo()
    pending.unlink()
    assert freshness.look(git_store).is_current


def test_what_is_found_during_an_export_that_is_given_up_is_not_kept(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after it, all is as it was."""
    found, pending = freshness._found, store.map_dir / "cinnabar.pending"

    def meanwhile(*args: Any) -> Any:
        pending.write_text("")
        stray = store.git_dir / "objects" / "pack" / "pack-stray.pack"
        stray.touch()
        try:
            return found(*args)
        finally:
            stray.unlink()
            pending.unlink()

    git_store = store.git_store()
    monkeypatch.setattr(freshness, "_found", meanwhile)
    assert not freshness.look(git_store).is_current
    monkeypatch.undo()
    assert freshness.look(git_store).is_current


def test_local_tag_in_the_place_of_a_tag_is_seen(store: Exported) -> None:
    """What a server names depends on both, also if nothing is obsolete."""
    store.hg("tag", "-r", "0", "both", "-u", "u", "-d", "0 0")
    store.hg("git::export")
    git_store = store.git_store()
    assert freshness.look(git_store).is_current
    store.hg("tag", "--local", "-f", "-r", "tip", "both")
    assert not freshness.look(git_store).is_current


def test_end_of_an_unresolved_merge_is_seen(store: Exported) -> None:
    """Mercurial shows both sides of it, even an obsolete one that is no parent."""
    with (store.root / ".hg" / "hgrc").open("a") as file:
        file.write("[experimental]\nevolution = all\n[phases]\nnew-commit = draft\n")
    path = store.root / "merged"
    path.write_text("base\n")
    store.hg("commit", "-qAm", "base")
    path.write_text("left\n")
    store.hg("commit", "-qm", "left")
    left = store.hg("log", "-r", ".", "-T", "{node}")
    store.hg("update", "-q", ".^")
    path.write_text("right\n")
    store.hg("commit", "-qm", "right")
    store.hg("update", "-q", left)
    path.write_text("uncommitted\n")
    store.run("update", "-q", "--merge", "tip", "--tool", "internal:fail")
    store.hg("debugobsolete", left)
    shown = ("log", "-T", "{node} {gitnode}\n")
    store.hg("git::export")
    assert f"{left} " in store.hg(*shown)
    repo = store.open()
    git_store = GitStore(repo, GitConfig.from_ui(repo.ui))
    assert freshness.look(git_store).is_current
    store.hg("resolve", "--mark", "--all")
    assert left not in store.hg(*shown)
    assert not freshness.look(git_store).is_safe


@pytest.mark.torture
def test_packs_of_exports_for_requests_are_rolled_up(store: Exported) -> None:
    enable(store)
    most = 0
    with serving(store.root, *ON) as web:
        while (packs := len(store.packs())) >= most:
            assert packs <= 64
            most = packs
            store.commit_nothing(f"commit with {packs} packs")
            said = listed(web)[1]
            assert listed_refs(store) in said


def has_exporter(store: Exported) -> bool:
    return request.is_exporter_running(request.exporter_directory(store.open()))


def test_requests_of_all_processes_share_one_exporter(
    outdated: Exported, tmp_path: Path
) -> None:
    exporters = HeldExporters(tmp_path)
    environment = exporters.environment
    options = (*ON, IN_BACKGROUND)
    with (
        serving(outdated.root, *options, environment=environment) as one,
        serving(outdated.root, *options, environment=environment) as other,
        ThreadPoolExecutor(8) as threads,
    ):
        found = {listed(web) for web in (one, other) * 4}
        assert len(found) == 1  # the state before
        until(exporters.count)
        waiting = [
            threads.submit(listed, web, "now") for web in (one, other) for _ in range(4)
        ]
        assert listed(one) in found
        assert listed(other) in found
        assert exporters.count() == 1
        exporters.held.unlink()
        tip = outdated.ids("tip")[1].encode()
        for future in waiting:
            status, said = future.result()
            assert status == 200
            assert tip in said
        until(lambda: not has_exporter(outdated))
        count = exporters.count()
        assert tip in listed(one)[1]
        assert exporters.count() == count


def note(store: Exported, attempts: int, retry: float) -> None:
    """Say that exports have failed, and when the next attempt is due."""
    repo = store.open()
    failure = Failure("no reason", attempts, int(retry))
    directory = request.exporter_directory(repo)
    directory.make(Placement.of(repo))
    failure.write(directory, exporter.FAILURE, Placement.of(repo))


def noted(store: Exported) -> Failure | None:
    return Failure.read(request.exporter_directory(store.open()), exporter.FAILURE)


@pytest.fixture
def damaged(store: Exported) -> Exported:
    """A store that lacks a changeset with a file that cannot be read."""
    enable(store)
    (store.root / "new").write_text("new\n" * 100)
    store.hg("commit", "-qAm", "new")
    path = store.root / ".hg/store/data/new.i"
    path.rename(store.root / "kept")
    path.write_bytes((store.root / "kept").read_bytes()[:-8])
    return store


@pytest.mark.parametrize("option", ["--config=ui.quiet=yes", IN_BACKGROUND])
def test_exports_that_fail_are_not_tried_with_each_request(
    damaged: Exported, option: str
) -> None:
    old = listed_refs(damaged)
    with serving(damaged.root, *ON, option) as web:
        assert old in listed(web)[1]
        until(lambda: noted(damaged))
        until(lambda: not has_exporter(damaged))
        first = noted(damaged)
        assert first is not None
        assert "new" in first.reason
        assert first.retry
        assert damaged.run("admin::amalgam").code == 1

        note(damaged, 7, time.time() + 64)
        for _number in range(3):
            assert old in listed(web)[1]
        found = noted(damaged)
        assert found is not None
        assert found.attempts == 7

        note(damaged, 7, time.time() - 1)
        assert old in listed(web)[1]
        until(lambda: getattr(noted(damaged), "attempts", 0) == 8)
        until(lambda: not has_exporter(damaged))

        (damaged.root / "kept").rename(damaged.root / ".hg/store/data/new.i")
        note(damaged, 8, time.time() - 1)
        until(lambda: damaged.ids("tip")[1].encode() in listed(web)[1])
        until(lambda: noted(damaged) is None)


def test_clock_that_was_set_back_holds_nothing_up(outdated: Exported) -> None:
    note(outdated, 1, time.time() + 1e6)
    with serving(outdated.root, *ON) as web:
        assert outdated.ids("tip")[1].encode() in listed(web)[1]


def test_exporter_that_is_killed_is_replaced(
    outdated: Exported, tmp_path: Path
) -> None:
    exporters = HeldExporters(tmp_path)
    program = Path(exporters.environment["HG"])
    whole = program.read_text()
    program.write_text(whole.replace("while", "kill -9 $$; while"))
    options = (*ON, IN_BACKGROUND)
    with serving(outdated.root, *options, environment=exporters.environment) as web:
        before = listed(web)
        until(exporters.count)
        until(lambda: not has_exporter(outdated))
        program.write_text(whole)
        exporters.held.unlink()
        until(lambda: listed(web) != before)
        assert outdated.ids("tip")[1].encode() in listed(web)[1]
