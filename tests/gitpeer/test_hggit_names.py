"""Clones and pulls in the dialect of hg-git: bookmarks, names, and imported refs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, git
from testlib.gitclone import Clone

pytestmark = pytest.mark.slow

SETTINGS = """\
[amalgam]
git.dialect = hggit
git.hggit-files = yes
[extensions]
amalgam =
rebase =
[experimental]
evolution = all
"""


class Project(Clone):
    """A repository of git with a clone of hg's, of whom hg-git's users own both."""

    def __init__(self, path: Path) -> None:
        super().__init__(path / "clone")
        (path / "hgrc").write_text(SETTINGS)
        self.environment = {"HGRCPATH": str(path / "hgrc")}
        self.upstream = path / "upstream"
        git(path, "init", "-q", "-b", "main", str(self.upstream))
        git(self.upstream, "config", "receive.denyCurrentBranch", "ignore")
        self.seconds = 1_000_000_000
        for name in ("one", "two", "three"):
            self.commit(name)
        git(self.upstream, "branch", "aside", "main~1")
        self.dated("tag", "-a", "-m", "annotated", "heavy", "main~1")
        git(self.upstream, "tag", "light", "main~2")

    def run(self, *args: str, **environment: str) -> tuple[int, str]:
        return super().run(*args, **self.environment, **environment)

    def commit(self, name: str, content: str = "", branch: str = "main") -> str:
        """Commit a file to a branch of upstream; return the id."""
        self.seconds += 100
        if branch != git(self.upstream, "branch", "--show-current").decode().strip():
            git(self.upstream, "checkout", "-q", branch)
        (self.upstream / name).write_text(content)
        git(self.upstream, "add", name)
        self.dated("commit", "-q", "-m", name)
        return git(self.upstream, "rev-parse", "HEAD").decode().strip()

    def dated(self, *args: str) -> None:
        """Run git in upstream at the time of the last commit."""
        date = f"@{self.seconds} +0000"
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@x", *args],
            cwd=self.upstream,
            env=ENVIRONMENT | dates,
            check=True,
        )

    def clone(self, *args: str) -> str:
        return self.hg("clone", *args, str(self.upstream), str(self.root))

    def rewrite(self) -> None:
        """Push a commit of a branch, and then make it obsolete."""
        self.clone("-u", "aside")
        (self.root / "mine").write_text("mine")
        self.hg("commit", "-A", "-q", "-m", "mine")
        self.hg("push")
        self.hg("rebase", "-q", "-d", "main")

    def names(self) -> set[str]:
        return {*self.hg("tags", "-T", "{tag}={rev}\n").split()} - {"tip=0"}

    def active(self) -> str:
        return self.hg("log", "-r", ".", "-T", "{desc} {activebookmark}")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_branch_of_head_is_active(project: Project) -> None:
    """Whatever symbolic refs a remote has beside its HEAD: clones have some."""
    git(
        project.upstream, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/aside"
    )
    project.clone()
    assert project.active() == "three main"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("-u", "tip"), "three main"),
        (("-u", "main"), "three main"),
        (("-u", "aside"), "two aside"),
        (("-u", "light"), "one "),
        (("-r", "aside"), "two aside"),
        (("-r", "light", "-r", "aside"), "one "),
    ],
)
def test_a_clone_activates_the_bookmark_that_it_checks_out(
    project: Project, options: tuple[str, ...], expected: str
) -> None:
    project.clone(*options)
    assert project.active() == expected


def test_a_tag_is_checked_out_in_the_other_dialect(project: Project) -> None:
    """Where it is no tag of Mercurial, and other branches are pulled, too."""
    options = ("-r", "light", "-r", "main", "--config", "amalgam.git.dialect=cinnabar")
    project.clone(*options)
    assert project.active() == "one "


def test_names_of_ancestors_come_with_a_revision(project: Project) -> None:
    git(project.upstream, "branch", "old", "light")
    project.clone("-r", "aside")
    names = {"default/aside=1", "default/old=0", "heavy=1", "light=0"}
    assert project.names() == {*names, "tip=1"}
    files = project.root / ".hg/git"
    assert git(files, "cat-file", "-t", "heavy") == b"tag\n"
    git(project.upstream, "tag", "later", "aside")
    project.hg("pull", "-r", "main")
    assert project.names() == names | {"default/main=2", "later=1", "tip=2"}


def test_patterns_and_ambiguous_names(project: Project) -> None:
    project.clone("-r", "light")
    git(project.upstream, "branch", "releases/1", "aside")
    git(project.upstream, "tag", "releases/0", "light")
    git(project.upstream, "branch", "releases/2", "main")
    said = project.hg("pull", "-r", "releases/*")
    assert "importing 2 git commits" in said
    assert "adding bookmark releases/1\nadding bookmark releases/2\n" in said
    assert {"releases/0=0", "default/releases/2=2"} <= project.names()
    assert project.hg("pull", "-r", "releases/*").endswith("no changes found\n")
    git(project.upstream, "branch", "heavy", "aside")
    for name, text in (
        ("heavy", "ambiguous reference heavy: refs/heads/heavy, refs/tags/heavy"),
        ("nothing/*", "unknown revision 'nothing/*'"),
        ("absent", "unknown revision 'absent'"),
    ):
        code, said = project.run("pull", "-r", name)
        assert (code, said.splitlines()[1:]) == (255, [f"abort: {text}"])


def test_deleted_branches_go_or_stay(project: Project) -> None:
    """By the items of hg-git, names of branches before bookmarks of them."""
    for name in ("first", "second"):
        git(project.upstream, "branch", name, "main")
    project.clone()
    git(project.upstream, "branch", "-D", "first")
    project.commit("four")
    said = project.hg("pull", "--config", "git.pull-prune-remote-branches=no")
    assert "updating bookmark main\n" in said.partition("deleting bookmark first\n")[0]
    assert "default/first=2" in project.names()
    project.hg("pull")
    assert "default/first=2" not in project.names()
    git(project.upstream, "branch", "-D", "second")
    said = project.hg("pull", "--config", "git.pull-prune-bookmarks=no")
    assert "second" not in said
    assert "second" in project.hg("bookmarks")


def test_branches_older_than_a_date_are_not_imported(project: Project) -> None:
    """The committer's date counts, or that of a tag object."""
    project.clone()
    oldest = ("--config", "git.mindate=1000010000 0")
    old = project.commit("four")
    git(project.upstream, "tag", "of-old", old)
    said = project.hg("pull", *oldest)
    assert "no changes found" in said
    assert {"default/main=2", "of-old"} & project.names() == {"default/main=2"}
    project.seconds += 20_000
    project.dated("tag", "-a", "-m", "new", "new-tag", old)
    assert "importing 1 git commits" in project.hg("pull", *oldest)
    assert {"new-tag=3", "of-old=3", "default/main=3"} <= project.names()
    project.commit("five")
    assert "updating bookmark main" in project.hg("pull", *oldest)
    before = project.names()
    assert "no changes found" in project.hg("pull")
    assert project.names() == before


def test_names_keep_obsolete_changesets_visible(project: Project) -> None:
    project.rewrite()
    assert "default/aside" in project.hg("log", "-r", "obsolete()", "-T", "{tags}")
    assert "updating reference refs/heads/aside" in project.hg("push", "-fr", "tip")
    assert not project.hg("log", "-r", "obsolete()")


def test_hidden_heads_do_not_count(project: Project) -> None:
    """For the advice at the end of a pull."""
    project.clone()
    project.hg("bookmark", "--inactive")
    (project.root / "mine").write_text("mine")
    project.hg("commit", "-A", "-q", "-m", "mine")
    project.hg("debugobsolete", project.hg("log", "-r", ".", "-T", "{node}"))
    project.hg("update", "-q", "main")
    project.commit("four")
    assert "(run 'hg update' to get a working copy)" in project.hg("pull")


def test_orphans_are_told_of_after_bookmarks(project: Project) -> None:
    project.rewrite()
    project.commit("theirs", branch="aside")
    said = project.hg("pull")
    orphans = "1 new orphan changesets\n"
    assert "bookmark aside" in said.partition(orphans)[0]
    assert "new changesets" in said.partition(orphans)[2]


def test_malformed_gitmodules_are_named(project: Project) -> None:
    wrong = project.commit(".gitmodules", "<<<<<<< HEAD\n")
    project.commit("other")
    project.commit(".gitmodules", '[submodule "x"]\n\tpath = x\n\turl = y\n')
    said = project.clone()
    assert said.count("warning: failed to parse .gitmodules in ") == 1
    assert f"in {wrong[:12]}\n" in said


def test_own_gitmodules_are_warned_of_once(project: Project) -> None:
    warning = (
        "warning: ignoring modifications to '.gitmodules' file; please use '.hgsub'"
    )
    project.clone()
    (project.root / ".gitmodules").write_text("")
    project.hg("commit", "-A", "-q", "-m", "modules")
    assert warning in project.hg("push")
    assert b".gitmodules" not in git(project.upstream, "ls-tree", "main")
    (project.root / "more").write_text("")
    project.hg("commit", "-A", "-q", "-m", "more")
    assert warning not in project.hg("push")
    (project.root / ".gitmodules").write_text("again")
    project.hg("commit", "-q", "-m", "again")
    assert warning in project.hg("gexport")
    assert warning not in project.hg("push")


def test_suffixes_refuse_names_of_bookmarks(project: Project) -> None:
    """Nobody can tell whether the name of a branch or of a bookmark is meant."""
    suffix = ("--config", "git.branch_bookmark_suffix=_git")
    project.clone(*suffix)
    code, said = project.run("push", "-B", "main_git", *suffix)
    assert code == 255
    assert "the -B/--bookmarks option is not supported when" in said
