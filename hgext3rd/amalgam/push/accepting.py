"""A push from its commands to its answer: the order of work.

Commits are converted before any lock is taken. Under Mercurial's locks, the refs and
the changesets that the conversion began with are looked at again, then all is applied
in one transaction, or nothing. An export brings it into the git store. Knows nothing of
how the commands came.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import IO, TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.node import bin as bin_node
from mercurial.utils import stringutil

from ..configitems import PushConfig
from ..terminal import printable
from . import applying, conversion, options as pushoptions
from .options import PushOptions
from .refs import tagging
from .refs.refcommands import ZERO, PushRefusedError, PushResult
from .refs.refplan import RACED, RefPlan
from .refs.refstate import view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..gitstore.store import GitStore
    from .applying import Pusher
    from .conversion import Conversion
    from .limits import PushLimits
    from .receiving import Receiving
    from .refs.refcommands import PushRequest

_SHORT = 12


class Acceptance:
    """One push into a repository."""

    def __init__(
        self,
        pusher: Pusher,
        store: GitStore,
        received: Receiving,
        limits: PushLimits,
        export: Callable[[], None],
    ) -> None:
        """``export`` brings the store up to date; what it raises is left to it."""
        self._pusher = pusher
        self._store = store
        self._received = received
        self._limits = limits
        self._export = export
        self._options = PushOptions()
        self._config = PushConfig.from_ui(pusher.repo.ui)
        self._said: list[bytes] = []
        self._moved: tuple[bytes, ...] = ()
        self._is_applied = False
        self._tagged = b""
        """The commit of tags, if there is one."""
        self._began_with: dict[bytes, bytes] = {}
        """Commits that were changesets at the beginning, with their nodes; in hex."""

    def answer(self, request: PushRequest) -> PushResult:
        """Do what is asked, as far as that may be."""
        may_tag = self._config.may_tag
        plan = RefPlan(
            self._pusher.repo, self._store, self._received.git, may_tag=may_tag
        )
        refused: Mapping[bytes, bytes] = plan.refused
        try:
            if not self._accept(plan, request):
                others = PushRefusedError(
                    _(b"another branch of the atomic push is refused")
                )
                refused = {
                    it.ref: plan.refused.get(it.ref, others.sentence)
                    for it in request.commands
                }
        except Exception as exc:
            if not applying.is_expected(exc):
                problem = stringutil.forcebytestr(exc)
                name = type(exc).__name__.encode()
                self._pusher.repo.ui.log(
                    b"amalgam", b"git push failed: %s: %s\n", name, problem
                )
            if not self._is_applied:  # else it failed after that
                sentence = applying.refusal_of(exc).sentence
                refused = {
                    it.ref: plan.refused.get(it.ref, sentence)
                    for it in request.commands
                }
        said = tuple(printable(line) for line in (*self._said, *self._moved))
        return PushResult(
            {ref: printable(sentence) for ref, sentence in refused.items()}, said
        )

    def _accept(self, plan: RefPlan, request: PushRequest) -> bool:
        """Change the refs that may be; tell whether there was any."""
        self._limits.check_objects(self._received.git)
        self._options = pushoptions.parse(
            request.options,
            self._pusher.repo,
            may_branch=self._config.may_branch,
        )
        plan.add(request.commands)
        with tempfile.TemporaryFile(dir=self._received.directory.path) as out:
            found = self._convert(plan, request, out)
            new = {oid for oid, _node in found.changesets}
            self._check_branch(found)
            plan.check_branches(self._known, new, self._options.branch)
            if self._is_given_up(plan, request):
                return False
            if plan.refused:
                found = self._convert_again(plan, request, out)
            if plan.tags:
                found = self._tag(plan, request, found, out)
                if self._is_given_up(plan, request):
                    return False
            self._check_hidden(found)
            with self._listening(), applying.locked(self._pusher):
                if self._has_raced(plan):
                    if self._is_given_up(plan, request):
                        return False
                    found = self._convert_again(plan, request, out)
                self._apply(plan, found, out)
                self._is_applied = True
        self._export()
        self._check_exported(found)
        return True

    def _is_given_up(self, plan: RefPlan, request: PushRequest) -> bool:
        return not plan.updates or bool(request.is_atomic and plan.refused)

    def _known(self, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return which of ``oids`` are changesets that git users see, and their nodes.

        All in hex. Each answer is looked at again under the lock.
        """
        oids = [*oids]
        with contextlib.closing(self._store.open_map()) as oidmap:
            found = oidmap.changesets([bytes.fromhex(oid.decode()) for oid in oids])
        view = view_of(self._pusher.repo, self._store)
        has = view.changelog.hasnode
        known = {
            oid: node.hex().encode()
            for oid, node in zip(oids, found, strict=True)
            if node and has(node)
        }
        self._began_with.update(known)
        return known

    def _convert(
        self, plan: RefPlan, request: PushRequest, out: IO[bytes]
    ) -> Conversion:
        """Convert what the refs need; refuse those whose commits cannot be."""
        found = self._converted([it.command.new for it in plan.updates], out)
        if not found.refused:
            return found
        if request.is_atomic or len(plan.updates) == 1:
            refusal = self._explained(found)
            for update in plan.updates:
                if update.command.new != ZERO:
                    plan.refuse(update.command.ref, refusal.sentence)
            return found
        for update in plan.updates:
            alone = self._converted([update.command.new], out)
            if alone.refused:
                refusal = self._explained(alone)
                plan.refuse(update.command.ref, refusal.sentence)
            out.seek(0)
            out.truncate()
        return self._converted([it.command.new for it in plan.updates], out)

    def _convert_again(
        self, plan: RefPlan, request: PushRequest, out: IO[bytes]
    ) -> Conversion:
        """Convert no more than what the refs need that are left."""
        out.seek(0)
        out.truncate()
        return self._convert(plan, request, out)

    def _converted(self, tips: Iterable[bytes], out: IO[bytes]) -> Conversion:
        tips = {oid for oid in tips if oid != ZERO}
        tips -= self._known(tips).keys()
        if not tips:
            return conversion.Conversion((), (), b"02")
        return conversion.convert(
            self._pusher.repo.ui,
            self._pusher.repo.unfiltered(),
            self._received.git,
            sorted(tips),
            self._known,
            out,
            memory_bytes=self._store.config.memory_bytes,
            bounds=self._limits.bounds,
            branch=self._options.stored_branch,
        )

    def _tag(
        self, plan: RefPlan, request: PushRequest, found: Conversion, out: IO[bytes]
    ) -> Conversion:
        """Convert the commit of the tags, too; refuse them if that cannot be."""
        try:
            if self._options.branch:
                raise PushRefusedError(_(b"push tags without -o branch=NAME"))
            oids = [it.command.new for it in plan.tags if it.command.new != ZERO]
            nodes = {**self._known(oids), **dict(found.changesets)}
            base, user = plan.tagged().command.new, self._pusher.name
            tags = plan.tag_changes(nodes)
            oid = tagging.commit(self._received.git, base, tags, user)
            plan.put_tags(oid)
            out.seek(0)
            out.truncate()
            found = self._converted([it.command.new for it in plan.updates], out)
            if found.refused:
                raise self._explained(found)
            self._tagged = oid
        except PushRefusedError as exc:
            plan.drop_tags(exc.sentence)
            return self._convert_again(plan, request, out)
        return found

    def _check_branch(self, found: Conversion) -> None:
        """Refuse a new named branch that nothing would be on."""
        if self._options.branch and not (found.changesets or found.refused):
            raise PushRefusedError(
                _(b"no new commits for the Mercurial branch '%s'")
                % self._options.branch
            )

    def _explained(self, found: Conversion) -> PushRefusedError:
        """Say what commits have; return the refusal of a ref."""
        lines, refusal = self._limits.explained(found.refused)
        self._said += [line for line in lines if line not in self._said]
        return refusal

    def _check_hidden(self, found: Conversion) -> None:
        """Refuse commits that are changesets which the pusher may not see."""
        has = self._pusher.repo.unfiltered().changelog.hasnode
        for oid, node in found.changesets:
            if has(bin_node(node)):
                raise PushRefusedError(
                    _(b"commit %s is a changeset here that is secret or obsolete")
                    % oid[:_SHORT]
                )

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Pass on what Mercurial and its hooks say."""
        ui = self._pusher.repo.ui
        ui.pushbuffer(error=True, subproc=True)
        try:
            yield
        finally:
            self._said += ui.popbuffer().splitlines()

    def _has_raced(self, plan: RefPlan) -> bool:
        """Refuse refs that have moved, and tell whether there is one.

        ``PushRefusedError`` if a changeset has gone that the conversion began with.
        """
        raced = plan.raced([it.command for it in plan.updates])
        if raced:
            plan.drop_tags(RACED)
            self._tagged = b""
        left = [it.command.ref for it in plan.updates]
        for ref in raced:
            if ref in left:
                plan.refuse(ref, RACED)
        view = view_of(self._pusher.repo, self._store)
        for node in self._began_with.values():
            if not view.changelog.hasnode(bin_node(node)):
                raise PushRefusedError(_(b"the history has changed; fetch first"))
        return bool(raced)

    def _apply(self, plan: RefPlan, found: Conversion, out: IO[bytes]) -> None:
        changes = applying.PushedChanges(
            updates=tuple(plan.updates),
            nodes={**self._began_with, **dict(found.changesets)},
            changegroup=out if found.changesets else None,
            version=found.version,
            added=found.changesets,
            publishes=self._options.publishes,
        )
        moved = applying.apply(self._pusher, self._store, changes)
        if self._tagged:
            line = _(b"the tags are changeset %s on top of '%s': fetch it")
            node = dict(found.changesets)[self._tagged]
            moved.append(line % (node[:_SHORT], plan.state.head))
        self._moved = tuple(moved)

    def _check_exported(self, found: Conversion) -> None:
        """Warn the pusher of a commit that has not come back."""
        if not found.changesets:
            return
        nodes = [bin_node(node) for _oid, node in found.changesets]
        try:
            with contextlib.closing(self._store.open_map()) as oidmap:
                oids = oidmap.oids(nodes)
        except (OSError, error.StorageError):
            return  # the next export tells
        for (oid, node), there in zip(found.changesets, oids, strict=True):
            if there is None:
                self._said.append(_(b"it can be fetched in a moment, not yet"))
                return
            if there.hex().encode() != oid:
                self._pusher.repo.ui.log(
                    b"amalgam",
                    b"commit %s became %s in git\n",
                    oid,
                    there.hex().encode(),
                )
                self._said.append(
                    _(b"warning: commit %s is another one on the server: changeset %s")
                    % (oid[:_SHORT], node[:_SHORT])
                )
                return
