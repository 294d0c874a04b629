"""Application of a push: one transaction of Mercurial's, as of any ``hg push``.

Changesets and bookmarks go through ``exchange.unbundle`` as a bundle2, so hooks, acl,
phases and caches are Mercurial's. Our transaction is around that one. Before it closes,
git users would have to see the pushed refs. Knows nothing of git but the names of refs.

Output of Mercurial and its hooks is captured for the pusher. A hook may print without
end, so only the beginning is kept, and the rest is counted. Mercurial itself holds one
line in memory, however long.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import IO, TYPE_CHECKING, Any

from mercurial import bookmarks, bundle2, encoding, error, exchange, phases, util
from mercurial.i18n import _
from mercurial.node import bin as bin_node, hex as hex_node

from ..config import PushConfig
from ..records import Record
from ..terminal import utf8_of
from . import successors
from .commands import ZERO, PushRefusedError
from .refplan import leaves_tip, left_as_branch, only_forward
from .refstate import BOOKMARK, TAG, TIP, RefState

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
        Set as AbstractSet,
    )

    from mercurial.interfaces.types import RepoT

    from ..gitstore.store import GitStore
    from .refplan import RefUpdate
    from .refstate import Moves


_SOURCE = b"serve"
"""Mercurial's name for a push to a server; hooks see it as HG_SOURCE."""
_FIRST = b"\0amalgam"
"""Category of a transaction callback that is called first: they are sorted by name."""
_PIECE_BYTES = 1 << 16
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MOST_TOLD = 10
"""Refs that are named to the pusher for one reason."""
_SHORT = 12


class Pusher(Record):
    """The pusher, and the repository pushed to."""

    repo: RepoT
    """The repository as a client of Mercurial would push into it."""
    url: bytes
    """Where the push comes from, in Mercurial's form; hooks see it as HG_URL."""
    lock_seconds: int
    """How long to wait for Mercurial's lock."""
    name: bytes = b""
    """The user in UTF-8, if the server knows it."""
    is_quiet: bool = False
    """Whether only refusals, warnings and the output of hooks are sent."""


class PushedChanges(Record):
    """Changes to apply."""

    updates: tuple[RefUpdate, ...]
    """The refs that change."""
    nodes: Mapping[bytes, bytes]
    """The changeset (hex) of each commit that a ref is to lead to."""
    changegroup: IO[bytes] | None
    """New changesets, at its beginning; ``None`` without any."""
    version: bytes
    """Of the changegroup."""
    added: tuple[tuple[bytes, bytes], ...]
    """New commits and their changesets, in hex."""
    publishes: bool = False
    """Whether pushed changesets become public, even if the server does not publish."""


@contextlib.contextmanager
def locked(pusher: Pusher) -> Iterator[None]:
    """Hold Mercurial's locks; ``LockError`` if that cannot be in time."""
    wait = b"%d" % pusher.lock_seconds
    overrides = {(b"ui", b"timeout"): wait, (b"ui", b"timeout.warn"): b"0"}
    repo = pusher.repo
    with repo.ui.configoverride(overrides, b"amalgam"):
        wlock = repo.wlock()
        try:
            lock = repo.lock()
        except BaseException:
            wlock.release()
            raise
    with wlock, lock:
        yield


def apply(
    pusher: Pusher,
    store: GitStore,
    state: RefState,
    changes: PushedChanges,
    note_applied: Callable[[Any], None],
) -> list[bytes]:
    """Apply ``changes``, or nothing; the locks are held.

    ``state``: the refs before that, with tags if there are changes of tags.
    ``note_applied`` is called when nothing can undo them any more: caches are written
    and hooks run after that, and may fail. Return lines for the pusher.
    ``PushRefusedError`` if git users would not see the pushed refs; otherwise the
    errors of hooks and Mercurial.
    """
    repo = pusher.repo
    asked = [it.command.ref for it in changes.updates]
    old = state.nodes(asked)
    named = {*repo.unfiltered().branchmap()}
    with repo.transaction(_SOURCE) as transaction:
        for name, value in (
            (b"source", _SOURCE),
            (b"url", pusher.url),
            (b"bundle2", b"1"),
        ):
            transaction.hookargs[name] = value
        transaction.addpostclose(_FIRST, note_applied)
        _tell_hooks(repo, b"pretag", changes)
        stream = util.chunkbuffer(_bundle(pusher, changes))
        unbundler = exchange.readbundle(repo.ui, stream, None)
        exchange.unbundle(repo, unbundler, [b"force"], _SOURCE, pusher.url)
        _check_branches(repo, changes, named)
        lines = _mark(pusher, changes, old)
        has_tags = any(it.kind == TAG for it in changes.updates)
        after = RefState.of(repo, store, tags=has_tags)
        _check_refs(changes, after.nodes(asked))
        lines += _left(changes, old, after)
        before = state.former(after, transaction)
        moves = before.moves(after, transaction)
        others = {ref: moves[ref] for ref in sorted(moves.keys() - {*asked})}
        lines += _moved(store, changes, before, after, others)
    _tell_hooks(repo, b"tag", changes)
    return lines


def _tell_hooks(repo: RepoT, hook: bytes, changes: PushedChanges) -> None:
    """Run a hook for each tag, as ``hg tag`` does."""
    for update in changes.updates:
        if update.kind == TAG:
            node = _target(update, changes) or repo.nullid
            arguments = {"node": hex_node(node), "tag": update.name, "local": False}
            repo.hook(hook, throw=hook == b"pretag", **arguments)


def _mark(
    pusher: Pusher, changes: PushedChanges, before: Mapping[bytes, bytes | None]
) -> list[bytes]:
    """Make obsolescence markers for replaced drafts, where Mercurial would.

    Return lines for the pusher. ``PushRefusedError`` if the tip of a named branch is
    replaced, and Mercurial would keep the old one as a head.
    """
    repo = pusher.repo
    if not successors.is_wanted(repo):
        return []
    moves = []
    for update in changes.updates:
        if update.kind == TAG:
            continue
        old, new = before.get(update.command.ref), _target(update, changes)
        if old and new:
            moves.append((old, new))
    added = {bin_node(node) for _oid, node in changes.added}
    lines = successors.mark(repo, moves, added, pusher.name)
    for update in changes.updates:
        if update.is_replaced and repo.unfiltered().revs(
            b"only(%n, %n) - obsolete()",
            before[update.command.ref],
            _target(update, changes),
        ):
            raise only_forward(update.name)
    return lines


def _bundle(pusher: Pusher, changes: PushedChanges) -> Iterator[bytes]:
    """Return a bundle2 of the changesets and bookmarks."""
    bundler = bundle2.bundle20(pusher.repo.ui)
    if changes.changegroup:
        count = len(changes.added)
        add_changegroup(bundler, changes.changegroup, changes.version, count)
    targets = [_target(it, changes) for it in changes.updates]
    if changes.publishes and any(targets):
        public = {phases.public: [node for node in targets if node]}
        bundler.newpart(b"phase-heads", data=phases.binaryencode(public))
    moved = [
        (it.name, _target(it, changes)) for it in changes.updates if it.kind == BOOKMARK
    ]
    if moved:
        data = bookmarks.binaryencode(pusher.repo, moved)
        bundler.newpart(b"bookmarks", data=data)
    chunks: Iterator[bytes] = bundler.getchunks()
    return chunks


def add_changegroup(
    bundler: Any, changegroup: IO[bytes], version: bytes, count: int
) -> None:
    """Add a changegroup of ``count`` changesets to a bundle2."""
    part = bundler.newpart(b"changegroup", data=_pieces(changegroup))
    part.addparam(b"version", version)
    part.addparam(b"nbchanges", b"%d" % count, mandatory=False)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0, os.SEEK_SET)
    while piece := file.read(_PIECE_BYTES):
        yield piece


def _target(update: RefUpdate, changes: PushedChanges) -> bytes | None:
    new = update.command.new
    return None if new == ZERO else bin_node(changes.nodes[new])


def _check_refs(changes: PushedChanges, after: Mapping[bytes, bytes | None]) -> None:
    """Refuse a push whose refs would have other names or commits for git users."""
    for update in changes.updates:
        ref, target = update.command.ref, _target(update, changes)
        found = after[ref]
        if found == target:
            continue
        if target is None:
            raise left_as_branch(ref)
        if found is None:
            raise PushRefusedError(
                _(
                    b"'%s' would not be shown to git users of this server; push it "
                    b"with hg, or ask the operator about amalgam.git.export"
                )
                % ref
            )
        raise PushRefusedError(
            _(b"'%s' would not lead to the pushed commit; push it alone") % ref
        )


def _check_branches(
    repo: RepoT, changes: PushedChanges, before: AbstractSet[bytes]
) -> None:
    """Refuse commits that name a new Mercurial branch, or close one.

    A commit of hg-git has both in its headers or its message, which anybody can write.
    Unless pushes may make branches.
    """
    if PushConfig.from_ui(repo.ui).may_branch:
        return
    changelog = repo.unfiltered().changelog
    for oid, node in changes.added:
        name, closes = changelog.branchinfo(changelog.rev(bin_node(node)))
        is_new = name not in before and name != b"default"
        if is_new or closes:
            raise PushRefusedError(
                _(
                    b"commit %s would %s the Mercurial branch '%s'; do it with hg, or "
                    b"ask the operator for amalgam.git.push-branches = yes"
                )
                % (
                    oid[:_SHORT],
                    _(b"close") if closes else _(b"make"),
                    encoding.fromlocal(name),
                )
            )


def _left(
    changes: PushedChanges, before: Mapping[bytes, bytes | None], after: RefState
) -> list[bytes]:
    """Return a line for each commit that branches led to, and that none has now."""
    lines, led = [], set[int]()
    for update in changes.updates:
        command = update.command
        old = before[command.ref]
        if update.kind == TAG or old is None:
            continue
        if _is_on_branch(after, command.ref, old, led):
            continue
        line = _(
            b"warning: %s, which '%s' led to, is on no branch now, but %s: everybody "
            b"can fetch it by its id"
        )
        phase = after.view[old].phasestr()
        lines.append(line % (command.old[:_SHORT], command.ref, phase))
    return _first(lines)


def _moved(
    store: GitStore,
    changes: PushedChanges,
    before: RefState,
    after: RefState,
    moves: Moves,
) -> list[bytes]:
    """Return a line for each ref that has moved besides, as ``moves`` has them.

    ``PushRefusedError`` if that takes a named branch off a commit which is on no branch
    then, unless a bookmark is the main line.
    """
    pushed = {node: oid for oid, node in changes.nodes.items()}
    lines, led = [], set[int]()
    for ref, (old, new) in moves.items():
        line = _(b"'%s' has changed, too: fetch it") % ref
        if old and new and not _is_forward(after.view, old, new):
            kind, name = before.stands_for(ref) or ("", b"")
            is_free = name in before.with_main_line & after.with_main_line
            is_lost = not _is_on_branch(after, ref, old, led)
            if kind == TIP and is_lost and not is_free:
                raise leaves_tip(store, before, ref)
            oid = pushed.get(hex_node(new)) or after.oids(store, [ref])[ref]
            line = _(b"warning: '%s' has left its commit for %s: fetch it")
            if is_lost:
                line = _(
                    b"warning: '%s' has left %s, which is on no branch now, for %s"
                )
                # not exported: the changeset
                left = before.oids(store, [ref])[ref] or hex_node(old)
                line %= (ref, left[:_SHORT], oid[:_SHORT])
            else:
                line %= (ref, oid[:_SHORT])
        lines.append(line)
    return _first(lines)


def _is_on_branch(after: RefState, ref: bytes, old: bytes, led: set[int]) -> bool:
    """Return whether any branch leads to ``old``, which ``ref`` led to.

    ``led`` is as in ``RefState.leads_to``. Hidden changesets count as being on one:
    they leave the git store.
    """
    if not after.view.changelog.hasnode(old):
        return True
    is_forward = _is_forward(after.view, old, after.node(ref))
    return is_forward or after.leads_to(old, led=led)


def _is_forward(view: RepoT, old: bytes, new: bytes | None) -> bool:
    """Return whether a changeset is a descendant of another, which may be hidden."""
    has = view.changelog.hasnode
    return bool(new and has(old) and view.changelog.isancestor(old, new))


def _first(lines: Sequence[bytes]) -> list[bytes]:
    """Return as many lines about refs as a pusher reads."""
    more = len(lines) - _MOST_TOLD
    return [*lines[:_MOST_TOLD], *([_(b"and %d others") % more] if more > 0 else ())]


def refusal_of(exc: BaseException) -> PushRefusedError:
    """Return the refusal for a pusher whose changes were not applied."""
    if isinstance(exc, PushRefusedError):
        return exc
    if isinstance(exc, error.LockError):
        return PushRefusedError(_(b"the repository is locked; try again later"))
    if isinstance(exc, OSError) and exc.errno in _NO_ROOM:
        return PushRefusedError(_(b"the server has no room for it; try again later"))
    message = getattr(exc, "message", None)
    if isinstance(exc, error.Abort) and isinstance(message, bytes):
        hint = b" (%s)" % exc.hint if exc.hint else b""
        return PushRefusedError(utf8_of(message + hint))
    return PushRefusedError(
        _(
            b"the server failed; nothing was changed; ask its operator, who finds why "
            b"in the log"
        )
    )


def is_abandoned(repo: RepoT) -> bool:
    """Return whether a transaction is neither closed nor undone; locks are held."""
    return bool(repo.svfs.exists(b"journal"))


def is_expected(exc: Any) -> bool:
    """Return whether ``exc`` is a refusal, and not a failure of the server."""
    return isinstance(exc, PushRefusedError | error.Abort | error.LockError)


_MOST_BYTES = 1 << 14


@contextlib.contextmanager
def listening(pusher: Pusher, said: list[bytes]) -> Iterator[None]:
    """Append Mercurial's output in the context to ``said``, by line in UTF-8."""
    ui = pusher.repo.ui
    quiet = {(b"ui", b"quiet"): b"yes", (b"ui", b"verbose"): b"no"}
    with ui.configoverride(quiet if pusher.is_quiet else {}, b"amalgam"):
        ui.pushbuffer(error=True, subproc=True)
        heard = ui._buffers[-1] = _Heard()  # where Mercurial puts the pieces
        try:
            yield
        finally:
            said += map(utf8_of, ui.popbuffer().splitlines())
            if heard.left_out_bytes:
                lost = util.bytecount(heard.left_out_bytes)
                said.append(_(b"(%s more were printed)") % lost)


class _Heard(list[bytes]):
    """The beginning of captured output."""

    def __init__(self) -> None:
        super().__init__()
        self._room = _MOST_BYTES
        self.left_out_bytes = 0

    def extend(self, pieces: Iterable[bytes]) -> None:
        """Keep ``pieces`` while they fit."""
        for piece in pieces:
            kept = piece[: self._room]
            self._room -= len(kept)
            self.left_out_bytes += len(piece) - len(kept)
            if kept:
                super().append(kept)
