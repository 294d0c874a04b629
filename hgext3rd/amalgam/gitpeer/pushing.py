"""Pushes to git remotes.

Bookmarks move the branches of their names: those that the remote has, or that the user
has named. Users of hg-git push as they know it (``hggit.pushes``). With
``amalgam.git.push-tags``, tags below the pushed bookmarks are pushed, too; those that
the remote has do not move. The changesets are exported, and git pushes the commits.
Each ref has a lease: the oid that this process has seen there. A branch may lose
commits only if all of them are obsolete here, with successors on the new tip, or with
``--force``. Each refused ref is named with the next step; the others are pushed.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from mercurial import error, exchange, hook as hookmod, obsutil, phases
from mercurial.i18n import _
from mercurial.node import bin as bin_node, hex as hex_node, short

from ..config import PushConfig
from ..gitstore import selection
from ..gitstore.export import export
from ..gitstore.fetchedrefs import FetchedRef
from ..gitstore.git.refs import HEADS, TAGS, escaped, global_tags, tag_names
from ..gitstore.imported import ImportedCommits
from ..hggit import dialect, pushes
from ..records import Record
from ..remote import staging
from ..remote.staging import Change
from ..remote.transport import NO_OID, Advertised, FailureKind, RemoteFailureError
from ..scratch import scratch
from ..terminal import one_line
from . import bookmarks as marks, hggitfiles, pulling
from .fetched import Fetched
from .source import HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mercurial.interfaces.types import RepoT

    from ..remote.transport import Answer, PushAnswers
    from .source import GitSource

_SHORT = 12
_HINTS = {
    FailureKind.MOVED: _(b"pull, merge or rebase, and push again"),
    FailureKind.LOGIN: _(b"see whether 'git ls-remote' works with the same address"),
    FailureKind.RULE: _(b"the remote does not allow it; ask who runs it"),
}


class Update(Record):
    """A branch or tag to write at the remote."""

    ref: bytes
    old: bytes
    """The oid that the remote has, in hex; ``NO_OID`` if none."""
    node: bytes | None
    """The changeset of its new tip; ``None`` to delete it."""
    tag_object: bytes = b""
    """The oid of a tag object to write for it, in hex."""

    @property
    def is_tag(self) -> bool:
        """Return whether it is a tag."""
        return self.ref.startswith(TAGS)

    @property
    def name(self) -> bytes:
        """Return the name of the branch or tag, for people."""
        return self.ref.removeprefix(TAGS if self.is_tag else HEADS)


def push(
    repo: RepoT,
    peer: Any,
    force: bool = False,
    revs: Sequence[bytes] | None = None,
    newbranch: bool = False,
    bookmarks: Sequence[bytes] = (),
    publish: bool = False,
    _opargs: Any = None,
    **_others: Any,
) -> exchange.pushoperation:
    """Push to a git remote, as ``exchange.push`` does; return its result.

    ``peer`` has the ``source``.
    """
    source: GitSource = peer.source
    op = exchange.pushoperation(repo, peer, force, revs, newbranch, bookmarks, publish)
    repo.hook(b"preoutgoing", throw=True, git=True, source=b"push", url=source.location)
    run = _Push(repo, source, is_forced=bool(force), publishes=bool(publish))
    if bookmarks and run.exportable and marks.has_suffix(repo.ui):
        raise pushes.named_with_suffix()
    if marks.is_of_hggit(repo.ui):
        repo.ui.status(_(b"searching for changes\n"))
    named = [repo._bookmarks.expandname(it) for it in bookmarks]
    wanted = run.wanted(revs, named, makes_new=newbranch)
    updates = [it for it in wanted if run.may(it)]
    if run.exportable:
        run.begin(updates)
    if PushConfig.from_ui(repo.ui).may_tag and not run.exportable:
        updates += run.tags(updates)
    if run.exportable and not updates:
        run.tell_unchanged(updates)
    done = run.push(updates) if updates else 0
    if not done and not run.refused:
        text, count = _(b"no changes found"), 0
        if marks.is_of_hggit(repo.ui) and revs is None:
            count = run.unnamed()
        if count:
            more = _(b"%s (ignoring %d changesets without bookmarks or tags)")
            text = more % (text, count)
        repo.ui.status(one_line(text))
    op.cgresult = 1 if done else 0
    if run.refused:
        op.bkresult = 2
    return op


def require_pulled(repo: RepoT, source: GitSource) -> None:
    """With hg-git, abort if a branch has commits that are not here, as a push does."""
    if not dialect.goes_on(repo):
        return
    refs = {marks.ref_of(repo.ui, it) for it in repo._bookmarks}
    oids = {ref: it for ref, it in source.advertised.oids.items() if ref in refs}
    known = pulling.known(repo, oids.values())
    for ref, oid in sorted(oids.items()):
        if oid not in known:
            raise pushes.moved(ref)


class _Push:
    """One push."""

    def __init__(
        self, repo: RepoT, source: GitSource, *, is_forced: bool, publishes: bool
    ) -> None:
        self._repo = repo
        self._source = source
        self._remote = pulling.remote_name(repo, source)
        self._record = pulling.record_name(repo, source)
        self._is_forced = is_forced
        self._publishes = publishes
        self._store = pulling.opened(repo)
        self._store.require_trust()
        self._known: dict[bytes, bytes] = {}
        """Changesets of the commits that the remote shows, in hex."""
        self.refused = 0
        """Refs that were refused, here or there."""
        self.exportable: pushes.Exportable | None = None
        """All refs to push, if hg-git's users push."""
        if dialect.goes_on(repo):
            pushes.tell_export(self._store)
            fetched = Fetched(self._store)
            refs = [fetched.refs(it) for it in sorted(fetched.remotes())]
            ref_of = functools.partial(marks.ref_of, repo.ui)
            self.exportable = pushes.exportable(repo, ref_of, refs)

    def wanted(
        self, revs: Sequence[bytes] | None, named: Sequence[bytes], *, makes_new: bool
    ) -> list[Update]:
        """Return the branches that differ from their bookmarks here.

        ``named``: bookmarks to push whether the remote has them or not. Without any,
        ``makes_new`` adds those on ``revs``, or the active one.
        """
        repo, oids = self._repo, self._source.advertised.oids
        shown = {oid for ref, oid in oids.items() if ref.startswith(HEADS)}
        self._known = pulling.known(repo, shown)
        if self.exportable:
            refs = [marks.ref_of(repo.ui, it) for it in named]
            nodes = pushes.chosen(repo, self.exportable, revs, refs, oids)
        else:
            nodes = self._wanted(revs, named, makes_new=makes_new)
        objects = self.exportable.tag_objects if self.exportable else {}
        found = [
            Update(ref, oids.get(ref, NO_OID), node, objects.get(ref, b""))
            for ref, node in nodes.items()
            if not (ref.startswith(TAGS) and ref in oids)
        ]
        self._keep_equal(found)
        return [it for it in found if not self._is_done(it, is_named=bool(named))]

    def _wanted(
        self, revs: Sequence[bytes] | None, named: Sequence[bytes], *, makes_new: bool
    ) -> dict[bytes, bytes | None]:
        repo, oids = self._repo, self._source.advertised.oids
        nodes: dict[bytes, bytes | None] = {}
        for name in named:
            ref = marks.ref_of(repo.ui, name)
            node = repo._bookmarks.get(name)
            if node is None and ref not in oids:
                raise error.InputError(
                    _(b"bookmark '%s' exists neither here nor there") % name,
                    hint=_(b"make it: hg bookmark -r REV %s") % name,
                )
            nodes[ref] = node
        if not named:
            mine = repo._bookmarks
            new = {mine.active} if makes_new and revs is None else set()
            if makes_new and revs is not None:
                new = {name for name in mine if mine[name] in revs}
            both = ((marks.ref_of(repo.ui, name), name) for name in mine)
            nodes = {
                ref: mine[name] for ref, name in both if ref in oids or name in new
            }
            if revs is not None:
                below = repo.revs(b"::%ln", revs)
                nodes = {
                    ref: node
                    for ref, node in nodes.items()
                    if node is not None and repo[node].rev() in below
                }
            if revs is not None and not nodes:
                raise error.InputError(
                    _(b"no bookmark on these changesets is a branch of the remote"),
                    hint=_(b"name one: hg push -B NAME"),
                )
        return nodes

    def _keep_equal(self, updates: Sequence[Update]) -> None:
        """Record equal branches that no record has: a killed push has written them."""
        lines = Fetched(self._store).lines(self._record)
        recorded = lines.find(it.ref for it in updates)
        equal = [
            it
            for it in updates
            if it.node
            and self._known.get(it.old) == hex_node(it.node)
            and (it.ref not in recorded or recorded[it.ref].oid != it.old)
        ]
        self._keep(equal, {it.node: it.old for it in equal if it.node})

    def _is_done(self, update: Update, *, is_named: bool) -> bool:
        """Return whether both are equal, or the bookmark is behind."""
        there = self._known.get(update.old)
        if update.node is None or there is None:
            return False
        if there == hex_node(update.node):
            return True
        is_behind = self._is_ancestor(update.node, bin_node(there))
        return is_behind and not is_named

    def _is_ancestor(self, old: bytes, new: bytes) -> bool:
        return bool(self._repo.unfiltered().changelog.isancestor(old, new))

    def begin(self, updates: Iterable[Update]) -> None:
        """Run ``prechangegroup``, as with hg-git before it sends something."""
        if hookmod.hashook(self._repo.ui, b"prechangegroup"):
            changes = {it.ref: it.node and hex_node(it.node) for it in updates}
            given = {"url": self._source.location, "changes": changes}
            self._repo.hook(b"prechangegroup", source=b"push", git=True, **given)

    def tell_unchanged(self, updates: Iterable[Update]) -> None:
        """Name the refs that ``updates`` leave as they are, for ``--debug``."""
        changed, there = {it.ref for it in updates}, self._source.advertised.oids
        pushes.tell_unchanged(self._repo.ui, self._remote, there, changed)

    def unnamed(self) -> int:
        """Return how many changesets might leave, and no ref of the remote has."""
        advertised = self._source.advertised
        oids = {advertised.commit(ref) for ref in advertised.oids}
        known = map(bin_node, pulling.known(self._repo, oids).values())
        return len(self._repo.filtered(b"served").revs(b"not ::%ln", [*known]))

    def tags(self, updates: Sequence[Update]) -> list[Update]:
        """Return the tags that the remote lacks, on changesets that it has or gets."""
        repo, advertised = self._repo, self._source.advertised
        tips = [bin_node(node) for node in self._known.values()]
        tips = [it for it in tips if it in repo]
        tips += [it.node for it in updates if it.node]
        tags = global_tags(repo)
        below = repo.revs(b"%ln & ::%ln", tags.values(), tips)
        tags = {tag: node for tag, node in tags.items() if repo[node].rev() in below}
        refs = {TAGS + name: tags[tag] for tag, name in tag_names(tags).items()}
        there = {ref: advertised.commit(ref) for ref in refs if ref in advertised.oids}
        theirs = pulling.known(repo, there.values())
        for ref, oid in there.items():
            if theirs.get(oid) != hex_node(refs[ref]):
                text = _(b"the remote has it on commit %s") % oid[:_SHORT]
                hint = _(b"tags of git do not move; use another name")
                self._refuse(Update(ref, NO_OID, refs[ref]), text, hint)
        return [
            Update(ref, NO_OID, node) for ref, node in refs.items() if ref not in there
        ]

    def may(self, update: Update) -> bool:
        """Return whether a branch may be pushed; if not, say why."""
        reason = self._reason(update)
        if reason:
            self._refuse(update, *reason)
        return reason is None

    def _refuse(self, update: Update, reason: bytes, hint: bytes) -> None:
        self.refused += 1
        text = _(b"branch '%s' is not pushed: %s")
        if update.is_tag:
            text = _(b"tag '%s' is not pushed: %s")
        text %= update.name, reason
        self._repo.ui.warn(one_line(text))
        self._repo.ui.warn(one_line(b"(%s)" % hint))

    def _reason(self, update: Update) -> tuple[bytes, bytes] | None:
        there = self._known.get(update.old)
        if update.old != NO_OID and there is None and self.exportable:
            raise pushes.moved(update.ref)
        if update.old != NO_OID and there is None and not self._is_forced:
            text = _(b"the remote has commit %s, which is not here")
            return text % update.old[:_SHORT], _(b"pull first, and merge or rebase")
        if update.node is None:
            return None
        tip, name = self._repo[update.node], update.name
        if escaped(name) != name:
            hint = _(b"rename the bookmark: hg bookmark -m")
            return _(b"git allows no such name"), hint
        if tip.phase() >= phases.secret:
            hint = _(b"hg phase --draft -r %s, if others may see it") % tip
            return _(b"changeset %s is secret") % tip, hint
        if tip.obsolete() or (tip.orphan() and not self._is_forced):
            hint = _(b"see 'hg help evolution', or move the bookmark")
            return _(b"changeset %s is obsolete, or on top of one that is") % tip, hint
        if there is None or self._is_forced:
            return None
        old = bin_node(there)
        if self._is_ancestor(old, update.node) or self._is_replaced(old, update.node):
            return None
        if self.exportable:
            raise pushes.overwritten(update.ref, tip)
        lost = self._repo.unfiltered().revs(b"only(%n, %n)", old, update.node)
        text = _(b"it would lose %d changesets, with %s")
        hint = _(b"merge or rebase, or use --force to lose them")
        return text % (len(lost), short(old)), hint

    def _is_replaced(self, old: bytes, new: bytes) -> bool:
        """Return whether all changesets of ``old`` alone have successors on ``new``."""
        repo = self._repo.unfiltered()
        on_new = {repo[it].node() for it in repo.revs(b"only(%n, %n)", new, old)}
        for rev in repo.revs(b"only(%n, %n)", old, new):
            ctx = repo[rev]
            successors = {*obsutil.allsuccessors(repo.obsstore, [ctx.node()])}
            if not ctx.obsolete() or on_new.isdisjoint(successors):
                return False
        return True

    def push(self, updates: Sequence[Update]) -> int:
        """Push ``updates``; return how many the remote has taken."""
        repo, store, source = self._repo, self._store, self._source
        oids = self._exported(updates)
        changes = [
            Change(
                it.ref, it.old, it.tag_object or (oids[it.node] if it.node else NO_OID)
            )
            for it in updates
        ]
        if self.exportable:
            new = [it.new for it in changes if it.new != NO_OID]
            git = store.repository.git._replace(lender=Fetched(store).git)
            pushes.run_outgoing(self._store, git, new, self._known, source.location)
            pushes.tell_objects(repo.ui, git, new, self._known)
        transport = source.connected(store.repository.git)
        try:
            with scratch(store.repo) as path:
                answers = staging.push(transport, store.config.program, path, changes)
        except RemoteFailureError as exc:
            raise source.failed(exc, act=_(b"push to")) from None
        finally:
            source.close()
        if answers.failure and not answers.refs:
            raise source.failed(answers.failure, act=_(b"push to"))
        if self.exportable:
            updates = sorted(updates)
            self.tell_unchanged(updates)
        done = [it for it in updates if self._is_taken(it, answers, oids)]
        self._keep(done, oids)
        if done:
            with repo.wlock(), repo.lock():
                hggitfiles.give_back(store)
        return len(done)

    def _exported(self, updates: Sequence[Update]) -> dict[bytes, bytes]:
        """Export the tips; return the commits of their nodes, in hex.

        ``StateError`` if a commit that the remote has would get another id here.
        """
        repo, nodes = self._repo.unfiltered(), [it.node for it in updates if it.node]
        if not nodes:
            return {}
        export.export(self._store, [repo[node].rev() for node in nodes])
        theirs = {bin_node(node): oid for oid, node in self._known.items()}
        with contextlib.closing(self._store.open_map()) as oidmap:
            found = dict(zip(nodes, oidmap.oids(nodes), strict=True))
            ours = dict(zip(theirs, oidmap.oids([*theirs]), strict=True))
        below = repo.revs(b"%ln & ::%ln", theirs, nodes)
        for node, oid in ours.items():
            is_below = repo[node].rev() in below
            if oid is not None and oid.hex().encode() != theirs[node] and is_below:
                raise error.StateError(
                    _(b"changeset %s would be another commit than %s of the remote")
                    % (short(node), theirs[node][:_SHORT]),
                    hint=_(
                        b"remove all of '.hg/amalgam' but 'adopted'; then hg "
                        b"git::export, pull, and push"
                    ),
                )
        for node, oid in found.items():
            if oid is None:
                text = _(b"changeset %s is not exported")
                hint = _(b"see amalgam.git.export")
                if selection.topics(repo):
                    text = _(b"changeset %s has a topic, or one below it has")
                    hint = _(b"hg topics --clear -r REV removes it")
                raise error.StateError(text % short(node), hint=hint)
        return {it: oid.hex().encode() for it, oid in found.items() if oid}

    def _is_taken(
        self, update: Update, answers: PushAnswers, oids: Mapping[bytes, bytes]
    ) -> bool:
        """Return whether the remote has taken a ref, and say so or why not."""
        answer: Answer | None = answers.refs.get(update.ref)
        if answer is None or not answer.is_done:
            reason, kind = _(b"the remote did not say why"), FailureKind.TRANSIENT
            if answer is not None:
                reason, kind = answer.reason, answer.kind
            elif answers.failure:
                reason, kind = answers.failure.reason, answers.failure.kind
            hint = self._odd_path(update) or _HINTS.get(kind, _(b"try again"))
            self._refuse(update, reason, hint)
            return False
        if self.exportable and update.node:
            text = pushes.change_of(
                *(self._repo.ui, self._remote, update.ref),
                update.tag_object or oids[update.node],
                is_new=update.old == NO_OID,
            )
            self._repo.ui.status(one_line(text))
            return True
        kind, name = _(b"tag") if update.is_tag else _(b"branch"), update.name
        if marks.is_of_hggit(self._repo.ui):
            kind, name = _(b"reference"), update.ref
        text = _(b"updating %s %s")
        if update.node is None:
            text = _(b"deleting %s %s")
        elif update.old == NO_OID:
            text = _(b"adding %s %s")
        self._repo.ui.status(one_line(text % (kind, name)))
        return True

    def _odd_path(self, update: Update) -> bytes:
        """Return a hint if a changeset to push has a file that git servers refuse."""
        repo = self._repo.unfiltered()
        new = [update.node] if update.node else []
        known = [bin_node(it) for it in self._known.values()]
        for rev in repo.revs(b"only(%ln, %ln)", new, known):
            for path in repo[rev].files():
                if b".git" in path.lower().split(b"/"):
                    text = _(b"git servers refuse %s, which changeset %s has")
                    return bytes(text % (path, short(repo[rev].node())))
        return b""

    def _keep(self, done: Sequence[Update], oids: Mapping[bytes, bytes]) -> None:
        """Record the new refs of the remote, their commits, and phases."""
        if not done:
            return
        repo, source = self._repo, self._source
        remote, fetched = self._remote, Fetched(self._store)
        head = source.advertised.head
        if not head and any(it.node and not it.is_tag for it in done):
            # HEAD of an empty repository is not told before it has this branch
            with contextlib.suppress(RemoteFailureError):
                head = Advertised.parsed(source.transport.listing()).head
        rule = marks.PublicRefs(repo.ui, remote, head)
        public = [
            it.node for it in done if it.node and (self._publishes or it.ref in rule)
        ]
        detached = b"" if head else source.advertised.oids.get(HEAD, b"")
        if self.exportable and HEAD in rule and detached:
            nodes = pulling.known(repo, [detached])
            public += [bin_node(it) for it in nodes.values()]
        if self.exportable and public:
            repo.ui.note(_(b"publishing remote HEAD\n"))
        with (
            repo.wlock(),
            repo.lock(),
            repo.transaction(b"push") as transaction,
            contextlib.closing(ImportedCommits(repo, self._store)) as imported,
        ):
            own_tags = self.exportable.own_tags if self.exportable else ()
            names, refs = set[bytes](), dict[bytes, FetchedRef]()
            for it in done:
                if it.ref in own_tags:
                    continue
                names.add(it.ref)
                if it.node:
                    oid = oids[it.node]
                    found = it.tag_object or oid
                    refs[it.ref] = FetchedRef(found, oid, hex_node(it.node))
            fetched.begin(self._record, source.remote.place)
            fetched.keep_some(self._record, names, refs, transaction)
            fetched.keep_address(self._record, source.remote.place)
            tips = {it.node for it in done if it.node}
            pairs = [(oids[it], hex_node(it)) for it in sorted(tips)]
            imported.record(transaction, pairs)
            if public:
                phases.advanceboundary(repo, transaction, phases.public, public)
