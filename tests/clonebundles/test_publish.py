"""How bundles come and go: generated, published, replaced, taken back."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from testlib.bundled import CLEAR, FORMATS, REFRESH, Bundled
from testlib.environment import HG, captured, git, hg
from testlib.hgserver import HgServer

# servers and generators are processes of their own
pytestmark = pytest.mark.slow


def test_formats_for_hg_and_git_are_published_together(published: Bundled) -> None:
    rows = published.rows()
    assert {row["format"] for row in rows} == {"gzip-v2", *FORMATS}
    assert {row["state"] for row in rows} == {"live"}
    assert all(row["covered"] == 1 and row["bytes"] > 0 for row in rows)
    assert published.named() == published.bundles() == {row["name"] for row in rows}
    assert not published.debris()
    assert not published.problems()


def test_manifest_of_hg_names_no_bundle_for_git(published: Bundled) -> None:
    (line,) = published.read("clonebundles.manifest").splitlines()
    name = published.live("gzip-v2").name
    assert line.split() == [
        f"amalgam/bundles/{name}",
        "BUNDLESPEC=gzip-v2",
        f"DIGEST=sha256:{name.partition('.')[0]}",
    ]


@pytest.mark.parametrize(("megabytes", "required"), [(0, []), (20, ["128MB"])])
def test_clients_are_told_of_large_windows(
    fresh: Bundled, megabytes: int, required: list[str]
) -> None:
    # a short stream has a short window
    (fresh.root / "long").write_bytes(os.urandom(megabytes << 20))
    hg(fresh.root, "commit", "-qAm", "long", "-d", "0 0")
    fresh.configure("clone-bundles", git__formats="")
    fresh.configure("clone-bundles", auto_generate__formats="zstd-v2")
    fresh.refresh()
    words = fresh.read("clonebundles.manifest").split()
    wanted = [f"REQUIREDRAM={size}" for size in required]
    assert [word for word in words if word.startswith("REQUIREDRAM")] == wanted
    path = fresh.live("zstd-v2")
    hg(fresh.root, "debugbundle", "--spec", str(path))


def test_names_are_those_of_the_contents(published: Bundled) -> None:
    for path in map(published.directory.joinpath, published.bundles()):
        digest = subprocess.run(["sha256sum", path], capture_output=True).stdout
        assert digest.decode().startswith(path.name.partition(".")[0] + " ")
        assert path.stat().st_mode & 0o777 == 0o444


def test_nothing_is_done_twice(published: Bundled) -> None:
    before = published.rows(), published.manifests()
    published.refresh()
    after = published.rows()
    assert [row["name"] for row in after] == [row["name"] for row in before[0]]
    assert published.manifests() == before[1]


@pytest.mark.parametrize(
    ("item", "value"),
    [("git__formats", "git-v3"), ("auto_generate__formats", "zstd-v9")],
)
def test_unknown_format_is_refused_before_any_work(
    fresh: Bundled, item: str, value: str
) -> None:
    fresh.configure("clone-bundles", **{item: value})
    done = fresh.run(REFRESH)
    assert done.code == 30
    name = "clone-bundles." + item.replace("__", ".").replace("_", "-")
    said = f"config error: invalid value '{value}' for {name}".encode()
    assert done.err.startswith(said)
    assert len(done.err.splitlines()) == 2
    assert not fresh.directory.exists()
    assert not fresh.read("clonebundles.auto-gen")
    assert value.encode() in published_problem(fresh)


def published_problem(bundled: Bundled) -> bytes:
    (problem,) = bundled.problems()
    return problem["text"].encode()


def test_store_that_a_format_cannot_have_is_told(
    tmp_path: Path, server: HgServer
) -> None:
    server.hg(tmp_path, "init", "--config", "experimental.treemanifest=1", "repo")
    made = Bundled(tmp_path / "repo", server)
    made.configure("extensions", amalgam="", clonebundles="")
    made.configure("phases", new_commit="public")
    made.configure("clone-bundles", git__formats="git-v2, cinnabar-v1")
    made.commit()
    done = made.run(REFRESH)
    assert done.code == 20
    assert b"treemanifest" in done.err
    (problem,) = made.problems()
    assert "treemanifest" in problem["text"]
    assert not made.read("clonebundles.auto-gen")
    made.configure("clone-bundles", git__formats="git-v2")
    made.refresh()
    assert made.tokens() == [("base", 1)]


def test_format_of_git_among_those_of_hg_says_where_it_belongs(fresh: Bundled) -> None:
    fresh.configure("clone-bundles", auto_generate__formats="git-v2")
    done = fresh.run(REFRESH)
    assert done.code == 30
    assert b"(it belongs in clone-bundles.git.formats)\n" in done.err


def test_trigger_that_cannot_look_does_not_fail_the_transaction(
    published: Bundled,
) -> None:
    published.configure("clone-bundles", auto_generate__on_change="yes")
    (published.directory / "register").write_text("{}")
    (published.root / "more").write_text("more\n")
    done = published.run("commit", "-Am", "more")
    assert done.code == 0
    assert b"warning: bundles are not renewed: bundle register '" in done.err
    (problem,) = published.problems()
    assert problem["hint"].startswith("remove it, and run")
    (published.directory / "register").unlink()
    published.hg(CLEAR)
    assert not published.bundles()
    assert not published.named()
    published.refresh()
    assert len(published.rows("live")) == 3


def test_formats_without_the_extension_are_warned_of(fresh: Bundled) -> None:
    fresh.configure("extensions", clonebundles="!")
    (fresh.root / "more").write_text("more\n")
    # a process of its own: it warns once
    command = [str(HG), "commit", "-qAm", "more"]
    done = captured(command, fresh.root)
    assert (done.returncode, done.stderr) == (
        0,
        b"warning: bundles are not renewed: "
        b"clone-bundles.git.formats needs the extension clonebundles\n"
        b"(enable it with '[extensions] clonebundles =')\n",
    )
    assert b"needs the extension" in published_problem(fresh)


@pytest.mark.parametrize(
    ("section", "item", "value", "problem"),
    [
        ("clone-bundles", "git__formats", "git-v3", "invalid value 'git-v3'"),
        (
            "clone-bundles",
            "auto_generate__formats",
            "zstd-v9",
            "invalid value 'zstd-v9'",
        ),
        (
            "clone-bundles",
            "git__format",
            "git-v2",
            "unknown config item clone-bundles.git.format",
        ),
        ("amalgam", "bundles__retention", "soon", "invalid value 'soon'"),
        ("amalgam", "bundles__external", "maybe", "invalid value 'maybe'"),
        ("amalgam", "git__exports", "public", "unknown config item"),
        ("amalgam", "index__prefault", "fast", "invalid value 'fast'"),
        ("experimental", "mmapindexthreshold", "-3", "invalid value '-3'"),
    ],
)
def test_no_mistake_in_the_configuration_stops_who_works(
    published: Bundled, section: str, item: str, value: str, problem: str
) -> None:
    before = published.bundles()
    published.configure("clone-bundles", auto_generate__on_change="yes")
    published.configure(section, **{item: value})
    (published.root / "more").write_text("more\n")
    for command in (["commit", "-qAm", "more"], ["log", "-r", "."], ["status"]):
        done = published.run(*command)
        assert done.code == 0
        assert done.err.count(b"warning: ") <= 1, done.err
    clone = published.root.parent / "clone"
    published.hg("clone", "-q", ".", str(clone))
    (clone / "theirs").write_text("theirs\n")
    published.hg("-R", str(clone), "commit", "-qAm", "theirs", str(clone / "theirs"))
    assert published.run("-R", str(clone), "push").code == 0
    published.wait()
    # mistakes about indexes stop no generator
    stops = section == "clone-bundles" or item.startswith(("bundles", "git"))
    assert (published.bundles() == before) == stops
    code = published.run("admin::amalgam").code
    assert code == 1
    assert problem in "".join(it["text"] for it in published.problems())


def test_only_public_changesets_are_in_bundles(fresh: Bundled, tmp_path: Path) -> None:
    fresh.configure(
        "clone-bundles",
        git__formats=", ".join(FORMATS),
        auto_generate__formats="none-v2",
    )
    fresh.configure("experimental", evolution="all")
    fresh.configure("phases", new_commit="draft")
    for what in ("draft", "hidden", "secret"):
        fresh.hg("update", "-q", "2")
        node = fresh.commit(f"planted {what}", *(["--secret"] * (what == "secret")))
        if what == "hidden":
            fresh.hg("update", "-q", "2")
            fresh.hg("debugobsolete", node)
    fresh.refresh()
    assert {row["changesets"] for row in fresh.rows("live")} == {3}
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(fresh.live("git-v2")), str(clone))
    cinnabar = fresh.live("cinnabar-v1")
    git(clone, "fetch", "-q", str(cinnabar), "refs/cinnabar/metadata")
    everything = git(clone, "cat-file", "--batch-all-objects", "--batch")
    everything += fresh.live("none-v2").read_bytes()
    assert b"text 2" in everything
    assert b"planted" not in everything


def test_repository_without_public_changesets_has_no_bundles(fresh: Bundled) -> None:
    fresh.hg("phase", "--draft", "--force", "-r", "all()")
    fresh.refresh()
    assert not fresh.rows()
    assert not fresh.manifests()


def test_small_increments_build_upon_a_base(fresh: Bundled, tmp_path: Path) -> None:
    fresh.configure("clone-bundles", trigger__revs="0")
    tokens = []
    for _number in range(9):
        fresh.refresh()
        tokens.append(fresh.tokens())
        fresh.commit()
    assert tokens[:3] == [
        [("base", 1)],
        [("base", 1), ("increment", 2)],
        [("base", 1), ("increment", 2), ("increment", 3)],
    ]
    assert len(tokens[7]) == 8
    # the ninth: four increments become part of the base, which takes their token over
    assert tokens[8] == [("base", 5), *(("increment", n) for n in range(6, 10))]
    sizes = {row["format"]: row["changesets"] for row in fresh.rows("live")}
    assert sizes["git-v2"] == 7
    assert all(size == 1 for name, size in sizes.items() if "+" in name)
    # what is there applies in the order of tokens, and is all of it
    git(tmp_path, "init", "-q", "--bare", "clone")
    names = [row for row in fresh.rows("live") if row["name"] in fresh.named()]
    for row in sorted(names, key=lambda row: int(row["token"])):
        path = str(fresh.directory / row["name"])
        git(tmp_path / "clone", "fetch", "-q", path, "refs/*:refs/*")
    git(tmp_path / "clone", "fsck", "--full", "--strict")
    refs = git(tmp_path / "clone", "for-each-ref", "--format=%(objectname)").split()
    assert fresh.hg("log", "-r", "10", "-T", "{gitnode}").encode() in refs


def test_increments_bring_heads_that_had_no_name_before(
    fresh: Bundled, tmp_path: Path
) -> None:
    fresh.configure("clone-bundles", trigger__revs="0")
    without_name = fresh.commit()
    fresh.hg("update", "-q", "0")
    fresh.commit("the head of the branch that has the name")
    fresh.refresh()
    fresh.hg("merge", "-q", "--tool", ":union", without_name)
    fresh.commit("both")
    fresh.refresh()
    assert fresh.tokens() == [("base", 1), ("increment", 2)]
    git(tmp_path, "init", "-q", "--bare", "clone")
    for row in sorted(fresh.rows("live"), key=lambda row: int(row["token"])):
        path = str(fresh.directory / row["name"])
        git(tmp_path / "clone", "fetch", "-q", path, "+refs/*:refs/*")
    git(tmp_path / "clone", "fsck", "--full", "--strict")
    refs = git(tmp_path / "clone", "for-each-ref", "--format=%(objectname)").split()
    assert fresh.hg("log", "-r", "tip", "-T", "{gitnode}").encode() in refs


def test_new_base_after_history_has_changed_takes_over_the_last_token(
    fresh: Bundled,
) -> None:
    fresh.configure("clone-bundles", trigger__revs="0")
    fresh.refresh()
    fresh.commit()
    fresh.refresh()
    assert fresh.tokens() == [("base", 1), ("increment", 2)]
    fresh.configure("extensions", strip="")
    fresh.hg("strip", "--no-backup", "0")
    for _number in range(2):
        fresh.commit("something else")
    fresh.refresh()
    assert fresh.tokens() == [("base", 2)]
    fresh.commit()
    fresh.refresh()
    assert fresh.tokens() == [("base", 2), ("increment", 3)]


def test_withdrawn_changesets_take_their_bundles_with_them(published: Bundled) -> None:
    old = published.bundles()
    with published.served() as served:
        said = served.capabilities()
        assert "cinnabarclone" in said
        assert "clonebundles" in said
        assert b".hg " in served.get("?cmd=clonebundles")
        published.hg("phase", "--draft", "--force", "-r", "2")
        # before anybody has generated anything
        said = served.capabilities()
        assert "cinnabarclone" not in said
        assert "clonebundles" not in said
        assert served.get("?cmd=cinnabarclone") == b""
        assert served.get("?cmd=clonebundles") == b""
    published.refresh()
    assert not old & published.bundles()
    assert {row["changesets"] for row in published.rows()} == {2}


def test_replaced_bundles_are_kept_for_a_while(published: Bundled) -> None:
    old = published.bundles()
    for _number in range(2):
        published.commit()
        published.refresh()
    assert old <= published.bundles()
    kept = {row["name"] for row in published.rows("kept")}
    assert kept
    assert not kept & published.named()
    published.configure("amalgam", bundles__retention="0")
    published.refresh()
    assert published.bundles() == {row["name"] for row in published.rows("live")}


def test_clear_takes_everything_back(published: Bundled) -> None:
    published.hg(CLEAR)
    assert not published.bundles()
    assert not published.rows()
    assert not published.named()
    assert not published.read("cinnabar.manifest")
    published.refresh()
    assert len(published.rows("live")) == 3


@pytest.mark.parametrize("name", ["cinnabar.manifest", "clonebundles.manifest"])
def test_manifests_that_an_operator_wrote_stay(fresh: Bundled, name: str) -> None:
    fresh.configure("clone-bundles", git__formats=", ".join(FORMATS))
    text = "https://example.org/mine#main\n"
    (fresh.dot_hg / name).write_text(text)
    fresh.refresh()
    assert fresh.read(name) == text
    with fresh.served() as served:
        commands = {
            "cinnabar.manifest": "cinnabarclone",
            "clonebundles.manifest": "clonebundles_manifest",
        }
        assert served.get(f"?cmd={commands[name]}").decode() == text
    fresh.hg(CLEAR)
    assert fresh.read(name) == text


def test_manifest_that_an_operator_wrote_later_stays(published: Bundled) -> None:
    published.configure("clone-bundles", auto_generate__formats="")
    published.refresh()
    written = "https://example.org/by-hand.hg BUNDLESPEC=gzip-v2\n"
    (published.dot_hg / "clonebundles.manifest").write_text(written)
    published.commit()
    published.configure("clone-bundles", trigger__revs="0")
    for command in (REFRESH, CLEAR):
        published.hg(command)
        assert published.read("clonebundles.manifest") == written


def test_formats_that_are_no_longer_wanted_go(published: Bundled) -> None:
    published.configure("clone-bundles", git__formats="git-v2")
    published.refresh()
    assert {row["format"] for row in published.rows("live")} == {"git-v2", "gzip-v2"}
    assert not published.read("cinnabar.manifest")
    published.configure("clone-bundles", git__formats="")
    published.refresh()
    assert {row["format"] for row in published.rows("live")} == {"gzip-v2"}


@pytest.mark.parametrize(
    ("section", "item", "value", "said"),
    [
        ("clone-bundles", "git__formats", "", "no bundles: no formats are configured"),
        ("phases", "publish", "yes", "no bundles: no changeset is public"),
    ],
)
def test_refresh_says_why_there_is_nothing_to_make(
    fresh: Bundled, section: str, item: str, value: str, said: str
) -> None:
    fresh.configure(section, **{item: value})
    fresh.hg("phase", "--draft", "--force", "-r", "all()")
    assert fresh.hg(REFRESH).splitlines()[0] == said
    assert not fresh.rows()


def test_bundle_of_what_has_a_name_is_up_to_date(fresh: Bundled) -> None:
    fresh.commit()
    fresh.hg("update", "-q", "2")
    fresh.commit("the head of the branch that has the name")
    assert fresh.hg(REFRESH).startswith("made git-v2: 4 changesets, ")
    assert fresh.hg(REFRESH) == "git-v2 is up to date\n"
    (row,) = fresh.rows()
    assert (row["missing"], row["covered"]) == (0, 0.8)
