"""Translation of ids: ``git::id``, ``gitnode()`` and ``{gitnode}``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mercurial import registrar, ui as uimod
from testlib.environment import ENVIRONMENT, HG, captured
from testlib.exported import Exported
from testlib.hgserver import HgServer, Outcome

from hgext3rd.amalgam import compat
from hgext3rd.amalgam.core import errors
from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore import ids
from hgext3rd.amalgam.gitstore.oidmap import MapFiles, OidMap, Side, Table
from hgext3rd.amalgam.trust import Trust

AMALGAM = ["--config", "extensions.amalgam="]


def run_with(
    stdin: str, repo: Exported, *args: str
) -> subprocess.CompletedProcess[bytes]:
    """Run hg in a process of its own, with something to read."""
    command = [str(HG), *AMALGAM, *args]
    return captured(command, repo.root, input=stdin.encode())


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Exported:
    """Sixty changesets: many a digit begins several ids."""
    store = Exported.init(tmp_path_factory.mktemp("ids") / "repo", server)
    store.hg("debugbuilddag", "+60")
    store.hg("update", "-q", "tip")
    options = ["--config", "ui.allowemptycommit=yes", "--secret", "-d", "61 0"]
    store.hg("commit", "-qm", "secret", *options)
    store.hg("git::export")
    return store


@pytest.fixture(scope="module")
def known(repo: Exported) -> list[tuple[str, str]]:
    """Node and oid of what is exported."""
    template = "{ifeq(gitnode, '', '', '{node} {gitnode}\n')}"
    listed = repo.hg("log", "-r", "all()", "-T", template)
    pairs = [(line.split()[0], line.split()[1]) for line in listed.splitlines()]
    assert len(pairs) == 60
    return pairs


@pytest.fixture
def oidmap(repo: Exported) -> OidMap:
    path = bytes(repo.map_dir)
    maps = MapFiles(Directory(path), Trust.of(uimod.ui(), path, path))
    return maps.open(repo.named("segments"))


def test_every_abbreviation_means_what_begins_with_it(
    oidmap: OidMap, known: list[tuple[str, str]]
) -> None:
    every = [id_ for pair in known for id_ in pair]
    other = {mine: yours for pair in known for mine, yours in (pair, pair[::-1])}
    asked = [id_[:digits] for id_ in every for digits in (1, 2, 3, 4, 7, 12, 39, 40)]
    for id_, meanings in zip(
        asked, ids.translate(oidmap, [id_.encode() for id_ in asked]), strict=True
    ):
        expected = [full for full in every if full.startswith(id_)]
        found = [meaning.given.hex() for meaning in meanings]
        assert set(found) <= set(expected)
        assert bool(len(found) > 1) == bool(len(expected) > 1), id_
        if len(expected) == 1:
            assert found == expected
            assert meanings[0].other.hex() == other[expected[0]]


def test_case_does_not_matter_and_nonsense_means_nothing(
    oidmap: OidMap, known: list[tuple[str, str]]
) -> None:
    node, oid = (id_.encode() for id_ in known[7])
    nonsense = [b"", b"x", b"12 ", b"0" * 40, b"0" * 41, b"g" * 40, b"\xff" * 40]
    answers = ids.translate(oidmap, [node.upper(), oid[:12].upper(), *nonsense])
    assert [len(meanings) for meanings in answers] == [1, 1] + [0] * len(nonsense)
    assert answers[0][0].asked is Side.NODE
    assert answers[1][0].asked is Side.OID


def test_all_pairs_are_listed_once(
    oidmap: OidMap, known: list[tuple[str, str]]
) -> None:
    listed = b"".join(pairs for pairs, _count in oidmap.pairs(Table.CHANGESETS))
    pairs = [
        (listed[at : at + 20].hex(), listed[at + 20 : at + 40].hex())
        for at in range(0, len(listed), 40)
    ]
    assert sorted(pairs) == sorted(known)


def test_ids_of_the_command_line_are_translated_in_order(
    repo: Exported, known: list[tuple[str, str]]
) -> None:
    (node0, oid0), (node1, oid1) = known[:2]
    said = repo.hg("git::id", oid1, node0, oid0[:12], node1[:12])
    assert said.split() == [node1, oid0, node0, oid1]


def test_one_id_that_is_not_known_is_all_that_is_said(
    repo: Exported, known: list[tuple[str, str]]
) -> None:
    done = repo.run("git::id", "0123456789", "-T", "json")
    assert done == repo.run("log", "-r", "0123456789")
    assert done == Outcome(10, b"", b"abort: unknown revision '0123456789'\n")


def test_ambiguous_id_is_told_as_hg_tells_it(
    repo: Exported, known: list[tuple[str, str]]
) -> None:
    prefixes = [node[0] for node, _oid in known]
    digit = next(digit for digit in prefixes if prefixes.count(digit) > 1)
    done = repo.run("git::id", digit)
    said, hint = done.err.decode().splitlines()
    assert done.code == 10
    assert said == f"abort: ambiguous revision identifier: {digit}"
    assert hint.startswith(f"(it may be changeset {digit}")


def test_changeset_that_does_not_leave_is_named_so(repo: Exported) -> None:
    node = repo.hg("log", "-r", "secret()", "-T", "{node}")
    hint = f"(changeset {node[:12]} may not be exported)"
    expected = f"abort: unknown revision '{node[:14]}'\n{hint}\n"
    assert repo.run("git::id", node[:14]).err.decode() == expected


def test_stdin_is_answered_line_by_line(
    repo: Exported, known: list[tuple[str, str]]
) -> None:
    node, oid = known[0]
    lines = [node, "nothing", "", oid, node[:1], known[1][1][:12]]
    done = run_with("\n".join(lines), repo, "git::id", "--stdin")
    assert done.returncode == 1
    said = done.stdout.decode().splitlines()
    assert said[:4] == [oid, "nothing unknown", " unknown", node]
    assert said[4] == f"{node[:1]} ambiguous"
    assert said[5:] == [known[1][0]]


def test_stdin_is_answered_while_it_is_open(
    repo: Exported, known: list[tuple[str, str]]
) -> None:
    command = [str(HG), *AMALGAM, "git::id", "--stdin"]
    with subprocess.Popen(
        command,
        cwd=repo.root,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        for node, oid in known[:3]:
            process.stdin.write(f"{node}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == f"{oid}\n"
        process.stdin.close()
        assert process.wait() == 0


def test_json_has_both_sides(repo: Exported, known: list[tuple[str, str]]) -> None:
    node, oid = known[3]
    done = run_with(f"{oid}\nxyz\n", repo, "git::id", "-T", "json", "--stdin")
    assert json.loads(done.stdout) == [
        {"id": oid, "status": "found", "node": node, "gitnode": oid},
        {"id": "xyz", "status": "unknown", "node": "", "gitnode": ""},
    ]


@pytest.mark.parametrize("args", [[], ["--stdin", "12"]])
def test_ids_come_from_one_place(repo: Exported, args: list[str]) -> None:
    assert repo.run("git::id", *args).code == 10


def test_gitnode_selects_in_revsets(
    repo: Exported, known: list[tuple[str, str]]
) -> None:
    for oid in (known[5][1], known[5][1][:12]):
        found = repo.hg("log", "-r", f"gitnode({oid})", "-T", "{node}")
        assert found == known[5][0]
    assert repo.hg("log", "-r", f"gitnode({known[5][0]})") == ""
    assert repo.hg("log", "-r", "gitnode('no hex')") == ""
    one = f"gitnode({known[5][1][:12]}) and 4"
    assert repo.hg("log", "-r", one) == ""


def test_gitnode_shows_no_hidden_changeset(
    repo: Exported, tmp_path: Path, known: list[tuple[str, str]]
) -> None:
    clone = Exported(tmp_path / "clone", repo.server)
    repo.hg("clone", "-q", "-U", "--pull", str(repo.root), str(clone.root))
    clone.hg("phase", "--draft", "--force", "-r", "59")
    clone.hg("git::export")
    markers = ["--config", "experimental.evolution=createmarkers"]
    clone.hg("debugobsolete", known[59][0], "--record-parents", *markers)
    assert clone.hg("log", "-r", f"gitnode({known[59][1]})") == ""
    query = f"gitnode({known[59][1]})"
    hidden = clone.hg("log", "--hidden", "-r", query, "-T", "{rev}")
    assert hidden == "59"


def test_git_agrees_on_the_ids(repo: Exported, known: list[tuple[str, str]]) -> None:
    listed = repo.git("rev-list", "--reverse", "refs/heads/default")
    assert listed.split() == [oid for _node, oid in known]


def test_many_ids_are_answered_by_few_calls(
    oidmap: OidMap, known: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    call = errors.call

    def count(function: Any, *args: Any) -> None:
        calls.append(function)
        call(function, *args)

    monkeypatch.setattr(errors, "call", count)
    asked = [id_.encode() for pair in known for id_ in pair]
    for digits in (40, 12):
        few = [id_[:digits] for id_ in asked]
        ids.translate(oidmap, few)
        once, calls[:] = list(calls), []
        answers = ids.translate(oidmap, few * 50)
        assert calls == once
        calls.clear()
        assert all(len(meanings) == 1 for meanings in answers)


def test_names_left_to_others_are_not_safe_by_us() -> None:
    table = registrar.revsetpredicate()
    table(b"gitnode(id)", safe=True)(lambda repo, subset, x: subset)
    compat.withdraw(table, b"gitnode")
    assert b"gitnode" not in table._table
    assert b"gitnode" not in getattr(table, "_safe_set", ())
