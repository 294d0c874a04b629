"""The command ``git::verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial.i18n import _

from ..config import GitConfig
from ..gitstore import verify
from ..gitstore.export import metadatacommit
from ..gitstore.store import GitStore
from ..terminal import counted, one_line

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.verify import Findings


def run(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """Answer ``git::verify``."""
    store = GitStore(repo, GitConfig.from_ui(ui))
    store.require_trust()
    metadatacommit.catch_up(store)
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
            nested.plain(one_line(difference.line()), label=b"amalgam.problem")
    with fm.nested(b"notes", tmpl=b"{what} {id}\n") as nested:
        for note in findings.notes:
            nested.startitem()
            nested.data(what=note.what, id=note.id, text=note.text)
            nested.plain(one_line(note.line()), label=b"amalgam.note")
    fm.data(
        changesets=findings.changesets,
        full=findings.full,
        objects=findings.objects,
        packs=findings.packs,
        refs=findings.refs,
        unreachable=findings.unreachable,
    )
    checked = _(b"checked %s, %s, %s, %s") % (
        counted(findings.changesets, b"changeset"),
        counted(findings.objects, b"object"),
        counted(findings.refs, b"ref"),
        counted(findings.packs, b"pack"),
    )
    fm.plain(one_line(checked))
    if not findings.differences:
        fm.plain(_(b"no differences\n"), label=b"amalgam.good")
        return
    fm.plain(one_line(counted(len(findings.differences), b"difference")))
    fm.plain(one_line(_(b"(run '%s')") % _what_mends(findings)))


def _what_mends(findings: Findings) -> bytes:
    if findings.remedy in (verify.Remedy.EXPORT, verify.Remedy.WITHDRAW):
        return b"hg git::export"
    if findings.remedy is verify.Remedy.REBUILD and findings.full:
        return b"hg git::export --rebuild"  # a repair would not look that deep
    return b"hg admin::amalgam --repair"
