"""Fixtures that several test modules share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.needs import Skips


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Skips())


@pytest.fixture(scope="session")
def server() -> Iterator[HgServer]:
    """An hg that is started already."""
    server = HgServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def exported_template(
    tmp_path_factory: pytest.TempPathFactory, server: HgServer
) -> Exported:
    """An exported repository, to be copied."""
    return Exported.make(tmp_path_factory.mktemp("exported") / "repo", server)


@pytest.fixture
def store(exported_template: Exported, tmp_path: Path) -> Exported:
    """An exported repository, to be damaged."""
    shutil.copytree(exported_template.root, tmp_path / "repo", symlinks=True)
    return Exported(tmp_path / "repo", exported_template.server)


@pytest.fixture
def empty(tmp_path: Path, server: HgServer) -> Exported:
    """An empty repository, which is not exported."""
    return Exported.init(tmp_path / "repo", server)
