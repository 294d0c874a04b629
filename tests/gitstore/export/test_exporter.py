"""The git store follows each transaction by itself."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mercurial import lock as lockmod
from testlib.environment import ENVIRONMENT, HG, add_config, captured, executable
from testlib.exported import Exported
from testlib.followed import Followed
from testlib.hgserver import HgServer
from testlib.users import STRANGER
from testlib.webserver import until

from hgext3rd.amalgam import background
from hgext3rd.amalgam.gitstore.export import request

#: Several exporters run until an export succeeds.
NOWHERE = "/proc/amalgam"


@pytest.fixture
def followed(tmp_path: Path, server: HgServer) -> Iterator[Followed]:
    """A repository with one changeset, which is exported."""
    made = Followed.init(tmp_path / "repo", server)
    made.commit_nothing("first")
    made.follow()
    yield made
    for place in ("conversion", "end"):
        (made.observed / place).unlink(missing_ok=True)
    made.configure("amalgam", git__export_on_change="no", git__path="")
    until(lambda: not request.is_exporter_running(exporter_directory(made)))


def exporter_directory(store: Exported) -> Any:
    return request.exporter_directory(store.open())


def in_git(store: Exported) -> list[str]:
    """Return the subjects of all commits that refs lead to."""
    refs = ["--exclude=refs/cinnabar/*", "--all"]
    return store.git("log", "--topo-order", "--format=%s", *refs).splitlines()


def clone(followed: Followed) -> Path:
    """Return a clone with a new changeset."""
    path = followed.root.parent / "clone"
    followed.server.hg(
        followed.root.parent, "clone", "-q", str(followed.root), str(path)
    )
    option = "ui.allowemptycommit=yes"
    followed.server.hg(path, "commit", "-qm", "pushed", "--config", option)
    return path


def by_commit(followed: Followed) -> None:
    command = ["commit", "-qm", "pushed", "--config", "ui.allowemptycommit=yes"]
    run(followed.root, *command)


def by_command_server(followed: Followed) -> None:
    followed.commit_nothing("pushed")


def by_ssh(followed: Followed) -> None:
    ssh = executable(followed.observed / "ssh", '#!/bin/sh\nexec sh -c "$2"\n')
    options = ["--config", f"ui.ssh={ssh}", "--config", f"ui.remotecmd={HG}"]
    followed.hold("conversion")
    # whoever has its output open keeps the session from ending
    run(clone(followed), "push", *options, f"ssh://host/{followed.root}")
    followed.let_go("conversion")


SERVE = [str(HG), "serve", "-a", "127.0.0.1", "-p", "0"]
#: As mod_wsgi would: no program hg, and threads.
WSGI = """
import os, socketserver, sys, wsgiref.simple_server
from mercurial.hgweb import hgweb

class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    pass

server = wsgiref.simple_server.make_server(
    "127.0.0.1", 0, hgweb(os.fsencode(sys.argv[1])), Server
)
print(f"listening at http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
"""


def by_server(followed: Followed) -> None:
    push(followed, *SERVE)


def by_wsgi(followed: Followed) -> None:
    push(followed, sys.executable, "-c", WSGI, str(followed.root))


def push(followed: Followed, *command: str) -> None:
    followed.configure("web", allow_push="*", push__ssl="no")
    add_config(followed.root, "[web]\nallow-push = *\npush_ssl = no\n")
    path = f"{HG.parent}:{ENVIRONMENT['PATH']}"
    with subprocess.Popen(
        command,
        cwd=followed.root,
        env=ENVIRONMENT | {"PATH": path, "HTTP_PROXY": "", "LISTEN_FDS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout
        found = re.search(rb":(\d+)/", process.stdout.readline())
        assert found
        run(clone(followed), "push", f"http://127.0.0.1:{found[1].decode()}/")
        process.kill()


def run(cwd: Path, *args: str) -> None:
    """Run hg as users do, and wait until nobody has its output open."""
    captured([str(HG), *args], cwd, check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [by_commit, by_command_server, by_ssh, by_server, by_wsgi]
)
def test_store_follows_changesets(
    followed: Followed, change: Callable[[Followed], None]
) -> None:
    change(followed)
    followed.follow()
    assert in_git(followed)[0] == "pushed"


#: Commands of hg, and the subjects in git after them.
CHANGES = {
    "amend": (["commit --amend -qm amended"], ["amended", "first"]),
    "strip": (["debugstrip --no-backup tip"], ["first"]),
    "roll back": (["rollback -q --config ui.rollback=yes"], ["first"]),
    "hide": (["update -q null", "debugobsolete TIP"], ["first"]),
    "make secret": (["phase --force --secret tip"], ["first"]),
    "publish": (["phase --public tip"], ["draft", "first"]),
    "name": (["bookmark -r tip named"], ["draft", "first"]),
}


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("evolution", ["", "all"])
def test_store_follows_whatever_else_changes(
    followed: Followed, change: str, evolution: str
) -> None:
    followed.configure("experimental", evolution=evolution)
    followed.configure("phases", new_commit="draft")
    if change == "hide" and not evolution:
        followed.configure("experimental", evolution="createmarkers")
    followed.commit_nothing("draft")
    followed.follow()
    assert in_git(followed) == ["draft", "first"]
    commands, left = CHANGES[change]
    tip = followed.hg("log", "-r", "tip", "-T", "{node}")
    for command in commands:
        followed.hg(*command.replace("TIP", tip).split(" "))
    followed.follow()
    assert in_git(followed) == left
    if change == "name":
        assert "refs/heads/named" in followed.git("for-each-ref")
    if change == "publish":
        assert not followed.docket()["drafts"]["packs"]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["conversion", "end"])
def test_changes_during_an_export_are_one_request(
    followed: Followed, place: str
) -> None:
    # at its end, the exporter has looked at the repository for the last time but one
    before = len(followed.exporters())
    followed.hold(place)
    followed.commit_nothing("second")
    until(lambda: followed.is_held(place))
    for number in range(5):
        followed.commit_nothing(f"number {number}")
    followed.let_go(place)
    followed.follow()
    assert len(in_git(followed)) == 7
    assert len(followed.exporters()) == before + 2


@pytest.mark.slow
def test_repository_that_never_rests_is_followed(followed: Followed) -> None:
    followed.hold("restless")
    followed.commit_nothing("second")
    for _number in range(3):
        subjects = in_git(followed)
        until(functools.partial(_is_followed_beyond, followed, subjects))
    assert followed.admin()["exporter"] != "waiting"
    followed.let_go("restless")
    followed.follow()
    assert in_git(followed)[-2:] == ["second", "first"]


def _is_followed_beyond(followed: Followed, subjects: list[str]) -> bool:
    return in_git(followed) != subjects


@pytest.mark.slow
def test_killed_exporter_is_replaced(followed: Followed) -> None:
    followed.hold("conversion")
    followed.commit_nothing("second")
    until(lambda: followed.is_held("conversion"))
    assert followed.admin()["exporter"] == "working"
    followed.kill_exporter()
    followed.let_go("conversion")
    followed.commit_nothing("third")
    followed.follow()
    assert in_git(followed) == ["third", "second", "first"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("item", "wrong", "right"),
    [
        ("git__path", NOWHERE, ""),
        ("git__export", "nobody", "served"),
    ],
)
def test_failure_is_told_and_tried_again(
    followed: Followed, item: str, wrong: str, right: str
) -> None:
    before = len(followed.exporters())
    followed.configure("amalgam", **{item: wrong})
    followed.commit_nothing("second")
    until(lambda: len(followed.exporters()) >= before + 2)  # pauses double
    until(lambda: followed.admin()["problems"])
    done = followed.run("admin::amalgam")
    assert done.code == 1
    assert wrong.encode() in done.out
    if item == "git__path":
        assert re.search(rb"background export failed( \d times)?: .*", done.out)
        assert b"next attempt" in done.out
    followed.configure("amalgam", **{item: right})
    # nobody changes anything: it comes by itself
    followed.follow()
    assert in_git(followed) == ["second", "first"]
    assert followed.run("admin::amalgam").code == 0


@pytest.mark.slow
def test_exporter_that_waits_and_is_killed_is_replaced(followed: Followed) -> None:
    followed.configure("amalgam", git__path=NOWHERE)
    followed.commit_nothing("second")
    until(lambda: followed.admin()["exporter"] == "waiting")
    # as long as it waits, there is no other
    before = followed.exporters()
    followed.commit_nothing("third")
    followed.kill_exporter()
    (problem,) = (
        problem
        for problem in followed.admin()["problems"]
        if problem["text"].startswith("background")
    )
    assert problem["hint"].startswith("next attempt after the next change")
    followed.configure("amalgam", git__path="")
    followed.commit_nothing("fourth")
    followed.follow()
    assert len(in_git(followed)) == 4
    assert {it["pid"] for it in before} <= {it["pid"] for it in followed.exporters()}


@pytest.mark.parametrize("is_link", [False, True])
def test_foreign_lock_is_named_and_stops_no_commit(
    followed: Followed, tmp_path: Path, is_link: bool
) -> None:
    followed.follow()
    directory = followed.root / ".hg/amalgam/exporter"
    shutil.rmtree(directory)
    if is_link:
        directory.symlink_to(tmp_path)
    else:
        directory.mkdir()
        os.mkfifo(directory / "lock")
    followed.commit_nothing("second")
    done = followed.run("admin::amalgam")
    assert (done.code, b"amalgam/exporter" in done.out) == (1, True)
    if is_link:
        assert not list(tmp_path.glob("lock"))
        directory.unlink()
    else:
        shutil.rmtree(directory)
    followed.commit_nothing("third")
    followed.follow()
    assert in_git(followed) == ["third", "second", "first"]


@pytest.mark.torture
@pytest.mark.slow
def test_packs_are_rolled_up_in_the_background(followed: Followed) -> None:
    most = 0
    while (packs := len(followed.packs())) >= most:
        assert packs <= 64
        most = packs
        followed.commit_nothing(f"commit with {packs} packs")
        followed.follow()


@pytest.mark.slow
def test_manual_export_ends_a_failure(followed: Followed) -> None:
    followed.configure("amalgam", git__path=NOWHERE)
    followed.commit_nothing("second")
    until(lambda: followed.admin()["exporter"] == "waiting")
    followed.kill_exporter()
    followed.hg("git::export", "--config", "amalgam.git.path=")
    done = followed.run("admin::amalgam", "--config", "amalgam.git.path=")
    assert (done.code, b"nothing is wrong" in done.out) == (0, True)


@pytest.mark.slow
def test_exporter_has_nothing_of_who_started_it(followed: Followed) -> None:
    foreign = {"GIT_DIR", "HG_PENDING", "QUERY_STRING", "REMOTE_USER"}
    environment = ENVIRONMENT | dict.fromkeys(foreign, "/nowhere")
    with (followed.root / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        subprocess.run(
            [str(HG), "commit", "-qm", "second", "--config", "ui.allowemptycommit=yes"],
            cwd=followed.root,
            env=environment,
            close_fds=False,
            check=True,
        )
    followed.follow()
    (seen,) = followed.exporters()[1:]
    assert not foreign.intersection(seen["environment"])
    assert not [it for it in seen["environment"] if it.startswith("HG_")]
    amalgam = followed.root / ".hg" / "amalgam"
    own = {str(amalgam / "exporter" / "lock"), str(amalgam / "background" / "export")}
    assert set(seen["descriptors"].values()) == own
    assert not [path for path in seen["others"] if "/open" in path or "pipe:" in path]
    assert seen["session"] not in (os.getsid(0), seen["pid"])


@pytest.mark.slow
def test_share_is_followed_by_the_store_of_its_source(followed: Followed) -> None:
    share = followed.root.parent / "share"
    options = ["--config", "extensions.share="]
    followed.server.hg(followed.root.parent, "share", *options, "repo", "share")
    # the source decides what leaves
    add_config(share, "[amalgam]\ngit.export = public\ngit.refs = tags\n")
    commit = ["commit", "-qm", "in share", "--config", "ui.allowemptycommit=yes"]
    followed.server.hg(share, *commit)
    followed.follow()
    assert in_git(followed) == ["in share", "first"]
    assert not (share / ".hg" / "amalgam").exists()


@pytest.mark.slow
def test_option_of_the_command_line_reaches_the_exporter(followed: Followed) -> None:
    followed.configure("amalgam", git__export_on_change="no")
    option = ("--config", "amalgam.git.export-on-change=yes")
    followed.hg("bookmark", "named", *option)
    until(lambda: "refs/heads/named" in followed.git("for-each-ref"))
    until(lambda: not followed.admin()["problems"])


@pytest.mark.slow
def test_change_that_nobody_exported_is_a_problem(followed: Followed) -> None:
    followed.hg("bookmark", "named", "--config", "amalgam.git.export-on-change=no")
    assert not followed.admin()["problems"]  # an exporter might be about to begin
    long_ago = time.time() - 3600
    for path in [
        *(followed.root / ".hg").iterdir(),
        *(followed.root / ".hg/store").iterdir(),
    ]:
        os.utime(path, (long_ago, long_ago), follow_symlinks=False)
    (problem,) = followed.admin()["problems"]
    text = "changes are not exported, but the configuration asks for it"
    assert problem["text"] == text


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What would be started, each in its directory."""
    paths: list[bytes] = []

    def start(_repo: Any, path: bytes, *command: bytes, kept: int) -> None:
        assert os.path.samestat(os.fstat(kept), os.stat(lock_of(path)))
        assert command == (request.COMMAND,)
        paths.append(path)

    monkeypatch.setattr(background, "start", start)
    return paths


def lock_of(root: bytes) -> bytes:
    return os.path.join(root, b".hg/amalgam/exporter/lock")


def change(repo: Any) -> None:
    with repo.wlock(), repo.lock(), repo.transaction(b"test"):
        pass


def test_one_request_for_all_under_a_lock(
    store: Exported, started: list[bytes]
) -> None:
    repo = store.open(git__export_on_change="yes")
    with repo.wlock(), repo.lock():
        for _number in range(3):
            change(repo)
        repo.destroyed()
        assert not started
    assert started == [repo.root]
    change(repo.filtered(b"served"))
    assert started == [repo.root] * 2


def test_no_request_while_an_exporter_works(
    store: Exported, started: list[bytes]
) -> None:
    repo = store.open(git__export_on_change="yes")
    directory = request.exporter_directory(repo)
    placement = background_placement(repo)
    fd = request.take_exporter_lock(directory, placement)
    assert fd is not None
    assert request.take_exporter_lock(directory, placement) is None
    change(repo)
    assert not started
    os.close(fd)
    change(repo)
    assert started == [repo.root]


def test_reader_who_keeps_the_lock_makes_no_exporter_spin(store: Exported) -> None:
    repo = store.open()
    directory, placement = request.exporter_directory(repo), background_placement(repo)
    lock = request.take_exporter_lock(directory, placement)
    assert lock is not None
    os.close(lock)
    taken: list[int | None] = []
    with (store.amalgam / "exporter" / "lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        used = time.process_time()
        taking = threading.Thread(
            target=lambda: taken.append(
                request.take_exporter_lock(directory, placement)
            ),
            daemon=True,
        )
        taking.start()
        taking.join(30)
        assert taken == [None]
        assert time.process_time() - used < 0.5


def background_placement(repo: Any) -> Any:
    from hgext3rd.amalgam.files import Placement

    return Placement.of(repo)


@pytest.mark.parametrize("value", ["no", "", "perhaps"])
def test_nothing_is_started_unless_it_is_asked_for(
    store: Exported, started: list[bytes], value: str
) -> None:
    change(store.open(git__export_on_change=value))
    change(store.open())
    assert not started
    assert not (store.amalgam / "exporter").exists()


def test_mistakes_stop_no_commit_and_are_named(empty: Exported) -> None:
    option = ("--config", "amalgam.git.export-on-change=perhaps")
    empty.hg("commit", "-qm", "one", "--config", "ui.allowemptycommit=yes", *option)
    done = empty.run("admin::amalgam", *option)
    assert done.code == 1
    assert b"invalid value 'perhaps' for amalgam.git.export-on-change" in done.out
    assert b"(expected yes or no)" in done.out


def test_start_that_fails_stops_no_commit(
    store: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = store.open(git__export_on_change="yes")
    logged: list[bytes] = []

    def log(_ui: Any, _event: bytes, text: bytes, *args: bytes) -> None:
        logged.append(text % args)

    monkeypatch.setattr(background, "_SHELL", b"/nowhere/sh")
    monkeypatch.setattr(type(repo.ui), "log", log)
    change(repo)
    assert [line for line in logged if line.startswith(b"no export after a change: ")]


@pytest.mark.needs("root")
def test_nothing_is_started_for_a_stranger(
    store: Exported, started: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in [store.root, *store.root.rglob("*")]:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    repo = store.open(git__export_on_change="yes")
    logged: list[bytes] = []

    def log(_ui: Any, _event: bytes, text: bytes, *args: bytes) -> None:
        logged.append(text % args)

    monkeypatch.setattr(type(repo.ui), "log", log)
    change(repo)
    assert not started
    assert [line for line in logged if b"who is not trusted" in line]
    assert not (store.amalgam / "exporter").exists()


def test_temporary_repository_of_an_upgrade_is_not_exported(
    store: Exported, started: list[bytes]
) -> None:
    option = ("--config", "amalgam.git.export-on-change=yes")
    command = ["debugupgraderepo", "--run", "--no-backup", "-o", "re-delta-all"]
    store.hg(*command, *option)
    until(lambda: not request.is_exporter_running(exporter_directory(store)))
    assert store.run("git::verify").code == 0


def test_lock_of_another_machine_is_no_lock(store: Exported) -> None:
    # what a machine leaves that restarts is a file; the kernel knows of no lock
    directory = request.exporter_directory(store.open())
    (store.amalgam / "exporter").mkdir()
    (store.amalgam / "exporter" / "lock").touch()
    assert not request.is_exporter_running(directory)
    assert lockmod._getlockprefix()
