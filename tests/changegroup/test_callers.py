"""Backups, pushes, incoming changesets; and what of them Mercurial writes itself."""

from __future__ import annotations

import os
import subprocess
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mercurial import changegroup, discovery, hg
from mercurial.revlogutils import flagutil
from testlib.changegroups import ALONE, LOG, STOCK, took
from testlib.hgserver import HgServer
from testlib.webserver import serving

from hgext3rd.amalgam.changegroup import native

DATE = ("-d", "0 0", "-u", "me")
HISTEDIT = "drop {0}\npick {1}\n"


@pytest.fixture
def repo(tmp_path: Path, server: HgServer) -> Path:
    """A repository: two lines of work from one root, and a change in progress."""
    repo = tmp_path / "repo"
    server.hg(tmp_path, "init", str(repo))
    for number in range(5):
        if number == 3:
            server.hg(repo, "update", "-q", "0")
        (repo / f"b{number}").write_text("other\n" * number)
        (repo / "a").write_text("line\n" * 50 + f"{min(number, 2)}\n")
        server.hg(repo, "commit", "-qAm", str(number), *DATE)
    (repo / "b0").write_text("in progress\n")
    return repo


def strip(server: HgServer, repo: Path, *options: str) -> None:
    server.hg(repo, "strip", "-q", "-f", "-r", "1", *options)


def rebase(server: HgServer, repo: Path, *options: str) -> None:
    server.hg(repo, "revert", "-q", "--all", "--no-backup")
    server.hg(repo, "rebase", "-q", "-s", "3", "-d", "2", *options)


def histedit(server: HgServer, repo: Path, *options: str) -> None:
    server.hg(repo, "revert", "-q", "--all", "--no-backup")
    rules = repo.parent / "rules"
    nodes = server.hg(repo, "log", "-r", "3:4", "-T", "{node} ").decode().split()
    rules.write_text(HISTEDIT.format(*nodes))
    server.hg(repo, "histedit", "-q", "--commands", str(rules), "3", *options)


def shelve(server: HgServer, repo: Path, *options: str) -> None:
    server.hg(repo, "shelve", "-q", "-n", "kept", "--date", "0 0", *options)


#: What a backup is made by, and who writes it. Shelving does so in a transaction.
BACKUPS = {
    strip: "native",
    rebase: "native",
    histedit: "native",
    shelve: "Mercurial's: transaction",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", BACKUPS, ids=lambda it: it.__name__)
def test_backups_are_those_of_mercurial(
    command: Any, repo: Path, server: HgServer
) -> None:
    made = list[dict[str, bytes]]()
    enabled = ("--config", f"extensions.{command.__name__}=")
    for options in (LOG, (*LOG, *STOCK)):
        copy = repo.parent / f"copy{len(made)}"
        subprocess.run(["cp", "-a", str(repo), str(copy)], check=True)
        took(copy)
        command(server, copy, *enabled, *options)
        reason = BACKUPS[command] if options == LOG else None
        assert set(took(copy)) == {reason or "Mercurial's: amalgam.bundles.native"}
        (directory,) = (
            path
            for name in ("strip-backup", "shelved")
            if (path := copy / ".hg" / name).exists()
        )
        found = {path.name: path.read_bytes() for path in directory.glob("*.hg")}
        assert found
        made.append(found)
    assert made[0] == made[1]


def test_push_over_http_is_native_and_arrives(
    repo: Path, server: HgServer, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    server.hg(tmp_path, "init", str(other))
    open_for_all = ("web.allow-push=*", "web.push_ssl=no", "extensions.amalgam=!")
    options = [part for item in open_for_all for part in ("--config", item)]
    log = ("log", "-T", "{rev} {node} {phase}\n")
    with serving(other, *options) as web:
        server.hg(repo, "push", "-q", "-r", "2", web.url, *LOG)
        server.hg(repo, "push", "-q", "-f", web.url, *LOG)
    assert took(repo) == ["native", "native"]
    server.hg(other, "verify", "-q", *ALONE)
    assert server.hg(other, *log) == server.hg(repo, *log)


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_incoming_keeps_a_bundle_that_stock_reads(
    scheme: str, repo: Path, server: HgServer, tmp_path: Path
) -> None:
    kept, other = tmp_path / "kept.hg", tmp_path / "other"
    server.hg(tmp_path, "clone", "-q", "-U", "-r", "1", str(repo), str(other))
    incoming = ("incoming", "-T", "{node}\n", "--bundle", str(kept))
    with serving(repo, "--config", "extensions.amalgam=", *LOG) as web:
        url = web.url if scheme == "http" else f"file://{repo}"
        said = server.hg(other, *incoming, url, *LOG).split()
    nodes = server.hg(repo, "log", "-r", "2:tip", "-T", "{node}\n").split()
    assert said[-3:] == nodes
    assert "native" in took(repo) + took(other)
    server.hg(other, "unbundle", "-q", str(kept), *ALONE)
    server.hg(other, "verify", "-q", *ALONE)
    assert server.hg(other, "log", "-r", "2:tip", "-T", "{node}\n").split() == nodes


@pytest.mark.parametrize("kind", ["none-v1", "gzip-v1", "bzip2-v2"])
def test_bundles_that_forward_a_changegroup_are_those_of_mercurial(
    kind: str, repo: Path, server: HgServer
) -> None:
    made = list[bytes]()
    for options in ((), ALONE):
        path = repo.parent / f"{len(made)}.hg"
        server.hg(repo, "bundle", "-q", "--all", "-t", kind, str(path), *options)
        made.append(path.read_bytes())
    assert made[0] == made[1]


def test_changegroup_that_was_just_made_is_forwarded(repository: Any) -> None:
    def made(native_bundles: bytes) -> Any:
        repository.ui.setconfig(b"amalgam", b"bundles.native", native_bundles)
        outgoing = discovery.outgoing(repository)
        make = changegroup.makechangegroup
        return native.make(make, repository, outgoing, b"02", b"test")

    parsed = [*made(b"no").getchunks()]
    assert len(parsed) > 1
    unpacker = made(b"yes")
    assert isinstance(unpacker, changegroup.cg2unpacker)
    assert [*unpacker.getchunks()] == [b"".join(parsed)]


def test_unpacker_of_another_extension_parses_itself(repository: Any) -> None:
    other = type("other", (changegroup.cg2unpacker,), {"getchunks": lambda self: self})
    unpacker = other(BytesIO(), b"UN")
    assert native.make(lambda *_args: unpacker, repository) is unpacker
    assert type(unpacker) is other


def packer_of(repository: Any, version: bytes = b"02", **kwargs: Any) -> Any:
    return changegroup.getbundler(version, repository, **kwargs)


def asked(packer: Any, changesets: int = 5, *, has_changelog: bool = True) -> bytes:
    return native.fallback_reason(packer, changesets, has_changelog=has_changelog)


@pytest.fixture
def repository(repo: Path, ui: Any) -> Any:
    return hg.repository(ui, os.fsencode(repo))


#: A change to a packer that is native otherwise, and the reason.
PACKERS: dict[str, tuple[dict[str, Any], bytes]] = {
    "ellipses": ({"_ellipses": True}, b"ellipses"),
    "shallow": ({"_isshallow": True}, b"ellipses"),
    "nodes that are full": ({"_fullclnodes": {b"x" * 20}}, b"ellipses"),
    "previous": (
        {"_forcedeltaparentprev": True},
        b"deltas against the previous revision",
    ),
    "narrow": ({"_matcher": SimpleNamespace(always=lambda: False)}, b"narrow"),
    "version 5": ({"version": b"05"}, b"version 05"),
}


@pytest.mark.parametrize("row", PACKERS)
def test_packer_that_is_not_known_is_left_to_mercurial(
    row: str, repository: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    packer = packer_of(repository)
    assert asked(packer) == b""
    changes, reason = PACKERS[row]
    for name, value in changes.items():
        monkeypatch.setattr(packer, name, value)
    assert asked(packer) == reason


def test_reasons_do_not_hide_each_other(repository: Any) -> None:
    packer = packer_of(repository)
    assert asked(packer, has_changelog=False) == b"no changesets"
    assert asked(packer, 0) == b"few changesets"
    other = type("packer", (type(packer),), {"__module__": "another"})
    packer.__class__ = other
    packer._ellipses = True
    assert asked(packer) == b"packer of another extension"
    repository.ui.setconfig(b"amalgam", b"bundles.native", b"no")
    assert asked(packer, 0) == b"amalgam.bundles.native"


def test_flags_of_an_extension_are_left_to_mercurial(
    repository: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    packer = packer_of(repository)
    monkeypatch.setitem(flagutil.flagprocessors, 1 << 3, object())
    assert asked(packer) == b"flags of another extension"


def test_transaction_is_left_to_mercurial(repository: Any) -> None:
    with repository.lock(), repository.transaction(b"test"):
        assert asked(packer_of(repository)) == b"transaction"
    assert asked(packer_of(repository)) == b""


def test_bundle_repository_is_left_to_mercurial(repo: Path, server: HgServer) -> None:
    first, second = repo.parent / "first.hg", repo.parent / "second.hg"
    server.hg(repo, "bundle", "-q", "--all", str(first))
    empty = repo.parent / "empty"
    server.hg(repo.parent, "init", str(empty))
    over = ("-R", f"bundle:{empty}+{first}")
    took(empty)
    server.hg(empty, *over, "bundle", "-q", "--all", str(second), *LOG)
    assert took(empty) == ["Mercurial's: repository that is no directory"]
    server.hg(empty, "unbundle", "-q", str(second), *ALONE)
    server.hg(empty, "verify", "-q", *ALONE)


@pytest.mark.parametrize("requirement", [b"exp-unheard-of", b"lfs", b"treemanifest"])
def test_requirement_that_is_not_known_is_left_to_mercurial(
    requirement: bytes, repository: Any
) -> None:
    packer = packer_of(repository)
    repository.requirements.add(requirement)
    assert asked(packer) == b"requirement " + requirement
    repository.requirements.remove(requirement)
    repository.requirements.remove(b"revlogv1")
    assert asked(packer) == b"requirement revlogv1"
