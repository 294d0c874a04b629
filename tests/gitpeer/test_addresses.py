"""Addresses: which of Mercurial's paths are those of git repositories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mercurial import error
from testlib.environment import git, hg
from testlib.gitclone import Clone

from hgext3rd.amalgam.gitpeer import addresses, source


@pytest.mark.parametrize(
    "path",
    [
        b"git://host/project",
        b"git+ssh://user@host/project",
        b"git+https://host/project",
        b"git+file:///srv/project",
        b"https://host/project.git",
        b"ssh://user@host/project.git/#stable",
        b"git@host:project.git",
        b"git@host:group/project",
    ],
)
def test_git_has_these(path: bytes) -> None:
    assert addresses.is_git(path)


@pytest.mark.parametrize(
    "path",
    [
        b"https://host/project",
        b"ssh://user@host/project",
        b"http://host/project.git/branch",
        b"ftp://user@host:22/project.git",
        b"project",
        b"mail@home",
        b"default",
        b"",
    ],
)
def test_mercurial_keeps_these(path: bytes) -> None:
    assert not addresses.is_git(path)


def test_a_clone_of_nothing_is_told_its_usage(tmp_path: Path) -> None:
    for given in ((), ("a", "b", "c")):
        code, said = Clone(tmp_path).run("clone", *given)
        assert code == 255
        assert said.startswith("hg clone: invalid arguments")


def test_directories_are_looked_at(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "worktree")
    git(tmp_path, "init", "-q", "--bare", "bare")
    git(tmp_path, "init", "-q", "both")
    hg(tmp_path, "init", "both")
    (tmp_path / "plain").mkdir()
    found = {
        name: addresses.is_git(os.fsencode(tmp_path / name))
        for name in ("worktree", "bare", "both", "plain", "missing")
    }
    assert found == {
        "worktree": True,
        "bare": True,
        "both": False,
        "plain": False,
        "missing": False,
    }


@pytest.mark.parametrize(
    ("location", "name"),
    [
        (b"git+https://host/group/project.git", b"project"),
        (b"git@host:project.git", b"project"),
        (b"/srv/project/.git", b"project"),
        (b"/srv/project.git/#stable", b"project"),
    ],
)
def test_a_clone_has_the_name_of_its_source(location: bytes, name: bytes) -> None:
    assert source.name_of(location) == name


@pytest.mark.parametrize(
    "location",
    [
        b"git+https://user:password@host/project",
        b"git+ssh://-oProxyCommand=touch/x",
        b"git+ext::sh -c true",
    ],
)
def test_hostile_addresses_are_refused(location: bytes) -> None:
    with pytest.raises(error.InputError):
        source.address_of(location)
