"""What the extension acl and hooks of Mercurial say to pushes of git."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG
from testlib.pushing import PushServer, pushable

pytestmark = pytest.mark.slow

HGRC = """\
[extensions]
acl =
[hooks]
pretxnchangegroup.acl = python:hgext.acl.hook
prepushkey.acl = python:hgext.acl.hook
outgoing.told = echo outgoing >> %s
[acl]
sources = serve
[acl.deny]
secret/** = *
[acl.deny.branches]
closed = *
[acl.deny.bookmarks]
taken = *
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    hgrc = HGRC % (tmp_path / "outgoing")
    with pushable(
        tmp_path, "--config=amalgam.git.push-branches=yes", hgrc=hgrc
    ) as served:
        yield served
        served.check()


def test_acl_decides_on_paths_branches_and_bookmarks(server: PushServer) -> None:
    clone = server.clone()
    before = server.log()
    told = server.root.parent / "outgoing"
    pulled = told.read_text() if told.exists() else ""
    clone.commit("bad", {"secret/file": "text"})
    said = clone.refused("HEAD:refs/heads/work")
    assert 'acl: user "" denied on "secret/file" (changeset ' in said
    clone.git("reset", "-q", "--hard", "HEAD~1")
    clone.commit("good")
    said = clone.refused("-o", "branch=closed", "HEAD:refs/heads/closed")
    assert 'acl: user "" denied on branch "closed" (changeset ' in said
    said = clone.refused("HEAD:refs/heads/taken")
    assert 'acl: user "" denied on bookmark "taken" (changeset ' in said
    assert server.log() == before
    clone.pushed("HEAD:refs/heads/work")
    # a push is no pull
    assert (told.read_text() if told.exists() else "") == pulled
    stock = [str(HG), "clone", "-q", server.web.url, "stock"]
    subprocess.run(stock, cwd=server.root.parent, env=ENVIRONMENT, check=True)
    verify = [str(HG), "-R", "stock", "verify", "-q"]
    subprocess.run(verify, cwd=server.root.parent, env=ENVIRONMENT, check=True)
    shown = [str(HG), "-R", "stock", "log", "-r", "tip", "-T", "{desc}|{bookmarks}"]
    done = subprocess.run(
        shown, cwd=server.root.parent, env=ENVIRONMENT, check=True, capture_output=True
    )
    assert done.stdout == b"good|work"
    assert told.read_text() != pulled
