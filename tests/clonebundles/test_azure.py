"""Bundles in Azure's blob store, as far as its emulator Azurite behaves like it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.azureserver import CONTAINER, AzureServer, azure_server
from testlib.bundled import Bundled
from testlib.environment import ENVIRONMENT, git, hg
from testlib.hgserver import HgServer

pytestmark = [pytest.mark.slow, pytest.mark.needs("azure-server")]

MORE_THAN_A_PART = 20 << 20


def read(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        return bytes(answer.read())


@contextlib.contextmanager
def stored(at: Path, azure: AzureServer, **items: str) -> Iterator[Bundled]:
    """A repository whose bundles go into the container; one has several parts."""
    server = HgServer(ENVIRONMENT | azure.environment)
    bundled = Bundled.init(at / "repo", server, hg=["none-v2"])
    bundled.configure("amalgam", bundles__url=f"az://{CONTAINER}/group/repo", **items)
    (bundled.root / "large").write_bytes(os.urandom(MORE_THAN_A_PART))
    bundled.hg("commit", "-qAm", "large", "--config", "ui.large-file-limit=0")
    yield bundled
    server.close()


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[AzureServer]:
    with azure_server(tmp_path / "azure") as server:
        yield server


def test_clients_start_from_azure_and_what_is_retired_is_deleted(
    azure: AzureServer, tmp_path: Path
) -> None:
    public = f"{azure.public}/group/repo"
    items = {"git__serve": "yes", "bundles__public_url": public}
    with stored(tmp_path, azure, **items) as bundled:
        bundled.refresh()
        rows = bundled.rows("live")
        assert len(rows) == 3
        for row in rows:
            assert row["url"].startswith(public)
            content = read(row["url"])
            assert row["name"].startswith(hashlib.sha256(content).hexdigest())
        assert not bundled.problems()
        with bundled.served() as served:
            hg(tmp_path, "clone", "-qU", served.url, "by-hg")
            uri = f"--bundle-uri={public}/bundles.list"
            git(tmp_path, "clone", "-q", uri, served.url, "by-git")
            served.check_offloaded(bundled)
        assert git(tmp_path / "by-git", "for-each-ref", "refs/bundles")
        bundled.hg("admin::clone-bundles-clear")
        assert b"uri = " not in read(f"{public}/bundles.list")
        for row in rows:
            with pytest.raises(urllib.error.HTTPError, match="404"):
                read(row["url"])


def test_links_to_a_private_container_are_made_for_each_client(tmp_path: Path) -> None:
    with (
        azure_server(tmp_path / "azure", is_public=False) as azure,
        stored(tmp_path, azure, bundles__link_seconds="600") as bundled,
    ):
        bundled.refresh()
        assert "sig=" not in bundled.manifests()
        with bundled.served() as served:
            line = served.get("?cmd=clonebundles").decode().split()[0]
            assert line.startswith(f"{azure.public}/group/repo/")
            assert len(read(line)) > MORE_THAN_A_PART
            with pytest.raises(urllib.error.HTTPError, match=r"40\d"):
                read(line.partition("?")[0])
            hg(tmp_path, "clone", "-qU", served.url, "by-hg")
            served.check_offloaded(bundled)
