"""A censored text leaves all bundles at once: no request gets it, no file has it."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
from testlib.bundled import CLEAR, REFRESH, Bundled, uploading
from testlib.environment import HG, git
from testlib.hgserver import HgServer

# servers and generators are processes of their own
pytestmark = pytest.mark.slow

SECRET = "do not read this"


def planted(bundled: Bundled) -> str:
    """Commit what must not be read, then what replaces it; return the revision."""
    path = bundled.root / "file0"
    path.write_text(SECRET + "\n")
    bundled.hg("commit", "-qm", "planted")
    node = bundled.hg("log", "-r", ".", "-T", "{node}")
    path.write_text("gone\n")
    bundled.hg("commit", "-qm", "removed")
    return node


def censor(bundled: Bundled, node: str, *options: str) -> None:
    bundled.hg(
        "--config", "extensions.censor=", "censor", "-r", node, "file0", *options
    )


def secret_in(bundled: Bundled, tmp_path: Path) -> set[str]:
    """Return the names of files below ``.hg`` and elsewhere that have the text."""
    found = set()
    roots = [bundled.dot_hg / "amalgam/bundles", bundled.dot_hg / "bundle-cache"]
    for path in [p for root in [*roots, tmp_path / "host"] for p in root.rglob("*")]:
        if path.suffix == ".bundle":
            if SECRET in text_of_bundle(path, tmp_path):
                found.add(path.name)
        elif path.is_file() and SECRET.encode() in inflated(path.read_bytes()):
            found.add(path.name)
    return found


def inflated(content: bytes) -> bytes:
    """Return a bundle of the format none-v2 or gzip-v2 as it is uncompressed."""
    at = content.find(b"x\x9c")
    return zlib.decompressobj().decompress(content[at:]) if at > 0 else content


def text_of_bundle(path: Path, tmp_path: Path) -> str:
    directory = tmp_path / "unpacked"
    if not directory.exists():
        git(tmp_path, "init", "-q", "--bare", str(directory))
    pack = path.read_bytes().split(b"\n\n", 1)[1]
    subprocess.run(
        ["git", "unpack-objects", "-q"], cwd=directory, input=pack, check=True
    )
    content = git(directory, "cat-file", "--batch-all-objects", "--batch")
    for found in (directory / "objects").glob("??"):
        for item in found.iterdir():
            item.unlink(missing_ok=True)
    return content.decode(errors="replace")


@pytest.fixture
def censored(published: Bundled) -> tuple[Bundled, str]:
    """A repository with bundles that have a text which is to be censored."""
    node = planted(published)
    published.hg(CLEAR)
    published.refresh()
    return published, node


def test_text_is_in_no_bundle_after_the_censoring(
    censored: tuple[Bundled, str], tmp_path: Path
) -> None:
    bundled, node = censored
    old = bundled.bundles()
    assert secret_in(bundled, tmp_path) == old
    censor(bundled, node)
    # at once, and without anybody who generates
    assert not bundled.bundles()
    assert not bundled.named()
    assert not bundled.rows()
    bundled.refresh()
    assert len(bundled.rows("live")) == 3
    assert not old & bundled.bundles()
    assert not secret_in(bundled, tmp_path)


def test_nothing_is_served_from_the_next_request_on(
    censored: tuple[Bundled, str],
) -> None:
    bundled, node = censored
    name = bundled.live("gzip-v2").name
    with bundled.served() as served:
        assert served.status(f"amalgam/bundles/{name}") == 200
        # nobody takes anything back: the lock of generators is held
        lock = bundled.directory / "lock"
        lock.symlink_to("elsewhere:1")
        censor(bundled, node)
        assert bundled.named()
        assert (bundled.directory / name).exists()
        for kept in bundled.bundles():
            assert served.status(f"amalgam/bundles/{kept}") == 404
        assert served.status("amalgam/bundles/bundles.list") == 404
        assert not served.capabilities() & {"clonebundles", "cinnabarclone"}
        assert served.get("?cmd=clonebundles") == b""
        assert served.get("?cmd=cinnabarclone") == b""
        assert {row["state"] for row in bundled.rows()} == {"stale"}
        lock.unlink()
        old = bundled.bundles()
        bundled.refresh()
        assert not old & bundled.bundles()
        assert "cinnabarclone" in served.capabilities()


def test_what_is_kept_for_others_goes_too(published: Bundled, tmp_path: Path) -> None:
    node = planted(published)
    published.configure("clone-bundles", trigger__revs="0")
    published.refresh()
    published.commit()
    published.refresh()
    published.commit()
    published.refresh()
    assert {row["state"] for row in published.rows()} >= {"live", "kept"}
    censor(published, node)
    assert not published.bundles()


def test_uploaded_bundles_are_deleted_by_the_command(
    fresh: Bundled, tmp_path: Path
) -> None:
    fresh.configure("clone-bundles", auto_generate__formats="gzip-v2")
    host = uploading(fresh)
    node = planted(fresh)
    fresh.refresh()
    assert secret_in(fresh, tmp_path)
    censor(fresh, node)
    assert [path.name for path in host.iterdir()] == ["bundles.list"]
    assert "\turi" not in (host / "bundles.list").read_text()
    fresh.refresh()
    assert len(list(host.iterdir())) == 3
    assert not secret_in(fresh, tmp_path)


@pytest.mark.parametrize("way", ["inline", "uploaded"])
def test_bundles_of_mercurial_alone_go_too(
    tmp_path: Path, server: HgServer, way: str
) -> None:
    bundled = Bundled.init(tmp_path / "repo", server, git=[], hg=["gzip-v2"])
    if way == "inline":
        bundled.configure("clone-bundles", auto_generate__serve_inline="yes")
    else:
        uploading(bundled)
    node = planted(bundled)
    bundled.refresh()
    said = bundled.read("clonebundles.manifest")
    (old,) = secret_in(bundled, tmp_path)
    (bundled.directory).mkdir(parents=True, exist_ok=True)
    lock = bundled.directory / "lock"
    lock.symlink_to("elsewhere:1")
    censor(bundled, node)
    with bundled.served() as served:
        assert bundled.read("clonebundles.manifest") == said
        assert served.get("?cmd=clonebundles_manifest") == b""
        assert "clonebundles" not in served.capabilities()
        if way == "inline":
            for name in (old, f"./{old}", f"x/../{old}"):
                sent = served.get(f"?cmd=get_cached_bundle_inline&path={name}")
                assert b"does not exist" in sent
        lock.unlink()
        bundled.refresh()
        assert not secret_in(bundled, tmp_path)
        assert served.get("?cmd=clonebundles_manifest")


@pytest.mark.parametrize("damage", ["nonsense", "fifo"])
def test_damaged_mark_lets_no_bundle_out(
    published: Bundled, damage: str, tmp_path: Path
) -> None:
    mark = published.dot_hg / "amalgam-censored"
    if damage == "fifo":
        subprocess.run(["mkfifo", str(mark)], check=True)
    else:
        mark.write_text("nonsense")
    with published.served() as served:
        assert not served.capabilities() & {"clonebundles", "cinnabarclone"}
        for name in published.bundles():
            assert served.status(f"amalgam/bundles/{name}") == 404


def test_censoring_while_bundles_are_made_leaves_none_with_the_text(
    fresh: Bundled, tmp_path: Path
) -> None:
    node = planted(fresh)
    host = tmp_path / "host"
    once = tmp_path / "once"
    command = (
        f'test -e "{once}" || {{ touch "{once}"; "{HG}" -R "{fresh.root}" '
        f'--config extensions.censor= --cwd "{fresh.root}" censor -r {node} file0; }};'
        f'cp "$HGCB_BUNDLE_PATH" "{host}/$HGCB_BUNDLE_BASENAME"'
    )
    uploading(fresh)
    uploading(fresh, command)
    done: Any = fresh.run(REFRESH)
    assert b"Traceback" not in done.err
    assert once.exists()
    assert "\turi" not in fresh.manifests()
    fresh.refresh()
    assert len(fresh.rows("live")) == 1
    assert not secret_in(fresh, tmp_path)


def test_strip_and_secret_take_kept_files_along(
    published: Bundled, tmp_path: Path
) -> None:
    published.configure("clone-bundles", trigger__revs="0")
    old = published.bundles()
    for _number in range(2):
        published.commit()
        published.refresh()
    assert old <= published.bundles()
    published.hg("phase", "--draft", "--force", "-r", "2")
    published.refresh()
    # what was kept for those who still read it has the changeset, too
    assert not old & published.bundles()
