"""Names of git refs; git itself says which it allows."""

from __future__ import annotations

import subprocess
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from testlib.environment import ENVIRONMENT, captured, git, hg
from testlib.small import STORE, commit, repository

from hgext3rd.amalgam.gitstore.git import refs

PLAIN = rb"a b A / // . .. .lock lock @ { @{ ~ ^ : ? * [ \ % %2F %20 - HEAD branches"
ODD = (b" ", b"\t", b"\x01", b"\x7f", b"\xe9", "\N{SNOWMAN}".encode())
PARTS = st.sampled_from([*PLAIN.split(), *ODD])
NAMES = st.lists(PARTS, min_size=1, max_size=6).map(b"".join)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("bare")
    git(path, "init", "-q", "--bare", ".")
    tree = git(path, "hash-object", "-w", "-t", "tree", "/dev/null").decode().strip()
    return path, git(path, "commit-tree", "-m", "x", tree).decode().strip()


@settings(max_examples=60, deadline=None)
@given(names=st.sets(NAMES, max_size=40))
def test_distinct_names_are_refs_that_can_exist_together(
    bare: tuple[Path, str], names: set[bytes]
) -> None:
    path, oid = bare
    found = refs.distinct({name: name for name in names})

    assert set(found) == names
    assert len(set(found.values())) == len(names)
    # one transaction: git refuses all if it refuses a name, or one hides another
    create = b"".join(
        b"create refs/heads/%s\0%s\0" % (ref, oid.encode()) for ref in found.values()
    )
    delete = create.replace(b"create", b"delete")
    for commands in (create, delete):
        done = captured(["git", "update-ref", "--stdin", "-z"], path, input=commands)
        assert done.returncode == 0, (done.stderr, found)


@settings(max_examples=80, deadline=None)
@given(name=NAMES)
def test_a_name_changes_only_if_git_refuses_it(name: bytes) -> None:
    (ref,) = refs.distinct({name: name}).values()
    asked = [b"git", b"check-ref-format", b"refs/heads/" + name]
    is_legal = subprocess.run(asked, env=ENVIRONMENT).returncode == 0
    is_legal &= name.split(b"/")[0] != b"HEAD"  # which clones take for another thing

    assert (ref == name) == is_legal
    # what was escaped can be read back
    assert is_legal or b"%" in name or urllib.parse.unquote_to_bytes(ref) == name


def test_the_longer_of_two_names_gives_way() -> None:
    names = [b"a", b"a/b", b"a/b/c", b"ab/c"]
    found = refs.distinct({name: name for name in names})
    assert [found[name] for name in names] == [b"a", b"a%2Fb", b"a%2Fb%2Fc", b"ab/c"]


def test_of_two_names_that_become_one_the_changed_one_changes_more() -> None:
    found = refs.distinct({name: name for name in (b"a b", b"a%20b")})
    assert found == {b"a%20b": b"a%20b", b"a b": b"%61%20b"}


def test_a_branch_makes_way_for_a_bookmark_of_its_name(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    hg(repo, "branch", "-q", "topic")
    commit(repo, "two")
    hg(repo, "bookmark", "-r", "0", "--force", "topic")
    hg(repo, "git::export")

    assert named(repo) == {
        "refs/heads/branches/topic": "two",
        "refs/heads/default": "one",
        "refs/heads/topic": "one",
    }
    assert head(repo) == "refs/heads/default"


def test_names_are_in_utf8_in_any_locale(tmp_path: Path) -> None:
    """A web server may run hgweb in the locale ``C``, and users export in theirs."""
    repo = repository(tmp_path / "repo")
    utf8 = ("--encoding", "utf-8")
    hg(repo, "branch", "-q", "z\xfcrich", *utf8)
    commit(repo, "two")
    hg(repo, "tag", "-q", "-r", "0", "gr\xfcn", "-d", "0 0", "-m", "tagged", *utf8)
    hg(repo, "update", "-q", "1")
    commit(repo, "other")
    for bookmark in ("caf\xe9", "caf\xe8", "\u65e5\u672c"):
        hg(repo, "bookmark", "-q", "-r", "1", bookmark, *utf8)
    node = hg(repo, "log", "-r", "2", "-T", "{node}").decode()
    expected = {
        **dict.fromkeys(("caf\xe9", "caf\xe8", "\u65e5\u672c"), "two"),
        **{"default": "one", "z\xfcrich": "other"},
    }
    expected = {f"refs/heads/{name}": text for name, text in expected.items()}
    expected |= {
        "refs/tags/gr\xfcn": "one",
        f"refs/hg/heads/z\xfcrich/{node}": "tagged",
    }
    refs_asked = "amalgam.git.refs=bookmarks,tags,tips,heads"
    for encoding in ("ascii", "latin-1", "utf-8"):
        hg(repo, "git::export", "--config", refs_asked, "--encoding", encoding)
        assert named(repo) == expected, encoding


def test_closed_branches_and_local_tags_have_no_ref(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    hg(repo, "branch", "-q", "old")
    commit(repo, "two")
    hg(repo, "commit", "-q", "--close-branch", "-m", "closed", "-d", "0 0")
    hg(repo, "update", "-q", "default")
    hg(repo, "tag", "--local", "-r", "1", "mine")
    hg(repo, "tag", "-r", "0", "v1", "-d", "0 0", "-m", "tagged")
    hg(repo, "git::export")

    assert named(repo) == {"refs/heads/default": "tagged", "refs/tags/v1": "one"}


def test_other_heads_are_shown_to_clients_while_they_are_named(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    hg(tmp_path, "init", "repo")
    for name in ("one", "two"):
        (repo / name).touch()
        hg(repo, "update", "-q", "null")
        hg(repo, "commit", "-qAm", name, "-d", "0 0")
    with_heads = ("--config", "amalgam.git.refs=tips, heads")

    def shown() -> list[str]:
        lines = git(repo, "ls-remote", str(repo / STORE)).decode().splitlines()
        return [line.split("\t")[1].rpartition("/")[0] for line in lines]

    hg(repo, *with_heads, "git::export")
    assert shown() == ["", "refs/heads", "refs/hg/heads/default"]
    hg(repo, "git::export")
    assert shown() == ["", "refs/heads"]
    settings = git(repo / STORE, "config", "--get-all", "transfer.hideRefs")
    assert settings == b"refs/cinnabar\nrefs/hg\n"
    git(repo / STORE, "config", "--add", "transfer.hideRefs", "refs/mine")
    hg(repo, *with_heads, "git::export")
    assert shown() == ["", "refs/heads", "refs/hg/heads/default"]


def test_other_heads_are_named_on_request(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    commit(repo, "two")
    hg(repo, "update", "-q", "0")
    commit(repo, "three")
    node = hg(repo, "log", "-r", "1", "-T", "{node}").decode()
    hg(repo, "--config", "amalgam.git.refs=tips, heads", "git::export")

    assert named(repo) == {
        "refs/heads/default": "three",
        f"refs/hg/heads/default/{node}": "two",
    }


def test_refs_follow_bookmarks_and_tags(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    commit(repo, "two")
    hg(repo, "bookmark", "-r", "0", "with space")
    hg(repo, "bookmark", "-r", "0", "@")
    hg(repo, "git::export")
    assert named(repo) == {
        "refs/heads/@": "one",
        "refs/heads/default": "two",
        "refs/heads/with%20space": "one",
    }
    assert head(repo) == "refs/heads/@"

    hg(repo, "bookmark", "-r", "1", "--force", "@")
    hg(repo, "bookmark", "--delete", "with space")
    hg(repo, "git::export")
    assert named(repo) == {"refs/heads/@": "two", "refs/heads/default": "two"}


def test_a_tag_that_moved_or_went_is_followed(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    commit(repo, "two")
    tag = ["tag", "-d", "0 0", "-m", "tagged"]
    hg(repo, *tag, "-r", "0", "v1")
    hg(repo, *tag, "-r", "0", "v2 (final)")
    hg(repo, "git::export")
    expected = {"refs/heads/default": "tagged", "refs/tags/v1": "one"}
    assert named(repo) == expected | {"refs/tags/v2%20(final)": "one"}

    hg(repo, *tag, "--force", "-r", "1", "v1")
    hg(repo, *tag, "--remove", "v2 (final)")
    hg(repo, "git::export")
    assert named(repo) == expected | {"refs/tags/v1": "two"}


def test_head_is_the_branch_of_the_tip_if_there_is_no_default(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    hg(tmp_path, "init", str(repo))
    hg(repo, "branch", "-q", "main")
    commit(repo, "one")
    hg(repo, "branch", "-q", "topic [1]")
    commit(repo, "two")
    hg(repo, "git::export")
    assert named(repo) == {"refs/heads/main": "one", "refs/heads/topic%20%5B1]": "two"}
    assert head(repo) == "refs/heads/topic%20%5B1]"


def test_what_is_not_served_has_no_ref(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    hg(repo, "branch", "-q", "whispers")
    (repo / "two").write_text("two\n")
    hg(repo, "commit", "-qAm", "two", "-d", "0 0", "--secret")
    hg(repo, "bookmark", "psst")
    hg(repo, "git::export", "--config", "amalgam.git.refs=bookmarks,tips,heads,tags")
    assert named(repo) == {"refs/heads/default": "one"}


def test_only_what_is_asked_for_becomes_a_ref(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    hg(repo, "tag", "-r", "0", "v1", "-d", "0 0", "-m", "tagged")
    hg(repo, "bookmark", "-r", "0", "mark")
    for kinds, expected in (
        ("tags", {"refs/tags/v1": "one"}),
        ("bookmarks", {"refs/heads/mark": "one"}),
        ("tips", {"refs/heads/default": "tagged"}),
        ("", {}),
    ):
        hg(repo, "git::export", "--config", f"amalgam.git.refs={kinds}")
        assert named(repo) == expected


def test_an_empty_repository_has_no_refs(tmp_path: Path) -> None:
    hg(tmp_path, "init", "repo")
    hg(tmp_path / "repo", "git::export")
    assert named(tmp_path / "repo") == {}
    assert head(tmp_path / "repo") == "refs/heads/default"
    git(tmp_path, "clone", "-q", str(tmp_path / "repo" / STORE), "clone")


def test_without_tips_head_is_a_branch_that_git_users_have(tmp_path: Path) -> None:
    """``default`` is none then, and cannot be pushed."""
    repo = repository(tmp_path / "repo")
    for bookmark, expected in (("x", "main"), ("master", "master"), ("main", "main")):
        hg(repo, "bookmark", "-r", "0", bookmark)
        hg(repo, "git::export", "--config", "amalgam.git.refs=bookmarks")
        assert head(repo) == f"refs/heads/{expected}"


def named(repo: Path) -> dict[str, str]:
    """Return the refs that users see: name to the first line of the description."""
    lines = git(repo / STORE, "for-each-ref", "--format=%(refname)%09%(subject)")
    refs = dict(line.split("\t") for line in lines.decode().splitlines())
    refs.pop("refs/cinnabar/metadata", None)
    return refs


def head(repo: Path) -> str:
    return git(repo / STORE, "symbolic-ref", "HEAD").decode().strip()


LONG = (
    "x" * 251,
    "d" * 251 + "/x",
    "/".join(["y" * 240] * 9),
    "a/" + "z" * 249,
    "^" * 84,
)


def test_names_that_not_every_clone_can_have_are_left_out(tmp_path: Path) -> None:
    """One would make each fetch fail, in git 2.55 for all other refs, too."""
    repo = repository(tmp_path / "repo")
    hg(repo, "branch", "-q", "B" * 251)
    commit(repo, "two")
    hg(repo, "tag", "-q", "-r", "0", "t" * 251, "-d", "0 0", "-m", "tagged")
    at_most = ("x" * 250, "d" * 250 + "/x", "^" * 83, "/".join(["y" * 240] * 8))
    # the slash of the second one is three bytes then
    for name in (*LONG, *at_most, "a"):
        hg(repo, "bookmark", "-q", "-r", "0", name)
    refs_asked = "--config=amalgam.git.refs=bookmarks,tags,tips,heads"
    said = hg(repo, "git::export", refs_asked).decode()
    clone = tmp_path / "clone"
    git(tmp_path, "init", "-q", "clone")
    git(clone, "fetch", "-q", str(repo / STORE), "refs/*:refs/remotes/origin/*")
    fetched = git(clone, "for-each-ref", "--format=%(refname:lstrip=4)").decode()
    legal = [name.replace("^", "%5E") for name in at_most]
    assert sorted(fetched.split()) == sorted([*legal, "a", "default"])
    start = f"7 names too long for git, without a ref: {'B' * 40}...\n"
    assert start + "(rename them: at most 250 bytes between slashes, and 2048" in said
    hg(repo, "git::verify")
    assert "nothing new" in hg(repo, "git::export", refs_asked).decode()


@pytest.mark.parametrize("name", ["", " \t"])
def test_tag_without_a_name_has_no_ref(tmp_path: Path, name: str) -> None:
    """Whoever may change ``.hgtags`` could make every clone fail."""
    repo = repository(tmp_path / "repo")
    node = hg(repo, "log", "-r", "0", "-T", "{node}").decode()
    (repo / ".hgtags").write_text(f"{node} {name}\n{node} v1\n")
    hg(repo, "commit", "-qAm", "tagged", "-d", "0 0")
    assert "too long" not in hg(repo, "git::export").decode()
    assert named(repo) == {"refs/heads/default": "tagged", "refs/tags/v1": "one"}
    git(tmp_path, "clone", "-q", str(repo / STORE), "clone")
    hg(repo, "git::verify")
