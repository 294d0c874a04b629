"""A bundle register that somebody edited: one error, no victim, no traceback."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from mercurial import error, hg as hgmod, ui as uimod
from testlib import dockets
from testlib.bundled import CLEAR, REFRESH, Bundled
from testlib.dockets import Change, Lines, given

from hgext3rd.amalgam import docketfile
from hgext3rd.amalgam.clonebundles import validity
from hgext3rd.amalgam.clonebundles.register import HERE, Register
from hgext3rd.amalgam.files import Directory

# servers and generators are processes of their own
pytestmark = pytest.mark.slow


def opened(bundled: Bundled) -> Any:
    return hgmod.repository(uimod.ui.load(), bytes(bundled.root))


def edit(bundled: Bundled, change: Change) -> None:
    dockets.edit(bundled.directory / "register", change)


def first(**fields: bytes) -> Change:
    """Return what changes fields of the first bundle; empty ones go."""
    keys = {name.replace("_", "-").encode(): fields[name] for name in fields}

    def change(lines: Lines) -> Lines:
        head, bundle, *others = docketfile.split(lines, b"bundle")
        kept = [line for line in bundle if line[0] not in keys]
        given = [(key, value) for key, value in keys.items() if value]
        named = b"bundle" in keys
        bundle = [*given, *kept] if named else [kept[0], *given, *kept[1:]]
        return [line for part in (head, bundle, *others) for line in part]

    return change


TITLE = b"amalgam bundle register 2"
DAMAGE: dict[str, bytes | Change] = {
    "not UTF-8": b"\xff{}",
    "cut": docketfile.formatted(TITLE, [])[:-1],
    "a newer version": docketfile.formatted(b"amalgam bundle register 3", []),
    "a git store": docketfile.formatted(b"amalgam git store 5", []),
    "large": b" " * (5 << 20),
    "old: no version": b"{}",
    "old: nested": b'{"a":' * 500_000,
    "old: long number": b'{"version": ' + b"9" * 100_000 + b"}",
    "old: not a number": b'{"version": NaN}',
    "old: a newer version": b'{"version": 2}',
    "old: bundles that are none": b'{"version": 1, "entries": [1]}',
    "old: bundles that are no list": b'{"version": 1, "entries": 7}',
    "old: bundle without a name": (
        b'{"version": 1, "entries": [{"name": null, "bytes": 1}]}'
    ),
    "old: unknown field": b'{"version": 1, "more": 1}',
    "old: infinite": b'{"version": 1, "entries": [], "last_token": 1e999}',
    "old: text with a surrogate": b'{"version": 1, "failure": "\\ud800"}',
    "unknown field": given("more", b"1"),
    "unknown field of a bundle": first(more=b"1"),
    "missing field": first(bytes=b""),
    "no name": given("bundle"),
    "name": first(bundle=b"../../../../victim"),
    "name with a suffix": first(bundle=b"0" * 64 + b".bundle\n"),
    "type": first(type=b"git-v2\nother"),
    "url": first(url=b"http://a\nb"),
    "path": first(path=b"victim"),
    "path with a zero": first(path=b"/a\0b"),
    "bytes": first(bytes=b"-1"),
    "bytes of a fraction": first(bytes=b"1.5"),
    "bytes of truth": first(bytes=b"yes"),
    "many revisions": first(revs=b"%d" % 2**63),
    "revision": first(tip_rev=b"-2"),
    "node": first(tip_node=b"zz"),
    "heads": first(heads=b"../../hgrc"),
    "reached": first(reached=b"3"),
    "made": first(made=b"%d" % 10**308),
    "retired": first(retired=b"yesterday"),
    "retired never": first(retired=b"nan"),
    "mark": first(mark=b"x"),
    "token": given("last-token", b"x"),
    "manifests": given("cinnabar-manifest", b"x"),
    "list": given("uploaded-list", b"x"),
    "mark of another": given("other", b"name"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_error(published: Bundled, damage: str) -> None:
    change = DAMAGE[damage]
    if isinstance(change, bytes):
        (published.directory / "register").write_bytes(change)
    else:
        edit(published, change)
    repo = opened(published)
    with pytest.raises(error.StorageError) as raised:
        Register.read(repo)
    assert raised.value.hint
    assert Register.read_for_client(repo) is None


def test_what_is_written_can_be_read(published: Bundled) -> None:
    repo = opened(published)
    register = Register.read(repo)
    assert {entry.path for entry in register.entries.values()} == {HERE}
    register.failure = os.fsdecode(b"\xff\x1b[2J")
    register.write(repo)
    assert Register.read(repo).format() == register.format()


@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "large"])
def test_register_that_is_no_file_is_one_error(
    published: Bundled, tmp_path: Path, kind: str
) -> None:
    plant(published.directory / "register", kind, tmp_path)
    repo = opened(published)
    with pytest.raises(error.StorageError):
        Register.read(repo)
    with published.served() as served:
        assert "getbundle" in served.capabilities()
        assert served.get("?cmd=clonebundles") == b""
        assert served.status("amalgam/bundles/bundles.list") == 404
        assert served.status(f"amalgam/bundles/{'0' * 64}.hg") == 404
    done = published.run(REFRESH)
    assert (done.code, done.err.count(b"\n")) == (50, 2), done.err


def test_lock_that_is_none_is_told_and_not_awaited(published: Bundled) -> None:
    os.mkfifo(published.directory / "lock")
    for command in (REFRESH, CLEAR):
        done = published.run(command)
        assert (done.code, done.err.count(b"\n")) == (50, 2), done
    (problem,) = published.problems()
    assert problem["text"] == "lock of bundle generators is not a lock file"
    published.configure("clone-bundles", auto_generate__on_change="yes")
    (published.root / "more").write_text("more\n")
    assert published.run("commit", "-qAm", "more").code == 0


def test_register_that_may_not_be_read_is_one_error(
    published: Bundled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    repo = opened(published)
    monkeypatch.setattr(Directory, "tryread", refuse)
    with pytest.raises(error.StorageError, match="cannot be read: Permission denied"):
        Register.read(repo)


def plant(path: Path, kind: str, tmp_path: Path) -> None:
    """Put something in the place of a file."""
    content = path.read_bytes() if path.exists() else b""
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "directory":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 1 << 30)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "large"])
@pytest.mark.parametrize(
    "name",
    [
        "cinnabar.manifest",
        "clonebundles.manifest",
        "clonebundles.auto-gen",
        "amalgam/bundles/bundles.list",
        "amalgam/bundles/HEADS",
    ],
)
def test_no_request_waits_for_what_is_no_file(
    published: Bundled, tmp_path: Path, name: str, kind: str
) -> None:
    if name.endswith("HEADS"):
        (path,) = published.directory.glob("*.heads")
    else:
        path = published.dot_hg / name
    plant(path, kind, tmp_path)
    with published.served() as served:
        assert "getbundle" in served.capabilities()
        assert served.status("amalgam/bundles/bundles.list") in (200, 404)
        assert served.status("?cmd=cinnabarclone") == 200


def test_edited_register_deletes_no_file(published: Bundled, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    name = published.live("gzip-v2").name
    (victim / name).write_text("precious")
    edit(published, first(bundle=name.encode(), path=bytes(victim), retired=b"1.0"))
    published.configure("web", deny_read="*")
    done = published.run(CLEAR)
    assert done.code == 0
    assert b"warning: bundle is not deleted: %s/" % bytes(victim) in done.err
    assert (victim / name).read_text() == "precious"
    assert str(victim) not in published.read("amalgam/bundles/register")


def test_directory_of_before_is_forgotten(fresh: Bundled, tmp_path: Path) -> None:
    fresh.configure("amalgam", bundles__directory=str(tmp_path / "one"))
    fresh.refresh()
    (name,) = fresh.named() or {p.name for p in (tmp_path / "one").glob("*.bundle")}
    fresh.configure("amalgam", bundles__directory=str(tmp_path / "two"))
    fresh.configure("amalgam", bundles__retention="0")
    with fresh.served() as served:
        assert served.status(f"amalgam/bundles/{name}") == 404
    fresh.refresh()
    assert (tmp_path / "one" / name).exists()
    assert (tmp_path / "two" / name).exists()


def test_state_of_mercurial_deletes_nothing_elsewhere(
    published: Bundled, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    node = published.hg("log", "-r", "2", "-T", "{node}")
    with (published.dot_hg / "clonebundles.auto-gen").open("a") as file:
        line = "PENDING-v1 gzip-v2 3 2 {} nowhere/0 1 {}\n"
        file.write(line.format(node, victim))
        root = "../" * 12
        line = "DONE-v1 gzip-v2 3 2 {} peer-bundle-cache://x {}{}\n"
        file.write(line.format(node, root, str(victim).lstrip("/")))
    (published.dot_hg / "bundle-cache").mkdir()
    published.run(REFRESH)
    published.run(CLEAR)
    assert victim.read_text() == "precious"


def test_temporary_directory_that_is_a_link_is_not_emptied(
    published: Bundled, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    temporary = published.dot_hg / "tmp-bundles"
    if temporary.exists():
        temporary.rmdir()
    temporary.symlink_to(victim)
    done = published.run(REFRESH)
    assert b"Traceback" not in done.err
    assert (victim / "file").read_text() == "precious"
    assert [path.name for path in victim.iterdir()] == ["file"]


def test_bundle_with_another_name_keeps_its_mode(
    published: Bundled, tmp_path: Path
) -> None:
    path = published.live("git-v2")
    os.link(path, tmp_path / "backup")
    (tmp_path / "backup").chmod(0o600)
    published.hg(CLEAR)
    published.refresh()
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600


def test_set_of_heads_is_bounded(published: Bundled) -> None:
    repo = opened(published)
    name = validity.heads_name([b"\0" * 20] * 100)
    (published.directory / f"{name}.heads").write_bytes(b"\0" * 2000)
    assert validity.read_heads(repo, name) == []


def test_heads_are_looked_up_once_for_each_state(
    published: Bundled, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = opened(published)
    register = Register.read(repo)
    entries = [*register.entries.values()]
    asked = []

    def read(repo: Any, name: str) -> list[bytes]:
        asked.append(name)
        return read_heads(repo, name)

    read_heads = validity.read_heads
    monkeypatch.setattr(validity, "read_heads", read)
    for _number in range(3):  # of as many handshakes
        assert all(validity.may_be_read(repo, entry) for entry in entries)
    assert sorted(asked) == sorted({entry.heads for entry in entries})

    for phase, is_public in (("--draft", False), ("--public", True)):
        published.hg("phase", "--force", phase, "tip")
        repo.invalidate(clearfilecache=True)  # as hgweb does before each request
        found = [validity.may_be_read(repo, entry) for entry in entries]
        assert all(found) is is_public
    published.hg("strip", "--config", "extensions.strip=", "--no-backup", "-q", "tip")
    repo.invalidate(clearfilecache=True)
    assert not all(validity.may_be_read(repo, entry) for entry in entries)
    other = opened(published)
    assert not all(validity.may_be_read(other, entry) for entry in entries)


def test_heads_that_are_lost_are_looked_for_again(published: Bundled) -> None:
    repo = opened(published)
    (entry, *_others) = Register.read(repo).entries.values()
    path = published.directory / f"{entry.heads}.heads"
    content = path.read_bytes()
    path.unlink()
    assert not validity.may_be_read(repo, entry)
    path.write_bytes(content)
    assert validity.may_be_read(repo, entry)


def test_controls_do_not_reach_the_terminal(published: Bundled) -> None:
    edit(published, first(url=b"http://x/\x9b2J\xc2\x9b"))
    edit(published, given("failure", b"\x1b[2Jfailed"))
    done = published.run("admin::amalgam")
    assert b"\x1b" not in done.out
    assert b"\xc2\x9b" not in done.out
    assert rb"\x1b[2Jfailed" in done.out
