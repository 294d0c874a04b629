"""Pushes of git into repositories that ``hg share`` has made, over HTTP and ssh.

The oracle is what ``hg push`` does to the same share: changesets are in the common
store, hooks are those of the share, and bookmarks are where the share has them.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, git, hg, publish_commits
from testlib.pushing import ON, Clone, PushServer
from testlib.webserver import WebServer, serving

pytestmark = pytest.mark.slow

PROGRAM = f"'{sys.executable}' -m hgext3rd.amalgam.serve.ssh"
#: How a share is made, and whether its bookmarks are those of its source.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], bool]] = {
    "own": ((), (), False),
    "common": ((), ("--bookmarks",), True),
    "in-store": (("--config=format.bookmarks-in-store=yes",), (), True),
}
OWN = "this is a share with bookmarks of its own; push to the repository that"
EXTENSION = "--config=extensions.share="


class Share:
    """A share, its source, and how developers get at the share."""

    def __init__(self, home: Path, kind: str) -> None:
        self.home = home
        of_source, of_share, self.is_common = KINDS[kind]
        self.source, self.root = home / "source", home / "share"
        hg(home, "init", *of_source, "source")
        publish_commits(self.source)
        for number in range(2):
            (self.source / f"file{number}").write_text(f"text {number}\n")
            hg(self.source, "commit", "-qAm", f"number {number}", "-d", f"{number} 0")
        hg(self.source, "bookmark", "-r", "0", "work")
        hg(home, EXTENSION, "share", "-q", *of_share, "source", "share")

    @contextlib.contextmanager
    def served(self) -> Iterator[WebServer]:
        """Serve it by hgweb."""
        with serving(self.root, *ON, EXTENSION) as web:
            yield web

    def ssh(self) -> Path:
        """Return what a client takes as ssh."""
        config, script = self.home / "hgrc", self.home / "ssh"
        config.write_text(
            "[extensions]\namalgam =\nshare =\n"
            "[amalgam]\ngit.serve = yes\ngit.push = yes\n"
        )
        script.write_text(
            "#!/bin/sh\n"
            'for last; do :; done\nSSH_ORIGINAL_COMMAND="$last"\n'
            f"export SSH_ORIGINAL_COMMAND HGRCPATH='{config}'\n"
            f"cd '{self.home}'\nexec {PROGRAM} share\n"
        )
        script.chmod(0o755)
        return script

    def bookmarks(self, root: Path) -> dict[str, str]:
        """Return the summary of what each bookmark is on, in the source or here."""
        shown = "{bookmark} {node}\n"
        lines = hg(root, EXTENSION, "bookmarks", "-T", shown).decode().splitlines()
        described = ("-T", "{desc|firstline}")
        return {
            name: hg(root, "log", "-r", node, *described).decode()
            for name, node in map(str.split, lines)
        }

    def log(self) -> list[str]:
        """Return the summaries of all changesets; both sides have the same."""
        found = [
            hg(root, "log", "-r", "all()", "-T", "{desc|firstline}\n")
            for root in (self.source, self.root)
        ]
        assert found[0] == found[1]
        return found[0].decode().splitlines()

    def check(self) -> None:
        """Verify both sides; nothing is left of a push."""
        for root in (self.source, self.root):
            hg(root, EXTENSION, "verify", "-q")
            hg(root, EXTENSION, "git::verify", "--full")
        left = [it.name for it in (self.source / ".hg/amalgam").glob("*scratch*")]
        assert not left
        assert not (self.root / ".hg" / "amalgam").exists()


@pytest.fixture(params=KINDS)
def share(request: pytest.FixtureRequest, tmp_path: Path) -> Share:
    return Share(tmp_path, request.param)


def clone_of(share: Share, url: str, **variables: str) -> Clone:
    """Let a developer clone it."""
    subprocess.run(
        ["git", "clone", "-q", url, "clone"],
        cwd=share.home,
        env={**ENVIRONMENT, **variables},
        check=True,
    )
    return Clone(share.home / "clone")


@pytest.mark.sampled(2)
def test_pushed_commits_come_back_and_bookmarks_are_those_seen(share: Share) -> None:
    with share.served() as web:
        clone = clone_of(share, web.url)
        clone.commit("two")
        clone.pushed("default")
        assert share.log() == ["number 0", "number 1", "two"]
        refs = clone.git("for-each-ref")
        clone.git("fetch", "-q", "--prune")
        assert clone.git("for-each-ref") == refs
        before = share.bookmarks(share.source)
        clone.commit("three")
        for refspec in ("HEAD:refs/heads/new", "HEAD:refs/heads/work"):
            if share.is_common:
                clone.pushed(refspec)
                name = refspec.rpartition("/")[2]
                found = share.bookmarks(share.source)
                assert found == share.bookmarks(share.root)
                assert found[name] == "three"
            else:
                assert OWN in clone.refused(refspec)
                assert share.bookmarks(share.source) == before
                assert share.log()[-1] == "two"
        if share.is_common:
            clone.pushed(":new")
            assert share.bookmarks(share.source) == {"work": "three"}
        else:
            assert OWN in clone.refused(":work")
            clone.pushed("default")
        assert share.log()[-1] == "three"
        git(share.home, "clone", "-q", web.url, "again")
        assert Clone(share.home / "again").head() == clone.head()
    share.check()


@pytest.mark.sampled(1)
def test_it_is_the_same_over_ssh(share: Share) -> None:
    ssh = {"GIT_SSH_COMMAND": str(share.ssh())}
    clone = clone_of(share, "host:share", **ssh)
    clone.commit("two")
    done = clone.push("default", **ssh)
    assert not done.returncode, done.stderr
    clone.commit("three")
    done = clone.push("HEAD:refs/heads/work", **ssh)
    assert done.returncode == (0 if share.is_common else 1), done.stderr
    assert (OWN.encode() in done.stderr) == (not share.is_common)
    expected = {"work": "three" if share.is_common else "number 0"}
    assert share.bookmarks(share.source) == expected
    assert share.log()[2:] == (["two", "three"] if share.is_common else ["two"])
    share.check()


@pytest.mark.sampled(1)
def test_what_the_source_has_done_meanwhile_is_seen(share: Share) -> None:
    """The server has had the share open all the time."""
    with share.served() as web:
        clone = clone_of(share, web.url)
        clone.commit("mine")
        (share.source / "theirs").write_text("theirs\n")
        hg(share.source, "commit", "-qAm", "theirs", "-d", "7 0")
        hg(share.source, "bookmark", "-f", "-r", "tip", "work")
        assert "fetch first" in clone.refused("default")
        assert share.log()[-1] == "theirs"
        clone.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "default")
        clone.pushed("default")
        assert share.log()[-2:] == sorted(share.log()[-2:], key=len)
        clone.git("fetch", "-q")
        assert clone.git("log", "-1", "--format=%s", "origin/work") == "theirs"
        clone.commit("five")
        if share.is_common:
            clone.pushed("HEAD:refs/heads/work")
            assert share.bookmarks(share.source) == {"work": "five"}
        hg(share.source, "bookmark", "--delete", "work")
        clone.pushed("default")
        assert share.log()[-1] == "five"
    share.check()


@pytest.mark.torture
def test_race_at_the_source_is_lost(tmp_path: Path) -> None:
    """Refs are compared with what the source has when the lock is held."""
    share = Share(tmp_path, "common")
    with share.served() as web:
        clone = clone_of(share, web.url)
        before, new = clone.head(), clone.commit("mine")
        (share.source / "theirs").write_text("theirs\n")
        hg(share.source, "commit", "-qAm", "theirs", "-d", "7 0")
        server = PushServer(share.root, web)
        answer = server.push_raw(clone, before, new, "refs/heads/default")
        assert b"ng refs/heads/default fetch first" in answer
        assert share.log()[-1] == "theirs"
        # of a bookmark alone, no file that the share has tells
        old = clone.git("rev-parse", "origin/work")
        hg(share.source, "bookmark", "-f", "-r", "2", "work")
        answer = server.push_raw(clone, old, new, "refs/heads/work")
        assert b"ng refs/heads/work fetch first" in answer
        assert share.bookmarks(share.source) == {"work": "theirs"}
    share.check()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
def test_bookmark_that_moves_meanwhile_is_seen_through_the_share(
    tmp_path: Path, kind: str
) -> None:
    """No file that a share with common bookmarks looks at tells of it."""
    share = Share(tmp_path, kind)
    hg(share.source, "git::export")
    move = [str(HG), "-R", str(share.source), "bookmark", "-f", "-r", "1", "work"]
    code = (
        "import subprocess\n"
        "from hgext3rd.amalgam.config import GitConfig\n"
        "from hgext3rd.amalgam.gitstore.store import GitStore\n"
        "from hgext3rd.amalgam.receive.refstate import RefState\n"
        "store = GitStore(repo, GitConfig.from_ui(repo.ui))\n"
        "rev = lambda: repo[RefState.of(repo, store).node(b'refs/heads/work')].rev()\n"
        "before = rev()\n"
        f"subprocess.run({move}, check=True)\n"
        "with repo.lock():\n"
        "    print(before, rev())\n"
    )
    run = f"exec({code!r}, {{'repo': repo}})"
    assert hg(share.root, EXTENSION, "debugshell", "-c", run) == b"0 1\n"


def test_hooks_of_the_share_decide(tmp_path: Path) -> None:
    share = Share(tmp_path, "common")
    seen = tmp_path / "seen"
    names = ("HG_SOURCE", "HG_URL", "HG_BUNDLE2", "HG_TXNNAME", "HG_HOOKTYPE")
    shown = " ".join(f"{name}=${name}" for name in names)
    hooks = "".join(
        f"{hook} = echo $PWD {shown} >> {seen}; test ! -e {tmp_path}/no\n"
        for hook in ("pretxnchangegroup", "pretxnclose", "changegroup", "txnclose")
    )
    (share.root / ".hg" / "hgrc").write_text(f"[hooks]\n{hooks}")
    with share.served() as web:
        by_hg = tmp_path / "by-hg"
        hg(tmp_path, "clone", "-q", web.url, "by-hg")
        clone = clone_of(share, web.url)
        clone.commit("two")
        (tmp_path / "no").touch()
        assert "pretxnchangegroup hook exited with status 1" in clone.refused("default")
        assert share.log() == ["number 0", "number 1"]
        (tmp_path / "no").unlink()
        seen.write_text("")
        clone.pushed("default")
        by_git = seen.read_text()
        hg(by_hg, "pull", "-qu")
        (by_hg / "other").write_text("other\n")
        hg(by_hg, "commit", "-qAm", "by hg")
        seen.write_text("")
        hg(by_hg, "push", "-q")
        assert by_git == seen.read_text()
        assert f"{share.root} HG_SOURCE=serve" in by_git
        hg(share.source, "git::export")
    share.check()


def test_tags_amends_and_branches_are_as_in_the_source(tmp_path: Path) -> None:
    share = Share(tmp_path, "common")
    (share.root / ".hg" / "hgrc").write_text(
        "[amalgam]\ngit.push-tags = yes\ngit.push-branches = yes\n"
        "[phases]\npublish = no\n[experimental]\nevolution = all\n"
    )
    with share.served() as web:
        clone = clone_of(share, web.url)
        clone.git("tag", "v1")
        clone.pushed("v1")
        assert share.log()[-1].startswith("Added tag v1 for changeset")
        clone.git("pull", "-q", "origin", "default")
        clone.commit("draft")
        clone.pushed("HEAD:refs/heads/new")
        clone.git("commit", "-q", "--amend", "-m", "amended")
        clone.pushed("+HEAD:refs/heads/new")
        assert share.bookmarks(share.root)["new"] == "amended"
        clone.commit("branch")
        clone.pushed("-o", "branch=stable", "HEAD:refs/heads/stable")
        shown = hg(share.source, "log", "-r", "tip", "-T", "{branch} {desc} {phase}")
        assert shown == b"stable branch draft"
        obsolete = hg(share.source, "debugobsolete")
        assert len(obsolete.splitlines()) == 1
    share.check()
