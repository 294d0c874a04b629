"""Caches of hgweb: capabilities of git, and wants read in runs."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzz.requests import _wants as each_want
from mercurial import extensions, ui as uimod
from mercurial.hgweb import hgweb
from testlib.bundled import Bundled
from testlib.environment import executable
from testlib.exported import Exported
from testlib.webserver import ON, SERVICE, serving

from hgext3rd.amalgam.clonebundles import validity
from hgext3rd.amalgam.serve import pktlines, uploadpack
from hgext3rd.amalgam.serve.errors import HttpError
from hgext3rd.amalgam.serve.httprequest import GitRequest

WANT = b"0032want " + b"1" * 40 + b"\n"
OTHER = b"003ewant " + b"2" * 40 + b" no-progress"
HAVE = b"0032have " + b"3" * 40 + b"\n"


def noting_git(program: Path, noted: Path) -> None:
    """Write a program that is git, and notes when it is asked for capabilities."""
    executable(
        program,
        f'#!/bin/sh\ncase "$*" in *info-refs*) echo x >> {noted};; esac\n'
        'exec git "$@"\n',
    )


@pytest.mark.slow
def test_git_is_asked_for_capabilities_once(store: Exported, tmp_path: Path) -> None:
    program, noted = tmp_path / "noting-git", tmp_path / "noted"
    noting_git(program, noted)
    option = f"--config=amalgam.git.program={program}"
    with serving(store.root, *ON, option) as web:

        def told() -> bytes:
            status, _headers, body = web.ask(SERVICE, Git_Protocol="version=2")
            assert status == 200
            return body

        def asked() -> int:
            return len(noted.read_text().splitlines())

        first = told()
        assert first.startswith(b"000eversion 2\n")
        assert first.endswith(b"0000")
        assert [told() for _time in range(3)] == [first] * 3
        assert asked() == 1
        store.git("config", "core.compression", "7")
        assert told() == first
        assert asked() == 2
        moved = tmp_path / "moved"
        noting_git(moved, noted)
        moved.rename(program)  # another file, as after an update of git
        assert told() == first
        assert asked() == 3
        web.ask(SERVICE)  # version 0 lists refs
        assert asked() == 4


def environ_of(path: str, query: str) -> dict[str, Any]:
    """Return the WSGI environment of a request."""
    return {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "x",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": io.StringIO(),
        "wsgi.url_scheme": "http",
    }


@pytest.mark.slow
def test_request_ends_before_another_gets_its_repository(
    exported_template: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    ui = uimod.ui.load()
    ui.setconfig(b"extensions", b"amalgam", b"")
    ui.setconfig(b"amalgam", b"git.serve", b"yes")
    extensions.loadall(ui)
    app = hgweb(os.fsencode(exported_template.root), baseui=ui)
    free: list[int] = []
    end = GitRequest.end

    def noting(request: GitRequest, how: bytes, *, kill: bool) -> None:
        free.append(len(app._repos))
        end(request, how, kill=kill)

    monkeypatch.setattr(GitRequest, "end", noting)
    path, _mark, query = SERVICE.partition("?")
    answer = app(environ_of(f"/{path}", query), lambda *_head: None)
    assert b"refs/heads/default" in next(answer)
    answer.close()  # by a server whose client has left
    assert free[0] == 0
    assert len(app._repos) == 1


def asked_by_hg(app: Any, command: str) -> bytes:
    """Return the answer of hgweb to a command of Mercurial's protocol."""
    environ = environ_of("/", f"cmd={command}")
    said: list[bytes] = []

    def start(status: str, _headers: object) -> Callable[[bytes], object]:
        assert status.startswith("200"), status
        return said.append

    said += app(environ, start)
    return b"".join(said)


def test_handshakes_of_hg_look_up_no_heads_of_bundles(
    published: Bundled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first one does, once for each set, however many bundles are listed."""
    read_heads, reads, verdicts = validity.read_heads, [], []
    is_public = validity.is_public

    def read(repo: Any, name: str) -> list[bytes]:
        reads.append(name)
        return read_heads(repo, name)

    def noting(repo: Any, name: str) -> bool:
        verdicts.append(name)
        return is_public(repo, name)

    monkeypatch.setattr(validity, "read_heads", read)
    monkeypatch.setattr(validity, "is_public", noting)
    app = hgweb(os.fsencode(published.root), baseui=uimod.ui.load())
    for _client in range(3):
        assert b"clonebundles" in asked_by_hg(app, "capabilities")
        assert b"BUNDLESPEC=" in asked_by_hg(app, "clonebundles")
    assert len(verdicts) >= 3
    assert sorted(reads) == sorted({*verdicts})


@pytest.mark.parametrize("told", [b"", b"000eversion 2\n", b"000eversion 2\n00", b"x"])
def test_capabilities_that_are_cut_are_not_told(told: bytes) -> None:
    with pytest.raises(HttpError):
        uploadpack.shown_capabilities(told)


@pytest.mark.parametrize(
    "body",
    [
        WANT * 250 + b"0000" + WANT,
        WANT * 3 + OTHER + WANT * 101 + HAVE + WANT + b"0000",
        WANT * 100 + b"0001" + WANT + HAVE * 3,
        WANT * 2 + WANT[:-1] + b"\0" + WANT,
        WANT * 2 + WANT.replace(b"1", b"g") + WANT,
        WANT * 5 + WANT[:20],
        WANT * 5 + b"zz",
        b"",
    ],
)
def test_wants_are_those_of_all_lines(body: bytes) -> None:
    body = b"0012command=fetch\n0001" + body
    assert [*pktlines.wants(io.BytesIO(body))] == each_want(body)
