"""Where bundles are put, and who may read them there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.bundled import CLEAR, REFRESH, Bundled, uploading
from testlib.environment import add_config, hg
from testlib.hgserver import HgServer

# servers and generators are processes of their own
pytestmark = pytest.mark.slow


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


def test_no_repository_replaces_the_list_of_another(
    tmp_path: Path, server: HgServer
) -> None:
    """Also if it is a copy."""
    web = tmp_path / "web"
    one = Bundled.init(tmp_path / "one", server, git=["git-v2"], hg=[])
    one.configure("amalgam", bundles__directory=str(web))
    one.refresh()
    (tmp_path / "copies").mkdir()
    two = one.copied(tmp_path / "copies")
    two.commit()
    before, names = (web / "bundles.list").read_text(), {*web.iterdir()}
    for command in (REFRESH, CLEAR):
        done = two.run(command)
        assert done.code == 20
        problem = f"abort: the list of bundles in '{web}' is of another repository"
        assert problem.encode() in done.err
        assert b"remove bundles.list there" in done.err
        assert (web / "bundles.list").read_text() == before
        assert names <= {*web.iterdir()}
    (web / "bundles.list").unlink()
    (web / "bundles.list").mkdir()
    done = two.run(REFRESH)
    assert f"abort: '{web}/bundles.list' is a directory\n".encode() in done.err
    assert b"(remove it; amalgam makes its files again)" in done.err
    (web / "bundles.list").rmdir()
    two.refresh()
    assert "uri = " in (web / "bundles.list").read_text()


@pytest.mark.parametrize("closed", ["store", "above", "nothing", "told"])
def test_who_may_read_the_repository_may_read_its_bundles_elsewhere(
    open_path: Path, server: HgServer, closed: str
) -> None:
    fresh = Bundled.init(open_path / "repo", server, git=["git-v2"], hg=[])
    (fresh.dot_hg / "store").chmod(0o700 if closed in ("store", "told") else 0o755)
    fresh.root.chmod(0o700 if closed == "above" else 0o755)
    web = open_path / "web"
    web.mkdir()
    web.chmod(0o755)
    fresh.configure("amalgam", bundles__directory=str(web / "repo"))
    if closed == "told":
        fresh.configure("amalgam", bundles__external="yes")
    fresh.refresh()
    modes = {path.suffix: path.stat().st_mode & 0o777 for path in web.glob("*/*")}
    mode = (web / "repo").stat().st_mode & 0o777
    if closed in ("store", "above"):
        assert (modes, mode) == ({".bundle": 0o400, ".list": 0o600}, 0o700)
    else:
        assert (modes, mode) == ({".bundle": 0o444, ".list": 0o644}, 0o755)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that every user gets to, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


def test_register_is_for_those_who_may_read_the_store(fresh: Bundled) -> None:
    (fresh.dot_hg / "store").chmod(0o700)
    fresh.refresh()
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


def test_a_repository_that_has_none_of_ours_is_left_to_mercurial(
    tmp_path: Path, server: HgServer
) -> None:
    """Even where Mercurial makes a bundle although no changeset is public."""
    inline = {
        "auto_generate__formats": "gzip-v2",
        "auto_generate__serve_inline": "yes",
    }
    made = {}
    for amalgam in ("", "!"):
        bundled = Bundled.init(
            tmp_path / f"repo{amalgam}", server, git=[], hg=["gzip-v2"]
        )
        bundled.configure("clone-bundles", **inline)
        bundled.configure("extensions", amalgam=amalgam)
        bundled.hg("phase", "--draft", "--force", "-r", "all()")
        bundled.refresh()
        made[amalgam] = bundled.read("clonebundles.manifest")
    assert made["!"].startswith("peer-bundle-cache://")
    assert made[""] == made["!"]


def test_mercurial_bundles_nothing_secret(tmp_path: Path, server: HgServer) -> None:
    """Which it does by itself where nothing is public."""
    bundled = Bundled.init(tmp_path / "repo", server, git=[], hg=["gzip-v2"])
    bundled.configure("clone-bundles", auto_generate__serve_inline="yes")
    bundled.hg("phase", "--draft", "--force", "-r", "all()")
    bundled.hg("phase", "--secret", "--force", "-r", "tip")
    bundled.refresh()
    assert not bundled.read("clonebundles.manifest")
    bundled.hg("phase", "--public", "-r", "0")
    bundled.refresh()
    assert bundled.read("clonebundles.manifest").startswith("peer-bundle-cache://")


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
    add_config(bundled.root, "[web]\nallow_read = alice\n")


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


def test_bundles_that_may_not_be_elsewhere_are_not_named(
    fresh: Bundled, tmp_path: Path
) -> None:
    directory = tmp_path / "www"
    fresh.configure("clone-bundles", git__formats="git-v2, cinnabar-v1")
    fresh.configure("clone-bundles", auto_generate__formats="gzip-v2")
    fresh.configure("amalgam", bundles__directory=str(directory))
    fresh.refresh()
    with fresh.served() as served:
        assert b"amalgam/bundles/" in served.get("?cmd=clonebundles")
        assert b"amalgam/bundles/" in served.get("?cmd=cinnabarclone")
    with fresh.served_by("--config=amalgam.bundles.external=no") as served:
        assert served.get("?cmd=clonebundles") == b""
        assert served.get("?cmd=cinnabarclone") == b""
        assert served.status("amalgam/bundles/bundles.list") == 404


def test_admin_says_what_is_elsewhere_and_may_not_be(
    fresh: Bundled, tmp_path: Path
) -> None:
    directory = tmp_path / "www"
    fresh.configure("amalgam", bundles__directory=str(directory))
    fresh.refresh()
    (bundle,) = directory.glob("*.bundle")
    before = fresh.read("hgrc")
    restrict(fresh)
    assert [row["state"] for row in fresh.rows()] == ["stale"]
    (problem,) = fresh.problems()
    assert problem["text"].endswith(f"permissions do not hold: {bundle}")
    assert CLEAR in problem["hint"]
    # to and fro: nothing has happened yet
    after = fresh.read("hgrc")
    (fresh.dot_hg / "hgrc").write_text(before)
    assert [row["state"] for row in fresh.rows()] == ["live"]
    assert not fresh.problems()
    (fresh.dot_hg / "hgrc").write_text(after)
    fresh.hg(CLEAR)
    assert [path.name for path in directory.iterdir()] == ["bundles.list"]
    assert "uri = " not in (directory / "bundles.list").read_text()
    assert not fresh.problems()


def test_directory_of_before_keeps_its_file_and_admin_says_so(
    fresh: Bundled, tmp_path: Path
) -> None:
    fresh.configure("amalgam", bundles__directory=str(tmp_path / "www"))
    fresh.refresh()
    (bundle,) = (tmp_path / "www").glob("*.bundle")
    fresh.configure("amalgam", bundles__directory="")
    restrict(fresh)
    (problem,) = fresh.problems()
    assert problem["text"].endswith(str(bundle))
    assert problem["hint"].startswith("delete it there")
    done = fresh.run(REFRESH)
    assert done.code == 0
    assert b"warning: bundle is not deleted: %s" % bytes(bundle) in done.err
    assert bundle.exists()
    assert str(tmp_path / "www") not in fresh.read("amalgam/bundles/register")
    assert fresh.named() == fresh.bundles() == {bundle.name}


def test_uploaded_bundle_is_deleted_before_it_is_made_here(fresh: Bundled) -> None:
    """It has the same name. While that fails, it is not forgotten."""
    host = uploading(fresh)
    fresh.refresh()
    fresh.configure("clone-bundles", delete_command="false")
    restrict(fresh)
    for _time in range(2):
        done = fresh.run(REFRESH)
        assert done.code == 255
        assert b"has to be deleted in its former place first" in done.err
        (problem,) = fresh.problems()
        assert f"do not hold: file://{host}/" in problem["text"]
        assert not fresh.named()
        assert "uri = " not in (host / "bundles.list").read_text()
    uploading(fresh)
    fresh.refresh()
    assert [path.name for path in host.iterdir()] == ["bundles.list"]
    assert len(fresh.bundles()) == 1
    assert not fresh.problems()
    assert not fresh.debris()


def test_uploaded_bundle_that_nothing_deletes_is_named_once(fresh: Bundled) -> None:
    host = uploading(fresh)
    fresh.configure("clone-bundles", delete_command="")
    fresh.refresh()
    restrict(fresh)
    (problem,) = fresh.problems()
    assert problem["hint"].startswith("delete it there")
    fresh.refresh()
    assert not fresh.problems()
    assert len(list(host.iterdir())) == 2


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


def test_share_has_bundles_of_its_own(published: Bundled, tmp_path: Path) -> None:
    hg(tmp_path, "--config", "extensions.share=", "share", "-qU", "repo", "share")
    shared = Bundled(tmp_path / "share", published._server)
    shared.configure("extensions", amalgam="", clonebundles="")
    shared.configure("clone-bundles", git__formats="git-v2")
    shared.refresh()
    assert shared.tokens() == [("base", 1)]
    shared.hg(CLEAR)
    assert len(published.rows("live")) == 3
