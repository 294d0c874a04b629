"""The command that makes the git side: ``git::export``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import exthelper, logcmdutil, registrar, util
from mercurial.cmdutil import formatteropts
from mercurial.i18n import _

from ..configitems import GitConfig
from ..gitstore import export

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

eh = exthelper.exthelper()


@eh.command(
    b"git::export",
    [
        (b"r", b"rev", [], _(b"export only these and their ancestors"), _(b"REV")),
        (b"", b"dialect", b"", _(b"whose commit ids to make"), _(b"DIALECT")),
        (b"", b"rebuild", False, _(b"forget what was exported and start afresh")),
        *formatteropts,
    ],
    _(b"[-r REV]... [--dialect DIALECT] [--rebuild]"),
    helpcategory=registrar.command.CATEGORY_REMOTE_REPO_MANAGEMENT,
)
def git_export(ui: UiT, repo: RepoT, **opts: Any) -> None:
    """bring the git repository up to date

    Convert the changesets that are new since the last export, and make the
    branches and tags of the git repository those of this repository. Only what
    a server would show to its clients is exported: neither secret nor hidden
    changesets.

    The git repository is ``.hg/amalgam/git/cinnabar.git``, or where
    ``amalgam.git.path`` says. Clone it with git, or let any other git tool read it.

    With -r/--rev, only the given revisions and their ancestors are exported, and
    only branches and tags among what has been exported so far are named.

    Template keywords:

    :changesets: Integer. Changesets converted.
    :objects: Integer. Git objects written.
    :bytes:   Integer. Size of the pack written.
    :pack:    String. Name of that pack, empty if there was nothing to convert.
    :refs:    Integer. Git refs that are new, gone or moved.
    :seconds: Float. Time taken.
    :dialect: String. Whose commit ids were made.
    :path:    String. The git repository.
    """
    config = GitConfig.from_ui(ui, dialect=opts["dialect"])
    revs = logcmdutil.revrange(repo, opts["rev"]) if opts["rev"] else None
    report = export.GitStore(repo, config).export(revs, rebuild=opts["rebuild"])
    with ui.formatter(b"git-export", _byte_keys(opts)) as fm:
        fm.startitem()
        fm.data(
            bytes=report.bytes,
            changesets=report.changesets,
            dialect=config.dialect,
            objects=report.objects,
            pack=report.pack.encode(),
            path=report.path,
            refs=report.refs,
            seconds=round(report.seconds, 3),
        )
        if ui.quiet:
            return
        if report.changesets:
            fm.plain(
                _(b"exported %d changesets: %d objects, %s in %.2f seconds\n")
                % (
                    report.changesets,
                    report.objects,
                    util.bytecount(report.bytes),
                    report.seconds,
                )
            )
        if report.refs:
            fm.plain(_(b"%d refs changed\n") % report.refs)
        if not report.changesets and not report.refs:
            fm.plain(_(b"nothing new to export\n"))


def _byte_keys(opts: dict[str, Any]) -> dict[bytes, Any]:
    return {name.encode(): value for name, value in opts.items()}
