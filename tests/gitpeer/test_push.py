"""Pushes to git repositories: which branches move, and which refusals are said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.gitclone import Clone, cloned
from testlib.githost import Behaviour, HostedRepository, git_host

pytestmark = pytest.mark.slow

EVOLUTION = ("--config", "experimental.evolution=all")
DEFAULT, FEATURE = "refs/heads/default", "refs/heads/feature"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[HostedRepository]:
    """A repository with two branches, of which ``default`` is checked out."""
    with git_host(tmp_path / "host") as host:
        made = host.add("project.git")
        made.edit(DEFAULT, "one")
        made.edit(DEFAULT, "two")
        made.git("branch", "feature", "default~1")
        made.edit(FEATURE, "aside")
        yield made


def commit(clone: Clone, subject: str, *args: str) -> str:
    """Commit a file on the active bookmark; return the node."""
    (clone.root / subject).write_text(subject)
    clone.hg("commit", "-A", "-q", "-m", subject, *args)
    return clone.hg("log", "-r", ".", "-T", "{node}")


def subjects(project: HostedRepository, ref: str) -> list[str]:
    return project.git("log", "--format=%s", ref).splitlines()


def test_only_branches_of_the_remote_move(
    tmp_path: Path, project: HostedRepository
) -> None:
    clone = cloned(tmp_path, project)
    assert clone.run("push")[0] == 1
    commit(clone, "mine")
    clone.hg("bookmark", "private")
    commit(clone, "hidden")
    clone.hg("tag", "-l", "local")
    before = project.refs()
    assert "updating branch default" in clone.hg("push")
    after = project.refs()
    assert {ref for ref in after if after[ref] != before.get(ref)} == {DEFAULT}
    assert subjects(project, DEFAULT) == ["mine", "two", "one"]
    assert clone.hg("log", "-r", "default", "-T", "{phase} {gitbranches}") == (
        "public default/default"
    )
    assert clone.hg("log", "-r", "private", "-T", "{phase}") == "draft"
    assert "no changes found" in clone.hg("pull")
    # only what is below
    clone.hg("update", "-q", "feature")
    commit(clone, "more")
    assert clone.run("push", "-r", "private")[0] == 1
    assert "updating branch feature" in clone.hg("push", "-r", "feature")
    # and by name
    code, output = clone.run("push", "-r", "private", "-r", "default")
    assert (code, "no changes found" in output) == (1, True)
    assert "adding branch private" in clone.hg("push", "-B", "private")
    assert subjects(project, "private")[0] == "hidden"
    clone.hg("bookmark", "-d", "private")
    assert "deleting branch private" in clone.hg("push", "-B", "private")
    assert project.refs().keys() == before.keys()
    assert clone.run("push", "-B", "private")[0] == 255


def test_ids_are_those_of_the_next_clone(
    tmp_path: Path, project: HostedRepository
) -> None:
    clone = cloned(tmp_path, project)
    node = commit(clone, "mine")
    clone.hg("push")
    (tmp_path / "second").mkdir()
    second = cloned(tmp_path / "second", project)
    assert second.hg("log", "-r", "default", "-T", "{node}") == node
    commit(second, "theirs")
    second.hg("push")
    clone.hg("pull", "-u")
    assert clone.hg("log", "-r", ".", "-T", "{desc}") == "theirs"


def test_nothing_of_others_is_lost(tmp_path: Path, project: HostedRepository) -> None:
    clone = cloned(tmp_path, project)
    theirs = project.edit(DEFAULT, "theirs")
    commit(clone, "mine")
    clone.hg("update", "-q", "feature")
    commit(clone, "free")
    code, output = clone.run("push")
    assert code == 2
    assert output.splitlines()[1:] == [
        "branch 'default' is not pushed: "
        f"the remote has commit {theirs[:12]}, which is not here",
        "(pull first, and merge or rebase)",
        "updating branch feature",
    ]
    assert project.refs()[DEFAULT] == theirs
    assert "default@default" in clone.hg("pull")
    code, output = clone.run("push", "-B", "default")
    assert code == 2
    assert "it would lose 1 changesets" in output
    clone.hg("update", "-q", "default")
    clone.hg("merge", "-q", "default@default")
    clone.hg("commit", "-q", "-m", "both")
    clone.hg("push")
    assert subjects(project, DEFAULT)[0] == "both"
    project.rewind(DEFAULT)
    clone.hg("update", "-q", "default~1")
    clone.hg("bookmark", "-q", "-f", "default")
    commit(clone, "instead")
    assert "updating branch default" in clone.hg("push", "-f", "-B", "default")
    assert subjects(project, DEFAULT)[0] == "instead"


def test_an_amended_draft_replaces_its_predecessor(
    tmp_path: Path, project: HostedRepository
) -> None:
    clone = cloned(tmp_path, project, "-u", "feature")
    commit(clone, "first")
    clone.hg("push")
    (clone.root / "first").write_text("again")
    clone.hg("commit", "--amend", "-m", "second", *EVOLUTION)
    clone.hg("push", *EVOLUTION)
    assert subjects(project, FEATURE)[:2] == ["second", "aside"]
    # but not with what somebody else has put on it
    theirs = project.edit(FEATURE, "theirs")
    clone.hg("pull", "-q", *EVOLUTION)
    clone.hg("update", "-q", "-C", "desc(second)", *EVOLUTION)
    (clone.root / "first").write_text("third")
    clone.hg("commit", "--amend", "-q", "-m", "third", *EVOLUTION)
    clone.hg("bookmark", "-f", "-q", "feature", *EVOLUTION)
    code, output = clone.run("push", "-B", "feature", *EVOLUTION)
    assert (code, "it would lose 2 changesets" in output) == (2, True)
    assert project.refs()[FEATURE] == theirs


def test_secret_and_obsolete_changesets_stay(
    tmp_path: Path, project: HostedRepository
) -> None:
    clone = cloned(tmp_path, project)
    before = project.refs()
    commit(clone, "hidden", "--secret")
    code, output = clone.run("push")
    assert code == 2
    assert "is secret" in output
    clone.hg("phase", "-d", ".")
    old = clone.hg("log", "-r", ".", "-T", "{node}")
    commit(clone, "child")
    clone.hg("update", "-q", old)
    clone.hg("commit", "--amend", "-q", "-m", "other", *EVOLUTION)
    code, output = clone.run("push", "-B", "default", *EVOLUTION)
    assert (code, "is obsolete, or on top" in output) == (2, True)
    assert project.refs() == before


def test_the_remote_says_why(tmp_path: Path, project: HostedRepository) -> None:
    clone = cloned(tmp_path, project)
    commit(clone, "mine")
    clone.hg("bookmark", "new")
    project.behaviour = Behaviour(protected=(DEFAULT,))
    code, output = clone.run("push", "-B", "default", "-B", "new")
    assert code == 2
    assert "GH006: Protected branch update failed" in output
    assert "(the remote does not allow it; ask who runs it)" in output
    assert "adding branch new" in output
    project.behaviour = Behaviour(status=403)
    code, output = clone.run("push")
    assert code == 255
    assert output.splitlines()[-1] == (
        f"(see whether 'git ls-remote {project.url}' works)"
    )
    # the answer was lost: the next push sees what there is
    project.behaviour = Behaviour(loses_answer=True)
    code, output = clone.run("push")
    assert code in (2, 255)
    project.behaviour = Behaviour()
    assert "no changes found" in clone.run("push")[1]
    assert subjects(project, DEFAULT)[0] == "mine"


def test_tags_are_pushed_where_asked(tmp_path: Path, project: HostedRepository) -> None:
    clone = cloned(tmp_path, project)
    tags = ("--config", "amalgam.git.push-tags=yes")
    clone.hg("tag", "v1")
    clone.hg("tag", "-l", "local")
    clone.hg("push")
    before = project.refs()
    assert "adding tag v1" in clone.hg("push", *tags)
    after = project.refs()
    assert after.keys() - before.keys() == {"refs/tags/v1"}
    assert after["refs/tags/v1"] == project.git("rev-parse", "default~1")
    assert "no changes found" in clone.run("push", *tags)[1]
    assert "no changes found" in clone.hg("pull")
    # secret ones stay, and those of the remote do not move
    project.git("tag", "v2", "feature")
    clone.hg("tag", "v2", "-r", "default")
    clone.hg("bookmark", "wip")
    commit(clone, "hidden", "--secret")
    clone.hg("tag", "v3")
    before = project.refs()
    oid = before[FEATURE][:12]
    code, output = clone.run("push", *tags)
    assert code == 2
    assert output.splitlines()[1:] == [
        f"tag 'v2' is not pushed: the remote has it on commit {oid}",
        "(tags of git do not move; use another name)",
        "updating branch default",
    ]
    assert project.refs().keys() == before.keys()


def test_new_branches_are_made_where_asked(
    tmp_path: Path, project: HostedRepository
) -> None:
    clone = cloned(tmp_path, project)
    clone.hg("bookmark", "first")
    commit(clone, "mine")
    clone.hg("bookmark", "second")
    commit(clone, "next")
    assert "no changes found" in clone.run("push")[1]
    assert "adding branch first" in clone.hg("push", "--new-branch", "-r", "first")
    assert "adding branch second" in clone.hg("push", "--new-branch")
    code, output = clone.run("push", "-b", "second")
    assert code == 255
    assert output.splitlines()[-2:] == [
        "abort: unknown branch 'second'",
        "(branches of git are bookmarks here: hg push -B second)",
    ]
