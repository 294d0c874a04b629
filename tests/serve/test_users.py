"""hgweb as a user who does not own the repository: what it serves to git, and when."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testlib.environment import HG, git
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.hiding import EVENTS, WORD, has_pack, planted, with_draft
from testlib.users import User
from testlib.webserver import AT_ONCE, ON, SERVICE, WebServer, serving_as, until

pytestmark = [pytest.mark.slow, pytest.mark.needs("users")]

OWNER = User(20001, 20001)
WEB = User(20003, 20003)
TRUSTED = (f"--config=trusted.users={OWNER.uid}", AT_ONCE)
READ_ONLY = "warning: git: the git store is not up to date, and this process may not"


@pytest.fixture
def public_place() -> Iterator[Path]:
    """A directory that everybody reaches."""
    directory = Path(tempfile.mkdtemp(prefix="amalgam-web-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def owned(exported_template: Exported, public_place: Path) -> Exported:
    """An exported repository of somebody's, which all may read."""
    return given_away(exported_template, public_place)


def given_away(store: Exported, place: Path) -> Exported:
    copy = store.copied(place)
    for path in [copy.root, *copy.root.rglob("*")]:
        os.chown(path, OWNER.uid, OWNER.gid, follow_symlinks=False)
    return copy


def of_owner(store: Exported, *args: str) -> str:
    """Run hg as the owner, who lets all read what comes of it."""
    options = ("--config", "extensions.amalgam=", "-R", str(store.root))
    command = [sys.executable, str(HG), *options, *args]
    done = OWNER.run(store.root, *command, umask=0o022)
    assert not done.returncode, done.stderr.decode()
    return done.stdout.decode()


def shot(store: Exported) -> dict[Path, tuple[int, int, int]]:
    """Return what changes if a file is written or replaced."""
    found = {path: path.lstat() for path in (store.root / ".hg").rglob("*")}
    return {
        path: (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        for path, stat in found.items()
    }


def listed(web: WebServer, freshness: str = "") -> tuple[int, bytes]:
    status, _headers, body = web.ask(SERVICE, X_Amalgam_Freshness=freshness)
    return status, body


def test_who_trusts_the_owner_serves_and_writes_nothing(
    owned: Exported, tmp_path: Path
) -> None:
    before = shot(owned)
    with serving_as(WEB, owned.root, *ON, *TRUSTED) as web:
        git(tmp_path, "clone", "-q", web.url, "clone")
        git(tmp_path / "clone", "fsck", "--strict")
        status, old = listed(web, "now")
        assert status == 200
        assert shot(owned) == before
        for number in range(3):
            empty = ("--config", "ui.allowemptycommit=yes")
            of_owner(owned, "commit", "-qm", f"new {number}", "-u", "owner", *empty)
        before = shot(owned)
        # it is not the newest state, but one that may be shown
        assert listed(web) == (200, old)
        status, said = listed(web, "now")
        assert status == 503
        assert b"try again" in said
        assert READ_ONLY in web.said()
        assert shot(owned) == before
        of_owner(owned, "git::export")
        before = shot(owned)
        status, new = listed(web, "now")
        assert status == 200
        assert of_owner(owned, "log", "-r", "tip", "-T", "{gitnode}").encode() in new
        assert shot(owned) == before


def test_store_that_was_never_exported_is_not_begun(
    owned: Exported,
) -> None:
    shutil.rmtree(owned.amalgam)
    with serving_as(WEB, owned.root, *ON, *TRUSTED) as web:
        assert listed(web)[0] == 503
        assert READ_ONLY in web.said()
    assert not owned.amalgam.exists()


def test_who_does_not_trust_the_owner_is_told_once_what_to_set(owned: Exported) -> None:
    before = shot(owned)
    with serving_as(WEB, owned.root, *ON) as web:
        for _number in range(3):
            status, said = listed(web)
            assert status == 503
            assert b"its operator finds why in the log" in said
            assert str(owned.root).encode() not in said
            assert not has_pack(web, owned_tip(owned))
        (line,) = (it for it in web.said().splitlines() if "warning: git: " in it)
        assert f"'{owned.root / '.hg'}' belongs to user '{OWNER.uid}'" in line
        assert "hg help config.trusted" in line
    assert shot(owned) == before


def test_directory_that_the_server_may_not_enter_is_named(owned: Exported) -> None:
    hooks = owned.git_dir / "hooks"
    hooks.chmod(0)
    with serving_as(WEB, owned.root, *ON, *TRUSTED) as web:
        assert listed(web)[0] == 503
        (line,) = (it for it in web.said().splitlines() if "warning: git: " in it)
        assert f"Permission denied: '{hooks}'" in line


def owned_tip(store: Exported) -> str:
    return of_owner(store, "log", "-r", "tip", "-T", "{gitnode}")


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_what_is_hidden_is_not_sent_by_who_may_only_read(
    public_place: Path, server: HgServer, event: Callable[[Exported], None]
) -> None:
    store = with_draft(public_place / "repo", server)
    store.hg("git::export")
    secrets = planted(store)
    trusted = (f"--config=trusted.users={pwd.getpwuid(os.geteuid()).pw_name}", AT_ONCE)
    with serving_as(WEB, store.root, *ON, *trusted) as web:
        assert has_pack(web, secrets[0]), web.said()
        assert has_pack(web, secrets[2])
        event(store)
        before = shot(store)
        assert listed(web)[0] == 503
        assert not any(has_pack(web, oid) for oid in secrets), web.said()
        assert WORD.encode() not in listed(web)[1]
        assert READ_ONLY in web.said()
        assert shot(store) == before
        store.hg("git::export")
        until(lambda: listed(web)[0] == 200)
        assert not any(has_pack(web, oid) for oid in secrets), web.said()
