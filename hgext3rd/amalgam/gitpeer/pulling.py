"""Pulls from git remotes.

Like ``exchange.pull``, a pull holds the locks of Mercurial. It compares the refs of the
remote with those of the last pull, fetches the objects of new commits, and imports
these batch by batch. Then phases, bookmarks and the recorded refs change in one
transaction. A pull that ends early has kept whole batches; the next one goes on.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING, Any

from mercurial import bookmarks as bookmod, encoding, error, exchange, phases
from mercurial.i18n import _
from mercurial.node import bin as bin_node, hex as hex_node
from mercurial.utils import dateutil

from ..config import GitConfig, setting
from ..files import TICK_NS, hinting_at_room
from ..gitstore import selection
from ..gitstore.fetchedrefs import FetchedRef
from ..gitstore.imported import ImportedCommits
from ..gitstore.store import GitStore
from ..hggit import adoption, dialect
from ..receive import importing, successors
from ..records import Record
from ..remote.transport import FailureKind, RemoteFailureError
from ..terminal import counted, one_line
from . import bookmarks as marks, checkout, hggitfiles, importhooks
from .fetched import Fetched
from .scope import PULLED, Scope
from .source import HEAD, HEADS, NOTES, TAGS, address_of

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from mercurial.interfaces.types import RepoT

    from ..gitstore.git.process import Git
    from .source import GitSource

_MOST_HEADS = 500
"""Heads that a remote may be told of, the newest ones."""
# of a commit or tag object (git-cat-file(1))
_DATE = re.compile(rb"^(?:committer|tagger) .*> (-?[0-9]+) [-+][0-9]+$", re.M)
# strerror(3), in the locale that git gets, and git's own words (csum-file.c)
_IS_FULL = (b"no space left on device", b"disk quota exceeded", b"out of diskspace")


class Clone(Record):
    """Options of ``hg clone``."""

    updates: bool
    rev: bytes | None
    """Of the remote, to check out; ``None``: the usual one."""


_clones: list[Clone] = []


@contextlib.contextmanager
def cloning(clone: Clone) -> Iterator[None]:
    """Say that pulls in the context are those of ``hg clone``."""
    _clones.append(clone)
    try:
        yield
    finally:
        _clones.pop()


def is_cloning() -> bool:
    """Return whether ``hg clone`` runs."""
    return bool(_clones)


class Pulled(Record):
    """Result of an import."""

    nodes: dict[bytes, bytes]
    """Changesets of all asked refs that lead to commits, in hex."""
    commits: int
    """How many commits were imported."""
    heads: int
    """As ``cgresult`` of Mercurial: 0, or the number of new heads, and 1."""


def opened(repo: RepoT) -> GitStore:
    """Return the store of a repository, with the ids that hg-git has left."""
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    apart = adoption.take_over(store)
    if apart is not None:
        apart.close()
    hggitfiles.take_over(store)
    return store


def known(repo: RepoT, oids: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the changesets of commits that have one. All ids are in hex."""
    store = opened(repo)
    with contextlib.closing(ImportedCommits(repo, store)) as imported:
        return Known(repo, store, imported)(oids)


class Known:
    """Commits that are changesets: they were imported, or exported."""

    def __init__(self, repo: RepoT, store: GitStore, imported: ImportedCommits) -> None:
        self._repo = repo
        self._store = store
        self._imported = imported

    def __call__(self, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the nodes of those of ``oids`` that have one."""
        asked = [*oids]
        found = self._imported.known(asked)
        rest = [oid for oid in asked if oid not in found]
        if rest and self._store.repository.exists():
            with contextlib.closing(self._store.open_map()) as oidmap:
                exported = oidmap.changesets([bin_node(oid) for oid in rest])
            has = self._repo.unfiltered().changelog.hasnode
            for oid, node in zip(rest, exported, strict=True):
                if node and has(node):
                    found[oid] = hex_node(node)
        return found


def bring(repo: RepoT, source: GitSource, names: Collection[bytes]) -> Pulled:
    """Import the commits of refs and oids ``names``, and their ancestors."""
    with repo.wlock(), repo.lock():
        fetched, remote = Fetched(opened(repo)), record_name(repo, source)
        importhooks.begin(repo, source, names_of(repo, remote))
        scope = Scope.of(repo, source, fetched, remote, names)
        job = _Import(repo, source, fetched, scope)
        done = job.run(names)
        job.hooks.end()
        source.note_import(done.heads)
        return done


class _Import:
    """One import, under the locks of Mercurial."""

    def __init__(
        self,
        repo: RepoT,
        source: GitSource,
        fetched: Fetched,
        scope: Scope | None = None,
    ) -> None:
        """``scope``: the refs that need a look, if not all of them do."""
        self._repo = repo
        self._source = source
        self._store = opened(repo)
        self._store.require_trust()
        self.fetched = fetched
        remote = record_name(repo, source)
        self.scope = scope or Scope.whole(source, self.fetched, remote)
        self.before = self.scope.before
        """Refs of the last pull."""
        self.refs: dict[bytes, FetchedRef] = {}
        """Those of now, of the names that were asked for."""
        self.hooks = importhooks.ImportHooks(repo)
        self.left_out: set[bytes] = set()
        """Names among these that are too old to be imported."""

    def run(self, names: Collection[bytes]) -> Pulled:
        """Fetch and import ``names``."""
        with (
            hinting_at_room(self._repo.root, _again(is_full=True)),
            contextlib.closing(ImportedCommits(self._repo, self._store)) as imported,
        ):
            knows = Known(self._repo, self._store, imported)
            oids = self._fetched(names, knows)
            commits = {
                commit
                for name, (_oid, commit) in oids.items()
                if not name.startswith(NOTES)
            }
            old = self._old(oids)
            new = {commit for name, (_oid, commit) in oids.items() if name not in old}
            tips = sorted((commits & new) - knows(commits).keys())
            heads = self._repo.changelog.headrevs()
            count = 0
            if tips:
                tips = commits_among(self.fetched.git, tips)
                count = self._import(tips, self._public(oids), knows, imported)
            if self.fetched.is_copied():  # no commit was new
                self.fetched.verify()
            nodes = knows(commits)
        for name, (oid, commit) in oids.items():
            node = b"" if name.startswith(NOTES) else nodes.get(commit, b"")
            if not node and name in old:
                self.left_out.add(name)
                continue
            self.refs[name] = FetchedRef(oid, commit, node)
        more = len(self._repo.changelog.headrevs()) - len(heads)
        result = (more + 1 if more >= 0 else more - 1) if count else 0
        found = {name: it.node for name, it in self.refs.items() if it.node}
        return Pulled(found, count, result)

    def _fetched(
        self, names: Collection[bytes], knows: Known
    ) -> dict[bytes, tuple[bytes, bytes]]:
        """Fetch objects that are missing; return oid and commit of each name."""
        advertised, before = self.scope.advertised, self.before
        has = self._repo.unfiltered().changelog.hasnode
        oids = {
            it: (advertised.oids.get(it, it), advertised.commit(it)) for it in names
        }
        changed = [
            name
            for name, (oid, _commit) in oids.items()
            if name not in before
            or before[name].oid != oid
            or (before[name].node and not has(bin_node(before[name].node)))
        ]
        ids = {oid for name in changed for oid in oids[name]}
        absent = ids - self.fetched.among(ids)
        there = knows({oids[name][1] for name in changed})
        missing = {
            name: oids[name][0]
            for name in changed
            if (oids[name][1] in absent and oids[name][1] not in there)
            # a tag object
            or (oids[name][0] in absent and oids[name][0] != oids[name][1])
        }
        if not missing:
            return oids
        try:
            found = self.fetched.fetch(self._source.transport, missing, self._haves())
        except RemoteFailureError as exc:
            raise failed(self._source, exc) from None
        finally:
            self._source.close()
        return {it: oids[it] for it in names if it not in missing} | found

    def _old(self, oids: Mapping[bytes, tuple[bytes, bytes]]) -> set[bytes]:
        """Return names older than ``git.mindate`` of hg-git, which are not imported.

        The date of a tag object counts, else that of the committer.
        """
        given = setting(self._repo.ui, b"git", b"mindate")
        if not given:
            return set()
        oldest, _offset = dateutil.parsedate(given)
        dates = dates_of(self.fetched.git, {oid for oid, _commit in oids.values()})
        return {it for it in oids if dates.get(oids[it][0], oldest) < oldest}

    def _haves(self) -> Iterator[bytes]:
        """Yield commits that were fetched before: of refs that have moved, first."""
        advertised = self.scope.advertised
        now = advertised.oids
        moved = [n for n, it in self.before.items() if now.get(n) not in (None, it.oid)]
        for name in (*moved, advertised.head, *self.before):
            if name in self.before:
                yield self.before[name].commit
        changelog = self._repo.unfiltered().changelog
        heads = map(changelog.node, changelog.headrevs()[: -_MOST_HEADS - 1 : -1])
        with contextlib.closing(ImportedCommits(self._repo, self._store)) as imported:
            yield from imported.commits(heads)

    def _public(self, oids: Mapping[bytes, tuple[bytes, bytes]]) -> set[bytes]:
        """Return the commits of public refs among ``oids``."""
        name, head = record_name(self._repo, self._source), self.scope.advertised.head
        rule = marks.PublicRefs(self._repo.ui, name, head)
        return {commit for ref, (_oid, commit) in oids.items() if ref in rule}

    def _import(
        self,
        tips: Sequence[bytes],
        public: Collection[bytes],
        knows: Known,
        imported: ImportedCommits,
    ) -> int:
        repo, source = self._repo, self._source
        config = self._store.config
        settings = importing.ImportSettings(
            config.dialect,
            config.memory_bytes,
            source.remote.shown,
            is_exact=imported.is_exact,
            public=public,
            most_file_bytes=config.max_pull_file_bytes,
            most_commits=config.max_pull_commits,
            verify=self.fetched.verify if self.fetched.is_copied() else None,
            # hg-git tells of bookmarks first
            told_later=source.told_later if marks.is_of_hggit(repo.ui) else None,
            added=self.hooks.added,
        )

        def record(
            transaction: Any,
            pairs: Sequence[tuple[bytes, bytes]],
            foreign: Sequence[bytes],
        ) -> None:
            imported.record(transaction, pairs, foreign)
            source.note_map_only(len(foreign))

        try:
            with self.hooks.in_place():
                return importing.import_commits(
                    repo, self.fetched.git, tips, knows, record, settings
                )
        except (error.InputError, error.StorageError) as exc:
            if self.fetched.is_copied() or isinstance(exc, importing.DiffersError):
                self.fetched.discard()
            raise


def commits_among(git: Any, oids: Sequence[bytes]) -> list[bytes]:
    """Return those of ``oids`` that are commits: a tag may lead to anything."""
    args = ("cat-file", "--batch-check=%(objecttype)")
    kinds = git.run(*args, input=b"".join(b"%s\n" % it for it in oids)).stdout.split()
    return [oid for oid, kind in zip(oids, kinds, strict=True) if kind == b"commit"]


def dates_of(git: Git, oids: Iterable[bytes]) -> dict[bytes, int]:
    """Return the dates of commits and tag objects, in seconds; of others, none."""
    found: dict[bytes, int] = {}
    for oid, _kind, content in git.objects(oids):
        header = content.partition(b"\n\n")[0]
        if date := _DATE.search(header):
            found[oid] = int(date[1])
    return found


def failed(source: GitSource, exc: RemoteFailureError) -> error.Abort:
    """Return the error for a fetch that failed."""
    if b"shallow" in exc.reason.lower():
        return error.InputError(
            _(b"'%s' has only a part of its history") % source.remote.shown,
            hint=_(b"complete it there: git fetch --unshallow"),
        )
    hint = _again(is_full=any(words in exc.reason.lower() for words in _IS_FULL))
    if exc.kind is FailureKind.LIMIT:
        hint = _(b"pull parts with -r, or see 'hg help config.amalgam.git.max-pull'")
    return source.failed(exc, hint)


def _again(*, is_full: bool) -> bytes:
    """Return the hint to try the same again."""
    hint = _(b"pull again; what was imported is kept")
    if is_cloning():
        hint = _(b"clone again; 'hg init' and 'hg pull' would keep what was imported")
    return _(b"make room first; %s") % hint if is_full else hint


def remote_name(repo: RepoT, source: GitSource) -> bytes:
    """Return the name of a remote: as it is followed, in ``[paths]``, or of its URL.

    For a push, which may go to the ``pushurl`` of that name.
    """
    if source.name:
        return source.name
    for name, location in repo.ui.configitems(b"paths"):
        location = location.partition(b"#")[0]
        name = name.removesuffix(b":pushurl")
        if b":" in name or name == b"default-push" or not location:
            continue
        with contextlib.suppress(error.InputError):
            if address_of(location) == source.remote:
                return bytes(name)
    return source.remote.key


def record_name(repo: RepoT, source: GitSource) -> bytes:
    """Return the name by which the refs of a remote are recorded.

    The ``pushurl`` of a name may be another repository, such as a fork, whose refs say
    nothing about those that are pulled. It is the same if only the protocol differs.
    """
    name = remote_name(repo, source)
    location = repo.ui.config(b"paths", name)
    if source.name or not location:
        return name
    with contextlib.suppress(error.InputError):
        if address_of(location.partition(b"#")[0]).place == source.remote.place:
            return name
    return source.remote.key


def names_of(repo: RepoT, remote: bytes) -> list[bytes]:
    """Return ``remote`` and all other names in ``[paths]`` of the same repository."""
    paths = dict(repo.ui.configitems(b"paths"))
    addresses: dict[bytes, object] = {}
    for name, location in paths.items():
        if b":" not in name and name != b"default-push" and location:
            with contextlib.suppress(error.InputError):
                addresses[name] = address_of(location.partition(b"#")[0])
    own = addresses.get(remote)
    others = [it for it in addresses if own and addresses[it] == own and it != remote]
    return [remote, *others]


def pull(
    repo: RepoT,
    peer: Any,
    path: Any = None,
    heads: Sequence[bytes] | None = None,
    force: bool = False,
    bookmarks: Sequence[bytes] = (),
    _opargs: Any = None,
    _streamclonerequested: bool | None = None,
    includepats: Any = None,
    excludepats: Any = None,
    depth: int | None = None,
    confirm: bool | None = None,
    covers: Callable[[bytes], bool] | None = None,
    leads: bool = False,
    **_others: Any,
) -> exchange.pulloperation:
    """Pull from a git remote, as ``exchange.pull`` does; return its result.

    ``peer`` has the ``source``. ``covers`` tells of each branch and tag whether it is
    pulled, if not all are. ``leads``: all these branches become bookmarks.
    """
    source: GitSource = peer.source
    if includepats or excludepats or depth:
        raise error.InputError(
            _(b"cannot pull parts of files or of history from a git repository"),
            hint=_(b"leave out --include, --exclude, --narrow and --depth"),
        )
    source.pulls_into(repo)
    checkout.guard(repo)  # the first pull is followed by an update, too
    op = exchange.pulloperation(
        repo, peer, heads=heads, force=force, bookmarks=bookmarks, path=path
    )
    if confirm or (repo.ui.configbool(b"pull", b"confirm") and not repo.ui.plain(b"")):
        _confirm(repo)
    op.trmanager = exchange.transactionmanager(repo, b"pull", source.location)
    asked, fetched = _asked(source, op), Fetched(opened(repo))
    remote, settled = record_name(repo, source), ""
    given = leads, _bookmarks_seen(repo)
    if marks.is_of_hggit(repo.ui):
        names = names_of(repo, remote)
        marks.require_one_rule(repo.ui, names)
        importhooks.begin(repo, source, names)
    if asked is None:
        settled = fetched.settled(remote, source.listed, given)
        if fetched.is_settled(remote, settled):
            repo.ui.status(_(b"no changes found\n"))
            op.cgresult = 0
            return op
    with repo.wlock(), repo.lock():
        if fetched.has_changed_since(remote, source.asked_ns):
            source.ask_again(asked or ())
        fetched.begin(remote, source.remote.place)
        scope = None
        if covers is None:
            scope = Scope.of(repo, source, fetched, remote, asked or (), leads=leads)
        job = _Pull(repo, source, op, fetched, scope)
        is_met = job.run(asked, covers, leads=leads)
        if asked is None and scope is not None and is_met:
            fetched.keep_listing(remote, source.listing)
        hggitfiles.give_back(opened(repo), with_bookmarks=False)
        if _clones and marks.is_of_hggit(repo.ui):
            with contextlib.closing(ImportedCommits(repo, opened(repo))) as imported:
                imported.begin()
        # nobody else changes the files as long as the locks are held
        if asked is None and is_met and fetched.has_listing(source.listing):
            time.sleep(min(max(0, TICK_NS - _age_ns(repo)), TICK_NS) / 1e9)
            given = leads, _bookmarks_seen(repo)
            settled = fetched.settled(remote, source.listed, given)
    # files that change twice in a tick may have the same stats
    is_old = _age_ns(repo) > TICK_NS
    if settled and is_old and fetched.settled(remote, source.listed, given) == settled:
        fetched.keep_settled(remote, settled)
    return op


def _bookmarks_seen(repo: RepoT) -> tuple[object, ...]:
    """Return the state of the file of bookmarks: a share may have its own."""
    path = bookmod.bookmarksvfs(repo).join(b"bookmarks")
    with contextlib.suppress(FileNotFoundError):
        it = os.stat(path)
        return path, it.st_ino, it.st_size, it.st_mtime_ns
    return (path,)


def _age_ns(repo: RepoT) -> int:
    """Return the age of the newest of the files that a pull depends on."""
    newest = max((it[-1] for it in selection.state_of(repo) if it), default=0)
    return time.time_ns() - newest


def _confirm(repo: RepoT) -> None:
    if repo.ui.promptchoice(_(b"accept incoming changes (yn)?$$ &Yes $$ &No")):
        raise error.CanceledError(_(b"user aborted"), hint=_(b"nothing was pulled"))


def _asked(source: GitSource, op: Any) -> list[bytes] | None:
    """Return the refs and oids that were asked for; ``None`` for all."""
    if op.heads is None and not op.explicitbookmarks:
        return None
    found = [marks.ref_of(op.repo.ui, it) for it in op.explicitbookmarks]
    return [*dict.fromkeys((*source.looked_up, *found))]


class _Pull:
    """A pull, under the locks of Mercurial."""

    def __init__(
        self,
        repo: RepoT,
        source: GitSource,
        op: Any,
        fetched: Fetched,
        scope: Scope | None,
    ) -> None:
        self._repo = repo
        self._source = source
        self._op = op
        self._remote = record_name(repo, source)
        self._job = _Import(repo, source, fetched, scope)
        self._advertised = self._job.scope.advertised

    def run(
        self,
        asked: list[bytes] | None,
        covers: Callable[[bytes], bool] | None = None,
        *,
        leads: bool = False,
    ) -> bool:
        """Import ``asked``, or all branches, tags and notes; then names and phases.

        Return whether the refs that were advertised are the recorded ones now.
        """
        repo, source = self._repo, self._source
        advertised, op = self._advertised, self._op
        refs = [it for it in advertised.oids if covers is None or covers(it)]
        branches = [it for it in refs if it.startswith(HEADS)]
        names = asked
        if names is None:
            names = [it for it in refs if it.startswith(PULLED)]
            is_detached = HEAD in advertised.oids and not advertised.head
            if is_detached and not leads and not marks.is_of_hggit(repo.ui):
                names.append(HEAD)
        job, end = self._job, len(repo.unfiltered().changelog)
        pulled = job.run(names)
        if asked is not None:  # as git does with tags
            job.run(self._of_known_commits(refs))
        op.cgresult = pulled.heads or source.imported_heads
        is_silent = _clones and marks.is_of_hggit(repo.ui)
        if not (pulled.commits or source.imported_heads or is_silent):
            repo.ui.status(_(b"no changes found\n"))
        pulled_refs = {
            it: ref for it, ref in job.refs.items() if it.startswith(b"refs/")
        }
        nodes = {it: bin_node(ref.node) for it, ref in job.refs.items() if ref.node}
        prunes = marks.wants_pruning_of_names(repo.ui)
        pulled_refs = {
            it: ref
            for it, ref in job.before.items()
            if asked is not None
            or it in job.left_out
            or (it.startswith(HEADS) and not prunes)
        } | pulled_refs
        with op.trmanager:
            self._set_phases(nodes)
            if not dialect.goes_on(repo):
                self._follow(job.before, nodes, end)
            marked = branches if leads else asked or ()
            self._set_bookmarks(nodes, marked, branches)
            if asked is None:
                self._prune(job.before)
            job.hooks.end()
            importing.tell(source.told_later)
            if pulled_refs != job.before:
                transaction = op.trmanager.transaction()
                if job.scope.lines is None:
                    job.fetched.keep_refs(self._remote, pulled_refs, transaction)
                else:
                    old = {*job.before} - pulled_refs.keys()
                    new = {*pulled_refs.items()} - {*job.before.items()}
                    job.fetched.keep_some(self._remote, old, dict(new), transaction)
        head = advertised.head
        name = marks.name_of(repo.ui, head) if head.startswith(HEADS) else b""
        job.fetched.keep_head(self._remote, encoding.fromlocal(name))
        job.fetched.keep_address(self._remote, source.remote.place)
        if _clones:
            self._activate(asked, _clones[-1])
        if source.map_only and not hggitfiles.are_written(opened(repo)):
            text = _(
                b"the ids of %s may be known to .hg/amalgam only "
                b"(see 'hg help config.amalgam.git.push-exact')"
            )
            repo.ui.status(one_line(text % counted(source.map_only, b"commit")))
        return job.scope.is_met(pulled_refs)

    def _of_known_commits(self, refs: Iterable[bytes]) -> list[bytes]:
        """Return those branches and tags among ``refs`` whose commits are here."""
        commit = self._advertised.commit
        oids = {ref: commit(ref) for ref in refs if ref.startswith((HEADS, TAGS))}
        nodes = known(self._repo, oids.values())
        return [ref for ref, oid in oids.items() if oid in nodes]

    def _set_phases(self, nodes: Mapping[bytes, bytes]) -> None:
        """Publish by the rule of the path; nothing stays secret."""
        repo, head = self._repo.unfiltered(), self._advertised.head
        rule = marks.PublicRefs(repo.ui, self._remote, head)
        public = {it for ref, it in nodes.items() if ref in rule}
        if marks.is_of_hggit(repo.ui):
            for ref in filter(rule.__contains__, sorted(nodes)):
                repo.ui.note(one_line(rule.text(ref)))
        for phase, wanted in (
            (phases.public, public),
            (phases.draft, {*nodes.values()} - public),
        ):
            phase_of, rev_of = repo._phasecache.phase, repo.changelog.rev
            higher = [it for it in sorted(wanted) if phase_of(repo, rev_of(it)) > phase]
            if higher:
                transaction = self._op.trmanager.transaction()
                phases.advanceboundary(repo, transaction, phase, higher)

    def _changed(
        self, before: Mapping[bytes, FetchedRef]
    ) -> Iterator[tuple[bytes, bytes, bytes, bool]]:
        """Yield branches that changed or went, with bookmark and node of it.

        And whether the bookmark is where the last pull has found the branch.
        """
        repo, there = self._repo, self._advertised.oids
        for ref, it in before.items():
            if ref.startswith(HEADS) and it.node and there.get(ref) != it.oid:
                name = marks.name_of(repo.ui, ref)
                here = repo._bookmarks.get(name)
                if here is not None:
                    yield ref, name, here, hex_node(here) == it.node

    def _follow(
        self, before: Mapping[bytes, FetchedRef], nodes: Mapping[bytes, bytes], end: int
    ) -> None:
        """Let bookmarks follow branches that were rewritten.

        Only those that are where the last pull found the branch. ``end``: the first
        revision of this pull.
        """
        repo = self._repo
        is_below = repo.unfiltered().changelog.isancestor
        moves = []
        changes: list[tuple[bytes, bytes | None]] = []
        for ref, name, here, is_unmoved in self._changed(before):
            new = nodes.get(ref)
            if new and is_unmoved and new != here and not is_below(here, new):
                changes.append((name, new))
                moves.append((here, new))
                text = _(b"updating bookmark %s: the remote has rewritten its branch")
                repo.ui.status(one_line(text % name))
        if not changes:
            return
        repo._bookmarks.applychanges(repo, self._op.trmanager.transaction(), changes)
        if successors.is_wanted(repo):
            changelog = repo.unfiltered().changelog
            added = {changelog.node(rev) for rev in range(end, len(changelog))}
            for line in successors.mark(repo, moves, added, b""):
                repo.ui.warn(one_line(line))

    def _prune(self, before: Mapping[bytes, FetchedRef]) -> None:
        """Delete bookmarks that are where the last pull found a branch that is gone."""
        repo, is_hggit = self._repo, dialect.goes_on(self._repo)
        prunes = marks.wants_pruning(repo.ui)
        changes: list[tuple[bytes, bytes | None]] = []
        for ref, name, _here, is_unmoved in self._changed(before):
            if ref in self._advertised.oids or (is_hggit and not prunes):
                continue
            if prunes and is_unmoved:
                changes.append((name, None))
                text = _(b"deleting bookmark %s: the remote has deleted its branch")
                if is_hggit:
                    text = _(b"deleting bookmark %s")
            else:
                text = _(b"keeping bookmark %s: the remote has deleted its branch")
                if is_hggit:
                    text = _(b"not deleting diverged bookmark %s")
            repo.ui.status(one_line(text % name))
        if changes:
            if (repo._bookmarks.active, None) in changes:
                bookmod.deactivate(repo)
            transaction = self._op.trmanager.transaction()
            repo._bookmarks.applychanges(repo, transaction, changes)

    def _set_bookmarks(
        self,
        nodes: Mapping[bytes, bytes],
        asked: Collection[bytes],
        there: Collection[bytes],
    ) -> None:
        """Add bookmarks, and move them; ``there``: branches that the remote has."""
        head, scope = self._advertised.head, self._job.scope
        # with all that needed no look
        count = len(there) if scope.lines is None else scope.branches
        branches = {it: node for it, node in nodes.items() if it.startswith(HEADS)}
        named = {*asked, head}
        wanted = marks.wanted(self._repo, self._remote, branches, named, count)
        if marks.is_of_hggit(self._repo.ui):
            new = self._op.trmanager.transaction
            marks.follow(self._repo, wanted, new, tells=not _clones)
        else:
            self._op.remotebookmarks = wanted
            exchange._pullbookmarks(self._op)
        missing = len(branches) - len(wanted)
        if scope.lines is not None:
            missing = count - len(wanted)
        if there is asked:  # all branches become bookmarks, and few are in the scope
            return
        if missing and count > marks.MOST:
            text = _(b"%d branches have no bookmark (hg pull -B NAME makes one)")
            self._repo.ui.status(one_line(text % missing))

    def _activate(self, asked: Sequence[bytes] | None, clone: Clone) -> None:
        """Make active the bookmark that a clone checks out.

        With hg-git, also if ``-u`` names the same commit.
        """
        advertised, is_hggit = self._advertised, marks.is_of_hggit(self._repo.ui)
        if not clone.updates or (clone.rev and not is_hggit):
            return
        ref = asked[0] if asked else advertised.head
        if is_hggit and not ref:  # a branch at a detached HEAD
            oids = advertised.oids
            same = (it for it in sorted(oids) if oids[it] == oids.get(HEAD))
            ref = next((it for it in same if it.startswith(HEADS)), b"")
        if clone.rev and advertised.commit(ref) != self._checked_out(clone.rev):
            return
        name = marks.name_of(self._repo.ui, ref) if ref.startswith(HEADS) else b""
        if name in self._repo._bookmarks:
            bookmod.activate(self._repo, name)
        elif HEAD in advertised.oids and not ref:
            warn = self._repo.ui.warn
            if is_hggit:
                warn(_(b"warning: the git source repository has a detached head\n"))
                warn(_(b"(you may want to update to a bookmark)\n"))
            else:
                warn(_(b"the remote has checked out no branch\n"))

    def _checked_out(self, rev: bytes) -> bytes:
        """Return the commit that a clone by users of hg-git checks out, in hex."""
        if rev != b"tip":
            return self._advertised.commit(self._source.ref(rev))
        # as the peer answers: the newest changeset
        store, tip = opened(self._repo), self._repo.changelog.tip()
        with contextlib.closing(ImportedCommits(self._repo, store)) as imported:
            return next(iter(imported.commits([tip])), b"")
