"""Clones and pulls in the dialect of hg-git: bookmarks, names, and imported refs."""

from __future__ import annotations

import os
import shutil
from fnmatch import fnmatch
from pathlib import Path

import pytest
from testlib.environment import git
from testlib.hggitproject import Project

pytestmark = pytest.mark.slow


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


def test_malformed_gitmodules_of_a_merge_of_three_are_named(project: Project) -> None:
    """Its changesets but the last have no commit."""
    for branch in ("left", "right"):
        git(project.upstream, "branch", branch, "main~1")
        project.commit(branch, branch=branch)
    project.commit("four")
    project.dated("merge", "-q", "--no-commit", "left", "right")
    (project.upstream / ".gitmodules").write_text("<<<<<<< HEAD\n")
    git(project.upstream, "add", ".gitmodules")
    project.dated("commit", "-q", "-m", "octopus")
    octopus = git(project.upstream, "log", "-1", "--format=%h %p", "--abbrev=12")
    assert len(octopus.split()) == 4
    said = project.clone()
    assert said.count("warning: failed to parse .gitmodules in ") == 1
    assert f"in {octopus.split()[0].decode()}\n" in said


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


def test_tags_of_git_are_made_and_pushed(project: Project) -> None:
    project.clone()
    project.hg("tag", "--git", "-r", "aside", "v1")
    (project.root / "mine").write_text("mine")
    project.hg("commit", "-A", "-q", "-m", "mine")
    project.hg("tag", "--git", "-r", ".", "v2", "v3")
    assert {"v1=1", "v2=3", "v3=3"} <= project.names()
    assert not (project.root / ".hgtags").exists()
    said = project.hg("push")
    assert said.endswith(
        "".join(f"adding reference refs/tags/v{n}\n" for n in (1, 2, 3))
    )
    commit = project.hg("log", "-r", "tip", "-T", "{gitnode}")
    for repository in (project.upstream, project.root / ".hg/git"):
        assert git(repository, "rev-parse", "v2").decode().strip() == commit
    assert f"{project.hg('log', '-r', 'tip', '-T', '{node}')} v2" in (
        project.root / ".hg/git-tags"
    ).read_text().split("\n")


def test_a_tag_may_have_the_name_of_a_branch(project: Project) -> None:
    """To git, the lease of the one may mean the other, too."""
    project.clone()
    (project.root / "mine").write_text("mine")
    project.hg("commit", "-A", "-q", "-m", "mine")
    project.hg("tag", "--git", "-r", "aside", "refs/heads/main")
    assert "adding reference refs/tags/refs/heads/main\n" in project.hg("push")
    for ref, rev in (("heads/main", "tip"), ("tags/refs/heads/main", "aside")):
        oid = git(project.upstream, "rev-parse", f"refs/{ref}").decode().strip()
        assert project.hg("log", "-r", rev, "-T", "{gitnode}") == oid


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("v1",), "git tags require an explicit revision"),
        (("light", "--remove"), "cannot remove git tags"),
        (("light", "-r", "null"), "cannot remove git tags"),
        (("light", "-f", "-r", "0"), "cannot move git tags"),
        (("v1", "v1", "-r", "0"), "tag names must be unique"),
        (("v1", "-r", "0", "-m", "x"), "cannot specify both --git and --message"),
        (("v 1", "-r", "0"), "the name 'v 1' is not a valid git tag"),
        (("v\x1b", "-r", "0"), r"the name 'v\x1b' is not a valid git tag"),
        (("", "-r", "0"), "the name '' is not a valid git tag"),
        (("-r", "0", "--", "-d"), "the name '-d' is not a valid git tag"),
        (("main", "-r", "0"), "the name 'main' already exists"),
        (("light", "-r", "1"), "the name 'light' already exists"),
        (("v1", "-r", "secret()"), "changeset * has no commit in git"),
    ],
)
def test_tags_of_git_that_are_not_made(
    project: Project, options: tuple[str, ...], text: str
) -> None:
    project.clone()
    (project.root / "mine").write_text("mine")
    project.hg("commit", "-A", "-q", "-m", "mine", "--secret")
    before = project.names()
    code, said = project.run("tag", "--git", *options)
    assert code
    assert fnmatch(said.splitlines()[0], f"abort: {text}")
    assert project.names() == before


def test_the_other_dialect_has_no_option_for_tags(project: Project) -> None:
    project.clone("--config", "amalgam.git.dialect=cinnabar")
    other = ("--config", "amalgam.git.dialect=cinnabar")
    code, said = project.run("tag", "--git", "-r", "0", "v1", *other)
    assert code
    assert said.startswith("abort: this command of hg-git needs its dialect\n")


def test_a_moved_tag_does_not_replace_a_tag_object(project: Project) -> None:
    project.clone()
    project.hg("tag", "-f", "-r", "main", "heavy")
    assert "warning: not overwriting annotated tag 'heavy'\n" in project.hg("push")
    assert git(project.upstream, "cat-file", "-t", "heavy") == b"tag\n"


def test_changesets_of_tags_are_not_counted_as_unnamed(project: Project) -> None:
    commit = project.commit("four")
    git(project.upstream, "tag", "alone", commit)
    git(project.upstream, "reset", "-q", "--hard", "main~1")
    project.clone()
    code, said = project.run("push")
    assert (code, said.splitlines()[-1]) == (1, "no changes found")


def test_outgoing_and_a_push_need_all_commits_of_the_branch(project: Project) -> None:
    project.clone()
    project.commit("four")
    (project.root / "mine").write_text("mine")
    project.hg("commit", "-A", "-q", "-m", "mine")
    text = (
        "branch 'refs/heads/main' changed on the server,"
        " please pull and merge before pushing"
    )
    for command in ("outgoing", "push"):
        code, said = project.run(command)
        assert (code, said.splitlines()[-1]) == (255, f"abort: {text}")
    assert "remote: 1 or more incoming" in project.hg("summary", "--remote")


def test_one_remote_has_one_rule_for_public_refs(project: Project) -> None:
    project.clone("--config", "paths.default:hg-git.publish=no")
    again = ("--config", f"paths.again={project.upstream}")
    for given, code in (("yes", 255), ("no", 0), ("main", 255)):
        rule = ("--config", f"paths.again:hg-git.publish={given}")
        default = ("--config", "paths.default:hg-git.publish=no")
        found, said = project.run("pull", *again, *default, *rule)
        assert found == code, said
        if code:
            assert "(conflicting paths: again, default)" in said
    yes = ("--config", "paths.default:hg-git.publish=yes")
    said = project.hg("pull", "-v", *yes)
    assert (
        "publishing remote HEAD\npublishing tag heavy\npublishing tag light\n" in said
    )
    assert project.hg("log", "-r", "draft()", "-T", "{rev}") == ""


def _set_authors(project: Project, name: str) -> None:
    with (project.root / ".hg/hgrc").open("a") as file:
        file.write(f"\n[git]\nauthors = {name}\n")


def test_authors_have_the_names_of_a_file(project: Project) -> None:
    """As lines of hg-git's file say; changesets keep their users, commits their ids."""
    project.clone()
    authors = project.root / "authors"
    authors.write_text("# people\n\njoe = Joe <joe@x>\nann@x=Ann\nnobody =\n")
    _set_authors(project, "authors")
    for user in ("joe", "ann@x", "nobody", "else"):
        (project.root / "mine").write_text(user)
        project.hg("commit", "-A", "-q", "-u", user, "-m", user, "mine", "authors")
    project.hg("push")
    shown = git(project.upstream, "log", "--format=%an <%ae>|%cn <%ce>", "main", "-4")
    names = ["else <none@none>", " <none@none>", "Ann <none@none>", "Joe <joe@x>"]
    assert shown.decode().splitlines() == [f"{it}|{it}" for it in names]
    assert project.hg("log", "-r", "3", "-T", "{user}") == "joe"
    before = project.hg("log", "-T", "{gitnode}\n")
    authors.write_text("joe = Other <other@x>\n")
    project.hg("gexport")
    assert project.hg("log", "-T", "{gitnode}\n") == before
    for command in (("git::export", "--rebuild"), ("git::verify", "--full")):
        project.hg(*command, "--config", "phases.publish=no")
        assert project.hg("log", "-T", "{gitnode}\n") == before
    (project.root / "mine").write_text("more")
    project.hg("commit", "-q", "-u", "joe", "-m", "joe")
    project.hg("push")
    newest = git(project.upstream, "log", "--format=%an <%ae>", "main", "-2").decode()
    assert newest == "Other <other@x>\nelse <none@none>\n"
    assert "no changes found" in project.hg("pull")
    shutil.rmtree(project.root / ".hg/amalgam")
    project.hg("gexport")
    assert project.hg("log", "-r", ":6", "-T", "{gitnode}\n") == "".join(
        reversed(before.splitlines(keepends=True))
    )


def test_ids_stay_without_the_objects_of_hggit(project: Project) -> None:
    """The map alone does not tell the name of an author."""
    project.clone()
    shutil.rmtree(project.root / ".hg/git")
    authors = project.root / "authors"
    authors.write_text("joe = Joe <joe@x>\n")
    _set_authors(project, "authors")
    (project.root / "mine").write_text("mine")
    project.hg("commit", "-A", "-q", "-u", "joe", "-m", "mine", "mine")
    project.hg("push")
    before = project.hg("log", "-T", "{gitnode}\n")
    authors.write_text("")
    for command in (("git::export", "--rebuild"), ("git::verify", "--full")):
        project.hg(*command)
        assert project.hg("log", "-T", "{gitnode}\n") == before


def test_authors_do_not_count_without_the_files_of_hggit(project: Project) -> None:
    project.clone()
    files = ("--config", "amalgam.git.hggit-files=no")
    _set_authors(project, "nothing")
    (project.root / "mine").write_text("mine")
    project.hg("commit", "-A", "-q", "-u", "joe", "-m", "mine", "mine")
    project.hg("push", *files)
    shown = git(project.upstream, "log", "--format=%an", "main", "-1")
    assert shown == b"joe\n"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"joe\n", "has the line 'joe' (expected USER = NAME <EMAIL> in UTF-8)"),
        (b"a = b = c\n", "has the line 'a = b = c' *"),
        (b"a = b\0\n", r"has the line 'a = b\x00' *"),
        (b"a = b\xff\n", "has the line 'a = b\ufffd' *"),
        (b"a\x1b\n", r"has the line 'a\x1b' *"),
        (None, "cannot be read: No such file or directory"),
        ("directory", "cannot be read: not a file"),
        ("fifo", "cannot be read: not a file"),
        ("huge", "cannot be read: more than 16 MB"),
    ],
)
def test_files_of_authors_that_are_wrong(
    project: Project, content: bytes | str | None, text: str
) -> None:
    project.clone()
    path = project.root.parent / "authors"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "directory":
        path.mkdir()
    elif content == "fifo":
        os.mkfifo(path)
    elif content == "huge":
        path.touch()
        os.truncate(path, 1 << 34)
    (project.root / "mine").write_text("mine")
    project.hg("commit", "-A", "-q", "-m", "mine")
    before = git(project.upstream, "rev-parse", "main")
    code, said = project.run("push", "--config", f"git.authors={path}")
    assert code
    abort, hint = said.splitlines()[-2:]
    assert fnmatch(abort, f"config error: the file in git.authors {text}"), said
    assert hint.startswith(f"(correct '{path}'"), said
    assert git(project.upstream, "rev-parse", "main") == before


def test_names_of_authors_are_cleaned(project: Project) -> None:
    """As hg-git does, so that they cannot end a line of a commit."""
    project.clone()
    authors = project.root / "authors"
    authors.write_text("joe = a <b> <c@x>\nann = <\nsue = Sue <sue\n")
    _set_authors(project, "authors")
    for user in ("joe", "ann", "sue"):
        (project.root / "mine").write_text(user)
        project.hg("commit", "-A", "-q", "-u", user, "-m", user, "mine")
    project.hg("push")
    shown = git(project.upstream, "cat-file", "-p", "main~2").decode()
    assert "author a ext:(%20%3Cc%40x%3E) <b> " in shown
    shown = git(project.upstream, "log", "--format=%an <%ae>", "main", "-2").decode()
    assert shown == "Sue <sue>\n <>\n"
