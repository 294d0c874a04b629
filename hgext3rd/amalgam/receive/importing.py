"""Imports of whole git histories, batch by batch.

Each batch is converted, and added in one transaction of Mercurial's, with the caller's
record of its commits. So an interrupted import keeps its finished batches, and the next
one continues. Does not know remotes, refs or the oid map.
"""

from __future__ import annotations

import bisect
import contextlib
import tempfile
from math import inf
from typing import IO, TYPE_CHECKING, Any, Protocol

from mercurial import bundle2, error, exchange, extensions, phases, util
from mercurial.i18n import _
from mercurial.node import bin as bin_node

from ..configitems import HGGIT_DIALECT, METADATA_DIALECT
from ..gitstore.git.layout import PACKS
from ..records import Record
from ..terminal import one_line, printable
from . import apply, convert, graph, native

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from ..files import Directory
    from ..gitstore.git.process import Git

    Messages = list[tuple[Callable[..., object], bytes]]

_BATCH = 10_000
"""Commits of one transaction."""
_FIRST_BATCH = 500_000
"""The same of an empty repository, if the core writes the store."""
_INDEX_BYTES = 280_000
"""Of a commit: to make tables of longer indexes takes longer than ``git cat-file``."""
_SOURCE = b"pull"
"""Mercurial's name for changesets from elsewhere; hooks see it as HG_SOURCE."""


_SHORT = 12
_COUNTS = b"changegroup-count-"
"""Numbers of a transaction that Mercurial tells at its end."""


class ImportSettings(Record):
    """Settings of an import."""

    dialect: bytes
    memory_bytes: int
    url: bytes
    """The git repository; hooks see it as HG_URL."""
    batch: int = _BATCH
    """Commits of one transaction."""
    first_batch: int = _FIRST_BATCH
    """The same of an empty repository, if the core writes the store."""
    most_file_bytes: int = convert.STORED_BYTES
    """Length of the largest file."""
    most_commits: float = inf
    """How many may be new."""
    is_exact: bool = False
    """Whether extras keep parts of commits that changesets cannot express."""
    public: Collection[bytes] = ()
    """Oids of commits that are public, with their ancestors. All others are drafts."""
    verify: Callable[[bool], None] | None = None
    """Notes that the packs of git are verified; lets git do it if the core could not.
    It is called once, before anything is added. Without it, they are verified."""
    told_later: Messages | None = None
    """Where Mercurial's messages about the last transaction go; else to the user."""
    added: Callable[[Sequence[tuple[bytes, bytes]]], None] | None = None
    """Called in each transaction, with the pairs that are recorded."""


class Recorder(Protocol):
    """Records the commits of a batch."""

    def __call__(
        self,
        transaction: Any,
        pairs: Sequence[tuple[bytes, bytes]],
        foreign: Sequence[bytes],
        /,
    ) -> None:
        """Keep ``pairs`` of oid and node, in hex, when ``transaction`` ends.

        ``foreign``: oids of those commits that changesets may not give back.
        """


def import_commits(
    repo: RepoT,
    git: Git,
    tips: Iterable[bytes],
    known: graph.Known,
    record: Recorder,
    settings: ImportSettings,
) -> int:
    """Import ``tips`` and their ancestors that are not ``known``; return how many.

    ``git`` sees all their objects. ``known`` has to return what ``record`` gets from
    then on. Oids and nodes are in hex. ``InputError`` for a missing object, and for a
    commit with a file that Mercurial cannot store.
    """
    is_empty = len(repo.unfiltered()) == 0
    new = read(git, tips, known, settings.most_commits, are_all_new=is_empty)
    oids, public = tuple(new.parents), {*new.needed(settings.public)}
    if oids and settings.dialect == HGGIT_DIALECT:
        # revisions have the numbers that hg-git gives
        oids = new.from_first(graph.oldest_first(git, tips))
        repo.ui.status(one_line(_(b"importing %d git commits") % len(oids)))
    at, first_batch = 0, settings.first_batch
    while at < len(oids):
        is_first = not at and native.is_possible(repo)
        end = at + (first_batch if is_first else settings.batch)
        batch = oids[at:end]
        parents = {it for oid in batch for it in new.parents[oid]} - {*batch}
        base = {oid: node for oid, node in new.nodes.items() if oid in parents}
        base |= known(parents - base.keys())
        later = settings.told_later if end >= len(oids) else None
        chosen = settings._replace(public=public, told_later=later)
        if at:
            chosen = chosen._replace(verify=None)  # the first batch has verified all
        try:
            at += _import(repo, git, batch, base, new, record, chosen)
        except error.InputError:
            if not is_first or len(batch) <= settings.batch:
                raise
            # a commit cannot be imported: those before it can
            first_batch = max(len(batch) // 2, settings.batch)
    return len(oids)


def read(
    git: Git,
    tips: Iterable[bytes],
    known: graph.Known,
    most_commits: float,
    *,
    are_all_new: bool = False,
) -> graph.PushGraph:
    """Read the new commits of a pull, as ``graph.read``; ``InputError`` if too many."""
    try:
        return graph.read(git, tips, known, most_commits, are_all_new=are_all_new)
    except graph.TooManyCommitsError:
        raise error.InputError(
            _(b"more than %d commits are new") % most_commits,
            hint=_(b"see 'hg help config.amalgam.git.max-pull-commits'"),
        ) from None


class DiffersError(error.InputError):
    """A commit does not come back: this is a bug, or an object is damaged."""


def refused(refusal: convert.Refusal) -> error.InputError:
    """Return the error for a commit that cannot be a changeset."""
    detail = b": %s" % printable(refusal.detail) if refusal.detail else b""
    is_wrong = refusal.reason == convert.DIFFERS
    hint = _(b"see 'hg git::survey REPOSITORY' for all such commits")
    if refusal.reason == convert.FILE_SIZE:
        hint = _(b"see 'hg help config.amalgam.git.max-pull-file'")
    elif refusal.reason in convert.MALFORMED:
        hint = _(
            b"a new clone with amalgam.git.dialect=hggit can have it, "
            b"without amalgam.git.push-exact"
        )
    return (DiffersError if is_wrong else error.InputError)(
        _(b"cannot import commit %s: %s%s")
        % (refusal.oid, refusal.reason.text, detail),
        hint=hint,
    )


def _import(
    repo: RepoT,
    git: Git,
    oids: Sequence[bytes],
    base: dict[bytes, bytes],
    new: graph.PushGraph,
    record: Recorder,
    settings: ImportSettings,
) -> int:
    """Import the first of ``oids``, as many as memory allows; return how many.

    They are ``new``. ``base`` has the changesets of their other parents.
    """
    with tempfile.TemporaryFile() as out:
        made = convert.convert(
            *(repo.ui, repo.unfiltered(), git, oids, base, out),
            dialect=settings.dialect,
            memory_bytes=settings.memory_bytes,
            round_trip=settings.is_exact or settings.dialect == METADATA_DIALECT,
            is_exact=settings.is_exact,
            most_file_bytes=settings.most_file_bytes,
            packs=_packs(git, len(oids), settings),
            verifies=settings.verify is not None,
            may_be_part=True,
        )
        for refusal in made.refused:
            raise refused(refusal)
        if settings.verify is not None:
            settings.verify(made.is_verified)
        with (
            repo.wlock(),
            repo.lock(),
            _held(repo.ui, settings.told_later),
            repo.transaction(_SOURCE) as transaction,
        ):
            with _as_hggit(repo.ui, settings):
                end = len(repo.unfiltered().changelog)
                _add(repo, transaction, (out, made), settings)
                if settings.dialect == HGGIT_DIALECT:
                    _warn_of_modules(repo, made.changesets, end)
            if b"fncache" in repo.requirements:
                # the lines that the transaction adds to the file
                fncache = repo.unfiltered().store.fncache
                fncache.addls = _Sorted(fncache.addls)
            public = {oid for oid, _node in made.changesets if oid in settings.public}
            public -= {it for oid in public for it in new.parents[oid]}
            nodes = [bin_node(it) for oid, it in made.changesets if oid in public]
            if nodes:
                phases.advanceboundary(repo, transaction, phases.public, nodes)
            if settings.dialect == HGGIT_DIALECT and not repo.ui.verbose:
                for name in [*transaction.changes]:
                    if name.startswith(_COUNTS):
                        del transaction.changes[name]
            record(transaction, made.changesets, made.foreign)
            if settings.added is not None:
                with _aloud(repo.ui, settings.told_later):
                    settings.added(made.changesets)
    return len(made.changesets)


def _packs(git: Git, commits: int, settings: ImportSettings) -> Directory | None:
    """Return the packs that the core reads by itself, if that is worth their tables."""
    if git.directory is None:
        return None
    packs = git.directory.sub(PACKS)
    if settings.verify is None:
        names = [it for it in packs.names() if it.endswith(b".idx")]
        if sum(packs.stat(it).st_size for it in names) > commits * _INDEX_BYTES:
            return None
    return packs


class _Sorted(set[bytes]):
    """A set that is read in order; a plain one differs from process to process."""

    def __iter__(self) -> Iterator[bytes]:
        return iter(sorted(super().__iter__()))


def _add(
    repo: RepoT,
    transaction: Any,
    converted: tuple[IO[bytes], convert.Conversion],
    settings: ImportSettings,
) -> None:
    """Add the changesets of a changegroup."""
    out, made = converted
    if native.is_possible(repo):
        native.add(repo, transaction, out, made.version, settings.memory_bytes)
        return
    bundler = bundle2.bundle20(repo.ui)
    apply.add_changegroup(bundler, out, made.version, len(made.changesets))
    stream = util.chunkbuffer(bundler.getchunks())
    unbundler = exchange.readbundle(repo.ui, stream, None)
    exchange.unbundle(repo, unbundler, [b"force"], _SOURCE, settings.url)


def _warn_of_modules(
    repo: RepoT, changesets: Iterable[tuple[bytes, bytes]], end: int
) -> None:
    """Warn of each new ``.gitmodules`` that stayed a file: it is malformed.

    ``end``: the first revision of this import.
    """
    filelog = repo.unfiltered().file(b".gitmodules")
    revs = {it for it in map(filelog.linkrev, filelog) if it >= end}
    if not revs:
        return
    log = repo.unfiltered().changelog
    made = ((log.rev(bin_node(hg_node)), oid) for oid, hg_node in changesets)
    commits = sorted((rev, oid) for rev, oid in made if rev >= end)
    # parts of a merge of many come before the changeset that has its commit
    places = (bisect.bisect_left(commits, (rev, b"")) for rev in revs)
    for place in sorted({it for it in places if it < len(commits)}):
        text = _(b"warning: failed to parse .gitmodules in %s")
        repo.ui.warn(one_line(text % commits[place][1][:_SHORT]))


@contextlib.contextmanager
def _held(ui: UiT, messages: Messages | None) -> Iterator[None]:
    """Collect messages, if a list is given."""
    if messages is None:
        yield
        return
    warnings: list[bytes] = []

    def keep(_orig: Any, *texts: bytes, **_options: Any) -> None:
        warnings.extend(texts)

    ui.pushbuffer()
    is_done = False
    try:
        with extensions.wrappedfunction(ui, "warn", keep):
            yield
        is_done = True
    finally:
        text = ui.popbuffer()
        messages += [(ui.warn, it) for it in warnings]
        messages += [(ui.write, it) for it in text.splitlines()]
        if not is_done:
            tell(messages)


@contextlib.contextmanager
def _aloud(ui: UiT, messages: Messages | None) -> Iterator[None]:
    """Print at once, among messages that are collected."""
    if messages is None:
        yield
        return
    text = ui.popbuffer()
    try:
        yield
    finally:
        ui.pushbuffer()
        ui.write(*map(one_line, text.splitlines()))


def tell(messages: Messages) -> None:
    """Print collected messages."""
    for write, text in messages:
        write(*map(one_line, text.splitlines()))
    messages.clear()


@contextlib.contextmanager
def _as_hggit(ui: UiT, settings: ImportSettings) -> Iterator[None]:
    """Keep Mercurial from telling of changegroups: hg-git makes none."""
    if settings.dialect != HGGIT_DIALECT or ui.verbose:
        yield
        return
    quiet, ui.quiet = ui.quiet, True
    try:
        yield
    finally:
        ui.quiet = quiet
