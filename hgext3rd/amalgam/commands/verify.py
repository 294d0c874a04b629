"""The command that checks the git side: ``git::verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import exthelper, registrar
from mercurial.cmdutil import formatteropts
from mercurial.i18n import _

from ..configitems import GitConfig
from ..gitstore import export, verify

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.verify import Findings

eh = exthelper.exthelper()


@eh.command(
    b"git::verify",
    [
        (b"", b"full", False, _(b"compute every id again, and let git check all")),
        *formatteropts,
    ],
    _(b"[--full]"),
    helpcategory=registrar.command.CATEGORY_MAINTENANCE,
)
def git_verify(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """check the git repository against the history

    Check that what :hg:`git::export` has made is whole and says the same as this
    repository:

    - the packs of the git repository, and the map of ids, are as they were written;
    - each changeset that is served has a commit, and no other changeset has one;
    - git finds all commits, trees and files that the map names;
    - branches, tags and HEAD are those of this repository, and nothing that
      somebody else put there hides or adds any.

    Each difference is named on a line of its own: what it is about, what was found,
    and what was expected. :hg:`admin::amalgam --repair` mends them. Lines that begin
    with ``note:`` are worth knowing, but nothing is wrong: file names that git
    refuses to check out, or changesets that no branch or tag leads to.

    With --full, all changesets are converted again, in a temporary directory (see
    ``TMPDIR``), and every id and object is compared; git's own ``git fsck`` looks at
    everything, too. That takes as long as an export from nothing, and git longer.

    Template keywords:

    :differences: List. What is wrong, with ``what``, ``id``, ``found``, ``expected``.
    :notes:       List. What is worth knowing, with ``what``, ``id``, ``text``.
    :changesets:  Integer. Changesets that are served.
    :objects:     Integer. Git objects that were looked up.
    :packs:       Integer. Packs that were read.
    :refs:        Integer. Refs that were compared.
    :unreachable: Integer. Changesets that no ref leads to.
    :full:        Boolean. Whether every id was computed again.
    :path:        String. The git repository.

    Returns 0 if nothing differs, 1 if something does.
    """
    store = export.GitStore(repo, GitConfig.from_ui(ui))
    findings = verify.run(store, full=opts["full"])
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with ui.formatter(b"git-verify", byte_opts) as fm:
        fm.startitem()
        _show(fm, findings)
        fm.data(path=store.repository.path)
    return 1 if findings.differences else 0


def _show(fm: Any, findings: Findings) -> None:
    with fm.nested(b"differences", tmpl=b"{what} {id}\n") as nested:
        for difference in findings.differences:
            nested.startitem()
            nested.data(
                what=difference.what,
                id=difference.id,
                found=difference.found,
                expected=difference.expected,
            )
            nested.plain(difference.line())
    with fm.nested(b"notes", tmpl=b"{what} {id}\n") as nested:
        for note in findings.notes:
            nested.startitem()
            nested.data(what=note.what, id=note.id, text=note.text)
            nested.plain(note.line())
    fm.data(
        changesets=findings.changesets,
        full=findings.full,
        objects=findings.objects,
        packs=findings.packs,
        refs=findings.refs,
        unreachable=findings.unreachable,
    )
    fm.plain(
        _(b"checked %d changesets, %d objects, %d refs, %d packs\n")
        % (findings.changesets, findings.objects, findings.refs, findings.packs)
    )
    if not findings.differences:
        fm.plain(_(b"no differences\n"))
        return
    fm.plain(_(b"%d differences\n") % len(findings.differences))
    fm.plain(_(b"(run '%s')\n") % _what_mends(findings))


def _what_mends(findings: Findings) -> bytes:
    if findings.remedy in (verify.Remedy.EXPORT, verify.Remedy.WITHDRAW):
        return b"hg git::export"
    if findings.remedy is verify.Remedy.REBUILD and findings.full:
        return b"hg git::export --rebuild"  # a repair would not look that deep
    return b"hg admin::amalgam --repair"
