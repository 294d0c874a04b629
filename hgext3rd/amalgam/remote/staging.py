"""Pushes from staging repositories, with a lease on each ref.

A staging repository has the refs to write, under their names at the remote. Objects are
the store's. So a push needs no argument for each ref.

git knows leases as arguments, and compares each with each ref of the remote. Or they
are tracking refs: git looks for one of each ref of the remote, and writes one for each
that it has pushed. Where there are many, both cost more than the push. So a hook checks
many leases: git tells ``pre-push`` what the remote has advertised of each ref that is
about to be written. git sends this value, too, and the remote writes no ref that has
another one by then (docs/decisions/replication.rst).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..files import Directory
from ..gitstore.git.process import Git
from ..records import Record
from .transport import NO_OID, Answer, FailureKind, PushAnswers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .transport import Transport

_FEW = 20
"""Refs whose leases are arguments."""
_MOST = 20_000
_MOST_ARGUMENTS = 500
_HEAD = b"ref: refs/heads/amalgam-staging\n"
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_HOOK = b"""\
#!/bin/sh
export LC_ALL=C
cd "$GIT_DIR" && sort >asked && comm -23 asked leases >stale && test ! -s stale
"""
"""Lines: a local ref, its oid, a ref of the remote, and its oid there."""


class Change(Record):
    """A ref to write at the remote."""

    ref: bytes
    """Its name there."""
    old: bytes
    """The oid that the remote has to have, or ``NO_OID``; in hexadecimal digits."""
    new: bytes
    """The oid to write, or ``NO_OID`` to delete it."""


def most_refs(parent: bytes) -> int:
    """Return how many refs to push at once from below the directory ``parent``."""
    return _MOST if _has_hooks(parent) else _MOST_ARGUMENTS


def _has_hooks(parent: bytes) -> bool:
    """Return whether programs in the directory may run."""
    return not os.statvfs(parent).f_flag & os.ST_NOEXEC


def push(
    transport: Transport,
    program: bytes,
    parent: bytes,
    changes: Sequence[Change],
    options: Sequence[bytes] = (),
    shown: Sequence[bytes] = (),
) -> PushAnswers:
    """Push those of ``changes`` whose refs are as they have to be; refuse the others.

    ``parent``: a directory for staging repositories. All else as ``Transport.push``.
    """
    stale: dict[bytes, Answer] = {}
    while left := [it for it in changes if it.ref not in stale]:
        with _staged(program, parent, left) as staging:
            answers = transport.push(*staging, options, shown)
            found = _stale(staging, answers)
        if not found:
            return answers._replace(refs=stale | answers.refs)
        answer = Answer(False, b"stale info", FailureKind.MOVED)
        stale |= dict.fromkeys(found, answer)
    return PushAnswers(stale, None, False)


class _Staging(Record):
    """A staging repository."""

    git: Git
    specs: Sequence[bytes]
    leases: Sequence[bytes]
    """Arguments; none if the hook checks them."""
    hooks: bytes
    """The directory of the hook; empty without one."""


@contextlib.contextmanager
def _staged(
    program: bytes, parent: bytes, changes: Sequence[Change]
) -> Iterator[_Staging]:
    """Make a staging repository in the directory ``parent``."""
    path = tempfile.mkdtemp(prefix=b"push-", dir=parent)
    try:
        has_hook = len(changes) > _FEW and _has_hooks(parent)
        moved = sorted((it.ref, it.new) for it in changes if it.new != NO_OID)
        leases, lines = [], []
        for ref, old, new in changes:
            if has_hook:
                name = b"(delete)" if new == NO_OID else ref
                lines.append(b"%s %s %s %s\n" % (name, new, ref, old))
            else:
                leases.append(b"%s:%s" % (ref, b"" if old == NO_OID else old))
        # "+" would void the other leases
        force = b"+" if has_hook else b""
        spaces = {b"/".join(ref.split(b"/")[:2]) for ref, _new in moved}
        specs = [b"%s%s/*:%s/*" % (force, it, it) for it in sorted(spaces)]
        specs += [b":" + it.ref for it in changes if it.new == NO_OID]
        for name in (b"objects", b"refs", b"hooks"):
            os.mkdir(os.path.join(path, name))
        refs = [b"%s %s\n" % (new, ref) for ref, new in moved]
        for name, content in (
            (b"packed-refs", [b"# pack-refs with: sorted \n", *refs]),
            (b"HEAD", [_HEAD]),
            (b"config", [_CONFIG]),
            (b"leases", sorted(lines)),
            (b"hooks/pre-push", [_HOOK]),
        ):
            with open(os.path.join(path, name), "wb") as file:
                file.writelines(content)
        hooks = os.path.join(path, b"hooks")
        os.chmod(os.path.join(hooks, b"pre-push"), 0o700)
        git = Git(program, Directory(path))
        yield _Staging(git, specs, leases, hooks if has_hook else b"")
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _stale(staging: _Staging, answers: PushAnswers) -> list[bytes]:
    """Return the refs for which the hook has stopped a push."""
    path = os.path.dirname(staging.hooks)
    if not path:
        return []
    try:
        with open(os.path.join(path, b"stale"), "rb") as file:
            return [line.split(b" ")[2] for line in file]
    except FileNotFoundError:
        if answers.refs:
            raise error.StateError(
                _(b"git ran no hook: refs that others moved may be overwritten"),
                hint=_(b"use another program as 'amalgam.git.program'"),
            ) from None
        return []
