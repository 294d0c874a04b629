"""Bundles in an object store: a real S3 server, and clients that start from it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.bundled import CLEAR, REFRESH, Bundled
from testlib.environment import ENVIRONMENT, add_config, git, hg
from testlib.faultproxy import Fault, FaultProxy, fault_proxy
from testlib.hgserver import HgServer
from testlib.s3server import BUCKET, SECRET, S3Server, s3_server

pytestmark = [pytest.mark.slow, pytest.mark.needs("s3-server")]

KEY = re.compile(r"[0-9a-f]{16}-[0-9a-f]{32}\.(bundle|hg)")
MORE_THAN_A_PART = 40 << 20


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def s3_hg(s3: S3Server) -> Iterator[HgServer]:
    """An hg that has the credentials."""
    server = HgServer(ENVIRONMENT | s3.environment)
    yield server
    server.close()


@pytest.fixture
def stored(tmp_path: Path, s3: S3Server, s3_hg: HgServer) -> Bundled:
    """A repository whose bundles go into the store, and are not made yet."""
    return configured(Bundled.init(tmp_path / "repo", s3_hg), s3)


@pytest.fixture
def private(tmp_path: Path, s3: S3Server, s3_hg: HgServer) -> Iterator[Bundled]:
    """The same, restricted, with links to a bucket that nobody else can read."""
    bundled = Bundled.init(tmp_path / "repo", s3_hg)
    bundled.configure(
        "amalgam",
        bundles__url=f"s3://{BUCKET}/{prefix_of(bundled)}",
        bundles__link_seconds="600",
    )
    s3.make_private()
    yield bundled
    s3.make_public()


@pytest.fixture(scope="module")
def large_template(tmp_path_factory: pytest.TempPathFactory, s3_hg: HgServer) -> Path:
    """A repository whose bundle has several parts."""
    root = tmp_path_factory.mktemp("large") / "repo"
    bundled = Bundled.init(root, s3_hg, git=[], hg=["none-v2"], changesets=1)
    (root / "large").write_bytes(os.urandom(MORE_THAN_A_PART))
    bundled.hg("commit", "-qAm", "large", "--config", "ui.large-file-limit=0")
    return root


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3.port) as found:
        yield found


@pytest.fixture
def large(
    large_template: Path, tmp_path: Path, s3: S3Server, proxy: FaultProxy
) -> Iterator[Bundled]:
    """Such a repository, whose requests to the store may fail."""
    shutil.copytree(large_template, tmp_path / "repo", symlinks=True)
    environment = ENVIRONMENT | s3.environment | {"AWS_ENDPOINT_URL": proxy.endpoint}
    server = HgServer(environment)
    yield configured(Bundled(tmp_path / "repo", server), s3)
    server.close()


def configured(bundled: Bundled, s3: S3Server) -> Bundled:
    prefix = prefix_of(bundled)
    bundled.configure(
        "amalgam",
        bundles__url=f"s3://{BUCKET}/{prefix}",
        bundles__public_url=f"{s3.public}/{prefix}",
    )
    return bundled


def prefix_of(bundled: Bundled) -> str:
    return f"test/{bundled.root.parent.name}"


def objects(bundled: Bundled, s3: S3Server) -> set[str]:
    """Return the bundles that are in the store."""
    return s3.keys(prefix_of(bundled)) - {"bundles.list"}


def named(bundled: Bundled) -> set[str]:
    """Return the keys that are advertised."""
    return {found[0] for found in KEY.finditer(bundled.manifests())}


def part_uploads(method: str, path: str) -> bool:
    return method == "PUT" and "partNumber=" in path


def test_bundles_are_in_the_store_and_nowhere_else(
    stored: Bundled, s3: S3Server
) -> None:
    stored.refresh()
    assert len(objects(stored, s3)) == 3
    assert named(stored) == objects(stored, s3)
    assert not stored.bundles()
    assert not stored.debris()
    assert not stored.problems()
    for row in stored.rows("live"):
        with urllib.request.urlopen(row["url"]) as answer:
            digest = hashlib.sha256(answer.read()).hexdigest()
            headers = answer.headers
        assert row["name"].startswith(digest)
        assert headers["Content-Type"] == "application/octet-stream"
        assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
    with urllib.request.urlopen(f"{s3.public}/{prefix_of(stored)}/bundles.list") as got:
        assert got.read().decode() == stored.read("amalgam/bundles/bundles.list")
        assert got.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert got.headers["Cache-Control"] == "no-cache"


def test_clients_start_from_the_store(
    stored: Bundled, s3: S3Server, tmp_path: Path
) -> None:
    stored.configure("amalgam", git__serve="yes")
    stored.refresh()
    stored.commit()
    with stored.served() as served:
        hg(tmp_path, "clone", "-qU", served.url, "by-hg")
        uri = f"--bundle-uri={s3.public}/{prefix_of(stored)}/bundles.list"
        git(tmp_path, "clone", "-q", uri, served.url, "by-git")
        served.check_offloaded(stored)
    assert hg(tmp_path / "by-hg", "log", "-r", "tip", "-T", "{rev}") == b"3"
    assert (tmp_path / "by-git" / "file3").exists()
    assert git(tmp_path / "by-git", "for-each-ref", "refs/bundles")


def test_replaced_bundle_stays_as_long_as_it_is_retained(
    stored: Bundled, s3: S3Server
) -> None:
    stored.configure("clone-bundles", trigger__revs="0")
    stored.refresh()
    before = objects(stored, s3)
    stored.commit()
    stored.refresh()
    assert objects(stored, s3) > before
    stored.configure("amalgam", bundles__retention="0")
    stored.refresh()
    assert objects(stored, s3) == named(stored)
    assert not stored.problems()


def test_clearing_deletes_all_but_an_empty_list(stored: Bundled, s3: S3Server) -> None:
    stored.refresh()
    stored.hg(CLEAR)
    assert s3.keys(prefix_of(stored)) == {"bundles.list"}
    listed = s3.bucket / prefix_of(stored) / "bundles.list"
    assert b"uri = " not in listed.read_bytes()
    assert not named(stored)


def test_same_content_keeps_its_key_while_it_is_retained(
    stored: Bundled, s3: S3Server
) -> None:
    stored.refresh()
    before = objects(stored, s3)
    formats = "gzip-v2, gzip-v2;level=6"
    stored.configure("clone-bundles", auto_generate__formats=formats)
    stored.refresh()
    assert before == named(stored) == objects(stored, s3)


@pytest.mark.parametrize("package", ["obstore", "boto3"])
def test_missing_library_is_one_line(
    stored: Bundled, tmp_path: Path, package: str
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / f"{package}.py").write_text("raise ImportError")
    server = HgServer(stored.environment | {"PYTHONPATH": str(tmp_path / "broken")})
    done = Bundled(stored.root, server).run(REFRESH)
    server.close()
    assert done.code == 30
    assert done.err.decode() == (
        f"config error: amalgam.bundles.url needs the Python package {package}\n"
        "(install it with 'pip install hg-amalgam[s3]')\n"
    )
    assert not stored.debris()


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ({"public_url": ""}, "not known how clients read from s3://"),
        ({"link_seconds": "60"}, "not known how clients read from s3://"),
        (
            {"public_url": "", "link_seconds": "604801"},
            "expected at most 604800, one week",
        ),
        (
            {"url": "s3://key:pass@bundles/x"},
            "invalid value '...' for amalgam.bundles.url",
        ),
        ({"url": "s3://bundles/a/../b"}, "invalid value"),
    ],
)
def test_mistakes_are_refused_before_anything_is_made(
    stored: Bundled, s3: S3Server, items: dict[str, str], expected: str
) -> None:
    stored.configure("amalgam", **{f"bundles__{name}": items[name] for name in items})
    done = stored.run(REFRESH)
    assert done.code == 30
    assert expected in done.err.decode()
    assert b"pass" not in done.err
    assert not objects(stored, s3)


def test_command_and_store_exclude_each_other(stored: Bundled) -> None:
    stored.configure("clone-bundles", upload_command="true")
    done = stored.run(REFRESH)
    assert done.code == 30
    assert b"bundles cannot be uploaded by a command and to s3://" in done.err


def test_wrong_credentials_are_one_line_without_them(
    stored: Bundled, s3: S3Server
) -> None:
    wrong = {"AWS_SECRET_ACCESS_KEY": "wrongsecret"}
    server = HgServer(stored.environment | wrong)
    done = Bundled(stored.root, server).run(REFRESH, "--debug", "--traceback")
    server.close()
    assert done.code == 50
    place = f"s3://{BUCKET}/{prefix_of(stored)}"
    assert f"abort: object store {place}: 403 Forbidden" in done.err.decode()
    assert b"wrongsecret" not in done.err + done.out
    assert not objects(stored, s3)


def test_credentials_are_written_nowhere(stored: Bundled) -> None:
    stored.configure("extensions", blackbox="")
    stored.configure("blackbox", track="*")
    done = stored.run(REFRESH, "--debug")
    assert done.code == 0
    stored.run("admin::amalgam", "--debug")
    said = done.out + done.err
    for path in stored.dot_hg.rglob("*"):
        if path.is_file() and not path.is_symlink():
            said += path.read_bytes()
    assert SECRET.encode() not in said
    assert b"X-Amz-Signature" not in said


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.CUT])
def test_part_that_fails_is_sent_again(
    large: Bundled, s3: S3Server, proxy: FaultProxy, fault: Fault
) -> None:
    failed: set[str] = set()

    def rule(method: str, path: str) -> Fault:
        if not part_uploads(method, path) or path in failed:
            return Fault.NONE
        failed.add(path)
        return fault

    proxy.rule = rule
    large.refresh()
    assert len(failed) > 2
    (row,) = large.rows("live")
    assert row["bytes"] > MORE_THAN_A_PART
    assert named(large) == objects(large, s3)


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.FULL])
def test_upload_that_cannot_be_finished_is_aborted(
    large: Bundled, s3: S3Server, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.rule = lambda method, path: (
        fault if part_uploads(method, path) and "partNumber=2" in path else Fault.NONE
    )
    done = large.run(REFRESH)
    assert done.code == 50
    assert b"abort: object store s3://" in done.err
    assert f"{fault.value}".encode() in done.err
    assert b"Traceback" not in done.err
    assert not objects(large, s3)
    assert not named(large)
    assert not s3.uploads()
    assert not large.debris()
    proxy.rule = lambda _method, _path: Fault.NONE
    large.refresh()
    assert len(named(large)) == 1


def test_slow_link_takes_longer_and_nothing_else(
    large: Bundled, s3: S3Server, proxy: FaultProxy
) -> None:
    proxy.rule = lambda method, path: (
        Fault.SLOW if part_uploads(method, path) else Fault.NONE
    )
    large.refresh()
    assert named(large) == objects(large, s3)
    # parts, and no file: not even while it is uploaded
    assert sum("partNumber=" in line for line in proxy.requests) == 3


def test_killed_upload_is_removed_by_the_next_generator(
    large: Bundled, s3: S3Server, proxy: FaultProxy
) -> None:
    proxy.rule = lambda method, path: (
        Fault.SLOW if part_uploads(method, path) else Fault.NONE
    )
    process = large.start_refresh()
    deadline = time.monotonic() + 60
    while not any("partNumber=" in line for line in proxy.requests):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    temporary = list(large.directory.glob("tmp-*/*"))
    assert all(path.is_fifo() for path in temporary), "a copy on this machine"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (unfinished,) = s3.uploads()
    assert not named(large)
    proxy.rule = lambda _method, _path: Fault.NONE
    large.refresh()
    assert not s3.uploads()
    assert unfinished.rpartition("/")[2] not in objects(large, s3)
    assert named(large) == objects(large, s3)
    assert not large.debris()


def test_writer_that_fails_leaves_no_object(large: Bundled, s3: S3Server) -> None:
    (data,) = (large.dot_hg / "store" / "data").glob("large.d")
    data.write_bytes(data.read_bytes()[: MORE_THAN_A_PART // 2])
    done = large.run(REFRESH)
    assert done.code != 0
    assert b"Traceback" not in done.err
    assert not objects(large, s3)
    assert not s3.uploads()
    assert not large.debris()


def test_bundle_that_cannot_be_read_back_is_not_advertised(
    stored: Bundled, s3: S3Server
) -> None:
    stored.configure("amalgam", bundles__public_url=f"{s3.public}/elsewhere")
    done = stored.run(REFRESH)
    assert done.code == 255
    assert b"abort: cannot read published bundle: HTTP Error 404" in done.err
    assert not named(stored)
    assert not objects(stored, s3)


def test_bucket_that_hides_what_is_missing_is_not_for_cinnabar(
    stored: Bundled, proxy: FaultProxy
) -> None:
    """S3 does, unless everybody may list the bucket; versitygw does not."""
    proxy.rule = lambda _method, path: (
        Fault.FORBIDDEN if "/info/refs" in path else Fault.NONE
    )
    address = f"{proxy.endpoint}/{BUCKET}/{prefix_of(stored)}"
    stored.configure("amalgam", bundles__public_url=address)
    done = stored.run(REFRESH)
    assert done.code == 255
    assert b"is 403 (expected 404)" in done.err
    assert b"s3:ListBucket" in done.err
    assert "cinnabar-v1" not in {row["format"] for row in stored.rows("live")}
    assert not stored.read("cinnabar.manifest")


def test_lost_object_is_named_and_made_again(stored: Bundled, s3: S3Server) -> None:
    stored.refresh()
    (url,) = (r["url"] for r in stored.rows("live") if r["format"] == "gzip-v2")
    key = url.rpartition("/")[2]
    (s3.bucket / prefix_of(stored) / key).unlink()
    (problem,) = stored.problems()
    assert problem["text"].startswith("bundle is gone from the object store: ")
    done = stored.run(REFRESH)
    assert done.code == 0
    assert f"bundle is gone from the object store: {key}".encode() in done.err
    assert key not in named(stored)
    assert named(stored) == objects(stored, s3)
    assert not stored.problems()


def test_repair_withdraws_what_is_lost(stored: Bundled, s3: S3Server) -> None:
    stored.refresh()
    for key in objects(stored, s3):
        (s3.bucket / prefix_of(stored) / key).unlink()
    stored.hg("admin::amalgam", "--repair")
    assert not named(stored)
    listed = s3.bucket / prefix_of(stored) / "bundles.list"
    assert b"uri = " not in listed.read_bytes()
    stored.refresh()
    assert named(stored) == objects(stored, s3)


def test_repair_removes_orphans_of_its_own_only(stored: Bundled, s3: S3Server) -> None:
    stored.refresh()
    (owner,) = {key[:16] for key in named(stored)}
    directory = s3.bucket / prefix_of(stored)
    old = time.time() - 30 * 24 * 3600
    suffix = "0" * 32
    kept = {f"{'0' * 16}-{suffix}.hg", "README", f"{owner}-{suffix}.txt"}
    young = f"{owner}-{'1' * 32}.hg"
    for name in (*kept, young, f"{owner}-{suffix}.hg", f"{owner}-{suffix}.bundle"):
        s3.client().put_object(
            Bucket=BUCKET, Key=f"{prefix_of(stored)}/{name}", Body=b"orphan"
        )
        if name != young:
            os.utime(directory / name, (old, old))
    (problem,) = stored.problems()
    assert "has 2 objects that no bundle needs, 12 bytes" in problem["text"]
    assert "--repair" in problem["hint"]
    done = stored.run("admin::amalgam", "--repair")
    assert b"removed 2 objects that no bundle needs" in done.out
    assert objects(stored, s3) == named(stored) | kept | {young}
    assert not stored.problems()


def test_copy_neither_advertises_nor_deletes_what_it_did_not_make(
    stored: Bundled, s3: S3Server, s3_hg: HgServer, tmp_path: Path
) -> None:
    stored.refresh()
    before = named(stored)
    shutil.copytree(stored.root, tmp_path / "copy", symlinks=True)
    copy = Bundled(tmp_path / "copy", s3_hg)
    with copy.served() as served:
        assert served.get("?cmd=clonebundles") == b""
        assert served.get("?cmd=cinnabarclone") == b""
    done = copy.run(CLEAR)
    assert done.code == 0
    assert b"warning: bundle is not deleted: s3://" in done.err
    assert objects(stored, s3) == before


def test_store_of_before_keeps_its_objects_and_is_not_named(
    stored: Bundled, s3: S3Server
) -> None:
    stored.refresh()
    before = objects(stored, s3)
    stored.configure("amalgam", bundles__url="")
    with stored.served() as served:
        assert served.get("?cmd=clonebundles") == b""
    done = stored.run(REFRESH)
    assert done.code == 0
    assert b"warning: bundle is not deleted: s3://" in done.err
    assert objects(stored, s3) == before
    assert not named(stored)
    assert len(stored.bundles()) == 3


def test_restricted_repository_is_not_in_a_public_bucket(
    stored: Bundled, s3: S3Server
) -> None:
    stored.refresh()
    add_config(stored.root, "[web]\nallow_read = alice\n")
    assert len(stored.problems()) == 3
    with stored.served() as served:
        assert served.status("?cmd=clonebundles") == 401
    stored.refresh()
    assert s3.keys(prefix_of(stored)) == {"bundles.list"}
    assert len(stored.bundles()) == 3


def test_links_are_made_for_each_client(
    private: Bundled, s3: S3Server, tmp_path: Path
) -> None:
    private.configure("amalgam", git__serve="yes", serve__bundle_uri="yes")
    private.refresh()
    assert len(objects(private, s3)) == 3
    assert s3.keys(prefix_of(private)) == objects(private, s3), "a list with links"
    assert "Amz" not in private.manifests() + private.read("amalgam/bundles/register")
    (row,) = (row for row in private.rows("live") if row["format"] == "gzip-v2")
    with private.served() as served:
        listed = served.get("amalgam/bundles/bundles.list").decode()
        assert "X-Amz-Expires=600" in listed
        assert "X-Amz-Expires=600" in served.get("?cmd=clonebundles").decode()
        assert row["name"] not in served.get("?cmd=clonebundles").decode()
        content = served.get(row["url"])
        assert row["name"].startswith(hashlib.sha256(content).hexdigest())
        assert served.status("amalgam/bundles/" + "0" * 64 + ".hg") == 404
        assert served.status(row["url"] + "/info/refs") == 404
        hg(tmp_path, "clone", "-qU", served.url, "by-hg")
        uri = f"--bundle-uri={served.url}amalgam/bundles/bundles.list"
        git(tmp_path, "clone", "-q", uri, served.url, "by-git")
        served.check_offloaded(private)
    assert git(tmp_path / "by-git", "for-each-ref", "refs/bundles")
    url = f"{s3.public}/{prefix_of(private)}/{min(objects(private, s3))}"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(url)


def test_links_are_for_those_who_may_read_the_repository(private: Bundled) -> None:
    add_config(private.root, "[web]\nallow_read = alice\n")
    private.refresh()
    assert not private.bundles()
    assert not private.problems()
    (row,) = (row for row in private.rows("live") if row["format"] == "gzip-v2")
    with private.served() as served:
        assert served.status("?cmd=clonebundles") == 401
        assert served.status("amalgam/bundles/bundles.list") == 401
        assert served.status(row["url"]) == 401
    private.configure("amalgam", bundles__external="no")
    private.refresh()
    assert len(private.bundles()) == 3


def test_web_server_without_credentials_offers_no_dead_link(
    private: Bundled, server: HgServer
) -> None:
    private.refresh()
    (row,) = (row for row in private.rows("live") if row["format"] == "gzip-v2")
    other = Bundled(private.root, server)
    with other.served() as served:
        assert served.status(row["url"]) == 404
