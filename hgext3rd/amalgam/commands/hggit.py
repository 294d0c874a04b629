"""Commands and revsets of hg-git, for its users.

They work on the git repository that hg-git has left, else on the one of amalgam.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from mercurial import error, revsetlang, scmutil, smartset
from mercurial.i18n import _
from mercurial.node import hex as hex_node
from mercurial.utils import stringutil

from ..config import GitConfig
from ..configitems import HGGIT_DIALECT
from ..files import Directory
from ..gitpeer import hggitfiles, names, peer as peers, pulling
from ..gitpeer.fetched import Fetched
from ..gitstore.export import export
from ..gitstore.git.comparison import Differing
from ..gitstore.git.reffiles import RefFiles
from ..gitstore.store import GitStore
from ..hggit import dialect, mapfile, objects, refs, sample
from ..terminal import one_line
from . import ids

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.git.comparison import FileDifference

_TEXTS = {
    Differing.CONTENT: _(b"difference in: %s"),
    Differing.ONLY_GIT: _(b"file found in git but not hg: %s"),
    Differing.ONLY_HG: _(b"file found in hg but not git: %s"),
}
_FLAGS = {b"100644": b"", b"100755": b"x", b"120000": b"l"}


def _opened(repo: RepoT) -> GitStore:
    """Return the store; ``StateError`` in the other dialect."""
    store = pulling.opened(repo)
    if store.config.dialect != HGGIT_DIALECT:
        raise error.StateError(
            _(b"this command of hg-git needs its dialect"),
            hint=_(b"set amalgam.git.dialect = hggit; see 'hg help -e amalgam'"),
        )
    store.require_trust()
    return store


def _files_of(store: GitStore) -> Directory | None:
    """Return the git repository of hg-git; ``None`` without one."""
    files = objects.directory_of(store.repo)
    return files if os.path.isdir(files.join(b"objects")) else None


def git_directory(ui: UiT, repo: RepoT) -> None:
    """Answer ``debuggitdir``."""
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    is_theirs = _files_of(store) is not None or dialect.goes_on(repo)
    files = objects.directory_of(store.repo) if is_theirs else store.repository
    path = files.path
    ui.write(one_line(os.path.normpath(path)))


def import_commits(ui: UiT, repo: RepoT, remote: bytes | None) -> None:
    """Answer ``git-import``."""
    files = _files_of(_opened(repo))
    if files is None:
        raise error.StateError(
            _(b"hg-git has no git repository here"),
            hint=_(b"pull from the remote: hg pull"),
        )
    peer = peers.GitPeer(
        ui, b"git+file://" + os.path.abspath(files.path), remote or b""
    )
    pulling.pull(repo, peer)


def export_commits(ui: UiT, repo: RepoT) -> None:
    """Answer ``git-export``."""
    store = _opened(repo)
    export.export(store)
    heads = repo.filtered(b"served").changelog.heads()
    with repo.wlock(), repo.lock():
        hggitfiles.give_back(store, [it for it in heads if it != repo.nullid])
    ui.note(one_line(_(b"exported to '%s'") % store.repository.path))


def verify(ui: UiT, repo: RepoT, rev: bytes, *, checks: bool) -> int:
    """Answer ``git-verify``."""
    store, ctx = _opened(repo), scmutil.revsingle(repo, rev, b".")
    files = _files_of(store)
    if checks and files is not None:
        git = store.repository.git._replace(directory=files)
        if git.run("fsck", "--no-dangling", check=False).returncode:
            raise error.Abort(
                _(b"git repository is corrupt!"),
                hint=_(b"run 'git fsck' in '%s'") % files.path,
            )
    with contextlib.closing(ids.opened(repo, store)) as oidmap:
        (oid,) = oidmap.oids([ctx.node()])
    if not oid:
        raise error.Abort(
            _(b"no git commit found for rev %s") % ctx,
            hint=_(b"if this is an octopus merge, verify against the last rev"),
        )
    name = hex_node(oid)
    objects.take(store)
    git = Fetched(store).git
    if git.run("cat-file", "-e", name, check=False).returncode:
        git = store.repository.git
    done = git.run("cat-file", "-t", name, check=False)
    if done.returncode:
        raise error.Abort(
            _(b"git equivalent %s for rev %s not found!") % (name, ctx),
            hint=_(b"pull from the remote, or export: hg gexport"),
        )
    if done.stdout.strip() != b"commit":
        raise error.Abort(
            _(b"git equivalent %s for rev %s is not a commit!") % (name, ctx),
            hint=_(b"remove its line from '.hg/git-mapfile'"),
        )
    text = _(b"verifying rev %s against git commit %s")
    ui.status(one_line(text % (ctx, name)))
    differing = [*sample.differing(ctx, git, b"%s^{tree}" % name)]
    for it in sorted(differing, key=lambda it: it.path not in ctx):
        ui.write(one_line(_text(it)))
    return 1 if differing else 0


def _text(it: FileDifference) -> bytes:
    if it.kind is Differing.MODE:
        text = _(b"file has different flags: %s (hg '%s', git '%s')")
        flags = _FLAGS.get(it.expected, b""), _FLAGS.get(it.found, b"")
        return bytes(text % (it.path, *flags))
    return bytes(_TEXTS[it.kind] % it.path)


def clean_up(ui: UiT, repo: RepoT) -> None:
    """Answer ``git-cleanup``."""
    store = _opened(repo)
    place = Directory(store.repo.sharedpath)
    with repo.wlock(), repo.lock():
        lines = mapfile.read(place)
        kept = []
        for oid, node in lines:
            if repo.changelog.hasnode(node):
                kept.append((oid, node))
                continue
            line = b"dropping GIT:%s -> HG:%s" % (hex_node(oid), hex_node(node))
            ui.note(one_line(line))
        if kept != lines:
            mapfile.rewrite(place, kept, store.placement)
        files = _files_of(store)
        if files is not None:
            _drop_broken(ui, store, files)
        pulling.opened(repo)
    ui.status(_(b"git commit map cleaned\n"))


def _drop_broken(ui: UiT, store: GitStore, files: Directory) -> None:
    found = RefFiles(files, store.placement).refs()
    git = objects.take(store)
    assert git is not None
    asked = b"".join(b"%s\n" % hex_node(oid) for oid in found.values())
    lines = git.run("cat-file", "--batch-check", input=asked).stdout.splitlines()
    broken = {}
    for (name, oid), line in zip(found.items(), lines, strict=True):
        if line.endswith(b" missing"):
            ui.note(one_line(b"dropping %s -> GIT:%s" % (name, hex_node(oid))))
            broken[name] = b""
    refs.change(files, broken, store.placement)


def remove_state(ui: UiT, repo: RepoT) -> None:
    """Answer ``debug-remove-hggit-state``."""
    store = GitStore(repo, GitConfig.from_ui(repo.ui, HGGIT_DIALECT))
    store.require_trust()
    ui.status(_(b"clearing out the git cache data\n"))
    store.directory.make(store.placement)
    with repo.wlock(), repo.lock(), store.locked():
        place, ours = Directory(store.repo.sharedpath), HGGIT_DIALECT
        for name in (mapfile.NAME, hggitfiles.TAGS_NAME, b"git"):
            place.remove(name)
        for room in (b"map", b"imported", b"fetched"):
            inner = store.directory.sub(room)
            for name in inner.names():
                if name.startswith(ours) or name == b"objects.git":
                    inner.remove(name)
        *above, name = store.repository.directory.below
        store.repository.directory._replace(below=(*above,)).remove(name)


def fromgit(repo: RepoT, subset: Any, x: Any) -> Any:
    """Answer ``fromgit()``."""
    revsetlang.getargs(x, 0, 0, _(b"fromgit takes no arguments"))
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    node = repo.changelog.node
    revs = [*subset]
    with contextlib.closing(ids.opened(repo, store)) as oidmap:
        oids = oidmap.oids([node(rev) for rev in revs])
    return smartset.baseset([rev for rev, oid in zip(revs, oids, strict=True) if oid])


def gittag(repo: RepoT, subset: Any, x: Any) -> Any:
    """Answer ``gittag([pattern])``."""
    # i18n: "gittag" is a keyword
    args = revsetlang.getargs(x, 0, 1, _(b"gittag takes one or no arguments"))
    namespace = repo.names.get(names.GIT_TAGS)
    if namespace is None:
        return subset & smartset.baseset()
    found = namespace.listnames(repo)
    if args:
        # i18n: "gittag" is a keyword
        wanted = revsetlang.getstring(
            args[0], _(b"the argument to gittag must be a string")
        )
        kind, wanted, matches = stringutil.stringmatcher(wanted)
        if kind == b"literal" and wanted not in found:
            raise error.RepoLookupError(
                _(b"git tag '%s' does not exist") % wanted,
                hint=_(b"see 'hg log -r \"gittag()\" -T {gittags}'"),
            )
        found = [it for it in found if matches(it)]
    nodes = {node for name in found for node in namespace.namemap(repo, name)}
    return subset & smartset.baseset([repo.changelog.rev(it) for it in nodes])
