"""The first changesets of a repository, written by the core instead of Mercurial.

The core makes the files of a store from a changegroup, by Mercurial's own rules for
delta bases (``rust/git2hg/src/stream``), and Mercurial takes them as those of a stream
clone. All of them are in the journal of the transaction before the first one is
written, so a killed import leaves what ``hg recover`` removes.

Repositories of other kinds, and those with hooks that want to see a changegroup, get
their changesets by ``exchange.unbundle``, as all others do.
"""

from __future__ import annotations

import os
import struct
import tempfile
from typing import IO, TYPE_CHECKING, Any

from mercurial import changelog, encoding, phases, streamclone, util
from mercurial.i18n import _

from ..core.operation import Operation
from ..files import Directory
from ..records import Record
from ..scratch import scratch
from ..terminal import one_line

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

_NEEDED = frozenset(
    {b"revlogv1", b"store", b"fncache", b"generaldelta", b"sparserevlog"}
)
_ZSTD = b"revlog-compression-zstd"
_KNOWN = _NEEDED | {
    _ZSTD,
    b"dotencode",
    b"fileindex-v1",
    b"persistent-nodemap",
    b"share-safe",
    b"bookmarksinstore",
    b"dirstate-v2",
    b"dirstate-tracked-key-v1",
    b"internal-phase",
    b"internal-phase-2",
}
_HOOKS = frozenset(
    {b"prechangegroup", b"pretxnchangegroup", b"changegroup", b"incoming"}
)
_LONGEST_CHAIN = 1000
"""Deltas of a chain, as Mercurial limits them in sparse revlogs."""
_PHASES = {3: (_(b"writing the store"), _(b"files"))}


def is_possible(repo: RepoT) -> bool:
    """Return whether the next changesets can be written by the core.

    The locks are held. Files that a strip or a stream clone left are no empty store.
    """
    ui, store = repo.ui, repo.unfiltered().store
    hooks = {name.partition(b".")[0] for name, _value in ui.configitems(b"hooks")}
    return (
        len(repo.unfiltered()) == 0
        and repo.requirements >= _NEEDED
        and repo.requirements <= _KNOWN
        and not hooks & _HOOKS
        and ui.configbool(b"storage", b"revlog.optimize-delta-parent-choice")
        and not repo.svfs.exists(b"00manifest.i")
        and next(iter(store.data_entries()), None) is None
    )


def add(
    repo: RepoT, transaction: Any, group: IO[bytes], version: bytes, memory_bytes: int
) -> None:
    """Add all changesets of ``group``, a changegroup from the beginning of a file."""
    repo = repo.unfiltered()
    is_zstd = _ZSTD in repo.requirements
    with tempfile.TemporaryFile() as out, scratch(repo) as path:
        with Directory(path).opened() as directory:
            fields = {
                "group": group.fileno(),
                "start": 0,
                "out": out.fileno(),
                "scratch": {"fd": directory, "path": path},
                "version": int(version),
                "is_zstd": is_zstd,
                "level": _level(repo, is_zstd),
                "longest_chain": repo.ui.configint(
                    b"format", b"maxchainlen", _LONGEST_CHAIN
                ),
                "memory_bytes": memory_bytes,
            }
            made = Operation(repo.ui, _PHASES).job("stream", fields)
        names = made["names"].split(b"\n")
        for name in names:
            transaction.add(name, 0)
        out.seek(0)
        repo.ui.pushbuffer()
        try:
            streamclone.applybundlev2(
                *(repo, out, len(names), made["bytes"]),
                streamclone.streamed_requirements(repo),
            )
        finally:
            repo.ui.popbuffer()
    # Mercurial 7.2 makes them executable, and not writable by the group of the store
    mode = repo.store.createmode
    mode = 0o666 & (~util.umask if mode is None else mode)
    for name in names:
        os.chmod(repo.svfs.join(name), mode)
    _note_branches(repo, made["branches"].split(b"\n"), made["branch_of"])
    revs = range(made["changesets"])
    phases.registernew(repo, transaction, phases.draft, revs)
    counts = made["changesets"], made["revisions"], made["files"]
    text = _(b"added %d changesets with %d changes to %d files") % counts
    heads = sum(not repo[it].closesbranch() for it in repo.changelog.headrevs()) - 1
    if heads:
        text += _(b" (%+d heads)") % heads
    repo.ui.status(one_line(text))


class _Branch(Record):
    """The part of a changeset that Mercurial's cache of branches takes."""

    branchinfo: tuple[bytes, bool]


def _note_branches(repo: RepoT, names: list[bytes], numbers: bytes) -> None:
    """Fill the cache of branches: Mercurial would read each changeset.

    ``numbers``: four bytes of each, as the core has them.
    """
    cache = repo.revbranchcache()
    branches = [
        _Branch((encoding.tolocal(extra[b"branch"]), is_closed))
        for name in names
        for extra in [changelog.decodeextra(b"branch:" + name)]
        for is_closed in (False, True)
    ]
    for rev, (number,) in enumerate(struct.iter_unpack(">I", numbers)):
        cache.setdata(rev, branches[number])


def _level(repo: RepoT, is_zstd: bool) -> int:
    if is_zstd:
        level = repo.ui.configint(b"storage", b"revlog.zstd.level")
        return 3 if level is None else level
    level = repo.ui.configint(b"storage", b"revlog.zlib.level")
    return 6 if level is None else level
