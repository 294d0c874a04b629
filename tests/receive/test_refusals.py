"""Commits that are refused: each line of the list, pushed by real git.

The list is that of commits which git-cinnabar loses, or fails on, and of what git
refuses (``receive.fsckObjects``). What is refused can never be fetched, and others of
the push are accepted. A problem in the content of a file ends the whole push.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import git, hg
from testlib.pushing import Clone, PushServer, pushable
from testlib.randomcommits import EMPTY_TREE, GitObjects, write_object

pytestmark = pytest.mark.slow

IDENTITY = "the name or address cannot be written back as it is"
DATE = "the date cannot be written back as it is"
GIT = "git itself refuses the tree"
#: What commits have: the server's sentence; empty if they are accepted.
COMMITS: dict[str, tuple[dict[str, bytes], str]] = {
    "signed": ({"headers": b"gpgsig a\n b\n"}, "the commit is signed"),
    "encoding": ({"headers": b"encoding koi8-r\n"}, "the message has an encoding"),
    "mergetag": ({"headers": b"mergetag object\n x\n"}, "the commit has another head"),
    "at-name": ({"author": b"n@x <> 1 +0000"}, IDENTITY),
    "two-spaces": ({"author": b"A <a@x>  1 +0000"}, IDENTITY),
    "minutes": ({"author": b"A <a@x> 1 +0060"}, DATE),
    "minus-0": ({"author": b"A <a@x> 1 -0000"}, DATE),
    "backslash": ({"committer": b"A\\B <a@x> 1 +0000"}, "the committer contains a ba"),
    "no-space": ({"author": b"A<a@x> 1 +0000"}, IDENTITY),
    "zeros": ({"author": b"A <a@x> 01 +0000"}, DATE),
    "nested": ({"author": b"A <<a@x>> 1 +0000"}, IDENTITY),
    "bracket": ({"author": b"A > B <a@x> 1 +0000"}, IDENTITY),
    "nobody": ({"author": b"<a@x> 1 +0000"}, IDENTITY),
    "no-mail": ({"author": b"A 1 +0000"}, IDENTITY),
    "long-zone": ({"author": b"A <a@x> 1 +051800"}, DATE),
    "negative": ({"author": b"A <a@x> -1 +0000"}, DATE),
    "overflow": ({"author": b"A <a@x> 18446744073709551615 +0000"}, DATE),
    "no-zone": ({"author": b"A <a@x> 1"}, DATE),
    "no-date": ({"author": b"A <a@x>"}, DATE),
    "authors": (
        {"headers": b"author A <a@x> 1 +0000\n"},
        "the commit object is malfor",
    ),
    "late": ({"author": b"A <a@x> 2147483648 +0000"}, ""),
    "no-name": ({"author": b" <> 1 +0000"}, ""),
    "spaces": ({"author": b"  A  B <a@x> 1 +0000"}, ""),
    "author-backslash": ({"author": b"A\\B <a@x> 1 +0000"}, ""),
    "bytes": ({"message": bytes(range(256))}, ""),
    "no-message": ({"message": b""}, ""),
}
#: Entries of trees, and the server's sentence.
TREES: dict[str, tuple[list[tuple[bytes, bytes]], str]] = {
    "submodule": ([(b"100644", b"a"), (b"160000", b"sub")], "the tree has a submodule"),
    "group-write": ([(b"100664", b"a")], "a file has a mode that Mercurial cannot st"),
    "line-feed": ([(b"100644", b"a\nb")], "Mercurial refuses a path"),
    "return": ([(b"100644", b"a\rb")], "Mercurial refuses a path"),
    "dot-hg": ([(b"100644", b".hg")], "Mercurial refuses a path"),
    "padded": ([(b"0100644", b"a")], "a file has a mode that Mercurial cannot store"),
    "unsorted": ([(b"100644", b"b"), (b"100644", b"a")], GIT),
    "twice": ([(b"100644", b"a"), (b"100644", b"a")], GIT),
    "dot": ([(b"100644", b".")], GIT),
    "dots": ([(b"100644", b"..")], GIT),
    "dot-git": ([(b"100644", b".gIt")], GIT),
    "slash": ([(b"100644", b"a/b")], GIT),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushServer]:
    with pushable(tmp_path_factory.mktemp("refusing")) as served:
        yield served
        served.check()


@pytest.fixture(scope="module")
def clone(server: PushServer) -> Clone:
    return server.clone()


@pytest.fixture
def objects(clone: Clone) -> GitObjects:
    return GitObjects(clone.root / ".git")


def all_objects(server: PushServer) -> set[str]:
    listing = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return {*git(server.store, *listing).decode().split()}


def test_each_commit_has_its_sentence(
    server: PushServer, clone: Clone, objects: GitObjects
) -> None:
    """All in one push: a branch each."""
    base = clone.head()
    expected = {
        name: (objects.commit(base, **given), sentence)  # type: ignore[arg-type]
        for name, (given, sentence) in COMMITS.items()
    }
    for name, (entries, sentence) in TREES.items():
        for below in ("", "-below"):
            tree = objects.tree(*entries)
            if below:
                tree = objects.tree((b"40000", b"dir", tree))
            expected[name + below] = objects.commit(base, tree=tree), sentence
    inner = objects.tree((b"40000", b"b", EMPTY_TREE))
    tree = objects.tree((b"40000", b"a", inner))
    text = "the tree has an empty directory"
    expected["empty"] = objects.commit(base, tree=tree), text
    sides = [objects.commit(base, message=it) for it in (b"1", b"2")]
    octopus = objects.commit(base, *sides)
    expected["octopus"] = octopus, "the commit has more than two parents"
    above = objects.commit(octopus, tree=objects.tree((b"100644", b"a")))
    expected["above"] = above, f"commit {octopus[:12]} cannot be pushed: the commit has"
    expected["sides"] = objects.commit(*sides), ""

    refs = [f"{oid}:refs/heads/{name}" for name, (oid, _text) in expected.items()]
    said = clone.refused(*refs)
    there = all_objects(server)
    shown = server.hg("bookmarks", "-T", "{bookmark}\n").split()
    answers = [(it.split(" (")[0], it) for it in said.splitlines()]
    for name, (oid, sentence) in expected.items():
        lines = [line for head, line in answers if head.endswith(f" {name}")]
        assert len(lines) == 1, (name, said)
        is_refused = "[remote rejected]" in lines[0]
        assert is_refused == bool(sentence), lines
        assert sentence in lines[0]
        if sentence and name != "above":
            assert f"commit {oid[:12]} cannot be pushed" in lines[0]
        assert (oid in there) == (name in shown) == (not sentence), name
    for name, path in (("padded", "a"), ("dot-git-below", "dir/.gIt")):
        oid, sentence = expected[name]
        lines = [line.rstrip() for line in said.splitlines()]
        assert f"remote: commit {oid[:12]}: {sentence}: {path}" in lines
    clone.git("fetch", "-q")
    for name, (oid, sentence) in expected.items():
        if not sentence:
            assert clone.git("rev-parse", f"origin/{name}") == oid


#: Commands in refusals.
REMEDY = re.compile(r"git rebase -f -r (--[a-z-]+ )?([0-9a-f]+~?|--root)")
REMEDIED_TREES = {"group-write", "padded", "unsorted"}


def test_remedies_of_refusals_remedy_them(
    server: PushServer, clone: Clone, objects: GitObjects
) -> None:
    """Of commits below others, of a root, and of a merge."""
    base = clone.head()
    bad = {
        name: objects.commit(base, **given)  # type: ignore[arg-type]
        for name, (given, sentence) in COMMITS.items()
        if sentence and sentence != IDENTITY
    }
    for name in REMEDIED_TREES:
        tree = objects.tree((b"40000", b"dir", objects.tree(*TREES[name][0])))
        bad[name] = objects.commit(base, tree=tree)
    signed = COMMITS["signed"][0]
    bad["root"] = objects.commit(**signed)  # type: ignore[arg-type]
    tree = objects.tree((b"100644", b"one"), (b"100644", b"two"))
    sides = [
        objects.commit(base, tree=objects.tree((b"100644", it)))
        for it in (b"one", b"two")
    ]
    bad["merge"] = objects.commit(*sides, tree=tree, **signed)
    refs = []
    for name, oid in bad.items():
        clone.git("checkout", "-qf", "--detach", oid)
        refs.append(f"{clone.commit(f'above-{name}')}:refs/heads/mend-{name}")
    said = clone.refused(*refs)
    mended = []
    for ref in refs:
        tip, _colon, name = ref.partition(":refs/heads/")
        (line,) = [it for it in said.splitlines() if f" {name} (" in it]
        found = REMEDY.search(line)
        assert found, line
        clone.git("checkout", "-qf", "--detach", tip)
        clone.git(*found[0].split()[1:])
        mended.append(f"{clone.head()}:refs/heads/{name}")
    clone.pushed(*mended)
    clone.git("checkout", "-qf", "--detach", base)


def test_remedy_of_a_merge_leaves_the_commits_of_others(
    tmp_path: Path,
) -> None:
    """A side branch has the signed commit; the other parent is somebody else's."""
    with pushable(tmp_path) as server:
        clone = server.clone()
        given = COMMITS["signed"][0]
        signed = GitObjects(clone.root / ".git").commit(
            clone.head(),
            **given,  # type: ignore[arg-type]
        )
        other = server.clone("other").commit("theirs")
        server.existing("other").pushed("default")
        clone.git("pull", "-q", "--ff-only")
        clone.git("merge", "-q", "--no-ff", "-m", "merge", signed)
        found = REMEDY.search(clone.refused("default"))
        assert found
        assert found[2] == other[:12]
        clone.git(*found[0].split()[1:])
        clone.pushed("default")
        server.check()


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [(b"100644", "gitmodulesUrl"), (b"120000", "gitmodulesSymlink")],
)
def test_what_git_finds_in_a_file_ends_the_push(
    server: PushServer, clone: Clone, objects: GitObjects, mode: bytes, sentence: str
) -> None:
    before = server.log()
    content = b'[submodule "a"]\npath = a\nurl = -u./a\n'
    blob = write_object(objects.path, "blob", content)
    tree = objects.tree((mode, b".gitmodules", blob))
    oid = objects.commit(clone.head(), tree=tree)
    said = clone.refused(f"{oid}:refs/heads/bad")
    assert sentence in said
    assert "bad (unpacker error)" in said
    assert server.log() == before
    assert oid not in all_objects(server)


def test_content_like_metadata_of_mercurial_comes_back(
    server: PushServer, clone: Clone
) -> None:
    base = clone.head()
    clone.commit("marks", {"one": "\1\n", "two": "\1\na: b\n\1\ntext"})
    clone.pushed("HEAD:refs/heads/marks")
    again = server.clone("marks")
    assert again.git("rev-parse", "origin/marks") == clone.head()
    shown = hg(server.root, "cat", "-r", "marks", str(server.root / "two"))
    assert shown == b"\1\na: b\n\1\ntext"
    clone.git("reset", "-q", "--hard", base)
