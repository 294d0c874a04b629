"""What changes between the conversion of a push and Mercurial's lock, or after it.

Commits are converted without the lock. An extension of the tests acts just before it is
taken, once, as somebody else could; so no test depends on who is faster.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import HG
from testlib.pushing import PushServer, pushable

pytestmark = pytest.mark.slow

IS_A_BRANCH = "'next' is a Mercurial branch already"
DRAFTS = "[phases]\npublish = no\n[experimental]\nevolution = all\n"
MEANWHILE = """\
import os
import subprocess

from mercurial import extensions

from hgext3rd.amalgam.receive import apply as applying
from hgext3rd.amalgam.receive import convert as conversion
from hgext3rd.amalgam.receive import push

here = os.path.dirname(__file__)


def act(name):
    script = os.path.join(here, name)
    if os.path.exists(script):
        os.rename(script, script + ".done")
        subprocess.run(["sh", script + ".done"], cwd=here, check=True)


def answer(orig, run):
    act("early")
    return orig(run)


def locked(orig, pusher):
    act("script")
    return orig(pusher)


def convert(orig, ui, repo, *args, **kwargs):
    is_locked = os.path.lexists(os.path.join(here, "server", ".hg", "store", "lock"))
    with open(os.path.join(here, "conversions"), "a") as file:
        file.write("locked\\n" if is_locked else "free\\n")
    found = orig(ui, repo, *args, **kwargs)
    act("converted")
    return found


def uisetup(ui):
    extensions.wrapfunction(push.PushRun, "answer", answer)
    extensions.wrapfunction(applying, "locked", locked)
    extensions.wrapfunction(conversion, "convert", convert)
"""


@contextlib.contextmanager
def meanwhile(
    directory: Path, script: str, hgrc: str = "", when: str = "script"
) -> Iterator[PushServer]:
    """Serve a repository; ``script`` runs in it before the first push takes the lock.

    Or before it looks at the refs, if ``when`` is ``early``, or when it has converted
    once, if that is ``converted``. ``hg`` in it is ours.
    """
    extension = directory / "meanwhile.py"
    extension.write_text(MEANWHILE)
    hg = f'hg() {{ "{HG}" -q --config extensions.amalgam= -R server "$@"; }}\n'
    (directory / when).write_text(f"set -e\n{hg}{script}\n")
    with pushable(
        directory, f"--config=extensions.meanwhile={extension}", hgrc=hgrc
    ) as server:
        yield server
        assert (directory / f"{when}.done").exists()


def conversions(directory: Path) -> list[str]:
    """Return whether the repository was locked during each conversion."""
    return (directory / "conversions").read_text().split()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "hide", ["phase -fs", "debugobsolete $(hg log -r tip -T {node}) #"]
)
def test_changeset_that_is_hidden_meanwhile_is_not_taken_for_new(
    tmp_path: Path, hide: str
) -> None:
    """Mercurial adds nothing that is there; so nobody would see what was pushed."""
    twin = tmp_path / "twin"
    twin.mkdir()
    with pushable(twin, hgrc=DRAFTS) as other:
        clone = other.clone()
        clone.commit("three")
        clone.pushed("HEAD:refs/heads/work")
        other.hg("bundle", "-q", "--base", "1", "-r", "2", "../three.hg")
    script = f"hg unbundle twin/three.hg\nhg {hide} 2"
    with meanwhile(tmp_path, script, DRAFTS) as server:
        clone.git("remote", "set-url", "origin", server.web.url)
        said = clone.refused("HEAD:refs/heads/work")
        assert "is a changeset here that is secret or obsolete" in said
        assert not server.hg("bookmarks", "-T", "{bookmark}")
        server.check()


def test_ref_that_moves_meanwhile_is_lost_alone(tmp_path: Path) -> None:
    """What is left is converted again, and the lock is not held for that."""
    with meanwhile(tmp_path, "hg bookmark -f -r 0 work") as server:
        server.hg("bookmark", "-r", "1", "work")
        clone = server.clone()
        clone.git("checkout", "-q", "-b", "free")
        clone.commit("free")
        clone.git("checkout", "-q", "-b", "lost", "origin/default")
        clone.commit("lost")
        said = clone.refused("free", "lost:work")
        assert "lost -> work (fetch first)" in said
        assert "[new branch]      free -> free" in said
        assert conversions(tmp_path) == ["free", "free"]
        assert server.log()[2:] == ["default|free|public|free"]
        server.check()


@pytest.mark.torture
def test_branch_above_that_is_lost_is_in_nobodys_way(tmp_path: Path) -> None:
    """Without it, the named branch leads to what is pushed after all."""
    with meanwhile(tmp_path, "hg bookmark -f -r 0 work") as server:
        server.hg("bookmark", "-r", "1", "work")
        clone = server.clone()
        clone.commit("main")
        clone.git("checkout", "-q", "-b", "lost")
        clone.commit("lost")
        said = clone.refused("default", "lost:work")
        assert "lost -> work (fetch first)" in said
        assert "default -> default (" not in said
        assert server.log()[2:] == ["default||public|main"]
        server.check()


@pytest.mark.torture
def test_bookmark_of_a_secret_changeset_is_made_meanwhile(tmp_path: Path) -> None:
    script = (
        "hg update null\necho s > server/s\nhg commit -qAm secret --secret server/s\n"
        "hg bookmark -f -r tip work"
    )
    with meanwhile(tmp_path, script) as server:
        clone = server.clone()
        clone.commit("three")
        assert "(fetch first)" in clone.refused("HEAD:refs/heads/work")
        assert server.log()[-1] == "default|work|secret|secret"
        said = clone.refused("HEAD:refs/heads/work")
        assert "a bookmark of that name, which git users do not see" in said
        assert server.log()[-1] == "default|work|secret|secret"


@pytest.mark.torture
def test_branch_of_the_tags_moves_before_the_push_looks(tmp_path: Path) -> None:
    """No git user can know what is there then."""
    script = "echo n > server/n\nhg commit -qAm next server/n"
    hgrc = "[amalgam]\ngit.push-tags = yes\n"
    with meanwhile(tmp_path, script, hgrc, "early") as server:
        clone = server.clone()
        said = clone.refused("HEAD:refs/tags/v1")
        assert "v1 (fetch first)" in said
        clone.pushed("HEAD:refs/tags/v1")
        assert [line.rpartition("|")[2] for line in server.log()[2:]] == [
            "next",
            f"Added tag v1 for changeset {server.node(clone.head())[:12]}",
        ]
        server.check()


@pytest.mark.parametrize(
    ("option", "sentence", "later"),
    [
        (("-o", "branch=next"), IS_A_BRANCH, IS_A_BRANCH),
        ((), "(fetch first)", "commits are not on the Mercurial branch 'next'"),
    ],
)
def test_branch_that_is_made_and_closed_meanwhile_is_not_a_new_one(
    tmp_path: Path, option: tuple[str, ...], sentence: str, later: str
) -> None:
    script = (
        "hg branch next\necho n > server/n\nhg commit -qAm next server/n\n"
        "hg commit --close-branch -qm closed"
    )
    hgrc = "[amalgam]\ngit.push-branches = yes\n"
    with meanwhile(tmp_path, script, hgrc) as server:
        clone = server.clone()
        clone.commit("three")
        said = clone.refused(*option, "HEAD:refs/heads/next")
        assert sentence in said
        assert server.log()[-1] == "next||public|closed"
        said = clone.refused(*option, "HEAD:refs/heads/next")
        assert later in said
        server.hg("git::export", "-q")
        server.check()


def test_named_branch_that_goes_on_meanwhile_is_not_left(tmp_path: Path) -> None:
    """The pusher cannot know the commit: it is not exported yet."""
    script = "echo n > server/n\nhg commit -qAm next server/n"
    with meanwhile(tmp_path, script) as server:
        clone = server.clone()
        clone.commit("three")
        assert "work (fetch first)" in clone.refused("HEAD:refs/heads/work")
        assert server.log()[-1] == "default||public|next"
        clone.git("pull", "-q", "--rebase")
        clone.pushed("HEAD:refs/heads/work")
        server.check()


def test_commits_are_converted_once(tmp_path: Path) -> None:
    """Twice, if a tag names a new changeset: the node has to be known."""
    hgrc = "[amalgam]\ngit.push-tags = yes\n"
    with meanwhile(tmp_path, ":", hgrc) as server:
        clone = server.clone()
        counts: list[int] = []

        def push(*refspecs: str) -> None:
            before = len(conversions(tmp_path)) if counts else 0
            clone.git("fetch", "-q")
            clone.pushed(*refspecs)
            counts.append(len(conversions(tmp_path)) - before)

        clone.commit("one")
        push("default")
        clone.git("checkout", "-q", "-b", "side", "HEAD~1")
        clone.commit("side")
        clone.git("checkout", "-q", "default")
        clone.commit("two")
        push("side", "default")
        push("default:refs/tags/known")
        clone.git("pull", "-q", "--ff-only", "origin", "default")
        clone.commit("three")
        push("default", "default:refs/tags/new")
        assert counts == [1, 1, 1, 2]
        # refused before it is converted
        clone.git("checkout", "-q", "side")
        clone.commit("four")
        assert "moves forward only" in clone.refused("+side:default")
        assert len(conversions(tmp_path)) == 5
        server.check()


def test_one_refused_commit_costs_no_conversion_of_each_ref(tmp_path: Path) -> None:
    with meanwhile(tmp_path, ":") as server:
        clone = server.clone()
        for number in range(6):
            clone.git("checkout", "-q", "-b", f"b{number}", "origin/default")
            clone.commit(f"b{number}")
        clone.git("checkout", "-q", "-b", "bad", "b3")
        link = f"160000,{clone.head()},sub"
        clone.git("update-index", "--add", "--cacheinfo", link)
        clone.git("commit", "-qm", "submodule")
        clone.git("checkout", "-q", "-f", "-b", "above")
        clone.git("commit", "-q", "--allow-empty", "-m", "above")
        said = clone.refused("--all")
        refused = [line.split()[3] for line in said.splitlines() if "[remote r" in line]
        assert sorted(refused) == ["above", "bad"]
        assert len(conversions(tmp_path)) == 2
        assert len(server.log()) == 8
        server.check()


def test_nothing_is_applied_for_a_client_that_is_gone(tmp_path: Path) -> None:
    extension = tmp_path / "late.py"
    extension.write_text(
        "from hgext3rd.amalgam.serve import limits as watchdog\n"
        "class Late(watchdog.Watchdog):\n"
        "    def feed(self, more_seconds=0):\n"
        "        super().feed(more_seconds)\n"
        "        self.has_bitten = more_seconds > 0\n"  # while Mercurial answers
        "def uisetup(ui):\n"
        "    from hgext3rd.amalgam.serve import httprequest as exchange\n"
        "    exchange.Watchdog = Late\n"
    )
    with pushable(tmp_path, f"--config=extensions.late={extension}") as server:
        clone = server.clone()
        clone.commit("three")
        assert "(the server has taken too long; " in clone.refused("default")
        assert len(server.log()) == 2
        server.check()


def test_what_fails_after_the_transaction_is_not_a_refusal(tmp_path: Path) -> None:
    extension = tmp_path / "failing.py"
    extension.write_text(
        "def reposetup(ui, repo):\n"
        "    class failing(repo.__class__):\n"
        "        def transaction(self, desc, report=None):\n"
        "            tr = super().transaction(desc, report=report)\n"
        "            if desc == b'serve':\n"
        "                tr.addpostclose(b'warm-cache-x', fail)\n"
        "            return tr\n"
        "    repo.__class__ = failing\n"
        "def fail(tr):\n"
        "    raise OSError(28, 'No space left on device')\n"
    )
    option = f"--config=extensions.failing={extension}"
    with pushable(tmp_path, option) as server:
        clone = server.clone()
        clone.commit("three")
        clone.pushed("default")
        assert server.log()[-1] == "default||public|three"
        server.check()
    tagged = tmp_path / "tagged"
    tagged.mkdir()
    hgrc = "[hooks]\ntag = python:missing.py:f\n[amalgam]\ngit.push-tags = yes\n"
    with pushable(tagged, hgrc=hgrc) as server:
        clone = server.clone()
        clone.commit("three")
        clone.git("tag", "v1")
        clone.pushed("default", "v1")
        assert server.log()[-1].endswith(
            "Added tag v1 for changeset " + server.node(clone.head())[:12]
        )


def test_transaction_that_cannot_be_undone_is_told(tmp_path: Path) -> None:
    """Mercurial writes this file as a transaction ends, and reads it in the next."""
    with pushable(tmp_path) as server:
        clone = server.clone()
        clone.commit("three")
        undo = server.root / ".hg" / "store" / "undo.backupfiles"
        undo.write_bytes(b"2\nplain\0branch\0undo")
        said = clone.refused("default")
        assert "(the server failed; its operator has to run hg recover)" in said
        server.hg("recover", "-q")
        assert len(server.log()) == 2
        undo.unlink()
        clone.pushed("default")
        server.check()


def test_failure_before_the_first_question_is_told(tmp_path: Path) -> None:
    extension = tmp_path / "damaged.py"
    extension.write_text(
        "from mercurial import error\n"
        "from hgext3rd.amalgam.receive import refplan\n"
        "def of(*args, **kwargs):\n"
        "    raise error.StorageError(b'branch cache is damaged')\n"
        "def uisetup(ui):\n"
        "    refplan.RefState.of = of\n"
    )
    with pushable(tmp_path, f"--config=extensions.damaged={extension}") as server:
        clone = server.clone()
        clone.commit("three")
        assert "the server failed" in clone.refused("default")
        assert len(server.log()) == 2
        server.check()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("when", "export"),
    [
        *((when, "\nhg git::export") for when in ("early", "converted", "script")),
        # what the store still has is stored again if nobody has looked at it before
        *((when, "") for when in ("converted", "script")),
    ],
)
def test_parent_that_is_stripped_meanwhile_is_told(
    tmp_path: Path, when: str, export: str
) -> None:
    """An export makes new packs then; so git lacks objects in the middle of a push."""
    script = f"hg --config extensions.strip= strip --no-backup tip{export}"
    with meanwhile(tmp_path, script, when=when) as server:
        clone = server.clone()
        clone.commit("three")
        said = clone.refused("HEAD:refs/heads/work", "HEAD:refs/heads/other")
        assert said.count("(the history has changed; fetch first)") == 2, said
        assert server.log() == ["default||public|number 0"]
        server.hg("git::export")
        server.check()
