"""Staging repositories: the refs of one push, and the leases on them.

A staging repository has only refs: under their names at the remote those to write, and
under ``LEASES`` those that the remote should have. Objects are the store's. So a push
needs no argument for each ref, and git checks a lease for each: 10,000 refs take it 6.6
seconds of CPU, where as many refspecs on a command line did not end in 62
(docs/decisions/replication.rst).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from ..files import Directory
from ..gitstore.git.process import Git
from ..records import Record
from .transport import LEASES, NO_OID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# git looks for a lease of each ref of the remote in the repository: 0.3 s for 100,000
_FEW = 20
_HEAD = b"ref: refs/heads/amalgam-staging\n"
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n"


class Change(Record):
    """A ref to write at the remote."""

    ref: bytes
    """Its name there."""
    old: bytes
    """The oid that the remote has to have, or ``NO_OID``; in hexadecimal digits."""
    new: bytes
    """The oid to write, or ``NO_OID`` to delete it."""


@contextlib.contextmanager
def staged(
    program: bytes, parent: bytes, changes: Iterable[Change]
) -> Iterator[tuple[Git, list[bytes], list[bytes]]]:
    """Make a staging repository in the directory ``parent``.

    The context yields git for it, the refspecs to push, and their leases; none of
    these if they are in the repository.
    """
    changes = [*changes]
    path = tempfile.mkdtemp(prefix=b"push-", dir=parent)
    try:
        refs, specs = [], set()
        deleted, leases = [], []
        for ref, old, new in changes:
            if len(changes) <= _FEW:
                leases.append(b"%s:%s" % (ref, b"" if old == NO_OID else old))
            elif old != NO_OID:
                refs.append((LEASES + ref.removeprefix(b"refs/"), old))
            if new == NO_OID:
                deleted.append(b":" + ref)
            else:
                refs.append((ref, new))
                space = b"/".join(ref.split(b"/")[:2])
                specs.add(space + b"/*:" + space + b"/*")
        for name in (b"objects", b"refs"):
            os.mkdir(os.path.join(path, name))
        lines = b"".join(b"%s %s\n" % (oid, name) for name, oid in sorted(refs))
        for name, content in (
            (b"packed-refs", b"# pack-refs with: sorted \n" + lines),
            (b"HEAD", _HEAD),
            (b"config", _CONFIG),
        ):
            with open(os.path.join(path, name), "wb") as file:
                file.write(content)
        yield Git(program, Directory(path)), [*sorted(specs), *deleted], leases
    finally:
        shutil.rmtree(path, ignore_errors=True)
