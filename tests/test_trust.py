"""Trust in the owner of a repository, and in the group that may write there."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest
from mercurial import error, ui as uimod
from testlib.users import STRANGER

from hgext3rd.amalgam.trust import Trust

pytestmark = pytest.mark.needs("users")


@pytest.fixture
def hg_path(tmp_path: Path) -> Path:
    """The directory ``.hg`` of a stranger, with a store that only they may write."""
    path = tmp_path / ".hg"
    (path / "store").mkdir(parents=True)
    for directory in (path, path / "store"):
        directory.chmod(0o755)
        os.chown(directory, STRANGER, STRANGER)
    return path


def trust_in(hg_path: Path, store: str = "store", **trusted: str) -> Trust:
    ui = uimod.ui()
    for item, names in trusted.items():
        ui.setconfig(b"trusted", item.encode(), names.encode())
    ui.fixconfig(section=b"trusted")
    return Trust.of(ui, bytes(hg_path / store), bytes(hg_path))


def test_own_repository_is_usable(hg_path: Path) -> None:
    os.chown(hg_path, os.getuid(), -1)
    assert trust_in(hg_path).usable


def test_repository_of_a_stranger_is_not(
    hg_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    trust = trust_in(hg_path)
    assert not trust.usable
    assert not trust.may_map(os.stat(__file__))
    with pytest.raises(error.SecurityError, match="who is not trusted") as raised:
        trust.require(bytes(hg_path))
    assert raised.value.hint == b"see 'hg help config.trusted'"
    assert capfdbinary.readouterr() == (b"", b"")  # hg would say "not trusting file"


@pytest.mark.parametrize("trusted", [{"users": "20001"}, {"users": "*"}])
def test_owner_is_trusted_as_hg_does(hg_path: Path, trusted: dict[str, str]) -> None:
    trust = trust_in(hg_path, **trusted)
    trust.require(bytes(hg_path))
    assert trust.may_map(os.stat(hg_path))
    os.chown(hg_path / "store", STRANGER + 1, -1)
    assert not trust.may_map(os.stat(hg_path / "store"))


def test_owner_who_is_trusted_vouches_for_the_group(hg_path: Path) -> None:
    file = hg_path / "store/file"
    file.touch()
    os.chown(file, STRANGER + 1, STRANGER)
    assert not trust_in(hg_path, users="20001").may_map(file.stat())
    (hg_path / "store").chmod(0o775)
    assert trust_in(hg_path, users="20001").may_map(file.stat())
    assert not trust_in(hg_path).may_map(file.stat())


def test_owner_cannot_make_a_visitor_trust_a_group(hg_path: Path) -> None:
    for path in (hg_path, hg_path / "store"):
        os.chown(path, -1, os.getegid())
    (hg_path / "store").chmod(0o775)
    trust = trust_in(hg_path)
    assert not trust.may_map(os.stat(hg_path / "store"))
    with pytest.raises(error.SecurityError) as raised:
        trust.require(bytes(hg_path))
    group = grp.getgrgid(os.getegid()).gr_name
    hint = f"if you trust the members of group '{group}', set trusted.groups"
    assert raised.value.hint == hint.encode()
    trust_in(hg_path, groups=group).require(bytes(hg_path))
    assert trust_in(hg_path, groups=group).may_map(os.stat(hg_path / "store"))


def test_what_everybody_may_write_is_not_mapped(hg_path: Path) -> None:
    trust = trust_in(hg_path, users="20001")
    file, directory = hg_path / "store/file", hg_path / "store"
    file.touch()
    os.chown(file, STRANGER, -1)
    assert trust.may_map(file.stat(), directory.stat())
    directory.chmod(0o777)
    assert not trust.may_map(file.stat(), directory.stat())
    directory.chmod(0o755)
    file.chmod(0o646)
    assert not trust.may_map(file.stat(), directory.stat())


def test_store_of_another_repository_says_nothing_of_the_group(
    hg_path: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o775)
    victim.chmod(0o775)
    (hg_path / "link").symlink_to(victim)
    for store in ("link", "../victim"):
        trust = trust_in(hg_path, store, users="20001")
        assert trust.usable
        assert trust.group is None
