"""What an export says besides what it did: nothing that is left out goes unsaid."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from mercurial import hg as hgmod, ui as uimod
from testlib.environment import HG, captured
from testlib.exported import Exported
from testlib.hgserver import HgServer, Outcome

from hgext3rd.amalgam.gitstore.export import warnings
from hgext3rd.amalgam.gitstore.export.warnings import DifferenceKind


@pytest.fixture
def repo(tmp_path: Path, server: HgServer) -> Exported:
    """Return a repository with three drafts, and no export."""
    server.hg(tmp_path, "init", "repo")
    made = Exported(tmp_path / "repo", server)
    for name in ("zero", "one", "two"):
        commit(made, name)
    return made


def commit(repo: Exported, name: str, *options: str, text: str = "text\n") -> None:
    path = repo.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    repo.hg("commit", "-qAm", name, "-d", "0 0", *options)


def export(repo: Exported, *options: str) -> Outcome:
    return repo.run("git::export", *options)


def as_json(repo: Exported, *options: str) -> dict[str, Any]:
    (said,) = json.loads(repo.run("git::export", "-T", "json", *options).out)
    return dict(said)


def test_place_is_told_when_something_was_done(repo: Exported) -> None:
    line = f"git repository: {repo.git_dir}\n".encode()
    assert line in export(repo).out
    assert export(repo).out == b"nothing new to export\n"
    assert export(repo, "-v").out == b"nothing new to export\n" + line
    assert export(repo, "-q").out == b""
    assert as_json(repo)["path"] == str(repo.git_dir)


@pytest.mark.parametrize(
    ("prepare", "config", "said", "reason"),
    [
        (["phase", "-fs", "2"], (), b"1 secret changeset (%s)", "secret"),
        (["debugobsolete"], (), b"1 hidden changeset (%s)", "hidden"),
        (
            [],
            ("--config", "amalgam.git.export=public"),
            b"1 draft changeset (%s)",
            "draft",
        ),
    ],
)
def test_what_may_not_leave_is_named_with_the_reason(
    repo: Exported,
    prepare: list[str],
    config: tuple[str, ...],
    said: bytes,
    reason: str,
) -> None:
    node = repo.hg("log", "-r", "2", "-T", "{node}")
    evolution = ("--config", "experimental.evolution=all")
    if reason == "hidden":
        repo.hg("update", "-q", "0")
        prepare = [*prepare, node, *evolution]
    if prepare:
        repo.hg(*prepare)
    if not config:
        repo.hg("phase", "--public", "0")
    options = ("--hidden", "-r", "2", *config, *evolution)
    done = export(repo, *options)
    assert done.code == 1
    assert done.out == b""
    first, hint = done.err.splitlines()
    assert first == b"warning: not exported: " + said % node[:12].encode()
    assert hint.startswith(b"(")
    left_out = [{"reason": reason, "nodes": [node]}]
    assert as_json(repo, *options)["left_out"] == left_out
    # others of the given ones leave
    if not config:
        done = export(repo, *options, "-r", "1")
        assert done.code == 0
        assert first in done.err
        assert b"exported 2 changesets" in done.out


def test_revset_that_is_empty_is_told(repo: Exported) -> None:
    done = export(repo, "-r", "none()")
    assert done.code == 0
    assert done.err == b"warning: not exported: -r/--rev names no changesets\n"


def test_changesets_without_a_ref_are_counted(repo: Exported) -> None:
    repo.hg("update", "-q", "0")
    commit(repo, "other")
    commit(repo, "another")
    repo.hg("update", "-q", "2")
    commit(repo, "tip")
    said = export(repo).out
    assert b"no ref leads to 2 changesets in 1 head\n" in said
    assert b"amalgam.git.refs" in said
    found = as_json(repo)
    assert (found["unreachable"], found["unreachable_heads"]) == (2, 1)
    named = export(repo, "--config", "amalgam.git.refs=tips, heads")
    assert b"no ref" not in named.out
    found = as_json(repo, "--config", "amalgam.git.refs=tips, heads")
    assert (found["unreachable"], found["unreachable_heads"]) == (0, 0)


def test_part_without_a_ref_is_counted(repo: Exported) -> None:
    said = export(repo, "-r", "1").out
    assert b"no ref leads to 2 changesets in 1 head\n" in said


def test_unreachable_ones_are_those_of_the_plain_definition(tmp_path: Path) -> None:
    random.seed(1)
    ui = uimod.ui.load()
    repo = hgmod.repository(ui, bytes(tmp_path / "repo"), create=True)
    text = "+1 " + " ".join(
        f"*{random.randrange(1, number + 1)}"
        if random.random() < 0.2
        else f"*{random.randrange(1, number + 1)}/{random.randrange(1, number + 1)}"
        if random.random() < 0.2
        else "+1"
        for number in range(1, 400)
    )
    captured([HG, "-R", tmp_path / "repo", "debugbuilddag", text], check=True)
    repo = hgmod.repository(ui, bytes(tmp_path / "repo")).unfiltered()
    changelog = repo.changelog
    heads = changelog.headrevs()
    assert len(heads) > 10
    for count in (0, 1, 2, 5, len(heads)):
        for _time in range(5):
            named = random.sample(heads, count) + random.sample(range(len(repo)), count)
            left = set(changelog.ancestors(heads, inclusive=True))
            left -= set(changelog.ancestors(named, inclusive=True))
            parents = {p for rev in left for p in changelog.parentrevs(rev)}
            left_heads = left - parents
            node = changelog.node
            found = warnings._unreachable(repo, map(node, heads), map(node, named))
            assert found == (len(left), len(left_heads))


def test_refs_that_go_are_counted(repo: Exported) -> None:
    repo.hg("bookmark", "-r", "0", "zero")
    export(repo)
    repo.hg("bookmark", "-d", "zero")
    assert b"1 ref changed, 1 of them deleted\n" in export(repo).out
    repo.git("update-ref", "refs/heads/theirs", "refs/heads/default")
    found = as_json(repo)
    assert (found["refs"], found["deleted"]) == (1, 1)


def test_drafts_that_are_converted_again_are_explained(
    tmp_path: Path, server: HgServer
) -> None:
    server.hg(tmp_path, "init", "many")
    repo = Exported(tmp_path / "many", server)
    repo.hg("debugbuilddag", "+600")
    export(repo)
    repo.hg("phase", "--force", "--secret", "tip")
    done = export(repo)
    expected = b"1 exported draft gone, so all drafts were converted again\n"
    assert expected in done.out
    assert b"(publish changesets that are final, see 'hg help phases')\n" in done.out


def test_drafts_that_go_are_counted(repo: Exported) -> None:
    export(repo)
    repo.hg("commit", "--amend", "-qm", "two once more", "-d", "0 0")
    found = as_json(repo)
    assert (found["gone"], found["changesets"]) == (1, 3)
    assert as_json(repo)["gone"] == 0


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        (".GIT~1/x", None, b""),
        (
            "a/.Git/config",
            DifferenceKind.REFUSED,
            b"git refuses to check out commits with 1 file, because of",
        ),
        ("git~1", DifferenceKind.REFUSED, b"git refuses to check out commits with 1"),
        ("a\\.git\\x", DifferenceKind.REFUSED, b"git refuses to check out commits"),
        (".hgsub", DifferenceKind.SUBREPOSITORIES, b"subrepositories are not exported"),
        (
            ".hglf/large",
            DifferenceKind.LARGEFILES,
            b"1 file of largefiles exported as",
        ),
    ],
)
def test_file_that_git_shows_otherwise_is_named_when_it_is_new(
    repo: Exported, name: str, kind: DifferenceKind | None, said: bytes
) -> None:
    export(repo)
    commit(repo, name, text="")
    done = export(repo)
    assert done.code == 0
    if kind is None:
        assert not done.err
        return
    assert done.err.startswith(b"warning: " + said)
    assert name.encode() in done.err
    hints = [it for it in done.err.splitlines() if it.startswith(b"(rename them; ")]
    assert len(done.err.splitlines()) == 1 + len(hints)
    assert len(hints) == (kind is DifferenceKind.REFUSED)
    # known now, whatever becomes of it
    repo.commit(name, text="# more\n", message="more")
    assert not export(repo).err
    (group,) = as_json(repo, "--rebuild")["different"]
    assert group == {"kind": kind.value, "files": 1, "example": name}


def test_many_changesets_are_looked_at_by_the_names_in_the_store(
    repo: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".hglf/a.i/b", ".hglf/c", "d/.hgsub", "d/.GIT/x"):
        commit(repo, name)
    commit(repo, ".hglf/secret", "--secret")
    monkeypatch.setattr(warnings, "_FEW_CHANGESETS", 0)
    opened = repo.open()
    found = warnings.different_files(opened, 0, [7])
    assert [tuple(it) for it in found] == [
        (DifferenceKind.REFUSED, 1, b"d/.GIT/x"),
        (DifferenceKind.LARGEFILES, 2, b".hglf/a.i/b"),
    ]
    found = warnings.different_files(opened, 4, [7])
    assert [tuple(it)[1:] for it in found] == [(1, b"d/.GIT/x"), (1, b".hglf/c")]


def test_pointers_of_lfs_are_named(repo: Exported, own_server: HgServer) -> None:
    repo = Exported(repo.root, own_server)
    lfs = ("--config", "extensions.lfs=", "--config", "lfs.track=size('>100')")
    export(repo)
    commit(repo, "small", *lfs)
    assert not export(repo, *lfs).err
    commit(repo, "large", *lfs, text="x" * 1000)
    said = b"warning: 1 file in LFS exported as pointers of git-lfs, "
    said += b"without contents: "
    assert export(repo, *lfs).err == said + b"large\n"


def test_unknown_ids_do_not_withhold_the_others(repo: Exported) -> None:
    export(repo)
    node, oid = repo.ids("tip")
    done = repo.run("git::id", node, "f" * 40, "1" * 40)
    assert done.code == 1
    assert done.out == f"{oid}\n".encode()
    said = [line for line in done.err.splitlines() if not line.startswith(b"(")]
    assert said == [
        b"warning: unknown revision '%s'" % (b"f" * 40),
        b"warning: unknown revision '%s'" % (b"1" * 40),
    ]
    done = repo.run("git::id", "-T", "json", node, "f" * 40)
    assert done.code == 1
    assert [item["status"] for item in json.loads(done.out)] == ["found", "unknown"]


def test_amend_is_no_alarm_and_a_secret_is_one(repo: Exported) -> None:
    export(repo)
    repo.hg("commit", "--amend", "-qm", "two again", "-d", "0 0")
    done = repo.run("admin::amalgam")
    assert done.code == 0
    line = b"  exported      2 of 3 changesets, 1 behind, 1 gone since (run 'hg git::"
    assert line in done.out
    (said,) = json.loads(repo.run("admin::amalgam", "-T", "json").out)
    assert (said["behind"], said["gone"], said["problems"]) == (1, 1, [])
    export(repo)
    repo.hg("phase", "-fs", "tip")
    assert repo.run("admin::amalgam").code == 1


def test_refs_behind_are_no_more_than_there_are(repo: Exported) -> None:
    repo.hg("bookmark", "-r", "0", "zero")
    export(repo, "-r", "none()")
    done = repo.run("admin::amalgam")
    assert b"  exported      0 of 3 changesets, 3 behind (run" in done.out
    assert b"  refs          none of 2\n" in done.out
    (said,) = json.loads(repo.run("admin::amalgam", "-T", "json").out)
    assert (said["refs"], said["refs_behind"]) == (2, 2)
