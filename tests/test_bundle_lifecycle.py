"""How bundles come and go: generated, published, replaced, taken back, cleaned up."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from testlib.bundled import FORMATS, Bundled
from testlib.environment import HG, git, hg
from testlib.hgserver import HgServer

# servers and generators are processes of their own
pytestmark = pytest.mark.slow

REFRESH = "admin::clone-bundles-refresh"
CLEAR = "admin::clone-bundles-clear"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Bundled:
    """A repository of which everything is published, to be copied."""
    made = Bundled.init(tmp_path_factory.mktemp("bundled") / "repo", server)
    made.refresh()
    return made


@pytest.fixture
def published(template: Bundled, tmp_path: Path, server: HgServer) -> Bundled:
    shutil.copytree(template.root, tmp_path / "repo", symlinks=True)
    return Bundled(tmp_path / "repo", server)


@pytest.fixture
def fresh(tmp_path: Path, server: HgServer) -> Bundled:
    """A repository without bundles, for git alone."""
    return Bundled.init(tmp_path / "repo", server, git=["git-v2"], hg=[])


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


@pytest.mark.parametrize(("level", "required"), [("3", []), ("22", ["256MB"])])
def test_clients_are_told_of_large_windows(
    fresh: Bundled, level: str, required: list[str]
) -> None:
    fresh.configure("clone-bundles", git__formats="")
    fresh.configure("clone-bundles", auto_generate__formats="zstd-v2")
    fresh.configure("experimental", bundlecomplevel__zstd=level)
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
    assert done.err.startswith(f"config error: config {name} has '{value}'\n(".encode())
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


def test_unknown_format_keeps_a_transaction_from_beginning(fresh: Bundled) -> None:
    fresh.configure("clone-bundles", auto_generate__on_change="yes")
    fresh.configure("clone-bundles", git__formats="git-v3")
    (fresh.root / "more").write_text("more\n")
    done = fresh.run("commit", "-Am", "more")
    assert done.code == 30
    assert b"clone-bundles.git.formats" in done.err
    assert fresh.hg("log", "-T", "{rev} ") == "2 1 0 "


def test_trigger_that_cannot_look_does_not_fail_the_transaction(
    published: Bundled,
) -> None:
    published.configure("clone-bundles", auto_generate__on_change="yes")
    (published.directory / "register").write_text("{}")
    (published.root / "more").write_text("more\n")
    done = published.run("commit", "-Am", "more")
    assert done.code == 0
    assert b"warning: bundles are not renewed: cannot read what is known" in done.err
    (problem,) = published.problems()
    assert problem["hint"].startswith("remove it, and run")
    (published.directory / "register").unlink()
    published.hg(CLEAR)
    assert not published.bundles()
    assert not published.named()
    published.refresh()
    assert len(published.rows("live")) == 3


def test_formats_without_the_extension_are_refused(fresh: Bundled) -> None:
    fresh.configure("extensions", clonebundles="!")
    (fresh.root / "more").write_text("more\n")
    done = fresh.run("commit", "-Am", "more")
    assert done.code == 30
    assert done.err == (
        b"config error: "
        b"config clone-bundles.git.formats needs the extension clonebundles\n"
        b"(enable it with '[extensions] clonebundles =')\n"
    )
    assert b"needs the extension" in published_problem(fresh)


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


def test_dead_generator_is_swept(published: Bundled) -> None:
    plant_pending(published, process_that_is_gone())
    assert {row["state"] for row in published.rows()} == {"live", "dead"}
    published.refresh()
    assert not published.debris()
    assert {row["state"] for row in published.rows()} == {"live"}


def test_dead_generator_does_not_keep_others_from_working(published: Bundled) -> None:
    for _number in range(3):
        published.commit()
    plant_pending(published, process_that_is_gone(), revs=6, rev=5)
    published.refresh()
    (row,) = (
        row
        for row in published.rows()
        if row["format"] == "cinnabar-v1"
        and row["state"] == "live"
        and row["changesets"] == 6
    )
    assert row["name"] in published.named()


def test_generator_of_another_host_is_left_alone(published: Bundled) -> None:
    plant_pending(published, 1, host="elsewhere")
    published.refresh()
    assert "elsewhere" in published.read("clonebundles.auto-gen")
    assert (published.dot_hg / "tmp-bundles" / "planted").exists()


def process_that_is_gone() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def plant_pending(
    bundled: Bundled, pid: int, host: str = "", revs: int = 3, rev: int = 2
) -> None:
    """Leave what a generator leaves that is killed."""
    node = bundled.hg("log", "-r", str(rev), "-T", "{node}")
    if not host:
        command = "from mercurial import lock; print(lock._getlockprefix().decode())"
        python = HG.with_name("python3")
        host = subprocess.check_output([python, "-c", command], text=True).strip()
    path = bundled.dot_hg / "tmp-bundles" / "planted"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"half of it")
    with (bundled.dot_hg / "clonebundles.auto-gen").open("a") as file:
        line = f"PENDING-v1 cinnabar-v1 {revs} {rev} {node} {host} {pid} {path}\n"
        file.write(line)


def uploading(bundled: Bundled, command: str = "") -> Path:
    """Let bundles be copied to a directory, and be read from there."""
    host = bundled.root.parent / "host"
    host.mkdir(exist_ok=True)
    copy = f'cp "$HGCB_BUNDLE_PATH" "{host}/$HGCB_BUNDLE_BASENAME"'
    bundled.configure(
        "clone-bundles",
        upload_command=command or copy,
        url_template=f"file://{host}/{{basename}}",
        delete_command=f'rm -f "{host}/$HGCB_BASENAME"',
    )
    return host


def test_uploaded_bundles_are_read_back_and_then_named(fresh: Bundled) -> None:
    fresh.configure("clone-bundles", auto_generate__formats="gzip-v2")
    host = uploading(fresh)
    fresh.refresh()
    there = {path.name for path in host.iterdir()}
    assert there == fresh.named() | {"bundles.list"}
    assert f"uri = file://{host}/" in (host / "bundles.list").read_text()
    assert f"file://{host}/" in fresh.read("clonebundles.manifest")
    assert not fresh.bundles()
    assert not fresh.debris()


def test_cleared_list_is_uploaded_too(fresh: Bundled) -> None:
    host = uploading(fresh)
    fresh.refresh()
    fresh.hg(CLEAR)
    assert [path.name for path in host.iterdir()] == ["bundles.list"]
    assert "\turi" not in (host / "bundles.list").read_text()


@pytest.mark.parametrize(
    "command",
    ["false", 'head -c 100 "$HGCB_BUNDLE_PATH" > "HOST/$HGCB_BUNDLE_BASENAME"', "true"],
)
def test_failed_upload_changes_nothing(fresh: Bundled, command: str) -> None:
    host = uploading(fresh)
    fresh.refresh()
    before = fresh.manifests(), fresh.rows(), {path.name for path in host.iterdir()}
    fresh.commit()
    uploading(fresh, command.replace("HOST", str(host)))
    fresh.configure("clone-bundles", trigger__revs="0")
    done = fresh.run(REFRESH)
    assert done.code == 255
    assert done.err.startswith(b"abort: ")
    assert not fresh.debris()
    after = fresh.manifests(), fresh.rows(), {path.name for path in host.iterdir()}
    assert [row["name"] for row in after[1]] == [row["name"] for row in before[1]]
    assert (after[0], after[2]) == (before[0], before[2])
    uploading(fresh)
    fresh.refresh()
    assert len(fresh.tokens()) == 2


def test_failure_in_the_background_is_told(fresh: Bundled) -> None:
    uploading(fresh, "exit 3")
    fresh.configure("clone-bundles", auto_generate__on_change="yes")
    fresh.commit()
    fresh.wait()
    (problem,) = fresh.problems()
    assert problem["text"].startswith(
        "bundles could not be generated: command returned"
    )
    assert problem["hint"] == "run 'hg admin::clone-bundles-refresh'"
    assert not fresh.debris()
    uploading(fresh)
    fresh.refresh()
    assert not fresh.problems()
    assert fresh.tokens() == [("base", 1)]


def test_change_while_bundles_are_made_is_not_missed(
    fresh: Bundled, tmp_path: Path
) -> None:
    fresh.configure("clone-bundles", auto_generate__on_change="yes", trigger__revs="0")
    once = tmp_path / "once"
    commit = f'"{HG}" -R "{fresh.root}" commit --cwd "{fresh.root}" -Aqm late'
    host = uploading(fresh)
    uploading(
        fresh,
        f'cp "$HGCB_BUNDLE_PATH" "{host}/$HGCB_BUNDLE_BASENAME";'
        f'test -e "{once}" || {{ touch "{once}" "{fresh.root}/late"; {commit}; }}',
    )
    fresh.refresh()
    fresh.wait()
    assert fresh.tokens() == [("base", 1), ("increment", 2)]
    assert not fresh.debris()


def test_server_that_does_not_answer_is_not_waited_for(fresh: Bundled) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        fresh.configure("amalgam", bundles__url=f"http://127.0.0.1:{port}/bundles")
        fresh.configure("http", timeout="0.2")
        done = fresh.run(REFRESH)
    assert done.code == 255
    assert b"abort: bundle cannot be read where it was published: timed out" in done.err
    assert not fresh.manifests()
    assert not fresh.bundles()


def test_failed_deletion_is_a_warning_and_tried_again(fresh: Bundled) -> None:
    host = uploading(fresh)
    fresh.refresh()
    fresh.configure("amalgam", bundles__retention="0")
    fresh.configure("clone-bundles", delete_command="false", git__formats="cinnabar-v1")
    old = {path.name for path in host.iterdir()} - {"bundles.list"}
    done = fresh.run(REFRESH)
    assert done.code == 0
    (name,) = old
    assert done.err.startswith(f"warning: cannot delete bundle {name}: ".encode())
    assert name not in fresh.named()
    assert (host / name).exists()
    uploading(fresh)
    fresh.refresh()
    assert not (host / name).exists()


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


def test_lost_file_is_told_and_made_again(published: Bundled) -> None:
    path = published.live("cinnabar-v1")
    path.unlink()
    (problem,) = published.problems()
    assert problem["text"] == f"bundle is lost: {path}"
    with published.served() as served:
        assert "cinnabarclone" in served.capabilities()
    published.refresh()
    assert path.exists()
    assert not published.problems()


@pytest.mark.parametrize("length", [0, 3])
def test_damaged_set_of_heads_is_noticed_and_made_again(
    published: Bundled, length: int
) -> None:
    live = published.live_names()
    for path in published.directory.glob("*.heads"):
        os.truncate(path, length)
    with published.served() as served:
        assert "cinnabarclone" not in served.capabilities()
        assert not published.live_names()
        published.refresh()
        assert "cinnabarclone" in served.capabilities()
    assert published.live_names() == live


def test_part_of_a_set_of_heads_says_nothing_of_the_rest(published: Bundled) -> None:
    published.hg("update", "-q", "0")
    published.commit("another head")
    published.hg("admin::clone-bundles-clear")
    published.refresh()
    sets = published.directory.glob("*.heads")
    (path,) = (path for path in sets if path.stat().st_size == 40)
    os.truncate(path, 20)
    assert not published.live_names()


def test_damaged_register_keeps_nobody_from_pulling(published: Bundled) -> None:
    (published.directory / "register").write_text("{")
    with published.served() as served:
        said = served.capabilities()
        assert "getbundle" in said
        assert not said & {"cinnabarclone", "clonebundles"}
        assert served.get("?cmd=clonebundles") == b""
        assert served.get("?cmd=cinnabarclone") == b""


def test_who_may_read_the_directory_may_read_what_is_put_there(
    fresh: Bundled, tmp_path: Path
) -> None:
    (fresh.dot_hg / "store").chmod(0o700)
    web = tmp_path / "web"
    web.mkdir()
    web.chmod(0o755)
    fresh.configure("amalgam", bundles__directory=str(web / "repo"))
    fresh.refresh()
    modes = {path.suffix: path.stat().st_mode & 0o777 for path in web.glob("*/*")}
    assert modes == {".bundle": 0o444, ".list": 0o644}
    assert (web / "repo").stat().st_mode & 0o777 == 0o755
    assert (fresh.directory / "register").stat().st_mode & 0o777 == 0o600


def test_inline_bundles_of_hg_stay_with_mercurial(fresh: Bundled) -> None:
    fresh.configure(
        "clone-bundles",
        auto_generate__formats="gzip-v2",
        auto_generate__serve_inline="yes",
    )
    fresh.refresh()
    assert fresh.read("clonebundles.manifest").startswith("peer-bundle-cache://")
    assert fresh.tokens() == [("base", 1)]


@pytest.mark.parametrize("external", [None, "yes"])
def test_restricted_repository_has_no_address_elsewhere_unless_told(
    fresh: Bundled, external: str | None
) -> None:
    fresh.configure("web", allow_read="alice")
    (fresh.dot_hg / "hgrc").write_text(
        fresh.read("hgrc").replace("allow-read", "allow_read")
    )
    host = uploading(fresh)
    if external:
        fresh.configure("amalgam", bundles__external=external)
    fresh.refresh()
    assert bool(list(host.iterdir())) == bool(external)
    assert bool(fresh.bundles()) != bool(external)


def restrict(bundled: Bundled) -> None:
    with (bundled.dot_hg / "hgrc").open("a") as file:
        file.write("[web]\nallow_read = alice\n")


@pytest.mark.parametrize("external", [None, "yes"])
def test_restricted_repository_puts_nothing_elsewhere_unless_told(
    fresh: Bundled, tmp_path: Path, external: str | None
) -> None:
    # whoever serves that directory shows the list in it, and so all of the bundles
    fresh.configure("amalgam", bundles__directory=str(tmp_path / "www"))
    restrict(fresh)
    if external:
        fresh.configure("amalgam", bundles__external=external)
    fresh.refresh()
    assert (tmp_path / "www").exists() == bool(external)
    assert bool(fresh.bundles()) != bool(external)


def test_repository_that_becomes_restricted_takes_its_bundles_back(
    fresh: Bundled, tmp_path: Path
) -> None:
    directory = tmp_path / "www"
    fresh.configure("clone-bundles", auto_generate__formats="gzip-v2")
    fresh.configure("amalgam", bundles__directory=str(directory))
    fresh.refresh()
    assert len(list(directory.iterdir())) == 3
    restrict(fresh)
    fresh.refresh()
    assert [path.name for path in directory.iterdir()] == ["bundles.list"]
    assert "uri = " not in (directory / "bundles.list").read_text()
    assert fresh.named() == fresh.bundles()
    assert len(fresh.bundles()) == 2
    assert not fresh.problems()


def test_full_disk_leaves_the_last_manifests(published: Bundled) -> None:
    before = published.manifests()
    published.commit(os.urandom(30_000).hex())
    for limit in (0, 1000, 3000, 8000, 20_000):
        process = published.start_refresh(
            preexec_fn=lambda limit=limit: resource.setrlimit(
                resource.RLIMIT_FSIZE, (limit, limit)
            )
        )
        _out, err = process.communicate()
        assert process.returncode, limit
        assert b"Traceback" not in err, err
        check_good(published)
    assert published.manifests() == before
    published.refresh()
    assert not published.debris()
    assert published.manifests() != before


def check_good(bundled: Bundled) -> None:
    """See that what is named is there, and is what its name says."""
    for name in bundled.named():
        path = bundled.directory / name
        said = subprocess.run(["sha256sum", path], capture_output=True, check=True)
        assert said.stdout.decode().startswith(name.partition(".")[0])


def test_killed_generators_leave_good_manifests(published: Bundled) -> None:
    published.configure("clone-bundles", trigger__revs="0")
    for number in range(6):
        published.commit()
        process = published.start_refresh()
        time.sleep(0.15 + 0.12 * number)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        check_good(published)
    published.refresh()
    check_good(published)
    assert not published.debris()
    names = {row["name"] for row in published.rows("live")}
    assert published.named() <= names


def test_change_after_change_has_one_generator(fresh: Bundled, tmp_path: Path) -> None:
    log = tmp_path / "log"
    host = tmp_path / "host"
    # two at once would be seen: each says when it begins and when it ends
    command = (
        f'echo begin >> "{log}"; sleep 0.05; '
        f'cp "$HGCB_BUNDLE_PATH" "{host}/$HGCB_BUNDLE_BASENAME"; echo end >> "{log}"'
    )
    uploading(fresh, command)
    fresh.configure(
        "clone-bundles",
        auto_generate__on_change="yes",
        git__formats=", ".join(FORMATS),
        trigger__revs="5",
    )
    for _number in range(12):
        fresh.commit()
        for name in fresh.named():
            assert (host / name).exists()
    fresh.wait()
    lines = log.read_text().split()
    assert lines == ["begin", "end"] * (len(lines) // 2)
    assert not fresh.debris()
    assert not fresh.problems()
    covered = max(row["covered"] for row in fresh.rows("live"))
    assert covered > 0.5
    # and what is missing is less than the trigger
    assert all(
        max(changesets_upto(fresh)[kind]) >= 15 - 5
        for kind in ("git-v2", "cinnabar-v1")
    )


def changesets_upto(bundled: Bundled) -> dict[str, list[int]]:
    """Return how far the live bundles of each format reach."""
    found: dict[str, list[int]] = {kind: [] for kind in FORMATS}
    total = 0
    for row in sorted(bundled.rows("live"), key=lambda row: int(row["token"])):
        kind = row["format"].partition("+")[0]
        if kind == "git-v2":
            total = row["changesets"] + (total if "+" in row["format"] else 0)
            found[kind].append(total)
        else:
            found[kind].append(row["changesets"])
    return found


def test_two_generators_at_once_are_refused(published: Bundled) -> None:
    prefix = subprocess.check_output(
        [
            HG.with_name("python3"),
            "-c",
            "from mercurial import lock; print(lock._getlockprefix().decode())",
        ],
        text=True,
    ).strip()
    (published.directory / "lock").symlink_to(f"{prefix}:{os.getpid()}")
    done = published.run(REFRESH)
    assert done.code == 20
    assert done.err.startswith(b"abort: bundles are being generated by process ")
    assert published.run(CLEAR).code == 20


def test_share_has_bundles_of_its_own(published: Bundled, tmp_path: Path) -> None:
    hg(tmp_path, "--config", "extensions.share=", "share", "-qU", "repo", "share")
    shared = Bundled(tmp_path / "share", published._server)
    shared.configure("extensions", amalgam="", clonebundles="")
    shared.configure("clone-bundles", git__formats="git-v2")
    shared.refresh()
    assert shared.tokens() == [("base", 1)]
    shared.hg(CLEAR)
    assert len(published.rows("live")) == 3
