"""Commands and revsets of hg-git, for its users.

They work on the git repository that hg-git has left, else on the one of amalgam.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from typing import TYPE_CHECKING, Any

from mercurial import (
    cmdutil,
    encoding,
    error,
    extensions,
    revsetlang,
    scmutil,
    smartset,
)
from mercurial.i18n import _
from mercurial.node import bin as bin_node, hex as hex_node, nullrev, short
from mercurial.utils import stringutil

from ..config import GitConfig, setting
from ..configitems import HGGIT_DIALECT
from ..files import Directory
from ..gitpeer import bookmarks, hggitfiles, names, peer as peers, pulling
from ..gitpeer.fetched import Fetched
from ..gitstore.export import export
from ..gitstore.git.comparison import Differing
from ..gitstore.git.reffiles import RefFiles
from ..gitstore.git.refs import TAGS, escaped
from ..gitstore.imported import ImportedCommits
from ..gitstore.store import GitStore
from ..hggit import dialect, mapfile, objects, pushes, refs, sample
from ..terminal import one_line, printable
from . import ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.git.comparison import FileDifference

_TEXTS = {
    Differing.CONTENT: _(b"difference in: %s"),
    Differing.ONLY_GIT: _(b"file found in git but not hg: %s"),
    Differing.ONLY_HG: _(b"file found in hg but not git: %s"),
}
_OID = re.compile(b"[0-9a-f]{40}")
_SHORT = 12
_FLAGS = {b"100644": b"", b"100755": b"x", b"120000": b"l"}


def _opened(repo: RepoT) -> GitStore:
    """Return the store; ``StateError`` in the other dialect."""
    store = pulling.opened(repo)
    _require_dialect(store)
    return store


def _require_dialect(store: GitStore) -> None:
    if store.config.dialect != HGGIT_DIALECT:
        raise error.StateError(
            _(b"this command of hg-git needs its dialect"),
            hint=_(b"set amalgam.git.dialect = hggit; see 'hg help -e amalgam'"),
        )
    store.require_trust()


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
    pushes.tell_export(store)
    export.export(store)
    if dialect.goes_on(repo):
        # warns of names that git cannot have
        pushes.exportable(repo, functools.partial(bookmarks.ref_of, repo.ui))
    heads = repo.filtered(b"served").changelog.heads()
    with repo.wlock(), repo.lock():
        hggitfiles.give_back(store, [it for it in heads if it != repo.nullid])
    ui.note(one_line(_(b"exported to '%s'") % store.repository.path))


def verify(ui: UiT, repo: RepoT, rev: bytes, *, checks: bool) -> int:
    """Answer ``git-verify``."""
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    _require_dialect(store)
    ctx, files = scmutil.revsingle(repo, rev, b"."), _files_of(store)
    theirs = None
    if files is not None:
        theirs = store.repository.git._replace(directory=files)
    checked = theirs if checks else None
    if checked and checked.run("fsck", "--no-dangling", check=False).returncode:
        raise error.Abort(_(b"git repository is corrupt!"))
    oid = _oid_of(repo, store, ctx.node())
    if not oid:
        raise error.Abort(
            _(b"no git commit found for rev %s") % ctx,
            hint=_(b"if this is an octopus merge, verify against the last rev"),
        )
    name = hex_node(oid)
    ours = Fetched(store).git, store.repository.git
    for git in (theirs, *ours):
        if git is None or not git.directory or not git.directory.exists(b"HEAD"):
            continue
        if not git.run("cat-file", "-e", name, check=False).returncode:
            break
    else:
        raise error.Abort(_(b"git equivalent %s for rev %s not found!") % (name, ctx))
    try:
        kind = git.run("cat-file", "-t", name).stdout.strip()
    except error.Abort as exc:  # with git's words
        raise error.Abort(
            _(b"git equivalent %s for rev %s is corrupt!") % (name, ctx),
            hint=_(b"re-run with --traceback for details"),
        ) from exc
    if kind != b"commit":
        raise error.Abort(
            _(b"git equivalent %s for rev %s is not a commit!") % (name, ctx)
        )
    text = _(b"verifying rev %s against git commit %s")
    ui.status(one_line(text % (ctx, name)))
    differing = [*sample.differing(ctx, git, b"%s^{tree}" % name)]
    last = (Differing.ONLY_HG, Differing.ONLY_GIT)
    for it in sorted(differing, key=lambda it: [it.kind is kind for kind in last]):
        ui.write(one_line(_text(it)))
    return 1 if differing else 0


def _oid_of(repo: RepoT, store: GitStore, node: bytes) -> bytes | None:
    """Return the commit of a changeset: in hg-git's map, or else in our records.

    Nothing is compared, so that a wrong line can be verified.
    """
    oids = {it: oid for oid, it in mapfile.read(Directory(store.repo.sharedpath))}
    if node in oids:
        return oids[node]
    with (
        contextlib.closing(ImportedCommits(repo, store)) as imported,
        contextlib.closing(imported.ids_with(store.open_map())) as oidmap,
    ):
        (oid,) = oidmap.oids([node])
    return bytes(oid) if oid else None


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
        if setting(ui, b"amalgam", b"git.dialect") == HGGIT_DIALECT:
            with contextlib.closing(ImportedCommits(repo, store)) as imported:
                imported.begin()


def fromgit(repo: RepoT, subset: Any, x: Any) -> Any:
    """Answer ``fromgit()``."""
    revsetlang.getargs(x, 0, 0, _(b"fromgit takes no arguments"))
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    node = repo.changelog.node
    revs = [*subset]
    with contextlib.closing(ids.opened(repo, store)) as oidmap:
        oids = oidmap.oids([node(rev) for rev in revs])
    return smartset.baseset([rev for rev, oid in zip(revs, oids, strict=True) if oid])


def command(
    orig: Callable[..., Any], ui: UiT, repo: RepoT, *given: bytes, **opts: Any
) -> Any:
    """Replace ``hg tag``, which has ``--git``, and ``hg annotate``.

    The latter also skips commits that a file lists for git. Where hg-git is loaded,
    it does both.
    """
    if b"hggit" in dict(extensions.extensions()):
        return orig(ui, repo, *given, **opts)
    if opts.pop("git", False):
        return tag(ui, repo, *given, **opts)
    name = setting(ui, b"git", b"blame.ignoreRevsFile")
    if name and "skip" in opts and repo.local():
        opts["skip"] = [*opts["skip"], *_ignored(ui, repo, name)]
    return orig(ui, repo, *given, **opts)


def tag(ui: UiT, repo: RepoT, *given: bytes, **opts: Any) -> None:
    """Answer ``tag --git``: make lightweight tags of git."""
    options = {name.encode(): value for name, value in opts.items()} | {b"git": True}
    others = [b"local", b"edit", b"message", b"date", b"user"]
    cmdutil.check_incompatible_arguments(options, b"git", others)
    cmdutil.check_at_most_one_arg(options, b"rev", b"remove")
    if not opts["rev"] and not opts["remove"]:
        raise error.Abort(
            _(b"git tags require an explicit revision"),
            hint=_(b"please specify -r/--rev"),
        )
    ctx = scmutil.revsingle(repo, opts["rev"]) if opts["rev"] else repo[nullrev]
    if ctx.rev() == nullrev or opts["force"]:
        text = _(b"cannot move git tags") if opts["force"] else None
        raise error.Abort(
            text or _(b"cannot remove git tags"),
            hint=_(b"the git documentation heavily discourages editing tags"),
        )
    tags = [it.strip() for it in given]
    if len({*tags}) < len(tags):
        raise error.Abort(_(b"tag names must be unique"))
    with repo.wlock(), repo.lock():
        _make_tags(_opened(repo), ctx, tags)


def _make_tags(store: GitStore, ctx: Any, tags: Sequence[bytes]) -> None:
    """Make lightweight tags of git on the commit of ``ctx``."""
    repo, found = store.repo, {}
    for name in tags:
        ref, shown = TAGS + encoding.fromlocal(name), printable(name)
        # as git tag does it: ``-`` would begin an option
        if not name or name.startswith(b"-") or escaped(ref) != ref:
            raise error.Abort(_(b"the name '%s' is not a valid git tag") % shown)
        scmutil.checknewlabel(repo, name, b"tag")
        if scmutil.isrevsymbol(repo, name):
            raise error.Abort(_(b"the name '%s' already exists") % shown)
        found[ref] = name
    pushes.tell_export(store)
    commit = _commit(store, ctx.node())
    if commit is None:
        raise error.Abort(
            _(b"changeset %s has no commit in git") % ctx,
            hint=_(b"secret changesets are not exported; see amalgam.git.export"),
        )
    for name in tags:
        repo.ui.debug(one_line(_(b"adding git tag %s") % name))
    hggitfiles.make_tags(store, found, commit, ctx.node())


def _commit(store: GitStore, node: bytes) -> bytes | None:
    """Return the commit of a changeset, in hex; export it if it has none."""
    with contextlib.closing(ImportedCommits(store.repo, store)) as imported:
        for oid in imported.commits([node]):
            return bytes(oid)
    export.export(store, [store.repo[node].rev()])
    with contextlib.closing(store.open_map()) as oidmap:
        (made,) = oidmap.oids([node])
    return hex_node(made) if made else None


def _ignored(ui: UiT, repo: RepoT, name: bytes) -> Iterator[bytes]:
    """Yield the changesets of the commits in the file ``name``, which may be absent."""
    lines = (line.partition(b"#")[0].strip() for line in repo.wvfs.tryreadlines(name))
    oids = [it for it in lines if _OID.fullmatch(it)]
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    with contextlib.closing(ids.opened(repo, store)) as oidmap:
        nodes = oidmap.changesets([bin_node(it) for it in oids])
    for oid, node in zip(oids, nodes, strict=True):
        if node and repo.changelog.hasnode(node):
            text = _(b"skipping %s -> %s") % (oid[:_SHORT], short(node))
            ui.debug(one_line(text))
            yield hex_node(node)


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
