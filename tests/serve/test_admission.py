"""What git may be told by hgweb, and when: permissions, views, freshness, limits."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mercurial import wireprotoserver
from mercurial.hgweb import request
from testlib.environment import add_config, captured, executable, git
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.hiding import EVENTS, WORD, fetch_of, has_pack, planted, with_draft
from testlib.slowclients import connected, endless_bytes
from testlib.slowgit import SlowGit
from testlib.webserver import (
    AT_ONCE,
    GIT_TYPE,
    LS_REFS,
    ON,
    SERVICE,
    WebServer,
    answer_of,
    serving,
    until,
)

from hgext3rd.amalgam.serve import limits, permissions

pytestmark = pytest.mark.slow

GROWTH_KIB = 8_000
HEAVY = endless_bytes() + GROWTH_KIB * 1024


@pytest.fixture
def draft(tmp_path: Path, server: HgServer) -> Exported:
    return with_draft(tmp_path / "repo", server)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
@pytest.mark.parametrize("freshness", [1000, 0])
def test_what_is_hidden_is_not_sent_from_then_on(
    draft: Exported, event: Callable[[Exported], None], freshness: int
) -> None:
    draft.hg("git::export")
    secrets = planted(draft)
    limits = [f"--config=amalgam.serve.freshness={freshness}"]
    limits.append(AT_ONCE)
    with serving(draft.root, *ON, *limits) as web:
        assert all(has_pack(web, oid) for oid in secrets[:1])
        assert has_pack(web, secrets[2])  # version 2 sends any object
        event(draft)
        assert not any(has_pack(web, oid) for oid in secrets), web.said()
        until(lambda: web.ask(SERVICE)[0] == 200)
        assert not any(has_pack(web, oid) for oid in secrets), web.said()
        assert WORD.encode() not in web.ask(SERVICE)[2]


def test_git_that_began_before_an_export_removed_packs_does_not_answer(
    draft: Exported, tmp_path: Path
) -> None:
    draft.hg("git::export")
    secret = planted(draft)[0]
    # it has answered before the export, and nobody has read that yet
    slow = SlowGit(tmp_path, "ready")
    with serving(draft.root, *ON, AT_ONCE, slow.option) as web:
        found: list[bool] = []
        asking = threading.Thread(target=lambda: found.append(has_pack(web, secret)))
        asking.start()
        slow.wait("ready")
        EVENTS["amended"](draft)
        draft.hg("git::export")
        slow.go_on("ready")
        asking.join()
        assert found == [False], web.said()
    assert slow.has_packed(), "git had nothing to send"


def test_what_came_and_went_while_git_started_is_not_sent(
    draft: Exported, tmp_path: Path
) -> None:
    draft.hg("git::export")
    secret = planted(draft)[0]
    hide = ("phase", "--force", "--secret", ".")
    draft.hg(*hide)
    draft.hg("git::export")
    slow = SlowGit(tmp_path, "started", "ready")
    with serving(draft.root, *ON, AT_ONCE, slow.option) as web:
        found: list[bool] = []
        asking = threading.Thread(target=lambda: found.append(has_pack(web, secret)))
        asking.start()
        slow.wait("started")
        draft.hg("phase", "--draft", ".")
        draft.hg("git::export")
        slow.go_on("started")
        slow.wait("ready")
        draft.hg(*hide)
        draft.hg("git::export")
        slow.go_on("ready")
        asking.join()
        assert found == [False], web.said()
    assert slow.has_packed(), "git had nothing to send"


def test_object_that_was_brought_back_is_not_sent(draft: Exported) -> None:
    draft.hg("git::export")
    secrets = planted(draft)
    saved = draft.root.parent / "saved"
    shutil.copytree(draft.packs_dir, saved)
    EVENTS["amended"](draft)
    draft.hg("git::export")
    with serving(draft.root, *ON, AT_ONCE) as web:
        assert web.ask(SERVICE)[0] == 200
        for pack in saved.iterdir():
            # nobody may write to one that is there
            (draft.packs_dir / pack.name).unlink(missing_ok=True)
            shutil.copy(pack, draft.packs_dir)
        assert not any(has_pack(web, oid) for oid in secrets), web.said()


def test_ref_of_others_is_not_told(store: Exported) -> None:
    with serving(store.root, *ON) as web:
        assert web.ask(SERVICE)[0] == 200
        tip = store.ids("tip")[1]
        (store.git_dir / "refs/heads" / WORD).write_text(f"{tip}\n")
        assert WORD.encode() not in web.ask(SERVICE)[2]
        with (store.git_dir / "packed-refs").open("a") as file:
            file.write(f"{tip} refs/heads/zz{WORD}\n")
        assert WORD.encode() not in web.ask(SERVICE)[2]


def test_settings_of_the_store_decide_nothing(store: Exported) -> None:
    with (store.git_dir / "config").open("a") as file:
        file.write(
            "[uploadpack]\nallowFilter = false\nhideRefs = !refs/cinnabar\n"
            "hideRefs = refs/heads\nallowSidebandAll = true\n"
            "[transfer]\nadvertiseObjectInfo = true\nadvertiseSID = true\n"
            '[uploadpackfilter "sparse:oid"]\nallow = true\n'
        )
    with serving(store.root, *ON) as web:
        listed = web.ask(SERVICE)[2]
        assert b"refs/heads/stable" in listed
        assert b"refs/cinnabar" not in listed
        said = web.ask(SERVICE, Git_Protocol="version=2")[2]
        assert b"filter" in said
        assert b"sideband-all" not in said
        assert b"object-info" not in said


def test_setting_without_a_neutral_value_is_refused(store: Exported) -> None:
    with (store.git_dir / "config").open("a") as file:
        file.write("[uploadpack]\nblobPackfileUri = 1 2 http://x/\n")
    with serving(store.root, *ON) as web:
        assert web.ask(SERVICE)[0] == 503
        assert "uploadpack.blobpackfileuri" in web.said()


PUSHES = ("amalgam.git.push=yes", "web.allow-push=*", "web.push_ssl=no")


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        (["web.deny_read=*"], 401),
        (["web.allow_read=alice"], 401),
        (["web.allow-pull=no"], 401),
        (["hooks.preoutgoing.no=false", *PUSHES], 200),
        (["hooks.prelistkeys.no=false", *PUSHES], 200),
        (["server.view=immutable", "amalgam.git.export=served"], 200),
        (["narrowacl.default.includes=dir"], 403),
        (["amalgam.git.exprot=public"], 503),
        (["amalgam.serve.timeout=never"], 503),
        (["server.view=imutable"], 503),
    ],
)
def test_rules_of_mercurial_hold(
    exported_template: Exported, rules: list[str], status: int
) -> None:
    options = [f"--config={rule}" for rule in rules]
    with serving(exported_template.root, *ON, *options) as web:
        found = web.ask(SERVICE, Git_Protocol="version=2")
        assert found[0] == status
        if status == 503:
            assert b"operator" in found[2]
            assert "warning: git: " in web.said()
        if "hooks" in rules[0]:
            name = rules[0].split(".")[1]
            oid = exported_template.ids("tip")[1]
            pack = "git-upload-pack"
            answers = {
                "preoutgoing": [
                    web.ask(pack, "POST", fetch_of(oid, 2), Git_Protocol="version=2")
                ],
                "prelistkeys": [
                    web.ask(pack, "POST", LS_REFS, Git_Protocol="version=2"),
                    web.ask(SERVICE),
                    web.ask("info/refs?service=git-receive-pack"),
                ],
            }
            for hook, told in answers.items():
                for code, _headers, body in told:
                    assert code == (403 if hook == name else 200)
                    assert (f"{name}.no hook".encode() in body) == (hook == name)


def test_outgoing_hook_is_told_the_changeset(
    exported_template: Exported, tmp_path: Path
) -> None:
    node, oid = exported_template.ids("tip")
    hook = f'--config=hooks.outgoing=echo "$HG_SOURCE $HG_NODE" >> {tmp_path}/told'
    with serving(exported_template.root, *ON, hook) as web:
        assert has_pack(web, oid)
    assert (tmp_path / "told").read_text() == f"serve {node}\n" * 2


PERMISSIONS = """
from mercurial.hgweb import common
import base64

def check(hgweb, req, operation):
    found = req.headers.get(b"Authorization", b"").partition(b" ")[2]
    user, _colon, password = base64.b64decode(found).partition(b":")
    if user != b"alice" or password != b"right":
        asked = [(b"WWW-Authenticate", b'Basic realm="x"')]
        raise common.ErrorResponse(401, b"who are you\\nX: y", asked)
    if operation == b"pull" and hgweb.repo.ui.configbool(b"web", b"closed"):
        raise common.ErrorResponse(common.HTTP_FORBIDDEN, b"not today")

def extsetup(ui):
    common.permhooks.insert(0, check)
"""


def test_password_is_asked_for_by_an_extension(
    exported_template: Exported, tmp_path: Path
) -> None:
    (tmp_path / "permissions.py").write_text(PERMISSIONS)
    option = f"--config=extensions.permissions={tmp_path / 'permissions.py'}"
    with serving(exported_template.root, *ON, option) as web:
        status, headers, _body = web.ask(SERVICE)
        assert status == 401
        assert headers["WWW-Authenticate"] == 'Basic realm="x"'
        assert "X" not in headers
        url = web.url.replace("//", "//alice:right@")
        git(tmp_path, "clone", "-q", url, "clone")
        done = captured(["git", "ls-remote", url.replace("right", "wrong")])
        assert b"Authentication failed" in done.stderr
    with serving(exported_template.root, *ON, option, "--config=web.closed=yes") as web:
        word = base64.b64encode(b"alice:right").decode()
        assert web.ask(SERVICE, Authorization=f"Basic {word}")[0] == 403


def enable(store: Exported) -> None:
    """Enable amalgam for processes in the background, too."""
    add_config(store.root, "[extensions]\namalgam =\n")


def listed(web: WebServer, **headers: str) -> tuple[int, bytes]:
    status, _headers, body = web.ask(SERVICE, "GET", b"", **headers)
    return status, body


def test_request_exports_what_is_missing(store: Exported) -> None:
    with serving(store.root, *ON) as web:
        for number in range(3):
            store.commit_nothing(f"new {number}")
            found = listed(web)[1]
            assert store.ids("tip")[1].encode() in found
        store.hg("bookmark", "-r", "0", "new-name")
        assert b"refs/heads/new-name" in listed(web)[1]


def test_never_exported_and_small_is_exported(empty: Exported, tmp_path: Path) -> None:
    with serving(empty.root, *ON) as web:
        git(tmp_path, "clone", "-q", web.url, "nothing")
        empty.commit_nothing("first")
        git(tmp_path, "clone", "-q", web.url, "clone")
        assert git(tmp_path / "clone", "log", "--format=%s") == b"first\n"


def test_more_than_freshness_is_exported_in_the_background(store: Exported) -> None:
    enable(store)
    with serving(store.root, *ON, "--config=amalgam.serve.freshness=2") as web:
        before = listed(web)[1]
        for number in range(3):
            store.commit_nothing(f"new {number}")
        assert listed(web)[1] == before
        until(lambda: listed(web)[1] != before)
        new = b"refs/heads/default"
        assert store.git("rev-parse", "default").encode() + b" " + new in listed(web)[1]


def test_client_may_wait_for_all(store: Exported) -> None:
    enable(store)
    with serving(store.root, *ON, "--config=amalgam.serve.freshness=0") as web:
        for number in range(3):
            store.commit_nothing(f"new {number}")
        status, found = listed(web, X_Amalgam_Freshness="now")
        assert status == 200
        assert store.git("rev-parse", "default").encode() in found
        assert store.ids("tip")[1].encode() in found


def test_first_export_that_is_large_is_waited_for(empty: Exported) -> None:
    enable(empty)
    empty.hg("debugbuilddag", "+20")
    empty.hg("phase", "--public", "all()")
    options = (
        "--config=amalgam.serve.freshness=5",
        AT_ONCE,
    )
    with serving(empty.root, *ON, *options) as web:
        assert listed(web)[0] == 200, web.said()


def slow_git(directory: Path) -> str:
    """Return a git that waits before it packs while a file is there."""
    program = directory / "slow-git"
    (directory / "held").write_text("")
    executable(
        program,
        f"#!/bin/sh\ncase $1 in upload-pack)\n"
        f"  if [ -e {directory}/held ] && ! [ -t 0 ]; then\n"
        f"    case $* in *info-refs*) ;; *) head -c 20 /dev/stdin >{directory}/head;"
        f" if grep -q fetch {directory}/head; then touch {directory}/started;"
        f" while [ -e {directory}/held ]; do sleep 0.05; done; exit 1; fi;;\n"
        "    esac\n  fi\nesac\n"
        'exec git "$@"\n',
    )
    return f"--config=amalgam.git.program={program}"


def begin(web: WebServer, oid: str) -> socket.socket:
    """Begin a fetch, and return its connection."""
    body = fetch_of(oid, 2)
    head = (
        "POST /git-upload-pack HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Content-Type: {GIT_TYPE}\r\nGit-Protocol: version=2\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = connected(web.port)
    connection.sendall(head.encode() + body)
    return connection


def test_slot_is_free_though_a_copy_has_its_file(tmp_path: Path) -> None:
    """A copy that is made of hard links has the same files."""
    run, pool = os.fsencode(tmp_path / "run"), limits.Pool(b"fetch", 1)
    taken = limits.take_slot(run, pool, 0)
    assert taken
    taken.release()
    (tmp_path / "copy").hardlink_to(tmp_path / "run" / "fetch-0")
    taken = limits.take_slot(run, pool, 0)
    assert taken
    assert limits.take_slot(run, pool, 0) is None
    taken.release()


@pytest.mark.parametrize("shared", [False, True], ids=["process", "host"])
def test_no_client_takes_all_slots(tmp_path: Path, shared: bool) -> None:
    run = os.fsencode(tmp_path / "run") if shared else None
    pool = limits.Pool(f"test{tmp_path.name}".encode(), 4)

    def take(client: bytes, seconds: float = 0) -> limits.Slot | None:
        return limits.take_slot(run, pool, seconds, client)

    with ThreadPoolExecutor(16) as threads:
        found = [*threads.map(take, [b"hog"] * 16, [0.5] * 16)]
    held = [slot for slot in found if slot]
    assert len(held) == 3
    other = take(b"other")
    assert other
    assert not take(b"third")
    other.release()
    assert not take(b"hog")
    for slot in held:
        slot.release()


def test_waiting_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_WAITING_PER_SLOT", 1)
    pool = limits.Pool(b"test-waiting", 1)
    taken = limits.take_slot(None, pool, 0)
    assert taken
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(limits.take_slot, None, pool, 600)
        until(lambda: limits._holders.get(pool.places))
        # another one is refused at once
        assert limits.take_slot(None, pool, 600) is None
        taken.release()
        slot = waiting.result()
        assert slot
        slot.release()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "x"}, b" 192.0.2.1"),
        (
            {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "x, 192.0.2.1"},
            b" 192.0.2.1",
        ),
        ({"REMOTE_ADDR": "::ffff:127.0.0.1"}, b" ::ffff:127.0.0.1"),
        ({"REMOTE_ADDR": "", "HTTP_X_FORWARDED_FOR": "192.0.2.1"}, b" 192.0.2.1"),
        ({"REMOTE_ADDR": "2001:db8::1"}, b" 20010db800000000/64"),
        ({"REMOTE_USER": "bob", "REMOTE_ADDR": "192.0.2.1"}, b"bob 192.0.2.1"),
        ({}, b""),
    ],
)
def test_client_is_a_user_at_an_address(
    environment: dict[str, str], expected: bytes
) -> None:
    names = {"REQUEST_METHOD": "GET", "SERVER_NAME": "x", "SERVER_PORT": "80"}
    fixed = {**names, "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO()}
    req = request.parserequestfromenv({**fixed, **environment})
    proto = wireprotoserver.httpv1protocolhandler(req, None, None)
    assert permissions.client_of(proto) == expected


@pytest.mark.parametrize("shared", [False, True], ids=["process", "host"])
def test_fetches_wait_for_slots_and_queries_do_not(
    exported_template: Exported, tmp_path: Path, shared: bool
) -> None:
    oid = exported_template.ids("tip")[1]
    options = [slow_git(tmp_path)]
    options += ["--config=amalgam.serve.max-fetches=1"]
    options += [AT_ONCE]
    if shared:
        options += [f"--config=amalgam.serve.run-directory={tmp_path / 'run'}"]
    with (
        serving(exported_template.root, *ON, *options) as web,
        serving(exported_template.root, *ON, *options) as other,
    ):
        with begin(web, oid):
            until((tmp_path / "started").exists)
            asked = other if shared else web
            body = fetch_of(oid, 2)
            status, headers, said = asked.ask(
                "git-upload-pack", "POST", body, Git_Protocol="version=2"
            )
            assert (status, headers["Retry-After"]) == (503, "10")
            assert b"busy" in said
            for _number in range(3):
                assert asked.ask(SERVICE)[0] == 200
            # a large body takes its slot before it fills the disk
            more = b"".join(b"001aref-prefix refs/%05d\n" % n for n in range(5000))
            large = gzip.compress(LS_REFS[:-4] + more + b"0000")
            status, _headers, said = asked.ask(
                "git-upload-pack",
                "POST",
                large,
                Git_Protocol="version=2",
                Content_Encoding="gzip",
            )
            assert (status, b"busy" in said) == (503, True)
        (tmp_path / "held").unlink()
        until(lambda: not web.children())
        until(lambda: has_pack(web, oid))
        assert has_pack(other, oid)


@pytest.mark.parametrize("version", ["0", "2"])
def test_git_prints_why_its_request_is_refused(
    exported_template: Exported, tmp_path: Path, version: str
) -> None:
    oid = exported_template.ids("tip")[1]
    options = [slow_git(tmp_path), "--config=amalgam.serve.max-fetches=1", AT_ONCE]
    with serving(exported_template.root, *ON, *options) as web:
        with begin(web, oid):
            until((tmp_path / "started").exists)
            config = ("-c", f"protocol.version={version}")
            done = captured(
                ["git", *config, "clone", "-q", web.url, str(tmp_path / "clone")]
            )
            assert done.returncode
            sentence = b"fatal: remote error: this server is busy; try again later"
            assert sentence in done.stderr
            for agent, status in {
                "git/2.39.5": 200,
                "git/dulwich/1.2.21": 503,
                "Go-http-client/1.1": 503,
                "x git/2.39.5": 503,
            }.items():
                body = fetch_of(oid, 2)
                found = web.ask(
                    "git-upload-pack",
                    "POST",
                    body,
                    Git_Protocol="version=2",
                    User_Agent=agent,
                )
                assert (found[0], found[1]["Retry-After"]) == (status, "10")
        (tmp_path / "held").unlink()
        assert "refused with 503" in web.said()
        until(lambda: not web.children())


def test_slot_is_taken_until_git_has_ended(
    exported_template: Exported, tmp_path: Path
) -> None:
    oid = exported_template.ids("tip")[1]
    options = [slow_git(tmp_path), "--config=amalgam.serve.max-fetches=1"]
    options += [AT_ONCE]
    options += [f"--config=amalgam.serve.run-directory={tmp_path / 'run'}"]
    with serving(exported_template.root, *ON, *options) as other:
        with serving(exported_template.root, *ON, *options) as web:
            connection = begin(web, oid)
            until((tmp_path / "started").exists)
            os.kill(web.process.pid, signal.SIGKILL)
        connection.close()
        assert not has_pack(other, oid)
        (tmp_path / "held").unlink()
        until(lambda: has_pack(other, oid))


def test_directory_that_cannot_be_used_is_named(
    exported_template: Exported, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    option = f"--config=amalgam.serve.run-directory={tmp_path / 'file'}"
    with serving(exported_template.root, *ON, option) as web:
        assert web.ask(SERVICE)[0] == 503
        assert "warning: git: cannot use amalgam.serve.run-directory" in web.said()


def test_git_without_progress_is_ended(
    exported_template: Exported, tmp_path: Path
) -> None:
    options = [slow_git(tmp_path), "--config=amalgam.serve.timeout=1"]
    with serving(exported_template.root, *ON, *options) as web:
        connection = begin(web, exported_template.ids("tip")[1])
        assert b"PACK" not in connection.recv(1 << 16)
        connection.close()
        until(lambda: not web.children())


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Exported:
    """A repository of which a clone does not fit into any buffer."""
    store = Exported.init(tmp_path_factory.mktemp("heavy") / "repo", server)
    store.commit("file", text=os.urandom(HEAVY), message="heavy")
    store.hg("git::export")
    return store


def test_client_that_leaves_ends_git(heavy: Exported) -> None:
    oid = heavy.ids("tip")[1]
    with serving(heavy.root, *ON) as web:
        assert web.ask(SERVICE)[0] == 200
        before = web.descriptors()
        for _number in range(3):
            connection = begin(web, oid)
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")
            assert any("upload-pack" in it for it in web.children())
            connection.close()
            until(lambda: not web.children())
        until(lambda: web.descriptors() <= before)
        until(lambda: sum(": cut, " in line for line in web.logged()) == 3)


def test_client_that_does_not_read_is_dropped(heavy: Exported) -> None:
    # git itself may take longer than the first before it sends anything
    assert any(is_dropped(heavy, seconds) for seconds in (1, 10, 100))


def is_dropped(heavy: Exported, seconds: int) -> bool:
    """Tell whether an answer began; if so, see that it ended."""
    option = f"--config=amalgam.serve.timeout={seconds}"
    oid = heavy.ids("tip")[1]
    with serving(heavy.root, *ON, option) as web, begin(web, oid) as connection:
        if not connection.recv(1000).startswith(b"HTTP/1.1 200 OK"):
            return False
        until(lambda: not web.children())
        until(lambda: any(": timed out, " in line for line in web.logged()))
    return True


def test_client_that_reads_too_slowly_is_dropped(heavy: Exported) -> None:
    options = (
        "--config=amalgam.serve.timeout=3",
        "--config=amalgam.serve.min-speed=1 GB",
    )
    oid = heavy.ids("tip")[1]
    with serving(heavy.root, *ON, *options) as web, begin(web, oid) as connection:
        found = 0
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(1 << 14):
                found += len(piece)
                time.sleep(0.01)
        assert found < HEAVY
        until(lambda: any(": timed out, " in line for line in web.logged()))
        until(lambda: not web.children())


def test_speed_is_measured_while_a_client_is_waited_for() -> None:
    watching = limits.Watchdog(10, lambda: None, 1000)
    assert watching.moved(1 << 30, 1)  # earns no more than 10 seconds
    assert watching.moved(0, 9)
    assert watching.moved(4000, 4)
    assert not watching.moved(100, 1)
    watching.stop()


def test_memory_does_not_grow_with_the_answer(heavy: Exported) -> None:
    oid = heavy.ids("tip")[1]
    with serving(heavy.root, *ON) as web:
        assert web.ask(SERVICE)[0] == 200
        before = peak_kib(web)
        _status, _headers, body = answer_of(read_all(begin(web, oid)))
        assert len(body) > HEAVY
        assert peak_kib(web) - before < GROWTH_KIB


def read_all(connection: socket.socket) -> bytes:
    found = bytearray()
    while piece := connection.recv(1 << 20):
        found += piece
    connection.close()
    return bytes(found)


def peak_kib(web: WebServer) -> int:
    said = Path(f"/proc/{web.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+)", said)
    assert found
    return int(found[1])


def test_limits_hold_for_all_processes_of_git(heavy: Exported, tmp_path: Path) -> None:
    program = executable(
        tmp_path / "git", f'#!/bin/sh\nulimit -v > {tmp_path}/limit\nexec git "$@"\n'
    )
    option = f"--config=amalgam.git.program={program}"
    with serving(heavy.root, *ON, option) as web:
        assert has_pack(web, heavy.ids("tip")[1])
    if sys.platform == "linux":
        assert 4 << 20 < int((tmp_path / "limit").read_text()) < 5 << 20


def test_clones_while_the_repository_changes_are_whole(
    draft: Exported, tmp_path: Path
) -> None:
    failures: list[str] = []
    # what was amended away before it could be fetched is waited for
    option = "--config=amalgam.serve.queue-timeout=10"
    with serving(draft.root, *ON, option) as web:
        done = threading.Event()

        def clone_again_and_again() -> None:
            number = 0
            while not done.is_set():
                number += 1
                target = tmp_path / f"{threading.get_ident()}-{number}"
                found = captured(
                    ["git", "clone", "-q", "--mirror", web.url, str(target)]
                )
                said = found.stderr.decode()
                if found.returncode and "not our ref" not in said:
                    failures.append(said + web.said())
                elif not found.returncode:
                    git(target, "fsck", "--strict")
                shutil.rmtree(target, ignore_errors=True)

        threads = [threading.Thread(target=clone_again_and_again) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(6):
            draft.commit_nothing(f"new {number}")
            draft.hg("amend", "-q", "-m", f"amended {number}")
            draft.hg("phase", "--force", "--secret", ".")
            draft.hg("phase", "--force", "--draft", ".")
            draft.hg("strip", "-q", "--no-backup", ".")
        done.set()
        for thread in threads:
            thread.join()
        until(lambda: not web.children())
    assert not failures, failures[0]
