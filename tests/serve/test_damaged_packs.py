"""Packs that git cannot open: hgweb says so, and names them to the operator."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from testlib.environment import captured, git
from testlib.exported import Exported, cut, edit, replace
from testlib.hiding import fetch_of, has_pack
from testlib.webserver import ON, SERVICE, serving

from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore.git import packfiles
from hgext3rd.amalgam.serve.uploadpack import config_of

pytestmark = pytest.mark.slow


def _swap(pack: Path, other: Path) -> None:
    replace(pack, other.read_bytes())


def _append(path: Path) -> None:
    replace(path, path.read_bytes() + bytes(400_000))


def _clear(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)


def _make_directory(pack: Path) -> None:
    pack.unlink()
    pack.mkdir()


def _other_count(pack: Path) -> None:
    edit(pack, 11)


DAMAGES: dict[str, Callable[[Path, Path], None]] = {
    "pack-cut": lambda pack, _other: cut(pack, 1),
    "pack-cut-to-nothing": lambda pack, _other: replace(pack, b""),
    "pack-of-other-count": lambda pack, _other: _other_count(pack),
    "other-pack": _swap,
    "pack-missing": lambda pack, _other: pack.unlink(),
    "pack-a-directory": lambda pack, _other: _make_directory(pack),
    "idx-cut": lambda pack, _other: cut(pack.with_suffix(".idx"), 1),
    "idx-longer": lambda pack, _other: _append(pack.with_suffix(".idx")),
    "idx-other": lambda pack, other: _swap(
        pack.with_suffix(".idx"), other.with_suffix(".idx")
    ),
    "idx-missing": lambda pack, _other: pack.with_suffix(".idx").unlink(),
}


def test_pack_that_git_cannot_open_is_named_to_the_operator(store: Exported) -> None:
    oid = store.ids("tip")[1]
    first, *_others, last = store.packs()
    files = [first, first.with_suffix(".idx")]
    contents = [file.read_bytes() for file in files]
    with serving(store.root, *ON) as web:
        for name, damage in DAMAGES.items():
            assert has_pack(web, oid), name
            damage(first, last)
            status, headers, said = web.ask(SERVICE)
            assert status == 503, name
            assert headers["Retry-After"]
            assert first.stem not in said.decode()  # of no use to clients
            assert not has_pack(web, oid), name
            for file, content in zip(files, contents, strict=True):
                _clear(file)
                file.write_bytes(content)
        assert f"{first.stem}' is missing or damaged" in web.said()
        assert "hg git::export --rebuild" in web.said()


def test_damage_inside_of_a_pack_is_not_the_fault_of_the_client(
    store: Exported,
) -> None:
    for pack in store.packs_dir.glob("*.pack"):
        content = pack.read_bytes()
        broken = bytes(byte ^ 0xFF for byte in content[12:-20])
        pack.chmod(0o644)
        pack.write_bytes(content[:12] + broken + content[-20:])
    oid = store.ids("tip")[1]
    with serving(store.root, *ON) as web:
        for version in (2, 0):
            status, _headers, said = web.ask(
                "git-upload-pack",
                "POST",
                fetch_of(oid, version),
                Git_Protocol=f"version={version}",
            )
            assert (status, said) == (500, b"git failed on the server\n")
        # newer gits say no more than that
        assert re.search(
            r"warning: git: git ended with 128: .*fatal: packed object .* is corrupt",
            web.said(),
        )


def test_summaries_that_no_export_has_checked_are_not_used(store: Exported) -> None:
    oid = store.ids("tip")[1]
    pack_index = store.packs_dir / "multi-pack-index"
    graph = store.git_dir / "objects/info/commit-graph"
    with serving(store.root, *ON) as web:
        for file in (pack_index, graph):
            file.write_bytes(bytes(2000))
            assert has_pack(web, oid)
            file.unlink()
    git_store = store.git_store()
    store.git("multi-pack-index", "write")
    assert config_of(git_store)["core.multiPackIndex"] == "false"
    store.hg("git::export")
    assert pack_index.exists()
    assert "core.multiPackIndex" not in config_of(git_store)


@pytest.mark.parametrize("told", [b"memory", b"x\nerror: y"])
def test_client_cannot_make_its_request_the_fault_of_the_server(
    exported_template: Exported, told: bytes
) -> None:
    line = b"fetch-" + told + b"\n"
    body = b"0012command=fetch\n0001%04x%s0000" % (len(line) + 4, line)
    with serving(exported_template.root, *ON) as web:
        ask = web.ask("git-upload-pack", "POST", body, Git_Protocol="version=2")
        assert ask[0] == 400
        assert "warning: git: " not in web.said()


def test_operator_finds_and_repairs_a_cut_pack(store: Exported) -> None:
    pack = store.packs()[0]
    cut(pack, 1)
    found = store.run("admin::amalgam")
    assert found.code == 1
    assert pack.stem in found.out.decode()
    with serving(store.root, *ON) as web:
        assert web.ask(SERVICE)[0] == 503
        store.hg("git::export", "--rebuild")
        assert web.ask(SERVICE)[0] == 200
        assert has_pack(web, store.ids("tip")[1])


def test_change_and_damage_at_once_are_no_reason_to_answer(store: Exported) -> None:
    with serving(store.root, *ON) as web:
        cut(store.packs()[0], 20)
        store.commit_nothing("new")
        assert web.ask(SERVICE)[0] == 503
        assert web.ask(SERVICE, X_Amalgam_Freshness="now")[0] == 503


def test_pack_that_comes_back_is_served_again(store: Exported) -> None:
    pack = store.packs()[0]
    whole = pack.read_bytes()
    with serving(store.root, *ON) as web:
        assert web.ask(SERVICE)[0] == 200
        cut(pack, 100)
        assert web.ask(SERVICE)[0] == 503
        replace(pack, whole)
        assert web.ask(SERVICE)[0] == 200


@pytest.mark.parametrize("at", [0, 4, 8, -1])
@pytest.mark.parametrize("suffix", [".pack", ".idx"])
def test_what_git_cannot_open_is_not_whole(
    store: Exported, suffix: str, at: int
) -> None:
    """git is asked about each damage: it must not do worse than what is said here."""
    pack = store.packs()[0]
    packs = Directory(bytes(store.packs_dir))
    assert packfiles.damaged(packs, [pack.stem]) == b""
    file = pack.with_suffix(suffix)
    edit(file, at % file.stat().st_size)
    if not git_opens(store, pack):
        assert packfiles.damaged(packs, [pack.stem]) == pack.stem.encode()


def test_index_with_large_offsets_is_whole(store: Exported) -> None:
    pack = store.packs()[0]
    file = pack.with_suffix(".idx")
    content = file.read_bytes()
    count = struct.unpack(">I", content[8 + 1020 :][:4])[0]
    packs = Directory(bytes(store.packs_dir))
    for large in (count - 1, count):
        start = content[: 8 + 1024 + 28 * count]
        replace(file, start + bytes(8 * large) + content[-40:])
        assert packfiles.is_whole(packs, pack.stem) is (large < count)


def git_opens(store: Exported, pack: Path) -> bool:
    """Ask git for the first object of a pack, alone."""
    alone = store.root.parent / "alone"
    git(store.root.parent, "init", "-q", "--bare", str(alone))
    for suffix in (".pack", ".idx"):
        target = alone / "objects" / "pack" / (pack.stem + suffix)
        target.write_bytes(pack.with_suffix(suffix).read_bytes())
    done = captured(
        ["git", "-C", str(alone), "cat-file", "--batch-all-objects", "--batch-check"]
    )
    return bool(done.stdout) and b"missing" not in done.stdout and not done.stderr
