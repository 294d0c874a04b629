"""Bundles: their rows in ``admin::amalgam``, and the process in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import templatefilters, util
from mercurial.i18n import _

from ..bundles import extension as lifecycle
from ..bundles.lifecycle import urls
from ..terminal import one_line

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

    from ..bundles.status import BundlesStatus, Row


def run(ui: UiT, repo: RepoT) -> None:
    """Answer ``debug::amalgam-bundles``."""
    lifecycle.generate_in_background(ui, repo)


def show(fm: Any, status: BundlesStatus) -> None:
    """Show what ``admin::amalgam`` tells of bundles; nothing where there are none."""
    if status.rows:
        fm.plain(b"\n")
        heading = _(b"bundles, for %d public changesets") % status.public
        fm.plain(one_line(heading), label=b"amalgam.heading")
    with fm.nested(b"bundles", tmpl=b"{format} {state} {url}\n") as nested:
        for row in status.rows:
            nested.startitem()
            nested.data(
                age=row.age_seconds,
                bytes=row.bytes,
                changesets=row.changesets,
                covered=round(_covered(row, status), 4),
                format=row.format,
                missing=row.missing,
                name=row.name,
                state=row.state,
                token=row.token,
                url=row.url,
            )
            nested.plain(one_line(b"  %-13s %s" % (row.format, _explain(row))))
            if row.url:
                nested.plain(one_line(b"  %-13s %s" % (b"", _where(row))))


def _covered(row: Row, status: BundlesStatus) -> float:
    return row.changesets / status.public if status.public else 0.0


def _explain(row: Row) -> bytes:
    if row.state == b"generating":
        return _(b"is being generated")
    if row.state == b"dead":
        return _(b"was not finished; the next generator removes it")
    text = _(b"%d changesets") % row.changesets
    if row.bytes:
        text += b", %s" % util.bytecount(row.bytes)
    if row.made:
        text += b", %s" % templatefilters.age((row.made, 0))
    if row.state == b"live":
        text += b", %s" % _freshness(row)
    if row.state == b"kept":
        text += _(b", replaced")
    if row.state == b"stale":
        text += _(b", no longer valid")
    return text


def _freshness(row: Row) -> bytes:
    if row.next:
        return _(b"continued by %s") % row.next
    if row.missing:
        return _(b"without %d newer changesets") % row.missing
    return _(b"up to date")


def _where(row: Row) -> bytes:
    if urls.is_relative(row.url):
        return _(b"by hgweb, at %s") % row.url
    return row.url
