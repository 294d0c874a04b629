"""A push from its commands to its result, in eight steps.

1. limits and options; 2. commands against refs; 3. new commits; 4. refusals; 5. tags
and order; 6. conversion; 7. under the lock, comparison and transaction; 8. export.

Refusals are decided and commits converted before any lock is taken. Under Mercurial's
locks, the refs and the base changesets are compared again, then all is applied in one
transaction, or nothing. Only a ref that has moved meanwhile leads back to step 2. An
export brings the changesets into the git store. Hidden commits are refused before a
push is applied, and after the export each commit must have kept its id: a difference is
a bug, of which operator and pusher are warned. Knows nothing of transports.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import IO, TYPE_CHECKING

from mercurial import encoding, error
from mercurial.i18n import _
from mercurial.node import bin as bin_node
from mercurial.utils import stringutil

from ..config import PushConfig
from ..gitstore import authors
from ..gitstore.git.refs import HEADS, escaped
from ..records import Record
from ..terminal import shown_by_git
from . import apply, branches, commands as pushoptions, convert, refplan, tagging
from .apply import listening
from .commands import ZERO, PushRefusedError, PushResult
from .convert import ANCESTOR, Conversion
from .graph import TooManyCommitsError, read as read_graph
from .refplan import RACED
from .refstate import TAG, RefState, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mercurial.interfaces.types import RepoT

    from ..gitstore.store import GitStore
    from .apply import Pusher
    from .commands import PushOptions, PushRequest
    from .convert import PushLimits, Refusal
    from .graph import PushGraph
    from .quarantine import Quarantine
    from .refplan import RefPlan


_SHORT = 12
_LONGEST_SHOWN = 80
_WARNING = b"warning: "
"""Prefix of lines that a quiet pusher gets, too."""


def check_hidden(
    repo: RepoT, store: GitStore, changesets: Sequence[tuple[bytes, bytes]]
) -> None:
    """Refuse commits that are changesets which the pusher may not see."""
    is_there = repo.unfiltered().changelog.hasnode
    is_seen = view_of(repo, store).changelog.hasnode
    for oid, node in changesets:
        if is_there(bin_node(node)) and not is_seen(bin_node(node)):
            first, _second = repo.unfiltered().changelog.parents(bin_node(node))
            is_root = first == repo.nullid
            raise PushRefusedError(
                _(
                    b"commit %s is a changeset here that is secret or obsolete; give "
                    b"it another id: git rebase -f -r %s"
                )
                % (oid[:_SHORT], b"--root" if is_root else oid[:_SHORT] + b"~")
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
            return [_(b"the push is stored; git clients see it after the next export")]
        if there.hex().encode() != oid:
            text = b"commit %s became %s in git\n"
            store.repo.ui.log(b"amalgam", text, oid, there.hex().encode())
            line = _(b"warning: commit %s got another id on the server (changeset %s)")
            return [line % (oid[:_SHORT], node[:_SHORT])]
    return []


_ATOMIC = _(
    b"another branch of the atomic push is refused; see its reason, or push without "
    b"--atomic"
)
_HISTORY_CHANGED = _(b"the history has changed; fetch first")
_MOST_TRIES = 5
"""How often refs of a push may move while it is converted."""


class Push(Record):
    """A push that git has received."""

    request: PushRequest
    pusher: Pusher
    store: GitStore
    quarantine: Quarantine
    """It has the objects."""
    limits: PushLimits
    export: Callable[[], None]
    """Brings the store up to date; its errors are left to it."""
    is_over: Callable[[], bool]
    """Returns whether the client was told that the push took too long."""


class KnownChangesets:
    """Lookup of commits that are changesets which the pusher may see.

    Commits and nodes are in hex. Each answer is looked at again under the lock.
    """

    def __init__(self, repo: RepoT, store: GitStore) -> None:
        self._repo = repo
        self._store = store
        self._found: dict[bytes, bytes] = {}

    def __call__(self, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the nodes of the known ones of ``oids``."""
        oids = [*oids]
        with contextlib.closing(self._store.open_map()) as oidmap:
            found = oidmap.changesets([bytes.fromhex(oid.decode()) for oid in oids])
        has = view_of(self._repo, self._store).changelog.hasnode
        known = {
            oid: node.hex().encode()
            for oid, node in zip(oids, found, strict=True)
            if node and has(node)
        }
        self._found.update(known)
        return known

    def are_visible(self) -> bool:
        """Return whether all that were found are still changesets in the view."""
        has = view_of(self._repo, self._store).changelog.hasnode
        return all(has(bin_node(node)) for node in self._found.values())

    def are_known(self) -> bool:
        """Return whether all that were found would be found again."""
        return not {*self._found}.difference(self({*self._found}))


class ReadyPush(Record):
    """A push that can be applied if nothing has moved meanwhile."""

    plan: RefPlan
    graph: PushGraph
    conversion: Conversion
    tagged: bytes
    """The commit of the tags, if any."""


class CommitsRefusedError(Exception):
    """Commits that cannot be changesets."""

    def __init__(self, refused: Sequence[Refusal]) -> None:
        super().__init__(refused)
        self.refused = refused


class PushRun:
    """One run of a push, from its commands to its result."""

    def __init__(self, push: Push) -> None:
        self._push = push
        self._config = PushConfig.from_ui(push.pusher.repo.ui)
        self._known = KnownChangesets(push.pusher.repo, push.store)
        self._refused: Mapping[bytes, bytes] = {}
        """Refs that are refused so far, each with a sentence."""
        self._missing: tuple[bytes, ...] = ()
        """Refs to delete that do not exist."""
        self._said: list[bytes] = []
        """Lines for the pusher."""
        self._is_begun = False
        """Whether Mercurial was asked to change something."""
        self._is_applied = False
        """Whether Mercurial has closed the transaction."""

    def answer(self) -> PushResult:
        """Run the push, and return its result; no error of it is raised."""
        problem = None
        try:
            self._run()
        except BaseException as exc:  # a hook in Python may exit
            if isinstance(exc, KeyboardInterrupt) and not self._is_applied:
                raise  # a signal ends the process, which says nothing more
            self._log(exc)
            problem = apply.refusal_of(exc)
            is_ours = isinstance(exc, PushRefusedError) or self._is_begun
            if not is_ours and self._is_history_lost():
                problem = PushRefusedError(_HISTORY_CHANGED)
        refused = self._refused
        if not self._is_applied:  # an error after that is no refusal
            is_void = problem or (self._push.request.is_atomic and refused)
            done = () if is_void else self._missing
            sentence = problem.sentence if problem else _ATOMIC
            refs = (it.ref for it in self._push.request.commands)
            refused = {
                ref: refused.get(ref, sentence) for ref in refs if ref not in done
            }
        for ref in self._missing:
            if ref not in refused:
                self._said.append(_(b"warning: there is no '%s' to delete") % ref)
        said = tuple(map(shown_by_git, self._said))
        return PushResult({ref: shown_by_git(it) for ref, it in refused.items()}, said)

    def _run(self) -> None:
        """Change the accepted refs, if any."""
        push = self._push
        # 1. limits and options of the whole push
        push.limits.check_objects(push.quarantine.git)
        options = pushoptions.parse_options(
            push.request.options,
            push.pusher.repo,
            may_branch=self._config.may_branch,
        )
        for option in options.ignored:
            text = _(b"warning: push option '%s' has no meaning on this server")
            self._said.append(text % option[:_LONGEST_SHOWN])
        raced: set[bytes] = set()
        lines: list[bytes] = []
        with tempfile.TemporaryFile(dir=push.quarantine.directory.path) as out:
            for _try in range(_MOST_TRIES):
                # 2. to 6. without a lock
                ready = self._ready(options, raced, out)
                if not ready:
                    return
                # 7. the same refs still? then one transaction of Mercurial's
                try:
                    with listening(push.pusher, self._said), apply.locked(push.pusher):
                        has_tags = bool(ready.plan.tags)
                        state = RefState.of(push.pusher.repo, push.store, tags=has_tags)
                        moved = self._raced(ready, options, state)
                        if not moved:
                            lines = self._apply(ready, options, state, out)
                            break
                except BaseException as exc:  # also a hook that exits, or a signal
                    if not self._is_applied:
                        raise
                    self._log(exc)  # the client need not know of errors after that
                    break
                raced |= moved.intersection(it.ref for it in push.request.commands)
            else:
                raise PushRefusedError(RACED)
        # 8. bring the changesets into the git store
        push.export()
        changesets = ready.conversion.changesets
        if changesets:
            self._said += roundtrip_warnings(push.store, changesets)
        is_quiet = push.pusher.is_quiet
        self._said += [it for it in lines if not is_quiet or it.startswith(_WARNING)]

    def _ready(
        self, options: PushOptions, raced: Iterable[bytes], out: IO[bytes]
    ) -> ReadyPush | None:
        """Plan the refs and convert their commits; ``None`` if no ref may change."""
        push, git = self._push, self._push.quarantine.git
        # 2. the commands against the refs as they are now
        planned = refplan.planned(
            *(push.pusher.repo, push.store, git, push.request.commands),
            may_tag=self._config.may_tag,
            raced=raced,
        )
        # 3. the new commits
        self._missing = planned.missing
        try:
            graph = read_graph(git, planned.tips, self._known, push.limits.commits)
        except TooManyCommitsError:
            raise push.limits.too_many_commits() from None
        self._refused = planned.refused
        if not planned.updates:
            self._check_branch(options, ())
        while self._has_updates(planned):
            self._check_branch(options, graph.needed(planned.tips))
            # 4. refusals
            plan = refplan.checked(planned, graph, options.branch)
            if not self._has_updates(plan):
                break
            self._check_name(options, plan, graph)
            try:
                # 5. the commit of the tags, and the order of all commits
                tagged, plan, extended = self._with_tags(plan, graph, options, out)
                arranged = branches.arranged(
                    plan, extended, options.branch, is_atomic=push.request.is_atomic
                )
                plan = arranged.plan
                if arranged.beside:
                    planned = planned.refusing(arranged.beside)
                    continue
                if not self._has_updates(plan):
                    break
                # 6. the conversion
                conversion = self._convert(extended, arranged.order, options, out)
            except CommitsRefusedError as exc:
                refused = self._blamed(planned, graph, exc.refused)
                if refused.keys().isdisjoint(it.command.ref for it in planned.updates):
                    sentence = self._explained(exc.refused, graph)
                    raise PushRefusedError(sentence) from None
                planned = planned.refusing(refused)
            else:
                return ReadyPush(plan, extended, conversion, tagged)
        return None

    def _has_updates(self, plan: RefPlan) -> bool:
        """Note the refusals; return whether any ref may still change."""
        self._refused = plan.refused
        is_void = self._push.request.is_atomic and plan.refused
        return bool(plan.updates and not is_void)

    def _check_branch(self, options: PushOptions, commits: Sequence[object]) -> None:
        """Refuse a new named branch that is there, or that nothing would be on."""
        repo = self._push.pusher.repo
        pushoptions.check_branch(options.branch, repo, has_commits=bool(commits))

    def _check_name(
        self, options: PushOptions, plan: RefPlan, graph: PushGraph
    ) -> None:
        """Refuse a new named branch if no ref of a new commit has its name in git."""
        name = escaped(encoding.fromlocal(options.branch))
        updates = (it.command for it in plan.updates)
        refs = {it.ref for it in updates if it.new in graph.parents}
        if name and HEADS + name not in refs:
            raise PushRefusedError(
                _(
                    b"no branch '%s' is pushed; push HEAD:%s, or correct the option "
                    b"branch=%s"
                )
                % (name, name, encoding.fromlocal(options.branch))
            )

    def _with_tags(
        self, plan: RefPlan, graph: PushGraph, options: PushOptions, out: IO[bytes]
    ) -> tuple[bytes, RefPlan, PushGraph]:
        """Make the commit of the tags; return it, and plan and graph with it.

        A line of ``.hgtags`` has the node of a changeset. So if new commits have tags,
        all are converted here first. The tags are refused if there can be no commit.
        """
        if not plan.tags:
            return b"", plan, graph
        git, user = self._push.quarantine.git, self._push.pusher.name
        try:
            if options.branch:
                raise PushRefusedError(
                    _(b"tags are on no new branch; push them without -o branch=NAME")
                )
            branch = plan.branch_of_tags(graph)
            base = branch.command.new
            graph = graph._replace(nodes={**graph.nodes, **self._known([base])})
            nodes = {**graph.nodes}
            if any(it.command.new in graph.parents for it in plan.tags):
                order = graph.needed(plan.tips)
                nodes |= self._convert(graph, order, options, out).changesets
            oid = tagging.commit(git, base, plan.tag_changes(nodes), user)
            return oid, plan.with_tags(branch, oid), graph.with_commit(oid, base)
        except PushRefusedError as exc:
            refused = {it.command.ref: exc.sentence for it in plan.tags}
            return b"", plan.refusing(refused), graph

    def _convert(
        self,
        graph: PushGraph,
        oids: Sequence[bytes],
        options: PushOptions,
        out: IO[bytes],
    ) -> Conversion:
        """Convert new commits in that order; the changegroup is all that ``out`` has.

        ``CommitsRefusedError`` if any cannot be a changeset.
        """
        push = self._push
        self._check_time()
        out.seek(0)
        out.truncate()
        if not oids:
            return Conversion((), (), b"")
        if authors.pairs(push.store.repo, push.store.config):
            raise PushRefusedError(
                _(
                    b"commits would get other ids by git.authors; push with Mercurial, "
                    b"or ask the operator to remove the item"
                )
            )
        found = convert.convert(
            push.pusher.repo.ui,
            push.pusher.repo.unfiltered(),
            push.quarantine.git,
            oids,
            graph.base(oids),
            out,
            dialect=push.store.config.dialect,
            memory_bytes=push.store.config.memory_bytes,
            most_file_bytes=push.limits.file_bytes,
            branch=options.stored_branch,
            is_exact=self._config.is_exact,
        )
        if found.refused:
            raise CommitsRefusedError(found.refused)
        return found

    def _blamed(
        self, plan: RefPlan, graph: PushGraph, refused: Sequence[Refusal]
    ) -> dict[bytes, bytes]:
        """Return the refs that cannot change because of ``refused``, with sentences."""
        if self._push.request.is_atomic or len(plan.updates) == 1:
            sentence = self._explained(refused, graph)
            # a deleted tag is a commit, too
            return {
                it.command.ref: sentence
                for it in plan.updates
                if it.command.new != ZERO or it.kind == TAG
            }
        causes = [it for it in refused if it.reason != ANCESTOR] or [*refused]
        pushed = [it.oid for it in causes if it.oid in graph.parents]
        refs = plan.leading_to(graph, pushed) if pushed else {}
        tags = [it.command.ref for it in plan.tags]
        sentences: dict[bytes, bytes] = {}
        for cause in causes:
            # a commit that was not pushed is that of the tags
            blamed = refs.get(cause.oid, ()) if cause.oid in graph.parents else tags
            for ref in blamed:
                sentences.setdefault(ref, self._explained([cause], graph))
        return sentences

    def _upstream(self, oid: bytes, graph: PushGraph) -> bytes:
        """Return the upstream for git-rebase(1) that makes ``oid`` again.

        If a merge above it has a known parent, that is the newest of these: git-rebase
        would make known commits again, too.
        """
        if oid not in graph.parents:
            return oid[:_SHORT] + b"~"  # the commit of tags is above a branch
        above, tip = {oid}, oid
        for other, parents in graph.parents.items():
            if not above.isdisjoint(parents):
                above.add(other)
                tip = other
        base = graph.base(graph.needed([tip]))
        if len(base) > 1:
            rev = self._push.pusher.repo.unfiltered().changelog.rev
            newest = max(base, key=lambda it: rev(bin_node(base[it])))
            return newest[:_SHORT]
        return oid[:_SHORT] + b"~" if graph.parents[oid] else b"--root"

    def _explained(self, refused: Sequence[Refusal], graph: PushGraph) -> bytes:
        """Describe refused commits to the pusher; return the sentence for a ref."""
        start = self._upstream(refused[0].oid, graph)
        lines, refusal = self._push.limits.explained(
            refused,
            start,
            is_exact=self._config.is_exact,
            has_exact=self._push.store.docket().is_exact,
        )
        self._said += [line for line in lines if line not in self._said]
        return refusal.sentence

    def _raced(
        self, ready: ReadyPush, options: PushOptions, state: RefState
    ) -> set[bytes]:
        """Return the refs that have moved meanwhile; the locks are held.

        ``state``: the refs now. ``PushRefusedError`` if anything else that the push
        began with has changed.
        """
        push = self._push
        raced = ready.plan.raced(state)
        if not self._known.are_visible():
            raise PushRefusedError(_HISTORY_CHANGED)
        if not raced:
            changesets = ready.conversion.changesets
            check_hidden(push.pusher.repo, push.store, changesets)
            self._check_branch(options, changesets)
        return raced

    def _apply(
        self,
        ready: ReadyPush,
        options: PushOptions,
        state: RefState,
        out: IO[bytes],
    ) -> list[bytes]:
        """Apply the push in one transaction; return lines for the pusher.

        ``state``: the refs now.
        """
        push, found = self._push, ready.conversion
        new = dict(found.changesets)
        changes = apply.PushedChanges(
            updates=ready.plan.updates,
            nodes={**ready.graph.nodes, **new},
            changegroup=out if found.changesets else None,
            version=found.version,
            added=found.changesets,
            publishes=options.publishes,
        )
        self._check_time()
        self._is_begun = True
        try:
            lines = apply.apply(
                push.pusher, push.store, state, changes, self._note_applied
            )
        except BaseException as exc:
            if self._is_applied or not apply.is_abandoned(push.pusher.repo):
                raise
            self._log(exc)
            raise PushRefusedError(
                _(b"the server failed; its operator has to run hg recover")
            ) from None
        if ready.tagged:
            line = _(b"the tags are changeset %s on top of '%s': fetch it")
            updates = ready.plan.updates
            refs = [it.command.ref for it in updates if it.command.new == ready.tagged]
            lines.append(line % (new[ready.tagged][:_SHORT], refs[0]))
        return lines

    def _note_applied(self, _transaction: object) -> None:
        self._is_applied = True

    def _check_time(self) -> None:
        """Refuse a push that comes too late for its client."""
        if self._push.is_over():
            raise PushRefusedError(
                _(b"the server has taken too long; push less at a time")
            )

    def _is_history_lost(self) -> bool:
        """Return whether a base changeset of the push may have been stripped
        meanwhile."""
        with contextlib.suppress(Exception):
            is_lost = not self._known.are_known()
            return is_lost or self._push.quarantine.has_lost_packs()
        return False

    def _log(self, exc: BaseException) -> None:
        """Let the operator know of a failure that is no refusal."""
        if not apply.is_expected(exc):
            problem = stringutil.forcebytestr(exc)
            name = type(exc).__name__.encode()
            self._push.pusher.repo.ui.log(
                b"amalgam", b"git push failed: %s: %s\n", name, problem
            )
