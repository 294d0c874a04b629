"""A push from its commands to its answer: the order of work.

Commits are converted before any lock is taken. Under Mercurial's locks, the refs and
the base changesets are compared again, then all is applied in one transaction, or
nothing. An export brings it into the git store. Hidden commits are refused before a
push is applied, and after the export each commit must have kept its id: a difference is
a bug, of which operator and pusher are warned. Knows nothing of transports.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import IO, TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.node import bin as bin_node
from mercurial.utils import stringutil

from ..config import PushConfig
from ..terminal import shown_by_git
from . import apply, branches, commands as pushoptions, convert, tagging
from .apply import listening
from .commands import ZERO, PushOptions, PushRefusedError, PushResult
from .convert import ANCESTOR
from .refplan import RACED, GitGraph, RefPlan, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mercurial.interfaces.types import RepoT

    from ..gitstore.store import GitStore
    from .apply import Pusher
    from .commands import PushRequest
    from .convert import Conversion, PushLimits, Refusal
    from .quarantine import Quarantine
    from .refplan import RefUpdate


_SHORT_OID = 12


def check_hidden(
    repo: RepoT, store: GitStore, changesets: Sequence[tuple[bytes, bytes]]
) -> None:
    """Refuse commits that are changesets which the pusher may not see."""
    is_there = repo.unfiltered().changelog.hasnode
    is_seen = view_of(repo, store).changelog.hasnode
    for oid, node in changesets:
        if is_there(bin_node(node)) and not is_seen(bin_node(node)):
            raise PushRefusedError(
                _(b"commit %s is a changeset here that is secret or obsolete")
                % oid[:_SHORT_OID]
            )


def roundtrip_warnings(
    store: GitStore, changesets: Sequence[tuple[bytes, bytes]]
) -> list[bytes]:
    """Return lines for the pusher; ``changesets``: commits and nodes, in hex."""
    nodes = [bin_node(node) for _oid, node in changesets]
    try:
        with contextlib.closing(store.open_map()) as oidmap:
            oids = oidmap.oids(nodes)
    except (OSError, error.StorageError):
        return []  # the next export tells
    for (oid, node), there in zip(changesets, oids, strict=True):
        if there is None:
            return [_(b"it can be fetched in a moment, not yet")]
        if there.hex().encode() != oid:
            text = b"commit %s became %s in git\n"
            store.repo.ui.log(b"amalgam", text, oid, there.hex().encode())
            line = _(b"warning: commit %s is another one on the server: changeset %s")
            return [line % (oid[:_SHORT_OID], node[:_SHORT_OID])]
    return []


_HISTORY_CHANGED = _(b"the history has changed; fetch first")
_SHORT = 12
_MOST_TRIES = 5
"""How often refs of a push may move while it is converted."""


class Acceptance:
    """One push into a repository."""

    def __init__(
        self,
        pusher: Pusher,
        store: GitStore,
        received: Quarantine,
        limits: PushLimits,
        export: Callable[[], None],
        is_over: Callable[[], bool],
    ) -> None:
        """``export`` brings the store up to date; its errors are left to it.

        ``is_over`` returns whether the client was told that the push took too long.
        """
        self._pusher = pusher
        self._store = store
        self._received = received
        self._limits = limits
        self._export = export
        self._is_over = is_over
        self._options = PushOptions()
        self._config = PushConfig.from_ui(pusher.repo.ui)
        self._said: list[bytes] = []
        self._moved: tuple[bytes, ...] = ()
        self._is_begun = False
        """Whether the history was looked at under the lock."""
        self._is_applied = False
        """Whether Mercurial has closed the transaction."""
        self._tagged = b""
        """The commit of tags, if any."""
        self._passed: list[RefUpdate] = []
        """Named branches that would lead to another ref of the push."""
        self._began_with: dict[bytes, bytes] = {}
        """Commits that were changesets at the beginning, with their nodes; in hex."""

    def answer(self, request: PushRequest) -> PushResult:
        """Run the push, and return its result."""
        refused: Mapping[bytes, bytes] = {}
        problem = PushRefusedError(_(b"another branch of the atomic push is refused"))
        try:
            plan = RefPlan(
                self._pusher.repo,
                self._store,
                self._received.git,
                may_tag=self._config.may_tag,
            )
            refused = plan.refused
            is_accepted = self._accept(plan, request)
        except Exception as exc:
            self._log(exc)
            is_accepted = self._is_applied  # then it failed after that
            problem = apply.refusal_of(exc)
            is_ours = isinstance(exc, PushRefusedError) or self._is_begun
            if not is_ours and self._is_history_lost():
                problem = PushRefusedError(_HISTORY_CHANGED)
        if not is_accepted:
            refs = (it.ref for it in request.commands)
            refused = {ref: refused.get(ref, problem.sentence) for ref in refs}
        said = tuple(map(shown_by_git, (*self._said, *self._moved)))
        return PushResult({ref: shown_by_git(it) for ref, it in refused.items()}, said)

    def _accept(self, plan: RefPlan, request: PushRequest) -> bool:
        """Change the accepted refs; return whether any was."""
        self._limits.check_objects(self._received.git)
        self._options = pushoptions.parse_options(
            request.options,
            self._pusher.repo,
            may_branch=self._config.may_branch,
        )
        plan.add(request.commands)
        with tempfile.TemporaryFile(dir=self._received.directory.path) as out:
            found = self._convert(plan, request, out)
            new = {oid for oid, _node in found.changesets}
            count = len(plan.updates)
            self._check_branch(found)
            plan.check_branches(self._known, new, self._options.branch)
            if self._is_given_up(plan, request):
                return False
            if len(plan.updates) < count:
                found = self._convert(plan, request, out)
            if plan.tags:
                found = self._tag(plan, request, found, out)
            ui = self._pusher.repo.ui
            for _try in range(_MOST_TRIES):
                found = self._arrange(plan, request, found, out)
                if self._is_given_up(plan, request):
                    return False
                with listening(ui, self._said), apply.locked(self._pusher):
                    if not self._has_raced(plan):
                        check_hidden(self._pusher.repo, self._store, found.changesets)
                        self._check_branch(found)
                        self._apply(plan, found, out)
                        break
                if self._is_given_up(plan, request):
                    return False
                found = self._convert(plan, request, out)
            else:
                raise PushRefusedError(RACED)
        self._export()
        if found.changesets:
            self._said += roundtrip_warnings(self._store, found.changesets)
        return True

    def _log(self, exc: Exception) -> None:
        """Let the operator know of a failure that is no refusal."""
        if not apply.is_expected(exc):
            problem = stringutil.forcebytestr(exc)
            name = type(exc).__name__.encode()
            self._pusher.repo.ui.log(
                b"amalgam", b"git push failed: %s: %s\n", name, problem
            )

    def _is_history_lost(self) -> bool:
        """Return whether a base changeset of the push may have been stripped
        meanwhile."""
        with contextlib.suppress(Exception):
            began_with = {*self._began_with}
            lost = began_with.difference(self._known(began_with))
            return bool(lost) or self._received.has_lost_packs()
        return False

    def _check_time(self) -> None:
        """Refuse a push that comes too late for its client."""
        if self._is_over():
            raise PushRefusedError(_(b"the server has taken too long"))

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
        self,
        plan: RefPlan,
        request: PushRequest,
        out: IO[bytes],
        order: Sequence[bytes] = (),
    ) -> Conversion:
        """Convert the commits of the remaining refs; refuse refs with bad commits."""
        found = self._converted([it.command.new for it in plan.updates], out, order)
        if not found.refused:
            return found
        if request.is_atomic or len(plan.updates) == 1:
            refusal = self._explained(found.refused)
            for update in plan.updates:
                if update.command.new != ZERO:
                    plan.refuse(update.command.ref, refusal.sentence)
            return found
        while found.refused and plan.updates:
            causes = [it for it in found.refused if it.reason != ANCESTOR]
            causes = causes or [*found.refused]
            refs = plan.leading_to(it.oid for it in causes)
            for refused in causes:
                for ref in refs.get(refused.oid, ()):
                    plan.refuse(ref, self._explained([refused]).sentence)
            found = self._converted([it.command.new for it in plan.updates], out)
        return found

    def _converted(
        self, tips: Iterable[bytes], out: IO[bytes], order: Sequence[bytes] = ()
    ) -> Conversion:
        self._check_time()
        out.seek(0)
        out.truncate()
        tips = {oid for oid in tips if oid != ZERO}
        tips -= self._known(tips).keys()
        if not tips:
            return convert.Conversion((), (), b"02")
        return convert.convert(
            self._pusher.repo.ui,
            self._pusher.repo.unfiltered(),
            self._received.git,
            sorted(tips),
            self._known,
            out,
            dialect=self._store.config.dialect,
            memory_bytes=self._store.config.memory_bytes,
            bounds=self._limits.bounds,
            branch=self._options.stored_branch,
            order=order,
        )

    def _arrange(
        self, plan: RefPlan, request: PushRequest, found: Conversion, out: IO[bytes]
    ) -> Conversion:
        """Let named branches lead to the pushed commits; refuse impossible ones."""
        oids = tuple(oid for oid, _node in found.changesets)
        graph, chosen = GitGraph(self._received.git), self._options.branch
        arranged = branches.arrange(plan, graph, oids, self._known, chosen)
        for update, name in arranged.passed:
            problem = branches.refusal(update, name, is_atomic=request.is_atomic)
            plan.refuse(update.command.ref, problem.sentence)
            self._passed.append(update)
        if arranged.order == oids or self._is_given_up(plan, request):
            return found
        return self._convert(plan, request, out, arranged.order)

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
            found = self._converted([it.command.new for it in plan.updates], out)
            if found.refused:
                raise self._explained(found.refused)
            self._tagged = oid
        except PushRefusedError as exc:
            plan.drop_tags(exc.sentence)
            return self._convert(plan, request, out)
        return found

    def _check_branch(self, found: Conversion) -> None:
        """Refuse a new named branch that is there, or that nothing would be on."""
        name, repo = self._options.branch, self._pusher.repo
        has_commits = bool(found.changesets or found.refused)
        pushoptions.check_branch(name, repo, has_commits=has_commits)

    def _explained(self, refused: Sequence[Refusal]) -> PushRefusedError:
        """Describe refused commits; return the refusal of a ref."""
        lines, refusal = self._limits.explained(refused)
        self._said += [line for line in lines if line not in self._said]
        return refusal

    def _has_raced(self, plan: RefPlan) -> bool:
        """Refuse refs that have moved, and return whether any has.

        ``PushRefusedError`` if a base changeset of the conversion is gone.
        """
        raced = plan.raced()
        if raced:
            plan.drop_tags(RACED)
            self._tagged = b""
            plan.restore(self._passed)
            self._passed = []
        left = [it.command.ref for it in plan.updates]
        for ref in raced:
            if ref in left:
                plan.refuse(ref, RACED)
        view = view_of(self._pusher.repo, self._store)
        for node in self._began_with.values():
            if not view.changelog.hasnode(bin_node(node)):
                raise PushRefusedError(_HISTORY_CHANGED)
        return bool(raced)

    def _apply(self, plan: RefPlan, found: Conversion, out: IO[bytes]) -> None:
        changes = apply.PushedChanges(
            updates=tuple(plan.updates),
            nodes={**self._began_with, **dict(found.changesets)},
            changegroup=out if found.changesets else None,
            version=found.version,
            added=found.changesets,
            publishes=self._options.publishes,
        )
        self._check_time()
        self._is_begun = True
        try:
            moved = apply.apply(self._pusher, self._store, changes, self._note_applied)
        except Exception as exc:
            if not self._is_applied and not apply.is_abandoned(self._pusher.repo):
                raise
            self._log(exc)
            if self._is_applied:  # the client need not know of errors after that
                return
            raise PushRefusedError(
                _(b"the server failed; its operator has to run hg recover")
            ) from None
        if self._tagged:
            line = _(b"the tags are changeset %s on top of '%s': fetch it")
            node = dict(found.changesets)[self._tagged]
            moved.append(line % (node[:_SHORT], plan.state.head))
        self._moved = tuple(moved)

    def _note_applied(self, _transaction: object) -> None:
        self._is_applied = True
