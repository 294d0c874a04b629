"""Summaries: git's optional files about objects in packs.

They are the commit-graph, the multi-pack-index with its bitmap, and lists for dumb
clients. They name objects without having them. Owns the list of such files, and
``<dialect>.summaries``, which names the packs of those that maintenance has let git
write (``docs/formats/map.rst``). Does not know when they are due.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ... import docketfile
from ...files import Unusable
from ...records import Record
from ..docket import PACK
from .layout import PACKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...files import Directory, Placement
    from .repository import Repository

_FILE_BYTES = 1 << 12

_GRAPHS = (b"objects/info/commit-graph", b"objects/info/commit-graphs")
_PACK_INDEX = b"multi-pack-index"
_OF_PACKS = re.compile(rb"multi-pack-index.*")
# of a multi-pack-index, such as the bitmap; its name has the checksum of that
_BESIDE = re.compile(rb"multi-pack-index-.*")
_SNAPSHOT = b"bitmapped"
_CONFIG = {
    "core.commitGraph": "true",
    "core.multiPackIndex": "true",
    "pack.threads": "1",
}
_LISTINGS = (b"objects/info/packs", b"info/refs")
TEMPORARY = b"tmp_"
"""How unfinished files of git begin."""


class Summarised(Record):
    """Record of the summaries that maintenance has written last."""

    pack: str
    """The pack whose objects the files name, without suffix."""
    files: str
    """``digest`` of them."""

    @classmethod
    def read(cls, directory: Directory, dialect: bytes) -> Summarised | None:
        """Return the record; ``None`` if none was made."""
        try:
            content = directory.tryread(_name(dialect), _FILE_BYTES)
            return cls(**_FORM.values_in(content))
        except (Unusable, ValueError):
            return None

    def write(self, directory: Directory, dialect: bytes, placement: Placement) -> None:
        """Record it. A torn file is refused."""
        content = _FORM.content_of(self)
        directory.replace(_name(dialect), content, placement, durable=False)


def _name(dialect: bytes) -> bytes:
    return dialect + b".summaries"


_FORM = docketfile.Form(
    b"amalgam git summaries 1",
    {
        "pack": docketfile.texts(b"pack", PACK),
        "files": docketfile.texts(b"files", re.compile(r"[0-9a-f]{40}")),
    },
)


def of_packs(file: bytes) -> bool:
    """Return whether a file among packs is such a file."""
    return bool(_OF_PACKS.fullmatch(file))


def remove_those_of_packs(repository: Repository) -> None:
    """Remove git's summaries of packs before some packs go; their objects stay."""
    repository.directory.remove(_LISTINGS[0])
    for file in repository.packs_directory.names():
        if of_packs(file):
            repository.packs_directory.remove(file)


def remove(repository: Repository, *, keeps: bool) -> None:
    """Remove git's summaries of objects, some of which are gone.

    Unfinished packs, too: their git process has seen those objects. ``keeps`` the
    summaries of other objects that maintenance wrote.
    """
    for name in _LISTINGS if keeps else (*_GRAPHS, *_LISTINGS):
        repository.directory.remove(name)
    for file in repository.packs_directory.names():
        if (of_packs(file) and not keeps) or file.startswith(TEMPORARY):
            repository.packs_directory.remove(file)


def remove_bitmaps(repository: Repository) -> None:
    """Remove the files of a multi-pack-index. git cannot verify it."""
    for file in repository.packs_directory.names():
        if _BESIDE.fullmatch(file):
            repository.packs_directory.remove(file)


def digest(repository: Repository) -> str:
    """Return a digest of the files that name objects without having them.

    Empty without such files. It changes when one is written.
    """
    lines = [b"%s %r\n" % entry for entry in sorted(_files(repository))]
    return hashlib.sha1(b"".join(lines)).hexdigest() if lines else ""


def _files(repository: Repository) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    names = [
        PACKS + b"/" + file
        for file in repository.packs_directory.names()
        if of_packs(file)
    ]
    for name in _GRAPHS:
        names += [name]
        with contextlib.suppress(Unusable):
            inside = repository.directory.sub(name).names()
            names += [name + b"/" + file for file in inside]
    for name in names:
        with contextlib.suppress(FileNotFoundError, Unusable):
            found = repository.directory.stat(name)
            yield (
                name,
                (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns),
            )


def is_wrong(repository: Repository) -> bool:
    """Return whether git finds that a summary names objects missing in the packs."""
    run = repository.git.run
    return any(
        run(command, "verify", check=False).returncode
        for command in ("commit-graph", "multi-pack-index")
    )


def make(
    repository: Repository,
    objects: Directory,
    pack: str,
    tips: Sequence[bytes],
    bitmapped: Sequence[bytes],
    placement: Placement,
) -> None:
    """Let git write summaries of one pack into objects of a ``staging_area``.

    It has all that ``tips``, commits, lead to; ``bitmapped`` are those whose ancestors
    get bitmaps. git sees no objects of other packs. ``Abort`` if git fails.
    """
    packs = objects.sub(b"pack")
    for suffix in (b".pack", b".idx", b".rev"):
        _copy(repository.packs_directory, packs, os.fsencode(pack) + suffix)
    objects.replace(_SNAPSHOT, _listing(bitmapped), placement, durable=False)
    git = repository.git._replace(new_objects=objects, is_apart=True)
    git.run(
        *("multi-pack-index", "write", "--stdin-packs", "--bitmap"),
        b"--refs-snapshot=" + objects.join(_SNAPSHOT),
        input=b"%s.idx\n" % os.fsencode(pack),
        config=_CONFIG,
    )
    args = ("commit-graph", "write", "--stdin-commits")
    git.run(*args, input=_listing(tips), config=_CONFIG)
    if not packs.exists(_PACK_INDEX) or not objects.exists(b"info/commit-graph"):
        raise error.Abort(
            _(b"git wrote no multi-pack-index or no commit-graph"),
            hint=_(b"run 'hg git::verify', then 'hg debug::amalgam-maintenance'"),
        )


def _listing(oids: Sequence[bytes]) -> bytes:
    return b"".join(oid.hex().encode() + b"\n" for oid in oids)


def take(repository: Repository, objects: Directory) -> None:
    """Let the summaries that ``make`` has made take the place of others.

    Readers have the old files or the new ones. A multi-pack-index comes after its
    bitmap, and a bitmap goes after its multi-pack-index.
    """
    packs = objects.sub(b"pack")
    made = sorted(filter(_BESIDE.fullmatch, packs.names()))
    for file in (*made, _PACK_INDEX):
        repository.take(packs, file, PACKS + b"/" + file)
    graph, chain = _GRAPHS
    repository.take(objects.sub(b"info"), os.path.basename(graph), graph)
    repository.directory.remove(chain)
    for file in repository.packs_directory.names():
        if of_packs(file) and file not in (*made, _PACK_INDEX):
            repository.packs_directory.remove(file)


def _copy(source: Directory, target: Directory, file: bytes) -> None:
    """Give a file a second name, or copy one that belongs to another user."""
    with source.opened() as from_fd, target.opened() as to_fd:
        try:
            os.link(
                file, file, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False
            )
            return
        except PermissionError:
            pass
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with (
            os.fdopen(source.open(file), "rb") as reader,
            os.fdopen(os.open(file, flags, 0o600, dir_fd=to_fd), "wb") as writer,
        ):
            shutil.copyfileobj(reader, writer)
