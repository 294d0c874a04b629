"""Pushes as users of hg-git know them.

A push takes all bookmarks and tags; with revisions, those exactly on these; with
bookmarks, only these. The first branch that may not be written ends it. Messages are
those of hg-git. ``gitpeer.pushing`` asks here what differs from its own pushes.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from mercurial import encoding, error
from mercurial.i18n import _
from mercurial.node import nullid

from ..gitstore.git.refs import HEADS, TAGS, escaped, global_tags
from ..gitstore.imported import ImportedCommits
from ..records import Record
from ..terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
            tags.setdefault(TAGS + name, node)
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


def warn_of_modules(store: GitStore) -> None:
    """Warn of each changeset with another ``.gitmodules`` that becomes a commit now."""
    repo = store.repo.unfiltered()
    filelog = repo.file(b".gitmodules")
    has = store.repo.filtered(b"served").changelog.hasnode
    found = [repo[rev].node() for rev in {*map(filelog.linkrev, filelog)}]
    found = [node for node in found if has(node)]
    if not found:
        return
    with contextlib.closing(ImportedCommits(store.repo, store)) as imported:
        found = [node for node in found if not imported.commits([node])]
    with contextlib.closing(store.open_map()) as oidmap:
        for oid in oidmap.oids(found):
            if oid is None:
                text = _(
                    b"warning: ignoring modifications to '.gitmodules' file; "
                    b"please use '.hgsub' instead"
                )
                repo.ui.warn(one_line(text))


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
    counted[b"tree"] += len(roots)
    if counted[b"commit"]:
        ui.status(_(b"adding objects\n"))
        text = _(b"added %d commits with %d trees and %d blobs")
        kinds = (b"commit", b"tree", b"blob")
        ui.status(one_line(text % tuple(counted[it] for it in kinds)))


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


def change_of(ui: UiT, remote: bytes, ref: bytes, new: bytes, *, is_new: bool) -> bytes:
    """Return the line about a ref that was written."""
    text = _(b"adding reference %s") if is_new else _(b"updating reference %s")
    name = b"%s::%s => GIT:%s" % (remote, ref, new[:_SHOWN]) if ui.verbose else ref
    return bytes(text % name)
