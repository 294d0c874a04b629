"""Conversions of commits, compared with git-cinnabar's vectors and with the reference.

Stock hg takes each changegroup, so every node is checked, and verifies the repository.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from mercurial import error
from testlib.converted import Target
from testlib.environment import ENVIRONMENT, ROOT, git, hg
from testlib.mirrors import ids
from testlib.pushed import Pushed
from testlib.randomcommits import GitObjects
from testlib.randomhistories import History

from hgext3rd.amalgam.receive import convert

# what Mercurial stores
LONGEST_PATH = 5456
VECTORS = ROOT / "tests" / "vectors" / "git-push"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """An empty repository."""
    hg(tmp_path, "init", "target")
    return Target(tmp_path / "target")


@pytest.mark.parametrize("vector", ["plain", "merges"])
def test_vectors(vector: str, target: Target, tmp_path: Path) -> None:
    script = VECTORS / f"{vector}.sh"
    subprocess.run(["sh", str(script), "v"], cwd=tmp_path, env=ENVIRONMENT, check=True)
    root = tmp_path / "v" / "g"
    rows = [row.split() for row in script.with_suffix(".txt").read_text().splitlines()]
    made = target.push(root, *(commit for commit, *_rest in rows))
    assert dict(made.changesets) == {
        commit.encode(): node.encode() for commit, node, _manifest in rows
    }
    log = target.hg("log", "-T", "{node} {manifest}\n", "--debug").splitlines()
    manifests = {line.split()[0]: line.split(":")[-1] for line in log}
    assert manifests == {node: manifest for _commit, node, manifest in rows}
    target.hg("verify", "-q")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_are_as_the_reference_has_them(
    seed: int, target: Target, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    history = History(tmp_path / "project.git", draw)
    for _push in range(3):
        history.grow(draw.choice([1, 15, 30]))
        # all caches are too small
        target.push(history.repo.path, *history.heads(), memory_bytes=seed % 2 << 20)
    reference = Pushed(history.repo.path, "--all")
    expected = {oid: it.node.hex() for oid, it in reference.changesets.items()}
    assert target.known == expected
    assert "warning" not in target.hg("verify", "-q")
    target.export()
    assert ids(target.root) == {node: oid for oid, node in target.known.items()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(3))
def test_random_commits_on_a_history_of_mercurial(
    seed: int, target: Target, tmp_path: Path
) -> None:
    """Copies, branches and closed heads of hg; all commits come back by an export."""
    draw = random.Random(100 + seed)
    make_with_hg(target.root, draw)
    target.export()
    there = ids(target.root)
    target.known = {oid: node for node, oid in there.items()}
    store = target.root / ".hg/amalgam/git/cinnabar.git"
    git(tmp_path, "clone", "-q", "--bare", str(store), "project.git")
    history = History(tmp_path / "project.git", draw)
    history.learn(sorted(there.values()))
    for _push in range(2):
        history.grow(25)
        target.push(history.repo.path, *history.heads())
    assert "warning" not in target.hg("verify", "-q")
    target.export()
    assert ids(target.root) == {node: oid for oid, node in target.known.items()}


def make_with_hg(root: Path, draw: random.Random) -> None:
    """Commit with Mercurial: copies, renames, branches, closed heads, merges."""
    number = 0

    def commit(*args: str) -> None:
        nonlocal number
        number += 1
        (root / "f0").write_text(f"{number}\n")
        message, date = f"by hg {number}", f"{number} 0"
        hg(root, "commit", "-qAm", message, "-d", date, "-u", "h <h@x>", *args)

    (root / "d").mkdir()
    for name in ("f0", "f1", "d/f2", "d/f3"):
        (root / name).write_text(f"{name}\n")
    commit()
    hg(root, "copy", "f1", "f4")
    hg(root, "move", "d/f2", "f5")
    commit()
    for branch in ("st able", "other"):
        hg(root, "branch", "-q", branch)
        (root / "d" / "f3").write_text(f"{branch}\n")
        (root / "same").write_text("same\n")
        commit()
        if draw.random() < 0.5:
            hg(root, "copy", "f5", f"f{number + 10}")
            commit("--close-branch")
        hg(root, "update", "-q", "default")
    (root / "f1").write_text("changed\n")
    commit()
    hg(root, "merge", "-q", "other", "--tool", ":local")
    commit()


def test_refused_commits_are_told_and_nothing_is_written(
    target: Target, tmp_path: Path
) -> None:
    repo = GitObjects(tmp_path / "project.git")
    good = repo.commit()
    signed = repo.commit(good, headers=b"gpgsig x\n")
    after = repo.commit(signed, message=b"after\n")
    path = repo.commit(good, tree=repo.tree((b"100644", b".hg")))
    made = target.convert(repo.path, after, path)
    assert made.changesets == ()
    assert {(it.oid.decode(), it.reason.name, it.detail) for it in made.refused} == {
        (signed, b"signature", b"gpgsig"),
        (after, b"ancestor", b""),
        (path, b"path", b".hg"),
    }


def test_nothing_new_is_nothing(target: Target, tmp_path: Path) -> None:
    repo = GitObjects(tmp_path / "project.git")
    oid = repo.commit()
    target.push(repo.path, oid)
    made = target.convert(repo.path, oid)
    assert made == ((), (), b"02", (), False)


def test_repositories_with_tree_manifests_are_refused(tmp_path: Path) -> None:
    hg(tmp_path, "init", "target", "--config", "experimental.treemanifest=yes")
    repo = GitObjects(tmp_path / "project.git")
    with pytest.raises(convert.ConversionUnsupported) as caught:
        Target(tmp_path / "target").convert(repo.path, repo.commit())
    assert b"treemanifest" in caught.value.message
    assert caught.value.hint


def test_of_sources_of_a_copy_links_are_not_counted(
    target: Target, tmp_path: Path
) -> None:
    """As git does: a hundred links with the content come before the only file."""
    repo = GitObjects(tmp_path / "project.git")
    links = repo.tree(*((b"120000", b"l%03d" % number) for number in range(120)))
    files = repo.tree((b"100644", b"f"))
    old = (b"40000", b"a", links), (b"40000", b"b", files)
    before = repo.commit(tree=repo.tree(*old))
    after = repo.commit(before, tree=repo.tree(*old, (b"40000", b"c", files)))
    target.push(repo.path, after)
    assert target.hg("log", "-r", "tip", "-T", "{file_copies}") == "c/f (b/f)"
    found = git(
        repo.path, "diff-tree", "-r", "-C100%", "--find-copies-harder", before, after
    )
    assert found.split(b"\t")[1:] == [b"b/f", b"c/f\n"]


@pytest.mark.parametrize("longer", [0, 1])
def test_a_path_that_is_too_long_is_refused_where_it_is(
    longer: int, target: Target, tmp_path: Path
) -> None:
    repo = GitObjects(tmp_path / "project.git")
    innocent = repo.commit(tree=repo.tree((b"100644", b"a")))
    tree = repo.tree((b"100644", b"n" * (LONGEST_PATH + longer)))
    made = target.convert(repo.path, repo.commit(innocent, tree=tree))
    assert len(made.changesets) == 2 * (not longer)
    if made.changesets:
        target.unbundle(made)
        target.hg("verify")
    assert [(it.reason.name, it.detail) for it in made.refused] == longer * [
        (b"path", b"n" * 512)
    ]
    assert innocent.encode() not in {it.oid for it in made.refused}


def test_what_git_says_last_is_the_cause(target: Target, tmp_path: Path) -> None:
    """Its pipes close before it has ended."""
    repo = GitObjects(tmp_path / "project.git")
    commit = repo.commit(tree=repo.tree((b"100644", b"f")))
    program = tmp_path / "closing-git"
    program.write_text(
        "#!/bin/sh\n"
        'case " $* " in\n'
        '  *" --batch-command "*) exec >&-; cat > /dev/null\n'
        "    echo fatal: late >&2; exit 128;;\n"
        "esac\n"
        'exec git "$@"\n'
    )
    program.chmod(0o700)
    with pytest.raises(error.InputError) as caught:
        target.convert(repo.path, commit, program=bytes(program))
    assert caught.value.message == b"git cannot read what was pushed: late"


def test_a_commit_that_is_too_long_is_refused(target: Target, tmp_path: Path) -> None:
    repo = GitObjects(tmp_path / "project.git")
    good = repo.commit()
    long = repo.commit(good, message=b"m" * (8 << 20))
    after = repo.commit(long, message=b"after\n")
    made = target.convert(repo.path, after)
    assert [(it.oid.decode(), it.reason.name) for it in made.refused] == [
        (long, b"commit-size"),
        (after, b"ancestor"),
    ]
