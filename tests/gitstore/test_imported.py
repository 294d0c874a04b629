"""Ids of commits that were pulled from git, in exports of hg-git's dialect."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from testlib.environment import git
from testlib.gitclone import Clone
from testlib.randomcommits import GitObjects, write_object

pytestmark = pytest.mark.slow

SETTINGS = "[amalgam]\ngit.dialect = hggit\n[ui]\nusername = L <l@x>\n"


class Upstream:
    """A git repository whose second commit no changeset gives back."""

    def __init__(self, path: Path) -> None:
        self.repo = GitObjects(path)
        blobs = [write_object(path, "blob", text) for text in (b"a\n", b"c\n")]
        inner = self.repo.tree((b"100664", b"a", blobs[0]), (b"100644", b"b", blobs[0]))
        entry = (b"40000", b"d", inner)
        root = self.repo.commit(tree=self.repo.tree(entry), message=b"root\n")
        left_out = (b"40000", b".hg", self.repo.tree((b"100644", b"x", blobs[1])))
        tree = self.repo.tree(left_out, entry, (b"100644", b"c", blobs[0]))
        odd = self.repo.commit(root, tree=tree, message=b"odd\n")
        tree = self.repo.tree(left_out, entry, (b"100644", b"c", blobs[1]))
        self.tip = self.repo.commit(odd, tree=tree, message=b"tip\n")
        self.repo.branch("main", self.tip)
        git(path, "symbolic-ref", "HEAD", "refs/heads/main")
        self.oids = {root, odd, self.tip}

    @property
    def url(self) -> str:
        return f"git+{self.repo.path.as_uri()}"

    def files(self, ref: str) -> list[str]:
        return git(self.repo.path, "ls-tree", "-r", ref).decode().splitlines()


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream.git")


def pulled(upstream: Upstream, place: Path) -> Clone:
    """Pull into a new repository."""
    clone = repository(place)
    clone.hg("pull", "-q", "-u", upstream.url)
    return clone


def repository(place: Path) -> Clone:
    clone = Clone(place)
    clone.hg("init", str(place))
    (place / ".hg/hgrc").write_text(SETTINGS)
    return clone


def rebuilt(clone: Clone) -> str:
    return clone.hg("git::export", "--rebuild")


def ids(clone: Clone) -> set[str]:
    return {*clone.hg("log", "-T", "{gitnode}\n").split()}


def test_pushes_go_on_top_of_them(tmp_path: Path, upstream: Upstream) -> None:
    """Modes and files that only git has stay as they are."""
    clone = pulled(upstream, tmp_path / "clone")
    clone.hg("update", "-q", "main")
    (clone.root / "d/b").write_text("mine")
    clone.hg("commit", "-q", "-m", "mine")
    said = clone.hg("push", "-B", "main", upstream.url)
    assert "updating reference refs/heads/main" in said
    before, after = upstream.files(upstream.tip), upstream.files("main")
    differing = {line.partition("\t")[2] for line in {*before} ^ {*after}}
    assert differing == {"d/b"}
    assert b"100664 a" in git(upstream.repo.path, "cat-file", "tree", "main:d")
    clone.hg("git::export")
    known = ids(clone)
    assert known > upstream.oids
    rebuilt(clone)
    assert ids(clone) == known
    assert "no differences" in clone.hg("git::verify", "--full")
    clone.hg("strip", "-q", "--config", "extensions.strip=", "-r", "1:")
    clone.hg("git::export")
    clone.hg("pull", "-q", upstream.url)
    clone.hg("git::export")
    assert ids(clone) == known


def test_a_lost_list_is_told(tmp_path: Path, upstream: Upstream) -> None:
    clone = pulled(upstream, tmp_path / "clone")
    clone.hg("git::export")
    shutil.rmtree(clone.root / ".hg/amalgam/imported")
    clone.hg("git::export")
    assert ids(clone) == upstream.oids
    assert "commits that were pulled from git may get other ids" in rebuilt(clone)
    assert ids(clone) != upstream.oids
    shutil.rmtree(clone.root / ".hg/amalgam")
    clone.hg("pull", "-q", upstream.url)
    clone.hg("git::export")
    assert ids(clone) == upstream.oids


def test_lost_objects_are_an_error(tmp_path: Path, upstream: Upstream) -> None:
    clone = pulled(upstream, tmp_path / "clone")
    shutil.rmtree(clone.root / ".hg/amalgam/fetched")
    code, output = clone.run("git::export")
    assert code == 255
    assert "imported commits: object" in output
    assert "remove all of '.hg/amalgam' but 'adopted', and pull from git" in output


def test_changesets_may_be_there_before(tmp_path: Path, upstream: Upstream) -> None:
    """They were exported with other ids, since their commits were not known."""
    pulled(upstream, tmp_path / "clone")
    other = repository(tmp_path / "other")
    other.hg("pull", "-q", "../clone")
    other.hg("git::export")
    assert not ids(other) & {upstream.tip}
    other.hg("pull", "-q", upstream.url)
    output = other.hg("git::export")
    assert "changesets were pulled from git: exporting them again" in output
    assert ids(other) == upstream.oids
    assert "nothing new to export" in other.hg("git::export")


STATE = """\
diff --git a/.hgsubstate b/.hgsubstate
--- a/.hgsubstate
+++ b/.hgsubstate
@@ -1,1 +1,1 @@
-{0} s
+{1} s
"""


def test_submodules_change_beside_them(tmp_path: Path, upstream: Upstream) -> None:
    """Those of a tree that its manifest does not make alone."""
    repo, (one, two) = upstream.repo, ("1" * 40, "2" * 40)
    modules = b'[submodule "s"]\n\tpath = s\n\turl = ../s\n'
    blob = write_object(repo.path, "blob", modules)
    entries = [(b"100644", b".gitmodules", blob), (b"160000", b"s", one)]
    odd = (b"100664", b"a", write_object(repo.path, "blob", b"a\n"))
    tree = repo.tree(entries[0], (b"40000", b"d", repo.tree(odd)), entries[1])
    repo.branch("main", repo.commit(upstream.tip, tree=tree, message=b"module\n"))
    clone = repository(tmp_path / "clone")
    clone.hg("pull", "-q", upstream.url)
    clone.hg("debugsetparents", "tip")
    (tmp_path / "patch").write_text(STATE.format(one, two))
    clone.hg("import", "-q", "--bypass", "-m", "native", str(tmp_path / "patch"))
    clone.hg("bookmark", "-r", "tip", "-f", "main")
    clone.hg("debugsetparents", "null")
    clone.hg("push", "-B", "main", upstream.url)
    before, after = upstream.files("main~1"), upstream.files("main")
    assert [*{*after} - {*before}] == [f"160000 commit {two}\ts"]
    assert len(after) == len(before)
    assert b"100664 a" in git(repo.path, "cat-file", "tree", "main:d")
    clone.hg("git::export", "--rebuild")
    assert "no differences" in clone.hg("git::verify", "--full")
