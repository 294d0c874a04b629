"""The survey of a git repository, compared with what really comes back from Mercurial.

The oracles: ``testlib.pushed`` converts commits as a push has to, stock hg checks every
node, and an export must give the same commits. Names of files are compared with
Mercurial's ``pathauditor`` and ``git fsck``.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mercurial import error, pathutil, scmutil
from testlib.environment import ENVIRONMENT, ROOT, hg
from testlib.mirrors import ids, write_object
from testlib.pushed import Pushed
from testlib.randomcommits import EMPTY_TREE, PLAIN, GitObjects, change, write_tree
from testlib.small import run_hg, said

VECTORS = ROOT / "tests" / "vectors" / "git-push"


class Repository(GitObjects):
    """A bare git repository that can be surveyed."""

    def survey(self, *args: str) -> dict[str, Any]:
        """Return what a survey tells as JSON."""
        return survey(self.path, *args)


def survey(path: Path, *args: str) -> dict[str, Any]:
    """Survey a repository, and check that the numbers fit."""
    done = run_hg(Path("/"), "git::survey", "-T", "json", "--commits", str(path), *args)
    assert done.returncode in (0, 1), said(done)
    (found,) = json.loads(done.stdout)
    assert done.returncode == bool(found["refused"])
    assert found["survivors"] + found["refused"] == found["commits"]
    counted = Counter(it["reason"] for it in found["refusals"])
    assert counted == {it["reason"]: it["commits"] for it in found["findings"]}
    for finding in found["findings"]:
        reasons = [(it["commit"], it["reason"]) for it in found["refusals"]]
        first = next(oid for oid, reason in reasons if reason == finding["reason"])
        assert finding["first"] == first
    return dict(found)


def reasons(found: dict[str, Any]) -> dict[str, str]:
    """Return the reasons of refused commits."""
    return {it["commit"]: it["reason"] for it in found["refusals"]}


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "project.git")


# the headers of commits: what they are, the reason, and what of them is shown
COMMITS: dict[str, tuple[dict[str, Any], str | None, str]] = {
    "signed": ({"headers": b"gpgsig a\n b\n"}, "signature", "gpgsig"),
    "signed-256": ({"headers": b"gpgsig-sha256 a\n"}, "signature", "gpgsig-sha256"),
    "encoding": ({"headers": b"encoding koi8-r\n"}, "encoding", "encoding koi8-r"),
    "mergetag": ({"headers": b"mergetag object\n x\n"}, "header", "mergetag"),
    "of-hg": ({"headers": b"HG:rename a\n"}, "header", "HG:rename"),
    "at-name": ({"author": b"n@x <> 1 +0000"}, "identity", "n@x <> 1 +0000"),
    "no-space": ({"author": b"A<a@x> 1 +0000"}, "identity", "A<a@x> 1 +0000"),
    "no-name": ({"author": b"<a@x> 1 +0000"}, "identity", "<a@x> 1 +0000"),
    "two-spaces": ({"author": b"A <a@x>  1 +0000"}, "identity", "A <a@x>  1 +0000"),
    "zeros": ({"author": b"A <a@x> 01 +0000"}, "date", "A <a@x> 01 +0000"),
    "after": ({"author": b"A <a@x> b 1 +0000"}, "identity", "A <a@x> b 1 +0000"),
    "nested": ({"author": b"A <<a@x>> 1 +0000"}, "identity", "A <<a@x>> 1 +0000"),
    "zone-0": ({"author": b"A <a@x> 1 -0000"}, "date", "A <a@x> 1 -0000"),
    "zone-60": ({"author": b"A <a@x> 1 +0060"}, "date", "A <a@x> 1 +0060"),
    "zone-long": ({"author": b"A <a@x> 1 +051800"}, "date", "A <a@x> 1 +051800"),
    "negative": ({"author": b"A <a@x> -1 +0000"}, "date", "A <a@x> -1 +0000"),
    "no-zone": ({"author": b"A <a@x> 1"}, "date", "A <a@x> 1"),
    "late": ({"author": b"A <a@x> 4294967296 +0000"}, None, ""),
    "empty-names": ({"author": b" <> 1 +0000"}, None, ""),
    "spaces": ({"author": b"  A  B <a@x> 1 +0000"}, None, ""),
    "author-backslash": ({"author": b"A\\B <a@x> 1 +0000"}, None, ""),
    "backslash": (
        {"committer": b"A\\B <a@x> 1 +0000"},
        "backslash",
        "A\\B <a@x> 1 +0000",
    ),
    "bytes": ({"message": bytes(range(256))}, None, ""),
    "no-message": ({"message": b""}, None, ""),
    "odd-zone": ({"committer": b"A <a@x> 1 +0025"}, "date", "A <a@x> 1 +0025"),
    "control": ({"author": b"\x1b[31m<a> 1 +0000"}, "identity", "\x1b[31m<a> 1 +0000"),
}


@pytest.mark.parametrize("name", COMMITS)
def test_commit_has_its_reason(repo: Repository, name: str) -> None:
    given, reason, detail = COMMITS[name]
    oid = repo.commit(**given)
    repo.branch("main", oid)
    found = repo.survey()
    assert reasons(found) == ({oid: reason} if reason else {})
    assert [it["detail"] for it in found["findings"]] == [detail] * bool(reason)


def test_commit_without_a_blank_line_is_malformed(repo: Repository) -> None:
    content = b"tree %s\nauthor %s\ncommitter %s\n" % (
        *(EMPTY_TREE.encode(), PLAIN, PLAIN),
    )
    oid = write_object(repo.path, "commit", content)
    repo.branch("main", oid)
    assert reasons(repo.survey()) == {oid: "malformed-commit"}


def test_merge_of_three_is_an_octopus(repo: Repository) -> None:
    parents = [repo.commit(message=b"%d" % number) for number in range(3)]
    repo.branch("main", repo.commit(*parents))
    repo.branch("two", repo.commit(*parents[:2]))
    repo.branch("same", repo.commit(*parents[:1], *parents[:1]))
    assert [*reasons(repo.survey()).values()] == ["octopus"]


# trees: entries, the reason, and what of them is shown
TREES: dict[str, tuple[list[tuple[bytes, bytes]], str, str]] = {
    "submodule": ([(b"100644", b"a"), (b"160000", b"sub")], "submodule", "sub"),
    "group-write": ([(b"100664", b"a")], "mode", "a"),
    "no-mode": ([(b"644", b"a")], "mode", "a"),
    "unsorted": ([(b"100644", b"b"), (b"100644", b"a")], "malformed-tree", "a"),
    "twice": ([(b"100644", b"a"), (b"100644", b"a")], "malformed-tree", "a"),
    "slash": ([(b"100644", b"a/b")], "malformed-tree", "a/b"),
    "dots": ([(b"100644", b"..")], "malformed-tree", ".."),
    "line-feed": ([(b"100644", b"a\nb")], "path", "a\nb"),
    "return": ([(b"100644", b"a\rb")], "path", "a\rb"),
    "dot-hg": ([(b"100644", b".hg")], "path", ".hg"),
}


@pytest.mark.parametrize("below", ["", "dir/"])
@pytest.mark.parametrize("name", TREES)
def test_tree_has_its_reason(repo: Repository, name: str, below: str) -> None:
    entries, reason, detail = TREES[name]
    tree = repo.tree(*entries)
    if below:
        tree = repo.tree((b"100644", b"a"), (b"40000", b"dir", tree))
    oid = repo.commit(tree=tree)
    repo.branch("main", oid)
    found = repo.survey()
    assert reasons(found) == {oid: reason}
    assert found["findings"][0]["detail"] == below + detail


def test_empty_directory_is_refused_and_an_empty_root_is_not(repo: Repository) -> None:
    empty = write_object(repo.path, "tree", b"")
    root = repo.commit(tree=empty)
    inner = repo.tree((b"40000", b"b", empty))
    oid = repo.commit(root, tree=repo.tree((b"40000", b"a", inner)))
    repo.branch("main", oid)
    found = repo.survey()
    assert reasons(found) == {oid: "empty-directory"}
    assert found["findings"][0]["detail"] == "a/b"


def test_directory_that_is_a_blob_is_malformed(repo: Repository) -> None:
    oid = repo.commit(tree=repo.tree((b"40000", b"a", repo.blob)))
    repo.branch("main", oid)
    assert reasons(repo.survey()) == {oid: "malformed-tree"}


def test_descendants_of_a_refused_commit_are_refused(repo: Repository) -> None:
    root = repo.commit()
    signed = repo.commit(root, headers=b"gpgsig a\n")
    child = repo.commit(signed)
    both = repo.commit(child, headers=b"encoding x\n")
    side = repo.commit(root, message=b"side")
    merge = repo.commit(side, both)
    repo.branch("main", merge)
    found = repo.survey()
    assert reasons(found) == {
        signed: "signature",
        child: "ancestor",
        both: "encoding",
        merge: "ancestor",
    }
    # what is left out of a range is taken to be in Mercurial
    assert repo.survey(f"{signed}..{child}")["refused"] == 0


def test_names_are_judged_as_mercurial_and_git_do(repo: Repository) -> None:
    draw = random.Random(21)
    parts = (
        *(b".", b"h", b"g", b"H", b"~", b"1", b"\xe2\x80\x8c", b"\xe2\x80", b"\x8d"),
        *(b"\xef\xbb\xbf", b"\r", b"\n", b" ", b"i", b"t", b"\\", b":", b"8b6c"),
    )
    names = {
        b".hg",
        b".HG.",
        b"hg~1",
        b"HG8B6C~12",
        b".git",
        b"GIT~1 ",
        b"\xef\xbb\xbf",
    }
    while len(names) < 400:
        names.add(b"".join(draw.choices(parts, k=draw.randint(1, 5))))
    expected: dict[str, str | None] = {}
    trees = {}
    for name in sorted(names):
        tree = repo.tree((b"100644", name))
        for path, inner in ((name, tree), (b"d/" + name, None)):
            inner = inner or repo.tree((b"40000", b"d", tree))
            oid = repo.commit(tree=inner, message=path)
            repo.branch(oid, oid)
            trees[oid] = tree, path
    refused = refused_by_git(repo)
    auditor = pathutil.pathauditor(b"/nowhere", realfs=False)
    for oid, (tree, path) in trees.items():
        expected[oid] = None
        if tree in refused:
            expected[oid] = "malformed-tree"
        elif is_refused(auditor, path):
            expected[oid] = "path"
    found = reasons(repo.survey())
    assert {oid: found.get(oid) for oid in expected} == expected
    assert len(set(expected.values())) == 3


def refused_by_git(repo: Repository) -> set[str]:
    """Return the objects in which git fsck finds something."""
    done = subprocess.run(
        ["git", "fsck", "--strict", "--no-dangling", "--no-progress"],
        cwd=repo.path,
        env=ENVIRONMENT,
        capture_output=True,
    )
    lines = (done.stderr + done.stdout).decode().splitlines()
    return {line.split()[3].rstrip(":") for line in lines if " in tree " in line}


def is_refused(auditor: pathutil.pathauditor, path: bytes) -> bool:
    """Tell whether Mercurial refuses a path."""
    try:
        auditor(path)
        scmutil.checkfilename(path)
    except error.InputError:
        return True
    return False


def pushed(root: Path, target: Path, *revs: str) -> tuple[Pushed, dict[str, str]]:
    """Push commits as the reference does; return it, and commits by nodes."""
    hg(target.parent, "init", str(target))
    reference = Pushed(root, *revs)
    reference.unbundle(target)
    assert b"warning" not in hg(target, "verify", "-q")
    hg(target, "git::export")
    return reference, ids(target)


@pytest.mark.parametrize("name", ["plain", "merges"])
def test_vectors_survive_and_come_back(tmp_path: Path, name: str) -> None:
    subprocess.run(
        ["sh", str(VECTORS / f"{name}.sh"), str(tmp_path / "made")],
        env=ENVIRONMENT | {"TZ": "UTC"},
        check=True,
        capture_output=True,
    )
    root = tmp_path / "made" / "g"
    reference, commits = pushed(root, tmp_path / "hg", "--all")
    lines = [
        line.split() for line in (VECTORS / f"{name}.txt").read_text().splitlines()
    ]
    assert {oid: it.node.hex() for oid, it in reference.changesets.items()} == {
        oid: node for oid, node, _manifest in lines
    }
    assert commits == {node: oid for oid, node, _manifest in lines}
    found = survey(root)
    assert (found["commits"], found["refused"]) == (len(lines), 0)


def test_odd_survivors_come_back(repo: Repository, tmp_path: Path) -> None:
    """What random histories are unlikely to have."""
    names = (b" lead", b"t.i", b"con", b"~" * 300, b"A", b"a", b"fncache")
    tree = repo.tree(*((b"100644", name) for name in sorted(names)))
    inner = repo.tree((b"100644", b"c"), (b"40000", b"u.hg", tree))
    first = repo.commit(tree=tree, message=b"")
    twice = repo.commit(first, first, tree=inner)
    late = repo.commit(twice, author=b"A <a> 9223372036854775807 +0000")
    odd = repo.commit(late, author=b"\t\r <a\\> 0 +9959", tree=inner, message=b"\0")
    last = repo.commit(odd, author=b"\xff <> 1 -9959", committer=b"x:y <q:r> 1 +1345")
    repo.branch("main", last)
    assert repo.survey()["refused"] == 0
    _reference, commits = pushed(repo.path, tmp_path / "hg", "--all")
    assert {*commits.values()} == {first, twice, late, odd, last}


# what the reference converts, but with a loss
LOST = [name for name, (_given, reason, _detail) in COMMITS.items() if reason]
LOST = [name for name in LOST if name not in ("negative", "no-zone", "backslash")]


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_exactly_the_survivors_of_a_random_history_come_back(
    tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    repo = Repository(tmp_path / "project.git")
    names = [name for name, (_given, reason, _detail) in COMMITS.items() if not reason]
    made: list[str] = []
    files: dict[str, dict[bytes, tuple[bytes, bytes]]] = {"": {}}
    for number in range(60):
        parents = draw.sample(
            made[-8:], min(len(made), draw.choice([0, 1, 1, 1, 2, 2]))
        )
        of_parents = [files[parent] for parent in parents] or [{}]
        tree = {path: it for one in of_parents for path, it in one.items()}
        change(tree, draw)
        # later ones only, so that there are survivors with descendants that are not
        odd = LOST if number > 20 and draw.random() < 0.1 else names
        given = dict(COMMITS[draw.choice(odd)][0])
        given["message"] = b"%d\n" % number + given.get("message", b"")
        oid = repo.commit(*parents, tree=write_tree(repo, tree), **given)
        made.append(oid)
        files[oid] = tree
        repo.branch(f"b{number}", oid)
    found = reasons(repo.survey())
    reference, commits = pushed(repo.path, tmp_path / "hg", "--all")
    back = {
        oid for oid, it in reference.changesets.items() if commits[it.node.hex()] == oid
    }
    assert back == set(made) - found.keys()
    assert back
    assert found


@pytest.mark.parametrize(("dialect", "whole"), [("cinnabar", 1), ("hggit", 2)])
def test_extras_of_a_range_are_those_of_a_push(
    repo: Repository, dialect: str, whole: int
) -> None:
    """Parents before the range have their trees; hg-git's have no ``.gitmodules``."""
    modules = b"100644", b".gitmodules"
    first = repo.commit(tree=repo.tree(modules))
    link = b"160000", b"sub"
    second = repo.commit(first, tree=repo.tree(modules, link))
    changed = *modules, write_object(repo.path, "blob", b"[x]\n")
    tree = repo.tree(changed, link)
    repo.branch("main", repo.commit(second, headers=b"mergetag x\n", tree=tree))

    def extras(*revs: str) -> tuple[int, int]:
        found = survey(repo.path, *revs, f"--config=amalgam.git.dialect={dialect}")
        assert found["exact_survivors"] == found["commits"]
        return found["commit_extras"], found["tree_extras"]

    assert extras("main") == (1, whole)
    assert extras(f"{second}..main") == (1, 0)
    assert extras(f"{first}..main") == (1, 1)
