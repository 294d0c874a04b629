"""The plan for the refs of a push: their objects in Mercurial, and refusals.

A branch of git is a bookmark, or the tip of a named branch (docs/git-view.rst). A
bookmark is created, moved or deleted as ``hg push --bookmark`` does it. The tip of a
named branch moves forward only, on that branch. Tags are a commit on top of a branch
(``tagging``). All other refs are refused, each by a sentence of its own. Changes
nothing.

A ``RefPlan`` is a value. ``planned`` makes it of the commands, ``checked`` returns one
without the refs that do not fit the named branches of their commits, and
``RefPlan.refusing`` one without given refs. All refusals of a push end up in
``RefPlan.refused``.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from mercurial import bookmarks, encoding, error, scmutil
from mercurial.i18n import _
from mercurial.node import bin as bin_node
from mercurial.utils import stringutil

from ..gitstore.git.refs import HEADS, MAIN_LINES, TAGS, RefNames, escaped
from ..gitstore.remotetags import RemoteTags
from ..gitstore.source import has_own_bookmarks
from ..records import Record
from ..terminal import utf8_of
from . import commands, successors, tagging
from .commands import ZERO, PushRefusedError, RefCommand
from .refstate import BOOKMARK, TAG, TIP, RefState
from .tagging import TagChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mercurial.interfaces.types import RepoT

    from ..gitstore.git.process import Git
    from ..gitstore.store import GitStore
    from .graph import PushGraph


def bookmark_of(ref: bytes) -> bytes:
    """Return the bookmark of a new branch, as Mercurial has it in memory."""
    shown = ref.removeprefix(HEADS)
    name: bytes = encoding.tolocal(shown)
    if encoding.fromlocal(name) != shown:
        raise PushRefusedError(
            _(b"the name of a branch has to be UTF-8; push HEAD:NAME")
        )
    commands.check_length(shown)
    return name


def check_bookmark(name: bytes) -> None:
    """Refuse a bookmark that Mercurial takes from nobody, in no push."""
    if bookmarks.isdivergent(name):
        raise PushRefusedError(
            _(
                b"no bookmark: Mercurial uses '@' within a name for bookmarks that "
                b"diverge; choose a name without it"
            )
        )
    if isinstance(name, encoding.localstr):  # it has less than the stored name
        raise PushRefusedError(
            _(
                b"no bookmark: the server's encoding lacks characters of the name; "
                b"its operator has to set HGENCODING=UTF-8"
            )
        )


def check_bookmark_share(repo: RepoT) -> None:
    """Refuse bookmarks of a share that git users would not see."""
    if has_own_bookmarks(repo):
        raise PushRefusedError(
            _(
                b"this is a share with bookmarks of its own; push to the "
                b"repository that it is a share of"
            )
        )


def left_as_branch(ref: bytes) -> PushRefusedError:
    """Return the refusal to delete a bookmark that has the name of a named branch."""
    return PushRefusedError(
        _(
            b"'%s' cannot be deleted: it is a Mercurial branch, too; ask a Mercurial "
            b"user to close that with hg commit --close-branch"
        )
        % ref
    )


RACED = b"fetch first"
"""git's own message about a ref that has moved meanwhile."""
_SHORT = 12


def only_forward(branch: bytes) -> PushRefusedError:
    """Return the refusal to replace the tip of a named branch."""
    return PushRefusedError(
        _(
            b"it is the Mercurial branch '%s', which moves forward only; merge or "
            b"rebase, or push to a new branch"
        )
        % encoding.fromlocal(branch)
    )


def leaves_tip(store: GitStore, state: RefState, ref: bytes) -> PushRefusedError:
    """Return the refusal to take a named branch off its tip, which has no other.

    ``state``: the refs before that.
    """
    oid = state.oids(store, [ref])[ref][:_SHORT]
    if not oid:  # it was just made, and the pusher cannot know it
        return PushRefusedError(RACED)
    sentence = _(
        b"'%s' would leave commit %s, which would be on no branch; git fetch, and "
        b"rebase onto it"
    ) % (ref, oid)
    free = (name for name in MAIN_LINES if state.node(HEADS + name) is None)
    if name := next(free, None):
        way = _(b", or make a branch for the main line: git push origin COMMIT:%s")
        sentence += way % (HEADS + name)
    return PushRefusedError(sentence)


def leaves_main_line(ref: bytes, oid: bytes) -> PushRefusedError:
    """Return the refusal of a new main line without the tip of its named branch.

    ``ref`` is that of the branch, and ``oid`` its commit.
    """
    return PushRefusedError(
        _(
            b"it would be the main line without commit %s of '%s', which is on no "
            b"other branch; git fetch, and push that commit, or a branch to it first"
        )
        % (oid[:_SHORT], ref)
    )


class RefUpdate(Record):
    """A ref that may be changed."""

    command: RefCommand
    kind: str
    """``BOOKMARK``, ``TIP`` or ``TAG``."""
    name: bytes
    """Name of the bookmark, the named branch, or the tag."""
    is_replaced: bool = False
    """Whether drafts at the tip of a named branch have to become obsolete."""


class RefPlan(Record):
    """The refs of a push: planned updates, and refusals."""

    repo: RepoT
    """The repository as a client of Mercurial would push into it."""
    store: GitStore
    state: RefState
    """The refs before the push."""
    updates: tuple[RefUpdate, ...]
    refused: Mapping[bytes, bytes]
    """Refs that stay as they are, each with a sentence for the pusher."""
    missing: tuple[bytes, ...] = ()
    """Refs to delete that do not exist: as in git, that is a success."""

    def refusing(self, sentences: Mapping[bytes, bytes]) -> RefPlan:
        """Return the plan without some refs. The first sentence about a ref counts."""
        refused = {**sentences, **self.refused}
        left = (it for it in self.updates if it.command.ref not in sentences)
        return self._replace(updates=tuple(left), refused=refused)

    @property
    def tips(self) -> list[bytes]:
        """The commits that refs will have."""
        return [it.command.new for it in self.updates if it.command.new != ZERO]

    @property
    def tags(self) -> list[RefUpdate]:
        """The tags among the refs."""
        return [it for it in self.updates if it.kind == TAG]

    def leading_to(
        self, graph: PushGraph, oids: Sequence[bytes]
    ) -> dict[bytes, list[bytes]]:
        """Return the refs that lead to new commits ``oids``, each with one of them.

        All are with the first, if no way is known.
        """
        ends = graph.leading_to(oids, self.tips)
        found: dict[bytes, list[bytes]] = {}
        for update in self.updates:
            if update.command.new in ends:
                refs = found.setdefault(ends[update.command.new], [])
                refs.append(update.command.ref)
        changed = [it.command.ref for it in self.updates if it.command.new != ZERO]
        return found or {oids[0]: changed}

    def tag_changes(self, nodes: Mapping[bytes, bytes]) -> list[TagChange]:
        """Return the changes of tags; ``nodes``: changesets of commits, in hex."""
        before = self.state.tags
        return [
            TagChange(
                it.name,
                before.get(it.name, b"").hex().encode(),
                b"" if it.command.new == ZERO else nodes[it.command.new],
            )
            for it in self.tags
        ]

    def branch_of_tags(self, graph: PushGraph) -> RefUpdate:
        """Return the branch that gets the commit of the tags: the one of a clone.

        In the first push of all, it is the tip of the branch ``default``, on top of the
        first pushed branch; or, where git users see no tips, that branch.
        """
        ref = self.state.head
        branches = [
            it for it in self.updates if it.kind != TAG and it.command.new != ZERO
        ]
        for update in branches:
            if update.command.ref == ref:
                return update
        if branches and self.state.is_empty:
            first = branches[0]
            on_default = branch_of(self, graph, first.command.new) == b"default"
            is_new = b"default" not in self.state.view.branchmap()
            if b"tips" in self.store.config.refs and on_default and is_new:
                command = RefCommand(ZERO, first.command.new, HEADS + b"default")
                return RefUpdate(command, TIP, b"default")
            return first
        found = self.state.stands_for(ref)
        oid = self.state.oids(self.store, [ref])[ref]
        if found and not oid:
            raise PushRefusedError(RACED)
        is_there = oid != ZERO
        if not found or not is_there or ref in (it.command.ref for it in self.updates):
            raise PushRefusedError(
                _(b"there is no branch '%s' for tags; push that first") % ref
            )
        return RefUpdate(RefCommand(oid, oid, ref), *found)

    def with_tags(self, base: RefUpdate, oid: bytes) -> RefPlan:
        """Return the plan with branch ``base`` at the commit of the tags, ``oid``."""
        others = (it for it in self.updates if it != base)
        update = base._replace(command=base.command._replace(new=oid))
        return self._replace(updates=(*others, update))

    def raced(self, state: RefState) -> set[bytes]:
        """Return the planned refs that are not as the client saw them any more.

        ``state``: the refs now, with tags if any are planned. A bookmark or a named
        branch that git users do not see counts as existing.
        """
        commands = [it.command for it in self.updates]
        now = state.oids(self.store, (it.ref for it in commands))
        taken = {
            it.command.ref
            for it in self.updates
            if it.kind == BOOKMARK
            and it.command.old == ZERO
            and (it.name in self.repo._bookmarks or it.name in state.view.branchmap())
        }
        return {it.ref for it in commands if now[it.ref] != it.old or it.ref in taken}


class _Refusals(dict[bytes, bytes]):
    """Refs with the first sentence about each."""

    @contextlib.contextmanager
    def of(self, ref: bytes) -> Iterator[None]:
        """Note the refusal of ``ref`` if the context raises one."""
        try:
            yield
        except PushRefusedError as exc:
            self.setdefault(ref, exc.sentence)


def planned(
    repo: RepoT,
    store: GitStore,
    git: Git,
    commands: Sequence[RefCommand],
    *,
    may_tag: bool,
    raced: Iterable[bytes] = (),
) -> RefPlan:
    """Plan refs as far as no new commit is needed for that.

    ``git`` is for the repository that the push was received into; ``raced``: refs that
    have moved during the push.
    """
    state = RefState.of(repo, store)
    plan = RefPlan(repo, store, state, (), {})
    oids = state.oids(store, (it.ref for it in commands))
    kinds = _kinds(git, (it.new for it in commands if it.new != ZERO))
    counts = Counter(it.ref for it in commands)
    deleted = (it.ref for it in commands if it.new == ZERO and counts[it.ref] == 1)
    missing = [ref for ref in deleted if oids[ref] == ZERO and _is_known_kind(ref)]
    others = {it.ref for it in commands if it.old not in (ZERO, oids[it.ref])}
    others = {ref for ref in others if ref.startswith(TAGS)}
    of_remotes = others & RemoteTags(store).refs().keys() if others else others
    missing = [ref for ref in missing if ref not in of_remotes]
    refused = _Refusals({ref: RACED for ref in raced if ref not in missing})
    updates, seen = [], set()
    has_tags = any(it.ref.startswith(TAGS) for it in commands)
    tags = tagging.by_shown_name(state.tags) if has_tags else {}
    for command in commands:
        with refused.of(command.ref):
            if command.ref in seen:
                raise PushRefusedError(_(b"the push names it twice; name it once"))
            seen.add(command.ref)
            if command.ref in missing:
                continue
            if command.ref in of_remotes:
                raise PushRefusedError(
                    _(
                        b"it is a tag of a git repository that this one pulls from; "
                        b"change it there"
                    )
                )
            _check_command(plan, command, oids, may_tag=may_tag)
            is_deleted = command.new == ZERO
            found = b"commit" if is_deleted else kinds.get(command.new)
            if command.ref.startswith(TAGS):
                name = tagging.name_of(state.view, tags, command.ref, found)
                updates.append(RefUpdate(command, TAG, name))
                continue
            if found != b"commit":
                raise PushRefusedError(
                    _(
                        b"only commits can be pushed to a branch; name one, such as "
                        b"that of a tag: TAG^{}:BRANCH"
                    )
                )
            kind, name = state.stands_for(command.ref) or (
                BOOKMARK,
                bookmark_of(command.ref),
            )
            updates.append(RefUpdate(command, kind, name))
    plan = plan._replace(updates=tuple(updates), missing=tuple(missing))
    return plan.refusing(refused)


def _is_known_kind(ref: bytes) -> bool:
    return ref.startswith((HEADS, TAGS))


def _kinds(git: Git, oids: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the type of each object that is there."""
    args = ("cat-file", "--batch-check=%(objectname) %(objecttype)")
    asked = b"".join(b"%s\n" % oid for oid in oids)
    if not asked:
        return {}
    lines = git.run(*args, input=asked).stdout.splitlines()
    found = [line.split(b" ") for line in lines]
    return {oid: kind for oid, kind in found if kind != b"missing"}


def _check_command(
    plan: RefPlan, command: RefCommand, oids: Mapping[bytes, bytes], *, may_tag: bool
) -> None:
    """Refuse a command whatever its commit is; ``oids``: the refs before the push."""
    ref, state = command.ref, plan.state
    if ref.startswith(TAGS) and not may_tag:
        raise PushRefusedError(
            _(
                b"tags are made with Mercurial here; ask a Mercurial user for hg tag, "
                b"or the operator for amalgam.git.push-tags = yes"
            )
        )
    if not _is_known_kind(ref):
        raise PushRefusedError(
            _(
                b"only branches and tags have a place in Mercurial; push it to "
                b"refs/heads/NAME, or leave it out"
            )
        )
    if oids[ref] != command.old:
        raise PushRefusedError(RACED)
    if ref.startswith(TAGS):
        if command.old == command.new:
            raise PushRefusedError(RACED)
        return
    found = state.stands_for(ref)
    if found is None and command.new == ZERO:
        raise PushRefusedError(RACED)
    if found and found[0] == BOOKMARK:
        check_bookmark_share(plan.repo)
        check_bookmark(found[1])
        if command.new == ZERO and found[1] in state.tips:
            raise left_as_branch(ref)
    if found is None and b"bookmarks" not in plan.store.config.refs:
        raise PushRefusedError(
            _(
                b"git users make no new branches here; push to one that is there, or "
                b"ask the operator for 'bookmarks' in amalgam.git.refs"
            )
        )
    if found and found[0] == TIP and command.new == ZERO:
        raise PushRefusedError(
            _(
                b"it is the Mercurial branch '%s'; ask a Mercurial user to close it "
                b"with hg commit --close-branch"
            )
            % encoding.fromlocal(found[1])
        )


def checked(plan: RefPlan, graph: PushGraph, chosen: bytes) -> RefPlan:
    """Return the plan without refs that do not fit the branches of their commits.

    A new commit is on the branch ``chosen``, or else on that of its first parent.
    """
    refused = _Refusals()
    updates = []
    deleted = {it.command.ref for it in plan.updates if it.command.new == ZERO}
    names = _PlannedNames(plan.state, deleted)
    for name in _new_tips(plan, graph, chosen):
        if names.may_have(name):
            names.add(name)
    for update in plan.updates:
        with refused.of(update.command.ref):
            is_branch = update.command.new != ZERO and update.kind != TAG
            updates.append(
                _checked(plan, update, graph, chosen, names) if is_branch else update
            )
    plan = plan._replace(updates=tuple(updates)).refusing(refused)
    branches = (it.command.new for it in plan.updates if it.kind != TAG)
    on_branches = {*graph.needed(branches)}
    for update in plan.tags:
        new = update.command.new
        if new in graph.parents and new not in on_branches:
            sentence = _(b"its commit is new; push it to a branch, too")
            refused[update.command.ref] = sentence
    return plan.refusing(refused)


def _new_tips(plan: RefPlan, graph: PushGraph, chosen: bytes) -> set[bytes]:
    """Return the git branches of named branches of new commits that have no tip yet."""
    if b"tips" not in plan.store.config.refs:
        return set()
    new = {it.command.new for it in plan.updates if it.command.new in graph.parents}
    branches = {chosen or branch_of(plan, graph, oid) for oid in new}
    return {
        escaped(encoding.fromlocal(name))
        for name in branches
        if name not in plan.state.tips and name not in plan.repo._bookmarks
    }


class _PlannedNames:
    """Branches of git that exist and are not deleted, and those that are planned."""

    def __init__(self, state: RefState, deleted: Iterable[bytes]) -> None:
        """``deleted`` are refs."""
        self._there = state.branches
        self._deleted = {it.removeprefix(HEADS) for it in deleted}
        self._planned = RefNames()

    def add(self, shown: bytes) -> None:
        """Note a planned branch."""
        self._planned.add(shown)

    def clash(self, shown: bytes) -> bytes:
        """Return a branch that cannot exist beside ``shown``, or an empty name."""
        there = self._there.clash(shown, self._deleted)
        return there or self._planned.clash(shown)

    def may_have(self, shown: bytes) -> bool:
        """Return whether git allows a branch ``shown``, beside these."""
        return RefNames().may_have(shown) and not self.clash(shown)


def _checked(
    plan: RefPlan,
    update: RefUpdate,
    graph: PushGraph,
    chosen: bytes,
    names: _PlannedNames,
) -> RefUpdate:
    """Return an update of a branch, of the kind that its commit makes it.

    ``names`` are the branches that exist or are planned; a new one is added.
    """
    command, shown = update.command, update.command.ref.removeprefix(HEADS)
    is_new = command.new in graph.parents
    is_chosen = bool(chosen and is_new)
    branch = chosen if is_chosen else branch_of(plan, graph, command.new)
    if is_chosen and update.kind == TIP:
        raise PushRefusedError(
            _(b"it is the Mercurial branch '%s'; push '%s' to a new branch")
            % (encoding.fromlocal(update.name), encoding.fromlocal(chosen))
        )
    if command.old != ZERO:
        return (
            _checked_tip(plan, update, graph, branch) if update.kind == TIP else update
        )
    is_tip = escaped(encoding.fromlocal(branch)) == shown
    if is_tip and is_new and b"tips" in plan.store.config.refs:
        # it becomes the tip of that branch, and needs no bookmark
        if names.clash(shown) != shown:
            _check_clash(names, shown)
        return update._replace(kind=TIP, name=branch)
    _check_new_bookmark(plan, update.name, branch, names)
    return update


def _check_new_bookmark(
    plan: RefPlan, name: bytes, branch: bytes, names: _PlannedNames
) -> None:
    """Refuse a name that no bookmark may have, or that git users would not see.

    ``branch`` is the named branch of its commit. Otherwise the name is added to
    ``names``.
    """
    check_bookmark_share(plan.repo)
    check_bookmark(name)
    shown = encoding.fromlocal(name)
    try:
        scmutil.checknewlabel(plan.state.view, name, b"bookmark")
    except error.Abort as exc:
        problem = utf8_of(stringutil.forcebytestr(exc))
        raise PushRefusedError(
            _(b"no bookmark: %s; choose another name") % problem
        ) from None
    if name in plan.repo._bookmarks:
        raise PushRefusedError(
            _(
                b"there is a bookmark of that name, which git users do not see; choose "
                b"another name"
            )
        )
    if name == branch:
        raise PushRefusedError(
            _(
                b"it is the Mercurial branch '%s', which is closed or not in "
                b"amalgam.git.refs; choose another name"
            )
            % shown
        )
    if name in plan.state.view.branchmap():
        raise PushRefusedError(
            _(
                b"the pushed commits are not on the Mercurial branch '%s'; choose "
                b"another name, or start from that branch"
            )
            % shown
        )
    _check_clash(names, shown)


def _check_clash(names: _PlannedNames, shown: bytes) -> None:
    """Refuse a new branch that git cannot have beside ``names``; else add it."""
    if clash := names.clash(shown):
        raise PushRefusedError(
            _(b"the name clashes with the branch '%s'; choose another one") % clash
        )
    if not names.may_have(shown):
        raise PushRefusedError(
            _(b"git has no branches of that name; choose another name")
        )
    names.add(shown)


def _checked_tip(
    plan: RefPlan, update: RefUpdate, graph: PushGraph, branch: bytes
) -> RefUpdate:
    """Refuse a commit on another branch, or one that is not above the tip.

    Drafts at the tip may be replaced if they become obsolete.
    """
    command = update.command
    if branch != update.name:
        raise PushRefusedError(
            _(
                b"it is the Mercurial branch '%s', but the commit's first parent "
                b"is on '%s'; push it there, or begin a merge with: git checkout %s"
            )
            % tuple(map(encoding.fromlocal, (update.name, branch, update.name)))
        )
    old = plan.state.view[plan.state.tips[update.name]]
    if _is_above(plan.state.view, graph, command.new, old.rev()):
        return update
    if old.mutable() and successors.is_wanted(plan.repo):
        return update._replace(is_replaced=True)
    raise only_forward(update.name)


def _is_above(view: RepoT, graph: PushGraph, oid: bytes, rev: int) -> bool:
    """Return whether a commit is a changeset or a descendant of it."""
    nodes = {*graph.base(graph.needed([oid])).values()}
    if oid in graph.nodes:
        nodes.add(graph.nodes[oid])
    revs = [view.changelog.rev(bin_node(node)) for node in nodes]
    return rev in view.changelog.ancestors(revs, stoprev=rev, inclusive=True)


def branch_of(plan: RefPlan, graph: PushGraph, oid: bytes) -> bytes:
    """Return the named branch that a commit is, or will be on."""
    known = graph.first_known(oid)
    if known is None:
        return b"default"
    branch: bytes = plan.state.view[bin_node(graph.nodes[known])].branch()
    return branch
