"""Repositories that hg-git has left, and that amalgam goes on with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from testlib.environment import git
from testlib.gitclone import Clone
from testlib.hggitfiles import Moved
from testlib.randomcommits import GitObjects

from hgext3rd.amalgam.hggit import pushes

pytestmark = pytest.mark.slow

KEPT_APART = ("--config", "amalgam.git.hggit-files=no")


class Upstream:
    """A git repository with a signed commit, a tag object, and two branches."""

    def __init__(self, path: Path) -> None:
        self.objects = GitObjects(path)
        self.path = path
        self.tips = {"main": self.commit("one")}
        # a changeset does not give it back
        self.tips["main"] = self.commit(
            "odd", self.tips["main"], author=b"a <x> 0 -0000"
        )
        self.tips["other"] = self.commit("aside", self.tips["main"])
        self.tips["main"] = self.commit("two", self.tips["main"])
        for name, oid in self.tips.items():
            git(path, "update-ref", f"refs/heads/{name}", oid)
        git(path, "symbolic-ref", "HEAD", "refs/heads/main")
        git(path, "tag", "-a", "-m", "annotated", "v1", "main~1")

    def commit(self, text: str, *parents: str, author: bytes = b"a <x> 7 +0000") -> str:
        name = text.encode()
        tree = self.objects.tree((b"100644", b"a"), (b"100644", name))
        return self.objects.commit(
            *parents, tree=tree, message=name + b"\n", author=author
        )

    def grow(self, branch: str, text: str) -> str:
        """Add a commit to a branch; return it."""
        self.tips[branch] = self.commit(text, self.tips[branch])
        git(self.path, "update-ref", f"refs/heads/{branch}", self.tips[branch])
        return self.tips[branch]


@pytest.fixture
def moved(tmp_path: Path) -> Moved:
    return Moved(tmp_path / "moved", Upstream(tmp_path / "upstream.git").path)


@pytest.fixture
def upstream(tmp_path: Path, moved: Moved) -> Upstream:
    made = Upstream.__new__(Upstream)
    made.objects, made.path = GitObjects(moved.upstream), moved.upstream
    made.tips = {
        name: git(moved.upstream, "rev-parse", name).decode().strip()
        for name in ("main", "other")
    }
    return made


def test_ids_and_names_are_known_at_once(moved: Moved) -> None:
    before = moved.content()
    code, said = moved.run("log", "-r", "default/main", "-T", "{gitnode}\n")
    assert code == 0
    assert "going on with the ids of hg-git: 4 commits in" in said
    assert moved.ref("main") in said
    assert moved.ids() == moved.pairs()
    (node,) = moved.hg("log", "-r", "gittag('re:v')", "-T", "{node}\n").split()
    assert moved.pairs()[moved.ref("v1^{commit}")] == node
    assert "no changes found" in moved.run("incoming")[1]
    assert moved.hg("git::id", moved.ref("other")).strip() in moved.pairs().values()
    moved.hg("git::export")
    assert moved.ids() == moved.pairs()
    assert "no differences" in moved.hg("git::verify", "--full")
    assert moved.content() == before


def test_a_pull_fetches_only_what_is_new(moved: Moved, upstream: Upstream) -> None:
    """Objects that hg-git has are not asked for: they are gone at the remote."""
    new = upstream.grow("main", "three")
    blobs = git(upstream.path, "ls-tree", "-r", "main~2").decode().split()
    (upstream.path / "objects" / blobs[2][:2] / blobs[2][2:]).unlink(missing_ok=True)
    said = moved.hg("pull", "-u")
    assert "updating bookmark main" in said
    assert moved.ids()[new] == moved.hg("log", "-r", "main", "-T", "{node}")


@pytest.mark.parametrize("is_in_tree", [False, True])
def test_hggit_files_are_kept(
    moved: Moved, upstream: Upstream, is_in_tree: bool
) -> None:
    if is_in_tree:
        moved.move_into_tree()
    old = moved.pairs()
    pulled = upstream.grow("main", "three")
    moved.hg("pull", "-u")
    (moved.root / "mine").write_text("mine\n")
    moved.hg("commit", "-qAm", "mine", "-u", "me <m@x>")
    moved.hg("push")
    pushed = git(upstream.path, "rev-parse", "main").decode().strip()
    assert git(upstream.path, "rev-parse", "main^").decode().strip() == pulled
    assert moved.pairs() == old | {
        oid: moved.hg("log", "-r", f"gitnode({oid})", "-T", "{node}")
        for oid in (pulled, pushed)
    }
    for ref in ("refs/remotes/default/main", "refs/heads/main"):
        assert moved.ref(ref) == pushed
    assert "missing" not in git(moved.git, "fsck", "--full").decode()
    # nobody has changed them since
    before = moved.content()
    assert "no changes found" in moved.run("pull")[1]
    assert moved.content() == before


def test_files_that_are_behind_are_repaired(moved: Moved, upstream: Upstream) -> None:
    """As after a process that was killed before it wrote them."""
    before = moved.content()
    new = upstream.grow("other", "three")
    git(upstream.path, "tag", "v2", "other")
    moved.hg("pull", *KEPT_APART)
    assert moved.content() == before
    moved.hg("log", "-r", "default/other")
    assert moved.ids() == moved.pairs()
    assert moved.ref("refs/remotes/default/other") == moved.ref("v2") == new
    assert moved.pairs()[new] in (moved.files / "git-tags").read_text()


def test_lines_that_hggit_adds_are_taken(moved: Moved, upstream: Upstream) -> None:
    moved.hg("pull")
    other = Moved(moved.root.with_name("other"), upstream.path)
    new = upstream.grow("main", "three")
    other.hg("pull", "-q")
    moved.hg("unbundle", "-q", _bundle(other))
    shutil.copy(other.map, moved.map)
    shutil.rmtree(moved.git)
    shutil.copytree(other.git, moved.git)
    assert moved.ids()[new] == other.ids()[new]
    shown = moved.hg("log", "-r", "default/main", "-T", "{gitnode}")
    assert shown == new


def _bundle(clone: Moved) -> str:
    path = clone.root.with_suffix(".bundle")
    clone.hg("bundle", "-qa", str(path))
    return str(path)


def test_tags_of_a_pull_stay_when_hggit_has_others(
    moved: Moved, upstream: Upstream
) -> None:
    """As where ``.hgtags`` names them: hg-git leaves them out of its list."""
    (moved.files / "git-tags").write_text("")
    upstream.grow("main", "three")
    moved.hg("pull", "-q")
    (moved.files / "git-tags").write_text("")
    moved.map.write_text(moved.map.read_text())
    moved.hg("log", "-r", "default/main")
    moved.hg("git::export")
    store = moved.files / "amalgam/git/hggit.git"
    assert git(store, "rev-parse", "v1") == git(upstream.path, "rev-parse", "v1")


def test_lines_without_a_changeset_are_passed_over(
    moved: Moved, upstream: Upstream
) -> None:
    """hg-git keeps those of stripped changesets, and of a commit twice."""
    extra = f"{'1' * 40} {'2' * 40}\n{upstream.tips['main']} {'3' * 40}\n"
    text = moved.map.read_text()
    moved.map.write_text(extra + text)
    ids = moved.ids()
    assert f"{text}".count("\n") == len(ids)
    moved.hg("strip", "-q", "--config", "extensions.strip=", "-r", "other")
    moved.hg("pull", "-q")
    assert moved.ids() == ids


@pytest.mark.parametrize("line", ["cut", "word", "case"])
def test_a_damaged_line_is_named(moved: Moved, line: str) -> None:
    lines = moved.map.read_text().splitlines(True)
    lines[2] = {
        "cut": lines[2][:-9] + "\n",
        "word": "g" + lines[2][1:],
        "case": lines[2].upper().replace("0", "A"),
    }[line]
    moved.map.write_text("".join(lines))
    for command in (["pull"], ["log", "-T", "{gitnode}"], ["git::export"]):
        code, said = moved.run(*command)
        assert code == 255, said
        assert "line 3: expected a commit and a changeset, found '" in said
        assert "(remove the line, or restore the file from a backup)" in said
    assert moved.run("log", "-r", "tip")[0] == 0


@pytest.mark.parametrize("name", ["git-mapfile", "git"])
def test_nothing_of_hggit_is_to_be_removed(moved: Moved, name: str) -> None:
    path = moved.files / name
    path.rename(moved.root / "elsewhere")
    path.symlink_to(moved.root / "elsewhere")
    code, output = moved.run("log", "-r", "tip", "-T", "{gitnode}")
    assert code == 255
    assert f"{name}' is not a " in output
    assert "(hg-git had its own there: put that back" in output


def test_a_commit_of_another_changeset_is_named(moved: Moved) -> None:
    lines = moved.map.read_text().splitlines()
    swapped = [lines[0][:41] + lines[1][41:], lines[1][:41] + lines[0][41:]]
    moved.map.write_text("\n".join([*swapped, *lines[2:]]) + "\n")
    code, said = moved.run("pull")
    assert code == 255
    assert "is not one of changeset" in said
    assert "(restore the file from a backup, or remove wrong lines)" in said


def test_ids_of_the_other_dialect_stay(tmp_path: Path, moved: Moved) -> None:
    """A repository that was exported before has ids that others know."""
    moved.map.rename(tmp_path / "map")
    moved.hg("git::export")
    ids = moved.ids()
    (tmp_path / "map").rename(moved.map)
    assert moved.ids() == ids
    assert "this command of hg-git needs its dialect" in moved.run("gexport")[1]


def test_the_choice_is_remembered(tmp_path: Path, moved: Moved) -> None:
    ids = moved.ids()
    moved.map.unlink()
    shutil.rmtree(moved.git)
    assert moved.ids() == ids
    moved.hg("git::export")
    assert moved.ids() == ids


def test_readers_without_write_access_see_the_ids(moved: Moved) -> None:
    (moved.files / "store/lock").symlink_to("elsewhere.invalid:1")
    assert moved.ids() == moved.pairs()
    assert not (moved.files / "amalgam/imported").exists()


def test_commands_of_hggit(moved: Moved, upstream: Upstream) -> None:
    assert moved.hg("debuggitdir").strip() == str(moved.git)
    assert moved.hg("log", "-r", "fromgit()", "-T", "x").endswith("\nxxxx")
    new = upstream.grow("main", "three")
    git(moved.git, "fetch", "-q", str(upstream.path), "+main:main")
    assert "updating bookmark main" in moved.hg("gimport")
    assert moved.pairs()[new] == moved.hg("log", "-r", "main", "-T", "{node}")
    moved.hg("update", "-q", "main")
    (moved.root / "mine").write_text("mine\n")
    moved.hg("commit", "-qAm", "mine", "-u", "me <m@x>")
    assert moved.hg("log", "-r", "not fromgit()", "-T", "{desc}") == "mine"
    moved.hg("gexport")
    mine = moved.hg("log", "-r", ".", "-T", "{gitnode} {node}").split()
    assert moved.pairs()[mine[0]] == mine[1]
    assert moved.ref("refs/heads/main") == mine[0]
    assert "missing" not in git(moved.git, "fsck", "--full").decode()
    assert f"against git commit {mine[0]}" in moved.hg("gverify", "-c")
    assert moved.hg("gverify", "-r", "gittag('v1')")
    code, said = moved.run("log", "-r", "gittag('v9')")
    assert (code, "git tag 'v9' does not exist" in said) == (255, True)


def test_gverify_names_files_that_differ(moved: Moved, upstream: Upstream) -> None:
    moved.hg("gexport")
    odd = [(b"100755", b"a"), (b"100644", b"b"), (b"100644", b"three")]
    objects = upstream.objects
    tree = objects.tree(*odd[:2], (*odd[2], objects.tree()))
    wrong = objects.commit(upstream.tips["main"], tree=tree)
    right = upstream.grow("main", "three")
    moved.hg("pull", "-q", "-u")
    git(upstream.path, "branch", "wrong", wrong)
    git(moved.git, "fetch", "-q", str(upstream.path), "wrong:wrong")
    moved.map.write_text(moved.map.read_text().replace(right, wrong))
    code, said = moved.run("gverify")
    assert code == 1
    assert "file has different flags: a (hg '', git 'x')" in said
    assert "file found in git but not hg: b" in said


def test_gverify_takes_the_map_as_it_is(moved: Moved) -> None:
    """Other commands refuse such a map."""
    log = moved.hg("log", "-r", "main + main^", "-T", "{node} {gitnode}\n")
    (node, right), (_parent, other) = (it.split() for it in log.splitlines()[-2:])
    shutil.rmtree(moved.files / "amalgam")
    text = moved.map.read_text()
    moved.map.write_text(text.replace(right, other))
    code, said = moved.run("gverify", "-r", node)
    assert code == 1
    assert f"against git commit {other}\n" in said
    shown = "file found in git but not hg: odd\nfile found in hg but not git: two\n"
    assert said.endswith(shown)
    tree = moved.ref(f"{right}^{{tree}}")
    for oid, why in (("f" * 40, "not found"), (tree, "is not a commit")):
        moved.map.write_text(text.replace(right, oid))
        code, said = moved.run("gverify", "-r", node)
        assert code == 255
        assert f"abort: git equivalent {oid} for rev {node[:12]} {why}!\n" in said
    moved.map.write_text(text.replace(right, "1" * 40))
    loose = moved.git / "objects/11" / ("1" * 38)
    loose.parent.mkdir()
    loose.write_text("42\n")
    code, said = moved.run("gverify", "-r", node)
    assert code == 255
    assert f"{'1' * 40} for rev {node[:12]} is corrupt!\n(re-run with --tr" in said
    assert moved.run("gverify", "-c")[1].endswith("git repository is corrupt!\n")


def test_an_abbreviation_of_two_commits_is_refused_as_by_hggit(
    moved: Moved, upstream: Upstream
) -> None:
    for number in range(16):
        upstream.grow("main", f"more-{number}")
    moved.hg("pull", "-q")
    digits = [it[0] for it in moved.ids()]
    twice = next(it for it in digits if digits.count(it) > 1)
    code, said = moved.run("log", "-r", f"gitnode({twice})")
    assert code == 255
    assert said == f"abort: git-mapfile@{twice}: ambiguous identifier\n"


def test_names_that_git_cannot_have(moved: Moved) -> None:
    """gexport warns of them as push does; a tag with a blank has one name here."""
    moved.hg("update", "-q", "main")
    moved.hg("tag", "-r", "main", "bet*a")
    moved.hg("tag", "-r", "main", "gamm a")
    moved.hg("bookmark", "-r", "main", "epsil*on")
    warnings = (
        "warning: not exporting tag 'bet*a' due to invalid name\n"
        "warning: not exporting bookmark 'epsil*on' due to invalid name\n"
    )
    assert moved.hg("gexport").endswith(warnings)
    said = moved.hg("push")
    assert warnings in said
    assert "adding reference refs/tags/gamm_a\n" in said
    assert "gamm_a" not in moved.hg("tags", "-T", "{tag}\n")


def test_revisions_have_the_numbers_of_hggit(
    tmp_path: Path, moved: Moved, upstream: Upstream
) -> None:
    """From the oldest tip; parents first, the first parent before the others.

    hg-git takes the offset of a zone from the time, so it counts twice.
    """
    root = upstream.tips["main"]
    commit = upstream.commit
    early, late = (
        commit("early", root),
        commit("late", root, author=b"a <x> 8 -0200"),
    )
    aside = commit("aside-2", root, author=b"a <x> 99 +0000")
    merged = commit("merged", aside, early, author=b"a <x> 9 +0000")
    for name, oid in (("a", late), ("b", merged), ("c", aside)):
        git(upstream.path, "update-ref", f"refs/heads/{name}", oid)
    moved.hg("pull", "-q")
    shown = moved.hg("log", "-r", "4:", "-T", "{desc} ")
    assert shown == "aside-2 early merged late "


def test_a_push_url_is_the_same_remote(moved: Moved, upstream: Upstream) -> None:
    with (moved.files / "hgrc").open("a") as file:
        file.write(f"\n[paths]\ndefault:pushurl = file:///{upstream.path}\n")
    moved.hg("bookmark", "-f", "-r", "main", "other")
    moved.hg("push", "-f", "-B", "other")
    nodes = moved.hg("log", "-r", "main + default/other", "-T", "{node}\n").split()
    assert len(nodes) == 1


def test_a_detached_head_is_published(moved: Moved, upstream: Upstream) -> None:
    git(upstream.path, "update-ref", "--no-deref", "HEAD", "main")
    moved.hg("phase", "--force", "--draft", "-r", "all()")
    moved.hg("update", "-q", "main")
    (moved.root / "mine").write_text("mine")
    moved.hg("commit", "-A", "-q", "-m", "mine")
    said = moved.hg("push", "-v", "--config", "hggit.usephases=yes")
    assert said.endswith("publishing remote HEAD\n")
    shown = moved.hg("log", "-r", "main^ + main", "-T", "{phase}\n")
    assert shown == "public\ndraft\n"


def test_the_newest_changeset_of_a_clone_is_its_tip(
    tmp_path: Path, upstream: Upstream, moved: Moved
) -> None:
    git(upstream.path, "symbolic-ref", "HEAD", "refs/heads/other")
    place = tmp_path / "fresh"
    options = ("-q", "--config", "amalgam.git.dialect=hggit", "-u", "tip")
    moved.hg("clone", *options, str(upstream.path), str(place))
    rev, tip = moved.hg("log", "-R", str(place), "-r", ".", "-T", "{rev} tip").split()
    assert (rev, tip) == ("3", "tip")


def test_a_host_is_no_option_of_ssh(moved: Moved) -> None:
    for url in ("git+ssh://-oProxyCommand=x/y", "git+ssh://%2DoProxyCommand=x/y"):
        code, said = moved.run("push", url)
        assert code == 255
        assert "abort: potentially unsafe hostname: '-oProxyCommand=x'\n" in said


def test_annotate_skips_commits_that_a_file_lists(moved: Moved) -> None:
    moved.hg("update", "-q", "main")
    for text in ("a\na\n", "a\nb\na\n", "a\nc\na\n"):
        (moved.root / "lines").write_text(text)
        moved.hg("commit", "-A", "-q", "-m", "lines")
    moved.hg("gexport")
    log = moved.hg("log", "-r", "reverse(last(all(), 3))", "-T", "{rev} {gitnode}\n")
    (last, oid), (middle, _oid), _first = (it.split() for it in log.splitlines())
    annotate = ("annotate", "-T", "{lines % '{rev} '}", "lines")
    assert moved.hg(*annotate).split()[1] == last
    (moved.root / "ignored").write_text(f"# {oid}\n{oid} # why\n{'1' * 40}\nx\n")
    for name, shown in (("ignored", middle), ("absent", last)):
        item = ("--config", f"git.blame.ignoreRevsFile={name}")
        assert moved.hg(*annotate, *item).split()[1] == shown


def test_cleanup_drops_lines_and_refs(moved: Moved) -> None:
    text = moved.map.read_text()
    moved.map.write_text(f"{'1' * 40} {'2' * 40}\n{text}")
    (moved.git / "refs/heads").mkdir(exist_ok=True, parents=True)
    (moved.git / "refs/heads/broken").write_text(f"{'1' * 40}\n")
    said = moved.hg("git-cleanup", "-v")
    assert f"dropping GIT:{'1' * 40} -> HG:{'2' * 40}" in said
    assert "git commit map cleaned" in said
    assert moved.map.read_text() == text
    assert not (moved.git / "refs/heads/broken").exists()
    assert moved.ids() == moved.pairs()


def test_names_and_phases_are_those_of_hggit(moved: Moved, upstream: Upstream) -> None:
    """Remotes on this machine publish nothing, and diverged bookmarks stay."""
    assert "default/main" in moved.hg("tags")
    kinds = moved.hg("tags", "-T", "{tag} {type}\n").splitlines()
    assert {"default/main git-remote", "default/other git-remote", "v1 git"} <= {*kinds}
    place = moved.root.with_name("fresh")
    moved.hg(
        *("clone", "-q", "--config", "amalgam.git.dialect=hggit"),
        *(str(upstream.path), str(place)),
    )
    fresh = ("-R", str(place), "--config", "amalgam.git.dialect=hggit")
    assert {*moved.hg("log", *fresh, "-T", "{phase}\n").split()} == {"draft"}
    assert "verifying rev" in moved.hg("gverify", *fresh)
    upstream.grow("other", "three")
    moved.hg("bookmark", "-f", "-r", "main", "other", *fresh)
    said = moved.hg("pull", *fresh)
    assert "importing 1 git commits" in said
    diverged = "not updating diverged bookmark other"
    assert said.index(diverged) < said.index("new changesets")
    alias = ("--config", f"paths.again={upstream.path}")
    assert {"again/main", "default/main"} <= {
        *moved.hg("tags", *fresh, *alias, "-T", "{tag}\n").split()
    }
    assert "added" not in said
    moved.hg("debug-remove-hggit-state", *fresh)
    assert not moved.hg("log", "-r", "fromgit()", *fresh)
    assert "importing 5 git commits" in moved.hg("pull", *fresh)


def test_the_dialect_stays_without_the_state_of_hggit(moved: Moved) -> None:
    """Or a pull would make other changesets of the same commits."""
    nodes = moved.hg("log", "-T", "{node}\n")
    moved.hg("debug-remove-hggit-state")
    assert not moved.hg("log", "-r", "fromgit()")
    assert "importing 4 git commits" in moved.hg("pull")
    assert moved.hg("log", "-T", "{node}\n") == nodes
    moved.hg("gexport")


def test_pushes_are_those_of_hggit(moved: Moved, upstream: Upstream) -> None:
    """All bookmarks and tags go out, but secret ones; refusals end a push."""
    moved.hg("update", "-q", "main")
    for name in ("mine", "theirs", "hidden"):
        (moved.root / name).write_text(name)
        moved.hg("commit", "-A", "-q", "-m", name)
        moved.hg("bookmark", "-i", name)
    moved.hg("phase", "--force", "--secret", "-r", "hidden")
    moved.hg("tag", "-q", "-r", "mine", "with space")
    moved.hg("phase", "--draft", "-r", "theirs")
    git(upstream.path, "tag", "-d", "v1")
    code, said = moved.run("push")
    assert code == 0
    assert "warning: not exporting secret bookmark 'hidden'" in said
    assert "adding objects\nadded 2 commits with 2 trees and 2 blobs\n" in said
    for ref in ("refs/heads/mine", "refs/heads/theirs", "refs/tags/v1"):
        assert f"adding reference {ref}\n" in said
    assert b"tag v1\n" in git(upstream.path, "cat-file", "tag", "v1")
    assert "heads/hidden" not in git(upstream.path, "show-ref").decode()

    code, said = moved.run("push", "-r", "hidden")
    assert code == 255
    assert "cannot be pushed since it doesn't have a bookmark" in said
    main = git(upstream.path, "rev-parse", "main").decode().strip()
    git(upstream.path, "update-ref", "refs/heads/hidden", main)
    assert "deleting" not in moved.run("push", "-B", "hidden")[1]
    assert git(upstream.path, "rev-parse", "hidden").decode().strip() == main
    upstream.tips["mine"] = upstream.tips["main"]
    upstream.grow("mine", "elsewhere")
    for options in ((), ("-f",)):
        code, said = moved.run("push", "-B", "mine", *options)
        assert code == 255
        assert "branch 'refs/heads/mine' changed on the server" in said
    mine = moved.hg("log", "-r", "mine", "-T", "{node}")
    moved.hg("pull")
    moved.hg("bookmark", "-f", "-r", mine, "mine")
    code, said = moved.run("push", "-B", "mine")
    assert code == 255
    assert "pushing refs/heads/mine overwrites" in said
    assert "updating reference refs/heads/mine" in moved.hg("push", "-f", "-r", "mine")
    moved.hg("bookmark", "-d", "mine")
    code, said = moved.run("push", "-B", "mine", "-B", "unknown")
    assert code == 0
    assert "deleting reference refs/heads/mine" in said
    assert "warning: unable to delete 'refs/heads/unknown'" in said


def test_a_first_push_publishes(tmp_path: Path, moved: Moved) -> None:
    """The remote is empty, and tells of its HEAD when it has the branch of it."""
    empty, new = tmp_path / "empty.git", tmp_path / "new"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(empty))
    items = ("git.dialect=hggit", "git.hggit-files=yes")
    given = [it for item in items for it in ("--config", f"amalgam.{item}")]
    assert "no changes found" not in moved.hg("clone", *given, str(empty), str(new))
    inside = (*given, "-R", str(new), "--config", "hggit.usephases=yes")
    code, said = moved.run("push", *inside)
    assert code == 255
    assert "no bookmarks or tags to push to git" in said
    (new / "a").write_text("a")
    moved.hg("commit", *inside, "-A", "-q", "-m", "one", str(new / "a"))
    moved.hg("bookmark", *inside, "main")
    assert "adding reference refs/heads/main" in moved.hg("push", *inside)
    assert moved.hg("log", *inside, "-T", "{phase}\n") == "public\n"


def test_gitignore_counts_without_hgignore(moved: Moved) -> None:
    files = {".gitignore": "# no\n/one\n*.o\nd/two\n!x\n", "d/.gitignore": "/{x}\n"}
    for name in ("one", "a.o", "d/one", "d/b.o", "d/two", "e/d/two", "d/{x}", "d/x"):
        files[name] = ""
    for name, text in files.items():
        (moved.root / name).parent.mkdir(parents=True, exist_ok=True)
        (moved.root / name).write_text(text)
    said = moved.hg("status", "-u", "-n")
    assert ".gitignore: unsupported ignore pattern '!x'" in said
    shown = {*said.split("\n")} & {*files}
    assert shown == {".gitignore", "d/.gitignore", "d/one", "e/d/two", "d/x"}
    assert "in d/.gitignore, line 1: '/{x}'" in moved.hg("debugignore", "d/{x}")
    (moved.root / ".hgignore").write_text("")
    assert {*moved.hg("status", "-u", "-n").split()} >= {*files}


def test_gitignore_of_others_keeps_nobody_waiting(moved: Moved) -> None:
    """Each of these patterns would take more than a minute, or print warnings."""
    (moved.root / ("a" * 60 + "c")).write_text("")
    for bad in ("*a" * 12 + "b", "**/a/" * 12 + "b", "[z-a]", "[[:alpha:]]"):
        (moved.root / ".gitignore").write_text(f"{bad}\n*.o\n[[]\n")
        said = moved.hg("status", "-u")
        assert said.startswith(f".gitignore: unsupported ignore pattern '{bad}'\n? ")
    (moved.root / ".gitignore").write_text("*cc\n" * (1 << 16 | 1))
    said = moved.hg("status", "-u")
    assert said.startswith(".gitignore: not obeyed, because it is larger than 256 KB\n")
    (moved.root / ".gitignore").write_text("".join(f"{n}*\n" for n in range(30_000)))
    assert "aaac\n" in moved.hg("status", "-u")


@pytest.mark.parametrize("is_in_tree", [False, True])
def test_files_are_made_if_asked_for(
    tmp_path: Path, upstream: Upstream, is_in_tree: bool
) -> None:
    """In a clone, and in a new repository, whose first commits are exported."""
    new = Clone(tmp_path / "new")
    items: tuple[str, ...] = (
        "amalgam.git.dialect=hggit",
        "amalgam.git.hggit-files=yes",
    )
    items += ("git.intree=yes",) * is_in_tree
    given = [it for item in items for it in ("--config", item)]
    new.hg("clone", "-q", "-u", "main", *given, str(upstream.path), str(new.root))
    files = new.root / (".git" if is_in_tree else ".hg/git")
    mapped = new.root / ".hg/git-mapfile"
    assert git(files, "rev-parse", "v1") == git(upstream.path, "rev-parse", "v1")
    assert not git(files, "for-each-ref", "refs/heads/")
    inside = (*given, "-R", str(new.root))
    log = new.hg("log", *inside, "-T", "{gitnode} {node}\n")
    assert {*mapped.read_text().splitlines()} == {*log.splitlines()}
    assert new.hg("debuggitdir", *inside).strip() == str(files)
    # as if the owner had removed them, to begin anew
    shutil.rmtree(files)
    mapped.unlink()
    (new.root / "mine").write_text("mine")
    new.hg("commit", *inside, "-qAm", "mine", "-u", "me <m@x>", str(new.root / "mine"))
    new.hg("gexport", *inside)
    main = git(files, "rev-parse", "main").decode().strip()
    assert f"{main} {new.hg('log', *inside, '-r', '.', '-T', '{node}')}\n" in (
        mapped.read_text()
    )
    assert b"missing" not in git(files, "fsck", "--full", "--connectivity-only")


def test_no_files_are_made_unasked(tmp_path: Path, upstream: Upstream) -> None:
    new = Clone(tmp_path / "new")
    given = ("--config", "amalgam.git.dialect=hggit")
    new.hg("clone", "-q", *given, str(upstream.path), str(new.root))
    assert not {*(new.root / ".hg").glob("git*")}


def test_a_clone_remembers_its_dialect(tmp_path: Path, upstream: Upstream) -> None:
    given = ("--config", "amalgam.git.dialect=hggit")
    once, always = Clone(tmp_path / "once"), Clone(tmp_path / "always")
    for clone in (once, always):
        clone.hg("clone", "-q", *given, str(upstream.path), str(clone.root))
    new = upstream.grow("main", "three")
    once.hg("pull")
    always.hg("pull", *given)
    shown = ("log", "-T", "{node} {gitnode}\n")
    assert once.hg(*shown) == always.hg(*shown, *given)
    assert new in once.hg(*shown)


def test_a_clone_of_nothing_remembers_its_dialect(tmp_path: Path) -> None:
    given = ("--config", "amalgam.git.dialect=hggit")
    empty, clone = tmp_path / "empty.git", Clone(tmp_path / "clone")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(empty))
    clone.hg("clone", "-q", *given, str(empty), str(clone.root))
    (clone.root / "a").write_text("a\n")
    clone.hg("commit", "-q", "-A", "-m", "a")
    clone.hg("bookmark", "main")
    clone.hg("tag", "--git", "-r", ".", "v1")
    clone.hg("push", "-B", "main")
    shown = ("log", "-T", "{gitnode}")
    assert clone.hg(*shown) == git(empty, "rev-parse", "main").decode().strip()
    assert clone.hg(*shown) == clone.hg(*shown, *given)
    other = Clone(tmp_path / "other")
    other.hg("clone", "-q", str(empty), str(other.root))
    code, said = other.run("tag", "--git", "-r", ".", "v2")
    assert code
    assert "abort: this command of hg-git needs its dialect" in said


def test_the_branch_of_a_withheld_bookmark_is_not_deleted() -> None:
    """Not even by a program that names it, and no changesets."""
    ref = b"refs/heads/hidden"
    found = pushes.Exportable({}, {}, {}, set(), {ref})
    assert not pushes.chosen(None, found, [], [ref], {ref: b"1" * 40})
