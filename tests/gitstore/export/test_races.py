"""Other processes while an export runs: their locks, and what they change."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, add_config, git, hg
from testlib.meanwhile import export_while
from testlib.small import STORE, commit, refs, repository, run_hg, said

pytestmark = pytest.mark.slow


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", publishes=False)


@contextlib.contextmanager
def holding(repo: Path, which: str) -> Iterator[int]:
    """A process that holds a lock; yields its id."""
    program = f"""
        import sys
        from mercurial import hg, ui as uimod, lock as lockmod, vfs as vfsmod
        repo = hg.repository(uimod.ui.load(), {bytes(repo)!r})
        if {which!r} == "amalgam":
            held = [lockmod.lock(vfsmod.vfs(repo.vfs.join(b"amalgam")), b"lock")]
        else:
            held = [repo.wlock(), repo.lock()]
        print("held", flush=True)
        sys.stdin.read()
        for lock in reversed(held):
            lock.release()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()


def test_locks_of_mercurial_are_not_waited_for(repo: Path) -> None:
    with holding(repo, "hg"):
        # it would wait in vain
        done = hg(repo, "git::export", "--config", "ui.timeout=1")
        assert b"exported 1 changeset" in done


def test_export_waits_for_another_one(repo: Path) -> None:
    hg(repo, "git::export")
    with holding(repo, "amalgam") as pid:
        # with nothing to do, it would not even look for the lock
        assert hg(repo, "git::export") == b"nothing new to export\n"
        done = run_hg(repo, "git::export", "--metadata", "--config", "ui.timeout=1")
    assert done.returncode == 20
    waiting, line = done.stderr.decode().splitlines()
    assert waiting.startswith(f"waiting for lock on git store of {repo} held by ")
    assert line.startswith(f"abort: git store of {repo}: timed out waiting for lock")
    assert f":{pid}'" in line
    assert hg(repo, "git::export") == b"nothing new to export\n"


def test_with_a_lock_of_mercurial_nobody_is_waited_for(repo: Path) -> None:
    hg(repo, "git::export")
    extension = repo.parent / "locking.py"
    extension.write_text(
        textwrap.dedent(
            """
            from mercurial import commands, registrar
            cmdtable = {}
            command = registrar.command(cmdtable)

            @command(b"export-with-lock")
            def export(ui, repo):
                with repo.lock():
                    commands_ = __import__(
                        "hgext3rd.amalgam.commands.table", fromlist=["git_export"]
                    )
                    options = dict.fromkeys(["rebuild", "full"], False)
                    options["metadata"] = True  # else it takes no lock
                    options |= dict.fromkeys(["dialect", "template", "adopt", "map"])
                    commands_.git_export(ui, repo, rev=[], **options)
            """
        )
    )
    option = ("--config", f"extensions.locking={extension}")
    with holding(repo, "amalgam") as pid:
        done = run_hg(repo, *option, "export-with-lock", "--config", "ui.timeout=60")
    assert done.returncode == 20
    line = done.stderr.decode()
    # not "timed out waiting for lock"
    assert line.startswith(f"abort: git store of {repo}: lock held by ")
    assert f":{pid}'" in line
    assert hg(repo, *option, "export-with-lock") == b"nothing new to export\n"


def test_what_may_be_rolled_back_is_not_exported(repo: Path) -> None:
    hook = f"{shlex.quote(str(HG))} --config extensions.amalgam= git::export"
    (repo / "two").write_text("two")
    done = run_hg(
        repo, "commit", "-qAm", "two", "--config", f"hooks.pretxnclose={hook}"
    )
    assert done.returncode
    assert "abort: cannot export while a transaction is open" in said(done)
    done = run_hg(repo, "commit", "-qAm", "two", "--config", f"hooks.txnclose={hook}")
    assert "exported 2 changesets" in said(done)


#: run once, when an export has selected and before it converts, or after that
EVENTS = {
    # what happens, and what the refs are then
    "commit": (
        "echo three > three; hg commit -qAm three -d '0 0'",
        {"refs/heads/default": "three", "refs/heads/mark": "one"},
    ),
    "strip": (
        "hg --config extensions.strip= strip -q --no-backup -r tip",
        {"refs/heads/default": "one", "refs/heads/mark": "one"},
    ),
    "strip and commit": (
        "hg --config extensions.strip= strip -q --no-backup -r tip;"
        "echo other > two; hg commit -qAm other -d '0 0'",
        {"refs/heads/default": "other", "refs/heads/mark": "one"},
    ),
    "secret": (
        "hg phase -fs tip",
        {"refs/heads/default": "one", "refs/heads/mark": "one"},
    ),
    "bookmark": (
        "hg bookmark -fr tip mark",
        {"refs/heads/default": "two", "refs/heads/mark": "two"},
    ),
    "obsolete": (
        "hg update -q 0; hg debugobsolete $(hg log -r tip -T '{node}')",
        {"refs/heads/default": "one", "refs/heads/mark": "one"},
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("event", EVENTS)
def test_refs_are_those_of_the_repository_as_it_is_at_the_end(
    repo: Path, event: str, when: str
) -> None:
    what, expected = EVENTS[event]
    add_config(repo, "[experimental]\nevolution = all\n")
    commit(repo, "two")
    hg(repo, "bookmark", "-r", "0", "mark")
    done = export_while(repo, what, when)
    assert not done.returncode, said(done)
    assert refs(repo) == expected
    git(repo / STORE, "fsck", "--full", "--strict")
    assert hg(repo, "git::export") == b"nothing new to export\n"


def test_obsolete_changeset_that_is_left_is_no_longer_named(repo: Path) -> None:
    add_config(repo, "[experimental]\nevolution = all\n")
    commit(repo, "two")
    node = hg(repo, "log", "-r", "tip", "-T", "{node}").decode()
    hg(repo, "debugobsolete", node)
    done = export_while(repo, "hg update -q 0", "after")
    assert not done.returncode, said(done)
    assert refs(repo) == {"refs/heads/default": "one"}


@pytest.mark.torture
def test_repository_that_never_rests_ends_the_export(repo: Path) -> None:
    done = export_while(repo, "echo >> more; hg commit -qAm more", "after", 1000)
    assert done.returncode == 20
    assert done.stderr.decode().splitlines() == [
        "abort: repository kept changing while it was exported",
        "(run 'hg git::export' again; what was converted is kept)",
    ]
    assert refs(repo) == {}
    assert b"exported 1 changeset" in hg(repo, "git::export")
