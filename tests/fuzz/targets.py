"""Parsers in Python: one function for each, which takes the bytes of a file or header.

A parser returns a value, or raises the one error that its callers expect. Whatever else
a target raises was found by it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mercurial import error

from hgext3rd.amalgam import locking
from hgext3rd.amalgam.clonebundles import advertise, formats, register, validity
from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore import docket as git_docket, ids
from hgext3rd.amalgam.gitstore.git import branchtips, packfiles, repository
from hgext3rd.amalgam.index import nodemapfile
from hgext3rd.amalgam.index.snapshot import SnapshotDocket
from hgext3rd.amalgam.serve import bundles, ids as serve_ids
from hgext3rd.amalgam.serve.errors import HttpError

from . import requests

_SIZE = 1000
_MOST_SECONDS = 0.5
_MEMORY = Path("/dev/shm")
_SCRATCH = tempfile.TemporaryDirectory(
    prefix="amalgam-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None
)
_DIRECTORY = Directory(bytes(Path(_SCRATCH.name)))


class _Repo:
    """What parsers ask of a repository, beside its files."""

    changelog = range(1000)
    path = sharedpath = _DIRECTORY.root

    def unfiltered(self) -> _Repo:
        return self


_REPO: Any = _Repo()
_BUNDLES = "amalgam/bundles"
Path(_SCRATCH.name, _BUNDLES).mkdir(parents=True)


def git_docket_text(content: bytes) -> None:
    _plant("cinnabar.docket", _sealed(content))
    docket = git_docket.Docket.read(_DIRECTORY, b"cinnabar")
    assert git_docket.Docket.parse(docket.format()) == docket
    assert all(isinstance(name, str) for name in (*docket.packs, *docket.segments))
    assert all("/" not in name for name in (*docket.packs, *docket.metadata_segments))


def branch_tips(content: bytes) -> None:
    _plant("cinnabar.tips", _sealed(content))
    tips = branchtips.BranchTips.read(_DIRECTORY, b"cinnabar")
    assert tips is None or all(len(node) == 20 for _branch, node in tips.tips)


def git_files(content: bytes) -> None:
    """``packed-refs`` and ``HEAD`` of a git repository."""
    there = object.__new__(repository.Repository)
    there.directory = _DIRECTORY
    for name in ("packed-refs", "HEAD"):
        _plant(name, content)
    for ref, oid in there.refs().items():
        assert ref
        assert len(oid) == 20
    assert there.head()


def lock_holder(content: bytes) -> None:
    _plant("lock", content)
    found = locking.holder(Directory(_DIRECTORY.root))
    assert found
    assert found.explain()


def pack_idx(content: bytes) -> None:
    _plant("pack.idx", content)
    with (
        contextlib.suppress(error.StorageError),
        packfiles.open_idx(_DIRECTORY, "pack") as found,
    ):
        total = sum(len(found.beginning(byte)) for byte in range(256))
        assert total * 20 <= len(content)
        assert found.has(bytes(20)) in (False, True)
    with contextlib.suppress(error.StorageError):
        count = sum(1 for _oid in packfiles.object_ids(_DIRECTORY, "pack"))
        assert count * 20 <= len(content) + 20


def index_docket_text(content: bytes) -> None:
    docket = SnapshotDocket.parse(_sealed(content))
    assert docket is None or docket.length_bytes > 0


def nodemap_docket(content: bytes) -> None:
    docket = nodemapfile.NodeMapDocket.from_bytes(_sealed(content))
    if docket:
        assert min(docket.revs, docket.used_bytes, docket.end_bytes) >= 0


def bundle_register(content: bytes) -> None:
    _plant(f"{_BUNDLES}/register", _sealed(content))
    try:
        known = register.Register.read(_REPO)
    except error.StorageError:
        return
    for name, entry in known.entries.items():
        assert register.NAME.fullmatch(name.encode())
        assert isinstance(entry.bytes, int)
        assert isinstance(entry.url, str)


def bundle_headset(content: bytes) -> None:
    name = hashlib.sha256(content).hexdigest()
    _plant(f"{_BUNDLES}/{name}.heads", content)
    try:
        nodes = validity.read_heads(_REPO, name)
    finally:
        Path(_SCRATCH.name, _BUNDLES, f"{name}.heads").unlink()
    assert all(len(node) == 20 for node in nodes)


def http_range(header: bytes) -> None:
    span = bundles._range(header, _SIZE)
    if span:
        start, end = span
        assert 0 <= start <= end <= _SIZE


def hg_manifest(content: bytes) -> None:
    Path(_SCRATCH.name, _BUNDLES, "register").unlink(missing_ok=True)
    base = b"https://example.org/repository"
    answer = advertise._for_client(_REPO, content, base)
    assert isinstance(answer, bytes)


def bundle_head(content: bytes) -> None:
    with contextlib.suppress(error.StorageError):
        assert formats.window_bytes(io.BytesIO(content)) >= 0


def asked_ids(content: bytes) -> None:
    """The body of a request for ids, and its answer."""
    assert ids.is_full(content) <= ids.is_id(content)
    try:
        asked = serve_ids.parse(content)
    except HttpError:
        return
    assert len(asked) <= serve_ids.MOST
    assert all(id_.isascii() for id_ in asked)
    full = filter(ids.is_full, asked)
    assert all(len(bytes.fromhex(id_.decode())) == 20 for id_ in full)
    assert serve_ids.many([serve_ids.UNKNOWN] * len(asked)).isascii()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "git_docket": git_docket_text,
    "branch_tips": branch_tips,
    "git_files": git_files,
    "lock": lock_holder,
    "pack_idx": pack_idx,
    "index_docket": index_docket_text,
    "nodemap_docket": nodemap_docket,
    "register": bundle_register,
    "headset": bundle_headset,
    "http_range": http_range,
    "hg_manifest": hg_manifest,
    "bundle_head": bundle_head,
    "asked_ids": asked_ids,
    **requests.TARGETS,
}


def run(name: str, content: bytes) -> None:
    """Pass an input to a target; it may take ``_MOST_SECONDS`` of a processor."""
    started = time.process_time()
    TARGETS[name](content)
    seconds = time.process_time() - started
    assert seconds <= _MOST_SECONDS, f"{name} took {seconds} seconds"


def _sealed(content: bytes) -> bytes:
    """Return a docket with its checksum; one of before amalgam had them stays."""
    is_old = content.startswith(b"{")
    return content if is_old else content + b"sum %08x\n" % zlib.crc32(content)


def _plant(name: str, content: bytes) -> None:
    Path(_SCRATCH.name, name).write_bytes(content)
