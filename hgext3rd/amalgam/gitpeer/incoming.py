"""``hg incoming``: the commits of a git remote as a bundle, which Mercurial shows.

They are fetched and converted, and nothing of the repository changes.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING

from mercurial import bundle2, bundlerepo, changegroup
from mercurial.i18n import _
from mercurial.node import bin as bin_node

from ..gitstore.imported import ImportedCommits
from ..receive import apply, convert, graph, importing
from ..remote.transport import RemoteFailureError
from . import bookmarks as marks, pulling
from .fetched import Fetched
from .source import HEADS, TAGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.git.process import Git
    from ..gitstore.store import GitStore
    from .source import GitSource

    _Changes = tuple[RepoT, list[bytes], Callable[[], None]]


def changes(
    ui: UiT,
    repo: RepoT,
    source: GitSource,
    onlyheads: Sequence[bytes] | None = None,
    bundlename: bytes | None = None,
    _force: bool = False,
    **_others: object,
) -> _Changes:
    """Return a repository with the incoming changesets, these, and a cleanup.

    As ``bundlerepo.getremotechanges``.
    """
    oids = source.advertised.oids
    names = [*dict.fromkeys(source.looked_up)] if onlyheads else [*oids]
    names = [it for it in names if onlyheads or it.startswith((HEADS, TAGS))]
    store = pulling.opened(repo)
    fetched = Fetched(store)
    with contextlib.closing(ImportedCommits(repo, store)) as imported:
        knows = pulling.Known(repo, store, imported)
        commits = {it: source.advertised.commit(it) for it in names}
        there = knows(commits.values())
        missing = [it for it in names if commits[it] not in there]
        if not missing:
            return repo, [], source.close
        wanted = {it: oids.get(it, it) for it in missing}
        haves = imported.commits(repo.unfiltered().changelog.heads())
        try:
            with fetched.fetching(source.transport, wanted, haves) as (git, found):
                source.close()
                tips = {commit for _oid, commit in found.values()}
                tips = {*pulling.commits_among(git, sorted(tips))}
                most = store.config.max_pull_commits
                new = importing.read(git, tips, knows, most)
                path = _bundled(
                    *(ui, store, git, new, bundlename), is_exact=imported.is_exact
                )
        except RemoteFailureError as exc:
            raise pulling.failed(source, exc) from None
        finally:
            source.close()
    if not path:
        return repo, [], source.close
    made = bundlerepo.makebundlerepository(repo.baseui, repo.root, path)
    changelog = made.unfiltered().changelog
    nodes = [changelog.node(it) for it in range(made.firstnewrev, len(changelog))]

    def clean() -> None:
        made.close()
        if bundlename is None:
            os.unlink(path)
        source.close()

    return made.unfiltered(), nodes, clean


def common(
    repo: RepoT, source: GitSource
) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return nodes that both have, oids that only the remote has, and its heads."""
    if marks.is_of_hggit(repo.ui):
        repo.ui.status(_(b"searching for changes\n"))
    names = (it for it in source.advertised.oids if it.startswith((HEADS, TAGS)))
    oids = {source.advertised.commit(it) for it in names}
    nodes = pulling.known(repo, oids)
    # a branch has most likely kept the commits of the last pull
    there = source.advertised.oids.items()
    moved = [it for it, oid in there if it.startswith(HEADS) and oid not in nodes]
    fetched = Fetched(pulling.opened(repo))
    before = fetched.lines(pulling.record_name(repo, source)).find(moved)
    known = {it.node for it in before.values() if it.node}.union(nodes.values())
    has = repo.unfiltered().changelog.hasnode
    both = [node for node in map(bin_node, sorted(known)) if has(node)]
    if repo.changelog.filteredrevs:  # Mercurial takes visible ones only
        shown = b"heads(::%ln and not hidden())"
        both = [repo[rev].node() for rev in repo.unfiltered().revs(shown, both)]
    missing = [bin_node(oid) for oid in sorted(oids - nodes.keys())]
    return both or [repo.nullid], missing, [*both, *missing]


def _bundled(
    ui: UiT,
    store: GitStore,
    git: Git,
    new: graph.PushGraph,
    bundlename: bytes | None,
    *,
    is_exact: bool,
) -> bytes:
    """Write a bundle of the new commits; return its path, empty without commits."""
    with tempfile.TemporaryFile() as out:
        made = convert.convert(
            *(ui, store.repo.unfiltered(), git, [*new.parents], new.nodes, out),
            dialect=store.config.dialect,
            memory_bytes=store.config.memory_bytes,
            round_trip=is_exact,
            is_exact=is_exact,
            most_file_bytes=store.config.max_pull_file_bytes,
        )
        for refusal in made.refused:
            raise importing.refused(refusal)
        if not made.changesets:
            return b""
        bundler = bundle2.bundle20(ui)
        apply.add_changegroup(bundler, out, made.version, len(made.changesets))
        return bytes(changegroup.writechunks(ui, bundler.getchunks(), bundlename))
