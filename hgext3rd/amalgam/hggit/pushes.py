"""Pushes as users of hg-git know them.

A push takes all bookmarks and tags; with revisions, those exactly on these; with
bookmarks, only these. The first branch that may not be written ends it. Messages are
those of hg-git. ``gitpeer.pushing`` asks here what differs from its own pushes.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from mercurial import encoding, error, hook as hookmod
from mercurial.i18n import _
from mercurial.node import bin as bin_node, hex as hex_node, nullid

from ..gitstore.git.refs import HEADS, TAGS, escaped, global_tags
from ..gitstore.imported import ImportedCommits
from ..records import Record
from ..terminal import one_line

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Container,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.fetchedrefs import FetchedRef
    from ..gitstore.git.process import Git
    from ..gitstore.store import GitStore

_SHOWN = 8


class Exportable(Record):
    """The refs that a push may write, with their changesets."""

    heads: dict[bytes, bytes]
    tags: dict[bytes, bytes]
    tag_objects: dict[bytes, bytes]
    """Oids of those tags, in hex, that are objects of their own."""
    own_tags: set[bytes]
    """Those of ``tags`` that ``.hgtags`` has, perhaps under another name."""
    withheld: set[bytes]
    """Branches of bookmarks here that are not pushed: never deleted, either."""


def exportable(
    repo: RepoT,
    ref_of: Callable[[bytes], bytes],
    fetched: Iterable[Mapping[bytes, FetchedRef]] = (),
) -> Exportable:
    """Return all bookmarks and tags as refs; warn of those that git cannot have.

    ``ref_of`` gives the branch of a bookmark. ``fetched``: refs of git remotes.
    """
    has = repo.filtered(b"served").changelog.hasnode
    heads: dict[bytes, bytes] = {}
    tags: dict[bytes, bytes] = {}
    objects: dict[bytes, bytes] = {}
    for remote in fetched:
        for ref, it in remote.items():
            node = bytes.fromhex(it.node.decode())
            if ref.startswith(TAGS) and node and has(node):
                tags.setdefault(ref, node)
                if it.oid != it.commit:
                    objects.setdefault(ref, it.oid)
    fetched_tags = {*tags}
    for tag, node in sorted(global_tags(repo).items()):
        name = encoding.fromlocal(tag).replace(b" ", b"_")
        if escaped(name) != name:
            _warn(repo.ui, _(b"tag"), tag.replace(b" ", b"_"))
        elif has(node):
            kept = tags.setdefault(TAGS + name, node)
            if kept != node and TAGS + name in objects:
                text = _(b"warning: not overwriting annotated tag '%s'")
                repo.ui.warn(one_line(text % tag))
    own_tags = {*tags} - fetched_tags
    withheld: set[bytes] = set()
    for bookmark, node in sorted(repo._bookmarks.items()):
        ref = ref_of(bookmark)
        withheld.add(ref)
        if not has(node):
            text = _(b"warning: not exporting secret bookmark '%s'")
            repo.ui.warn(one_line(text % bookmark))
        elif escaped(ref.removeprefix(HEADS)) != ref.removeprefix(HEADS):
            _warn(repo.ui, _(b"bookmark"), bookmark)
        else:
            heads[ref] = node
    return Exportable(heads, tags, objects, own_tags, withheld - heads.keys())


def tell_export(store: GitStore) -> None:
    """Tell of changesets that become commits now: run ``gitexport`` with all of them.

    Those with another ``.gitmodules`` are warned of.
    """
    repo, served = store.repo.unfiltered(), store.repo.filtered(b"served").changelog
    if hookmod.hashook(repo.ui, b"gitexport"):
        nodes = _unexported(store, map(served.node, served))
        parts = {it for it in nodes if repo[it].extra().get(b"hg-git") == b"octopus"}
        if names := [hex_node(it) for it in nodes if it not in parts]:
            store.repo.hook(b"gitexport", nodes=names, git=True)
    filelog = repo.file(b".gitmodules")
    found = [repo[rev].node() for rev in {*map(filelog.linkrev, filelog)}]
    for _node in _unexported(store, filter(served.hasnode, found)):
        text = _(
            b"warning: ignoring modifications to '.gitmodules' file; "
            b"please use '.hgsub' instead"
        )
        repo.ui.warn(one_line(text))


def _unexported(store: GitStore, nodes: Iterable[bytes]) -> list[bytes]:
    """Return those of ``nodes`` without a commit."""
    asked = [*nodes]
    if not asked:
        return []
    with contextlib.closing(ImportedCommits(store.repo, store)) as imported:
        asked = [node for node in asked if not imported.commits([node])]
    with contextlib.closing(store.open_map()) as oidmap:
        pairs = zip(asked, oidmap.oids(asked), strict=True)
        return [node for node, oid in pairs if oid is None]


def run_outgoing(
    store: GitStore,
    git: Git,
    new: Iterable[bytes],
    known: Iterable[bytes],
    url: bytes,
) -> None:
    """Run ``outgoing`` for each commit that ``new`` have and ``known`` do not have."""
    repo = store.repo
    if not hookmod.hashook(repo.ui, b"outgoing"):
        return
    asked = b"".join(b"%s\n" % it for it in (*new, *(b"^" + it for it in known)))
    args = ("rev-list", "--reverse", "--ignore-missing", "--stdin")
    oids = git.run(*args, input=asked).stdout.split()
    with contextlib.closing(store.open_map()) as oidmap:
        nodes = oidmap.changesets([bin_node(it) for it in oids])
    for oid, node in zip(oids, nodes, strict=True):
        given = {"url": url, "node": hex_node(node) if node else b"", "git_node": oid}
        repo.hook(b"outgoing", source=b"push", git=True, **given)


def _warn(ui: UiT, kind: bytes, name: bytes) -> None:
    text = _(b"warning: not exporting %s '%s' due to invalid name")
    ui.warn(one_line(text % (kind, name)))


def chosen(
    repo: RepoT,
    found: Exportable,
    revs: Sequence[bytes] | None,
    named: Iterable[bytes],
    there: Mapping[bytes, bytes],
) -> dict[bytes, bytes | None]:
    """Return the refs to push and their changesets; ``None`` deletes one.

    ``named``: branches. ``there``: the refs of the remote.
    """
    every = {**found.heads, **found.tags}
    if revs is None:
        if not every:
            raise error.Abort(
                _(b"no bookmarks or tags to push to git"),
                hint=_(b'see "hg help bookmarks" for details on creating them'),
            )
        return {**every}
    on_refs, refs = {*every.values()}, {*named}
    for node in revs:
        if node != nullid and node not in on_refs:
            raise error.Abort(
                _(b"revision %s cannot be pushed since it doesn't have a bookmark")
                % repo[node]
            )
    if not refs:
        return {ref: node for ref, node in every.items() if node in revs}
    chosen: dict[bytes, bytes | None] = {}
    for ref in sorted(refs - found.withheld):
        if ref in found.heads or ref in there:
            chosen[ref] = found.heads.get(ref)
            continue
        text = _(
            b"warning: unable to delete '%s' as it does not exist on the remote"
            b" repository"
        )
        repo.ui.warn(one_line(text % ref))
    return chosen


def named_with_suffix() -> error.Abort:
    """Return the error for ``-B`` where bookmarks have a suffix."""
    return error.Abort(
        _(
            b"the -B/--bookmarks option is not supported when branch_bookmark_suffix is"
            b" set"
        )
    )


def moved(ref: bytes) -> error.Abort:
    """Return the error for a branch with commits that are not here."""
    return error.Abort(
        _(b"branch '%s' changed on the server, please pull and merge before pushing")
        % ref
    )


def overwritten(ref: bytes, changeset: object) -> error.Abort:
    """Return the error for a branch that would lose changesets."""
    return error.Abort(_(b"pushing %s overwrites %s") % (ref, changeset))


def tell_objects(
    ui: UiT, git: Git, new: Iterable[bytes], known: Iterable[bytes]
) -> None:
    """Tell how many objects ``new`` oids have that ``known`` ones do not have.

    As with hg-git, the root of each new commit counts as a tree, if it is new or not.
    """
    if ui.quiet or not (tips := {*new}):
        return
    asked = [b"%s\n" % it for it in (*tips, *(b"^" + it for it in known))]
    args = ("rev-list", "--ignore-missing", "--stdin")
    with git.pieces(
        *(*args, "--no-commit-header", "--format=%T"), input=asked
    ) as found:
        roots = {*_lines(found)}
    counted: Counter[bytes] = Counter()
    commits: list[bytes] = []
    with (
        git.pieces(*args, "--objects", "--no-object-names", input=asked) as oids,
        git.pieces(
            *("cat-file", "--batch-check=%(objecttype) %(objectname)", "--buffer"),
            input=oids,
        ) as described,
    ):
        for line in _lines(described):
            kind, _space, oid = line.partition(b" ")
            counted[kind] += 1
            roots.discard(oid)
            if kind == b"commit" and ui.debugflag:
                commits.append(oid)
    counted[b"tree"] += len(roots)
    if counted[b"commit"]:
        ui.debug(_(b"list of commits:\n"), *map(one_line, commits))
        ui.status(_(b"adding objects\n"))
        text = _(b"added %d commits with %d trees and %d blobs")
        kinds = (b"commit", b"tree", b"blob")
        ui.status(one_line(text % tuple(counted[it] for it in kinds)))


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


def tell_unchanged(
    ui: UiT, remote: bytes, there: Mapping[bytes, bytes], changed: Container[bytes]
) -> None:
    """Name the refs that stay, for ``--debug``."""
    for ref, oid in sorted(there.items()):
        if ref.startswith((HEADS, TAGS)) and ref not in changed:
            text = _(b"unchanged reference %s::%s => GIT:%s")
            ui.debug(one_line(text % (remote, ref, oid[:_SHOWN])))


def change_of(ui: UiT, remote: bytes, ref: bytes, new: bytes, *, is_new: bool) -> bytes:
    """Return the line about a ref that was written."""
    text = _(b"adding reference %s") if is_new else _(b"updating reference %s")
    name = b"%s::%s => GIT:%s" % (remote, ref, new[:_SHOWN]) if ui.verbose else ref
    return bytes(text % name)
