"""Pushes into the dialect of hg-git, with extras and without, and the way back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from testlib import roundtrip
from testlib.environment import ROOT, git, hg, publish_commits
from testlib.hggitcommits import Commits
from testlib.mirrors import ids
from testlib.pushing import pushable
from testlib.randomcommits import GitObjects

pytestmark = pytest.mark.slow

NODES = ROOT / "tests" / "vectors" / "git-import" / "nodes.txt"
HGGIT = "--config=amalgam.git.dialect=hggit"
EXACT = "--config=amalgam.git.push-exact=yes"
BRANCHES = "--config=amalgam.git.push-branches=yes"


class Travelled:
    """Commits that were pushed, carried to another server by stock hg, and exported."""

    def __init__(self, made: Commits, place: Path, *options: str) -> None:
        place.mkdir()
        # hg verify looks for the repository of a .hgsubstate
        names = {it: name for name, it in made.oids.items() if name != SUBREPOSITORY}
        found = roundtrip.travel(place, made.repo.path, [*names], *options)
        assert found.problems == []
        self.accepted = {names[oid] for oid in names.keys() - found.refused.keys()}
        self.reasons: dict[str, set[str]] = {}
        for oid, said in found.refused.items():
            self.reasons.setdefault(REASON.findall(said)[0], set()).add(names[oid])
        log = hg(place / "copy", "log", "-T", "{node}\n").decode()
        self.nodes = {*log.split()}


SUBREPOSITORY = "module-and-sub"
REASON = re.compile("cannot be pushed: ([^;]*);")


def test_parents_of_a_merge_with_a_file_and_a_directory_of_one_name(
    tmp_path: Path,
) -> None:
    """hg-git's changeset between them has both, so it has no tree."""
    made = GitObjects(tmp_path / "project.git")
    sub = (b"160000", b"sub", "1" * 40)
    below = (b"40000", b"d", made.tree((b"100644", b"x")))
    sides = [
        made.commit(tree=made.tree((b"100644", b"a"))),
        made.commit(tree=made.tree((b"100644", b"d"), sub)),
        made.commit(tree=made.tree(below)),
    ]
    merge = made.commit(*sides, tree=made.tree((b"100644", b"a"), below, sub))
    found = roundtrip.travel(tmp_path, made.path, [merge], HGGIT, EXACT)
    assert (found.problems, found.refused) == ([], {})


def test_commits_come_back_from_changesets_alone(tmp_path: Path) -> None:
    """Stock hg carries them to another server. Nodes are hg-git's where they can be."""
    made = Commits(tmp_path / "project.git")
    rows = [row.split() for row in NODES.read_text().splitlines()]
    nodes = {name: node for name, _oid, node in rows if node != "-"}
    plain = Travelled(made, tmp_path / "plain", HGGIT, BRANCHES)
    exact = Travelled(made, tmp_path / "exact", HGGIT, EXACT, BRANCHES)
    expected = {name: nodes[name] for name in plain.accepted & nodes.keys()}
    for travelled in (plain, exact):
        missing = {it for it in expected if expected[it] not in travelled.nodes}
        assert missing == set()
    assert plain.reasons == {
        "the commit has another header that would be lost": {
            *("branch", "reserved", "renamed", "hg"),
            *("copied", "copy-taken", "copy-again"),
        },
        "the name or address cannot be written back as it is": {"nobody"},
        "the date cannot be written back as it is": {"odd-date"},
        "a file has a mode that Mercurial cannot store": {
            *("twin-tree", "of-twin", "modes", "padded"),
        },
        "the tree has a submodule": {
            *("module", "module-again", "module-gone", "module-alone"),
            "module-broken",
        },
        "git itself refuses the tree": {"unsorted", "duplicate", "nested-git"},
        "Mercurial refuses a path": {"nested-hg"},
    }
    assert exact.reasons == {
        "the date cannot be written back as it is": {"odd-date"},
        "git itself refuses the tree": {"unsorted", "duplicate"},
        "Mercurial refuses a path": {"nested-hg"},
    }


def test_git_authors_refuse_pushes(tmp_path: Path) -> None:
    """They give changesets other commits than those that were pushed."""
    (tmp_path / "authors").write_text("joe = Joe <joe@x>\n")
    files = "--config=amalgam.git.hggit-files=yes"
    authors = f"--config=git.authors={tmp_path / 'authors'}"
    with pushable(tmp_path, HGGIT, files, authors) as server:
        clone = server.clone()
        before = server.hg("log", "-T", "{node}")
        objects = GitObjects(clone.root / ".git")
        made = objects.commit(clone.head(), tree=objects.tree((b"100644", b"a")))
        said = clone.refused(f"{made}:refs/heads/new")
        assert "commits would get other ids by git.authors; push with Mercurial" in said
        assert server.hg("log", "-T", "{node}") == before


@pytest.mark.parametrize(
    ("headers", "message", "said"),
    [
        (b"HG:extra close:1\n", b"x\n", "would close the Mercurial branch 'default'"),
        (b"", b"x\n\n--HG--\nbranch : a\n", "would make the Mercurial branch 'a'"),
        (b"", b"x\n\n--HG--\nbranch : 12\n", "would make the Mercurial branch '12'"),
        (b"", b"x\n\n--HG--\nbranch : a:b\n", "make the Mercurial branch 'a:b'"),
    ],
)
def test_commits_decide_no_named_branches(
    tmp_path: Path, headers: bytes, message: bytes, said: str
) -> None:
    with pushable(tmp_path, HGGIT) as server:
        clone = server.clone()
        objects = GitObjects(clone.root / ".git")
        tree = objects.tree((b"100644", b"a"))
        made = objects.commit(clone.head(), tree=tree, headers=headers, message=message)
        before = clone.git("ls-remote"), server.hg("branches", "-c")
        assert said in clone.refused(f"{made}:refs/heads/new")
        assert (clone.git("ls-remote"), server.hg("branches", "-c")) == before
        assert server.leftovers() == []


def test_files_that_hg_git_leaves_out_follow_mercurial_users(tmp_path: Path) -> None:
    """Once a push has shown them. Files of Mercurial users alone stay out."""
    with pushable(tmp_path, HGGIT, EXACT) as server:
        with (server.root / ".hg" / "hgrc").open("a") as file:
            file.write("[amalgam]\ngit.dialect = hggit\n")
        store = server.amalgam / "git" / "hggit.git"
        clone = server.clone()
        objects = GitObjects(clone.root / ".git")
        inner = (b"40000", b".git", objects.tree((b"100644", b"a"), (b"100644", b"b")))
        modules = b"100644", b".gitmodules"
        first = objects.tree(modules, (b"40000", b"d", objects.tree(inner)))
        made = [objects.commit(clone.head(), tree=first)]
        # a directory becomes a file, and a file a directory
        link = objects.tree((b"160000", b".git", "1" * 40), (b"100644", b"git~1"))
        second = objects.tree(inner, (b"40000", b"d", link))
        made.append(objects.commit(made[0], tree=second))
        again = objects.tree((b"100644", b".git"), (b"40000", b"git~1", link))
        third = objects.tree(inner, (b"40000", b"d", again))
        made.append(objects.commit(made[1], tree=third))
        made.append(objects.commit(made[2], tree=first))
        clone.pushed(*(f"{oid}:refs/heads/c{at}" for at, oid in enumerate(made)))

        def listed() -> str:
            server.hg("git::export")
            node = server.hg("log", "-r", ".", "-T", "{node}")
            oid = ids(server.root)[node]
            return git(store, "ls-tree", "-r", "--name-only", oid).decode()

        server.hg("update", "-q", "c3")
        assert not server.hg("status")
        (server.root / "d/.git/a").write_text("by hg\n")
        (server.root / ".gitmodules").write_text("# by hg\n")
        (server.root / "d/.git/c").write_text("not shown\n")
        server.hg("commit", "-q", "-A", "-m", "by hg")
        assert listed() == ".gitmodules\nd/.git/a\nd/.git/b\n"
        tip = ids(server.root)[server.hg("log", "-r", ".", "-T", "{node}")]
        for path, content in ("d/.git/a", b"by hg\n"), (".gitmodules", b"# by hg\n"):
            assert git(store, "show", f"{tip}:{path}") == content
        server.hg("remove", "d/.git/a", "d/.git/b")
        server.hg("commit", "-m", "removed")
        assert listed() == ".gitmodules\n"

        other = tmp_path / "other"
        hg(tmp_path, "--config=extensions.amalgam=!", "clone", "-qU", "server", "other")
        publish_commits(other)
        (other / ".hg" / "hgrc").write_text((server.root / ".hg/hgrc").read_text())
        hg(other, "git::export")
        assert ids(other) == ids(server.root)
        server.check()
