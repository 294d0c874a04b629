"""The names of hg-git, taken over; and its files, kept as it keeps them.

Branches of its remotes and tags of git become recorded refs of amalgam (``fetched``):
those of each remote, and all tags as those of a remote of their own. They are taken
again when hg-git has changed them.

With ``amalgam.git.hggit-files``, objects, refs, tags and map of hg-git get what is new
here, in this order: whoever reads them meanwhile finds the objects of all names. Who
is killed in between has left a mark in the record of imported commits, and the next
command goes on.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _
from mercurial.node import bin as bin_node, hex as hex_node
from mercurial.utils import stringutil

from ..config import GitConfig, setting, warn_once
from ..configitems import HGGIT_DIALECT
from ..files import Directory
from ..gitstore.adopt.mirror import read_refs
from ..gitstore.fetchedrefs import FetchedRef
from ..gitstore.git.refs import escaped
from ..gitstore.imported import ImportedCommits, taken_over
from ..gitstore.store import GitStore
from ..hggit import adoption, dialect, mapfile, objects, refs as refsmod
from ..scratch import scratch
from ..terminal import one_line
from . import bookmarks as marks
from .fetched import Fetched
from .source import HEADS, TAGS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from mercurial.interfaces.types import RepoT

TAGS_NAME = b"git-tags"
TAGS_REMOTE = b"."
"""The remote with the tags; no path of Mercurial has this name."""
_REMOTES = b"refs/remotes/"
_MOST_BYTES = 1 << 28


def take_over(store: GitStore) -> None:
    """Record the names of hg-git, unless that has been done, or cannot be now."""
    (taken, is_behind), fetched = taken_over(store), Fetched(store)
    if not taken:
        return
    with contextlib.suppress(error.LockError):
        if fetched.mark() != taken:
            with store.asked.lock(wait=False):
                if not store.trust.usable:
                    return
                for remote, refs in _refs(store).items():
                    # hg-git has no tags of a remote, and none that .hgtags names
                    kept = {} if remote == TAGS_REMOTE else fetched.refs(remote)
                    kept = {n: it for n, it in kept.items() if not n.startswith(HEADS)}
                    fetched.write_refs(remote, kept | refs)
                fetched.set_mark(taken)
        if is_behind and store.config.hggit_files and store.trust.usable:
            with store.asked.lock(wait=False):
                give_back(store)


def _refs(store: GitStore) -> dict[bytes, dict[bytes, FetchedRef]]:
    """Return refs by remote."""
    files = objects.directory_of(store.repo)
    oids: dict[bytes, bytes] = {}
    if files.exists(b"HEAD"):
        oids = read_refs(files, files.path, store.config.program).oids
    branches = {
        ref.removeprefix(_REMOTES): oid
        for ref, oid in oids.items()
        if ref.startswith(_REMOTES)
    }
    found: dict[bytes, dict[bytes, FetchedRef]] = {}
    has = store.repo.unfiltered().changelog.hasnode
    with contextlib.closing(ImportedCommits(store.repo, store)) as imported:
        nodes = imported.known(branches.values())
        for name, oid in branches.items():
            remote, _slash, branch = name.partition(b"/")
            if branch and oid in nodes:
                ref = FetchedRef(oid, oid, nodes[oid])
                found.setdefault(remote, {})[HEADS + branch] = ref
        for name, node in _tags(store).items():
            (commit,) = imported.commits([node]) or (b"",)
            if has(node) and commit:
                oid = oids.get(TAGS + name, commit)
                ref = FetchedRef(oid, commit, hex_node(node))
                found.setdefault(TAGS_REMOTE, {})[TAGS + name] = ref
    return found


def _tags(store: GitStore) -> dict[bytes, bytes]:
    """Return the changesets of tags."""
    content = Directory(store.repo.sharedpath).tryread(TAGS_NAME, _MOST_BYTES)
    pairs = (line.partition(b" ") for line in content.splitlines())
    with contextlib.suppress(ValueError):
        return {name: bin_node(node) for node, _space, name in pairs if name}
    return {}


def make_tags(
    store: GitStore, refs: Iterable[bytes], commit: bytes, node: bytes
) -> None:
    """Record new tags of a commit, and give them to hg-git's files.

    Under the locks of Mercurial. ``commit`` is in hex; ``node`` is its changeset.
    """
    fetched = Fetched(store)
    new = dict.fromkeys(refs, FetchedRef(commit, commit, hex_node(node)))
    fetched.write_refs(TAGS_REMOTE, fetched.refs(TAGS_REMOTE) | new)
    give_back(store, [node])


def make_again(repo: RepoT) -> None:
    """Make hg-git's repository if only its map is there, and the user wants its files.

    So where the map came from a bundle.
    """
    is_asked = setting(repo.ui, b"amalgam", b"git.hggit-files") is not None
    if not is_asked or not dialect.goes_on(repo):
        return
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    files = objects.directory_of(store.repo)
    has_map = os.path.exists(os.path.join(store.repo.sharedpath, mapfile.NAME))
    if has_map and store.trust.usable and not files.exists(b"HEAD"):
        text = _(b"warning: created new git repository at %s")
        repo.ui.warn(one_line(text % files.path))
        with repo.lock():
            objects.make(store)


def are_written(store: GitStore) -> bool:
    """Return whether pulls and pushes write hg-git's files."""
    if store.config.dialect != HGGIT_DIALECT or not store.config.hggit_files:
        return False
    is_asked = setting(store.repo.ui, b"amalgam", b"git.hggit-files") is not None
    return is_asked or bool(adoption.stamp_of(store))


def give_back(
    store: GitStore, nodes: Iterable[bytes] = (), *, with_bookmarks: bool = True
) -> None:
    """Bring hg-git's files up to date, if it has any. Under the locks of Mercurial.

    They are made where ``amalgam.git.hggit-files`` is set, and there is a commit.

    ``nodes``: exported changesets that it gets with their ancestors, beside all that
    were imported or pushed. Bookmarks become branches; hg-git leaves them alone in a
    pull. A failure is a warning: the next command tries again.
    """
    if not are_written(store):
        return
    try:
        _give_back(store, nodes, with_bookmarks=with_bookmarks)
    except (OSError, error.Abort, error.StorageError) as exc:
        warn_once(
            store.repo.ui,
            _(b"hg-git's files are behind: %s") % stringutil.forcebytestr(exc),
            _(b"the next pull or push writes them, unless amalgam.git.hggit-files=no"),
        )


def _give_back(
    store: GitStore, nodes: Iterable[bytes], *, with_bookmarks: bool
) -> None:
    repo, place = store.repo.unfiltered(), Directory(store.repo.sharedpath)
    there = {node for _oid, node in mapfile.read(place)}
    has = repo.changelog.hasnode
    with contextlib.closing(ImportedCommits(store.repo, store)) as imported:
        known = {
            node: oid
            for oid, node in imported.pairs().items()
            if node not in there and has(node)
        }
        fetched = Fetched(store).among(hex_node(oid) for oid in known.values())
        apart = [it for it, oid in known.items() if hex_node(oid) not in fetched]
        exported = _exported(store, [*apart, *nodes], there)
        known |= exported
        if not known and not there:
            return
        files = objects.directory_of(store.repo)
        if not there:
            objects.make(store)
        has_objects = os.path.isdir(files.join(b"objects"))
        if has_objects:
            objects.give(store)
        if exported:
            _give_exported(store, exported, imported)
        if has_objects:
            changes = _of_remotes(store, files)
            if with_bookmarks:
                changes |= _of_bookmarks(store, imported, exported)
            refsmod.change(files, _with_objects(store, files, changes), store.placement)
        _write_tags(store)
        order = sorted(known, key=repo.changelog.rev)
        if order:
            mapfile.extend(place, [(known[it], it) for it in order], store.placement)
        stamp = adoption.stamp_of(store)
        twins = imported.changesets([*exported.values()])
        ours = {
            oid: node
            for (node, oid), twin in zip(exported.items(), twins, strict=True)
            if twin is None
        }
        imported.take(ours, {}, stamp, behind=False)
    Fetched(store).set_mark(stamp)


def _with_objects(
    store: GitStore, files: Directory, changes: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Leave out refs of objects that hg-git's repository does not have.

    Those of a bundle's map were never fetched.
    """
    git = store.repository.git._replace(directory=files)
    asked = b"".join(b"%s\n" % it for it in changes.values() if it)
    args = ("cat-file", "--batch-check=%(objectname)", "--buffer")
    there = {b"", *git.run(*args, input=asked).stdout.splitlines()}
    return {ref: oid for ref, oid in changes.items() if oid in there}


def _exported(
    store: GitStore, tips: Iterable[bytes], there: Container[bytes]
) -> dict[bytes, bytes]:
    """Return the commits of ``tips`` and their ancestors that are not ``there``."""
    changelog = store.repo.unfiltered().changelog
    found: dict[bytes, None] = {}
    left = [it for it in tips if it not in there]
    while left:
        node = left.pop()
        if node in found or node in there or node == store.repo.nullid:
            continue
        found[node] = None
        left += changelog.parents(node)
    if not found:
        return {}
    with contextlib.closing(store.open_map()) as oidmap:
        oids = oidmap.oids([*found])
    return {node: oid for node, oid in zip(found, oids, strict=True) if oid}


def _give_exported(
    store: GitStore, exported: Mapping[bytes, bytes], imported: ImportedCommits
) -> None:
    """Give the objects of exported changesets that hg-git does not have."""
    changelog, git = store.repo.unfiltered().changelog, store.repository.git
    below = {it for node in exported for it in changelog.parents(node)}
    below -= exported.keys()
    asked = [hex_node(oid) for oid in exported.values()]
    args = ("cat-file", "--batch-check=%(objectname)", "--buffer")
    known = b"".join(b"%s\n" % it for it in imported.commits(below))
    lines = git.run(*args, input=known).stdout.splitlines()
    asked += [b"^" + it for it in lines if b" " not in it]
    with scratch(store.repo) as path:
        text = b"".join(b"%s\n" % it for it in asked)
        base = os.path.join(path, b"pack")
        git.run("pack-objects", "--revs", "--quiet", base, input=text)
        objects.give(store, Directory(path))


def _of_remotes(store: GitStore, files: Directory) -> dict[bytes, bytes]:
    """Return refs of hg-git that may have to change: oids in hex, or empty."""
    fetched = Fetched(store)
    changes: dict[bytes, bytes] = {}
    for remote in fetched.remotes():
        for ref, it in fetched.refs(remote).items():
            if ref.startswith(TAGS):
                changes[ref] = it.oid
            elif ref.startswith(HEADS) and not remote.startswith(b"url-"):
                name = remote + b"/" + ref.removeprefix(HEADS)
                changes[_REMOTES + name] = it.oid
    gone = read_refs(files, files.path, store.config.program).oids
    ours = tuple(b"%s%s/" % (_REMOTES, it) for it in fetched.remotes())
    changes |= {ref: b"" for ref in gone if ref.startswith(ours) and ref not in changes}
    return changes


def _of_bookmarks(
    store: GitStore, imported: ImportedCommits, exported: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Return the same for branches of bookmarks."""
    repo, changes = store.repo, dict[bytes, bytes]()
    served = repo.filtered(b"served").changelog.hasnode
    for name, node in repo._bookmarks.items():
        ref = marks.ref_of(repo.ui, name)
        if escaped(ref) != ref or not served(node):
            continue
        oid = exported.get(node)
        commits = [hex_node(oid)] if oid else imported.commits([node])
        if commits:
            changes[ref] = commits[0]
    return changes


def _write_tags(store: GitStore) -> None:
    """Write tags of git that hg-git does not have."""
    fetched = Fetched(store)
    found = {
        ref.removeprefix(TAGS): bin_node(it.node)
        for remote in fetched.remotes()
        for ref, it in fetched.refs(remote).items()
        if ref.startswith(TAGS) and it.node
    }
    add_tags(store, found)


def add_tags(store: GitStore, found: Mapping[bytes, bytes]) -> None:
    """Add changesets by tags of git to hg-git's, but none that it has."""
    there = _tags(store)
    new = {name: node for name, node in found.items() if name not in there}
    if not new:
        return
    tags = sorted((there | new).items())
    content = b"".join(b"%s %s\n" % (hex_node(node), name) for name, node in tags)
    directory = Directory(store.repo.sharedpath)
    directory.replace(TAGS_NAME, content, store.placement)
