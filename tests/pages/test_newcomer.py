"""Pages as a newcomer follows them, with their requirements alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from newcomer import Newcomer
from testlib import freshroot


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return freshroot.make_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
@pytest.mark.needs("fresh-root")
def test_the_first_pages_can_be_followed(tmp_path: Path, wheel: Path) -> None:
    Newcomer(freshroot.make(tmp_path / "root"), wheel).first_minutes()


@pytest.mark.slow
@pytest.mark.needs("fresh-root-users")
def test_servers_can_be_set_up(tmp_path: Path, wheel: Path) -> None:
    Newcomer(freshroot.make(tmp_path / "root"), wheel).serve_git()
