"""Bundles in the repository of a stranger: served, and never made or removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from testlib.bundled import Bundled
from testlib.dockets import edit
from testlib.users import STRANGER

# servers and generators are processes of their own
pytestmark = [pytest.mark.slow, pytest.mark.needs("root")]

#: The configuration of a stranger's repository is not read.
OWN = [
    "--config=extensions.amalgam=",
    "--config=extensions.clonebundles=",
    "--config=clone-bundles.git.formats=git-v2",
    "--config=clone-bundles.auto-generate.formats=gzip-v2",
    "--config=clone-bundles.auto-generate.on-change=yes",
    "--config=clone-bundles.trigger.revs=0",
]


@pytest.fixture
def strange(published: Bundled) -> Bundled:
    """A repository with bundles that belongs to somebody else."""
    published.commit()
    (published.dot_hg / "hgrc").unlink()
    for path in [published.root, *published.root.rglob("*")]:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    return published


def shot(bundled: Bundled) -> dict[Path, tuple[int, int]]:
    """Return all that is known of the files of bundles, but when they were read."""
    paths = [*bundled.directory.rglob("*"), *bundled.dot_hg.glob("*manifest*")]
    paths += bundled.dot_hg.glob("clonebundles*")
    found = {path: path.lstat() for path in paths}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


@pytest.mark.parametrize(
    "command",
    [
        ["admin::clone-bundles-refresh"],
        ["admin::clone-bundles-refresh", "--background"],
        ["admin::clone-bundles-clear"],
        ["debug::amalgam-bundles"],
        ["git::bundle", "/dev/null"],
    ],
    ids=lambda command: command[0],
)
def test_command_is_refused_with_one_hint(strange: Bundled, command: list[str]) -> None:
    before = shot(strange)
    done = strange.run(*command, *OWN)
    assert done.code == 150
    first, hint = done.err.splitlines()
    assert first.endswith(b"who is not trusted")
    assert hint == b"(see 'hg help config.trusted')"
    assert shot(strange) == before


def test_changes_go_on_silently(strange: Bundled) -> None:
    before = shot(strange)
    (strange.root / "more").write_text("more\n")
    done = strange.run("commit", "-qAm", "more", "-u", "root", *OWN)
    assert (done.code, done.out, done.err) == (0, b"", b"")
    strange.wait()
    assert shot(strange) == before


def test_bundles_that_are_there_are_served(strange: Bundled) -> None:
    name = next(iter(strange.bundles()))
    before = shot(strange)
    with strange.served_by(*OWN) as served:
        assert served.status(f"amalgam/bundles/{name}") == 200
        assert served.status("amalgam/bundles/bundles.list") == 200
        assert "clonebundles" in served.capabilities()
    assert shot(strange) == before


def test_configured_directory_is_not_read_for_a_stranger(
    strange: Bundled, tmp_path: Path
) -> None:
    directory = tmp_path / "www"
    name = next(iter(strange.bundles()))
    directory.mkdir()
    (strange.directory / name).rename(directory / name)
    edit(
        strange.directory / "register",
        lambda lines: [(k, bytes(directory) if k == b"path" else v) for k, v in lines],
    )
    setting = f"--config=amalgam.bundles.directory={directory}"
    with strange.served_by(*OWN, setting) as served:
        assert served.status(f"amalgam/bundles/{name}") == 404
    with strange.served_by(*OWN, setting, "--config=trusted.users=*") as served:
        assert served.status(f"amalgam/bundles/{name}") == 200
