"""Transactions that nobody ended: what they have written does not leave."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, captured, git, hg, publish_commits
from testlib.pushing import ON
from testlib.webserver import serving

#: Ends the process as Mercurial closes its transaction: all is written, and the journal
#: is there.
_KILLER = """
import os, signal
def reposetup(ui, repo):
    if not repo.local():
        return
    class killing(repo.__class__):
        def transaction(self, desc, *args, **kwargs):
            found = super(killing, self).transaction(desc, *args, **kwargs)
            if desc in (b'commit', b'bookmark', b'phase'):
                kill = lambda tr: os.kill(os.getpid(), signal.SIGKILL)
                found.addfinalize(b'zzz', kill)
            return found
    repo.__class__ = killing
"""
#: Says so in the middle of its transaction, and waits to be told to go on.
_SLOW_HOOK = "touch {began}; while [ ! -e {goon} ]; do sleep 0.05; done"
_ABORT = (
    "abort: abandoned transaction found\n(run 'hg recover' to clean up transaction)\n"
)
_LOG = "{desc}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a changeset that is exported."""
    root = tmp_path / "repo"
    hg(tmp_path, "init", "repo")
    publish_commits(root)
    _commit(root, "first")
    hg(root, "git::export")
    (tmp_path / "killer.py").write_text(_KILLER)
    return root


def _commit(root: Path, message: str, *options: str) -> None:
    (root / message).write_text(f"{message}\n")
    hg(root, "commit", "-qAm", message, *options)


def _killed(root: Path, *args: str) -> None:
    """Run hg until it has written all of a transaction."""
    command = [str(HG), f"--config=extensions.killer={root.parent}/killer.py", *args]
    done = captured(command, root)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (root / ".hg/store/journal").exists()


def _refused(root: Path, *args: str) -> str:
    command = [str(HG), "--config=extensions.amalgam=", *args]
    done = captured(command, root)
    assert done.returncode == 255, done.stderr
    return done.stderr.decode()


def _tips(url: str | Path) -> list[str]:
    return git(Path(), "ls-remote", str(url)).decode().splitlines()


@pytest.mark.torture
def test_changesets_are_not_exported(root: Path) -> None:
    store = root / ".hg/amalgam/git/cinnabar.git"
    before = _tips(store)
    (root / "second").write_text("second\n")
    _killed(root, "commit", "-qAm", "second")
    assert hg(root, "log", "-T", _LOG) == b"second\nfirst\n"
    assert _refused(root, "git::export") == _ABORT
    with serving(root, *ON) as web:
        assert _tips(web.url) == before
        assert _tips(web.url) == before
        hg(root, "recover", "-q")
        blob = git(root, "hash-object", "second").decode().strip()
        (root / "second").unlink()
        _commit(root, "third")
        assert hg(root, "log", "-T", _LOG) == b"third\nfirst\n"
        # at once, though exports have failed
        (head, *_others) = _tips(web.url)
        assert head not in before
    listing = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    assert blob not in git(store, *listing).decode()


def test_process_that_nobody_has_waited_for_is_gone(root: Path) -> None:
    (root / "second").write_text("second\n")
    options = f"--config=extensions.killer={root.parent}/killer.py"
    command = [str(HG), options, "commit", "-qAm", "second"]
    with subprocess.Popen(command, cwd=root, env=ENVIRONMENT) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        os.kill(process.pid, 0)  # it is there for Mercurial
        assert _refused(root, "git::export") == _ABORT
    assert process.returncode == -signal.SIGKILL
    assert _refused(root, "git::export") == _ABORT


@pytest.mark.parametrize(
    "args", [("bookmark", "-r", "0", "new"), ("phase", "--draft", "--force", "0")]
)
def test_bookmarks_and_phases_are_not_exported(root: Path, args: list[str]) -> None:
    _killed(root, *args)
    assert _refused(root, "git::export") == _ABORT
    hg(root, "recover", "-q")
    hg(root, "git::export")


def test_no_bundle_is_made(root: Path) -> None:
    types = "clone-bundles.auto-generate.formats=zstd-v2"
    (root / "second").write_text("second\n")
    _killed(root, "commit", "-qAm", "second")
    refresh = ("admin::clone-bundles-refresh", "--config", types)
    options = ("--config", "extensions.clonebundles=")
    assert _ABORT in _refused(root, *refresh, *options)
    assert not list(root.rglob("?*.hg"))
    hg(root, "recover", "-q")
    hg(root, *refresh, *options)


def test_another_process_with_a_transaction_hinders_nobody(root: Path) -> None:
    began, goon = root.parent / "began", root.parent / "goon"
    hook = "hooks.pretxnclose=" + _SLOW_HOOK.format(began=began, goon=goon)
    _commit(root, "second")
    (root / "third").write_text("third\n")
    command = [str(HG), "--config", hook, "commit", "-qAm", "third"]
    with subprocess.Popen(command, cwd=root, env=ENVIRONMENT) as slow:
        try:
            while not began.exists():
                assert slow.poll() is None
            assert (root / ".hg/store/journal").exists()
            hg(root, "git::export")
        finally:
            goon.touch()
    assert not slow.returncode
    hg(root, "git::export")
