"""Clients that send nothing, and hosts without room for a request."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from testlib.environment import HG, WITHOUT_BYTECODE
from testlib.exported import Exported
from testlib.webserver import GIT_TYPE, ON, SERVICE, WebServer, serving, started, until

from hgext3rd.amalgam.serve import limits

pytestmark = pytest.mark.slow

LS_REFS = b"0014command=ls-refs\n0000"
HEAD = (
    "POST /git-upload-pack HTTP/1.1\r\nHost: x\r\n"
    f"Content-Type: {GIT_TYPE}\r\nGit-Protocol: version=2\r\n"
).encode()


def connected(web: WebServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", web.port), 600)


def ls_refs(web: WebServer) -> tuple[int, dict[str, str], bytes]:
    return web.ask("git-upload-pack", "POST", LS_REFS, Git_Protocol="version=2")


def test_progress_does_not_prolong_a_request_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a second in all, and so long without progress that it does not come to that
    monkeypatch.setattr(limits, "LONGEST", 1 / 600)
    bitten = threading.Event()
    began = time.monotonic()
    watching = limits.Watchdog(600, bitten.set)
    while not bitten.wait(0.01):
        watching.feed()
        assert time.monotonic() - began < 600
    assert time.monotonic() - began >= 1
    assert watching.has_bitten


def test_header_that_does_not_come_holds_nothing(exported_template: Exported) -> None:
    options = ("--config=amalgam.serve.max-fetches=1",)
    with (
        serving(exported_template.root, *ON, *options) as web,
        connected(web) as silent,
        connected(web) as slow,
    ):
        slow.sendall(HEAD)
        for _time in range(3):
            assert ls_refs(web)[0] == 200
        until(lambda: not web.children())
        silent.close()
        until(lambda: len(web.logged()) >= 3)
        # of `slow` nothing is logged until it has gone
        assert len(web.logged()) == 3


@pytest.mark.parametrize("makes_files", [False, True], ids=["unusable", "full"])
def test_no_room_for_temporary_files_is_refused_for_now(
    exported_template: Exported, tmp_path: Path, makes_files: bool
) -> None:
    extension = tmp_path / "nowhere.py"
    nowhere = os.fspath(tmp_path / "missing")
    extension.write_text(f"import tempfile\ntempfile.tempdir = {nowhere!r}\n")
    command = [str(HG), "serve", "-p", "0", "-a", "127.0.0.1", *ON]
    if makes_files:
        # in blocks of 512 bytes; Python takes that for an error of the write
        command = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *command]
    else:
        command += [f"--config=extensions.nowhere={extension}"]
    padding = b"".join(b"001fref-prefix refs/x/%08d\n" % n for n in range(3000))
    body = b"0014command=ls-refs\n0001" + padding + b"0000"
    with started(command, exported_template.root, WITHOUT_BYTECODE) as web:
        for _time in range(2):
            found = web.ask("git-upload-pack", "POST", body, Git_Protocol="version=2")
            assert (found[0], found[1]["Retry-After"]) == (503, "10")
            assert (
                found[2]
                == b"this server has no room for the request; try again later\n"
            )
        assert web.said().count("cannot write temporary files (TMPDIR): ") == 1
        if not makes_files:
            assert web.ask(SERVICE)[0] == 503
        else:
            assert ls_refs(web)[0] == 200
