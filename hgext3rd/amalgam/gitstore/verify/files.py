"""Verification of the files of a git store, in the docket and foreign.

A complete pack is three files that end with the SHA-1 of their content, and name the
same pack (gitformat-pack(5)). In a full verification, git checks the objects. Names
that are legal in Mercurial, but a problem for git or its users, are notes: they are
exported unchanged, because ids depend on them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING, Any

from mercurial.i18n import _
from mercurial.node import hex as hex_oid
from mercurial.utils import stringutil

from ..git import packfiles
from ..git.layout import PACKS, forbidden_files
from ..refusednames import is_refused
from .findings import Difference, Note, Remedy

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from mercurial.interfaces.types import RepoT, UiT

    from ..docket import Docket
    from ..git.repository import Repository


_SUFFIXES = (b".pack", b".idx", b".rev")
_SUM_LEN = 20
_BLOCK_BYTES = 1 << 20

_OURS = re.compile(rb"multi-pack-index.*|\..*")
_UNFINISHED = b"tmp_"
_LOOSE_FILE = re.compile(rb"objects/([0-9a-f]{2})/(.*)", re.DOTALL)


def check_presence(
    ui: UiT, repository: Repository, docket: Docket
) -> Iterator[Difference]:
    """Yield files of the packs that ``docket`` names: missing ones, or cut packs.

    A pack counts as cut if git cannot open it.
    """
    missing = set()
    for file, size in _sizes(repository, docket).items():
        if size is None:
            missing.add(os.path.splitext(file)[0])
            yield _not_whole(file, _(b"nothing"))
    packs = repository.packs_directory
    for pack in docket.packs:
        name = os.fsencode(pack)
        with contextlib.suppress(FileNotFoundError):  # an export has replaced it
            if name not in missing and not packfiles.is_whole(packs, pack):
                yield _not_whole(name + b".pack", _(b"a damaged file"))


def check_packs(
    ui: UiT, repository: Repository, docket: Docket
) -> Iterator[Difference]:
    """Yield damage of the packs that ``docket`` names. Reads all of them."""
    sizes = _sizes(repository, docket)
    total = sum(filter(None, sizes.values()))
    sums: dict[bytes, bytes] = {}
    with ui.makeprogress(_(b"checking packs"), _(b"bytes"), total) as progress:
        for file, size in sizes.items():
            if size is None:
                yield _not_whole(file, _(b"nothing"))
                continue
            name, suffix = os.path.splitext(file)
            sums[file], is_whole = _read(repository, file, progress)
            if not is_whole:
                yield _not_whole(file, _(b"a damaged file"))
            elif sums[file] != sums.get(name + b".pack", sums[file]):
                yield _not_whole(file, _(b"the index of another pack"))
            elif suffix == b".pack" and name != b"pack-" + hex_oid(sums[file]):
                yield _not_whole(file, _(b"another pack"))


def _not_whole(file: bytes, found: bytes) -> Difference:
    return Difference(b"pack", file, found, _(b"a whole file"), Remedy.REBUILD)


def foreign_files(repository: Repository, docket: Docket) -> list[bytes]:
    """Return foreign files that change the view of git users.

    Packs, loose objects, and files that lead git to objects elsewhere; below the
    repository.
    """
    kept = frozenset(map(os.fsencode, docket.packs + docket.dropped))
    found = [
        b"%s/%s" % (PACKS, file)
        for file in sorted(repository.packs_directory.names())
        if file.partition(b".")[0] not in kept
        and not _OURS.fullmatch(file)
        and not file.startswith(_UNFINISHED)
    ]
    for directory in sorted(repository.loose_object_directories()):
        names = repository.directory.sub(directory).names()
        found += [b"%s/%s" % (directory, name) for name in names]
    return list(dict.fromkeys([*found, *sorted(forbidden_files(repository.directory))]))


def check_foreign(repository: Repository, docket: Docket) -> Iterator[Difference]:
    """Yield a difference for each foreign file, one for all files of a pack."""
    packs = set()
    for file in foreign_files(repository, docket):
        what, id_ = b"file", file
        if file.startswith(PACKS + b"/"):
            what, id_ = b"pack", os.path.basename(file).partition(b".")[0]
            if id_ in packs:
                continue
            packs.add(id_)
        elif loose := _LOOSE_FILE.fullmatch(file):
            what, id_ = b"object", b"".join(loose.groups())
        found = _(b"a file that amalgam did not write")
        yield Difference(what, id_, found, _(b"nothing"), Remedy.REMOVE)


def unfinished(repository: Repository, docket: Docket) -> Iterator[Note]:
    """Yield a note for each file that the next export removes."""
    for file in sorted(repository.packs_directory.names()):
        if file.startswith(_UNFINISHED):
            yield Note(b"file", file, _(b"left by a run that was killed"))
    for pack in docket.dropped:
        if repository.has_pack(pack):
            text = _(b"no longer wanted; the next export removes it")
            yield Note(b"pack", os.fsencode(pack), text)


def _read(repository: Repository, file: bytes, progress: Any) -> tuple[bytes, bool]:
    """Return the checksum of the pack of ``file``, and whether the file is whole.

    It is whole if its own checksum is that of its content.
    """
    digest = hashlib.sha1(usedforsecurity=False)
    end = b""  # all but this is hashed
    with os.fdopen(repository.packs_directory.open(file), "rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update((end + block)[: -2 * _SUM_LEN])
            end = (end + block)[-2 * _SUM_LEN :]
            progress.increment(len(block))
    before, own = end[:-_SUM_LEN], end[-_SUM_LEN:]
    digest.update(before)
    return (own if file.endswith(b".pack") else before), digest.digest() == own


def _sizes(repository: Repository, docket: Docket) -> dict[bytes, int | None]:
    """Return the size of each file of the packs, ``None`` for a missing one."""
    sizes: dict[bytes, int | None] = {}
    for pack in docket.packs:
        for suffix in _SUFFIXES:
            file = os.fsencode(pack) + suffix
            sizes[file] = None
            with contextlib.suppress(FileNotFoundError):
                found = repository.packs_directory.stat(file)
                if stat.S_ISREG(found.st_mode):
                    sizes[file] = found.st_size
    return sizes


_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def check_paths(repo: RepoT, excluded: Container[int]) -> Iterator[Note]:
    """Yield a note for each such file of a changeset that is not ``excluded``.

    Takes time in proportion to the number of files that ever were.
    """
    repo = repo.unfiltered()
    undecodable: list[bytes] = []  # Mercurial's own verify tells of these
    for entry in repo.store.data_entries(undecodable=undecodable):
        if not entry.is_filelog:
            continue
        path = entry.target_id
        complaint = _complaint(path)
        if complaint and _is_used(repo, path, excluded):
            yield Note(b"file", stringutil.escapestr(path), complaint)


def _complaint(path: bytes) -> bytes:
    if is_refused(path):
        return _(b"git refuses to check out this name")
    if _CONTROL.search(path):
        return _(b"its name has control characters")
    return b""


def _is_used(repo: RepoT, path: bytes, excluded: Container[int]) -> bool:
    filelog = repo.file(path)
    return any(filelog.linkrev(rev) not in excluded for rev in filelog)
