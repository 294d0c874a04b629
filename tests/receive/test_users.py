"""Who pushes: what permissions, hooks, acl and the log are told of the user."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib import loggedin
from testlib.environment import hg
from testlib.pushing import pushable

pytestmark = pytest.mark.slow

EXTENSION = f"--config=extensions.loggedin={loggedin.__file__}"
URL = "remote:http:127.0.0.1:ann%40example.org"


def test_user_is_told_to_hooks_and_logged(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    names = ("pretxnchangegroup", "pretxnclose", "changegroup", "txnclose")
    hooks = "".join(f"{it} = echo {it} $HG_URL >> {seen}\n" for it in names)
    allowed = f"--config=web.allow-push={loggedin.USER}"
    with pushable(tmp_path, EXTENSION, allowed, hgrc=f"[hooks]\n{hooks}") as server:
        clone = server.clone()
        hg(tmp_path, "clone", "-q", server.web.url, "by-hg")
        clone.commit("new")
        seen.write_text("")
        clone.pushed("default")
        by_git = seen.read_text()
        by_hg = tmp_path / "by-hg"
        hg(by_hg, "pull", "-qu")
        (by_hg / "other").write_text("other\n")
        hg(by_hg, "commit", "-qAm", "by hg")
        seen.write_text("")
        hg(by_hg, "push", "-q")
        assert by_git == seen.read_text()
        assert f"pretxnchangegroup {URL}\n" in by_git
        lines = [it for it in server.web.logged() if it.startswith("git push of ")]
        assert len(lines) == 1
        start = f"git push of {server.root} by {loggedin.USER} at 127.0.0.1: "
        assert lines[0].startswith(start)
        server.hg("git::export")
        server.check()


def test_user_who_may_not_push_is_refused(tmp_path: Path) -> None:
    for option in ("web.allow-push=ann", "web.deny_push=ann@example.org"):
        place = tmp_path / option[4:9]
        place.mkdir()
        with pushable(place, EXTENSION, f"--config={option}") as server:
            status = server.web.ask("info/refs?service=git-receive-pack")[0]
            assert status == 401


def test_acl_and_tags_have_the_user(tmp_path: Path) -> None:
    hgrc = (
        "[extensions]\nacl =\n[hooks]\n"
        "pretxnchangegroup.acl = python:hgext.acl.hook\n"
        "[acl]\nsources = serve\n[acl.deny]\nsecret/** = ann@example.org\n"
        "[amalgam]\ngit.push-tags = yes\n"
    )
    with pushable(tmp_path, EXTENSION, hgrc=hgrc) as server:
        clone = server.clone()
        clone.commit("bad", {"secret/file": "text"})
        said = clone.refused("default")
        assert 'acl: user "ann@example.org" denied on "secret/file"' in said
        clone.git("reset", "-q", "--hard", "HEAD~1")
        clone.pushed("HEAD:refs/tags/v1")
        shown = server.hg("log", "-r", "tip", "-T", "{author}")
        assert shown == "<ann@example.org>"
        server.check()


def test_nobody_pushes_in_the_name_of_the_operator(tmp_path: Path) -> None:
    """Without a login there is no user, whoever the server runs as."""
    hgrc = "[ui]\nusername = The Operator <op@example.org>\n"
    hgrc += "[amalgam]\ngit.push-tags = yes\n"
    with pushable(tmp_path, hgrc=hgrc) as server:
        server.clone().pushed("HEAD:refs/tags/v1")
        assert server.hg("log", "-r", "tip", "-T", "{author}") == "anonymous"
        server.check()
