"""The plan for the refs of a push: their objects in Mercurial, and refusals.

A branch of git is a bookmark, or the tip of a named branch (docs/git-view.rst). A
bookmark is created, moved or deleted as ``hg push --bookmark`` does it. The tip of a
named branch moves forward only, on that branch. Tags are a commit on top of a branch
(``tagging``). All other refs are refused, each by a sentence of its own. Changes
nothing.

``GitGraph`` asks git about the commits of a push: one process for each question, oids
in hex. ``RefState`` has the refs of a repository at one moment, also within a
transaction. A push goes into a repository that may be a share, which sees the open
transaction; the source, which owns store and bookmarks, decides which refs git users
see. Bookmarks are in the encoding of the process, as in a bundle.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from mercurial import bookmarks, encoding, error, scmutil
from mercurial.i18n import _
from mercurial.node import bin as bin_node
from mercurial.utils import stringutil

from ..gitstore import selection
from ..gitstore.git.refs import HEADS, TAGS, NamedNodes, RefNames
from ..gitstore.source import has_own_bookmarks
from ..records import Record
from ..terminal import utf8_of
from . import commands, successors, tagging
from .commands import ZERO, PushRefusedError, RefCommand
from .tagging import TagChange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mercurial.interfaces.types import RepoT

    from ..gitstore.git.process import Git
    from ..gitstore.store import GitStore


_PARENTS_FIRST = ("--topo-order", "--reverse", "--parents")


class GitGraph:
    """The objects that a push has brought, and those that were there."""

    def __init__(self, git: Git) -> None:
        """``git`` is for the repository that the push was received into."""
        self._git = git

    def kinds(self, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the type of each object that is there."""
        args = ("cat-file", "--batch-check=%(objectname) %(objecttype)")
        lines = self._git.run(*args, input=_lines(oids)).stdout.splitlines()
        found = [line.split(b" ") for line in lines]
        return {oid: kind for oid, kind in found if kind != b"missing"}

    def is_below(self, oid: bytes, tip: bytes) -> bool:
        """Return whether a commit is ``tip`` or an ancestor of it."""
        args = ("merge-base", "--is-ancestor", oid.decode(), tip.decode())
        return not self._git.run(*args, check=False).returncode

    def first_outside(self, oid: bytes, new: Collection[bytes]) -> bytes | None:
        """Return the first commit that is not ``new`` on the way of first parents."""
        args = ("rev-list", "--first-parent", f"--max-count={len(new) + 1}")
        listed = self._git.run(*args, oid.decode()).stdout.split()
        return next((it for it in listed if it not in new), None)

    def left_out(self, oids: Collection[bytes], tips: Iterable[bytes]) -> set[bytes]:
        """Return the commits that are not among the ancestors of ``tips``."""
        if not oids:
            return set()
        asked = [*sorted(oids), *(b"^" + tip for tip in tips)]
        listed = self._git.run("rev-list", "--stdin", input=_lines(asked)).stdout
        return {*oids}.intersection(listed.split())

    def parents(self, oids: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        """Return the parents of each commit."""
        args = ("rev-list", "--no-walk=unsorted", "--parents", "--stdin")
        listed = self._git.run(*args, input=_lines(oids)).stdout.splitlines()
        return {oid: its for oid, *its in map(bytes.split, listed)}

    def leading_to(
        self, oids: Iterable[bytes], tips: Iterable[bytes]
    ) -> dict[bytes, bytes]:
        """Return which of ``tips`` lead to new commits ``oids``, each with one."""
        found = {oid: oid for oid in oids}
        tips = {*tips}
        args = ("rev-list", *_PARENTS_FIRST, "--stdin", "--not", "--all")
        listed = self._git.run(*args, input=_lines(tips)).stdout
        for oid, *parents in map(bytes.split, listed.splitlines()):
            for parent in parents:
                if parent in found:
                    found.setdefault(oid, found[parent])
        return {tip: found[tip] for tip in tips if tip in found}


def _lines(oids: Iterable[bytes]) -> bytes:
    return b"".join(b"%s\n" % oid for oid in oids)


def view_of(repo: RepoT, store: GitStore) -> RepoT:
    """Return ``repo`` as git users see it; ``store`` is its git store."""
    shown = selection.view_of(store.repo, store.config.export)
    return repo.filtered(shown.filtername)


class RefState(Record):
    """The refs of a repository at one moment."""

    view: RepoT
    """The repository as git users see it."""
    named: NamedNodes
    refs: dict[bytes, bytes]
    """All refs that git users see: name to node."""
    head: bytes
    """The ref that a clone checks out; there may be none of that name."""
    branches: dict[bytes, tuple[str, bytes]]
    """Kind and name in Mercurial of each branch, by its name in git."""

    @classmethod
    def of(cls, repo: RepoT, store: GitStore, *, tags: bool = False) -> RefState:
        """Take the refs of ``repo``, whose git store is ``store``.

        ``tags``: read tags, too, and not from Mercurial's memory.
        """
        if repo.shared() and not repo.currenttransaction():
            # files of the share do not show changes of the source's bookmarks
            selection.read_again(repo)
        view = view_of(repo, store)
        if tags:
            view.invalidatecaches()
        bookmarks = None
        if has_own_bookmarks(repo):
            selection.read_again(store.repo)
            bookmarks = store.repo._bookmarks
        named = NamedNodes.of(view, store.config.refs, bookmarks=bookmarks)
        branches = {shown: key for key, shown in named.branches().items()}
        return cls(view, named, *named.refs(), branches)

    def stands_for(self, ref: bytes) -> tuple[str, bytes] | None:
        """Return kind and name of a ref below ``refs/heads/``, or None."""
        return self.branches.get(ref.removeprefix(HEADS))

    def oids(self, store: GitStore, refs: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the oid of each of ``refs`` in git, in hex.

        ``ZERO`` for a missing one. Empty for one that is not exported yet, so that no
        client can know it.
        """
        refs = [*refs]
        there = [ref for ref in refs if ref in self.refs]
        with contextlib.closing(store.open_map()) as oidmap:
            found = oidmap.oids([self.refs[ref] for ref in there])
        oids = dict.fromkeys(refs, ZERO)
        for ref, oid in zip(there, found, strict=True):
            oids[ref] = oid.hex().encode() if oid else b""
        return oids


def bookmark_of(ref: bytes) -> bytes:
    """Return the bookmark of a new branch, as Mercurial has it in memory."""
    shown = ref.removeprefix(HEADS)
    name: bytes = encoding.tolocal(shown)
    if encoding.fromlocal(name) != shown:
        raise PushRefusedError(_(b"the name of a branch has to be UTF-8"))
    commands.check_length(shown)
    return name


def check_bookmark(name: bytes) -> None:
    """Refuse a bookmark that Mercurial takes from nobody, in no push."""
    if bookmarks.isdivergent(name):
        raise PushRefusedError(
            _(
                b"no bookmark: Mercurial uses '@' within a name for bookmarks that "
                b"diverge"
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
        _(b"'%s' cannot be deleted: it is a Mercurial branch, too") % ref
    )


Known: TypeAlias = Callable[[Iterable[bytes]], Mapping[bytes, bytes]]
"""Which of some commits are changesets that the pusher may see, and their nodes."""
RACED = b"fetch first"
"""git's own message about a ref that has moved meanwhile."""
BOOKMARK, TIP, TAG = "bookmark", "tip", "tag"


def only_forward(branch: bytes) -> PushRefusedError:
    """Return the refusal to replace the tip of a named branch."""
    return PushRefusedError(
        _(b"it is the Mercurial branch '%s', which moves forward only")
        % encoding.fromlocal(branch)
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


class RefPlan:
    """The refs of a push: which may be changed, and why others may not."""

    def __init__(
        self, repo: RepoT, store: GitStore, git: Git, *, may_tag: bool = False
    ) -> None:
        """``git`` is for the repository that the push was received into."""
        self._may_tag = may_tag
        self._tagged: RefUpdate | None = None
        """The branch that has the commit of the tags, as it was to be without."""
        self._is_asked = False
        self._repo = repo
        self._store = store
        self._graph = GitGraph(git)
        self.state = RefState.of(repo, store)
        self._names = RefNames(self.state.branches)
        """Branches that exist or are planned."""
        self.updates: list[RefUpdate] = []
        self.refused: dict[bytes, bytes] = {}

    def refuse(self, ref: bytes, sentence: bytes) -> None:
        """Let a ref be as it is."""
        self.refused.setdefault(ref, sentence)
        self.updates = [it for it in self.updates if it.command.ref != ref]

    def restore(self, updates: Iterable[RefUpdate]) -> None:
        """Plan ``updates`` again, which were refused."""
        for update in updates:
            del self.refused[update.command.ref]
            self.updates.append(update)

    def add(self, commands: Iterable[RefCommand]) -> None:
        """Plan refs as far as no new commit is needed for that."""
        commands = [*commands]
        oids = self.state.oids(self._store, (it.ref for it in commands))
        kinds = self._graph.kinds(it.new for it in commands if it.new != ZERO)
        tags = self.state.named.tags
        seen: set[bytes] = set()
        for command in commands:
            with self._refusing(command.ref):
                if command.ref in seen:
                    raise PushRefusedError(_(b"the push names it twice"))
                seen.add(command.ref)
                self._check(command, oids)
                is_deleted = command.new == ZERO
                found = b"commit" if is_deleted else kinds.get(command.new)
                if command.ref.startswith(TAGS):
                    name = tagging.name_of(self.state.view, tags, command.ref, found)
                    self.updates.append(RefUpdate(command, TAG, name))
                    continue
                if found != b"commit":
                    raise PushRefusedError(_(b"only commits can be pushed to a branch"))
                kind, name = self.state.stands_for(command.ref) or (
                    BOOKMARK,
                    bookmark_of(command.ref),
                )
                self.updates.append(RefUpdate(command, kind, name))

    @contextlib.contextmanager
    def _refusing(self, ref: bytes) -> Iterator[None]:
        """Let ``ref`` be as it is if it is refused in the context."""
        try:
            yield
        except PushRefusedError as exc:
            self.refuse(ref, exc.sentence)

    def raced(self) -> list[bytes]:
        """Return the refs that have moved since the client saw them.

        A bookmark that git users do not see counts as existing.
        """
        commands = [it.command for it in self.updates]
        state = RefState.of(self._repo, self._store, tags=bool(self.tags))
        now = state.oids(self._store, (it.ref for it in commands))
        taken = {
            it.command.ref
            for it in self.updates
            if it.kind == BOOKMARK
            and it.command.old == ZERO
            and it.name in self._repo._bookmarks
        }
        return [it.ref for it in commands if now[it.ref] != it.old or it.ref in taken]

    def check_branches(self, known: Known, new: set[bytes], chosen: bytes) -> None:
        """Refuse refs that do not fit the branches of their commits.

        ``new``: oids without changesets; ``known`` returns the changesets of others. A
        new commit is on the branch ``chosen``, or else on that of its first parent.
        """
        for update in [*self.updates]:
            command = update.command
            if command.new == ZERO or update.kind == TAG:
                continue
            with self._refusing(command.ref):
                is_chosen = bool(chosen and command.new in new)
                branch = chosen if is_chosen else self._branch(command.new, known, new)
                if is_chosen and update.kind == TIP:
                    raise PushRefusedError(
                        _(b"it is the Mercurial branch '%s'; push '%s' to a new branch")
                        % (encoding.fromlocal(update.name), encoding.fromlocal(chosen))
                    )
                if command.old != ZERO:
                    if update.kind == TIP:
                        at = self.updates.index(update)
                        self.updates[at] = self._checked_tip(update, branch)
                elif (
                    branch == update.name
                    and command.new in new
                    and b"tips" in self._store.config.refs
                ):
                    # it becomes the tip of that branch, and needs no bookmark
                    at = self.updates.index(update)
                    self.updates[at] = update._replace(kind=TIP)
                else:
                    self._check_new_bookmark(update.name, branch)
        tips = {it.command.new for it in self.updates if it.kind != TAG} - {ZERO}
        tagged = {it.command.new for it in self.tags} & new
        left = self._graph.left_out(tagged, tips)
        for update in self.tags:
            with self._refusing(update.command.ref):
                if update.command.new in left:
                    raise PushRefusedError(
                        _(b"its commit is new; push it to a branch, too")
                    )

    def leading_to(self, oids: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        """Return the refs that lead to new commits, each with one of them.

        All are with the first, if git knows of no way.
        """
        oids = [*oids]
        refs = {it.command.ref: it.command.new for it in self.updates}
        refs = {ref: tip for ref, tip in refs.items() if tip != ZERO}
        ends = self._graph.leading_to(oids, refs.values())
        found: dict[bytes, list[bytes]] = {}
        for ref, tip in refs.items():
            if tip in ends:
                found.setdefault(ends[tip], []).append(ref)
        return found or {oids[0]: [*refs]}

    @property
    def tags(self) -> list[RefUpdate]:
        """The tags among the refs."""
        return [it for it in self.updates if it.kind == TAG]

    def tag_changes(self, nodes: Mapping[bytes, bytes]) -> list[TagChange]:
        """Return the changes of tags; ``nodes``: changesets of commits, in hex."""
        before = self.state.named.tags
        return [
            TagChange(
                it.name,
                before.get(it.name, b"").hex().encode(),
                b"" if it.command.new == ZERO else nodes[it.command.new],
            )
            for it in self.tags
        ]

    def tagged(self) -> RefUpdate:
        """Return the branch that gets the commit of the tags: the one of a clone."""
        ref = self.state.head
        for update in self.updates:
            if update.command.ref == ref and update.command.new != ZERO:
                return update
        found = self.state.stands_for(ref)
        oid = self.state.oids(self._store, [ref])[ref]
        if found and not oid:
            raise PushRefusedError(RACED)
        is_there = oid != ZERO
        if not found or not is_there or ref in (it.command.ref for it in self.updates):
            raise PushRefusedError(_(b"there is no branch '%s' for tags") % ref)
        return RefUpdate(RefCommand(oid, oid, ref), *found)

    def put_tags(self, oid: bytes) -> None:
        """Let the branch of the tags lead to the commit that has them."""
        base = self._tagged = self.tagged()
        self._is_asked = base in self.updates
        command = base.command._replace(new=oid)
        self.updates = [it for it in self.updates if it != base]
        self.updates.append(base._replace(command=command))

    def drop_tags(self, sentence: bytes) -> None:
        """Let all tags be as they are, and the branch be without their commit."""
        base, self._tagged = self._tagged, None
        if base:
            ref = base.command.ref
            others = [it for it in self.updates if it.command.ref != ref]
            self.updates = others + [base] * self._is_asked
        for update in self.tags:
            self.refuse(update.command.ref, sentence)

    def _check(self, command: RefCommand, oids: Mapping[bytes, bytes]) -> None:
        """Refuse a ref, whatever it is to be."""
        ref = command.ref
        if ref.startswith(TAGS) and not self._may_tag:
            raise PushRefusedError(_(b"tags are made with Mercurial: hg tag"))
        if not ref.startswith((HEADS, TAGS)):
            raise PushRefusedError(_(b"only branches can be pushed (refs/heads/...)"))
        if oids[ref] != command.old:
            raise PushRefusedError(RACED)
        if ref.startswith(TAGS):
            if command.old == command.new:
                raise PushRefusedError(RACED)
            return
        found = self.state.stands_for(ref)
        if found is None and command.new == ZERO:
            raise PushRefusedError(RACED)
        if found and found[0] == BOOKMARK:
            check_bookmark_share(self._repo)
            check_bookmark(found[1])
            if command.new == ZERO and found[1] in self.state.named.tips:
                raise left_as_branch(ref)
        if found is None and b"bookmarks" not in self._store.config.refs:
            raise PushRefusedError(
                _(b"no new branches: 'bookmarks' is not in amalgam.git.refs")
            )
        if found and found[0] == TIP and command.new == ZERO:
            raise PushRefusedError(
                _(b"it is the Mercurial branch '%s'; hg commit --close-branch ends it")
                % encoding.fromlocal(found[1])
            )

    def _check_new_bookmark(self, name: bytes, branch: bytes) -> None:
        """Refuse a name that no bookmark may have, or that git users would not see.

        ``branch`` is the named branch of its commit.
        """
        check_bookmark_share(self._repo)
        check_bookmark(name)
        shown = encoding.fromlocal(name)
        try:
            scmutil.checknewlabel(self.state.view, name, b"bookmark")
        except error.Abort as exc:
            problem = utf8_of(stringutil.forcebytestr(exc))
            raise PushRefusedError(_(b"no bookmark: %s") % problem) from None
        if name in self._repo._bookmarks:
            raise PushRefusedError(
                _(b"there is a bookmark of that name, which git users do not see")
            )
        if name == branch:
            raise PushRefusedError(
                _(
                    b"it is the Mercurial branch '%s', which is closed or not in "
                    b"amalgam.git.refs"
                )
                % shown
            )
        if name in self.state.view.branchmap():
            raise PushRefusedError(
                _(b"the pushed commits are not on the Mercurial branch '%s'") % shown
            )
        if not self._names.may_have(shown):
            raise PushRefusedError(
                _(b"the name clashes with another branch, or git refuses it")
            )
        self._names.add(shown)

    def _checked_tip(self, update: RefUpdate, branch: bytes) -> RefUpdate:
        """Refuse a commit on another branch, or one that is not above the tip.

        Drafts at the tip may be replaced if they become obsolete.
        """
        command = update.command
        if branch != update.name:
            raise PushRefusedError(
                _(
                    b"it is the Mercurial branch '%s', but the commit's first parent "
                    b"is on '%s'"
                )
                % (encoding.fromlocal(update.name), encoding.fromlocal(branch))
            )
        if self._graph.is_below(command.old, command.new):
            return update
        old = self.state.refs[command.ref]
        if self.state.view[old].mutable() and successors.is_wanted(self._repo):
            return update._replace(is_replaced=True)
        raise only_forward(update.name)

    def _branch(self, oid: bytes, known: Known, new: set[bytes]) -> bytes:
        """Return the named branch that a commit is, or will be on."""
        if oid in new:
            below = self._graph.first_outside(oid, new)
            if below is None:
                return b"default"
            oid = below
        branch: bytes = self.state.view[bin_node(known([oid])[oid])].branch()
        return branch
