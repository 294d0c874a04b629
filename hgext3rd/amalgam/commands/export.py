"""The command ``git::export``, with its options --estimate and --adopt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import cmdutil, error, logcmdutil, pycompat, util
from mercurial.i18n import _
from mercurial.node import hex as hex_node

from ..background import begin, end_quickly
from ..config import GitConfig
from ..damage import is_repository_error
from ..files import hinting_at_room
from ..gitstore import refusednames
from ..gitstore.estimate import Contents, Forecast, free_bytes
from ..gitstore.export import export, exporter, maintenance, warnings
from ..gitstore.export.metadatacommit import Covers
from ..gitstore.git.refs import LONGEST_NAME, LONGEST_PART
from ..gitstore.store import GitStore, has_foreign_ids
from ..terminal import counted, cut, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.adopt.adopt import Adoption


_MOST_SHOWN = 3
_LONGEST_SHOWN = 40

_LEFT_OUT = {
    warnings.LeftOutReason.SECRET: (
        (b"secret changeset", b""),
        _(b"see 'hg help phases' for how to make them drafts"),
    ),
    warnings.LeftOutReason.HIDDEN: (
        (b"hidden changeset", b""),
        _(b"what is hidden here is hidden in git"),
    ),
    warnings.LeftOutReason.DRAFT: (
        (b"draft changeset", b""),
        _(b"publish them, or set amalgam.git.export to served"),
    ),
    warnings.LeftOutReason.TOPIC: (
        (b"changeset", b" with a topic"),
        _(b"publish them"),
    ),
    warnings.LeftOutReason.VIEW: (
        (b"changeset", b" not served"),
        _(b"what a server hides is hidden in git"),
    ),
}
_DIFFERENT = {
    warnings.DifferenceKind.REFUSED: _(
        b"git refuses to check out commits with %s, because of the names"
    ),
    warnings.DifferenceKind.LEFT_OUT: _(
        b"%s left out, as hg-git does, because of the names"
    ),
    warnings.DifferenceKind.SUBREPOSITORIES: _(
        b"subrepositories are not exported, only %s naming them"
    ),
    warnings.DifferenceKind.LARGEFILES: _(
        b"%s of largefiles exported as standins, without contents"
    ),
    warnings.DifferenceKind.LFS: _(
        b"%s in LFS exported as pointers of git-lfs, without contents"
    ),
}


def run(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """Answer ``git::export``."""
    end_quickly()
    config = GitConfig.from_ui(ui, dialect=opts["dialect"])
    _check_adoption(opts)
    revs = logcmdutil.revrange(repo, opts["rev"]) if opts["rev"] else None
    store = GitStore(repo, config)
    if opts["metadata"] and not config.keeps_metadata:
        raise error.InputError(
            _(b"no metadata in dialect '%s': git-cinnabar gives other commit ids")
            % config.dialect,
            hint=_(b"export with '--dialect cinnabar' for git-cinnabar"),
        )
    adopted = _adopt(ui, store, opts)
    if opts["metadata"] and has_foreign_ids(repo):
        raise error.StateError(
            _(b"git-cinnabar would give some changesets other commit ids"),
            hint=_(b"git-cinnabar cannot use this repository"),
        )
    covers = Covers.ALL if opts["metadata"] else None
    hint = _(
        b"see 'hg git::export --estimate'; set amalgam.git.path to a directory of a "
        b"larger file system"
    )
    with hinting_at_room(store.repository.path, hint):
        report = export.export(store, revs, rebuild=opts["rebuild"], covers=covers)
    if revs is None:
        exporter.forget_failure(store.repo)
    left_out = warnings.left_out(store.repo, store.config.export, revs or ())
    is_nothing = revs is not None and len(revs) == sum(len(it.nodes) for it in left_out)
    with ui.formatter(b"git-export", _byte_keys(opts)) as fm:
        fm.startitem()
        if adopted:
            _show_adoption(ui, fm, adopted)
        fm.data(
            bytes=report.bytes,
            changesets=report.changesets,
            deleted=report.deleted,
            dialect=config.dialect,
            gone=report.gone,
            objects=report.objects,
            pack=report.pack.encode(),
            path=report.path,
            refs=report.refs,
            seconds=round(report.seconds, 3),
        )
        _show_left_out(ui, fm, left_out)
        if is_nothing and not left_out:
            ui.warn(_(b"warning: not exported: -r/--rev names no changesets\n"))
        did_something = bool(report.changesets or report.refs)
        if did_something:
            _show_done(ui, fm, report)
        elif not is_nothing:
            _status(ui, fm, _(b"nothing new to export"))
        if did_something or not fm.isplain():
            found = _remarks(store, report, revs, everything=not fm.isplain())
            if found is not None:
                _show_remarks(ui, fm, found)
        if did_something or ui.verbose:
            _status(ui, fm, _(b"git repository: %s") % report.path)
            if config.keeps_metadata and store.docket().is_exact:
                _status(ui, fm, _(b"git-cinnabar cannot use this repository"))
    maintenance.after_export(store)
    return 1 if is_nothing and left_out else 0


def _check_adoption(opts: dict[str, Any]) -> None:
    """Abort if options are given that have no meaning together."""
    if not opts["adopt"]:
        for name in ("map", "full"):
            if opts[name]:
                text = _(b"--%s has a meaning only with --adopt")
                raise error.InputError(text % name.encode())
    elif opts["rev"]:
        raise error.InputError(_(b"cannot specify both --adopt and --rev"))


def _adopt(ui: UiT, store: GitStore, opts: dict[str, Any]) -> Adoption | None:
    """Answer --adopt, if it is given."""
    if not opts["adopt"]:
        return None
    from ..gitstore.adopt import adopt  # seldom needed

    return adopt.adopt(
        store,
        opts["adopt"],
        opts["map"] or None,
        full=bool(opts["full"]),
        rebuild=bool(opts["rebuild"]),
    )


def _show_adoption(ui: UiT, fm: Any, adopted: Adoption) -> None:
    fm.data(
        adopted=adopted.changesets,
        adopted_kept=adopted.kept,
        adopted_unknown=adopted.unknown,
        adopted_unserved=adopted.unserved,
    )
    _status(
        ui,
        fm,
        _(b"adopted the commits of %s") % counted(adopted.changesets, b"changeset"),
    )
    if not adopted.kept:
        _status(ui, fm, _(b"all are those of the dialect: no ids have to be kept"))
    if adopted.unknown:
        line = _(b"left out: %s not in this repository")
        _status(ui, fm, line % counted(adopted.unknown, b"changeset"))
    if adopted.unserved:
        line = _(b"left out: %s secret, hidden or not exported")
        _status(ui, fm, line % counted(adopted.unserved, b"changeset"))


def maintain(ui: UiT, repo: RepoT) -> None:
    """Answer ``debug::amalgam-maintenance``."""
    begin(repo, maintenance.COMMAND)
    gone = maintenance.run(GitStore(repo, GitConfig.from_ui(ui)))
    ui.status(one_line(_(b"%s fewer") % counted(gone, b"pack")))


def _remarks(
    store: GitStore, report: export.Report, revs: Any, *, everything: bool
) -> warnings.ExportWarnings | None:
    """Return warnings after a successful export; None if changesets are damaged."""
    try:
        return warnings.ExportWarnings.of(store, report, revs, everything=everything)
    except Exception as exc:
        # it reads changesets that the export had no need to read
        if not is_repository_error(exc):
            raise
        problem = _(b"warning: repository is damaged: %s") % pycompat.bytestr(exc)
        store.repo.ui.warn(one_line(problem))
        store.repo.ui.warn(_(b"(see 'hg verify')\n"))
        return None


def _show_done(ui: UiT, fm: Any, report: export.Report) -> None:
    if report.changesets:
        line = _(b"exported %s: %s, %s in %.2f seconds") % (
            counted(report.changesets, b"changeset"),
            counted(report.objects, b"object"),
            util.bytecount(report.bytes),
            report.seconds,
        )
        _status(ui, fm, line)
    if report.again:
        line = _(b"%s gone, so all drafts were converted again")
        _status(ui, fm, line % counted(report.gone, b"exported draft"))
        hint = _(b"(publish changesets that are final, see 'hg help phases')")
        _status(ui, fm, hint)
    if report.deleted:
        line = _(b"%s changed, %d of them deleted")
        _status(ui, fm, line % (counted(report.refs, b"ref"), report.deleted))
    elif report.refs:
        _status(ui, fm, _(b"%s changed") % counted(report.refs, b"ref"))


def _show_left_out(ui: UiT, fm: Any, left_out: Sequence[warnings.LeftOut]) -> None:
    with fm.nested(b"left_out", tmpl=b"{reason} {nodes}\n") as nested:
        for group in left_out:
            nodes = list(map(hex_node, group.nodes))
            reason = group.reason.value.encode()
            nested.startitem()
            nested.data(reason=reason, nodes=fm.formatlist(nodes, b"node"))
            (noun, clause), hint = _LEFT_OUT[group.reason]
            text = counted(len(nodes), noun) + clause
            shown = b", ".join(node[:12] for node in nodes[:_MOST_SHOWN])
            if len(nodes) > _MOST_SHOWN:
                shown += b", ..."
            line = _(b"warning: not exported: %s (%s)") % (text, shown)
            ui.warn(one_line(line))
            ui.warn(one_line(b"(%s)" % hint))


def _show_remarks(ui: UiT, fm: Any, found: warnings.ExportWarnings) -> None:
    fm.data(
        long_names=len(found.too_long),
        topics=found.topics,
        unreachable=found.unreachable,
        unreachable_heads=found.heads,
    )
    if found.unreachable:
        line = _(b"no ref leads to %s in %s")
        line %= (
            counted(found.unreachable, b"changeset"),
            counted(found.heads, b"head"),
        )
        _status(ui, fm, line)
        _status(ui, fm, _(b"(add 'heads' to amalgam.git.refs to name them)"))
    if found.too_long:
        line = _(b"%s too long for git, without a ref: %s")
        first = found.too_long[0]
        shown = cut(first, _LONGEST_SHOWN)
        shown += b"..." if shown != first else b""
        _status(ui, fm, line % (counted(len(found.too_long), b"name"), shown))
        line = _(b"(rename them: at most %d bytes between slashes, and %d altogether)")
        _status(ui, fm, line % (LONGEST_PART, LONGEST_NAME))
    if found.topics:
        line = _(b"left out until published: %s with a topic")
        _status(ui, fm, line % counted(found.topics, b"changeset"))
    with fm.nested(b"different", tmpl=b"{kind} {files} {example}\n") as nested:
        for group in found.different:
            nested.startitem()
            nested.data(
                kind=group.kind.value.encode(),
                files=group.files,
                example=group.example,
            )
            text = _DIFFERENT[group.kind] % counted(group.files, b"file")
            ui.warn(one_line(_(b"warning: %s: %s") % (text, group.example)))
            if group.kind is warnings.DifferenceKind.REFUSED:
                command = refusednames.clone_command(group.example, b"URL")
                line = _(b"(rename them; until then, git users type: %s)")
                ui.warn(one_line(line % command))
            elif group.kind is warnings.DifferenceKind.LEFT_OUT:
                line = _(b"(rename them; commits that were pulled from git have them)")
                ui.warn(one_line(line))


def _status(ui: UiT, fm: Any, text: bytes) -> None:
    if not ui.quiet:
        fm.plain(one_line(text))


def _byte_keys(opts: dict[str, Any]) -> dict[bytes, Any]:
    return {name.encode(): value for name, value in opts.items()}


_OTHERS = ("rev", "rebuild", "metadata", "adopt", "map", "full")


def show_estimate(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """Answer ``git::export --estimate``."""
    cmdutil.check_incompatible_arguments(opts, "estimate", _OTHERS)
    store = GitStore(repo, GitConfig.from_ui(ui, dialect=opts["dialect"]))
    contents = Contents.of(store.repo)
    forecast = Forecast.of(contents)
    free = free_bytes(store)
    changesets, manifests, files = contents[:3]
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with ui.formatter(b"git-export-estimate", byte_opts) as fm:
        fm.startitem()
        fm.data(
            changesets=changesets.revisions,
            changeset_bytes=changesets.stored_bytes,
            cpu_seconds=round(forecast.cpu_seconds, 2),
            disk_bytes=forecast.disk_bytes,
            exists=bool(store.docket().packs),
            files=contents.files,
            file_bytes=files.stored_bytes,
            file_revisions=files.revisions,
            free_bytes=free,
            levels=contents.levels,
            manifests=manifests.revisions,
            manifest_bytes=manifests.stored_bytes,
            path=store.repository.path,
            text_bytes=files.text_bytes,
        )
        disk, room = map(util.bytecount, (forecast.disk_bytes, free))
        seconds = _(b"about %.1f seconds of processor time, all cores together")
        there = _(b"%s, %s, %s of %s")
        there %= (
            counted(changesets.revisions, b"changeset"),
            counted(manifests.revisions, b"manifest"),
            counted(files.revisions, b"revision"),
            counted(contents.files, b"file"),
        )
        size = _(b"%s stored (changesets %s, manifests %s, files %s), %s of text")
        stored = [it.stored_bytes for it in (changesets, manifests, files)]
        size %= (*map(util.bytecount, (sum(stored), *stored, files.text_bytes)),)
        for label, text in (
            (_(b"history"), there),
            (_(b"size"), size),
            (_(b"disk"), _(b"about %s, of %s that are free") % (disk, room)),
            (_(b"time"), seconds % forecast.cpu_seconds),
        ):
            fm.plain(one_line(b"%-8s %s" % (label, text)))
        if not ui.quiet:
            hint = _(b"(by rates of other repositories; see 'hg help git::export')")
            fm.plain(one_line(hint))
    if forecast.disk_bytes > free:
        text = _(b"warning: too little disk space: %s are needed, %s are free")
        ui.warn(one_line(text % (disk, room)))
        ui.warn(_(b"(set amalgam.git.path to a directory of a larger file system)\n"))
    return 0
