"""``amalgam.git.push-exact``: commits that changesets cannot express come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import HG, captured, git, hg, publish_commits
from testlib.mirrors import ids
from testlib.pushing import ON, Clone, PushServer, pushable
from testlib.randomcommits import (
    EMPTY_TREE,
    GITLINK,
    GitObjects,
    write_object,
    write_tree,
)
from testlib.webserver import serving

from .test_refusals import COMMITS, TREES

pytestmark = pytest.mark.slow

#: Commits that hg-git or git-cinnabar loses, beside those of the list of refusals.
LOSSES = {
    "crlf": {"message": b"m\r\nx  \r\n"},
    "latin1": {"message": b"\xe9 The quick brown fox.\r\n" * 30},
    "no-end": {"message": b"\n\nm"},
    "hg-branch": {"message": b"m\n\n--HG--\nbranch : stable\n"},
    "hg-default": {"message": b"m\n\n--HG--\nbranch : default\n"},
    "hg-empty": {"message": b"m\n\n--HG--\n"},
    "hg-extra": {"message": b"m\n\n--HG--\nextra : k : v\n"},
    "hg-prose": {"message": b"m\n--HG--\nsome prose\n"},
    "blank-end": {"headers": b"gpgsig a\n b\n \n"},
    "sha256": {"headers": b"gpgsig-sha256 x\n y\n"},
    "encoded": {"headers": b"encoding ISO-8859-1\n", "message": b"\xe9\n"},
    "rename-source": {"headers": b"HG:rename-source hg\n"},
    "header-extra": {"headers": b"HG:extra k:v\nHG:extra l:%76\nHG:other x\n"},
    "no-value": {"headers": b"change-id\n odd\n"},
    "first": {"author": b"A <a@x> 1 +0000\nx-first 1"},
    "date": {"committer": b"A U <a@x> 13 +0100"},
    "ten-minutes": {"committer": b"C D <c@d> 5 +0010"},
    "odd-zone": {"committer": b"C D <c@d> 5 +0545"},
    "short-zone": {"author": b"A <a@x> 1 +9"},
    "double-minus": {"author": b"A <a@x> 1 --100"},
    "no-address": {"author": b"A <> 1 +0000"},
    "blanks": {"author": b"A < a@x > 1 +0000"},
    "none": {"author": b"joe <none@none> 1 +0000"},
    "only-none": {"author": b" <none@none> 1 +0000"},
    "at-none": {"author": b"a@b <none@none> 1 +0000"},
    "address": {"author": b"a@x <a@x> 1 +0000"},
    "ext": {"author": b"joe ext:(%20x) <j@x> 1 +0000"},
    "odd-ext": {"author": b"joe ext:(%78) <j@x> 1 +0000"},
    "name-bytes": {"author": b"J\xe9 <a@x> 1 +0000"},
    "tab": {"author": b"A\t <a@x> 1 +0000"},
    "two-addresses": {"author": b"A <b> <c@d> 1 +0000"},
    "plus-0": {"author": b"A U <a@x> 12 +0000"},
    "twin": {"author": b"A U <a@x> 12 -0000"},
}
LOST_TREES: dict[str, list[tuple[bytes, bytes] | tuple[bytes, bytes, str]]] = {
    "kinds": [(b"100755", b"a"), (b"120000", b"b"), (b"100600", b"c")],
    "bytes": [(b"100644", b"a\\b"), (b"100644", b"a\xe9")],
    "tags": [(b"100644", b".hgtags")],
    "short-git": [(b"100644", b"git~1")],
    "empty": [(b"40000", b"d", EMPTY_TREE)],
    "links": [(b"160000", b".git"), (b"160000", b".hg"), (b"160000", b"a\nb")],
    "empty-hg": [(b"40000", b".hg", EMPTY_TREE), (b"40000", b"a\r", EMPTY_TREE)],
}
#: What git's own receive check refuses, too, and what Mercurial cannot check out.
REFUSED = {
    *("no-space", "zeros", "nested", "bracket", "nobody", "no-mail", "long-zone"),
    *("negative", "overflow", "no-zone", "no-date", "first", "short-zone"),
    *("double-minus", "two-addresses", "unsorted", "twice"),
    *("line-feed", "return", "dot-hg", "dot", "dots", "slash"),
}
SIGNED = b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ\n -----END PGP SIGNATURE-----\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    with pushable(tmp_path, "--config=amalgam.git.push-exact=yes") as served:
        yield served
        served.check()


@pytest.fixture
def clone(server: PushServer) -> Clone:
    return server.clone()


@pytest.fixture
def objects(clone: Clone) -> GitObjects:
    return GitObjects(clone.root / ".git")


def test_commits_come_back_from_any_server(
    server: PushServer, clone: Clone, objects: GitObjects, tmp_path: Path
) -> None:
    base = clone.head()
    given = {name: it for name, (it, _sentence) in COMMITS.items()} | LOSSES
    made = {
        name: objects.commit(base, **it)  # type: ignore[arg-type]
        for name, it in given.items()
    }
    trees = LOST_TREES | {name: [*it] for name, (it, _sentence) in TREES.items()}
    for name, entries in trees.items():
        tree = objects.tree((b"40000", b"dir", objects.tree(*entries)))
        made[name] = objects.commit(base, tree=tree)
        back = objects.commit(made[name], tree=EMPTY_TREE)
        made[f"without-{name}"] = back
    refused = REFUSED | {f"without-{it}" for it in REFUSED & trees.keys()}
    # Mercurial sees no file there, in the root either
    links = objects.tree((b"160000", b"sub"))
    tree = objects.tree((b"40000", b".hg", links), (b"40000", b"\xef\xbb\xbf", links))
    made["below-hg"] = objects.commit(base, tree=tree)
    odd = made["group-write"]
    files = objects.tree((b"100644", b"a"), (b"100644", b"b"))
    tree = objects.tree((b"40000", b"dir", files))
    made["group-write-no-more"] = objects.commit(odd, tree=tree)
    mark = b"100644", b"\1"
    made["mark"] = objects.commit(base, tree=objects.tree(mark))
    tree = objects.tree(mark, (b"100644", b"copy"))
    made["copy-of-mark"] = objects.commit(made["mark"], tree=tree)
    made["signed-merge"] = objects.commit(base, made["signed"], headers=SIGNED)
    made["above"] = objects.commit(made["signed-merge"], message=b"plain\n")
    specs = [f"{oid}:refs/heads/{name}" for name, oid in made.items()]
    said = clone.push(*specs).stderr.decode()
    accepted = {name: oid for name, oid in made.items() if name not in refused}
    assert {name for name in made if f"-> {name} (commit " in said} == refused
    again = server.clone("again")
    there = branches_of(again)
    assert there.pop("default") in accepted.values()
    assert there == accepted
    assert not git(server.store, "for-each-ref", "refs/cinnabar")
    assert "extras name commits" in server.hg("admin::amalgam")
    form = "{exact_survivors} {commit_extras} {tree_extras}"
    survey: list[str | Path] = [
        HG,
        "--config=extensions.amalgam=",
        "git::survey",
        "-T",
        form,
    ]
    surveyed = captured([*survey, again.root]).stdout
    counted = [
        len(server.hg("log", "-r", revset, "-T", "x"))
        for revset in ("all()", "extra('git.commit')", "extra('git.tree')")
    ]
    assert [*map(int, surveyed.split())] == counted

    other = tmp_path / "other"
    hg(tmp_path, "--config=extensions.amalgam=!", "clone", "-qU", "server", "other")
    publish_commits(other)
    hg(other, "git::export")
    assert ids(other) == ids(server.root)


def branches_of(clone: Clone) -> dict[str, str]:
    """The remote branches of a clone."""
    form = "--format=%(refname:lstrip=3) %(objectname)"
    lines = clone.git("for-each-ref", form, "refs/remotes/origin").splitlines()
    return {name: oid for name, oid in map(str.split, lines) if name != "HEAD"}


def test_extras_that_do_not_fit_are_ignored(
    server: PushServer, clone: Clone, objects: GitObjects
) -> None:
    """Those of another parent, of another description, and of another changeset."""
    signed = objects.commit(clone.head(), headers=SIGNED, message=b"signed\n")
    clone.pushed(f"{signed}:refs/heads/signed")
    template = "{extras % '{key}={value|stringify}\n'}"
    extras = server.hg("log", "-r", "signed", "-T", template)
    assert f"git.commit=1 {signed} " in extras
    script = server.root.parent / "forge.py"
    script.write_text(FORGE)
    before = ids(server.root)
    server.hg(f"--config=extensions.forge={script}", "forge", "signed")
    server.hg("git::export")
    after = ids(server.root)
    assert {node: after[node] for node in before} == before
    forged = after.keys() - before.keys()
    assert len(forged) == 3
    for node in forged:
        text = git(server.store, "cat-file", "commit", after[node])
        assert b"gpgsig" not in text


FORGE = """
from mercurial import context, registrar, scmutil

cmdtable = {}
command = registrar.command(cmdtable)


@command(b"forge", [], b"REV")
def forge(ui, repo, rev):
    signed = scmutil.revsingle(repo, rev)
    with repo.wlock(), repo.lock(), repo.transaction(b"forge"):
        for parent, text, extra in [
            (signed.node(), b"signed", {}),
            (signed.p1().node(), b"other", {}),
            (signed.p1().node(), b"signed", {b"source": b"x"}),
        ]:
            made = context.memctx(
                repo,
                (parent, None),
                text,
                [],
                lambda repo, ctx, path: None,
                user=signed.user(),
                date=signed.date(),
                extra={**signed.extra(), **extra},
            )
            repo.commitctx(made)
"""


def test_trees_come_back_and_mercurial_users_keep_submodules(
    server: PushServer, clone: Clone, objects: GitObjects, tmp_path: Path
) -> None:
    base = clone.head()
    files = (b"100644", b"file0"), (b"100644", b"file1")
    below = objects.tree((b"100664", b"old"), (b"160000", b"sub", "1" * 40))
    links = objects.tree((b"160000", b"only", "2" * 40))
    empty = (b"40000", b"e", EMPTY_TREE)
    first = objects.tree(
        *((b"40000", b"dir", below), empty, *files, (b"040000", b"links", links))
    )
    made = {"first": objects.commit(base, tree=first)}
    # one file changes: all other entries stay
    below = objects.tree(
        (b"100644", b"old", other(objects)), (b"160000", b"sub", "1" * 40)
    )
    second = objects.tree(
        *((b"40000", b"dir", below), empty, *files, (b"040000", b"links", links))
    )
    made["second"] = objects.commit(made["first"], tree=second)
    moved = objects.tree((b"100644", b"old"), (b"160000", b"sub", "3" * 40))
    third = objects.tree((b"40000", b"dir", moved), *files, (b"160000", b"x", "4" * 40))
    made["third"] = objects.commit(made["second"], tree=third)
    # a submodule becomes a file, and a directory a submodule
    fourth = objects.tree((b"160000", b"dir", "5" * 40), *files, (b"120000", b"x"))
    made["fourth"] = objects.commit(made["third"], tree=fourth)
    made["merge"] = objects.commit(made["fourth"], made["third"], tree=third)
    for name in ("first", "third", "merge", "second", "fourth"):
        clone.pushed(f"{made[name]}:refs/heads/{name}")
    there = branches_of(server.clone("again"))
    assert {name: there[name] for name in made} == made
    node = server.node(made["second"])
    assert "git.tree" not in server.hg("log", "-r", node, "-T", "{extras}")

    server.hg("update", "-q", "third")
    assert not server.hg("status")
    (server.root / "dir" / "old").write_text("by hg\n")
    server.hg("commit", "-m", "by hg")
    server.hg("git::export")
    commit = ids(server.root)[server.hg("log", "-r", ".", "-T", "{node}")]
    listed = git(server.store, "ls-tree", "-r", commit).decode()
    assert listed.count("160000 commit") == 2

    other_root = tmp_path / "other"
    hg(tmp_path, "--config=extensions.amalgam=!", "clone", "-qU", "server", "other")
    publish_commits(other_root)
    hg(other_root, "git::export")
    assert ids(other_root) == ids(server.root)


def test_trees_with_submodules_are_deltas_of_those_before(
    server: PushServer, clone: Clone, objects: GitObjects, tmp_path: Path
) -> None:
    turns = 70  # more than the links of a chain
    names = [b"f%02d" % number for number in range(turns)]
    below = [b"d/" + name for name in names]
    files = dict.fromkeys([*names, *below], (b"100644", b"0\n"))
    files[b"sub"] = GITLINK, b"1" * 40
    tip, trees = clone.head(), []
    for turn, (name, inner) in enumerate(zip(names, below, strict=True)):
        # in the root, below it, and in both
        for changed in [[name], [inner], [name, inner]][turn % 3]:
            files[changed] = b"100644", b"%d\n" % turn
        trees.append(write_tree(objects, files))
        tip = objects.commit(tip, tree=trees[-1])
    clone.pushed(f"{tip}:refs/heads/long")

    root = tmp_path / "other"
    hg(tmp_path, "--config=extensions.amalgam=!", "clone", "-qU", "server", "other")
    publish_commits(root)
    hg(root, "git::export")
    assert ids(root) == ids(server.root)
    packs = (root / ".hg").rglob("objects/pack/*.idx")
    listed = [git(root, "verify-pack", "-v", str(pack)) for pack in packs]
    entries = [line.split() for line in b"".join(listed).splitlines()]
    depths = {
        oid.decode(): int(rest[3]) if rest[3:] else 0
        for oid, kind, *rest in entries
        if kind == b"tree"
    }
    found = [depths[tree] for tree in trees]
    assert found.count(0) == 2
    assert max(found) == 50


def test_the_last_submodule_needs_the_option(
    server: PushServer, clone: Clone, objects: GitObjects
) -> None:
    base = clone.head()
    file = b"100644", b"file0"
    tree = objects.tree(file, (b"160000", b"sub", "1" * 40))
    above = objects.commit(base, tree=tree)
    last = objects.commit(above, tree=objects.tree(file))
    clone.pushed(f"{above}:refs/heads/sub")
    with serving(server.root, *ON) as web:
        done = clone.run("push", web.url, f"{last}:refs/heads/sub")
        assert b"same commit; ask the operator for amalgam.git.push-ex" in done.stderr
    clone.pushed(f"{last}:refs/heads/sub")
    assert branches_of(server.clone("again"))["sub"] == last


def test_files_that_mercurial_reads(
    server: PushServer, clone: Clone, objects: GitObjects
) -> None:
    """What stops ``hg update`` is refused, also in a merge; other junk is not."""
    base = clone.head()
    junk = write_object(objects.path, "blob", b"[\njunk\n")
    made = {}
    for name in ("hgeol", "hgignore", "hgsub", "hgsubstate", "hgtags"):
        tree = objects.tree((b"100644", b".%s" % name.encode(), junk))
        made[name] = objects.commit(base, tree=tree)
    linked = objects.commit(base, tree=objects.tree((b"120000", b".hgsub", junk)))
    made["link"] = linked
    side = objects.commit(base, message=b"side\n")
    tree = objects.tree((b"100644", b".hgsubstate", junk))
    made["merge"] = objects.commit(side, base, tree=tree)
    specs = [f"{oid}:refs/heads/{name}" for name, oid in made.items()]
    said = clone.push(*specs).stderr.decode()
    refused = {"hgsub", "hgsubstate", "link", "merge"}
    text = "Mercurial cannot read its subrepositories; git rebase -i -r "
    for name, oid in made.items():
        sentence = f"-> {name} (commit {oid[:12]} cannot be pushed: {text}"
        assert (sentence in said) == (name in refused), said
    assert f"remote: commit {linked[:12]}: {text[:41]}: .hgsub" in said
    for name in made.keys() - refused:
        server.hg("--config=extensions.eol=", "update", "-q", name)
    server.hg("verify", "-q")
    server.hg("update", "-q", "hgignore")
    (server.root / ".hgignore").write_text("")
    server.hg("commit", "-m", "mended")
    server.hg("git::export")


def test_merges_of_many_parents_are_chains(
    server: PushServer, clone: Clone, objects: GitObjects, tmp_path: Path
) -> None:
    base = clone.head()
    entry = b"100644", b"file0"
    sides = [
        objects.commit(base, tree=objects.tree((b"100644", b"%d" % number), entry))
        for number in range(1, 5)
    ]
    names = [(b"100644", b"%d" % number) for number in range(1, 5)]
    tree = objects.tree(*names, entry, (b"160000", b"sub", "1" * 40))
    made = {
        "three": objects.commit(*sides[:3], tree=tree),
        "five": objects.commit(base, *sides, tree=tree, headers=SIGNED),
        "same": objects.commit(sides[0], sides[1], sides[1], tree=tree),
    }
    made["above"] = objects.commit(made["five"], made["three"], tree=tree)
    clone.pushed(*(f"{oid}:refs/heads/{name}" for name, oid in made.items()))
    there = branches_of(server.clone("again"))
    assert {name: there[name] for name in made} == made
    ancestors = server.hg("log", "-r", "::five", "-T", "{node}\n").split()
    assert {server.node(oid) for oid in sides} < {*ancestors}
    server.hg("update", "-q", "five")
    assert not server.hg("status")

    hg(tmp_path, "--config=extensions.amalgam=!", "clone", "-qU", "server", "other")
    publish_commits(tmp_path / "other")
    hg(tmp_path / "other", "git::export")
    assert ids(tmp_path / "other") == ids(server.root)


def test_copies_of_extras_that_stock_hg_makes_are_ignored(
    server: PushServer, clone: Clone, objects: GitObjects, tmp_path: Path
) -> None:
    """Of rebase, graft, histedit, amend: no id moves, and no copy has a signature."""
    base = clone.head()
    names = clone.git("ls-tree", "--name-only", base).split()
    own = {(b"100644", name.encode()) for name in names}
    files = {*own}
    link = b"160000", b"sub"
    made = [base]
    for name in (b"a", b"b", b"c"):
        files.add((b"100644", name))
        tree = objects.tree(*sorted({*files, link}, key=lambda entry: entry[1]))
        message = b"%s\n" % name
        oid = objects.commit(made[-1], tree=tree, headers=SIGNED, message=message)
        made.append(oid)
    tree = objects.tree(*sorted(own), (b"100644", b"z"))
    side = objects.commit(base, tree=tree, message=b"z\n")
    clone.pushed(f"{made[3]}:refs/heads/c", f"{side}:refs/heads/side")
    a, b, c, z = (server.node(oid) for oid in (*made[1:], side))
    copy = tmp_path / "copy"
    options = [
        *("--config=extensions.amalgam=!", "--config=extensions.rebase="),
        *("--config=extensions.histedit=", "--config=experimental.evolution=all"),
    ]
    hg(tmp_path, *options, "clone", "-q", "server", "copy")
    order = tmp_path / "order"
    order.write_text(f"pick {a}\npick {c}\npick {b}\n")
    for step in (
        ["phase", "--draft", "--force", "all()"],
        ["update", "-q", z],
        ["graft", "-q", a],
        ["rebase", "-q", "--keep", "-r", b, "-d", "."],
        ["update", "-q", c],
        ["histedit", "-q", "--commands", str(order), a],
        ["commit", "-q", "--amend", "-m", "amended"],
    ):
        hg(copy, *options, *step)
    hg(copy, "git::export")
    before, after = ids(server.root), ids(copy)
    assert {node: before.get(node, oid) for node, oid in after.items()} == after
    copies = after.keys() - before.keys()
    extras = [hg(copy, "log", "-r", it, "-T", "{extras}").decode() for it in copies]
    assert sum("git.commit=" in it for it in extras) >= 2
    store = copy / ".hg" / "amalgam" / "git" / "cinnabar.git"
    for node in copies:
        assert b"gpgsig" not in git(store, "cat-file", "commit", after[node])
    assert git(store, "fsck", "--strict", "--no-dangling") == b""


def other(objects: GitObjects) -> str:
    """Another blob."""
    return write_object(objects.path, "blob", b"other\n")
