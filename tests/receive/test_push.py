"""Pushes from git into Mercurial: real git, over ``hg serve``."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, add_config, git, hg
from testlib.pushed import Pushed
from testlib.pushing import NOTHING, Clone, PushServer, pushable

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    with pushable(tmp_path) as served:
        yield served
        assert not served.web.children()


@pytest.fixture
def clone(server: PushServer) -> Clone:
    return server.clone()


def test_pushed_commits_come_back(server: PushServer, clone: Clone) -> None:
    clone.commit("three", {"dir/three": "3\n", "file0": "changed\n"})
    clone.git("checkout", "-q", "-b", "side", "HEAD~1")
    side = clone.commit("side")
    clone.git("checkout", "-q", "default")
    clone.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    tip = clone.head()
    said = clone.pushed("default", "side")
    assert "remote: added 3 changesets with" in said

    refs = clone.git("for-each-ref")
    clone.git("fetch", "-q", "--prune")
    assert clone.git("for-each-ref") == refs
    again = server.clone("again")
    assert again.git("rev-parse", "origin/default", "origin/side").split() == [
        tip,
        side,
    ]
    reference = Pushed(clone.root, tip)
    assert server.node(tip) == reference.changesets[tip].node.hex()
    assert server.node(side) == reference.changesets[side].node.hex()
    assert server.log() == [
        "default||public|number 0",
        "default||public|number 1",
        *sorted(["default||public|three", "default|side|public|side"], reverse=True),
        "default||public|merge",
    ]
    server.check()


def test_bookmark_is_made_and_moved_and_deleted(
    server: PushServer, clone: Clone
) -> None:
    clone.pushed("HEAD:refs/heads/topic/one")
    assert server.log()[-1] == "default|topic/one|public|number 1"
    clone.commit("two")
    clone.pushed("HEAD:topic/one")
    assert server.log()[-2:] == [
        "default||public|number 1",
        "default|topic/one|public|two",
    ]
    clone.git("reset", "-q", "--hard", "HEAD~1")
    assert "non-fast-forward" in clone.refused("HEAD:topic/one")
    clone.pushed("+HEAD:topic/one")
    assert server.log()[-2] == "default|topic/one|public|number 1"
    clone.pushed(":topic/one")
    assert server.log()[-2:] == ["default||public|number 1", "default||public|two"]
    server.check()


def test_ref_that_moves_besides_is_named(server: PushServer, clone: Clone) -> None:
    clone.commit("two")
    said = clone.pushed("HEAD:refs/heads/topic")
    assert "remote: 'refs/heads/default' has changed, too: fetch it" in said
    assert "refs/heads/topic" not in said


def test_named_branch_moves_forward_only(server: PushServer, clone: Clone) -> None:
    before = server.log()
    clone.git("reset", "-q", "--hard", "HEAD~1")
    clone.commit("other")
    said = clone.refused("+HEAD:default")
    assert "it is the Mercurial branch 'default', which moves forward only" in said
    assert "close it with hg commit --close-branch" in clone.refused(":default")
    assert server.log() == before
    server.check()


def test_named_branch_takes_only_its_own(server: PushServer, clone: Clone) -> None:
    server.hg("branch", "-q", "stable")
    server.hg("commit", "-qm", "stable", "-d", "5 0")
    clone.git("fetch", "-q")
    clone.git("checkout", "-q", "stable")
    on_stable = clone.commit("on stable")
    said = clone.refused("HEAD:default")
    assert "'default', but the commit's first parent is on 'stable'" in said
    said = clone.refused("HEAD:refs/heads/tip")
    assert "no bookmark: the name 'tip' is reserved" in said
    clone.pushed("stable")
    assert server.log()[-1] == "stable||public|on stable"
    clone.git("checkout", "-q", "default")
    clone.git("merge", "-q", "--no-ff", "-m", "merge", on_stable)
    clone.pushed("default")
    assert server.log()[-1] == "default||public|merge"
    server.check()


def test_branch_of_an_empty_repository_needs_no_bookmark(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        server.hg("--config", "extensions.strip=", "strip", "-q", "0", "--no-backup")
        git(tmp_path, "init", "-q", "-b", "main", "new")
        clone = Clone(tmp_path / "new")
        clone.git("remote", "add", "origin", server.web.url)
        clone.commit("first")
        clone.pushed("HEAD:default")
        assert server.log() == ["default||public|first"]
        clone.pushed("main")
        assert server.log() == ["default|main|public|first"]
        server.check()


@pytest.mark.parametrize(
    ("ref", "sentence"),
    [
        ("refs/tags/v1", "tags are made with Mercurial here; ask a"),
        ("refs/notes/commits", "only branches and tags have a place in Mercurial"),
        ("refs/hg/heads/default/1", "deny updating a hidden ref"),
        ("refs/cinnabar/metadata", "deny updating a hidden ref"),
        ("refs/heads/default/below", "the name clashes with the branch 'default'"),
        ("refs/heads/12", "no bookmark: cannot use an integer as a name"),
    ],
)
def test_ref_that_cannot_be_is_refused(
    server: PushServer, clone: Clone, ref: str, sentence: str
) -> None:
    before = server.log()
    new = clone.commit("new")
    assert sentence in clone.refused(f"HEAD:{ref}")
    assert server.log() == before
    assert new not in all_objects(server)
    server.check()


def test_deletion_of_a_missing_ref_is_no_mistake(
    server: PushServer, clone: Clone
) -> None:
    """git's servers warn, too. Somebody else may have been faster."""
    clone.pushed("HEAD:refs/heads/work", "HEAD:refs/heads/other")
    clone.git("fetch", "-q")
    server.hg("bookmark", "--delete", "work")
    before = server.log()
    answer = server.push_raw(clone, clone.head(), NOTHING, "refs/heads/work")
    assert b"ok refs/heads/work" in answer
    assert server.log() == before
    answer = server.push_raw(clone, clone.head(), NOTHING, "refs/notes/x")
    assert b"ng refs/notes/x only branches and tags" in answer
    server.check()


def all_objects(server: PushServer) -> str:
    listing = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return git(server.store, *listing).decode()


def test_other_refs_of_a_push_are_taken(server: PushServer, clone: Clone) -> None:
    good = clone.commit("good")
    clone.git("checkout", "-q", "-b", "bad")
    bad = clone.commit("bad")
    said = clone.refused("default", "bad:refs/tags/bad")
    assert "[remote rejected] bad -> bad (tags are made with Mercurial" in said
    assert server.log()[-1] == "default||public|good"
    assert good in all_objects(server)
    assert bad not in all_objects(server)
    server.check()


def test_atomic_push_is_all_or_nothing(server: PushServer, clone: Clone) -> None:
    before = server.log()
    clone.commit("good")
    said = clone.refused("--atomic", "default", "default:refs/tags/bad")
    assert "default (another branch of the atomic push is refused; " in said
    assert server.log() == before
    clone.pushed("--atomic", "default", "default:refs/heads/work")
    assert server.log()[-1] == "default|work|public|good"
    server.check()


def test_dry_run_changes_nothing(server: PushServer, clone: Clone) -> None:
    before = server.log()
    clone.commit("new")
    assert "default -> default" in clone.pushed("--dry-run", "default")
    assert server.log() == before


def signed(clone: Clone) -> str:
    """Make a commit that has a signature, of nobody."""
    content = clone.run("cat-file", "commit", "HEAD").stdout
    head, _empty, body = content.partition(b"\n\n")
    head += (
        b"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    )
    done = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        input=head + b"\n\n" + body,
        cwd=clone.root,
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def test_commit_that_would_not_come_back_is_refused(
    server: PushServer, clone: Clone
) -> None:
    good = clone.commit("good")
    clone.git("checkout", "-q", "-b", "bad")
    clone.commit("bad")
    oid = signed(clone)
    clone.git("reset", "-q", "--hard", oid)
    said = clone.refused("default", "bad")
    assert f"remote: commit {oid[:12]}: the commit is signed" in said
    assert f"bad -> bad (commit {oid[:12]} cannot be pushed: the commit is sign" in said
    assert server.log()[-1] == "default||public|good"
    assert good in all_objects(server)
    assert oid not in all_objects(server)
    server.check()


HOOKS = ("pretxnopen", "pretxnchangegroup", "prepushkey", "pretxnclose")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("hook", HOOKS)
def test_hook_that_fails_refuses_all(tmp_path: Path, hook: str) -> None:
    flag = tmp_path / "flag"
    script = f"test ! -e {flag} || {{ echo not today; exit 1; }}"
    with pushable(tmp_path, hgrc=f"[hooks]\n{hook} = {script}\n") as server:
        clone = server.clone()
        before = server.log()
        new = clone.commit("new")
        flag.touch()
        said = clone.refused("default:refs/heads/a", "default:refs/heads/b")
        assert "remote: not today" in said
        assert f"a ({hook} hook exited with status 1)" in said
        assert f"b ({hook} hook exited with status 1)" in said
        assert server.log() == before
        assert new not in all_objects(server)
        flag.unlink()
        clone.pushed("default")
        server.check()


@pytest.mark.parametrize(("hook", "is_stored"), [("pretxnclose", 0), ("txnclose", 1)])
def test_hook_in_python_that_exits_decides_like_any_other(
    tmp_path: Path, hook: str, is_stored: int
) -> None:
    """Before the end of the transaction it refuses, after it nothing does."""
    script = tmp_path / "exiting.py"
    script.write_text(
        "import os, sys\ndef run(ui, repo, **kwargs):\n"
        f"    if os.path.exists({str(tmp_path / 'flag')!r}):\n        sys.exit(0)\n"
    )
    hgrc = f"[hooks]\n{hook} = python:{script}:run\n"
    with pushable(tmp_path, hgrc=hgrc) as server:
        clone = server.clone()
        (tmp_path / "flag").touch()
        before = len(server.log())
        clone.commit("new")
        if is_stored:
            clone.pushed("default")
        else:
            said = clone.refused("default")
            assert "the server failed; nothing was changed; ask its operator" in said
        assert "git push failed: SystemExit" in server.web.said()
        assert len(server.log()) == before + is_stored
        server.check()


def test_quiet_push_tells_warnings_refusals_and_hooks_output(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        clone = server.clone()
        clone.commit("one")
        done = clone.run("push", "-q", "origin", "HEAD:refs/heads/work")
        assert (done.returncode, done.stderr) == (0, b"")
        add_config(server.root, "[hooks]\npretxnclose = echo from a hook\n")
        clone.commit("two")
        done = clone.run("push", "-q", "-o", "ci", "origin", "HEAD:work", "HEAD:12")
        said = [line.strip() for line in done.stderr.decode().splitlines()]
        assert said[:2] == [
            "remote: warning: push option 'ci' has no meaning on this server",
            "remote: from a hook",
        ]
        assert said[-2].startswith("! [remote rejected] HEAD -> 12 (")
        assert not [line for line in said if "changeset" in line or "fetch" in line]
        server.check()


def test_hooks_see_what_they_see_of_an_hg_push(tmp_path: Path) -> None:
    names = ("HG_SOURCE", "HG_URL", "HG_BUNDLE2", "HG_TXNNAME", "HG_HOOKTYPE")
    show = " ".join(f"{name}=${name}" for name in names)
    hooks = ("pretxnchangegroup", "pretxnclose", "txnclose", "changegroup", "incoming")
    shown = "".join(f"{it} = echo {show} >> {tmp_path}/seen\n" for it in hooks)
    with pushable(tmp_path, hgrc=f"[hooks]\n{shown}") as server:
        seen = tmp_path / "seen"
        clone = server.clone()
        by_hg = tmp_path / "hg"
        server.hg("clone", "-q", server.web.url, str(by_hg))
        clone.commit("new")
        seen.write_text("")
        clone.pushed("default")
        by_git = seen.read_text()
        (by_hg / "other").write_text("other\n")
        hg(by_hg, "pull", "-qu")
        hg(by_hg, "commit", "-qAm", "by hg")
        seen.write_text("")
        hg(by_hg, "push", "-q")
        assert by_git == seen.read_text()
        assert "HG_SOURCE=serve HG_URL=remote:http:127.0.0.1:" in by_git


def test_push_that_lost_a_race_is_refused(server: PushServer, clone: Clone) -> None:
    before = clone.head()
    new = clone.commit("mine")
    (server.root / "theirs").write_text("theirs\n")
    server.hg("commit", "-qAm", "theirs", "-d", "7 0")
    answer = server.push_raw(clone, before, new, "refs/heads/default")
    assert b"ng refs/heads/default fetch first" in answer
    assert server.log()[-1] == "default||public|theirs"
    assert new not in all_objects(server)
    assert "fetch first" in clone.refused("default")
    clone.git("pull", "-q", "--no-rebase", "--no-edit")
    clone.pushed("default")
    assert len(server.log()) == 5
    server.check()


def test_drafts_stay_drafts_where_nothing_is_published(tmp_path: Path) -> None:
    with pushable(tmp_path, hgrc="[phases]\npublish = no\n") as server:
        clone = server.clone()
        new = clone.commit("new")
        clone.pushed("HEAD:refs/heads/work")
        assert server.log()[-1] == "default|work|draft|new"
        server.hg("phase", "--force", "--secret", "work")
        server.hg("bookmark", "--delete", "work")
        # what is secret now is not told, nor taken again
        assert "secret or obsolete" in clone.refused("HEAD:refs/heads/again")
        clone.commit("above")
        assert "secret or obsolete" in clone.refused("HEAD:refs/heads/again")
        assert server.log()[-1] == "default||secret|new"
        server.hg("git::export")
        assert new not in all_objects(server)
        server.check()


def test_drafts_are_refused_if_git_users_would_not_see_them(tmp_path: Path) -> None:
    hgrc = "[phases]\npublish = no\n[amalgam]\ngit.export = public\n"
    with pushable(tmp_path, hgrc=hgrc) as server:
        clone = server.clone()
        clone.commit("new")
        said = clone.refused("HEAD:refs/heads/work")
        assert "'refs/heads/work' would not be shown to git users" in said
        assert server.log()[-1] == "default||public|number 1"
        server.check()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("limit_bytes", [1_000_000, 3_000_000])
def test_disk_that_is_full_stores_nothing(
    server: PushServer, clone: Clone, limit_bytes: int
) -> None:
    """The request finds no room, or what becomes of it."""
    large = {f"{number}": f"{number}\n" * 3000 for number in range(20)}
    large["noise"] = random.Random(0).randbytes(2_000_000).hex()
    new = clone.commit("large", large)
    pid = str(server.web.process.pid)
    subprocess.run(["prlimit", "--pid", pid, f"--fsize={limit_bytes}:"], check=True)
    done = clone.push("default")
    assert b"no room for the request" in done.stderr or b"rejected" in done.stderr
    assert server.log()[-1] == "default||public|number 1"
    subprocess.run(["prlimit", "--pid", pid, "--fsize=unlimited:"], check=True)
    assert new not in all_objects(server)
    clone.pushed("default")
    server.check()
