"""Fixtures that several test modules share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mercurial import extensions, ui as uimod
from testlib.bundled import Bundled
from testlib.environment import git, seal
from testlib.exported import Exported
from testlib.generated import generate
from testlib.githost import GitHost, git_host
from testlib.hgserver import HgServer
from testlib.needs import Skips


def pytest_configure(config: pytest.Config) -> None:
    seal()
    config.pluginmanager.register(Skips())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to ``make torture`` all cases of a sampled test but the first ones."""
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        function = item.nodeid.partition("[")[0]
        if mark and seen[function] >= mark.args[0]:
            item.add_marker("torture")
        seen[function] += 1


def pytest_report_header() -> str:
    """Name the git that is tested."""
    return git(Path.cwd(), "version").decode().strip()


@pytest.fixture(scope="session")
def server() -> Iterator[HgServer]:
    """An hg that is started already."""
    server = HgServer()
    yield server
    server.close()


@pytest.fixture
def ui() -> Any:
    """Ours is on, but only for repositories of this ui."""
    ui = uimod.ui.load()
    ui.setconfig(b"extensions", b"amalgam", b"")
    extensions.loadall(ui)
    return ui


@pytest.fixture
def mapping_ui(ui: Any) -> Any:
    """It maps every index."""
    ui.setconfig(b"experimental", b"mmapindexthreshold", b"0")
    return ui


@pytest.fixture
def own_server() -> Iterator[HgServer]:
    """An hg for one test, with extensions that change Mercurial once they are loaded.

    LFS, largefiles and narrow do, also for repositories that do not enable them.
    """
    server = HgServer()
    yield server
    server.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GitHost]:
    """A git host for one test."""
    with git_host(tmp_path / "host") as host:
        yield host


@pytest.fixture(scope="session")
def exported_template(
    tmp_path_factory: pytest.TempPathFactory, server: HgServer
) -> Exported:
    """An exported repository, to be copied."""
    return Exported.make(tmp_path_factory.mktemp("exported") / "repo", server)


@pytest.fixture
def store(exported_template: Exported, tmp_path: Path) -> Exported:
    """An exported repository, to be damaged."""
    return exported_template.copied(tmp_path)


@pytest.fixture
def empty(tmp_path: Path, server: HgServer) -> Exported:
    """An empty repository, which is not exported."""
    return Exported.init(tmp_path / "repo", server)


@pytest.fixture(scope="session")
def bundled_template(
    tmp_path_factory: pytest.TempPathFactory, server: HgServer
) -> Bundled:
    """A repository of which everything is published, to be copied."""
    made = Bundled.init(tmp_path_factory.mktemp("bundled") / "repo", server)
    made.refresh()
    return made


@pytest.fixture
def published(bundled_template: Bundled, tmp_path: Path) -> Bundled:
    """A repository of which everything is published, to be changed."""
    return bundled_template.copied(tmp_path)


@pytest.fixture
def fresh(tmp_path: Path, server: HgServer) -> Bundled:
    """A repository without bundles, for git alone."""
    return Bundled.init(tmp_path / "repo", server, git=["git-v2"], hg=[])


@pytest.fixture(scope="session")
def large_template(
    tmp_path_factory: pytest.TempPathFactory, server: HgServer
) -> Exported:
    """A repository of which the first export makes a pack for git clients alone."""
    path = tmp_path_factory.mktemp("large") / "repo"
    store = Exported(generate(path, "merges", "--changesets=1100"), server)
    store.hg("phase", "--public", "all()")
    store.hg("git::export")
    return store


@pytest.fixture
def large(large_template: Exported, tmp_path: Path) -> Exported:
    return large_template.copied(tmp_path)
