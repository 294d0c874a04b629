"""Files outside of ``.hg`` are for those who get to the repository."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib.environment import HG, captured, hg
from testlib.small import repository

from hgext3rd.amalgam.files import Placement


@pytest.mark.parametrize(
    ("above", "mode"),
    [
        (0o755, 0o2755),
        (0o711, 0o2755),
        (0o750, 0o2750),
        (0o700, 0o2700),
        # a group that is kept out, though others are not
        (0o705, 0o2700),
    ],
)
@pytest.mark.parametrize("place", ["repo", "repo/.hg"])
def test_files_elsewhere_are_for_those_who_get_to_the_store(
    tmp_path: Path, above: int, mode: int, place: str
) -> None:
    for directory in (tmp_path, *tmp_path.parents):
        if not directory.stat().st_mode & 0o001:
            directory.chmod(0o755)
    store = tmp_path / "repo/.hg/store"
    store.mkdir(parents=True)
    for directory in (tmp_path / "repo", store.parent):
        directory.chmod(0o755)
    store.chmod(0o2755)
    (tmp_path / place).chmod(above)
    (tmp_path / "link").symlink_to(store)
    for path in (store, tmp_path / "link"):
        found = Placement.elsewhere(bytes(path), bytes(store.parent))
        assert oct(found.mode) == oct(mode)
    assert Placement.at(bytes(store), bytes(store.parent)).mode == 0o2755


@pytest.mark.slow
def test_store_elsewhere_is_as_private_as_the_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    for directory in (tmp_path, *tmp_path.parents):
        if not directory.stat().st_mode & 0o001:
            directory.chmod(0o755)
    (repo / ".hg/store").chmod(0o755)
    repo.chmod(0o700)
    elsewhere_path = tmp_path / "elsewhere"
    hg(repo, "git::export", "--config", f"amalgam.git.path={elsewhere_path}")
    made = [elsewhere_path / "cinnabar.git", *elsewhere_path.rglob("cinnabar.git/**/*")]
    assert len(made) > 10
    assert [path for path in made if path.stat().st_mode & 0o077] == []


@pytest.mark.needs("mounts")
def test_group_that_a_container_does_not_know_is_left_out(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    become = ["unshare", "--user", "--map-user=1000", str(HG)]
    done = captured([*become, "--config=extensions.amalgam=", "git::export"], repo)
    assert done.returncode == 0, done.stderr
    assert (repo / ".hg/amalgam/git/cinnabar.git/packed-refs").exists()
